import { A as StepTimeoutError, G as InvalidInputError, I as RunClosedError, L as RunNotFoundError, O as RunTerminatedError, P as RunAlreadyExistsError, S as DeadlineExceededError, U as payloadToJson, V as payloadFromJson, W as jsonCodec, r as retryDelay, t as isRetryable, tt as HoldfastError, u as trimmed, v as serializeError } from "./retry-JkheHewo.js";
import { createRequire, isBuiltin } from "node:module";
import { closeSync, mkdirSync, openSync, readSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
// packages/holdfast/src/store/errors.ts
/** A condition of the storage that is none of those below. */
var StoreError = class extends HoldfastError {
	constructor(message, details = { code: "HF_STORE_FAILED" }) {
		const { code, cause, retryable = false } = details;
		super(message, {
			code,
			cause,
			retryable
		});
	}
};
/** The store was closed, or not opened yet. */
var StoreClosedError = class extends StoreError {
	constructor({ where }) {
		super(`The store ${where} is not open.\nCall open() first, and nothing after close().`, { code: "HF_STORE_CLOSED" });
	}
};
/** Another process held the write lock for longer than we wait. */
var StoreBusyError = class extends StoreError {
	constructor({ where, seconds, cause }) {
		super(`${where} was locked by another connection for ${seconds} s.\nLook for a process that keeps a transaction open on the file (a shell in the middle of BEGIN, a backup, a long migration) and end it.`, {
			code: "HF_STORE_BUSY",
			cause,
			retryable: true
		});
	}
};
/** The file, or the folder that it should be in, can't be opened. */
var StoreOpenError = class extends StoreError {
	constructor({ where, reason, cause }) {
		super(`${where} can't be opened: ${reason}\nCheck the path and the permissions of the file and its folder.`, {
			code: "HF_STORE_CANNOT_OPEN",
			cause
		});
	}
};
/** It holds something else than a Holdfast database. */
var StoreForeignError = class extends StoreError {
	constructor({ where, reason, cause }) {
		super(`${where} is not a database of Holdfast: ${reason}\nName another file; this one was left as it is.`, {
			code: "HF_STORE_FOREIGN",
			cause
		});
	}
};
/** Written by a newer Holdfast than this one. */
var StoreVersionError = class extends StoreError {
	found;
	known;
	constructor({ where, found, known }) {
		super(`${where} has schema version ${found}; this Holdfast knows versions up to ${known}.\nUpdate the holdfast package of this process, or name another file; this one was left as it is.`, { code: "HF_STORE_NEWER" });
		this.found = found;
		this.known = known;
	}
};
var StoreCorruptError = class extends StoreError {
	constructor({ where, cause }) {
		super(`${where} is damaged.\nStop every process that uses it and restore a backup, or save what can be read with "sqlite3 <file> .recover".`, {
			code: "HF_STORE_CORRUPT",
			cause
		});
	}
};
var StoreReadOnlyError = class extends StoreError {
	constructor({ where, cause }) {
		super(`${where} can't be written to.\nMake the file and its folder writable for this process.`, {
			code: "HF_STORE_READ_ONLY",
			cause
		});
	}
};
var StoreFullError = class extends StoreError {
	constructor({ where, cause }) {
		super(`There is no room left for ${where}. Nothing of this call was written.\nFree some space on the disk; the store works on once there is.`, {
			code: "HF_STORE_FULL",
			cause,
			retryable: true
		});
	}
};
/** The file under an open store is gone, or is another one. */
var StoreMovedError = class extends StoreError {
	constructor({ where, what }) {
		super(`${where} was ${what} while it was open. Nothing more is written: it would be lost.\nPut the file back, or restart this process to begin with what is there now.`, { code: "HF_STORE_MOVED" });
	}
};
// packages/holdfast/src/store/sqlite/failures.ts
const SQLITE = {
	BUSY: 5,
	LOCKED: 6,
	READONLY: 8,
	IOERR: 10,
	CORRUPT: 11,
	FULL: 13,
	CANTOPEN: 14,
	PROTOCOL: 15,
	NOTADB: 26
};
const LOW_BYTE = 255;
const CONSTRAINT = 19;
/** An error of SQLite, whichever driver brought it. Functions of transactions see these. */
var SqliteFailure = class extends Error {
	name = "SqliteError";
	code;
	/** Primary result code. */
	result;
	constructor(message, result, cause) {
		super(message, { cause });
		this.result = result;
		const name = result === CONSTRAINT ? "CONSTRAINT" : Object.entries(SQLITE).find(([, code]) => code === result)?.[0];
		this.code = `SQLITE_${name ?? "ERROR"}`;
	}
};
/** The error itself if it is not SQLite's. */
function sqliteFailure(error) {
	if (!(error instanceof Error) || error instanceof SqliteFailure) return error;
	const { rawCode, errcode } = error;
	const code = typeof rawCode === "number" ? rawCode : errcode;
	if (typeof code === "number") return new SqliteFailure(error.message, code & LOW_BYTE, error);
	const atOpen = /ConnectionFailed\(.*: (\d+)"\)$/.exec(error.message);
	return atOpen === null ? error : new SqliteFailure("unable to open database file", Number(atOpen[1]) & LOW_BYTE, error);
}
/** Somebody else holds a lock that will be let go: worth waiting for. */
function isBusy(error) {
	return error instanceof SqliteFailure && (error.result === SQLITE.BUSY || error.result === SQLITE.LOCKED || error.result === SQLITE.PROTOCOL);
}
/** The storage is at fault, not what was asked of it: trying the parts one by one would not help. */
function isStorageFault(error) {
	const faults = [
		SQLITE.READONLY,
		SQLITE.IOERR,
		SQLITE.CORRUPT,
		SQLITE.FULL,
		SQLITE.CANTOPEN,
		SQLITE.NOTADB
	];
	return error instanceof StoreError || error instanceof SqliteFailure && faults.includes(error.result);
}
/** For people. `where` names the file. */
function storeError(error, where) {
	if (!(error instanceof SqliteFailure)) return error;
	const { cause } = error;
	switch (error.result) {
		case SQLITE.FULL: return new StoreFullError({
			where,
			cause
		});
		case SQLITE.CORRUPT: return new StoreCorruptError({
			where,
			cause
		});
		case SQLITE.NOTADB: return new StoreForeignError({
			where,
			reason: "the file is no SQLite database.",
			cause
		});
		case SQLITE.READONLY: return new StoreReadOnlyError({
			where,
			cause
		});
		case SQLITE.CANTOPEN: return new StoreOpenError({
			where,
			reason: "SQLite can't open the file.",
			cause
		});
		default: return new StoreError(`${where} could not be used: ${error.message} (SQLite result code ${error.result}).`, {
			code: "HF_STORE_FAILED",
			cause,
			retryable: error.result === SQLITE.IOERR
		});
	}
}
// packages/holdfast/src/store/sqlite/sqlText.ts
const TOKEN = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|[:@$][\p{L}\p{N}_]+|\?\d*|[\p{L}_][\p{L}\p{N}_$]*|\p{N}[\p{L}\p{N}_.]*|;/gu;
const PASSED_OVER = /^(?:--|\/\*|['"`[]|\p{N})/u;
function* tokensOf(sql) {
	for (const match of sql.matchAll(TOKEN)) if (!PASSED_OVER.test(match[0])) yield {
		text: match[0],
		at: match.index
	};
}
/** The statements of a text, one by one. A trigger is one, with those of its body. */
function statementsOf(sql) {
	const statements = [];
	let start = 0;
	let words = [];
	const finish = (end) => {
		const [verb] = words;
		if (verb !== void 0) statements.push({
			sql: sql.slice(start, end),
			verb
		});
		start = end;
		words = [];
	};
	for (const { text, at } of tokensOf(sql)) if (text !== ";") words.push(text.toLowerCase());
	else if (!isInsideTrigger(words)) finish(at + 1);
	finish(sql.length);
	return statements;
}
/** Up to the END of its body; each CASE has one as well. */
function isInsideTrigger(words) {
	if (words[0] !== "create" || !words.slice(1, 3).includes("trigger")) return false;
	const count = (word) => words.filter((one) => one === word).length;
	return count("end") <= count("case");
}
/** Names of parameters (`:id`, `@id`, `$id`) in the order in which SQLite numbers them; undefined if some have none. */
function parameterNames(sql) {
	const names = /* @__PURE__ */ new Set();
	for (const { text } of tokensOf(sql)) {
		if (text.startsWith("?")) return void 0;
		if (/^[:@$]/.test(text)) names.add(text);
	}
	return [...names];
}
// packages/holdfast/src/store/sqlite/driver.ts
const require = createRequire(import.meta.url);
/** Opens the file, which need not exist; its folder must. */
function openDriver(path, name = preferredDriver()) {
	return guarded(() => name === "node:sqlite" ? openNode(path) : openLibsql(path));
}
/** From 22.5 to 22.12 Node has it only behind a flag. */
function preferredDriver() {
	try {
		if (isBuiltin("node:sqlite") && loadNodeSqlite() !== void 0) return "node:sqlite";
	} catch {}
	return "libsql";
}
/** Every error of a library passes here, so that the rest of the store sees one kind. */
function guarded(work) {
	try {
		return work();
	} catch (error) {
		throw sqliteFailure(error);
	}
}
/** The module says at its first load that it is experimental; nobody who uses Holdfast can do anything about that. */
function loadNodeSqlite() {
	const { emitWarning } = process;
	process.emitWarning = ((warning, ...rest) => {
		if (!String(warning).includes("SQLite")) Reflect.apply(emitWarning, process, [warning, ...rest]);
	});
	try {
		return require("node:sqlite");
	} finally {
		process.emitWarning = emitWarning;
	}
}
function openNode(path) {
	const { DatabaseSync } = loadNodeSqlite();
	const database = new DatabaseSync(path, { enableForeignKeyConstraints: false });
	return {
		name: "node:sqlite",
		exec: (sql) => guarded(() => database.exec(sql)),
		prepare: (sql) => {
			const statement = guarded(() => database.prepare(sql));
			const isArray = statement.setReturnArrays !== void 0;
			statement.setReturnArrays?.(true);
			const row = (found) => isArray ? found : Object.values(found);
			return {
				run: (parameters) => guarded(() => void statement.get(...parameters)),
				get: (parameters) => guarded(() => {
					const found = statement.get(...parameters);
					return found === void 0 ? void 0 : row(found);
				}),
				all: (parameters) => guarded(() => statement.all(...parameters).map(row))
			};
		},
		prepareNamed: (sql) => {
			const statement = guarded(() => database.prepare(sql));
			return {
				run: (...parameters) => guarded(() => {
					const { changes, lastInsertRowid } = statement.run(...nodeParameters(sql, parameters));
					return {
						changes: Number(changes),
						lastInsertRowid
					};
				}),
				get: (...parameters) => guarded(() => {
					const found = statement.get(...nodeParameters(sql, parameters));
					return found === void 0 ? void 0 : { ...found };
				}),
				all: (...parameters) => guarded(() => statement.all(...nodeParameters(sql, parameters)).map((found) => ({ ...found })))
			};
		},
		close: () => guarded(() => database.close())
	};
}
/** node:sqlite numbers only parameters without a name: those with one are given by it. */
function nodeParameters(sql, parameters) {
	const values = bindable(sql, parameters);
	if (parameters.length !== 1 || !isPlainObject(parameters[0])) return values;
	return [Object.fromEntries((parameterNames(sql) ?? []).map((name, i) => [name, values[i] ?? null]))];
}
function loadLibsql(where) {
	try {
		return require("libsql");
	} catch (cause) {
		throw noSqlite(where, cause);
	}
}
function noSqlite(where, cause) {
	return new StoreOpenError({
		where,
		reason: "this Node has no SQLite of its own, and the package \"libsql\" can't be loaded. Use Node 22.13 or newer, or install libsql.",
		cause
	});
}
function openLibsql(path) {
	const database = new (loadLibsql(path))(path);
	return {
		name: "libsql",
		exec: (sql) => guarded(() => database.exec(sql)),
		prepare: (sql) => {
			const statement = new RenewedStatement(database, sql);
			return {
				run: (parameters) => void statement.use((it) => it.get(parameters)),
				get: (parameters) => statement.use((it) => it.get(parameters)),
				all: (parameters) => statement.use((it) => it.all(parameters))
			};
		},
		prepareNamed: (sql) => {
			const statement = new RenewedStatement(database, sql);
			const named = (row) => {
				const columns = statement.use((it) => it.columns());
				return Object.fromEntries(columns.map(({ name }, i) => [name, plainBytes(row[i] ?? null)]));
			};
			return {
				run: (...parameters) => statement.use((it) => {
					const { changes, lastInsertRowid } = it.run(bindable(sql, parameters));
					return {
						changes,
						lastInsertRowid
					};
				}),
				get: (...parameters) => {
					const row = statement.use((it) => it.get(bindable(sql, parameters)));
					return row === void 0 ? void 0 : named(row);
				},
				all: (...parameters) => statement.use((it) => it.all(bindable(sql, parameters))).map(named)
			};
		},
		close: () => guarded(() => database.close())
	};
}
/** A statement of libsql that has failed once fails for ever: it is prepared again. */
var RenewedStatement = class {
	#database;
	#sql;
	#statement;
	constructor(database, sql) {
		this.#database = database;
		this.#sql = sql;
		guarded(() => this.#prepare());
	}
	use(work) {
		try {
			return work(this.#statement ?? this.#prepare());
		} catch (error) {
			this.#statement = void 0;
			throw sqliteFailure(error);
		}
	}
	#prepare() {
		const statement = this.#database.prepare(this.#sql);
		if (statement.reader) statement.raw(true);
		this.#statement = statement;
		return statement;
	}
};
/** libsql hands out Buffers; what is equal must look equal. */
function plainBytes(value) {
	return Buffer.isBuffer(value) ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : value;
}
/**
* Parameters as a user gives them: in turn, as a list, or as one object of names. Checked here: libsql aborts the process over a boolean
* or a name that it does not find, node:sqlite takes any object for names.
*/
function bindable(sql, parameters) {
	const [only] = parameters;
	if (parameters.length === 1 && Array.isArray(only)) return only.map(bindableValue);
	if (parameters.length === 1 && isPlainObject(only)) return byName(sql, only).map(bindableValue);
	return parameters.map(bindableValue);
}
function bindableValue(value) {
	if (value === void 0 || value === null) return null;
	if (typeof value === "boolean") return Number(value);
	if (typeof value === "string" || typeof value === "number" || typeof value === "bigint" || value instanceof Uint8Array) return value;
	throw new TypeError(`SQLite stores texts, numbers, bigints, bytes and null; a ${Object.prototype.toString.call(value).slice(8, -1)} is none of them.`);
}
function byName(sql, values) {
	const names = parameterNames(sql);
	if (names === void 0) throw new TypeError("The statement has parameters without a name: give their values in turn.");
	return names.map((name) => {
		const key = Object.hasOwn(values, name) ? name : name.slice(1);
		if (!Object.hasOwn(values, key)) throw new TypeError(`There is no value for the parameter ${name}.`);
		return values[key];
	});
}
function isPlainObject(value) {
	if (typeof value !== "object" || value === null) return false;
	const prototype = Object.getPrototypeOf(value);
	return prototype === Object.prototype || prototype === null;
}
// packages/holdfast/src/store/sqlite/columns.ts
/** What SQLite or its drivers may cut short (NUL) or change (half a surrogate pair; whole ones are looked at more closely). */
const SUSPECT = /[\0\uD800-\uDFFF]/;
const UNSAFE = /\0|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
function isSafe(text) {
	return !SUSPECT.test(text) || !UNSAFE.test(text);
}
/** A text for a column; one that SQLite would not keep as it is becomes a blob of UTF-16. */
function text(value) {
	return isSafe(value) ? value : Buffer.from(value, "utf16le");
}
function textOrNull(value) {
	return value === void 0 ? null : text(value);
}
function readText(value) {
	if (typeof value === "string") return value;
	return value instanceof Uint8Array ? Buffer.from(value).toString("utf16le") : String(value ?? "");
}
function readOptionalText(value) {
	return value === null || value === void 0 ? void 0 : readText(value);
}
const ENVELOPE = "{\"$payload\":";
/** Text as it is, bytes as a blob; text that SQLite would not keep, or that looks like the envelope for it, in the core's envelope. */
function payload(value) {
	if (typeof value !== "string") return value;
	return isSafe(value) && !value.startsWith(ENVELOPE) ? value : JSON.stringify({
		$payload: "text",
		data: value
	});
}
function payloadOrNull(value) {
	return value === void 0 ? null : payload(value);
}
function readPayload(value) {
	if (value instanceof Uint8Array) return plainBytes(value);
	const found = String(value);
	return found.startsWith(ENVELOPE) ? payloadFromJson(JSON.parse(found)) : found;
}
function readOptionalPayload(value) {
	return value === null || value === void 0 ? void 0 : readPayload(value);
}
/** Everything of ours that is neither a text nor a payload: JSON, with the codec's tags for Infinity and the like. */
function json(value) {
	return jsonCodec.encode(value);
}
function jsonOrNull(value) {
	return value === void 0 ? null : json(value);
}
function readJson(value) {
	return jsonCodec.decode(String(value));
}
function readOptionalJson(value) {
	return value === null || value === void 0 ? void 0 : readJson(value);
}
function numberOrNull(value) {
	return value ?? null;
}
function readNumber(value) {
	return Number(value);
}
function readOptionalNumber(value) {
	return value === null || value === void 0 ? void 0 : Number(value);
}
function readError(value) {
	return readOptionalJson(value);
}
// packages/holdfast/src/store/sqlite/attempts.ts
function writeAttempt(db, run, execution, row, of) {
	const { seq, number, status, workerId, startedAt, endedAt, retryAt, error } = row;
	db.run(`INSERT OR REPLACE INTO attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, [
		run,
		execution,
		seq,
		number,
		of === "task" ? 1 : 0,
		status,
		text(workerId),
		startedAt,
		numberOrNull(endedAt),
		numberOrNull(retryAt),
		jsonOrNull(error)
	]);
}
/** Of an execution, in order; of steps alone, or of activities as well. */
function readAttempts(db, run, execution, of) {
	return db.all(`SELECT seq, number, task, status, worker_id, started_at, ended_at, retry_at, error FROM attempts
    WHERE run = ? AND execution = ? AND task <= ? ORDER BY seq, number`, [
		run,
		execution,
		of === "all" ? 1 : 0
	]).map((columns) => {
		const [seq, number, task, status, workerId, startedAt, endedAt, retryAt, error] = columns;
		return {
			seq: readNumber(seq),
			number: readNumber(number),
			status: readText(status),
			workerId: readText(workerId),
			startedAt: readNumber(startedAt),
			...endedAt !== null && { endedAt: readOptionalNumber(endedAt) },
			...retryAt !== null && { retryAt: readOptionalNumber(retryAt) },
			...error !== null && { error: readError(error) },
			...task === 1 && { task: true }
		};
	});
}
function loseRunningAttempts(db, run, execution, now) {
	db.run("UPDATE attempts SET status = 'lost', ended_at = ? WHERE run = ? AND execution = ? AND status = 'running' AND task = 0", [
		now,
		run,
		execution
	]);
}
// packages/holdfast/src/store/sqlite/findRun.ts
/** D4: a claim is over when the run has parked or ended, or somebody else has claimed it. Its lease may have run out. */
function isHeld(run, epoch) {
	return run.isOpen && run.isLeased && run.epoch === epoch;
}
const HEAD = `SELECT key, id, status, finished_at, worker_id, resumable, execution, epoch, turns, attempt, rollbacks, last_message, deadline_at,
  parent_id, parent_execution, parent_seq, parent_close FROM runs`;
function findRun(db, id) {
	const row = db.get(`${HEAD} WHERE id = ?`, [text(id)]);
	return row === void 0 ? void 0 : headOf(row);
}
function findByIdempotencyKey(db, key) {
	const row = db.get(`${HEAD} WHERE idempotency_key = ?`, [text(key)]);
	return row === void 0 ? void 0 : headOf(row);
}
function findOpenChildren(db, parentId) {
	if (db.get("SELECT 1 FROM runs WHERE parent_id = ? AND finished_at IS NULL LIMIT 1", [text(parentId)]) === void 0) return [];
	return db.all(`${HEAD} WHERE parent_id = ? AND finished_at IS NULL`, [text(parentId)]).map(headOf);
}
/** K7: whose deadline has come. */
function findLate(db, now, limit) {
	return db.all(`${HEAD} WHERE deadline_at <= ? AND deadline_at IS NOT NULL AND finished_at IS NULL AND expired = 0
    ORDER BY deadline_at LIMIT ?`, [now, limit]).map(headOf);
}
function headOf(row) {
	const [key, id, status, finishedAt, workerId, resumable, execution, epoch, turns, attempt, rollbacks, lastMessage, deadlineAt, ...link] = row;
	const [parentId, parentExecution, parentSeq, parentClose] = link;
	return {
		key: readNumber(key),
		id: readText(id),
		status: readText(status),
		isOpen: finishedAt === null,
		isLeased: readOptionalText(workerId) !== void 0,
		isResumable: resumable === 1,
		execution: readNumber(execution),
		epoch: readNumber(epoch),
		turns: readNumber(turns),
		attempt: readNumber(attempt),
		rollbacks: readNumber(rollbacks),
		lastMessage: readNumber(lastMessage),
		deadlineAt: readOptionalNumber(deadlineAt),
		parent: parentId === null ? void 0 : {
			runId: readText(parentId),
			execution: readNumber(parentExecution),
			seq: readNumber(parentSeq),
			close: readText(parentClose)
		}
	};
}
// packages/holdfast/src/store/sqlite/recordCodec.ts
/** The field that is a payload and has the column `value` to itself. Kinds that are not listed keep all they have in `data`. */
const VALUE_FIELD = {
	start: "input",
	signal: "payload",
	update: "input",
	activity: "input",
	child: "input",
	signalRun: "payload",
	sideEffect: "value",
	completeUpdate: "value",
	commit: "value",
	complete: "value",
	canceled: "value",
	continueAsNew: "input"
};
function toColumns(record, birth) {
	if (record.type === "resolve") {
		const { seq, outcome } = record;
		return outcome.status === "completed" ? [
			"resolve",
			seq,
			null,
			null,
			null,
			null,
			payload(outcome.value)
		] : [
			"resolve",
			seq,
			null,
			null,
			null,
			json(withoutUndefined(outcome)),
			null
		];
	}
	if (record.type === "step" && isBare(record)) return [
		"step",
		record.seq,
		textOrNull(record.unit),
		text(record.name),
		record.n,
		null,
		null
	];
	const columns = [
		record.type,
		null,
		null,
		null,
		null,
		null,
		null
	];
	const valueField = VALUE_FIELD[record.type];
	const repeats = record.type === "start" && birth !== void 0 && saysTheSame(record, birth);
	let data;
	for (const [field, value] of Object.entries(record)) {
		if (value === void 0 || field === "type") continue;
		if (field === "seq") columns[1] = value;
		else if (field === "unit") columns[2] = textOrNull(value);
		else if (field === "name") columns[3] = textOrNull(value);
		else if (field === "n") columns[4] = value;
		else if (repeats && OF_BIRTH.has(field)) continue;
		else if (field === valueField) columns[6] = payload(value);
		else {
			data ??= {};
			data[field] = value;
		}
	}
	if (data !== void 0) columns[5] = json(readable(record.type, data, payloadToJson));
	return columns;
}
const OF_BIRTH = /* @__PURE__ */ new Set([
	"runId",
	"workflow",
	"version",
	"seed",
	"input"
]);
const OF_LOCATION = /* @__PURE__ */ new Set([
	"type",
	"seq",
	"unit",
	"name",
	"n"
]);
/** The most frequent of all records has nothing but its location. */
function isBare(record) {
	for (const field in record) if (!OF_LOCATION.has(field) && record[field] !== void 0) return false;
	return true;
}
/** The columns begin at `from`. */
function fromColumns(columns, birth, from = 0) {
	const type = columns[from];
	const [seq = null, unit = null, name = null] = [
		columns[from + 1],
		columns[from + 2],
		columns[from + 3]
	];
	const [n = null, data = null, value = null] = [
		columns[from + 4],
		columns[from + 5],
		columns[from + 6]
	];
	if (type === "step" && data === null) return {
		type,
		seq: readNumber(seq),
		unit: readText(unit),
		name: readText(name),
		n: readNumber(n)
	};
	const record = { type };
	if (seq !== null) record["seq"] = readOptionalNumber(seq);
	if (type === "resolve") {
		record["outcome"] = value === null ? readJson(data) : {
			status: "completed",
			value: readPayload(value)
		};
		return record;
	}
	if (unit !== null) record["unit"] = readOptionalText(unit);
	if (name !== null) record["name"] = readOptionalText(name);
	if (n !== null) record["n"] = readOptionalNumber(n);
	if (data !== null) Object.assign(record, readable(type, readJson(data), payloadFromJson));
	if (value !== null) record[VALUE_FIELD[type] ?? "value"] = readPayload(value);
	if (type === "start" && !("runId" in record) && birth !== void 0) repeatBirth(record, birth);
	return record;
}
function repeatBirth(record, { runId, workflow, version, seed, input }) {
	Object.assign(record, {
		runId,
		workflow,
		seed,
		input
	}, version !== void 0 && { version });
}
/** Payloads deeper inside, of the few kinds that have any: as JSON, for whoever reads the table. */
function readable(type, data, convert) {
	if (type !== "commit" && type !== "continueAsNew") return data;
	const copy = { ...data };
	if (copy["state"] !== void 0) copy["state"] = convert(copy["state"]);
	for (const list of ["messages", "signals"]) {
		const messages = copy[list];
		if (messages !== void 0) copy[list] = messages.map((message) => converted(message, convert));
	}
	return copy;
}
function converted(message, convert) {
	const copy = withoutUndefined(message);
	for (const field of ["payload", "input"]) if (field in copy) copy[field] = convert(copy[field]);
	return copy;
}
function saysTheSame(start, birth) {
	const { runId, workflow, version, seed, input } = birth;
	return start.runId === runId && start.workflow === workflow && start.version === version && start.seed === seed && samePayload(start.input, input);
}
function samePayload(a, b) {
	if (typeof a === "string" || typeof b === "string") return a === b;
	return Buffer.compare(a, b) === 0;
}
function withoutUndefined(value) {
	const copy = {};
	for (const [field, item] of Object.entries(value)) if (item !== void 0) copy[field] = item;
	return copy;
}
// packages/holdfast/src/store/sqlite/inbox.ts
const INSERT$2 = "INSERT INTO inbox (run, type, seq, name, data, value, received_at) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id";
/** A run that is parked becomes available now; one that has not begun keeps its start, one that is leased its lease. */
const ARRIVED = `UPDATE runs SET last_message = ?1,
  available_at = CASE WHEN worker_id IS NULL AND status <> 'pending' THEN min(coalesce(available_at, ?2), ?2) ELSE available_at END
  WHERE key = ?3`;
/** Into the inbox of an open run. Returns the message's id. */
function putMessage(session, run, job, now) {
	const id = insertMessage(session.db, run, job, now);
	session.db.run(ARRIVED, [
		id,
		now,
		run
	]);
	session.changed("work");
	return id;
}
function insertMessage(db, run, job, now) {
	const [type, seq, , name, , data, value] = toColumns(job);
	const [id] = db.get(INSERT$2, [
		run,
		type,
		seq,
		name,
		data,
		value,
		now
	]) ?? [];
	return readNumber(id);
}
/** The answer to an operation, if it still is one of the run's: closed runs and later executions did not ask. */
function answerOperation(session, runId, execution, seq, outcome, now) {
	const run = findRun(session.db, runId);
	if (run?.isOpen === true && run.execution === execution) putMessage(session, run.key, {
		type: "resolve",
		seq,
		outcome
	}, now);
}
function readInbox(db, run, after = 0) {
	return db.all("SELECT id, type, seq, name, data, value FROM inbox WHERE run = ? AND id > ? ORDER BY id", [run, after]).map((row) => {
		const [id, type, seq, name, data, value] = row;
		const columns = [
			type,
			seq,
			null,
			name,
			null,
			data,
			value
		];
		return {
			id: readNumber(id),
			job: fromColumns(columns)
		};
	});
}
function consume(db, run, ids) {
	for (const id of ids) db.run("DELETE FROM inbox WHERE id = ? AND run = ?", [id, run]);
}
/**
* P10: signals, updates and cancels wait for the next execution, and carried ones go before them; no worker holds an id of the run at
* this point. Answers to operations of the last execution go: the next one uses their numbers again.
*/
function carryOver(db, run, carried, now) {
	db.run("DELETE FROM inbox WHERE run = ? AND type NOT IN ('signal', 'update', 'cancel')", [run]);
	if (carried.length === 0) return;
	for (const job of carried) insertMessage(db, run, job, now);
	const waiting = db.all("SELECT id FROM inbox WHERE run = ? ORDER BY id", [run]).slice(0, -carried.length);
	for (const [id] of waiting) {
		const old = readNumber(id);
		const [moved] = db.get(`INSERT INTO inbox (run, type, seq, name, data, value, received_at)
         SELECT run, type, seq, name, data, value, received_at FROM inbox WHERE id = ? RETURNING id`, [old]) ?? [];
		db.run("DELETE FROM inbox WHERE id = ?", [old]);
		db.run("UPDATE updates SET inbox_id = ? WHERE run = ? AND inbox_id = ?", [
			readNumber(moved),
			run,
			old
		]);
		db.run("UPDATE message_keys SET inbox_id = ? WHERE run = ? AND inbox_id = ?", [
			readNumber(moved),
			run,
			old
		]);
	}
	db.run("UPDATE runs SET last_message = (SELECT max(id) FROM inbox WHERE run = ?1) WHERE key = ?1", [run]);
}
// packages/holdfast/src/store/sqlite/records.ts
const COLUMNS = "run, execution, turn, time, position, history_length, worker, state, direction, type, seq, unit, name, n, data, value";
/** Rows a statement; what a turn has more goes in several. */
const CHUNKS = [
	16,
	8,
	4,
	3,
	2,
	1
];
function insertSql(rows) {
	const shared = 8;
	const own = (row) => Array.from({ length: shared }, (_, i) => `?${shared + row * shared + i + 1}`).join(", ");
	const tuples = Array.from({ length: rows }, (_, row) => row === 0 ? `(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ${own(0)})` : `(?1, ?2, ?3, ?4, ?5 + ${row}, NULL, NULL, NULL, ${own(row)})`);
	return `INSERT INTO records (${COLUMNS}) VALUES ${tuples.join(", ")}`;
}
const INSERT$1 = new Map(CHUNKS.map((rows) => [rows, insertSql(rows)]));
/** A turn without records is kept as one row that says so. */
const EMPTY = [
	"turn",
	"empty",
	null,
	null,
	null,
	null,
	null,
	null
];
function appendTurn(db, run, execution, worker, turn, birth) {
	const { index, time, jobs, commands } = turn;
	const count = jobs.length + commands.length;
	if (count === 0) {
		db.run(INSERT$1.get(1) ?? "", [
			run,
			execution,
			index,
			time,
			0,
			turn.historyLength,
			worker,
			payloadOrNull(turn.state),
			...EMPTY
		]);
		return;
	}
	for (let at = 0; at < count;) {
		const rows = CHUNKS.find((size) => size <= count - at) ?? 1;
		const parameters = at === 0 ? [
			run,
			execution,
			index,
			time,
			0,
			turn.historyLength,
			worker,
			payloadOrNull(turn.state)
		] : [
			run,
			execution,
			index,
			time,
			at,
			null,
			null,
			null
		];
		for (const end = at + rows; at < end; at++) {
			const job = jobs[at];
			const record = job ?? commands[at - jobs.length];
			if (record !== void 0) parameters.push(job === void 0 ? "command" : "job", ...toColumns(record, birth));
		}
		db.run(INSERT$1.get(rows) ?? insertSql(rows), parameters);
	}
}
const SELECT_RECORDS = "SELECT id, turn, time, history_length, worker, state, direction, type, seq, unit, name, n, data, value FROM records";
const HISTORY = `${SELECT_RECORDS} WHERE run = ? AND execution = ? ORDER BY turn, id`;
function readRecords(db, run, execution) {
	return db.all(HISTORY, [run, execution]);
}
/** Rows in order of turn and id. */
function turnsOf$1(rows, birth) {
	const turns = [];
	let current;
	for (const row of rows) {
		if (current === void 0 || row[1] !== current.turn.index) {
			current = beginTurn(row);
			turns.push(current.turn);
		}
		const direction = row[6];
		if (direction === "job") current.jobs.push(fromColumns(row, birth, 7));
		else if (direction === "command") current.commands.push(fromColumns(row, birth, 7));
	}
	return turns;
}
/** From the first row of a turn, which says what belongs to it as a whole. */
function beginTurn(row) {
	const [, index, time, historyLength, , state = null] = row;
	const jobs = [];
	const commands = [];
	const turn = {
		index: readNumber(index),
		time: readNumber(time),
		historyLength: readOptionalNumber(historyLength) ?? 0,
		jobs,
		commands
	};
	return {
		turn: state === null ? turn : {
			...turn,
			state: readPayload(state)
		},
		jobs,
		commands
	};
}
/** The same, with the rows that the turns were made of. */
function keptTurns(rows) {
	let at = 0;
	return turnsOf$1(rows, void 0).map((turn) => {
		const records = [];
		const made = [...turn.jobs, ...turn.commands];
		for (let row = rows[at]; row !== void 0 && row[1] === turn.index; row = rows[++at]) {
			const [id, , , historyLength = null, worker = null, state = null] = row;
			records.push({
				id: readNumber(id),
				record: made[records.length],
				facts: [
					historyLength,
					worker,
					state
				]
			});
		}
		return {
			turn,
			records
		};
	});
}
// packages/holdfast/src/store/sqlite/runs.ts
const ALL_STATUSES = [
	"pending",
	"running",
	"sleeping",
	"blocked",
	"rolling_back",
	"completed",
	"failed",
	"canceled",
	"terminated",
	"continued"
];
/** A run is open until it has an end. In SQL: `finished_at IS NULL`. */
const RUN_COLUMNS = `r.key, r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.output, r.error, r.waiting_for, r.execution, r.attempt,
  r.parent_id, r.parent_execution, r.parent_seq, r.parent_close, r.parent_announce, r.attributes, r.retry, r.created_at, r.started_at, r.available_at,
  r.deadline_at, r.finished_at, r.worker_id, r.epoch, r.history_length, r.turns, r.recoveries, e.input, e.seed, s.state`;
const RUN_TABLES = "runs r JOIN executions e ON e.run = r.key AND e.execution = r.execution LEFT JOIN states s ON s.run = r.key";
function runRow(row) {
	const [, id, workflow, version, status, queue, priority, output, error, waitingFor, execution, attempt] = row;
	const [parentId, parentExecution, parentSeq, parentClose, parentAnnounce, attributes, retry, createdAt, startedAt, availableAt] = row.slice(12);
	const [deadlineAt, finishedAt, workerId, epoch, historyLength, turns, recoveries, input, seed, state] = row.slice(22);
	const parent = parentId === null ? void 0 : {
		runId: readText(parentId),
		execution: readNumber(parentExecution),
		seq: readNumber(parentSeq),
		parentClose: readText(parentClose),
		announce: parentAnnounce === 1
	};
	return {
		id: readText(id),
		workflow: readText(workflow),
		version: readOptionalText(version),
		status: readText(status),
		queue: readText(queue),
		priority: readNumber(priority),
		input: readPayload(input),
		output: readOptionalPayload(output),
		error: readError(error),
		state: readOptionalPayload(state),
		waitingFor: readOptionalJson(waitingFor) ?? [],
		execution: readNumber(execution),
		attempt: readNumber(attempt),
		parent,
		attributes: JSON.parse(readText(attributes)),
		seed: readText(seed),
		retry: readOptionalJson(retry),
		createdAt: readNumber(createdAt),
		startedAt: readOptionalNumber(startedAt),
		availableAt: readOptionalNumber(availableAt),
		deadlineAt: readOptionalNumber(deadlineAt),
		finishedAt: readOptionalNumber(finishedAt),
		workerId: readOptionalText(workerId),
		epoch: readNumber(epoch),
		historyLength: readNumber(historyLength),
		turns: readNumber(turns),
		recoveries: readNumber(recoveries)
	};
}
function birthOf$1({ id, workflow, version, seed, input }) {
	return {
		runId: id,
		workflow,
		version,
		seed,
		input
	};
}
// packages/holdfast/src/store/sqlite/claimRuns.ts
const LANE_HEADS = `SELECT lane, workflow, version, priority,
    (SELECT min(available_at) FROM runs WHERE lane = l.lane AND available_at IS NOT NULL) AS head
  FROM lanes l WHERE queue = ? AND head IS NOT NULL`;
const DUE_RUNS = `SELECT key, available_at FROM runs WHERE lane = ? AND available_at IS NOT NULL AND available_at <= ?
  ORDER BY available_at, key LIMIT ?`;
const LATER_RUN = "SELECT min(available_at) FROM runs WHERE lane = ? AND available_at > ?";
/** The lanes of a queue that the worker serves, and that are not empty. */
function findLanes(db, request) {
	const serves = /* @__PURE__ */ new Map();
	for (const { workflow, versions } of request.serves) {
		const known = serves.get(workflow);
		serves.set(workflow, known === "*" || versions === "*" ? "*" : [...known ?? [], ...versions]);
	}
	const lanes = [];
	for (const [lane, workflow, version, priority, head] of db.all(LANE_HEADS, [text(request.queue)])) {
		const versions = serves.get(readText(workflow));
		if (versions === void 0 || versions !== "*" && !versions.includes(readOptionalText(version))) continue;
		lanes.push({
			lane: readNumber(lane),
			priority: readNumber(priority),
			head: readNumber(head)
		});
	}
	return lanes;
}
/** Due runs in order, up to the limit, and when the first of the others is due. */
function findDue(db, lanes, limit, now) {
	const due = [];
	let nextAt;
	const sooner = (moment) => {
		if (moment !== void 0 && (nextAt === void 0 || moment < nextAt)) nextAt = moment;
	};
	for (const [, peers] of byPriority(lanes)) {
		const candidates = [];
		for (const { lane, head } of peers) {
			if (head > now) {
				sooner(head);
				continue;
			}
			for (const [key, at] of db.all(DUE_RUNS, [
				lane,
				now,
				limit - due.length + 1
			])) candidates.push({
				key: readNumber(key),
				availableAt: readNumber(at)
			});
			sooner(readOptionalNumber(db.get(LATER_RUN, [lane, now])?.[0]));
		}
		candidates.sort((a, b) => a.availableAt - b.availableAt || a.key - b.key);
		const taken = candidates.slice(0, limit - due.length);
		due.push(...taken.map(({ key }) => key));
		sooner(candidates[taken.length]?.availableAt);
	}
	return {
		due,
		nextAt
	};
}
function byPriority(lanes) {
	const groups = /* @__PURE__ */ new Map();
	for (const lane of lanes) {
		const group = groups.get(lane.priority);
		if (group === void 0) groups.set(lane.priority, [lane]);
		else group.push(lane);
	}
	return [...groups].sort(([a], [b]) => b - a);
}
const CLAIM$1 = `UPDATE runs SET epoch = epoch + 1, status = CASE status WHEN 'rolling_back' THEN status ELSE 'running' END,
    recovered = worker_id IS NOT NULL, recoveries = recoveries + (worker_id IS NOT NULL), worker_id = ?, available_at = ?,
    started_at = coalesce(started_at, ?)
  WHERE key = ? RETURNING recovered, execution, last_message`;
const CLAIMED = `SELECT ${RUN_COLUMNS} FROM ${RUN_TABLES} WHERE r.key = ?`;
function claimRun(db, key, worker, cached, now) {
	const [wasRecovered, execution, lastMessage] = db.get(CLAIM$1, [
		text(worker.id),
		now + worker.lease,
		now,
		key
	]) ?? [];
	const recovered = wasRecovered === 1;
	if (recovered) loseRunningAttempts(db, key, readNumber(execution), now);
	const run = runRow(db.get(CLAIMED, [key]) ?? []);
	const known = cached(run.id);
	const isCached = known !== void 0 && known.execution === run.execution && known.turns === run.turns;
	const isNew = run.turns === 0;
	return {
		run,
		records: isCached ? void 0 : isNew ? [] : readRecords(db, key, run.execution),
		attempts: isNew ? [] : readAttempts(db, key, run.execution, "steps"),
		inbox: readNumber(lastMessage) === 0 ? [] : readInbox(db, key),
		recovered
	};
}
function claimedRun({ run, records, attempts, inbox, recovered }) {
	return {
		run,
		turns: records === void 0 ? void 0 : turnsOf$1(records, birthOf$1(run)),
		attempts,
		inbox,
		recovered
	};
}
// packages/holdfast/src/store/sqlite/tasks.ts
function addTask(session, run, execution, task, now) {
	const { seq, activity, queue, location, input, retry, startToClose, scheduleToClose, scheduleToStart, heartbeat } = task;
	session.db.run(`INSERT INTO tasks (run, execution, seq, activity, queue, location, input, retry, start_to_close, schedule_to_close, schedule_to_start, heartbeat,
       scheduled_at, available_at, due_at, attempt, token)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, 0, 0)`, [
		run,
		execution,
		seq,
		text(activity),
		text(queue),
		text(location),
		payload(input),
		json(retry),
		numberOrNull(startToClose),
		numberOrNull(scheduleToClose),
		numberOrNull(scheduleToStart),
		numberOrNull(heartbeat),
		now,
		earliest([after(now, scheduleToClose), after(now, scheduleToStart)]) ?? null
	]);
	session.changed("tasks");
}
const TASK = `SELECT t.id, t.run, r.id, t.execution, t.seq, t.activity, t.queue, t.location, t.input, t.retry, t.start_to_close, t.schedule_to_close,
  t.schedule_to_start, t.heartbeat, t.scheduled_at, t.attempt, t.token, t.worker_id, t.started_at, t.leased_until, t.heartbeat_at, t.last_heartbeat
  FROM tasks t JOIN runs r ON r.key = t.run`;
function findTask(db, id) {
	const row = db.get(`${TASK} WHERE t.id = ?`, [id]);
	return row === void 0 ? void 0 : taskOf(row);
}
function findDueTasks(db, now, limit) {
	return db.all(`${TASK} WHERE t.due_at <= ? AND t.due_at IS NOT NULL ORDER BY t.due_at LIMIT ?`, [now, limit]).map(taskOf);
}
function tasksOf(db, run) {
	return db.all(`${TASK} WHERE t.run = ?`, [run]).map(taskOf);
}
function taskOf(row) {
	const [id, run, runId, execution, seq, activity, queue, location, input, retry, startToClose, scheduleToClose, scheduleToStart] = row;
	const [heartbeat, scheduledAt, attempt, token, workerId, startedAt, leasedUntil, heartbeatAt, lastHeartbeat] = row.slice(13);
	return {
		id: readNumber(id),
		run: readNumber(run),
		runId: readText(runId),
		execution: readNumber(execution),
		seq: readNumber(seq),
		activity: readText(activity),
		queue: readText(queue),
		location: readText(location),
		input: readPayload(input),
		retry: readJson(retry),
		startToClose: readOptionalNumber(startToClose),
		scheduleToClose: readOptionalNumber(scheduleToClose),
		scheduleToStart: readOptionalNumber(scheduleToStart),
		heartbeat: readOptionalNumber(heartbeat),
		scheduledAt: readNumber(scheduledAt),
		attempt: readNumber(attempt),
		token: readNumber(token),
		workerId: readOptionalText(workerId),
		startedAt: readOptionalNumber(startedAt) ?? 0,
		leasedUntil: readOptionalNumber(leasedUntil) ?? 0,
		heartbeatAt: readOptionalNumber(heartbeatAt) ?? 0,
		lastHeartbeat: readOptionalPayload(lastHeartbeat)
	};
}
/** Gives up the activities of a run, all of them or those of these operations (C7). What a worker has of them is over: it will be told. */
function dropTasks(db, run, now, seqs) {
	if (db.get("SELECT 1 FROM tasks WHERE run = ? LIMIT 1", [run]) === void 0) return;
	for (const task of tasksOf(db, run)) {
		if (seqs !== void 0 && !seqs.includes(task.seq)) continue;
		if (task.workerId !== void 0) keepAttempt(db, task, {
			status: "lost",
			endedAt: now
		});
		deleteTask(db, task.id);
	}
}
function deleteTask(db, id) {
	db.run("DELETE FROM tasks WHERE id = ?", [id]);
}
/** D12: the row of the attempt that a worker is at, or was. */
function keepAttempt(db, task, end) {
	const { run, execution, seq, attempt: number, startedAt, workerId = "" } = task;
	writeAttempt(db, run, execution, {
		seq,
		number,
		startedAt,
		workerId,
		...end
	}, "task");
}
/** When a task that a worker has must be looked at: its lease or one of its limits has passed. */
function dueWhileRunning(task) {
	const { scheduledAt, startedAt, heartbeatAt, leasedUntil, scheduleToClose, startToClose, heartbeat } = task;
	return earliest([
		leasedUntil,
		after(scheduledAt, scheduleToClose),
		after(startedAt, startToClose),
		after(heartbeatAt, heartbeat)
	]) ?? leasedUntil;
}
function after(moment, length) {
	return length === void 0 ? void 0 : moment + length;
}
function earliest(moments) {
	const known = moments.filter((moment) => moment !== void 0);
	return known.length === 0 ? void 0 : Math.min(...known);
}
// packages/holdfast/src/store/sqlite/claimTasks.ts
const WAITING = `SELECT id, available_at FROM tasks WHERE queue = ? AND activity = ? AND available_at IS NOT NULL AND available_at <= ?
  ORDER BY available_at, id LIMIT ?`;
const LATER = "SELECT min(available_at) FROM tasks WHERE queue = ? AND activity = ? AND available_at > ?";
/** The tasks that are due for these activities, oldest first, and when the next one is. */
function findTasks(db, request, now) {
	const queue = text(request.queue);
	const found = [];
	let nextAt;
	for (const activity of request.activities) {
		const rows = db.all(WAITING, [
			queue,
			text(activity),
			now,
			request.limit + 1
		]);
		for (const [id, availableAt] of rows) found.push({
			id: readNumber(id),
			availableAt: readNumber(availableAt)
		});
		nextAt = earlier(nextAt, readOptionalNumber(db.get(LATER, [
			queue,
			text(activity),
			now
		])?.[0]));
	}
	found.sort((a, b) => a.availableAt - b.availableAt || a.id - b.id);
	const due = found.slice(0, request.limit);
	return {
		due,
		nextAt: found.length > due.length ? found[due.length]?.availableAt : nextAt
	};
}
const CLAIM = `UPDATE tasks SET attempt = ?, token = ?, worker_id = ?, started_at = ?, heartbeat_at = ?, leased_until = ?, due_at = ?, available_at = NULL
  WHERE id = ?`;
function claimTask(db, id, request, now) {
	const task = findTask(db, id);
	if (task === void 0) return void 0;
	const { workerId } = request;
	const leasedUntil = now + Math.min(request.lease, task.startToClose ?? request.lease);
	const claimed = {
		...task,
		attempt: task.attempt + 1,
		token: task.token + 1,
		workerId,
		startedAt: now,
		heartbeatAt: now,
		leasedUntil
	};
	db.run(CLAIM, [
		claimed.attempt,
		claimed.token,
		text(workerId),
		now,
		now,
		leasedUntil,
		dueWhileRunning(claimed),
		id
	]);
	keepAttempt(db, claimed, { status: "running" });
	return withoutInternals(claimed);
}
/** What is the store's business is not the worker's. */
function withoutInternals(task) {
	const { run: _run, scheduledAt: _scheduledAt, workerId: _workerId, startedAt: _startedAt, leasedUntil: _until, heartbeatAt: _at, ...claimed } = task;
	return claimed;
}
/** The task, if this claim of it still holds. */
function heldTask(db, id, token) {
	const task = findTask(db, id);
	return task?.workerId !== void 0 && task.token === token ? task : void 0;
}
/** Extends the lease. Only a heartbeat of the activity's own, with details, is one for its heartbeat limit. */
function heartbeatTask(db, beat, now) {
	const task = heldTask(db, beat.id, beat.token);
	if (task === void 0) return false;
	const details = beat.details ?? task.lastHeartbeat;
	const heartbeatAt = beat.details === void 0 ? task.heartbeatAt : now;
	const leasedUntil = now + beat.lease;
	db.run("UPDATE tasks SET leased_until = ?, heartbeat_at = ?, last_heartbeat = ?, due_at = ? WHERE id = ?", [
		leasedUntil,
		heartbeatAt,
		payloadOrNull(details),
		dueWhileRunning({
			...task,
			leasedUntil,
			heartbeatAt
		}),
		beat.id
	]);
	return true;
}
function earlier(a, b) {
	if (a === void 0 || b === void 0) return a ?? b;
	return Math.min(a, b);
}
// packages/holdfast/src/store/sqlite/updates.ts
const SETTLE = `INSERT INTO updates (run, id, inbox_id, status, value, error) VALUES (?, ?, 0, ?, ?, ?)
  ON CONFLICT (run, id) DO UPDATE SET status = excluded.status, value = excluded.value, error = excluded.error WHERE status IS NULL`;
function settleUpdate(session, run, id, outcome) {
	const value = outcome.status === "completed" ? payload(outcome.value) : null;
	const error = outcome.status === "completed" ? null : json(outcome.error);
	session.db.run(SETTLE, [
		run,
		text(id),
		outcome.status,
		value,
		error
	]);
	session.changed("results");
}
/** The run is closed: what nobody took was rejected, what was accepted and has no outcome has failed. */
function refuseUpdates(db, run, status) {
	if (db.get("SELECT 1 FROM updates WHERE run = ? AND status IS NULL LIMIT 1", [run.key]) === void 0) return;
	const error = json(serializeError(new RunClosedError({
		runId: run.id,
		status
	})));
	db.run(`UPDATE updates SET error = ?1, status = CASE WHEN inbox_id IN (SELECT id FROM inbox WHERE run = ?2) THEN 'rejected' ELSE 'failed' END
     WHERE run = ?2 AND status IS NULL`, [error, run.key]);
}
function readUpdate(db, runId, id) {
	const row = db.get("SELECT u.status, u.value, u.error FROM runs r JOIN updates u ON u.run = r.key WHERE r.id = ? AND u.id = ? AND u.status IS NOT NULL", [text(runId), text(id)]);
	if (row === void 0) return void 0;
	const [status, value, error] = row;
	if (status === "completed") return {
		status,
		value: readPayload(value)
	};
	return {
		status: status === "rejected" ? "rejected" : "failed",
		error: readError(error) ?? {
			name: "Error",
			message: ""
		}
	};
}
// packages/holdfast/src/store/sqlite/closeRun.ts
const NOTHING = jsonCodec.encode(void 0);
const CLOSE = `UPDATE runs SET status = ?, output = ?, error = ?, resumable = ?, finished_at = ?, turns = turns + ?, history_length = history_length + ?,
  attributes = coalesce(?, attributes), worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0,
  epoch = epoch + 1 WHERE key = ?`;
function closeRun(session, run, ending, now) {
	const { db } = session;
	const { status, output, error, turns = 0, records = 0, attributes = null } = ending;
	const resumable = status === "failed" && ending.resumable !== false ? 1 : 0;
	db.run(CLOSE, [
		status,
		payloadOrNull(output),
		jsonOrNull(error),
		resumable,
		now,
		turns,
		records,
		attributes,
		run.key
	]);
	refuseUpdates(db, run, status);
	db.run("DELETE FROM inbox WHERE run = ?", [run.key]);
	dropTasks(db, run.key, now);
	session.changed("results");
	const { parent } = run;
	if (parent !== void 0) answerOperation(session, parent.runId, parent.execution, parent.seq, outcomeOf(run, ending), now);
	for (const child of findOpenChildren(db, run.id)) followParent(session, child, run.id, now);
}
function outcomeOf(run, { status, output, error }) {
	if (status === "completed") return {
		status,
		value: output ?? NOTHING
	};
	if (status === "canceled") return { status };
	const unknown = {
		name: "Error",
		message: `The child ${run.id} ended as ${status}.`
	};
	return {
		status: "failed",
		error: error ?? unknown
	};
}
function followParent(session, child, parentId, now) {
	const reason = `its parent ${parentId} has ended`;
	if (child.parent?.close === "terminate") terminateRun(session, child, reason, now);
	else if (child.parent?.close === "cancel") cancelRun(session, child, reason, now);
}
function terminateRun(session, run, reason, now) {
	closeRun(session, run, {
		status: "terminated",
		error: serializeError(new RunTerminatedError(reason === void 0 ? { runId: run.id } : {
			runId: run.id,
			reason
		}))
	}, now);
}
/** Asks an open run to cancel. One that no worker has begun with is canceled here and now (K9). Returns the inbox id, 0 if there is none. */
function cancelRun(session, run, reason, now) {
	if (run.turns > 0 || run.isLeased) return putMessage(session, run.key, reason === void 0 ? { type: "cancel" } : {
		type: "cancel",
		reason
	}, now);
	closeRun(session, run, { status: "canceled" }, now);
	return 0;
}
// packages/holdfast/src/store/sqlite/deliverMessage.ts
function deliverMessage(session, runId, message, now) {
	const run = findRun(session.db, runId);
	if (run === void 0) return { status: "not-found" };
	const known = earlierDelivery(session.db, run.key, message);
	if (known !== void 0) return {
		status: "duplicate",
		inboxId: known
	};
	if (!run.isOpen) return {
		status: "closed",
		runStatus: run.status
	};
	return {
		status: "sent",
		inboxId: acceptMessage(session, run, message, now)
	};
}
function acceptMessage(session, run, message, now) {
	const { job } = message;
	const inboxId = job.type === "cancel" ? cancelRun(session, run, job.reason, now) : putMessage(session, run.key, job, now);
	rememberDelivery(session.db, run.key, message, inboxId);
	return inboxId;
}
function earlierDelivery(db, run, { job, idempotencyKey }) {
	if (job.type === "update") return readOptionalNumber(db.get("SELECT inbox_id FROM updates WHERE run = ? AND id = ?", [run, text(job.id)])?.[0]);
	if (idempotencyKey === void 0) return void 0;
	return readOptionalNumber(db.get("SELECT inbox_id FROM message_keys WHERE run = ? AND key = ?", [run, text(idempotencyKey)])?.[0]);
}
function rememberDelivery(db, run, { job, idempotencyKey }, inboxId) {
	if (job.type === "update") db.run("INSERT INTO updates (run, id, inbox_id) VALUES (?, ?, ?)", [
		run,
		text(job.id),
		inboxId
	]);
	else if (idempotencyKey !== void 0) db.run("INSERT INTO message_keys (run, key, inbox_id) VALUES (?, ?, ?)", [
		run,
		text(idempotencyKey),
		inboxId
	]);
}
// packages/holdfast/src/store/sqlite/plainTurn.ts
function isPlain({ lease, close, blocked, attempt, attributes }) {
	return lease === "keep" && close === void 0 && blocked === void 0 && attempt === void 0 && attributes === void 0;
}
function turnsOf({ turn }) {
	return turn === void 0 ? 0 : 1;
}
function recordsOf({ turn }) {
	return turn === void 0 ? 0 : turn.jobs.length + turn.commands.length;
}
function waitingForOf({ waitingFor = [] }) {
	return waitingFor.length === 0 ? null : JSON.stringify(waitingFor);
}
// packages/holdfast/src/store/sqlite/insertRun.ts
/** Creates the run, finds it, or says that it is in the way. With a `first` turn it is created leased, and `begin` commits the turn. */
function createRun(session, run, now, begin) {
	const { db } = session;
	const byKey = run.idempotencyKey === void 0 ? void 0 : findByIdempotencyKey(db, run.idempotencyKey);
	const existing = byKey ?? findRun(db, run.id);
	if (existing !== void 0) return meetExisting(session, existing, run, existing.key === byKey?.key, now);
	const key = insertRun(session, run, now);
	const { parent } = run;
	if (parent?.announce === true) announce(session, run.id, parent, now);
	const inboxIds = deliverAll(session, run.id, run.messages, now);
	if (run.first !== void 0) begin?.(key);
	return {
		status: "created",
		id: run.id,
		execution: 1,
		inboxIds
	};
}
function meetExisting(session, existing, run, isSameStart, now) {
	const { id, execution, isOpen, status } = existing;
	const messages = run.messages ?? [];
	if (isSameStart) return {
		status: "existing",
		id,
		execution,
		inboxIds: []
	};
	if (!isOpen && run.onConflict === "restart-if-closed") return restart(session, existing, run, now);
	if (run.onConflict === "reject") return {
		status: "conflict",
		id,
		runStatus: status
	};
	if (messages.length > 0 && !isOpen) return {
		status: "conflict",
		id,
		runStatus: status
	};
	return {
		status: "existing",
		id,
		execution,
		inboxIds: deliverAll(session, id, messages, now)
	};
}
const INSERT = `INSERT INTO runs (id, workflow, version, status, queue, priority, lane, available_at, worker_id, epoch, execution, attempt, turns,
    history_length, rollbacks, waiting_for, last_message, recoveries, recovered, created_at, started_at, deadline_at, expired, resumable, attributes, retry,
    idempotency_key, parent_id, parent_execution, parent_seq, parent_close, parent_announce)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1, ?, ?, ?, ?, 0, 0, 0, ?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key`;
function insertRun(session, run, now) {
	const { id, workflow, version, queue, priority, attributes, retry, idempotencyKey, parent, first } = run;
	const plain = first !== void 0 && isPlain(first.commit) ? first.commit : void 0;
	const status = first === void 0 ? "pending" : plain?.status ?? "running";
	const [found] = session.db.get(INSERT, [
		text(id),
		text(workflow),
		textOrNull(version),
		status,
		text(queue),
		priority,
		session.laneOf(queue, workflow, version, priority),
		first === void 0 ? startOf(run, now) : now + first.lease,
		textOrNull(first?.workerId),
		first === void 0 ? 0 : 1,
		plain === void 0 ? 0 : turnsOf(plain),
		plain === void 0 ? 0 : recordsOf(plain),
		plain?.rollbacks ?? 0,
		plain === void 0 ? null : waitingForOf(plain),
		now,
		first === void 0 ? null : now,
		numberOrNull(deadlineOf(run, now)),
		JSON.stringify(attributes),
		jsonOrNull(retry),
		textOrNull(idempotencyKey),
		textOrNull(parent?.runId),
		numberOrNull(parent?.execution),
		numberOrNull(parent?.seq),
		textOrNull(parent?.parentClose),
		parent === void 0 ? null : Number(parent.announce)
	]) ?? [];
	const key = readNumber(found);
	insertExecution(session, key, 1, run);
	if (first === void 0) session.changed("work");
	return key;
}
/** Messages that come with a start. */
function deliverAll(session, id, messages, now) {
	return (messages ?? []).map((message) => {
		const result = deliverMessage(session, id, message, now);
		return "inboxId" in result ? result.inboxId : 0;
	});
}
function insertExecution(session, run, execution, birth) {
	const { workflow, version, seed, input } = birth;
	session.db.run("INSERT INTO executions (run, execution, workflow, version, seed, input) VALUES (?, ?, ?, ?, ?, ?)", [
		run,
		execution,
		text(workflow),
		textOrNull(version),
		text(seed),
		payload(input)
	]);
}
function startOf(run, now) {
	return run.startAt ?? now + (run.delay ?? 0);
}
function deadlineOf(run, now) {
	return run.deadlineAt ?? (run.deadline === void 0 ? void 0 : now + run.deadline);
}
/** The parent learns that its child exists, in the same transaction. */
function announce(session, id, parent, now) {
	const run = findRun(session.db, parent.runId);
	if (run?.isOpen !== true || run.execution !== parent.execution) return;
	putMessage(session, run.key, {
		type: "childStarted",
		seq: parent.seq,
		runId: id
	}, now);
}
const NEXT = `UPDATE runs SET workflow = ?, version = ?, lane = ?, available_at = ?, status = 'pending', execution = execution + 1, epoch = epoch + 1,
  attempt = 1, turns = 0, history_length = 0, rollbacks = 0, recoveries = 0, worker_id = NULL, finished_at = NULL, expired = 0, resumable = 0,
  waiting_for = NULL, blocked_code = NULL, error = NULL, output = NULL WHERE key = ?`;
function beginExecution(session, run, next) {
	const { workflow, version, queue, priority, availableAt } = next;
	const lane = session.laneOf(queue, workflow, version, priority);
	session.db.run(NEXT, [
		text(workflow),
		textOrNull(version),
		lane,
		availableAt,
		run.key
	]);
	insertExecution(session, run.key, run.execution + 1, next);
	session.changed("work");
}
/** P10: as the code before it chose, on the same queue. */
function continueRun(session, run, next, now) {
	const [workflow, queue, priority] = session.db.get("SELECT workflow, queue, priority FROM runs WHERE key = ?", [run.key]) ?? [];
	beginExecution(session, run, {
		workflow: readText(workflow),
		queue: readText(queue),
		priority: readNumber(priority),
		...next,
		availableAt: now
	});
}
function restart(session, closed, run, now) {
	const { id, queue, priority, attributes, retry, parent } = run;
	beginExecution(session, closed, {
		...run,
		availableAt: startOf(run, now)
	});
	session.db.run(`UPDATE runs SET queue = ?, priority = ?, deadline_at = ?, attributes = ?, retry = ?, parent_id = ?, parent_execution = ?, parent_seq = ?,
       parent_close = ?, parent_announce = ?, idempotency_key = coalesce(?, idempotency_key) WHERE key = ?`, [
		text(queue),
		priority,
		numberOrNull(deadlineOf(run, now)),
		JSON.stringify(attributes),
		jsonOrNull(retry),
		textOrNull(parent?.runId),
		numberOrNull(parent?.execution),
		numberOrNull(parent?.seq),
		textOrNull(parent?.parentClose),
		parent === void 0 ? null : Number(parent.announce),
		textOrNull(run.idempotencyKey),
		closed.key
	]);
	if (parent?.announce === true) announce(session, id, parent, now);
	const inboxIds = deliverAll(session, closed.id, run.messages, now);
	return {
		status: "created",
		id: closed.id,
		execution: closed.execution + 1,
		inboxIds
	};
}
// packages/holdfast/src/store/sqlite/trimRecords.ts
/** Carries out the trims of a turn that was just appended. Returns how many records are gone. */
function trimRecords(db, run, execution, turn) {
	const commits = turn.commands.filter((command) => command.type === "commit" && command.trim !== void 0);
	if (commits.length === 0) return 0;
	const from = Math.min(...commits.map(({ seq }) => openingTurn(db, run, execution, seq)));
	const before = keptTurns(db.all(`${SELECT_RECORDS} WHERE run = ? AND execution = ? AND (turn >= ? OR (direction = 'job' AND type IN ('signal', 'update'))) ORDER BY turn, id`, [
		run,
		execution,
		from
	]));
	const kept = /* @__PURE__ */ new Set();
	for (const { jobs, commands } of trimmed(before.map((one) => one.turn))) {
		for (const record of jobs) kept.add(record);
		for (const record of commands) kept.add(record);
	}
	const gone = before.map((one) => ({
		index: one.turn.index,
		records: one.records.filter(({ record }) => !kept.has(record))
	}));
	deleteRecords(db, gone.flatMap(({ records }) => records));
	for (const { index, records } of gone) {
		const first = records.find(({ facts }) => facts[0] !== null);
		if (first !== void 0) moveFacts(db, run, execution, index, first);
	}
	deleteAttempts(db, run, execution, gone.flatMap(({ records }) => records));
	return gone.reduce((sum, { records }) => sum + records.filter(({ record }) => record !== void 0).length, 0);
}
function openingTurn(db, run, execution, seq) {
	return readOptionalNumber(db.get("SELECT turn FROM records WHERE run = ? AND execution = ? AND seq = ? AND n IS NOT NULL ORDER BY turn LIMIT 1", [
		run,
		execution,
		seq
	])?.[0]) ?? 0;
}
function deleteRecords(db, records) {
	db.run("DELETE FROM records WHERE id IN (SELECT value FROM json_each(?))", [JSON.stringify(records.map(({ id }) => id))]);
}
function moveFacts(db, run, execution, turn, { facts }) {
	db.run(`UPDATE records SET history_length = ?, worker = ?, state = ?
     WHERE id = (SELECT min(id) FROM records WHERE run = ? AND execution = ? AND turn = ?)`, [
		...facts,
		run,
		execution,
		turn
	]);
}
/** Attempts of operations that history no longer knows. */
function deleteAttempts(db, run, execution, records) {
	const seqs = records.flatMap(({ record }) => record !== void 0 && "n" in record ? [record.seq] : []);
	if (seqs.length === 0) return;
	db.run("DELETE FROM attempts WHERE run = ? AND execution = ? AND seq IN (SELECT value FROM json_each(?))", [
		run,
		execution,
		JSON.stringify(seqs)
	]);
}
// packages/holdfast/src/store/sqlite/commitTurn.ts
/** `birth`: of a run that is created with this turn; otherwise it is looked up if it is needed. */
function commitTurn(session, commit, now, birth) {
	return commitKeeping(session, commit, now, birth) ?? commitOther(session, commit, now, birth);
}
/** The turn that a run is created with. The row has what a plain one writes into it from the start. */
function commitFirst(session, key, commit, now, birth) {
	if (isPlain(commit)) writeEffects(session, key, commit, now, birth);
	else commitOther(session, commit, now, birth);
}
const KEEP = `UPDATE runs SET turns = turns + ?, history_length = history_length + ?, rollbacks = coalesce(?, rollbacks),
    recoveries = CASE WHEN ?1 THEN 0 ELSE recoveries END, waiting_for = ?, error = NULL, blocked_code = NULL
  WHERE id = ? AND epoch = ? AND execution = ? AND status = ? AND worker_id IS NOT NULL RETURNING key, last_message`;
/** The usual turn: the lease stays, the status too. No index of `runs` is touched. Undefined: it is not one of these, or it is stale. */
function commitKeeping(session, commit, now, birth) {
	const { runId, execution, epoch, status, seen = 0 } = commit;
	if (!isPlain(commit)) return void 0;
	const row = session.db.get(KEEP, [
		turnsOf(commit),
		recordsOf(commit),
		numberOrNull(commit.rollbacks),
		waitingForOf(commit),
		text(runId),
		epoch,
		execution,
		status
	]);
	if (row === void 0) return void 0;
	const key = readNumber(row[0]);
	const sent = writeEffects(session, key, commit, now, birth);
	const result = committed(readNumber(row[1]) > seen || commit.children !== void 0 || commit.cancelChildren !== void 0 || sent !== void 0 ? readInbox(session.db, key, seen) : [], sent);
	if (!mayTrim(commit)) return result;
	return {
		...result,
		historyLength: readNumber(session.db.get("SELECT history_length FROM runs WHERE key = ?", [key])?.[0])
	};
}
function mayTrim({ turn }) {
	return turn?.commands.some((command) => command.type === "commit") === true;
}
function committed(inbox, sent) {
	return sent === void 0 ? {
		status: "committed",
		inbox
	} : {
		status: "committed",
		inbox,
		sent
	};
}
function commitOther(session, commit, now, birth) {
	const { db } = session;
	const run = findRun(db, commit.runId);
	if (run === void 0 || !isHeld(run, commit.epoch) || run.execution !== commit.execution) return { status: "stale" };
	const sent = writeEffects(session, run.key, commit, now, birth);
	if (commit.close !== void 0) {
		end$1(session, run, commit, commit.close, now);
		return committed([], sent);
	}
	updateRun(session, run, commit, now);
	return committed(commit.lease === "keep" ? readInbox(db, run.key, commit.seen) : [], sent);
}
const SET = `SET status = ?1, waiting_for = ?2, error = ?3, blocked_code = ?4, attempt = coalesce(?5, attempt), rollbacks = coalesce(?6, rollbacks),
  attributes = coalesce(?7, attributes), turns = turns + ?8, history_length = history_length + ?9, recoveries = CASE WHEN ?8 THEN 0 ELSE recoveries END`;
const STAY = `UPDATE runs ${SET} WHERE key = ?10`;
const PARK = `UPDATE runs ${SET}, worker_id = NULL, available_at = CASE
    WHEN EXISTS (SELECT 1 FROM inbox WHERE run = ?10 AND id > ?11) THEN min(coalesce(?12, ?13), ?13) ELSE ?12 END
  WHERE key = ?10 RETURNING available_at`;
function updateRun(session, run, commit, now) {
	const { blocked, attempt, rollbacks } = commit;
	const set = [
		commit.status,
		waitingForOf(commit),
		jsonOrNull(blocked?.error),
		textOrNull(blocked?.code),
		numberOrNull(attempt),
		numberOrNull(rollbacks),
		mergedAttributes(session.db, run.key, commit.attributes),
		turnsOf(commit),
		recordsOf(commit),
		run.key
	];
	if (commit.lease === "keep") session.db.run(STAY, set);
	else {
		const [availableAt] = session.db.get(PARK, [
			...set,
			commit.seen ?? 0,
			numberOrNull(commit.wakeAt),
			now
		]) ?? [];
		if (availableAt !== null) session.changed("work");
	}
}
function mergedAttributes(db, run, changes) {
	if (changes === void 0) return null;
	const [found] = db.get("SELECT attributes FROM runs WHERE key = ?", [run]) ?? [];
	const merged = {
		...JSON.parse(readText(found)),
		...changes
	};
	return JSON.stringify(Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null)));
}
function end$1(session, run, commit, close, now) {
	const attributes = mergedAttributes(session.db, run.key, commit.attributes);
	const { status, output, error, resumable } = close;
	if (status !== "continued") return closeRun(session, run, {
		status,
		output,
		error,
		resumable,
		turns: turnsOf(commit),
		records: recordsOf(commit),
		attributes
	}, now);
	if (close.next === void 0) throw new TypeError("A commit that closes a run as \"continued\" names its next execution.");
	if (attributes !== null) session.db.run("UPDATE runs SET attributes = ? WHERE key = ?", [attributes, run.key]);
	dropTasks(session.db, run.key, now);
	continueRun(session, run, close.next, now);
	carryOver(session.db, run.key, close.next.carried.map(({ job }) => job), now);
}
function writeEffects(session, key, commit, now, birth) {
	const { db } = session;
	const { execution, turn } = commit;
	if (turn !== void 0) {
		const born = turn.jobs[0]?.type === "start" ? birth ?? birthOf(db, key, execution) : void 0;
		appendTurn(db, key, execution, session.workerKey(commit.workerId), turn, born);
		if (mayTrim(commit)) forget(db, key, trimRecords(db, key, execution, turn));
	}
	if (commit.state !== void 0) db.run("INSERT OR REPLACE INTO states (run, state) VALUES (?, ?)", [key, payload(commit.state)]);
	for (const row of commit.attempts ?? []) writeAttempt(db, key, execution, row, "step");
	if (commit.consumed !== void 0) consume(db, key, commit.consumed);
	for (const { id, outcome } of commit.updates ?? []) settleUpdate(session, key, id, outcome);
	for (const task of commit.tasks ?? []) addTask(session, key, execution, task, now);
	if (commit.cancelTasks !== void 0) dropTasks(db, key, now, commit.cancelTasks);
	for (const child of commit.children ?? []) createChild(session, key, child, now);
	if (commit.cancelChildren !== void 0) cancelChildren(session, commit, commit.cancelChildren, now);
	return commit.sends?.map(({ seq, runId, message }) => sendFor(session, key, seq, runId, () => deliverMessage(session, runId, message, now), now));
}
function birthOf(db, key, execution) {
	const row = db.get("SELECT r.id, e.workflow, e.version, e.seed, e.input FROM runs r JOIN executions e ON e.run = r.key WHERE r.key = ? AND e.execution = ?", [key, execution]);
	if (row === void 0) return void 0;
	const [id, workflow, version, seed, input] = row;
	return {
		runId: readText(id),
		workflow: readText(workflow),
		version: readOptionalText(version),
		seed: readText(seed),
		input: readPayload(input)
	};
}
function forget(db, key, records) {
	if (records > 0) db.run("UPDATE runs SET history_length = history_length - ? WHERE key = ?", [records, key]);
}
function createChild(session, parent, child, now) {
	const { status } = createRun(session, child, now);
	if (status !== "conflict") return;
	const error = serializeError(new RunAlreadyExistsError({ runId: child.id }));
	putMessage(session, parent, {
		type: "resolve",
		seq: child.parent?.seq ?? 0,
		outcome: {
			status: "failed",
			error
		}
	}, now);
}
function cancelChildren(session, { runId, execution }, seqs, now) {
	if (seqs.length === 0) return;
	for (const child of findOpenChildren(session.db, runId)) if (child.parent?.execution === execution && seqs.includes(child.parent.seq)) cancelRun(session, child, "its parent gave it up", now);
}
/** M12: the sender learns how it went, through its own inbox. */
function sendFor(session, sender, seq, runId, deliver, now) {
	const result = deliver();
	const failed = (error) => ({
		status: "failed",
		error: serializeError(error)
	});
	let outcome = {
		status: "completed",
		value: jsonCodec.encode(void 0)
	};
	if (result.status === "not-found") outcome = failed(new RunNotFoundError({ runId }));
	else if (result.status === "closed") outcome = failed(new RunClosedError({
		runId,
		status: result.runStatus
	}));
	putMessage(session, sender, {
		type: "resolve",
		seq,
		outcome
	}, now);
	return result;
}
// packages/holdfast/src/store/sqlite/schema.ts
/** "HFST". */
const APPLICATION_ID = 1212568404;
const MIGRATIONS = [`
CREATE TABLE runs (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  workflow TEXT NOT NULL,
  version TEXT,
  status TEXT NOT NULL,
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  available_at INTEGER,
  worker_id TEXT,
  epoch INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  history_length INTEGER NOT NULL,
  last_message INTEGER NOT NULL,
  rollbacks INTEGER NOT NULL,
  recoveries INTEGER NOT NULL,
  recovered INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  deadline_at INTEGER,
  expired INTEGER NOT NULL,
  resumable INTEGER NOT NULL,
  waiting_for TEXT,
  attributes TEXT NOT NULL,
  retry TEXT,
  idempotency_key TEXT,
  parent_id TEXT,
  parent_execution INTEGER,
  parent_seq INTEGER,
  parent_close TEXT,
  parent_announce INTEGER,
  blocked_code TEXT,
  error TEXT,
  output
);
CREATE INDEX runs_to_claim ON runs (lane, available_at) WHERE available_at IS NOT NULL;
CREATE INDEX runs_by_creation ON runs (created_at);
CREATE INDEX runs_by_status ON runs (status, created_at);
CREATE INDEX runs_by_workflow ON runs (workflow, created_at);
CREATE INDEX runs_by_parent ON runs (parent_id, finished_at) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_by_deadline ON runs (deadline_at) WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND expired = 0;
CREATE UNIQUE INDEX runs_by_idempotency_key ON runs (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE executions (
  run INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  workflow TEXT NOT NULL,
  version TEXT,
  seed TEXT NOT NULL,
  input NOT NULL,
  PRIMARY KEY (run, execution)
) WITHOUT ROWID;

CREATE TABLE states (run INTEGER PRIMARY KEY, state NOT NULL);

-- In order of arrival and not clustered by run: a commit for a hundred runs then touches ten pages instead of a hundred
-- (100 runs of 100 turns: 326 ms against 629 ms on node:sqlite, 1.5 s against 2.3 s on libsql).
CREATE TABLE records (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  position INTEGER NOT NULL,
  direction TEXT NOT NULL,
  type TEXT NOT NULL,
  seq INTEGER,
  unit TEXT,
  name TEXT,
  n INTEGER,
  data TEXT,
  value,
  time INTEGER NOT NULL,
  history_length INTEGER,
  worker INTEGER,
  state
);
CREATE INDEX records_by_run ON records (run, execution, turn);

CREATE TABLE inbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  type TEXT NOT NULL,
  seq INTEGER,
  name TEXT,
  data TEXT,
  value,
  received_at INTEGER NOT NULL
);
CREATE INDEX inbox_by_run ON inbox (run);

CREATE TABLE message_keys (
  run INTEGER NOT NULL,
  key TEXT NOT NULL,
  inbox_id INTEGER NOT NULL,
  PRIMARY KEY (run, key)
) WITHOUT ROWID;

CREATE TABLE updates (
  run INTEGER NOT NULL,
  id TEXT NOT NULL,
  inbox_id INTEGER NOT NULL,
  status TEXT,
  value,
  error TEXT,
  PRIMARY KEY (run, id)
) WITHOUT ROWID;

CREATE TABLE attempts (
  run INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  number INTEGER NOT NULL,
  task INTEGER NOT NULL,
  status TEXT NOT NULL,
  worker_id TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  retry_at INTEGER,
  error TEXT,
  PRIMARY KEY (run, execution, seq, number)
) WITHOUT ROWID;

CREATE TABLE tasks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  activity TEXT NOT NULL,
  queue TEXT NOT NULL,
  location TEXT NOT NULL,
  input NOT NULL,
  retry TEXT NOT NULL,
  start_to_close INTEGER,
  schedule_to_close INTEGER,
  schedule_to_start INTEGER,
  heartbeat INTEGER,
  scheduled_at INTEGER NOT NULL,
  available_at INTEGER,
  due_at INTEGER,
  attempt INTEGER NOT NULL,
  token INTEGER NOT NULL,
  worker_id TEXT,
  started_at INTEGER,
  leased_until INTEGER,
  heartbeat_at INTEGER,
  last_heartbeat
);
CREATE INDEX tasks_to_claim ON tasks (queue, activity, available_at) WHERE available_at IS NOT NULL;
CREATE INDEX tasks_by_due ON tasks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_by_run ON tasks (run, seq);

CREATE TABLE lanes (
  lane INTEGER PRIMARY KEY,
  queue TEXT NOT NULL,
  workflow TEXT NOT NULL,
  version TEXT,
  priority INTEGER NOT NULL
);
CREATE INDEX lanes_by_queue ON lanes (queue, workflow, version, priority);

CREATE TABLE workers (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);

CREATE VIEW holdfast_runs AS
SELECT r.id, r.workflow, r.version, r.status, r.queue, r.priority, r.execution, r.attempt, r.waiting_for, e.input, r.output, r.error, s.state,
  r.attributes, r.parent_id, r.worker_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1000.0, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.available_at / 1000.0, 'unixepoch') AS available,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.finished_at / 1000.0, 'unixepoch') AS finished
FROM runs r JOIN executions e ON e.run = r.key AND e.execution = r.execution LEFT JOIN states s ON s.run = r.key;

CREATE VIEW holdfast_history AS
SELECT r.id AS run_id, h.execution, h.turn, strftime('%Y-%m-%dT%H:%M:%fZ', h.time / 1000.0, 'unixepoch') AS time, h.direction, h.type, h.seq,
  h.unit, h.name, h.n, h.value, h.data
FROM records h JOIN runs r ON r.key = h.run ORDER BY h.run, h.execution, h.turn, h.id;
`];
const SCHEMA_VERSION = MIGRATIONS.length;
/** Refuses files that are not ours, or newer than we are. True if there is something to migrate. */
function needsMigration(driver, where) {
	const number = (sql) => Number(driver.prepare(sql).get([])?.[0] ?? 0);
	const application = number("PRAGMA application_id");
	const version = number("PRAGMA user_version");
	if (application === APPLICATION_ID) {
		if (version > SCHEMA_VERSION) throw new StoreVersionError({
			where,
			found: version,
			known: SCHEMA_VERSION
		});
		return version < SCHEMA_VERSION;
	}
	if (application !== 0 || version !== 0) throw new StoreForeignError({
		where,
		reason: `it belongs to another program (application_id ${application}, user_version ${version}).`
	});
	const [taken] = driver.prepare("SELECT group_concat(name, ', ') FROM sqlite_master WHERE name IN ('runs', 'records', 'inbox', 'tasks')").get([]) ?? [];
	if (typeof taken === "string") throw new StoreForeignError({
		where,
		reason: `it has tables of another program (${taken}).`
	});
	return true;
}
/** Within a transaction that holds the write lock. */
function migrate(driver, where) {
	if (!needsMigration(driver, where)) return;
	const from = Number(driver.prepare("PRAGMA user_version").get([])?.[0] ?? 0);
	for (const migration of MIGRATIONS.slice(from)) driver.exec(migration);
	driver.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION}`);
}
// packages/holdfast/src/store/sqlite/connection.ts
const DEFAULT_PATIENCE = 3e4;
const CACHE_KIB = 16384;
var Connection = class Connection {
	path;
	#driver;
	#patience;
	#file;
	#statements = /* @__PURE__ */ new Map();
	constructor(path, driver, patience) {
		this.path = path;
		this.#driver = driver;
		this.#patience = patience;
		const { dev, ino } = statSync(path);
		this.#file = {
			dev,
			ino
		};
	}
	/** Creates the folder and the file if need be, and brings the schema up to date. Safe when many processes do it at once. */
	static async open(path, options = {}) {
		const { synchronous = "FULL", patience = DEFAULT_PATIENCE } = options;
		const full = resolve(path);
		readyFolder(full);
		refuseOthers(full);
		return patiently(full, patience, () => {
			const driver = openDriver(full, options.driver);
			try {
				set(driver, "busy_timeout = 0", "foreign_keys = OFF");
				const isNew = needsMigration(driver, full);
				useWal(driver, full);
				set(driver, `synchronous = ${synchronous === "NORMAL" ? "NORMAL" : "FULL"}`, `cache_size = -${CACHE_KIB}`);
				const connection = new Connection(full, driver, patience);
				if (isNew) connection.transaction(() => migrate(driver, full));
				return connection;
			} catch (error) {
				driver.close();
				throw error;
			}
		});
	}
	#prepared(sql) {
		let statement = this.#statements.get(sql);
		if (statement === void 0) {
			statement = this.#driver.prepare(sql);
			this.#statements.set(sql, statement);
		}
		return statement;
	}
	run(sql, parameters) {
		this.#prepared(sql).run(parameters);
	}
	get(sql, parameters) {
		return this.#prepared(sql).get(parameters);
	}
	all(sql, parameters) {
		return this.#prepared(sql).all(parameters);
	}
	/** A statement that is not asked for often enough to be kept. */
	allOnce(sql, parameters) {
		return this.#driver.prepare(sql).all(parameters);
	}
	prepareNamed(sql) {
		return this.#driver.prepareNamed(sql);
	}
	exec(sql) {
		this.#driver.exec(sql);
	}
	/** Takes the write lock, or throws that it is busy. */
	begin() {
		this.#checkFile();
		this.#driver.exec("BEGIN IMMEDIATE");
	}
	commit() {
		this.#driver.exec("COMMIT");
	}
	/** SQLite has done it already after some errors. */
	rollback() {
		try {
			this.#driver.exec("ROLLBACK");
		} catch {}
	}
	transaction(work) {
		this.begin();
		try {
			const result = work();
			this.commit();
			return result;
		} catch (error) {
			this.rollback();
			throw error;
		}
	}
	#checkFile() {
		const found = statSync(this.path, { throwIfNoEntry: false });
		if (found === void 0) throw new StoreMovedError({
			where: this.path,
			what: "deleted"
		});
		if (found.ino !== this.#file.ino || found.dev !== this.#file.dev) throw new StoreMovedError({
			where: this.path,
			what: "replaced"
		});
	}
	/** Repeats the work while somebody else's lock is in the way; errors come out typed. */
	patiently(work) {
		return patiently(this.path, this.#patience, work);
	}
	close() {
		try {
			this.get("PRAGMA wal_checkpoint(TRUNCATE)", []);
		} catch {}
		this.#statements.clear();
		this.#driver.close();
	}
};
function readyFolder(path) {
	try {
		mkdirSync(dirname(path), { recursive: true });
	} catch (error) {
		throw noFolder(path, error);
	}
}
const MAGIC = "SQLite format 3\0";
/** SQLite takes a file of a few bytes for an empty database, and would write over it. */
function refuseOthers(path) {
	const found = statSync(path, { throwIfNoEntry: false });
	if (found === void 0 || found.size === 0) return;
	if (!found.isFile()) throw new StoreOpenError({
		where: path,
		reason: "it is no file."
	});
	const head = Buffer.alloc(16);
	const file = openSync(path, "r");
	try {
		readSync(file, head);
	} finally {
		closeSync(file);
	}
	if (head.toString("latin1") !== MAGIC) throw new StoreForeignError({
		where: path,
		reason: "the file is no SQLite database."
	});
}
function noFolder(where, cause) {
	return new StoreOpenError({
		where,
		reason: `its folder can't be made (${cause.message}).`,
		cause
	});
}
/** Prepared, since some of them answer with a row: libsql's exec would leave them in progress. */
function set(driver, ...settings) {
	for (const setting of settings) driver.prepare(`PRAGMA ${setting}`).get([]);
}
function useWal(driver, where) {
	const [mode] = driver.prepare("PRAGMA journal_mode = WAL").get([]) ?? [];
	if (mode !== "wal") throw new StoreOpenError({
		where,
		reason: `its file system has no write-ahead log for SQLite (journal mode ${String(mode)}).`
	});
}
function stillBusy(where, patience, cause) {
	return new StoreBusyError({
		where,
		seconds: Math.round(patience / 1e3),
		cause
	});
}
const FIRST_WAIT = 1;
const LONGEST_WAIT = 25;
async function patiently(where, patience, work) {
	const began = performance.now();
	for (let wait = FIRST_WAIT;; wait = Math.min(wait * 2, LONGEST_WAIT)) {
		try {
			return work();
		} catch (error) {
			if (!isBusy(error)) throw storeError(error, where);
			if (performance.now() - began >= patience) throw stillBusy(where, patience, error);
		}
		await new Promise((done) => setTimeout(done, wait * (.5 + Math.random())));
	}
}
// packages/holdfast/src/store/sqlite/endTasks.ts
/** False: the attempt was over, the answer is dropped. */
function answerTask(session, { id, token, outcome }, now) {
	const task = heldTask(session.db, id, token);
	if (task === void 0) return false;
	if (outcome.status === "completed") {
		keepAttempt(session.db, task, {
			status: "completed",
			endedAt: now
		});
		end(session, task, outcome, now);
	} else {
		const { error, retryable, random } = outcome;
		failAttempt(session, task, {
			status: "failed",
			error,
			retryable,
			delay: retryDelay(task.retry, task.attempt, random)
		}, now);
	}
	return true;
}
function failAttempt(session, task, { status, error, retryable, delay }, now) {
	const retryAt = now + delay;
	const closesAt = after(task.scheduledAt, task.scheduleToClose);
	const again = retryable && task.attempt < task.retry.maxAttempts && (closesAt === void 0 || retryAt < closesAt);
	keepAttempt(session.db, task, {
		status,
		error,
		endedAt: now,
		retryAt: again ? retryAt : void 0
	});
	if (again) waitAgain(session, task, retryAt);
	else end(session, task, {
		status: "failed",
		error,
		attempts: task.attempt
	}, now);
}
function waitAgain(session, task, availableAt) {
	const due = after(task.scheduledAt, task.scheduleToClose) ?? null;
	session.db.run("UPDATE tasks SET worker_id = NULL, token = token + 1, available_at = ?, due_at = ? WHERE id = ?", [
		availableAt,
		due,
		task.id
	]);
	session.changed("tasks");
}
function end(session, task, outcome, now) {
	deleteTask(session.db, task.id);
	answerOperation(session, task.runId, task.execution, task.seq, outcome, now);
}
const AT_ONCE = 500;
/** The store makes no random choices: its own retries take the middle. */
const MIDDLE = .5;
/** Ends the attempts whose time is up. */
function sweepTasks(session, now) {
	for (const task of findDueTasks(session.db, now, AT_ONCE)) timeOut(session, task, now);
}
function timeOut(session, task, now) {
	const passed = (from, length) => length !== void 0 && now >= from + length;
	const { scheduledAt, startedAt, heartbeatAt, scheduleToClose, scheduleToStart, startToClose, heartbeat } = task;
	if (passed(scheduledAt, scheduleToClose)) {
		const error = timeoutError(task, scheduleToClose);
		if (task.workerId !== void 0) keepAttempt(session.db, task, {
			status: "failed",
			error: serializeError(error),
			endedAt: now
		});
		end(session, task, {
			status: "failed",
			error: serializeError(error),
			attempts: task.attempt
		}, now);
	} else if (task.workerId === void 0) {
		if (task.attempt === 0 && passed(scheduledAt, scheduleToStart)) end(session, task, {
			status: "failed",
			error: serializeError(timeoutError(task, scheduleToStart)),
			attempts: 0
		}, now);
	} else if (passed(startedAt, startToClose)) tooLong(session, task, startToClose, now);
	else if (passed(heartbeatAt, heartbeat)) tooLong(session, task, heartbeat, now);
	else {
		const lost = new HoldfastError(`The worker that ran attempt ${task.attempt} did not come back.`, { code: "HF_WORKER_LOST" });
		failAttempt(session, task, {
			status: "lost",
			error: serializeError(lost),
			retryable: true,
			delay: 0
		}, now);
	}
}
function tooLong(session, task, timeout, now) {
	const error = timeoutError(task, timeout);
	const { nonRetryable } = task.retry;
	const retryable = isRetryable(error, nonRetryable === void 0 ? void 0 : { nonRetryable });
	const delay = retryDelay(task.retry, task.attempt, MIDDLE);
	failAttempt(session, task, {
		status: "failed",
		error: serializeError(error),
		retryable,
		delay
	}, now);
}
function timeoutError(task, timeout) {
	return new StepTimeoutError({
		step: task.activity,
		timeout,
		attempt: Math.max(1, task.attempt)
	});
}
// packages/holdfast/src/store/sqlite/overruleRuns.ts
function terminate(session, runId, reason, now) {
	const run = findRun(session.db, runId);
	if (run === void 0) return { status: "not-found" };
	if (!run.isOpen) return {
		status: "closed",
		runStatus: run.status
	};
	terminateRun(session, run, reason, now);
	return {
		status: "sent",
		inboxId: 0
	};
}
const AVAILABLE = "UPDATE runs SET available_at = min(coalesce(available_at, ?1), ?1) WHERE key = ?2";
const REOPEN = `UPDATE runs SET status = 'pending', attempt = attempt + 1, error = NULL, output = NULL, finished_at = NULL, available_at = ?
  WHERE key = ?`;
