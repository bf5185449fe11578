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
const byName = new Map(errorCatalog.map((entry) => [entry.name, entry]));
const byCode = new Map(errorCatalog.map((entry) => [entry.code, entry]));
function entryByName(name) {
	return byName.get(name);
}
function entryByCode(code) {
	return byCode.get(code);
}
/** A message in two parts: what happened and where, then the catalog's advice on a line of its own. */
function advise(name, whatHappened) {
	const advice = byName.get(name)?.whatToDo;
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
/** The root has the empty id. */
function unitName(unit) {
	return unit === "" ? "the root unit" : `unit ${unit}`;
}
/** `receive` → `ctx.receive`; what already reads as a call stays. */
function callName(call) {
	return /^\w+$/.test(call) ? `ctx.${call}` : call;
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
/** Leaves what it is given as it is. */
function decodeError(serialized) {
	const text = JSON.stringify(serialized);
	return decodeTree({ $error: JSON.parse(text) }, text);
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
			case "$number": return Number(text(content, tag));
			case "$bigint": return BigInt(text(content, tag));
			case "$date": return new Date(content === null ? NaN : text(content, tag));
			case "$map": return this.#map(list(content, tag), id);
			case "$set": return this.#set(list(content, tag), id);
			case "$bytes": return this.#define(id, fromBase64(text(content, tag)));
			case "$buffer": return this.#define(id, fromBase64(text(content, tag)).buffer);
			case "$view": return this.#define(id, view(list(content, tag)));
			case "$url": return new URL(text(content, tag));
			case "$regexp": {
				const [source, flags] = list(content, tag);
				return new RegExp(text(source, tag), text(flags, tag));
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
		const name = text(node["name"], "$error");
		const { stack, cause, data } = node;
		const { fields, foreign } = fieldsOf(name, data);
		const entry = foreign ? void 0 : entryFor(name, fields["code"]);
		const error = this.#define(id, makeError(name, text(node["message"], "$error"), entry));
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
	const name = text(className, "$view");
	const type = Object.hasOwn(views, name) ? views[name] : void 0;
	if (type === void 0) throw malformed(`unknown view ${preview(name)}`);
	return new type(fromBase64(text(base64, "$view")).buffer);
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
function text(node, tag) {
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
// packages/core/src/codec/payload.ts
function payloadSize(payload) {
	return typeof payload === "string" ? utf8Length(payload) : payload.byteLength;
}
/** Cheaper than to ask for the size: text that is short enough whatever its letters is not counted. */
function payloadExceeds(payload, maxBytes) {
	if (payload.length > maxBytes) return true;
	return typeof payload === "string" && payload.length * 3 > maxBytes && utf8Length(payload) > maxBytes;
}
const encoder = new TextEncoder();
const scratch = /* @__PURE__ */ new Uint8Array(16384);
/** By the runtime's encoder, which is ten times as fast as counting here. */
function utf8Length(text) {
	let length = 0;
	for (let at = 0; at < text.length;) {
		const { read, written } = encoder.encodeInto(at === 0 ? text : text.slice(at), scratch);
		length += written;
		at += read;
	}
	return length;
}
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
/** The error that was serialized. Data that can't be decoded is left out: an error that can't be read would hide what happened. */
function reviveError(serialized, codec) {
	const open = codec === void 0 ? serialized : mapData(serialized, (data) => codec.decode(payloadFromJson(data)));
	for (const readable of [open, mapData(open, () => void 0)]) try {
		return decodeError(readable);
	} catch {}
	const error = makeError(String(serialized?.name ?? "Error"), String(serialized?.message ?? "an error that can't be read"));
	if (typeof serialized?.stack === "string") setStack(error, serialized.stack);
	return error;
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
// packages/core/src/executor/location.ts
const SPECIAL = /[%/#~]/g;
const escapes = {
	"%": "%25",
	"/": "%2F",
	"#": "%23",
	"~": "%7E"
};
const escaped = /* @__PURE__ */ new Map();
/** A name as a segment of a path: the characters that paths are made of are escaped. */
function segment(name) {
	let known = escaped.get(name);
	if (known === void 0) {
		known = name.replace(SPECIAL, (char) => escapes[char] ?? char);
		if (escaped.size > 1e4) escaped.clear();
		escaped.set(name, known);
	}
	return known;
}
/** `checkout/~3/charge#1`: unit path, name, and the occurrence of the name within its unit from the second on. */
function formatLocation(unit, name, n) {
	const last = n === 0 ? segment(name) : `${segment(name)}#${n}`;
	return unit === "" ? last : `${unit}/${last}`;
}
/** Is `path` the place `prefix`, or beneath it? */
function isWithin(path, prefix) {
	return path.length === prefix.length ? path === prefix : path.charCodeAt(prefix.length) === 47 && path.startsWith(prefix);
}
/** How far two paths go together. */
function sharedLength(a, b) {
	let length = 0;
	for (let i = 0; i < a.length && a[i] === b[i]; i++) if (a[i] === "/") length = i + 1;
	return length;
}
/** The unit that must be over before this one begins: the iteration before, or the handler that an async one came from. */
function predecessor(unit) {
	if (unit.endsWith("/~async")) return unit.slice(0, -7);
	const iteration = /^(.*\/~)(\d+)$/.exec(unit);
	return iteration === null || iteration[2] === "0" ? void 0 : `${iteration[1]}${Number(iteration[2]) - 1}`;
}
function compareOrder(a, b) {
	const shorter = Math.min(a.length, b.length);
	for (let i = 0; i < shorter; i++) {
		const difference = a[i] - b[i];
		if (difference !== 0) return difference;
	}
	return a.length - b.length;
}
// packages/core/src/history/recording.ts
/** The turn as history keeps it; undefined if nothing of it belongs there (queries, evictions, rejected updates alone). */
function recordTurn(index, historyLength, activation, completion) {
	if (completion.status === "failed") return void 0;
	const jobs = recordedJobs(activation.jobs, completion.replies);
	const { commands, state } = completion;
	if (jobs.length === 0 && commands.length === 0) return void 0;
	const turn = {
		index,
		time: completion.time ?? activation.time,
		historyLength: activation.historyLength ?? historyLength,
		jobs,
		commands
	};
	return state === void 0 ? turn : {
		...turn,
		state
	};
}
/** The jobs of a turn that enter history: not queries, evictions and rejected updates (M8, M9, M11). */
function recordedJobs(jobs, replies) {
	if (replies.length === 0 && jobs.every((job) => job.type !== "evict")) return jobs;
	const rejected = new Set(replies.map((reply) => reply.type === "rejectUpdate" ? reply.id : void 0));
	return jobs.filter((job) => job.type !== "query" && job.type !== "evict" && !(job.type === "update" && rejected.has(job.id)));
}
/** How many records a turn counts for. */
function recordCount(turn) {
	return turn.jobs.length + turn.commands.length;
}
/** L4: what is left of the turns once the trims of the last one are carried out. Hosts with rows delete the same by prefix. */
function trimmed(turns) {
	let result = [...turns];
	for (const command of turns.at(-1)?.commands ?? []) if (command.type === "commit" && command.trim !== void 0) result = trimTo(result, command, command.trim);
	return result;
}
function trimTo(turns, commit, keepFrom) {
	return forget(turns, commit, (unit) => {
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
* were answers to it and the messages that it consumed (`consumed` may name more). Turns that are left empty go too. What is older
* than the scope stays, though it may stand at the same locations: a failure that was voided had come that far before (D10).
*/
function forget(turns, commit, isPast, consumed = /* @__PURE__ */ new Set(), timers = /* @__PURE__ */ new Set()) {
	const gone = /* @__PURE__ */ new Set();
	const opened = /* @__PURE__ */ new Set();
	const past = /* @__PURE__ */ new Set();
	let begun = false;
	for (const command of commandsBefore(turns, commit)) {
		if ("n" in command) opened.add(command.seq);
		if ("n" in command && command.seq === commit.seq) begun = true;
		else if (!begun) continue;
		else if ("n" in command && isPast(command.unit)) gone.add(command.seq);
		else if ((command.type === "dispatch" || command.type === "handlerFailed") && isPast(command.unit)) {
			past.add(command);
			if (command.type === "dispatch") consumed.add(command.message);
		} else if (command.type === "settle" && gone.has(command.seq)) for (const id of command.messages ?? []) consumed.add(id);
	}
	const isGone = (command) => {
		if ("n" in command) return gone.has(command.seq);
		switch (command.type) {
			case "commit": return gone.has(command.seq) || command.seq === commit.seq;
			case "dispatch":
			case "handlerFailed": return past.has(command);
			case "acceptUpdate":
			case "completeUpdate": return gone.has(command.seq) || consumed.has(command.id);
			default: return "seq" in command && gone.has(command.seq);
		}
	};
	const isLate = (seq) => seq > commit.seq && !opened.has(seq);
	const isAnswer = (job) => {
		if (job.type === "fire") return gone.has(job.seq) || timers.has(job.seq) || isLate(job.seq);
		if (job.type === "resolve" || job.type === "childStarted") return gone.has(job.seq) || isLate(job.seq);
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
// packages/core/src/values/duration.ts
/** One group a unit: each unit at most once, from the longest to the shortest, and nothing between them. */
const grammar = new RegExp(`^${units.map(([unit]) => `(?:(\\d+(?:\\.\\d+)?)${unit})?`).join("")}$`);
/** Takes anything, since it is what checks the options of users who have no types. */
function parseDuration(duration) {
	if (typeof duration === "number") return wholeMs(duration, duration);
	const groups = typeof duration === "string" && duration !== "" ? grammar.exec(duration) : null;
	if (groups === null) throw invalid(duration);
	let ms = 0;
	for (const [index, [, length]] of units.entries()) ms += Number(groups[index + 1] ?? 0) * length;
	return wholeMs(ms, duration);
}
/** Rounded up, since a timer never fires early (K8), but not for the noise of binary fractions: 1.1s is 1100, not 1101. */
function wholeMs(ms, duration) {
	if (!(ms >= 0 && ms <= Number.MAX_SAFE_INTEGER)) throw invalid(duration);
	return Number.isInteger(ms) ? ms + 0 : Math.ceil(Number(ms.toFixed(6)));
}
function invalid(duration) {
	return new InvalidInputError({
		what: "duration",
		issues: [{ message: `${preview(duration)} is no duration; write milliseconds (0 or more), or text such as "250ms", "30s", "1h30m", "7d"` }]
	});
}
// packages/core/src/values/retry.ts
const operationDefaults = Object.freeze({
	maxAttempts: 10,
	initialInterval: 1e3,
	backoff: 2,
	maxInterval: 1e5,
	jitter: .2
});
const retryDefaults = Object.freeze({
	operation: operationDefaults,
	run: Object.freeze({
		...operationDefaults,
		maxAttempts: 1
	})
});
/** Throws an InvalidInputError for a policy that makes no sense. */
function resolveRetry(policy, kind) {
	const defaults = retryDefaults[kind];
	if (policy === void 0) return defaults;
	validateRetry(policy);
	const initialInterval = policy.initialInterval === void 0 ? defaults.initialInterval : parseDuration(policy.initialInterval);
	return {
		maxAttempts: policy.maxAttempts ?? defaults.maxAttempts,
		initialInterval,
		backoff: policy.backoff ?? defaults.backoff,
		maxInterval: policy.maxInterval === void 0 ? Math.max(defaults.maxInterval, initialInterval) : parseDuration(policy.maxInterval),
		jitter: policy.jitter ?? defaults.jitter
	};
}
/** Takes anything, since it is what checks the options of users who have no types. */
function validateRetry(policy) {
	if (policy === null || typeof policy !== "object") throw new InvalidInputError({
		what: "retry policy",
		issues: [{ message: `must be an object, not ${preview(policy)}` }]
	});
	const { maxAttempts, initialInterval, backoff, maxInterval, jitter, nonRetryable } = policy;
	const issues = [];
	const refuse = (key, must, value) => {
		issues.push({
			path: [key],
			message: `must be ${must}, not ${preview(value)}`
		});
	};
	if (maxAttempts !== void 0 && maxAttempts !== Number.POSITIVE_INFINITY && !(Number.isInteger(maxAttempts) && inRange(maxAttempts, 1))) refuse("maxAttempts", "a whole number from 1, or Infinity", maxAttempts);
	if (backoff !== void 0 && !inRange(backoff, 1)) refuse("backoff", "a number from 1", backoff);
	if (jitter !== void 0 && !inRange(jitter, 0, 1)) refuse("jitter", "a number from 0 to 1", jitter);
	if (nonRetryable !== void 0 && typeof nonRetryable !== "function" && !isListOfNames(nonRetryable)) refuse("nonRetryable", "a list of class names or a function", nonRetryable);
	const first = readInterval("initialInterval", initialInterval, issues);
	const longest = readInterval("maxInterval", maxInterval, issues);
	if (first !== void 0 && longest !== void 0 && longest < first) refuse("maxInterval", `at least initialInterval (${preview(initialInterval)})`, maxInterval);
	if (issues.length > 0) throw new InvalidInputError({
		what: "retry policy",
		issues
	});
}
function readInterval(key, interval, issues) {
	if (interval === void 0) return void 0;
	try {
		return parseDuration(interval);
	} catch (error) {
		if (!(error instanceof InvalidInputError)) throw error;
		issues.push(...error.issues.map((issue) => ({
			path: [key],
			message: issue.message
		})));
		return;
	}
}
function inRange(value, min, max = Number.MAX_VALUE) {
	return typeof value === "number" && value >= min && value <= max;
}
function isListOfNames(value) {
	return Array.isArray(value) && value.every((name) => typeof name === "string");
}
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
export { tagOf as $, StepTimeoutError as A, payloadExceeds as B, FatalError as C, RunFailedError as D, RollbackError as E, RunBlockedError as F, InvalidInputError as G, payloadSize as H, RunClosedError as I, isError as J, LimitExceededError as K, RunNotFoundError as L, QueryFailedError as M, ReceiveClosedError as N, RunTerminatedError as O, RunAlreadyExistsError as P, preview as Q, UpdateFailedError as R, DeadlineExceededError as S, RaceError as T, payloadToJson as U, payloadFromJson as V, jsonCodec as W, toError as X, takeApart as Y, callName as Z, reviveError as _, parseDuration as a, CanceledError as b, recordTurn as c, compareOrder as d, unitName as et, formatLocation as f, sharedLength as g, segment as h, validateRetry as i, formatDuration as j, StepFailedError as k, recordedJobs as l, predecessor as m, resolveRetry as n, declareError as nt, forget as o, isWithin as p, UnserializableValueError as q, retryDelay as r, advise as rt, recordCount as s, isRetryable as t, HoldfastError as tt, trimmed as u, serializeError as v, JoinError as w, ChildFailedError as x, ActivityFailedError as y, UpdateRejectedError as z };
