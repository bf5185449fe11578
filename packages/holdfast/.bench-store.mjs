import { createRequire, isBuiltin } from "node:module";
import { closeSync, mkdirSync, openSync, readSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
// packages/core/src/errors/catalog.ts
const errorCatalog = [
	{
		name: "HoldfastError",
		code: "HF_ERROR",
		retryable: false,
		summary: "The class that all errors of Holdfast extend.",
		whatToDo: "Match on `code`, or on one of the classes below."
	},
	{
		name: "FatalError",
		code: "HF_FATAL",
		retryable: false,
		summary: "Thrown by a step or activity that no further attempt can mend.",
		whatToDo: "Mend what the message says; the step or activity is not tried again."
	},
	{
		name: "RollbackError",
		code: "HF_ROLLBACK",
		retryable: false,
		summary: "Thrown by a workflow to fail and to roll back its completed steps.",
		whatToDo: "Nothing more: the rollbacks of completed steps run in reverse order."
	},
	{
		name: "StepFailedError",
		code: "HF_STEP_FAILED",
		retryable: false,
		summary: "A step failed for good: its attempts are used up, or its error is not to be retried.",
		whatToDo: "See `cause`. Catch it in the workflow to go another way, or mend the cause and call run.resume()."
	},
	{
		name: "StepTimeoutError",
		code: "HF_STEP_TIMEOUT",
		retryable: true,
		summary: "One attempt of a step took longer than its `timeout`.",
		whatToDo: "Raise the step's `timeout`, or pass its `signal` to what it calls so that the call ends in time."
	},
	{
		name: "ActivityFailedError",
		code: "HF_ACTIVITY_FAILED",
		retryable: false,
		summary: "An activity failed for good: attempts used up, timed out, or its error is not to be retried.",
		whatToDo: "See `cause`. Catch it in the workflow to go another way, or mend the cause and call run.resume()."
	},
	{
		name: "ChildFailedError",
		code: "HF_CHILD_FAILED",
		retryable: false,
		summary: "A child run failed, was canceled or was terminated.",
		whatToDo: "See `cause`. Catch it in the parent to go another way, or look at the child run under its id."
	},
	{
		name: "RunFailedError",
		code: "HF_RUN_FAILED",
		retryable: false,
		summary: "The run whose result was asked for has failed.",
		whatToDo: "See `cause` and run.operations(). Once the cause is mended, run.resume() goes on from where it stopped."
	},
	{
		name: "CanceledError",
		code: "HF_CANCELED",
		retryable: false,
		summary: "The run, or the scope around this operation, was canceled.",
		whatToDo: "Let it pass, or clean up in a `finally` inside ctx.shield(..)."
	},
	{
		name: "RunTerminatedError",
		code: "HF_RUN_TERMINATED",
		retryable: false,
		summary: "The run was ended from outside, running no workflow code.",
		whatToDo: "Start a new run if the work is still wanted; a terminated one does not resume."
	},
	{
		name: "DeadlineExceededError",
		code: "HF_DEADLINE_EXCEEDED",
		retryable: false,
		summary: "The run did not end before its deadline.",
		whatToDo: "Start it again with a later `deadline`, or see in run.operations() what took the time."
	},
	{
		name: "JoinError",
		code: "HF_JOIN_FAILED",
		retryable: false,
		summary: "At least one branch of ctx.join failed; all of them have ended.",
		whatToDo: "See `errors`, by branch. Use ctx.parallel to get the outcomes as values, or ctx.try inside a branch."
	},
	{
		name: "RaceError",
		code: "HF_RACE_FAILED",
		retryable: false,
		summary: "Every branch of ctx.race failed.",
		whatToDo: "See `errors`, by branch."
	},
	{
		name: "UpdateRejectedError",
		code: "HF_UPDATE_REJECTED",
		retryable: false,
		summary: "No open receive accepted the update, or its validator refused it. Nothing entered history.",
		whatToDo: "Send an update that the workflow accepts in the state it is in; nothing has changed."
	},
	{
		name: "UpdateFailedError",
		code: "HF_UPDATE_FAILED",
		retryable: false,
		summary: "The update was accepted and its handler threw.",
		whatToDo: "See `cause`. The run goes on; the same update id gives the same outcome, a new one tries again."
	},
	{
		name: "QueryFailedError",
		code: "HF_QUERY_FAILED",
		retryable: false,
		summary: "The workflow declares no such query, or the query threw.",
		whatToDo: "Query by a name that the workflow declares under `queries`, and mind that the published state may be undefined."
	},
	{
		name: "ReceiveClosedError",
		code: "HF_RECEIVE_CLOSED",
		retryable: true,
		summary: "The update was accepted, but the receive closed before its turn came.",
		whatToDo: "Send it again under a new id: a later receive may take it."
	},
	{
		name: "RunNotFoundError",
		code: "HF_RUN_NOT_FOUND",
		retryable: false,
		summary: "There is no run of that id in this store and namespace.",
		whatToDo: "Check the id, and that this engine is open on the store and namespace where the run was started."
	},
	{
		name: "RunAlreadyExistsError",
		code: "HF_RUN_ALREADY_EXISTS",
		retryable: false,
		summary: "A run of that id exists.",
		whatToDo: "Choose another id, or start with onConflict \"use-existing\" or \"restart-if-closed\"."
	},
	{
		name: "RunClosedError",
		code: "HF_RUN_CLOSED",
		retryable: false,
		summary: "The run has ended and takes no more messages.",
		whatToDo: "Start a new run, or the same id again with onConflict \"restart-if-closed\"."
	},
	{
		name: "RunBlockedError",
		code: "HF_RUN_BLOCKED",
		retryable: true,
		summary: "The code that the workers have can't advance the run. The run itself is unharmed.",
		whatToDo: "Deploy code that fits the run: it is tried again by itself, and at once after run.resume()."
	},
	{
		name: "NondeterminismError",
		code: "HF_NONDETERMINISM",
		retryable: false,
		summary: "The code does something else than what the history of the run recorded.",
		whatToDo: "Put the new path behind ctx.patched(id), put ctx.removed(name, kind) where an operation was taken out, or give the workflow a new version. If nothing was changed, the code depends on something that is not recorded."
	},
	{
		name: "IllegalCallError",
		code: "HF_ILLEGAL_CALL",
		retryable: false,
		summary: "An operation was called in a unit that does not offer it.",
		whatToDo: "Move the call to a unit that offers it; the table of section N in the semantics says which."
	},
	{
		name: "IllegalReturnError",
		code: "HF_ILLEGAL_RETURN",
		retryable: false,
		summary: "A function returned something that its caller can't take.",
		whatToDo: "Return what the message asks for."
	},
	{
		name: "OutOfTurnError",
		code: "HF_OUT_OF_TURN",
		retryable: false,
		summary: "A ctx was used while its unit had not the turn.",
		whatToDo: "Use the ctx that the innermost function was given, never one from outside it, and await every operation."
	},
	{
		name: "ForeignAwaitError",
		code: "HF_FOREIGN_AWAIT",
		retryable: false,
		summary: "Workflow code awaited something that is not an operation: fetch, a timer, a file.",
		whatToDo: "If it has an effect or reads the outside world, wrap it in ctx.step; to wait, use ctx.sleep."
	},
	{
		name: "TurnTimeoutError",
		code: "HF_TURN_TIMEOUT",
		retryable: true,
		summary: "A turn of workflow code took longer than `turnTimeout`.",
		whatToDo: "Move the computation into ctx.step, or raise the worker's `turnTimeout`."
	},
	{
		name: "UnserializableValueError",
		code: "HF_UNSERIALIZABLE_VALUE",
		retryable: false,
		summary: "A value that has to be stored holds something that can't be.",
		whatToDo: "Return or pass plain data: leave that part out, or turn it into data first."
	},
	{
		name: "InvalidInputError",
		code: "HF_INVALID_INPUT",
		retryable: false,
		summary: "An argument, option or payload is not what it has to be. Nothing was written.",
		whatToDo: "Mend the value and call again."
	},
	{
		name: "LimitExceededError",
		code: "HF_LIMIT_EXCEEDED",
		retryable: false,
		summary: "A payload, a history or something else that is bounded grew past its limit.",
		whatToDo: "Store large data elsewhere and pass a reference, use ctx.loop or continueAsNew for long runs, or raise the limit in `limits`."
	}
];
const byName$1 = new Map(errorCatalog.map((entry) => [entry.name, entry]));
const byCode = new Map(errorCatalog.map((entry) => [entry.code, entry]));
function entryByName(name) {
	return byName$1.get(name);
}
function entryByCode(code) {
	return byCode.get(code);
}
/** A message in two parts: what happened and where, then the catalog's advice on a line of its own. */
function advise(name, whatHappened) {
	const advice = byName$1.get(name)?.whatToDo;
	return advice === void 0 ? whatHappened : `${whatHappened}\n${advice}`;
}
// packages/core/src/errors/base.ts
const entries = /* @__PURE__ */ new Map();
const classes = /* @__PURE__ */ new Map();
/** Called once by each class, in its static block. */
function declareError(type, name) {
	const entry = entryByName(name);
	if (entry === void 0) throw new TypeError(`${name} is missing in the error catalog`);
	Object.defineProperty(type.prototype, "name", {
		value: name,
		writable: true,
		configurable: true
	});
	entries.set(type, entry);
	classes.set(name, type);
}
/** The class of that name, if it is one of ours. */
function holdfastErrorClass(name) {
	return classes.get(name);
}
var HoldfastError = class extends Error {
	static {
		declareError(this, "HoldfastError");
	}
	code;
	/** Would trying the same thing again help? */
	retryable;
	constructor(message, options = {}) {
		super(message, options.cause === void 0 ? void 0 : { cause: options.cause });
		if (!entries.has(new.target)) nameAfterSubclass(this, new.target.name);
		const entry = entryOfClass(new.target);
		this.code = options.code ?? entry.code;
		this.retryable = options.retryable ?? entry.retryable;
	}
};
/** A class that a user derived from one of ours goes by its own name, unless its prototype already says otherwise. */
function nameAfterSubclass(error, name) {
	if (entryByName(error.name) !== void 0 && name !== "") Object.defineProperty(error, "name", {
		value: name,
		writable: true,
		configurable: true
	});
}
/** Of the class itself, or of the nearest of ours that it extends. */
function entryOfClass(type) {
	for (let at = type; typeof at === "function"; at = Object.getPrototypeOf(at)) {
		const entry = entries.get(at);
		if (entry !== void 0) return entry;
	}
	throw new TypeError("not a class of HoldfastError");
}
// packages/core/src/errors/text.ts
const LONGEST_PREVIEW = 200;
function shorten(text, longest = LONGEST_PREVIEW) {
	return text.length <= longest ? text : `${text.slice(0, longest - 1)}…`;
}
/** A value as a person would write it down, cut to a line. */
function preview(value) {
	try {
		switch (typeof value) {
			case "string": return shorten(JSON.stringify(value));
			case "bigint": return shorten(`${value}n`);
			case "function": return value.name === "" ? "a function" : `function ${shorten(value.name)}`;
			case "object":
				if (value === null) return "null";
				if (value instanceof Error) return shorten(`${value.name}: ${firstLine(value.message)}`);
				return shorten(JSON.stringify(value, (_key, item) => typeof item === "bigint" ? `${item}n` : item) ?? tagOf(value));
			default: return Object.is(value, -0) ? "-0" : String(value);
		}
	} catch {
		return tagOf(value);
	}
}
/** "Date", "Promise", "Object": the built-in kind of a value. */
function tagOf(value) {
	try {
		return Object.prototype.toString.call(value).slice(8, -1);
	} catch {
		return typeof value;
	}
}
/** ": TypeError: x is undefined", to follow what failed; nothing where there is no cause. The advice of a nested message is left out. */
function because(cause) {
	return cause === void 0 ? "" : `: ${preview(cause)}`;
}
function firstLine(text) {
	const end = text.indexOf("\n");
	return end < 0 ? text : text.slice(0, end);
}
function count(n, noun, plural = `${noun}s`) {
	return `${n} ${n === 1 ? noun : plural}`;
}
// packages/core/src/errors/anatomy.ts
/** The name of an error that stands for a thrown value which is none; the value is in its field `value`. */
const NON_ERROR = "NonError";
/** Errors of other realms (vm contexts) count. */
function isError(value) {
	return value instanceof Error || tagOf(value) === "Error";
}
/** What was thrown, as an Error: itself, or a "NonError" that holds the value. */
function toError(thrown) {
	if (isError(thrown)) return thrown;
	const error = makeError(NON_ERROR, nonErrorMessage(thrown));
	setField(error, "value", thrown);
	return error;
}
/** The other way: the value that a "NonError" stands for, or the error itself. A value that would read differently when thrown stays wrapped. */
function unwrapNonError(error) {
	if (error.name !== "NonError" || !("value" in error) || error.value === void 0) return error;
	return isError(error.value) || nonErrorMessage(error.value) !== error.message ? error : error.value;
}
function nonErrorMessage(thrown) {
	return typeof thrown === "string" ? thrown : `${preview(thrown)} was thrown, which is no Error`;
}
const reserved = /* @__PURE__ */ new Set([
	"name",
	"message",
	"stack",
	"cause"
]);
function takeApart(error) {
	const name = classNameOf(error);
	const message = read(error, "message");
	const stack = read(error, "stack");
	const entry = entryOf(error, name);
	return {
		name,
		message: typeof message === "string" ? message : preview(message),
		stack: typeof stack === "string" ? stack : void 0,
		cause: read(error, "cause"),
		fields: fieldsOf$1(error, name, entry),
		foreign: entry === void 0 && entryByName(name) !== void 0
	};
}
/** By its class, or else by its code: a second copy of this package in the process has other classes, but the same codes. */
function entryOf(error, name) {
	if (error instanceof HoldfastError) return entryOfClass(error.constructor);
	const code = read(error, "code");
	return typeof code === "string" && entryByCode(code) !== void 0 ? entryFor(name, code) : void 0;
}
/** Which class of ours an error is of, or of a user's subclass of it. */
function kindOfError(error) {
	return isError(error) ? entryOf(error, classNameOf(error))?.name : void 0;
}
/** The catalog entry of an error of ours; a user's subclass has a name of its own and the code of the class it extends. */
function entryFor(name, code) {
	if (builtIns.has(name)) return void 0;
	return entryByName(name) ?? (typeof code === "string" ? entryByCode(code) : void 0);
}
/** The name, or where a class did not set one, the name of the class. */
function classNameOf(error) {
	const name = read(error, "name");
	if (typeof name !== "string") return "Error";
	if (name !== "Error") return name;
	const type = read(error, "constructor");
	const className = typeof type === "function" ? read(type, "name") : void 0;
	return typeof className === "string" && className !== "" ? className : name;
}
function fieldsOf$1(error, name, entry) {
	const fields = /* @__PURE__ */ new Map();
	for (const key of fieldNames(error)) {
		if (reserved.has(key)) continue;
		const value = read(error, key);
		if (value !== void 0 || name === "NonError") fields.set(key, value);
	}
	if (entry?.name === name && fields.get("code") === entry.code) fields.delete("code");
	if (entry !== void 0 && fields.get("retryable") === entry.retryable) fields.delete("retryable");
	return fields;
}
function fieldNames(error) {
	try {
		const names = Object.keys(error);
		if (Object.hasOwn(error, "errors") && !names.includes("errors")) names.push("errors");
		return names;
	} catch {
		return [];
	}
}
function read(from, key) {
	try {
		return from[key];
	} catch {
		return;
	}
}
const builtIns = new Map([
	Error,
	TypeError,
	RangeError,
	SyntaxError,
	ReferenceError,
	EvalError,
	URIError,
	AggregateError
].map((type) => [type.name, type]));
/**
* An error of the class that the entry stands for, or else of the built-in class of that name, without stack, cause and fields.
* It is a real Error to the engine that we run on, whatever its class: constructors are not run again, they would compose a new message.
*/
function makeError(name, message, entry) {
	const type = (entry === void 0 ? void 0 : holdfastErrorClass(entry.name)) ?? builtIns.get(name) ?? Error;
	const error = Object.setPrototypeOf(new Error(message), type.prototype);
	setStack(error, void 0);
	if (error.name !== name) setHidden(error, "name", name);
	if (entry !== void 0) {
		setField(error, "code", entry.code);
		setField(error, "retryable", entry.retryable);
	}
	return error;
}
/** Assigned and not defined: to define it, V8 first formats the stack that is to be replaced, which takes longer than all the rest. */
function setStack(error, stack) {
	error.stack = stack;
}
function setCause(error, cause) {
	setHidden(error, "cause", cause);
}
function setField(error, key, value) {
	if (reserved.has(key)) return;
	const enumerable = !(key === "errors" && error instanceof AggregateError);
	Object.defineProperty(error, key, {
		value,
		enumerable,
		writable: true,
		configurable: true
	});
}
function setHidden(error, key, value) {
	Object.defineProperty(error, key, {
		value,
		enumerable: false,
		writable: true,
		configurable: true
	});
}
// packages/core/src/errors/inputs.ts
var UnserializableValueError = class extends HoldfastError {
	static {
		declareError(this, "UnserializableValueError");
	}
	/** Where inside the value: `value.items[3].socket`. */
	path;
	/** What is there: "function", "Promise", "Socket" … */
	type;
	constructor(details) {
		const { path, type, cause } = details;
		const forgotten = type === "Promise" ? " (is an await missing?)" : "";
		super(advise("UnserializableValueError", `${path} can't be stored: it is ${withArticle(type)}${forgotten}`), { cause });
		this.path = path;
		this.type = type;
	}
};
var InvalidInputError = class extends HoldfastError {
	static {
		declareError(this, "InvalidInputError");
	}
	issues;
	constructor(details) {
		const { what, issues, cause } = details;
		super(advise("InvalidInputError", `invalid ${what}: ${issues.map(describeIssue).join("; ")}`), { cause });
		this.issues = issues;
	}
};
var LimitExceededError = class extends HoldfastError {
	static {
		declareError(this, "LimitExceededError");
	}
	/** The name of the limit, as in `limits`. */
	limit;
	actual;
	max;
	what;
	constructor(details) {
		const { limit, actual, max, what } = details;
		const who = what === void 0 ? "" : `${what} is over the limit: `;
		super(advise("LimitExceededError", `${who}${limit} is ${actual}, at most ${max} is allowed`));
		this.limit = limit;
		this.actual = actual;
		this.max = max;
		this.what = what;
	}
};
function describeIssue(issue) {
	return `${issue.path === void 0 || issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `}${issue.message}`;
}
function withArticle(noun) {
	if (/^(?:an?|the|nested|too) /.test(noun)) return noun;
	return `${/^[aeiou]/i.test(noun) ? "an" : "a"} ${noun}`;
}
// packages/core/src/codec/base64.ts
const PADDING = 61;
const letters = new TextEncoder().encode("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
const INVALID = 255;
const sextets = (/* @__PURE__ */ new Uint8Array(128)).fill(INVALID);
for (const [sextet, letter] of letters.entries()) sextets[letter] = sextet;
const ascii = new TextDecoder();
function toBase64(bytes) {
	const text = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
	for (let i = 0, at = 0; i < bytes.length; i += 3, at += 4) {
		const bits = byte(bytes, i) << 16 | byte(bytes, i + 1) << 8 | byte(bytes, i + 2);
		text[at] = byte(letters, bits >> 18);
		text[at + 1] = byte(letters, bits >> 12 & 63);
		text[at + 2] = byte(letters, bits >> 6 & 63);
		text[at + 3] = byte(letters, bits & 63);
	}
	const missing = (3 - bytes.length % 3) % 3;
	text.fill(PADDING, text.length - missing);
	return ascii.decode(text);
}
/** Past the end, 0. */
function byte(bytes, index) {
	return index < bytes.length ? bytes[index] ?? 0 : 0;
}
function fromBase64(text) {
	if (text.length % 4 !== 0) throw new TypeError("base64 text must have a multiple of 4 characters");
	const padding = text.endsWith("==") ? 2 : Number(text.endsWith("="));
	const bytes = new Uint8Array(text.length / 4 * 3 - padding);
	for (let i = 0, at = 0; i < text.length; i += 4, at += 3) {
		const last = i + 4 === text.length ? padding : 0;
		const bits = sextet(text, i) << 18 | sextet(text, i + 1) << 12 | (last > 1 ? 0 : sextet(text, i + 2) << 6) | (last > 0 ? 0 : sextet(text, i + 3));
		bytes[at] = bits >> 16;
		bytes[at + 1] = bits >> 8;
		bytes[at + 2] = bits;
	}
	return bytes;
}
function sextet(text, index) {
	const value = sextets[text.charCodeAt(index)] ?? INVALID;
	if (value === INVALID) throw new TypeError(`base64 text has ${JSON.stringify(text.charAt(index))} at ${index}`);
	return value;
}
// packages/core/src/codec/json.ts
function tagged(tag, content) {
	return { [tag]: content };
}
const DOLLAR = 36;
function startsWithDollar(key) {
	return key.charCodeAt(0) === DOLLAR;
}
function escapeKey(key) {
	return startsWithDollar(key) ? `$${key}` : key;
}
function isEscaped(key) {
	return startsWithDollar(key) && key.charCodeAt(1) === DOLLAR;
}
function unescapeKey(key) {
	return isEscaped(key) ? key.slice(1) : key;
}
/** Assigns an own property, also under the name `__proto__`, where an assignment would change the prototype. */
function setOwn(object, key, value) {
	if (key === "__proto__") Object.defineProperty(object, key, {
		value,
		enumerable: true,
		writable: true,
		configurable: true
	});
	else object[key] = value;
}
// packages/core/src/codec/decode.ts
/** Takes the tree over: it must not be used afterwards. `text` is what it was parsed from. */
function decodeTree(tree, text) {
	try {
		const decoder = new Decoder();
		if (text.includes("$def")) decoder.findDefinitions(tree);
		return decoder.decode(tree);
	} catch (error) {
		if (error instanceof InvalidInputError) throw error;
		throw malformed(error instanceof RangeError ? "it is nested too deeply" : preview(error), error);
	}
}
function malformed(message, cause) {
	return new InvalidInputError({
		what: "encoded value",
		issues: [{ message }],
		cause
	});
}
const views = {
	Int8Array,
	Uint8ClampedArray,
	Int16Array,
	Uint16Array,
	Int32Array,
	Uint32Array,
	Float32Array,
	Float64Array,
	BigInt64Array,
	BigUint64Array,
	DataView
};
var Decoder = class {
	/** What `$def` marks, by number: a store that reorders keys may put a reference before what it refers to. */
	#definitions = /* @__PURE__ */ new Map();
	#defined = /* @__PURE__ */ new Map();
	findDefinitions(node) {
		if (node === null || typeof node !== "object") return;
		for (const child of Array.isArray(node) ? node : Object.values(node)) this.findDefinitions(child);
		if (Array.isArray(node)) return;
		const definition = node["$def"];
		if (definition === void 0) return;
		if (!Array.isArray(definition) || typeof definition[0] !== "number" || definition.length !== 2) throw malformed("a $def must hold a number and a value");
		if (this.#definitions.has(definition[0])) throw malformed(`$def ${definition[0]} occurs twice`);
		this.#definitions.set(definition[0], definition[1]);
	}
	/** `id`: the number under which the value is to be known before its parts are decoded, since they may refer to it. */
	decode(node, id) {
		if (node === null || typeof node !== "object") return node;
		if (Array.isArray(node)) return this.#array(node, id);
		let escaped = false;
		for (const key in node) {
			if (!startsWithDollar(key)) continue;
			if (!isEscaped(key)) return this.#tag(key, node, id);
			escaped = true;
		}
		return this.#record(node, escaped ? {} : node, id);
	}
	#array(node, id) {
		const array = this.#define(id, node);
		for (const [index, item] of node.entries()) if (item !== null && typeof item === "object") array[index] = this.decode(item);
		return array;
	}
	#record(node, object, id) {
		this.#define(id, object);
		const inPlace = object === node;
		for (const key in node) {
			const item = node[key];
			if (item !== null && typeof item === "object") setOwn(object, unescapeKey(key), this.decode(item));
			else if (!inPlace) setOwn(object, unescapeKey(key), item);
		}
		return object;
	}
	#tag(tag, node, id) {
		const content = node[tag];
		for (const key in node) if (key !== tag) throw malformed(`an object with the tag ${preview(tag)} has another key, ${preview(key)}`);
		switch (tag) {
			case "$undefined": return;
			case "$number": return Number(text$1(content, tag));
			case "$bigint": return BigInt(text$1(content, tag));
			case "$date": return new Date(content === null ? NaN : text$1(content, tag));
			case "$map": return this.#map(list(content, tag), id);
			case "$set": return this.#set(list(content, tag), id);
			case "$bytes": return this.#define(id, fromBase64(text$1(content, tag)));
			case "$buffer": return this.#define(id, fromBase64(text$1(content, tag)).buffer);
			case "$view": return this.#define(id, view(list(content, tag)));
			case "$url": return new URL(text$1(content, tag));
			case "$regexp": {
				const [source, flags] = list(content, tag);
				return new RegExp(text$1(source, tag), text$1(flags, tag));
			}
			case "$error": return this.#error(record(content, tag), id);
			case "$def": return this.#definition(list(content, tag)[0]);
			case "$ref": return this.#definition(content);
			default: throw malformed(`unknown tag ${preview(tag)}; was it written by a newer version?`);
		}
	}
	#map(entries, id) {
		const map = this.#define(id, /* @__PURE__ */ new Map());
		for (const entry of entries) {
			const [key, value] = list(entry, "$map");
			if (key === void 0 || value === void 0) throw malformed("an entry of a $map must hold a key and a value");
			map.set(this.decode(key), this.decode(value));
		}
		return map;
	}
	#set(items, id) {
		const set = this.#define(id, /* @__PURE__ */ new Set());
		for (const item of items) set.add(this.decode(item));
		return set;
	}
	#error(node, id) {
		const name = text$1(node["name"], "$error");
		const { stack, cause, data } = node;
		const { fields, foreign } = fieldsOf(name, data);
		const entry = foreign ? void 0 : entryFor(name, fields["code"]);
		const error = this.#define(id, makeError(name, text$1(node["message"], "$error"), entry));
		if (typeof stack === "string") setStack(error, stack);
		if (cause !== void 0) setCause(error, unwrapNonError(this.#error(record(cause, "$error"), void 0)));
		for (const [key, field] of Object.entries(fields)) setField(error, unescapeKey(key), this.decode(field));
		return error;
	}
	#definition(id) {
		if (typeof id !== "number") throw malformed("a reference must be a number");
		if (this.#defined.has(id)) return this.#defined.get(id);
		const definition = this.#definitions.get(id);
		if (definition === void 0) throw malformed(`reference ${id} leads nowhere`);
		const value = this.decode(definition, id);
		this.#defined.set(id, value);
		return value;
	}
	#define(id, value) {
		if (id !== void 0) this.#defined.set(id, value);
		return value;
	}
};
function view([className, base64]) {
	const name = text$1(className, "$view");
	const type = Object.hasOwn(views, name) ? views[name] : void 0;
	if (type === void 0) throw malformed(`unknown view ${preview(name)}`);
	return new type(fromBase64(text$1(base64, "$view")).buffer);
}
/** The fields of an error, from the forms that encode.ts gives its data. */
function fieldsOf(name, data) {
	if (data === void 0) return {
		fields: {},
		foreign: false
	};
	if (isObject(data) && Object.hasOwn(data, "$foreign")) return {
		fields: record(data["$foreign"], "$error"),
		foreign: true
	};
	if (isObject(data) && Object.hasOwn(data, "$fields")) return {
		fields: record(data["$fields"], "$error"),
		foreign: false
	};
	return {
		fields: name === "FatalError" ? { data } : record(data, "$error"),
		foreign: false
	};
}
function isObject(node) {
	return node !== null && typeof node === "object" && !Array.isArray(node);
}
function text$1(node, tag) {
	if (typeof node !== "string") throw malformed(`${tag} must hold text, not ${preview(node)}`);
	return node;
}
function list(node, tag) {
	if (!Array.isArray(node)) throw malformed(`${tag} must hold a list, not ${preview(node)}`);
	return node;
}
function record(node, tag) {
	if (!isObject(node)) throw malformed(`${tag} must hold an object, not ${preview(node)}`);
	return node;
}
// packages/core/src/codec/plain.ts
/** Values met before we stop believing that this is a tree: what is larger takes the slow path, which writes each shared object once. */
const BUDGET = 5e4;
/** Far above what people nest, and far below what overflows the stack. */
const MAX_DEPTH$1 = 500;
const NOT_PLAIN = -1;
function isPlainJson(value) {
	return spend(value, BUDGET, MAX_DEPTH$1) >= 0;
}
/** What is left of the budget after the value; negative if it is not plain. */
function spend(value, budget, depth) {
	switch (typeof value) {
		case "string":
		case "boolean": return budget - 1;
		case "number": return isPlainNumber(value) ? budget - 1 : NOT_PLAIN;
		case "object":
			if (value === null) return budget - 1;
			if (depth === 0) return NOT_PLAIN;
			return Array.isArray(value) ? spendArray(value, budget - 1, depth - 1) : spendObject(value, budget - 1, depth - 1);
		default: return NOT_PLAIN;
	}
}
function spendArray(array, budget, depth) {
	if (Object.getPrototypeOf(array) !== Array.prototype) return NOT_PLAIN;
	let left = budget;
	for (let i = 0; i < array.length && left >= 0; i++) left = spend(array[i], left, depth);
	return left;
}
function spendObject(object, budget, depth) {
	if (!hasPlainPrototype(object)) return NOT_PLAIN;
	let left = budget;
	for (const key in object) {
		if (startsWithDollar(key)) return NOT_PLAIN;
		left = spend(object[key], left, depth);
		if (left < 0) return NOT_PLAIN;
	}
	return left;
}
/** All but NaN, Infinity, -Infinity and -0. */
function isPlainNumber(value) {
	return value === 0 ? 1 / value > 0 : value - value === 0;
}
function hasPlainPrototype(object) {
	const prototype = Object.getPrototypeOf(object);
	return prototype === Object.prototype || prototype === null;
}
// packages/core/src/codec/encode.ts
/** Deeper values are refused: walking them would overflow the stack, here or in JSON.stringify. */
const MAX_DEPTH = 1e3;
const MAX_CAUSES = 16;
function encodeTree(value) {
	const encoder = new Encoder();
	try {
		return encoder.finish(encoder.encode(value));
	} catch (error) {
		throw encoder.explain(error);
	}
}
/** What was thrown, with its causes. Never throws. */
function encodeError(thrown) {
	try {
		const encoder = new Encoder();
		return encoder.finish(encoder.encodeRootError(toError(thrown)));
	} catch {
		return {
			name: NON_ERROR,
			message: "an error that can't be read"
		};
	}
}
const CAUSE = { text: ".cause" };
const ENTRIES = { text: ".entries()" };
const VALUES = { text: ".values()" };
const TO_JSON = { text: ".toJSON()" };
var Encoder = class {
	/** What each object was written as. */
	#written = /* @__PURE__ */ new Map();
	/** The keys of `#written` in order, to take back what a dropped field left there. */
	#trail = [];
	/** References made, to be numbered at the end. */
	#refs = [];
	/** Objects that are being written and that nothing can refer to: errors in the place of a cause, objects with toJSON. */
	#open = /* @__PURE__ */ new Set();
	#path = [];
	encode(value) {
		switch (typeof value) {
			case "string":
			case "boolean": return value;
			case "number": return isPlainNumber(value) ? value : tagged("$number", Object.is(value, -0) ? "-0" : String(value));
			case "undefined": return tagged("$undefined", true);
			case "bigint": return tagged("$bigint", String(value));
			case "object": return value === null ? null : this.#object(value);
			case "function":
			case "symbol": throw this.#refuse(typeof value);
		}
	}
	#object(value) {
		const written = this.#written.get(value);
		if (written !== void 0) return this.#refer(written);
		if (this.#open.has(value)) throw this.#refuse("cycle that leads through toJSON() or the cause of an error");
		if (this.#path.length > MAX_DEPTH) throw this.#refuse(`value nested more than ${MAX_DEPTH} levels deep`);
		if (Array.isArray(value)) return this.#array(value);
		if (hasPlainPrototype(value)) return hasToJson(value) ? this.#viaToJson(value) : this.#record(value);
		if (isError(value)) return this.#error(value);
		if (ArrayBuffer.isView(value)) return this.#view(value);
		return this.#byTag(value, tagOf(value));
	}
	/** By the built-in tag and not by instanceof, so that objects of other realms are known too. */
	#byTag(value, tag) {
		switch (tag) {
			case "Date": {
				const time = value.getTime();
				return tagged("$date", Number.isNaN(time) ? null : value.toISOString());
			}
			case "Map": return this.#map(value);
			case "Set": return this.#set(value);
			case "ArrayBuffer": return this.#remember(value, tagged("$buffer", toBase64(new Uint8Array(value))));
			case "URL": return tagged("$url", value.href);
			case "RegExp": return tagged("$regexp", [value.source, value.flags]);
			case "Number":
			case "String":
			case "Boolean": return this.encode(value.valueOf());
		}
		if (hasToJson(value)) return this.#viaToJson(value);
		if (tag === "Object") return this.#record(value);
		throw this.#refuse(tag);
	}
	#array(array) {
		const node = [];
		this.#remember(array, node);
		for (let i = 0; i < array.length; i++) node.push(this.#at(i, array[i]));
		return node;
	}
	#record(object) {
		const node = {};
		this.#remember(object, node);
		for (const key of Object.keys(object)) {
			this.#path.push(key);
			setOwn(node, escapeKey(key), this.encode(object[key]));
			this.#path.pop();
		}
		return node;
	}
	#map(map) {
		const entries = [];
		const node = this.#remember(map, tagged("$map", entries));
		this.#path.push(ENTRIES);
		for (const [key, value] of map) {
			this.#path.push(entries.length);
			entries.push([this.#at(0, key), this.#at(1, value)]);
			this.#path.pop();
		}
		this.#path.pop();
		return node;
	}
	#set(set) {
		const items = [];
		const node = this.#remember(set, tagged("$set", items));
		this.#path.push(VALUES);
		for (const item of set) items.push(this.#at(items.length, item));
		this.#path.pop();
		return node;
	}
	#view(view) {
		const base64 = toBase64(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
		const type = tagOf(view);
		return this.#remember(view, type === "Uint8Array" ? tagged("$bytes", base64) : tagged("$view", [type, base64]));
	}
	#viaToJson(value) {
		this.#open.add(value);
		this.#path.push(TO_JSON);
		try {
			const replacement = value.toJSON("");
			const node = replacement === value ? this.#record(value) : this.encode(replacement);
			if (node !== null && typeof node === "object") this.#remember(value, node);
			this.#path.pop();
			return node;
		} finally {
			this.#open.delete(value);
		}
	}
	#error(error) {
		const content = {};
		const node = this.#remember(error, tagged("$error", content));
		this.#errorParts(error, content, 0);
		return node;
	}
	encodeRootError(error) {
		return this.#errorParts(error, {}, 0);
	}
	#errorParts(error, node, causes) {
		this.#open.add(error);
		try {
			const parts = takeApart(error);
			const { name, message, stack, cause } = parts;
			node["name"] = name;
			node["message"] = message;
			if (stack !== void 0) node["stack"] = stack;
			const causeNode = this.#cause(cause, causes + 1);
			if (causeNode !== void 0) node["cause"] = causeNode;
			const data = this.#errorData(parts);
			if (data !== void 0) node["data"] = data;
			return node;
		} finally {
			this.#open.delete(error);
		}
	}
	/** A chain that turns back on itself or goes on for too long is cut. */
	#cause(thrown, causes) {
		if (thrown === void 0 || causes > MAX_CAUSES) return void 0;
		const cause = toError(thrown);
		if (this.#open.has(cause)) return void 0;
		return this.#orDropped(CAUSE, () => this.#errorParts(cause, {}, causes));
	}
	/**
	* The fields; of a FatalError its `data` alone, as its author wrote it. Where that can't be told apart on the way back, because the
	* error has other fields too or only shares its name with a class of ours, the fields go under a key that no user's data can have.
	*/
	#errorData({ name, fields, foreign }) {
		const node = this.#fields(fields);
		const keys = Object.keys(node);
		if (foreign) return { $foreign: node };
		if (keys.length === 0) return void 0;
		if (name !== "FatalError") return node;
		return keys.length === 1 && keys[0] === "data" ? node["data"] : { $fields: node };
	}
	#fields(fields) {
		const node = {};
		for (const [key, value] of fields) {
			const field = this.#orDropped(key, () => this.encode(value));
			if (field !== void 0) setOwn(node, escapeKey(key), field);
		}
		return node;
	}
	/** A part of an error that can't be stored leaves no trace; the rest of the error is worth more than a failure. */
	#orDropped(segment, encode) {
		const path = this.#path.length;
		const trail = this.#trail.length;
		const refs = this.#refs.length;
		this.#path.push(segment);
		try {
			const node = encode();
			this.#path.pop();
			return node;
		} catch {
			this.#path.length = path;
			this.#refs.length = refs;
			for (const object of this.#trail.splice(trail)) this.#written.delete(object);
			return;
		}
	}
	#at(index, value) {
		this.#path.push(index);
		const node = this.encode(value);
		this.#path.pop();
		return node;
	}
	#remember(object, node) {
		this.#written.set(object, node);
		this.#trail.push(object);
		return node;
	}
	#refer(target) {
		const ref = tagged("$ref", 0);
		this.#refs.push({
			ref,
			target
		});
		return ref;
	}
	/** Numbers what is referred to, in order of the first reference, and marks it where it is written. */
	finish(root) {
		if (this.#refs.length === 0) return root;
		const ids = /* @__PURE__ */ new Map();
		for (const { ref, target } of this.#refs) {
			const id = ids.get(target) ?? ids.size + 1;
			ids.set(target, id);
			ref["$ref"] = id;
		}
		return markDefinitions(root, ids);
	}
	#refuse(type) {
		return new UnserializableValueError({
			path: formatPath(this.#path),
			type
		});
	}
	/** What went wrong, if the value itself threw while it was read. */
	explain(error) {
		if (error instanceof UnserializableValueError) return error;
		const type = error instanceof RangeError && this.#path.length > MAX_DEPTH / 2 ? "value nested too deeply" : "property that throws when it is read";
		return new UnserializableValueError({
			path: formatPath(this.#path),
			type,
			cause: error
		});
	}
};
function markDefinitions(node, ids) {
	if (node === null || typeof node !== "object") return node;
	if (Array.isArray(node)) for (const [index, item] of node.entries()) node[index] = markDefinitions(item, ids);
	else for (const key of Object.keys(node)) setOwn(node, key, markDefinitions(node[key], ids));
	const id = ids.get(node);
	return id === void 0 ? node : tagged("$def", [id, node]);
}
function hasToJson(value) {
	return typeof value.toJSON === "function";
}
const LONGEST_PATH = 24;
/** `value.items[3].socket`; the middle of a very long path is left out. */
function formatPath(path) {
	const text = (segments) => segments.map(formatSegment).join("");
	if (path.length <= LONGEST_PATH) return `value${text(path)}`;
	return `value${text(path.slice(0, LONGEST_PATH / 2))}…${text(path.slice(-12))}`;
}
function formatSegment(segment) {
	if (typeof segment === "number") return `[${segment}]`;
	if (typeof segment === "object") return segment.text;
	return /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(segment) ? `.${segment}` : `[${JSON.stringify(segment)}]`;
}
// packages/core/src/codec/codec.ts
const UNDEFINED = "{\"$undefined\":true}";
/** JSON text, with tags for what JSON lacks (see json.ts). */
const jsonCodec = {
	encode(value) {
		switch (typeof value) {
			case "undefined": return UNDEFINED;
			case "boolean": return value ? "true" : "false";
			case "string": return JSON.stringify(value);
			case "number":
				if (isPlainNumber(value)) return String(value);
				break;
			case "object":
				if (value === null) return "null";
				if (isPlain(value)) return JSON.stringify(value);
		}
		return canonical(JSON.stringify(encodeTree(value)));
	},
	decode(data) {
		const text = typeof data === "string" ? data : fromUtf8(data);
		if (text === UNDEFINED) return void 0;
		const tree = parse(text);
		return text.includes("$") && text.includes("\"$") ? decodeTree(tree, text) : tree;
	}
};
/**
* Class instances that share an object are written with references, and come back as plain objects that share it. Those are plain JSON,
* and must be written as such now, or the same value would have two texts.
*/
function canonical(text) {
	if (!text.includes("$ref")) return text;
	const decoded = jsonCodec.decode(text);
	return isPlainJson(decoded) ? JSON.stringify(decoded) : text;
}
/** A getter that throws is met again on the slow path, which knows where it is. */
function isPlain(value) {
	try {
		return isPlainJson(value);
	} catch {
		return false;
	}
}
function parse(text) {
	try {
		return JSON.parse(text);
	} catch (error) {
		throw malformed("it is not JSON", error);
	}
}
const utf8 = new TextDecoder("utf-8", {
	fatal: true,
	ignoreBOM: true
});
function fromUtf8(bytes) {
	try {
		return utf8.decode(bytes);
	} catch (error) {
		throw malformed("it is not UTF-8 text", error);
	}
}
new TextEncoder();
/** The payload as a JSON tree: JSON text as what it says, readable and queryable; all else in an envelope. */
function payloadToJson(payload) {
	if (typeof payload !== "string") return {
		$payload: "base64",
		data: toBase64(payload)
	};
	try {
		const tree = JSON.parse(payload);
		if (!isEnvelope(tree) && JSON.stringify(tree) === payload) return tree;
	} catch {}
	return {
		$payload: "text",
		data: payload
	};
}
function payloadFromJson(json) {
	if (!isEnvelope(json)) return JSON.stringify(json);
	const { $payload, data } = json;
	if (typeof data === "string" && $payload === "text") return data;
	if (typeof data === "string" && $payload === "base64") return bytes(data);
	throw malformed("a $payload must be \"text\" or \"base64\", with its data");
}
function bytes(base64) {
	try {
		return fromBase64(base64);
	} catch (error) {
		throw malformed("a $payload is not base64", error);
	}
}
function isEnvelope(json) {
	return json !== null && typeof json === "object" && Object.hasOwn(json, "$payload");
}
// packages/core/src/errors/callers.ts
var UpdateRejectedError = class extends HoldfastError {
	static {
		declareError(this, "UpdateRejectedError");
	}
	update;
	reason;
	constructor(details) {
		const { update, reason, cause } = details;
		super(advise("UpdateRejectedError", `update "${update}" was rejected: ${reason}`), { cause });
		this.update = update;
		this.reason = reason;
	}
};
var UpdateFailedError = class extends HoldfastError {
	static {
		declareError(this, "UpdateFailedError");
	}
	update;
	constructor(details) {
		const { update, cause } = details;
		super(advise("UpdateFailedError", `the handler of update "${update}" failed${because(cause)}`), { cause });
		this.update = update;
	}
};
var QueryFailedError = class extends HoldfastError {
	static {
		declareError(this, "QueryFailedError");
	}
	query;
	reason;
	constructor(details) {
		const { query, reason, cause } = details;
		super(advise("QueryFailedError", `query "${query}" failed: ${reason}`), { cause });
		this.query = query;
		this.reason = reason;
	}
};
var ReceiveClosedError = class extends HoldfastError {
	static {
		declareError(this, "ReceiveClosedError");
	}
	update;
	constructor(details) {
		super(advise("ReceiveClosedError", `update "${details.update}" was accepted, but the receive closed before it was dispatched`));
		this.update = details.update;
	}
};
var RunNotFoundError = class extends HoldfastError {
	static {
		declareError(this, "RunNotFoundError");
	}
	runId;
	constructor(details) {
		super(advise("RunNotFoundError", `there is no run "${details.runId}"`));
		this.runId = details.runId;
	}
};
var RunAlreadyExistsError = class extends HoldfastError {
	static {
		declareError(this, "RunAlreadyExistsError");
	}
	runId;
	constructor(details) {
		super(advise("RunAlreadyExistsError", `run "${details.runId}" exists already`));
		this.runId = details.runId;
	}
};
var RunClosedError = class extends HoldfastError {
	static {
		declareError(this, "RunClosedError");
	}
	runId;
	status;
	constructor(details) {
		const { runId, status } = details;
		super(advise("RunClosedError", `run "${runId}" is closed (${status})`));
		this.runId = runId;
		this.status = status;
	}
};
var RunBlockedError = class extends HoldfastError {
	static {
		declareError(this, "RunBlockedError");
	}
	runId;
	reason;
	constructor(details) {
		const { runId, reason, cause } = details;
		super(advise("RunBlockedError", `run "${runId}" is blocked: ${reason}`), { cause });
		this.runId = runId;
		this.reason = reason;
	}
};
// packages/core/src/values/formatDuration.ts
/** From the longest to the shortest, with their length in milliseconds. */
const units = [
	["w", 6048e5],
	["d", 864e5],
	["h", 36e5],
	["m", 6e4],
	["s", 1e3],
	["ms", 1]
];
/** "1h30m", "250ms", "14d". Weeks are written as days, which read better beside hours. */
function formatDuration(ms) {
	if (!Number.isFinite(ms)) return `${ms}ms`;
	if (ms < 0) return `-${formatDuration(-ms)}`;
	let rest = Math.round(ms);
	let text = "";
	for (const [unit, length] of units) {
		if (unit === "w" || rest < length) continue;
		text += `${Math.floor(rest / length)}${unit}`;
		rest %= length;
	}
	return text === "" ? "0ms" : text;
}
// packages/core/src/errors/outcomes.ts
/** Throw from a step or activity: no more attempts. */
var FatalError = class extends HoldfastError {
	static {
		declareError(this, "FatalError");
	}
	data;
	constructor(message, options = {}) {
		super(message, { cause: options.cause });
		this.data = options.data;
	}
};
/** Throw anywhere in a workflow: fail and roll back. */
var RollbackError = class extends HoldfastError {
	static {
		declareError(this, "RollbackError");
	}
	constructor(message, options = {}) {
		super(message, { cause: options.cause });
	}
};
var StepFailedError = class extends HoldfastError {
	static {
		declareError(this, "StepFailedError");
	}
	step;
	attempts;
	constructor(details) {
		const { step, attempts, cause } = details;
		super(advise("StepFailedError", `step "${step}" failed after ${count(attempts, "attempt")}${because(cause)}`), { cause });
		this.step = step;
		this.attempts = attempts;
	}
};
var StepTimeoutError = class extends HoldfastError {
	static {
		declareError(this, "StepTimeoutError");
	}
	step;
	/** In milliseconds. */
	timeout;
	attempt;
	constructor(details) {
		const { step, timeout, attempt } = details;
		super(advise("StepTimeoutError", `attempt ${attempt} of step "${step}" took longer than its timeout of ${formatDuration(timeout)}`));
		this.step = step;
		this.timeout = timeout;
		this.attempt = attempt;
	}
};
var ActivityFailedError = class extends HoldfastError {
	static {
		declareError(this, "ActivityFailedError");
	}
	activity;
	attempts;
	constructor(details) {
		const { activity, attempts, cause } = details;
		super(advise("ActivityFailedError", `activity "${activity}" failed after ${count(attempts, "attempt")}${because(cause)}`), { cause });
		this.activity = activity;
		this.attempts = attempts;
	}
};
var ChildFailedError = class extends HoldfastError {
	static {
		declareError(this, "ChildFailedError");
	}
	childId;
	workflow;
	constructor(details) {
		const { childId, workflow, cause } = details;
		const of = workflow === void 0 ? "" : ` of workflow "${workflow}"`;
		super(advise("ChildFailedError", `child run "${childId}"${of} did not complete${because(cause)}`), { cause });
		this.childId = childId;
		this.workflow = workflow;
	}
};
var RunFailedError = class extends HoldfastError {
	static {
		declareError(this, "RunFailedError");
	}
	runId;
	constructor(details) {
		const { runId, cause } = details;
		super(advise("RunFailedError", `run "${runId}" failed${because(cause)}`), { cause });
		this.runId = runId;
	}
};
var CanceledError = class extends HoldfastError {
	static {
		declareError(this, "CanceledError");
	}
	reason;
	constructor(reason) {
		super(advise("CanceledError", reason === void 0 ? "canceled" : `canceled: ${reason}`));
		this.reason = reason;
	}
};
var RunTerminatedError = class extends HoldfastError {
	static {
		declareError(this, "RunTerminatedError");
	}
	runId;
	reason;
	constructor(details) {
		const { runId, reason } = details;
		super(advise("RunTerminatedError", `run "${runId}" was terminated${reason === void 0 ? "" : `: ${reason}`}`));
		this.runId = runId;
		this.reason = reason;
	}
};
var DeadlineExceededError = class extends HoldfastError {
	static {
		declareError(this, "DeadlineExceededError");
	}
	runId;
	/** In milliseconds since 1970. */
	deadline;
	constructor(details) {
		const { runId, deadline } = details;
		const when = deadline === void 0 ? "" : ` of ${isoTime(deadline)}`;
		super(advise("DeadlineExceededError", `run "${runId}" did not end before its deadline${when}`));
		this.runId = runId;
		this.deadline = deadline;
	}
};
var JoinError = class extends HoldfastError {
	static {
		declareError(this, "JoinError");
	}
	/** The name that the join was given. */
	scope;
	/** By branch. */
	errors;
	constructor(details) {
		const failed = count(Object.keys(details.errors).length, "branch", "branches");
		super(advise("JoinError", `join "${details.name}" failed in ${failed}: ${listBranches(details.errors)}`));
		this.scope = details.name;
		this.errors = details.errors;
	}
};
var RaceError = class extends HoldfastError {
	static {
		declareError(this, "RaceError");
	}
	/** The name that the race was given. */
	scope;
	/** By branch. */
	errors;
	constructor(details) {
		super(advise("RaceError", `no branch of race "${details.name}" succeeded: ${listBranches(details.errors)}`));
		this.scope = details.name;
		this.errors = details.errors;
	}
};
function listBranches(errors) {
	return Object.entries(errors).map(([branch, error]) => `${branch} (${preview(error)})`).join(", ");
}
function isoTime(ms) {
	const date = new Date(ms);
	return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}
// packages/core/src/errors/serialize.ts
/**
* Takes whatever was thrown. `data` holds the fields of the error beyond the standard ones (of a FatalError: its `data`), tagged JSON
* as the default codec writes it. A codec that encrypts is given that JSON, and its payload takes the place of `data`; name, message
* and stack stay readable.
*/
function serializeError(thrown, codec) {
	const serialized = encodeError(thrown);
	return codec === void 0 ? serialized : mapData(serialized, (data) => payloadToJson(codec.encode(data)));
}
/** A copy with `data` replaced along the chain of causes; dropped where that fails or gives undefined. */
function mapData(error, map) {
	if (error === null || typeof error !== "object") return error;
	const { data, cause, ...rest } = error;
	const copy = rest;
	if (cause !== void 0) copy.cause = mapData(cause, map);
	try {
		const mapped = data === void 0 ? void 0 : map(data);
		if (mapped !== void 0) copy.data = mapped;
	} catch {}
	return copy;
}
// packages/core/src/values/retry.ts
const operationDefaults = Object.freeze({
	maxAttempts: 10,
	initialInterval: 1e3,
	backoff: 2,
	maxInterval: 1e5,
	jitter: .2
});
Object.freeze({
	operation: operationDefaults,
	run: Object.freeze({
		...operationDefaults,
		maxAttempts: 1
	})
});
/**
* The wait after a failed attempt (counted from 1), in whole milliseconds: initialInterval × backoff^(attempt - 1), capped at
* maxInterval. Of that, the share `jitter` is random, so the wait lies between (1 - jitter) of it and all of it: never above the cap.
*/
function retryDelay(retry, attempt, random) {
	const growth = Math.min(retry.backoff ** (attempt - 1), Number.MAX_VALUE);
	const wait = Math.min(retry.initialInterval * growth, retry.maxInterval);
	return Math.round(wait * (1 - retry.jitter + retry.jitter * random));
}
const neverRetried = /* @__PURE__ */ new Set([
	"FatalError",
	"RollbackError",
	"UnserializableValueError",
	"IllegalReturnError",
	"IllegalCallError",
	"OutOfTurnError",
	"LimitExceededError"
]);
const wrappers = /* @__PURE__ */ new Set([
	"StepFailedError",
	"ActivityFailedError",
	"ChildFailedError"
]);
/** Whether another attempt may help. An error that only wraps the failure of an operation is judged by what it wraps as well. */
function isRetryable(error, policy) {
	const seen = /* @__PURE__ */ new Set();
	for (let at = error; !seen.has(at);) {
		seen.add(at);
		const kind = kindOfError(at);
		if (neverRetried.has(kind) || isNamed(at, policy?.nonRetryable)) return false;
		if (!wrappers.has(kind)) return true;
		at = at.cause;
	}
	return true;
}
function isNamed(error, nonRetryable) {
	if (nonRetryable === void 0) return false;
	if (typeof nonRetryable === "function") return nonRetryable(toError(error));
	return isError(error) && (nonRetryable.includes(error.name) || nonRetryable.includes(error.constructor?.name));
}
// packages/core/src/executor/location.ts
/** Is `path` the place `prefix`, or beneath it? */
function isWithin(path, prefix) {
	return path.length === prefix.length ? path === prefix : path.charCodeAt(prefix.length) === 47 && path.startsWith(prefix);
}
// packages/core/src/history/recording.ts
/** L4: what is left of the turns once the trims of the last one are carried out. Hosts with rows delete the same by prefix. */
function trimmed(turns) {
	let result = [...turns];
	for (const command of turns.at(-1)?.commands ?? []) if (command.type === "commit" && command.trim !== void 0) result = trimTo(result, command, command.trim);
	return result;
}
function trimTo(turns, commit, keepFrom) {
	return forget$1(turns, commit, (unit) => {
		const iteration = iterationOf(unit, commit.unit);
		return iteration !== void 0 && iteration < keepFrom;
	});
}
/** The number of the iteration or dispatch of `scope` that `unit` belongs to. */
function iterationOf(unit, scope) {
	if (!isWithin(unit, scope) || unit.length === scope.length) return void 0;
	const part = /^~h?(\d+)/.exec(unit.slice(scope.length + 1));
	return part === null ? void 0 : Number(part[1]);
}
/**
* Drops what happened beneath a commit's scope before the commit, where `isPast` says so of the unit, together with the jobs that
* were answers to it and the messages that it consumed (`consumed` may name more). Turns that are left empty go too.
*/
function forget$1(turns, commit, isPast, consumed = /* @__PURE__ */ new Set(), timers = /* @__PURE__ */ new Set()) {
	const gone = /* @__PURE__ */ new Set();
	const before = commandsBefore(turns, commit);
	for (const command of before) if ("n" in command && isPast(command.unit)) gone.add(command.seq);
	else if (command.type === "dispatch" && isPast(command.unit)) consumed.add(command.message);
	else if (command.type === "settle" && gone.has(command.seq)) for (const id of command.messages ?? []) consumed.add(id);
	const isGone = (command) => {
		if ("n" in command) return gone.has(command.seq);
		switch (command.type) {
			case "commit": return gone.has(command.seq) || command.seq === commit.seq;
			case "dispatch":
			case "handlerFailed": return isPast(command.unit);
			case "acceptUpdate":
			case "completeUpdate": return gone.has(command.seq) || consumed.has(command.id);
			default: return "seq" in command && gone.has(command.seq);
		}
	};
	const isAnswer = (job) => {
		if (job.type === "fire") return gone.has(job.seq) || timers.has(job.seq);
		if (job.type === "resolve" || job.type === "childStarted") return gone.has(job.seq);
		return (job.type === "signal" || job.type === "update") && consumed.has(job.id);
	};
	const kept = [];
	let passed = false;
	for (const turn of turns) {
		const jobs = passed ? turn.jobs : turn.jobs.filter((job) => !isAnswer(job));
		const commands = turn.commands.filter((command) => {
			passed ||= command === commit;
			return passed || !isGone(command);
		});
		if (jobs.length > 0 || commands.length > 0) kept.push({
			...turn,
			jobs,
			commands
		});
	}
	return kept;
}
function commandsBefore(turns, commit) {
	const before = [];
	for (const turn of turns) for (const command of turn.commands) {
		if (command === commit) return before;
		before.push(command);
	}
	return before;
}
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
/** An error of SQLite, whichever driver brought it. */
var SqliteFailure = class extends Error {
	name = "SqliteFailure";
	/** Primary result code. */
	result;
	constructor(message, result, cause) {
		super(message, { cause });
		this.result = result;
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
function preferredDriver() {
	return isBuiltin("node:sqlite") ? "node:sqlite" : "libsql";
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
function openLibsql(path) {
	const database = new (require("libsql"))(path);
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
function findLate(db, now) {
	return db.all(`${HEAD} WHERE deadline_at <= ? AND deadline_at IS NOT NULL AND finished_at IS NULL AND expired = 0`, [now]).map(headOf);
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
		else if (repeats && field in birth) continue;
		else if (field === valueField) columns[6] = payload(value);
		else {
			data ??= {};
			data[field] = value;
		}
	}
	if (data !== void 0) columns[5] = json(readable(record.type, data, payloadToJson));
	return columns;
}
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
function fromColumns(columns, birth) {
	const [type, seq, unit, name, n, data, value] = columns;
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
	if (type === "start" && !("runId" in record) && birth !== void 0) Object.assign(record, withoutUndefined(birth));
	return record;
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
function turnsOf(rows, birth) {
	return keptTurns(rows, birth).map(({ turn }) => turn);
}
function keptTurns(rows, birth) {
	const turns = [];
	let current = NaN;
	for (const row of rows) {
		const [id, index, time, historyLength, worker, state, direction] = row;
		if (index !== current) {
			current = readNumber(index);
			const jobs = [];
			const commands = [];
			const turn = {
				index: current,
				time: readNumber(time),
				historyLength: readOptionalNumber(historyLength) ?? 0,
				jobs,
				commands
			};
			turns.push({
				turn: state === null ? turn : {
					...turn,
					state: readPayload(state)
				},
				jobs,
				commands,
				records: []
			});
		}
		const last = turns.at(-1);
		if (last === void 0) continue;
		const kind = readText(direction);
		const record = kind === "turn" ? void 0 : fromColumns(row.slice(7), birth);
		if (kind === "job") last.jobs.push(record);
		else if (kind === "command") last.commands.push(record);
		last.records.push({
			id: readNumber(id),
			record,
			facts: [
				historyLength ?? null,
				worker ?? null,
				state ?? null
			]
		});
	}
	return turns;
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
		turns: records === void 0 ? void 0 : turnsOf(records, birthOf$1(run)),
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
	const { status, output, error, records, attributes = null } = ending;
	const resumable = status === "failed" && ending.resumable !== false ? 1 : 0;
	const turns = records === void 0 ? 0 : 1;
	db.run(CLOSE, [
		status,
		payloadOrNull(output),
		jsonOrNull(error),
		resumable,
		now,
		turns,
		records ?? 0,
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
/** Into an open run, or nothing if its key is known. */
function deliverTo(session, run, message, now) {
	return earlierDelivery(session.db, run.key, message) ?? acceptMessage(session, run, message, now);
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
// packages/holdfast/src/store/sqlite/insertRun.ts
/** Creates the run, finds it, or says that it is in the way. A run with a `first` turn is created leased; the turn is the caller's to commit. */
function createRun(session, run, now) {
	const { db } = session;
	const byKey = run.idempotencyKey === void 0 ? void 0 : findByIdempotencyKey(db, run.idempotencyKey);
	const existing = byKey ?? findRun(db, run.id);
	if (existing !== void 0) return meetExisting(session, existing, run, existing.key === byKey?.key, now);
	const head = insertRun(session, run, now);
	const inboxIds = (run.messages ?? []).map((message) => deliverTo(session, head, message, now));
	const { parent } = run;
	if (parent?.announce === true) announce(session, run.id, parent, now);
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
		inboxIds: messages.map((message) => deliverTo(session, existing, message, now))
	};
}
const INSERT = `INSERT INTO runs (id, workflow, version, status, queue, priority, lane, available_at, worker_id, epoch, execution, attempt, turns,
    history_length, last_message, rollbacks, recoveries, recovered, created_at, started_at, deadline_at, expired, resumable, attributes, retry,
    idempotency_key, parent_id, parent_execution, parent_seq, parent_close, parent_announce)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1, 0, 0, 0, 0, 0, 0, ?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key`;
function insertRun(session, run, now) {
	const { id, workflow, version, queue, priority, attributes, retry, idempotencyKey, parent, first } = run;
	const [found] = session.db.get(INSERT, [
		text(id),
		text(workflow),
		textOrNull(version),
		first === void 0 ? "pending" : "running",
		text(queue),
		priority,
		session.laneOf(queue, workflow, version, priority),
		first === void 0 ? startOf(run, now) : now + first.lease,
		textOrNull(first?.workerId),
		first === void 0 ? 0 : 1,
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
	return {
		key,
		id,
		status: first === void 0 ? "pending" : "running",
		isOpen: true,
		isLeased: first !== void 0,
		isResumable: false,
		execution: 1,
		epoch: first === void 0 ? 0 : 1,
		turns: 0,
		attempt: 1,
		rollbacks: 0,
		lastMessage: 0,
		deadlineAt: void 0,
		parent: void 0
	};
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
	const reopened = {
		...closed,
		isOpen: true,
		status: "pending",
		execution: closed.execution + 1,
		turns: 0
	};
	const inboxIds = (run.messages ?? []).map((message) => deliverTo(session, reopened, message, now));
	return {
		status: "created",
		id: closed.id,
		execution: reopened.execution,
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
	]), void 0);
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
const KEEP = `UPDATE runs SET turns = turns + ?, history_length = history_length + ?, rollbacks = coalesce(?, rollbacks),
    recoveries = CASE WHEN ?1 THEN 0 ELSE recoveries END, waiting_for = ?, error = NULL, blocked_code = NULL
  WHERE id = ? AND epoch = ? AND execution = ? AND status = ? AND worker_id IS NOT NULL RETURNING key, last_message`;
/** The usual turn: the lease stays, the status too. No index of `runs` is touched. Undefined: it is not one of these, or it is stale. */
function commitKeeping(session, commit, now, birth) {
	const { runId, execution, epoch, turn, status, seen = 0 } = commit;
	if (commit.lease !== "keep" || commit.close !== void 0 || commit.blocked !== void 0) return void 0;
	if (commit.attempt !== void 0 || commit.attributes !== void 0) return void 0;
	const row = session.db.get(KEEP, [
		turn === void 0 ? 0 : 1,
		recordsOf(commit) ?? 0,
		numberOrNull(commit.rollbacks),
		waitingFor(commit),
		text(runId),
		epoch,
		execution,
		status
	]);
	if (row === void 0) return void 0;
	const key = readNumber(row[0]);
	const sent = writeEffects(session, key, commit, now, birth);
	return committed(readNumber(row[1]) > seen || commit.children !== void 0 || commit.cancelChildren !== void 0 || sent !== void 0 ? readInbox(session.db, key, seen) : [], sent);
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
	const { turn, blocked, attempt, rollbacks } = commit;
	const set = [
		commit.status,
		waitingFor(commit),
		jsonOrNull(blocked?.error),
		textOrNull(blocked?.code),
		numberOrNull(attempt),
		numberOrNull(rollbacks),
		mergedAttributes(session.db, run.key, commit.attributes),
		turn === void 0 ? 0 : 1,
		recordsOf(commit) ?? 0,
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
function recordsOf({ turn }) {
	return turn === void 0 ? void 0 : turn.jobs.length + turn.commands.length;
}
function waitingFor({ waitingFor = [] }) {
	return waitingFor.length === 0 ? null : JSON.stringify(waitingFor);
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
		if (turn.commands.some((command) => command.type === "commit")) forget(db, key, trimRecords(db, key, execution, turn));
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
	else failAttempt(session, task, {
		status: "lost",
		error: serializeError(new HoldfastError(`The worker that ran attempt ${task.attempt} did not come back.`, { code: "HF_WORKER_LOST" })),
		retryable: true,
		delay: 0
	}, now);
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
/** Ends the runs whose deadline has passed. Returns how many. */
function expireRuns(session, now) {
	const late = findLate(session.db, now);
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
	return run === void 0 || key === void 0 ? [] : turnsOf(readRecords(db, key, run.execution), birthOf$1(run));
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
		if (isBusy(error) || isStorageFault(error)) throw error;
		db.run("ROLLBACK TO user_transaction", []);
		db.run("RELEASE user_transaction", []);
		return new Thrown(storeError(error, db.path));
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
/** A look is a read of shared memory, 3 to 10 µs: two hundred a second are a thousandth of a core. */
const LOOK_EVERY_MS = 5;
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
	/** The connection may come and go. */
	constructor(connection) {
		this.#connection = connection;
	}
	add(watcher) {
		const own = (wakeup) => watcher(wakeup);
		this.#watchers.add(own);
		this.#start();
		return () => {
			this.#watchers.delete(own);
			if (this.#watchers.size === 0) this.stop();
		};
	}
	tell(changes) {
		for (const watcher of [...this.#watchers]) watcher(changes);
	}
	stop() {
		clearInterval(this.#timer);
		this.#timer = void 0;
	}
	#start() {
		if (this.#timer !== void 0) return;
		this.#version = this.#look();
		this.#timer = setInterval(() => {
			const version = this.#look();
			if (version === void 0 || version === this.#version) return;
			this.#version = version;
			this.tell(ANYTHING);
		}, LOOK_EVERY_MS);
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
			const result = createRun(session, run, now);
			const { first } = run;
			if (first === void 0 || result.status !== "created" || result.execution !== 1) return result;
			commitTurn(session, first.commit, now, {
				...run,
				runId: run.id
			});
			return result;
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
		if (!await this.#read((db) => findLate(db, now).length > 0 || findDueTasks(db, now, 1).length > 0)) return 0;
		return this.#write(1, (session, now) => {
			sweepTasks(session, now);
			return expireRuns(session, now);
		});
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
		return this.#writeEach(tasks, (session, beat, now) => {
			sweepTasks(session, now);
			return heartbeatTask(session.db, beat, now);
		});
	}
	answerTasks(answers) {
		return this.#writeEach(answers, (session, answer, now) => {
			sweepTasks(session, now);
			return answerTask(session, answer, now);
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