function resume(session, runId, now) {
	const { db } = session;
	const run = findRun(db, runId);
	if (run === void 0) return "not-found";
	if (run.status === "blocked") {
		db.run(AVAILABLE, [now, run.key]);
		session.changed("work");
		return "resumed";
	}
	if (run.status !== "failed" || !run.isResumable || run.turns === 0) return "not-resumable";
	db.run(REOPEN, [now, run.key]);
	putMessage(session, run.key, {
		type: "resume",
		attempt: run.attempt + 1,
		voids: []
	}, now);
	return "resumed";
}
/** Ends runs whose deadline has passed. Returns how many. */
function expireRuns(session, now) {
	const late = findLate(session.db, now, 500);
	for (const run of late) expireRun(session, run, now);
	return late.length;
}
const EXPIRE = `UPDATE runs SET expired = 1, epoch = epoch + 1, worker_id = NULL, available_at = ?,
  status = CASE status WHEN 'running' THEN 'sleeping' ELSE status END WHERE key = ?`;
function expireRun(session, run, now) {
	const { deadlineAt } = run;
	const error = serializeError(new DeadlineExceededError({
		runId: run.id,
		...deadlineAt !== void 0 && { deadline: deadlineAt }
	}));
	if (run.rollbacks === 0) return closeRun(session, run, {
		status: "failed",
		error,
		resumable: false
	}, now);
	session.db.run(EXPIRE, [now, run.key]);
	putMessage(session, run.key, {
		type: "expire",
		error
	}, now);
}
const BLOCKED = "SELECT key FROM runs WHERE status = 'blocked' AND +workflow = ? AND blocked_code IS NOT ?";
/** Blocked runs of a workflow that other code than this has given up. Returns how many. */
function unblockRuns(session, workflow, code, now) {
	const blocked = session.db.all(BLOCKED, [text(workflow), text(code)]);
	for (const [key] of blocked) session.db.run(AVAILABLE, [now, readNumber(key)]);
	if (blocked.length > 0) session.changed("work");
	return blocked.length;
}
// packages/holdfast/src/store/sqlite/readRuns.ts
function readRun(db, id) {
	const row = db.get(`SELECT ${RUN_COLUMNS} FROM ${RUN_TABLES} WHERE r.id = ?`, [text(id)]);
	return row === void 0 ? void 0 : runRow(row);
}
function readHistory(db, id) {
	const run = readRun(db, id);
	const key = findRun(db, id)?.key;
	return run === void 0 || key === void 0 ? [] : turnsOf$1(readRecords(db, key, run.execution), birthOf$1(run));
}
const WORKERS = "SELECT r.turn, w.id FROM records r JOIN workers w ON w.key = r.worker WHERE r.run = ? AND r.execution = ? AND r.worker IS NOT NULL";
/** Who committed each turn, by its index. */
function readWorkers(db, id) {
	const run = findRun(db, id);
	const rows = run === void 0 ? [] : db.all(WORKERS, [run.key, run.execution]);
	return new Map(rows.map(([turn, worker]) => [readNumber(turn), readText(worker)]));
}
function readAllAttempts(db, id) {
	const run = findRun(db, id);
	return run === void 0 ? [] : readAttempts(db, run.key, run.execution, "all");
}
function listRuns(db, query) {
	const filter = filterOf(query);
	if (query.cursor !== void 0) {
		const { createdAt, key } = parseCursor(query.cursor);
		filter.add("(r.created_at < ? OR (r.created_at = ? AND r.key < ?))", createdAt, createdAt, key);
	}
	const sql = `SELECT ${RUN_COLUMNS} FROM ${RUN_TABLES} ${filter.where} ORDER BY r.created_at DESC, r.key DESC LIMIT ?`;
	const rows = db.allOnce(sql, [...filter.parameters, query.limit + 1]);
	const page = rows.slice(0, query.limit);
	const last = page.at(-1);
	const runs = page.map(runRow);
	return {
		runs,
		cursor: rows.length > page.length && last !== void 0 ? formatCursor(runs.at(-1)?.createdAt ?? 0, readNumber(last[0])) : void 0
	};
}
function countRuns(db, query) {
	const counts = Object.fromEntries(ALL_STATUSES.map((status) => [status, 0]));
	const filter = filterOf(query);
	const rows = db.allOnce(`SELECT r.status, count(*) FROM runs r ${filter.where} GROUP BY r.status`, filter.parameters);
	for (const [status, count] of rows) counts[readText(status)] = readNumber(count);
	return counts;
}
var Filter = class {
	parameters = [];
	#conditions = [];
	add(condition, ...parameters) {
		this.#conditions.push(condition);
		this.parameters.push(...parameters);
	}
	get where() {
		return this.#conditions.length === 0 ? "" : `WHERE ${this.#conditions.join(" AND ")}`;
	}
};
function filterOf({ status, workflow, queue, parentId, attributes, since, until }) {
	const filter = new Filter();
	if (status !== void 0) filter.add(`r.status IN (${status.map(() => "?").join(", ")})`, ...status);
	const byStatus = status !== void 0 && !status.includes("completed");
	if (workflow !== void 0) filter.add(byStatus ? "+r.workflow = ?" : "r.workflow = ?", text(workflow));
	if (queue !== void 0) filter.add("r.queue = ?", text(queue));
	if (parentId !== void 0) filter.add("r.parent_id = ?", text(parentId));
	if (since !== void 0) filter.add("r.created_at >= ?", since);
	if (until !== void 0) filter.add("r.created_at < ?", until);
	for (const [key, value] of Object.entries(attributes ?? {})) filter.add(HAS_ATTRIBUTE, `,${JSON.stringify(key)}:${JSON.stringify(value)},`);
	return filter;
}
/** Attributes are flat and written by JSON.stringify: an entry is there if its text is, between commas. Quotes inside of texts are escaped. */
const HAS_ATTRIBUTE = "instr(',' || substr(r.attributes, 2, length(r.attributes) - 2) || ',', ?) > 0";
function formatCursor(createdAt, key) {
	return `${createdAt}.${key}`;
}
function parseCursor(cursor) {
	const parts = /^(-?\d+)\.(\d+)$/.exec(cursor);
	if (parts === null) throw new InvalidInputError({
		what: "cursor",
		issues: [{ message: "must be one that an earlier page gave" }]
	});
	return {
		createdAt: Number(parts[1]),
		key: Number(parts[2])
	};
}
// packages/holdfast/src/store/sqlite/renewLeases.ts
/** A worker asks at every hint that messages may be there: a lease that has lost less than this share of its length is left as it is. */
const NOT_WORTH_A_WRITE = .1;
function readClaim(db, workerId, { runId, epoch, seen }) {
	const [key, holder, leasedUntil, lastMessage] = db.get("SELECT key, worker_id, available_at, last_message FROM runs WHERE id = ? AND epoch = ? AND finished_at IS NULL", [text(runId), epoch]) ?? [];
	if (key === void 0 || readOptionalText(holder) !== workerId) return {
		key: void 0,
		inbox: [],
		leasedUntil: 0
	};
	const inbox = readNumber(lastMessage) > seen ? readInbox(db, readNumber(key), seen) : [];
	return {
		key: readNumber(key),
		inbox,
		leasedUntil: readNumber(leasedUntil)
	};
}
function needsRenewal({ key, leasedUntil }, lease, now) {
	return key !== void 0 && now + lease - leasedUntil > lease * NOT_WORTH_A_WRITE;
}
function renewLease(db, { key }, lease, now) {
	if (key !== void 0) db.run("UPDATE runs SET available_at = ? WHERE key = ?", [now + lease, key]);
}
// packages/holdfast/src/store/sqlite/session.ts
const MOST_REMEMBERED = 1e4;
var Session = class {
	db;
	#lanes = /* @__PURE__ */ new Map();
	#workers = /* @__PURE__ */ new Map();
	#changed = {};
	constructor(db) {
		this.db = db;
	}
	laneOf(queue, workflow, version, priority) {
		const key = JSON.stringify([
			queue,
			workflow,
			version,
			priority
		]);
		let lane = this.#lanes.get(key);
		if (lane === void 0) {
			const names = [
				text(queue),
				text(workflow),
				textOrNull(version),
				priority
			];
			const [found] = this.db.get("SELECT lane FROM lanes WHERE queue = ? AND workflow = ? AND version IS ? AND priority = ?", names) ?? this.db.get("INSERT INTO lanes (queue, workflow, version, priority) VALUES (?, ?, ?, ?) RETURNING lane", names) ?? [];
			lane = Number(found);
			remember(this.#lanes, key, lane);
		}
		return lane;
	}
	workerKey(id) {
		let key = this.#workers.get(id);
		if (key === void 0) {
			const name = [text(id)];
			const [found] = this.db.get("SELECT key FROM workers WHERE id = ?", name) ?? this.db.get("INSERT INTO workers (id) VALUES (?) RETURNING key", name) ?? [];
			key = Number(found);
			remember(this.#workers, id, key);
		}
		return key;
	}
	/** Watchers are told after the commit. */
	changed(what) {
		this.#changed[what] = true;
	}
	takeChanges() {
		const changed = this.#changed;
		this.#changed = {};
		return changed;
	}
	/** After a rollback. */
	forget() {
		this.#lanes = /* @__PURE__ */ new Map();
		this.#workers = /* @__PURE__ */ new Map();
		this.#changed = {};
	}
};
function remember(names, key, number) {
	if (names.size >= MOST_REMEMBERED) names.clear();
	names.set(key, number);
}
// packages/holdfast/src/store/sqlite/transact.ts
/** Runs inside a transaction that others may share: what the user's function does is undone by itself if it throws. */
function transact(session, claim, body, now) {
	const { db } = session;
	const run = findRun(db, claim.runId);
	if (run === void 0 || !isHeld(run, claim.epoch)) return "stale";
	db.run("SAVEPOINT user_transaction", []);
	const tx = openTransaction(db);
	let value;
	try {
		value = body(tx.handle);
	} catch (error) {
		if (isStorageFault(error) || !takeBack(db)) throw error;
		return new Thrown(error);
	} finally {
		tx.end();
	}
	db.run("RELEASE user_transaction", []);
	const job = {
		type: "resolve",
		seq: claim.seq,
		outcome: {
			status: "completed",
			value
		}
	};
	return {
		id: putMessage(session, run.key, job, now),
		job
	};
}
/** False if there is nothing left to go back to. */
function takeBack(db) {
	try {
		db.run("ROLLBACK TO user_transaction", []);
		db.run("RELEASE user_transaction", []);
		return true;
	} catch {
		return false;
	}
}
/** The error of a user's function: not one of the store's. */
var Thrown = class {
	error;
	constructor(error) {
		this.error = error;
	}
};
function openTransaction(db) {
	let isOpen = true;
	const whileOpen = (work) => {
		if (!isOpen) throw refused("The transaction is over.\nUse tx inside the function that was given it, and before it returns.");
		return work();
	};
	const prepare = (sql) => {
		const statement = whileOpen(() => db.prepareNamed(onlyStatement(sql)));
		return {
			run: (...parameters) => whileOpen(() => statement.run(...parameters)),
			get: (...parameters) => whileOpen(() => statement.get(...parameters)),
			all: (...parameters) => whileOpen(() => statement.all(...parameters))
		};
	};
	const handle = {
		prepare,
		exec: (sql) => {
			const statements = statementsOf(sql);
			for (const statement of statements) refuseControl(statement);
			for (const statement of statements) prepare(statement.sql).all();
		},
		run: (sql, ...parameters) => prepare(sql).run(...parameters),
		get: (sql, ...parameters) => prepare(sql).get(...parameters),
		all: (sql, ...parameters) => prepare(sql).all(...parameters)
	};
	const end = () => {
		isOpen = false;
	};
	return {
		handle,
		end
	};
}
function onlyStatement(sql) {
	const [statement, ...more] = statementsOf(sql);
	if (statement === void 0 || more.length > 0) throw refused("prepare takes one statement.\nUse tx.exec for several.");
	refuseControl(statement);
	return statement.sql;
}
function refused(message) {
	return new StoreError(message, { code: "HF_STORE_TRANSACTION" });
}
const CONTROL = /* @__PURE__ */ new Set([
	"begin",
	"commit",
	"end",
	"rollback",
	"savepoint",
	"release",
	"attach",
	"detach",
	"vacuum"
]);
/** The transaction is the store's: it would be committed or lost with what others have in it. */
function refuseControl({ verb }) {
	if (!CONTROL.has(verb)) return;
	throw refused(`A transaction step may not use ${verb.toUpperCase()}: it runs inside a transaction already.\nThrow to take everything back, return to keep it.`);
}
// packages/holdfast/src/store/sqlite/watchers.ts
/**
* A look reads shared memory and takes microseconds; it is waking up that costs: two hundred times a second took 2 to 3% of a core of
* a loaded machine, fifty times 1%. So: often while others write, less often once they have not for a second.
*/
const LOOK_EVERY_MS = 5;
const LOOK_SELDOM_MS = 20;
const QUIET_AFTER_LOOKS = 200;
const ANYTHING = {
	work: true,
	tasks: true,
	results: true
};
var Watchers = class {
	#connection;
	#watchers = /* @__PURE__ */ new Set();
	#timer;
	#version;
	#quietLooks = 0;
	/** The connection may come and go. */
	constructor(connection) {
		this.#connection = connection;
	}
	add(watcher) {
		const own = (wakeup) => watcher(wakeup);
		this.#watchers.add(own);
		this.start();
		return () => {
			this.#watchers.delete(own);
			if (this.#watchers.size === 0) this.stop();
		};
	}
	tell(changes) {
		for (const watcher of [...this.#watchers]) try {
			watcher(changes);
		} catch (error) {
			setImmediate(() => {
				throw error;
			});
		}
	}
	stop() {
		clearTimeout(this.#timer);
		this.#timer = void 0;
	}
	/** Also after the connection was closed and opened again. */
	start() {
		if (this.#timer !== void 0 || this.#watchers.size === 0) return;
		this.#version = this.#look();
		this.#quietLooks = 0;
		this.#lookAgain();
	}
	#lookAgain() {
		const wait = this.#quietLooks < QUIET_AFTER_LOOKS ? LOOK_EVERY_MS : LOOK_SELDOM_MS;
		this.#timer = setTimeout(() => {
			this.#lookAgain();
			const version = this.#look();
			this.#quietLooks++;
			if (version === void 0 || version === this.#version) return;
			this.#version = version;
			this.#quietLooks = 0;
			this.tell(ANYTHING);
		}, wait);
		this.#timer.unref();
	}
	/** The number changes when another connection has written, never by our own writes. */
	#look() {
		try {
			return this.#connection()?.get("PRAGMA data_version", [])?.[0];
		} catch {
			return;
		}
	}
};
// packages/holdfast/src/store/sqlite/writer.ts
/** A transaction takes no more items than this, so that the event loop is not held up for long. */
const HEAVIEST = 1e3;
var Writer = class {
	#session;
	#gather;
	#notify;
	#waiting = [];
	#isScheduled = false;
	#flushing;
	constructor(session, notify, gather = (flush) => void setImmediate(flush)) {
		this.#session = session;
		this.#notify = notify;
		this.#gather = gather;
	}
	/** Applies the work in a transaction, with others'; resolves when it is committed. */
	write(weight, work) {
		return new Promise((resolve, reject) => {
			let result;
			this.#waiting.push({
				weight,
				apply: () => {
					result = work();
				},
				settle: () => resolve(result),
				fail: reject
			});
			this.#schedule();
		});
	}
	/** Resolves when everything that was asked for so far has been answered. */
	async drain() {
		while (this.#waiting.length > 0 || this.#flushing !== void 0) await (this.#flushing ?? new Promise((done) => setImmediate(done)));
	}
	#schedule() {
		if (this.#isScheduled || this.#flushing !== void 0) return;
		this.#isScheduled = true;
		this.#gather(() => {
			this.#isScheduled = false;
			this.#flushing = this.#flush().finally(() => {
				this.#flushing = void 0;
				if (this.#waiting.length > 0) this.#schedule();
			});
		});
	}
	async #flush() {
		const { db } = this.#session;
		try {
			await db.patiently(() => db.begin());
		} catch (error) {
			for (const write of this.#waiting.splice(0)) write.fail(error);
			return;
		}
		const writes = this.#takeWaiting();
		const failure = this.#finish(writes);
		if (failure === void 0) return;
		if (writes.length === 1 || isStorageFault(failure)) for (const write of writes) write.fail(storeError(failure, db.path));
		else for (const write of writes) await this.#writeAlone(write);
	}
	#takeWaiting() {
		let weight = 0;
		let count = 0;
		for (const write of this.#waiting) {
			weight += write.weight;
			if (count > 0 && weight > HEAVIEST) break;
			count++;
		}
		return this.#waiting.splice(0, count);
	}
	/** One of several was at fault: each by itself, so that only that one fails. */
	async #writeAlone(write) {
		const { db } = this.#session;
		try {
			await db.patiently(() => db.begin());
		} catch (error) {
			write.fail(error);
			return;
		}
		const failure = this.#finish([write]);
		if (failure !== void 0) write.fail(storeError(failure, db.path));
	}
	/** Within a transaction that has begun: applies, commits, answers. Returns what went wrong, with everything taken back. */
	#finish(writes) {
		const { db } = this.#session;
		try {
			for (const write of writes) write.apply();
			db.commit();
		} catch (error) {
			db.rollback();
			this.#session.forget();
			return isBusy(error) ? storeError(error, db.path) : error ?? /* @__PURE__ */ new Error("nothing was thrown");
		}
		const changes = this.#session.takeChanges();
		for (const write of writes) write.settle();
		if (changes.work === true || changes.tasks === true || changes.results === true) this.#notify(changes);
	}
};
// packages/holdfast/src/store/sqlite/store.ts
/** Items of one call that share a transaction; what it has more goes into further ones. */
const PORTION = 500;
var SqliteStore = class {
	path;
	#options;
	#clock;
	#watchers = new Watchers(() => this.#session?.db);
	#session;
	#writer;
	#opening;
	constructor(path, options = {}) {
		this.path = path;
		this.#options = options;
		this.#clock = options.clock ?? Date.now;
	}
	open() {
		this.#opening ??= this.#open().catch((error) => {
			this.#opening = void 0;
			throw error;
		});
		return this.#opening;
	}
	async #open() {
		const session = new Session(await Connection.open(this.path, this.#options));
		this.#session = session;
		this.#writer = new Writer(session, (changes) => this.#watchers.tell(changes), this.#options.gather);
		this.#watchers.start();
	}
	async close() {
		await this.#opening?.catch(() => void 0);
		this.#watchers.stop();
		await this.#writer?.drain();
		const session = this.#session;
		this.#session = void 0;
		this.#writer = void 0;
		this.#opening = void 0;
		session?.db.close();
	}
	async now() {
		return this.#clock();
	}
	/** Async, so that a store that is not open is a rejection. */
	async #read(work) {
		const { db } = this.#opened();
		return db.patiently(() => work(db));
	}
	async #write(weight, work) {
		const session = this.#opened();
		const writer = this.#writer;
		if (writer === void 0) throw new StoreClosedError({ where: this.path });
		return writer.write(weight, () => work(session, this.#clock()));
	}
	/** Item by item, in order. */
	async #writeEach(items, work) {
		if (items.length <= PORTION) return items.length === 0 ? [] : this.#write(items.length, (session, now) => items.map((item) => work(session, item, now)));
		const portions = Array.from({ length: Math.ceil(items.length / PORTION) }, (_, i) => items.slice(i * PORTION, (i + 1) * PORTION));
		return (await Promise.all(portions.map((portion) => this.#writeEach(portion, work)))).flat();
	}
	#opened() {
		if (this.#session === void 0) throw new StoreClosedError({ where: this.path });
		return this.#session;
	}
	create(runs) {
		return this.#writeEach(runs, (session, run, now) => {
			const { id: runId, workflow, version, seed, input, first } = run;
			return createRun(session, run, now, (key) => {
				if (first !== void 0) commitFirst(session, key, first.commit, now, {
					runId,
					workflow,
					version,
					seed,
					input
				});
			});
		});
	}
	async claim(request) {
		const now = this.#clock();
		const look = await this.#read((db) => findDue(db, findLanes(db, request), request.limit, now));
		if (look.due.length === 0 || request.limit <= 0) return {
			now,
			runs: [],
			nextAt: look.nextAt
		};
		return this.#claimDue(request);
	}
	async #claimDue(request) {
		const { workerId: id, lease, cached, limit } = request;
		const { now, claims, nextAt } = await this.#write(limit, ({ db }, now) => {
			const { due, nextAt } = findDue(db, findLanes(db, request), limit, now);
			return {
				now,
				claims: due.map((key) => claimRun(db, key, {
					id,
					lease
				}, cached, now)),
				nextAt
			};
		});
		return {
			now,
			runs: claims.map(claimedRun),
			nextAt
		};
	}
	commit(turns) {
		return this.#writeEach(turns, (session, turn, now) => commitTurn(session, turn, now));
	}
	send(messages) {
		return this.#writeEach(messages, (session, { runId, message }, now) => deliverMessage(session, runId, message, now));
	}
	async renew(workerId, lease, claims) {
		const now = this.#clock();
		const read = await this.#read((db) => claims.map((claim) => readClaim(db, workerId, claim)));
		if (!read.some((renewal) => needsRenewal(renewal, lease, now))) return read.map(({ key, inbox }) => ({
			held: key !== void 0,
			inbox
		}));
		return this.#writeEach(claims, ({ db }, claim, now) => {
			const renewal = readClaim(db, workerId, claim);
			renewLease(db, renewal, lease, now);
			return {
				held: renewal.key !== void 0,
				inbox: renewal.inbox
			};
		});
	}
	terminate(runs) {
		return this.#writeEach(runs, (session, { runId, reason }, now) => terminate(session, runId, reason, now));
	}
	resume(runIds) {
		return this.#writeEach(runIds, resume);
	}
	async expire() {
		const now = this.#clock();
		const isDue = await this.#read((db) => findLate(db, now, 1).length > 0 || findDueTasks(db, now, 1).length > 0);
		let total = 0;
		for (let count = isDue ? 500 : 0; count === 500; total += count) count = await this.#write(500, (session, now) => {
			sweepTasks(session, now);
			return expireRuns(session, now);
		});
		return total;
	}
	async unblock(workflows) {
		return (await this.#writeEach(workflows, (session, { workflow, code }, now) => unblockRuns(session, workflow, code, now))).reduce((sum, count) => sum + count, 0);
	}
	async transact(claim, body) {
		const result = await this.#write(1, (session, now) => transact(session, claim, body, now));
		if (result instanceof Thrown) throw result.error;
		return result;
	}
	async claimTasks(request) {
		const now = this.#clock();
		const look = await this.#read((db) => ({
			...findTasks(db, request, now),
			overdue: findDueTasks(db, now, 1)
		}));
		if (look.overdue.length === 0 && (look.due.length === 0 || request.limit <= 0)) return {
			now,
			tasks: [],
			nextAt: look.nextAt
		};
		return this.#write(request.limit, (session, now) => {
			sweepTasks(session, now);
			const { due, nextAt } = findTasks(session.db, request, now);
			return {
				now,
				tasks: due.flatMap(({ id }) => claimTask(session.db, id, request, now) ?? []),
				nextAt
			};
		});
	}
	heartbeat(tasks) {
		return this.#write(tasks.length, (session, now) => {
			sweepTasks(session, now);
			return tasks.map((beat) => heartbeatTask(session.db, beat, now));
		});
	}
	answerTasks(answers) {
		return this.#write(answers.length, (session, now) => {
			sweepTasks(session, now);
			return answers.map((answer) => answerTask(session, answer, now));
		});
	}
	get(runIds) {
		return this.#read((db) => runIds.map((id) => readRun(db, id)));
	}
	history(runId) {
		return this.#read((db) => readHistory(db, runId));
	}
	attempts(runId) {
		return this.#read((db) => readAllAttempts(db, runId));
	}
	workers(runId) {
		return this.#read((db) => readWorkers(db, runId));
	}
	updates(keys) {
		return this.#read((db) => keys.map(({ runId, id }) => readUpdate(db, runId, id)));
	}
	list(query) {
		return this.#read((db) => listRuns(db, query));
	}
	count(query) {
		return this.#read((db) => countRuns(db, query));
	}
	watch(onWakeup) {
		return this.#watchers.add(onWakeup);
	}
};
export { SqliteStore };
