import { $ as tagOf, A as StepTimeoutError, B as payloadExceeds, C as FatalError, D as RunFailedError, E as RollbackError, F as RunBlockedError, G as InvalidInputError, H as payloadSize, I as RunClosedError, J as isError, K as LimitExceededError, L as RunNotFoundError, M as QueryFailedError, N as ReceiveClosedError, O as RunTerminatedError, P as RunAlreadyExistsError, Q as preview, R as UpdateFailedError, S as DeadlineExceededError, T as RaceError, U as payloadToJson, V as payloadFromJson, W as jsonCodec, X as toError, Y as takeApart, Z as callName, _ as reviveError, a as parseDuration, b as CanceledError, c as recordTurn, d as compareOrder, et as unitName, f as formatLocation, g as sharedLength, h as segment, i as validateRetry, j as formatDuration, k as StepFailedError, l as recordedJobs, m as predecessor, n as resolveRetry, nt as declareError, o as forget, p as isWithin, q as UnserializableValueError, r as retryDelay, rt as advise, s as recordCount, t as isRetryable, tt as HoldfastError, v as serializeError, w as JoinError, x as ChildFailedError, y as ActivityFailedError, z as UpdateRejectedError } from "./retry-JkheHewo.js";
import { syncBuiltinESMExports } from "node:module";
import crypto, { createHash, randomUUID } from "node:crypto";
import fs from "node:fs";
import timers from "node:timers";
import timersPromises from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
// packages/core/src/codec/sameValue.ts
function sameValue(a, b) {
	return new Comparison().same(a, b);
}
var Comparison = class {
	/** Pairs that are the same if the rest is: a cycle comes back to a pair that is being compared. */
	#assumed = /* @__PURE__ */ new Map();
	/** The same in order, to take back what a failed attempt assumed. */
	#trail = [];
	same(a, b) {
		return Object.is(a, b) || isObject$1(a) && isObject$1(b) && this.#objects(a, b);
	}
	#objects(a, b) {
		if (this.#assumed.get(a)?.has(b)) return true;
		const tag = kindOf(a);
		if (tag !== kindOf(b)) return false;
		this.#assume(a, b);
		if (ArrayBuffer.isView(a) && ArrayBuffer.isView(b)) return sameBytes(a, b);
		switch (tag) {
			case "Array": return this.#arrays(a, b);
			case "Error": return this.#errors(a, b);
			case "Map": return this.#maps(a, b);
			case "Set": return this.#sets(a, b);
			case "Date": return Object.is(a.getTime(), b.getTime());
			case "ArrayBuffer": return sameBytes(new Uint8Array(a), new Uint8Array(b));
			case "URL":
			case "RegExp": return String(a) === String(b);
			default: return this.#records(a, b);
		}
	}
	#arrays(a, b) {
		return a.length === b.length && a.every((item, index) => this.same(item, b[index]));
	}
	#records(a, b) {
		const keys = Object.keys(a);
		if (keys.length !== Object.keys(b).length) return false;
		const [left, right] = [a, b];
		return keys.every((key) => Object.hasOwn(right, key) && this.same(left[key], right[key]));
	}
	#errors(a, b) {
		const [left, right] = [takeApart(a), takeApart(b)];
		return left.name === right.name && left.message === right.message && this.same(left.cause, right.cause) && this.#maps(left.fields, right.fields);
	}
	#maps(a, b) {
		if (a.size !== b.size) return false;
		const objects = [];
		for (const [key, value] of a) if (isObject$1(key)) objects.push([key, value]);
		else if (!b.has(key) || !this.same(value, b.get(key))) return false;
		const others = [...b].filter(([key]) => isObject$1(key));
		return this.#pairUp(objects, others);
	}
	#sets(a, b) {
		if (a.size !== b.size) return false;
		for (const item of a) if (!isObject$1(item) && !b.has(item)) return false;
		return this.#pairUp([...a].filter(isObject$1), [...b].filter(isObject$1));
	}
	/** Finds for each of one side one of the other. Keys that are objects have no other identity than what they hold. */
	#pairUp(a, b) {
		return a.length === b.length && a.every((item) => {
			const match = b.findIndex((candidate) => this.#tentatively(item, candidate));
			if (match >= 0) b.splice(match, 1);
			return match >= 0;
		});
	}
	#tentatively(a, b) {
		const mark = this.#trail.length;
		if (this.same(a, b)) return true;
		for (const [left, right] of this.#trail.splice(mark)) this.#assumed.get(left)?.delete(right);
		return false;
	}
	#assume(a, b) {
		const partners = this.#assumed.get(a);
		if (partners === void 0) this.#assumed.set(a, /* @__PURE__ */ new Set([b]));
		else partners.add(b);
		this.#trail.push([a, b]);
	}
};
function kindOf(object) {
	return isError(object) ? "Error" : tagOf(object);
}
function sameBytes(a, b) {
	const left = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
	const right = new Uint8Array(b.buffer, b.byteOffset, b.byteLength);
	return left.length === right.length && left.every((byte, index) => byte === right[index]);
}
function isObject$1(value) {
	return typeof value === "object" && value !== null;
}
// packages/core/src/errors/violations.ts
var NondeterminismError = class extends HoldfastError {
	static {
		declareError(this, "NondeterminismError");
	}
	location;
	/** What differs: "kind", "name", "input", "retry" … */
	field;
	/** What history holds; undefined where it holds nothing. */
	expected;
	/** What the code did; undefined where it did nothing. */
	actual;
	constructor(details) {
		const { location, field, expected, actual, hint } = details;
		const diff = [
			`the code and the history part at ${location === "" ? "the root" : location}, in ${field}`,
			`- expected (history): ${side(expected)}`,
			`+ actual (code):      ${side(actual)}`
		];
		if (hint !== void 0) diff.push(hint);
		super(advise("NondeterminismError", diff.join("\n")));
		this.location = location;
		this.field = field;
		this.expected = expected;
		this.actual = actual;
	}
};
/** Words are shown as they are ("step charge"), values as values. */
function side(value) {
	if (value === void 0) return "nothing";
	return typeof value === "string" ? value : preview(value);
}
var IllegalCallError = class extends HoldfastError {
	static {
		declareError(this, "IllegalCallError");
	}
	call;
	unit;
	reason;
	constructor(details) {
		const { call, unit, reason } = details;
		super(advise("IllegalCallError", `${callName(call)} can't be called in ${unitName(unit)}: ${reason}`));
		this.call = call;
		this.unit = unit;
		this.reason = reason;
	}
};
var IllegalReturnError = class extends HoldfastError {
	static {
		declareError(this, "IllegalReturnError");
	}
	constructor(message) {
		super(message);
	}
};
var OutOfTurnError = class extends HoldfastError {
	static {
		declareError(this, "OutOfTurnError");
	}
	unit;
	call;
	pausedOn;
	turnOf;
	constructor(details) {
		const { unit, call, pausedOn, turnOf } = details;
		const paused = pausedOn === void 0 ? "" : `, which is paused on ${pausedOn}`;
		const holder = turnOf === void 0 ? "no unit has the turn now: the call comes from a step body, a callback or a promise that nobody awaits" : `${unitName(turnOf)} has the turn: use the ctx that its function was given`;
		super(advise("OutOfTurnError", `${callName(call)} was called on the ctx of ${unitName(unit)}${paused}; ${holder}`));
		this.unit = unit;
		this.call = call;
		this.pausedOn = pausedOn;
		this.turnOf = turnOf;
	}
};
var ForeignAwaitError = class extends HoldfastError {
	static {
		declareError(this, "ForeignAwaitError");
	}
	unit;
	/** The last operation before it, where to start looking. */
	call;
	constructor(details) {
		const { unit, call } = details;
		const after = call === void 0 ? "" : `, after ${callName(call)}`;
		super(advise("ForeignAwaitError", `${unitName(unit)} awaits something that is not an operation${after}: wrap it in ctx.step`));
		this.unit = unit;
		this.call = call;
	}
};
var TurnTimeoutError = class extends HoldfastError {
	static {
		declareError(this, "TurnTimeoutError");
	}
	/** In milliseconds, as is `limit`. */
	elapsed;
	limit;
	location;
	constructor(details) {
		const { elapsed, limit, location } = details;
		const where = location === "" ? "the root" : location;
		super(advise("TurnTimeoutError", `a turn took ${formatDuration(elapsed)} at ${where}, more than the ${formatDuration(limit)} it may take`));
		this.elapsed = elapsed;
		this.limit = limit;
		this.location = location;
	}
};
// packages/core/src/executor/barrier.ts
/**
* One barrier for many runs. What is armed before the microtask `collect` runs shares its tick; what comes later arms another, so
* that no step is cut short by the tick of an earlier one.
*/
function batched(afterMicrotasks) {
	let waiting = [];
	const batches = [];
	const fire = () => {
		const batch = batches.shift();
		if (batch !== void 0) for (const done of batch) done();
	};
	const collect = () => {
		batches.push(waiting);
		waiting = [];
		afterMicrotasks(fire);
	};
	return (done) => {
		if (waiting.push(done) === 1) queueMicrotask(collect);
	};
}
/** `process.nextTick` where there is one (Node, Bun, Deno): it runs when the microtask queue is empty. Else a macrotask. */
function createBarrier(runtime = globalThis) {
	const nextTick = runtime.process?.nextTick;
	if (nextTick !== void 0) {
		const process = runtime.process;
		return batched((fire) => nextTick.call(process, fire));
	}
	const Channel = runtime.MessageChannel;
	if (Channel === void 0) throw new TypeError("This runtime has neither process.nextTick nor MessageChannel: pass a `barrier` of your own.");
	const fires = [];
	const channel = new Channel();
	channel.port1.onmessage = () => fires.shift()?.();
	return batched((fire) => {
		fires.push(fire);
		channel.port2.postMessage(0);
	});
}
let shared;
/** The barrier that executors share unless they are given another. */
function sharedBarrier() {
	shared ??= createBarrier();
	return shared;
}
// packages/core/src/values/random.ts
const TWO_POW_26 = 2 ** 26;
const TWO_POW_53 = 2 ** 53;
/** "00" to "ff". */
const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
var Random = class {
	#a;
	#b;
	#c;
	#counter;
	constructor(seed, key) {
		let a = 608135816;
		let b = 2242054355;
		let c = 320440878;
		let d = 57701188;
		const absorb = (word) => {
			a = Math.imul(a ^ word, 2654435761);
			b = Math.imul(b ^ word, 2246822507) ^ a >>> 15;
			c = Math.imul(c ^ word, 3266489909) ^ b >>> 13;
			d = Math.imul(d ^ word, 668265263) ^ c >>> 16;
			a ^= d >>> 14;
		};
		for (let i = 0; i < seed.length; i++) absorb(seed.charCodeAt(i));
		absorb(65536 + seed.length);
		for (let i = 0; i < key.length; i++) absorb(key.charCodeAt(i));
		this.#a = a | 0;
		this.#b = b | 0;
		this.#c = c | 0;
		this.#counter = d | 0;
		for (let round = 0; round < 16; round++) this.#word();
	}
	/** In [0, 1), with 53 random bits. */
	next() {
		const high = this.#word() >>> 5;
		const low = this.#word() >>> 6;
		return (high * TWO_POW_26 + low) / TWO_POW_53;
	}
	/** A version 4 UUID. */
	uuid() {
		const w0 = this.#word();
		const w1 = this.#word() & 4294905855 | 16384;
		const w2 = this.#word() & 1073741823 | 2147483648;
		const w3 = this.#word();
		return `${hex8(w0)}-${hex4(w1 >>> 16)}-${hex4(w1)}-${hex4(w2 >>> 16)}-${hex4(w2)}${hex8(w3)}`;
	}
	/** The next 32 bits, as a signed integer. */
	#word() {
		const result = this.#a + this.#b + this.#counter | 0;
		this.#counter = this.#counter + 1 | 0;
		this.#a = this.#b ^ this.#b >>> 9;
		this.#b = this.#c + (this.#c << 3) | 0;
		this.#c = (this.#c << 21 | this.#c >>> 11) + result | 0;
		return result;
	}
};
function hex4(word) {
	return `${hex[word >>> 8 & 255]}${hex[word & 255]}`;
}
function hex8(word) {
	return hex4(word >>> 16) + hex4(word);
}
// packages/core/src/executor/steps.ts
function recordedRetry(policy) {
	validateRetry(policy);
	const record = {};
	if (policy.maxAttempts !== void 0) record.maxAttempts = policy.maxAttempts;
	if (policy.initialInterval !== void 0) record.initialInterval = parseDuration(policy.initialInterval);
	if (policy.backoff !== void 0) record.backoff = policy.backoff;
	if (policy.maxInterval !== void 0) record.maxInterval = parseDuration(policy.maxInterval);
	if (policy.jitter !== void 0) record.jitter = policy.jitter;
	if (policy.nonRetryable !== void 0) record.nonRetryable = typeof policy.nonRetryable === "function" ? "function" : [...policy.nonRetryable];
	return record;
}
function failure(outcome, wrap) {
	if (outcome.status === "canceled") return {
		ok: false,
		error: new CanceledError(outcome.reason)
	};
	return {
		ok: false,
		error: wrap(outcome.attempts ?? 1, reviveError(outcome.error))
	};
}
const STEP$1 = {
	cancel(operation, error) {
		const execution = operation.unit.execution;
		if (operation.joining) return;
		if (operation.body?.rollback === void 0) {
			execution.emit({
				type: "cancel",
				seq: operation.seq
			});
			execution.settle(operation, {
				ok: false,
				error
			});
		} else {
			operation.joining = true;
			execution.emit({
				type: "cancel",
				seq: operation.seq,
				join: true
			});
		}
	},
	outcome(operation, outcome) {
		const execution = operation.unit.execution;
		const rollback = operation.body?.rollback;
		if (outcome.status === "completed" && rollback !== void 0) execution.saga.add(operation, rollback, outcome.value);
		if (operation.joining && operation.unit.canceled !== void 0) execution.settle(operation, {
			ok: false,
			error: operation.unit.canceled
		});
		else if (outcome.status === "completed") execution.settle(operation, {
			ok: true,
			payload: outcome.value
		});
		else {
			const settlement = failure(outcome, (attempts, cause) => new StepFailedError({
				step: operation.name,
				attempts,
				cause
			}));
			if (!settlement.ok) execution.blame.put(settlement.error, operation.seq);
			execution.settle(operation, settlement);
		}
	}
};
function step$1(unit, kind, name, run, options) {
	const timeout = options?.timeout === void 0 ? void 0 : parseDuration(options.timeout);
	let fields;
	if (options !== void 0) {
		fields = {};
		if (timeout !== void 0) fields.timeout = timeout;
		if (options.retry !== void 0) fields.retry = recordedRetry(options.retry);
		if (options.rollback !== void 0) fields.rollback = true;
	}
	const operation = unit.execution.open(unit, kind, name, fields);
	if (!operation.closed) {
		operation.behaviour = STEP$1;
		operation.body = {
			kind,
			name,
			run,
			retry: options?.retry,
			timeout,
			rollback: options?.rollback
		};
	}
	return operation.promise;
}
/** Carried out by the host elsewhere; cancelled means given up at once, a late result is dropped. */
function abandon(operation, error) {
	operation.unit.execution.emit({
		type: "cancel",
		seq: operation.seq
	});
	operation.unit.execution.settle(operation, {
		ok: false,
		error
	});
}
const ACTIVITY = {
	cancel: abandon,
	outcome(operation, outcome) {
		const execution = operation.unit.execution;
		if (outcome.status === "completed") return execution.settle(operation, {
			ok: true,
			payload: outcome.value
		});
		const settlement = failure(outcome, (attempts, cause) => new ActivityFailedError({
			activity: operation.name,
			attempts,
			cause
		}));
		if (!settlement.ok) execution.blame.put(settlement.error, operation.seq);
		execution.settle(operation, settlement);
	}
};
function activityCall(unit, activity, args, call) {
	const execution = unit.execution;
	const options = call === void 0 ? activity.options : {
		...activity.options,
		...call
	};
	const fields = {};
	if (options.queue !== void 0) fields.queue = options.queue;
	if (options.retry !== void 0) fields.retry = recordedRetry(options.retry);
	for (const key of [
		"startToClose",
		"scheduleToClose",
		"scheduleToStart",
		"heartbeat"
	]) {
		const duration = options[key];
		if (duration !== void 0) fields[key] = parseDuration(duration);
	}
	let operation;
	try {
		fields.input = execution.encode(args, `the arguments of activity ${activity.name}`);
		operation = execution.open(unit, "activity", activity.name, fields);
	} catch (error) {
		operation = execution.refuse(unit, "activity", activity.name, error);
	}
	if (!operation.closed) operation.behaviour = ACTIVITY;
	return operation.promise;
}
// packages/core/src/executor/timers.ts
const SLEEP = {
	cancel: abandon,
	fire: (operation) => operation.unit.execution.settle(operation, {
		ok: true,
		value: void 0
	}),
	outcome: (operation, outcome) => {
		if (outcome.status === "completed") operation.unit.execution.settle(operation, {
			ok: true,
			value: void 0
		});
	}
};
function open$1(unit, name, fields) {
	const operation = unit.execution.open(unit, "sleep", name, fields);
	if (!operation.closed) {
		operation.behaviour = SLEEP;
		operation.floating = true;
	}
	return operation.promise;
}
function sleep(unit, name, duration) {
	return open$1(unit, name, { duration: parseDuration(duration) });
}
function sleepUntil(unit, name, time) {
	return open$1(unit, name, { until: checkedTime("ctx.sleepUntil", time) });
}
/** Milliseconds since the epoch. */
function checkedTime(what, time) {
	const milliseconds = typeof time === "number" ? time : time.getTime();
	if (Number.isFinite(milliseconds)) return milliseconds;
	throw new InvalidInputError({
		what,
		issues: [{ message: `${String(time)} is not a time: give a Date or milliseconds.` }]
	});
}
// packages/core/src/executor/children.ts
function settlementOf(outcome, childId, workflow) {
	if (outcome.status === "completed") return {
		ok: true,
		payload: outcome.value
	};
	const cause = outcome.status === "failed" ? reviveError(outcome.error) : new CanceledError(outcome.reason);
	return {
		ok: false,
		error: new ChildFailedError({
			childId,
			workflow,
			cause
		})
	};
}
/** Unique among the executions of the run and readable: `order-7/ship#1`, and `order-7/~2/ship` in the second execution. */
function childId(unit, name, n) {
	const { start } = unit.execution;
	const location = formatLocation(unit.path, name, n);
	const execution = start?.execution ?? 1;
	return execution === 1 ? `${start?.runId}/${location}` : `${start?.runId}/~${execution}/${location}`;
}
function open(unit, workflow, input, options, detached) {
	const execution = unit.execution;
	const fields = {};
	const id = options.id ?? childId(unit, workflow.name, unit.occurrence(workflow.name));
	if (options.id === void 0) unit.unuse(workflow.name);
	try {
		fields.input = execution.encode(input, `the input of child ${workflow.name}`);
	} catch (error) {
		return {
			operation: execution.refuse(unit, "child", workflow.name, error),
			id
		};
	}
	fields.id = id;
	const version = options.version ?? workflow.version;
	if (options.queue !== void 0) fields.queue = options.queue;
	if (version !== void 0) fields.version = version;
	if (options.deadline instanceof Date) fields.deadlineAt = checkedTime("ctx.child", options.deadline);
	else if (options.deadline !== void 0) fields.deadline = parseDuration(options.deadline);
	if (options.retry !== void 0) fields.retry = recordedRetry(options.retry);
	if (options.parentClose !== void 0) fields.parentClose = options.parentClose;
	if (detached) fields.detached = true;
	return {
		operation: execution.open(unit, "child", workflow.name, fields),
		id
	};
}
function child(unit, workflow, input, options = {}) {
	const { operation, id } = open(unit, workflow, input, options, false);
	if (!operation.closed) operation.behaviour = {
		cancel: abandon,
		outcome(own, outcome) {
			const settlement = settlementOf(outcome, id, workflow.name);
			if (!settlement.ok) own.unit.execution.blame.put(settlement.error, own.seq);
			own.unit.execution.settle(own, settlement);
		}
	};
	return operation.promise;
}
function startChild(unit, workflow, input, options = {}, admit) {
	const { operation, id } = open(unit, workflow, input, options, true);
	if (!operation.closed) {
		const execution = unit.execution;
		operation.behaviour = {
			cancel: abandon,
			outcome(own, outcome) {
				if (own.settlement !== void 0) return childEnded(execution, own.seq, outcome);
				const settlement = settlementOf(outcome, id, workflow.name);
				if (!settlement.ok) execution.blame.put(settlement.error, own.seq);
				execution.settle(own, settlement);
			},
			childStarted(own, runId) {
				execution.children.set(own.seq, {
					id: runId,
					workflow: workflow.name,
					settlement: void 0,
					waiters: []
				});
				execution.settle(own, {
					ok: true,
					value: new Handle(execution, own.seq, runId, workflow.name, admit)
				});
			}
		};
	}
	return operation.promise;
}
/** The outcome of a child that was started before. */
function childEnded(execution, seq, outcome) {
	const watched = execution.children.get(seq);
	if (watched === void 0 || watched.settlement !== void 0) return;
	watched.settlement = settlementOf(outcome, watched.id, watched.workflow);
	if (!watched.settlement.ok) execution.blame.put(watched.settlement.error, seq);
	for (const operation of watched.waiters) execution.conclude(operation, watched.settlement.ok ? "completed" : "failed", watched.settlement);
	watched.waiters = [];
}
const RESULT = { cancel: (operation, error) => operation.unit.execution.conclude(operation, "canceled", {
	ok: false,
	error
}) };
var Handle = class {
	id;
	#execution;
	#seq;
	#workflow;
	#admit;
	constructor(execution, seq, id, workflow, admit) {
		this.#execution = execution;
		this.#seq = seq;
		this.id = id;
		this.#workflow = workflow;
		this.#admit = admit;
	}
	#call(call, run) {
		const unit = this.#execution.caller(call);
		return unit === void 0 ? new Promise(() => {}) : this.#admit(unit, call, () => run(unit));
	}
	result() {
		return this.#call("child.result", (unit) => {
			const execution = this.#execution;
			const watched = execution.children.get(this.#seq);
			const operation = execution.open(unit, "childResult", this.#workflow, { child: this.#seq });
			if (operation.closed) return operation.promise;
			operation.floating = true;
			operation.behaviour = RESULT;
			if (watched?.settlement === void 0) watched?.waiters.push(operation);
			else execution.concludeNow(operation, watched.settlement.ok ? "completed" : "failed", watched.settlement);
			return operation.promise;
		});
	}
	signal(name, payload) {
		return this.#call("child.signal", (unit) => signalRun(unit, this.id, name, payload));
	}
	cancel() {
		return this.#call("child.cancel", (unit) => cancelRun(unit, this.id));
	}
};
const SENT = {
	cancel: abandon,
	outcome(operation, outcome) {
		const execution = operation.unit.execution;
		if (outcome.status === "completed") execution.settle(operation, {
			ok: true,
			value: void 0
		});
		else if (outcome.status === "canceled") execution.settle(operation, {
			ok: false,
			error: new CanceledError(outcome.reason)
		});
		else {
			const error = reviveError(outcome.error);
			execution.blame.put(error, operation.seq);
			execution.settle(operation, {
				ok: false,
				error
			});
		}
	}
};
function signalRun(unit, runId, signal, payload) {
	const execution = unit.execution;
	let operation;
	try {
		const fields = {
			runId,
			signal,
			payload: execution.encode(payload, `the payload of signal ${signal}`)
		};
		operation = execution.open(unit, "signalRun", signal, fields);
	} catch (error) {
		operation = execution.refuse(unit, "signalRun", signal, error);
	}
	if (!operation.closed) operation.behaviour = SENT;
	return operation.promise;
}
function cancelRun(unit, runId) {
	const operation = unit.execution.open(unit, "cancelRun", "cancelRun", { runId });
	if (!operation.closed) operation.behaviour = SENT;
	return operation.promise;
}
// packages/core/src/protocol/command.ts
/** Their kinds. An open side effect is the host's too, where it carries those out. */
const HOST_KINDS = /* @__PURE__ */ new Set([
	"step",
	"transaction",
	"activity",
	"child",
	"sleep",
	"signalRun",
	"cancelRun",
	"rollback"
]);
/** Y2: for each kind the fields, besides type, unit, name and occurrence, that make a command what it is. */
const IDENTITY = {
	step: [
		"timeout",
		"retry",
		"rollback"
	],
	transaction: [
		"timeout",
		"retry",
		"rollback"
	],
	activity: [
		"input",
		"queue",
		"retry",
		"startToClose",
		"scheduleToClose",
		"scheduleToStart",
		"heartbeat"
	],
	child: [
		"input",
		"id",
		"queue",
		"version",
		"deadline",
		"deadlineAt",
		"retry",
		"parentClose",
		"detached"
	],
	sleep: ["duration", "until"],
	signalRun: [
		"runId",
		"signal",
		"payload"
	],
	cancelRun: ["runId"],
	rollback: ["of"],
	sideEffect: [],
	signal: [
		"names",
		"count",
		"timeout"
	],
	childResult: ["child"],
	condition: ["timeout"],
	ivar: [],
	updateState: [],
	parallel: ["branches"],
	join: ["keys"],
	race: ["keys"],
	try: [],
	shield: [],
	loop: [],
	receive: ["timeout", "checkpointEvery"],
	refuse: ["kind"],
	reuse: ["kind"],
	patch: [],
	rollbackCheckpoint: [],
	attributes: ["attributes"],
	settle: [
		"seq",
		"status",
		"messages"
	],
	winner: ["seq", "key"],
	cancel: ["seq"],
	dispatch: [
		"seq",
		"unit",
		"message"
	],
	acceptUpdate: ["seq", "id"],
	completeUpdate: [
		"seq",
		"id",
		"status"
	],
	handlerFailed: ["seq", "unit"],
	commit: [
		"seq",
		"count",
		"value"
	],
	rollBack: [],
	complete: ["value"],
	fail: [],
	canceled: [],
	continueAsNew: ["input", "version"]
};
// packages/core/src/protocol/payload.ts
/** The fields of jobs, commands and turns that hold a payload, wherever they occur. Nothing else may use these names. */
const PAYLOAD_FIELDS = /* @__PURE__ */ new Set([
	"value",
	"input",
	"payload",
	"state",
	"args"
]);
// packages/core/src/executor/comparison.ts
function sameBy(codec) {
	const same = (a, b, field) => {
		if (a === b) return true;
		if (a === void 0 || b === void 0) return false;
		if (field !== void 0 && PAYLOAD_FIELDS.has(field)) try {
			return sameValue(codec.decode(a), codec.decode(b));
		} catch {
			return false;
		}
		return typeof a === "object" && sameValue(a, b);
	};
	const decode = (value, field) => {
		if (value === void 0 || !PAYLOAD_FIELDS.has(field)) return value;
		try {
			return codec.decode(value);
		} catch {
			return value;
		}
	};
	return Object.assign(same, { decode });
}
function isOpening(command) {
	return "n" in command;
}
/** The first field in which two commands differ; undefined if they are the same. */
function difference(actual, expected, same) {
	if (actual.type !== expected.type) return "kind";
	if (isOpening(actual)) {
		const before = expected;
		if (actual.name !== before.name) return "name";
		if (actual.unit !== before.unit) return "unit";
		if (actual.n !== before.n) return "occurrence";
	}
	const fields = IDENTITY[actual.type];
	if (fields.length === 0) return void 0;
	const a = actual;
	const b = expected;
	for (const field of fields) if (a[field] !== b[field] && !same(a[field], b[field], field)) return field;
}
/** `step "charge"`, `complete`, `settle of 7 (timedOut)`. */
function describeCommand(command) {
	if (isOpening(command)) {
		const place = command.unit === "" ? "" : ` in ${command.unit}`;
		const again = command.n === 0 ? "" : ` (occurrence ${command.n + 1})`;
		return `${command.type} "${command.name}"${again}${place}`;
	}
	return describeOther(command);
}
function describeOther(command) {
	switch (command.type) {
		case "settle": return `the end (${command.status}) of operation ${command.seq}`;
		case "winner": return `the victory of "${command.key}" in race ${command.seq}`;
		case "cancel": return `the cancellation of operation ${command.seq}`;
		case "dispatch": return `the dispatch of message ${command.message} to ${command.unit}`;
		case "acceptUpdate": return `the acceptance of update ${command.id}`;
		case "completeUpdate": return `the ${command.status === "completed" ? "reply to" : "failure of"} update ${command.id}`;
		case "handlerFailed": return `the failure of handler ${command.unit}`;
		case "commit": return `commit ${command.count} of ${command.unit}`;
		case "rollBack": return "the start of the rollbacks";
		case "complete": return "the end of the workflow (completed)";
		case "fail": return `the failure of the workflow (${command.error.name}: ${command.error.message})`;
		case "canceled": return "the end of the workflow (canceled)";
		case "continueAsNew": return "the end of the workflow (continued as new)";
	}
}
// packages/core/src/executor/commits.ts
/**
* Nothing lives but the unit that waits in `operation` and its ancestors, each of them only for what leads there, and no rollback
* beneath it may still run (L5).
*/
function canCommit(execution, operation) {
	let depth = 0;
	for (let unit = operation.unit; unit !== void 0; unit = unit.parent) {
		if (unit.open.size !== 1 || unit.gates > 0 || unit.yielding) return false;
		depth++;
	}
	return depth === execution.liveUnits && !operation.entangled && !execution.saga.holdsBeneath(operation.location);
}
/**
* L3: what happens beneath an open loop or receive and is seen outside of it, in memory alone, can't be left behind by its commits:
* `inside` is where it happened, `outside` who sees it. A condition that came true may be the doing of any of them.
*/
function entangle(execution, outside, inside) {
	for (const operation of execution.operations.values()) {
		if (operation.kind !== "loop" && operation.kind !== "receive") continue;
		const scope = operation.location;
		if (!isWithin(outside.path, scope) && (inside === void 0 || isWithin(inside.path, scope))) operation.entangled = true;
	}
}
/** Where the scope is, and what of the run's state belongs to that point. */
function commitCommand(execution, operation, count, value, trim) {
	const messages = execution.mailbox.snapshot();
	return {
		type: "commit",
		seq: operation.seq,
		unit: operation.location,
		count,
		value,
		...execution.state !== void 0 && { state: execution.state },
		...messages.length > 0 && { messages },
		...trim !== void 0 && { trim },
		lastSeq: execution.lastSeq,
		...!execution.saga.empty && { rollbacks: execution.saga.steps }
	};
}
// packages/core/src/executor/operation.ts
const INERT = {};
const ignore = () => {};
/** What gives up an open operation: the host is told of its own, the others are settled. */
function givingUp(kind, seq) {
	return HOST_KINDS.has(kind) || kind === "sideEffect" ? {
		type: "cancel",
		seq
	} : {
		type: "settle",
		seq,
		status: "canceled"
	};
}
var Operation = class {
	unit;
	kind;
	name;
	n;
	seq;
	promise;
	settlement;
	/** It never became an operation (refused, or the run is poisoned): its promise is all there is. */
	closed = false;
	/** Units outside this loop or receive have seen what happened inside it, in memory alone: it can't commit any more (L3). */
	entangled = false;
	/** Replay: history has a commit for this loop or receive further on (L3, R11). */
	committed = false;
	/** A wait or timer: given up when its unit's function returns (P3). Others are joined. */
	floating = false;
	/** A cancel was sent and the outcome is still awaited (C7). */
	joining = false;
	/** What jobs and cancellation do to it. */
	behaviour = INERT;
	/** What the host runs for it, if it is a step or the like. */
	body;
	/** Runs in the unit's turn just before delivery (A6). */
	beforeDelivery;
	#resolve = ignore;
	#reject = ignore;
	constructor(unit, kind, name, n, seq) {
		this.unit = unit;
		this.kind = kind;
		this.name = name;
		this.n = n;
		this.seq = seq;
		this.promise = new Promise((resolve, reject) => {
			this.#resolve = resolve;
			this.#reject = reject;
		});
	}
	get location() {
		return formatLocation(this.unit.path, this.name, this.n);
	}
	/** In words, for errors and `waitingFor`: `step charge`. */
	get description() {
		return `${this.kind} ${this.location}`;
	}
	/** Hands the result to user code. Only in its unit's turn. */
	deliver() {
		if (this.beforeDelivery !== void 0) this.settlement = this.beforeDelivery();
		const settlement = this.settlement;
		if (settlement === void 0) return;
		if (!settlement.ok) this.#fail(settlement.error);
		else if ("value" in settlement) this.#resolve(settlement.value);
		else try {
			this.#resolve(this.unit.execution.codec.decode(settlement.payload));
		} catch (error) {
			this.#fail(error);
		}
	}
	#fail(error) {
		this.promise.catch(ignore);
		remember(error);
		this.#reject(error);
	}
};
const deliveredErrors = /* @__PURE__ */ new WeakSet();
/** The error goes to workflow code, which may throw anything and leave any promise alone. */
function remember(error) {
	if (typeof error === "object" && error !== null) deliveredErrors.add(error);
	return error;
}
/**
* X11: is this error, or one that it was caused by, one that ctx or an operation gave to workflow code? Hosts ask it of unhandled
* rejections: those of promises derived from operations are the workflow's affair, not the process's.
*/
function isDeliveredError(error) {
	let at = error;
	for (let depth = 0; depth < 16 && typeof at === "object" && at !== null; depth++) {
		if (deliveredErrors.has(at)) return true;
		at = at.cause;
	}
	return false;
}
/** A rejected promise for a call that fails at once, handled so that it troubles nobody before it is awaited (X11). */
function rejected(error) {
	remember(error);
	return handled(Promise.reject(error));
}
/** X11: if it rejects before anybody awaits it, nobody is troubled. */
function handled(promise) {
	promise.catch(ignore);
	return promise;
}
/** X10: what a poisoned or evicted run hands out. */
function never() {
	return new Promise(ignore);
}
// packages/core/src/executor/versions.ts
function patched(unit, id) {
	const known = unit.patches.get(id);
	if (known !== void 0) return known;
	const execution = unit.execution;
	const answer = isOn(unit, id);
	unit.patches.set(id, answer);
	if (answer) whenDue(unit, () => execution.note(unit, "patch", id));
	return answer;
}
/** Recorded, or live. Hosts that match commands themselves say what is recorded. */
function isOn(unit, id) {
	const { matcher, replaying, notifiedPatches } = unit.execution;
	return matcher === void 0 ? !replaying || notifiedPatches.has(id) : matcher.hasPatch(unit, id);
}
function deprecatePatch(unit, id) {
	if (unit.patches.has(id)) return;
	const execution = unit.execution;
	const answer = isOn(unit, id);
	unit.patches.set(id, true);
	if (answer) whenDue(unit, () => execution.note(unit, "patch", id, { deprecated: true }));
}
/** Now, or once the operations before it that code no longer makes have settled (V3). */
function whenDue(unit, call) {
	if (unit.mustWait) unit.postponed?.push(call);
	else call();
}
function removed(unit, name, kind) {
	unit.execution.matcher?.remove(unit, name, kind);
}
// packages/core/src/executor/conditions.ts
var Conditions = class {
	#execution;
	#waiting = /* @__PURE__ */ new Map();
	constructor(execution) {
		this.#execution = execution;
	}
	add(operation, predicate) {
		operation.behaviour = this;
		operation.floating = true;
		this.#waiting.set(operation, predicate);
	}
	/** Ends the first condition that holds. False if none does. */
	settleNext() {
		for (const [operation, predicate] of this.#waiting) {
			const settlement = this.#read(predicate);
			if (this.#execution.poison !== void 0) return false;
			if (settlement === void 0) continue;
			entangle(this.#execution, operation.unit);
			this.#conclude(operation, settlement.ok ? "completed" : "failed", settlement);
			return true;
		}
		return false;
	}
	#read(predicate) {
		try {
			const value = this.#execution.inClosure("a condition's predicate", predicate);
			return value ? {
				ok: true,
				value
			} : void 0;
		} catch (error) {
			return {
				ok: false,
				error
			};
		}
	}
	#conclude(operation, status, settlement) {
		this.#waiting.delete(operation);
		this.#execution.conclude(operation, status, settlement);
	}
	cancel(operation, error) {
		this.#conclude(operation, "canceled", {
			ok: false,
			error
		});
	}
	/** Time is up: a predicate that holds by now still counts. */
	fire(operation) {
		const predicate = this.#waiting.get(operation);
		const settlement = predicate === void 0 ? void 0 : this.#read(predicate);
		if (this.#execution.poison !== void 0) return;
		if (settlement === void 0) return this.#conclude(operation, "timedOut", {
			ok: true,
			value: void 0
		});
		entangle(this.#execution, operation.unit);
		this.#conclude(operation, settlement.ok ? "completed" : "failed", settlement);
	}
	clear() {
		this.#waiting.clear();
	}
};
function condition(unit, predicate, timeout) {
	const execution = unit.execution;
	const operation = execution.open(unit, "condition", "condition", timeout === void 0 ? void 0 : { timeout: parseDuration(timeout) });
	if (!operation.closed) execution.conditions.add(operation, predicate);
	return operation.promise;
}
/** A write-once cell. Whoever has the turn may use it: it is made to pass values between units. */
var Cell = class {
	/** Who made it: the cell is seen wherever that unit's code is. */
	#owner;
	#execution;
	#admit;
	#written = false;
	#value;
	#waiters = /* @__PURE__ */ new Set();
	constructor(owner, admit) {
		this.#owner = owner;
		this.#execution = owner.execution;
		this.#admit = admit;
	}
	get filled() {
		return this.#value !== void 0;
	}
	tryRead() {
		return this.#value?.value;
	}
	put(value) {
		const unit = this.#execution.caller("ivar.put");
		if (unit === void 0) return;
		if (this.#written) throw remember(new IllegalCallError({
			call: "ivar.put",
			unit: unit.title,
			reason: "the cell is written already; an ivar takes one value"
		}));
		this.#written = true;
		entangle(this.#execution, this.#owner, unit);
		whenDue(unit, () => this.#fill(value));
	}
	#fill(value) {
		this.#value = { value };
		const waiters = [...this.#waiters];
		this.#waiters.clear();
		for (const operation of waiters) this.#execution.conclude(operation, "completed", {
			ok: true,
			value
		});
	}
	wait() {
		const unit = this.#execution.caller("ivar.wait");
		if (unit === void 0) return new Promise(() => {});
		return this.#admit(unit, "ivar.wait", () => {
			if (this.#value !== void 0) return Promise.resolve(this.#value.value);
			const operation = this.#execution.open(unit, "ivar", "ivar");
			if (!operation.closed) {
				operation.behaviour = this;
				operation.floating = true;
				this.#waiters.add(operation);
			}
			return operation.promise;
		});
	}
	cancel(operation, error) {
		this.#waiters.delete(operation);
		this.#execution.conclude(operation, "canceled", {
			ok: false,
			error
		});
	}
};
// packages/core/src/executor/continuation.ts
var ContinueAsNewToken = class {
	continueAsNew;
	version;
	constructor(input, version) {
		this.continueAsNew = input;
		this.version = version;
	}
};
// packages/core/src/executor/effects.ts
const SCHEDULED = {
	cancel: abandon,
	outcome(operation, outcome) {
		const execution = operation.unit.execution;
		if (outcome.status === "completed") execution.settle(operation, {
			ok: true,
			payload: outcome.value
		});
		else if (outcome.status === "failed") execution.settle(operation, {
			ok: false,
			error: reviveError(outcome.error)
		});
		else execution.settle(operation, {
			ok: false,
			error: new CanceledError(outcome.reason)
		});
	}
};
function sideEffect(unit, run) {
	const execution = unit.execution;
	if (execution.sideEffects === "scheduled") {
		const operation = execution.open(unit, "sideEffect", "sideEffect");
		if (!operation.closed) {
			operation.behaviour = SCHEDULED;
			operation.body = {
				kind: "sideEffect",
				name: "sideEffect",
				run,
				retry: { maxAttempts: 1 },
				timeout: void 0
			};
		}
		return operation.promise;
	}
	const refusal = execution.refusal(unit, "sideEffect");
	if (refusal !== void 0) return execution.refuse(unit, "sideEffect", "sideEffect", refusal).promise;
	const fields = {};
	const n = unit.occurrence("sideEffect");
	unit.unuse("sideEffect");
	const call = {
		type: "sideEffect",
		seq: 0,
		unit: unit.path,
		name: "sideEffect",
		n
	};
	const before = execution.matcher?.isInVoid(call) === true ? void 0 : execution.salvage?.takeEffect(call);
	if (before !== void 0) Object.assign(fields, before);
	else if (execution.matcher === void 0 || execution.matcher.isNew(call)) try {
		const value = execution.unwatched(() => execution.inClosure("a side effect", run));
		fields.value = execution.encode(value, "the value of a side effect");
	} catch (error) {
		if (execution.poison !== void 0) throw error;
		fields.error = serializeError(error);
	}
	const record = execution.note(unit, "sideEffect", "sideEffect", fields);
	if (execution.poison !== void 0) return never();
	if (record.error !== void 0) return rejected(reviveError(record.error));
	return Promise.resolve(execution.codec.decode(record.value ?? execution.encode(void 0, "nothing")));
}
function publishState(unit, state) {
	const execution = unit.execution;
	const payload = execution.encodeOrRefuse(unit, "publishState", state, "the published state");
	execution.turnState = payload;
	execution.state = payload;
}
// packages/core/src/model/findings.ts
/** Names and versions are stored with every run and repeated in locations and errors. */
const MAX_NAME_LENGTH = 255;
/** Control characters (Postgres refuses NUL in text) and unpaired surrogates (no UTF-8 form). */
const UNSTORABLE = /[\p{Cc}\p{Cs}]/u;
var Findings = class {
	#issues = [];
	add(path, message) {
		this.#issues.push({
			path,
			message
		});
	}
	/** Runs a check that throws InvalidInputError, and keeps its issues beneath `path`. */
	gather(path, check) {
		try {
			check();
		} catch (error) {
			if (!(error instanceof InvalidInputError)) throw error;
			for (const issue of error.issues) this.add([...path, ...issue.path ?? []], issue.message);
		}
	}
	throwIfAny(what) {
		if (this.#issues.length > 0) throw new InvalidInputError({
			what,
			issues: this.#issues
		});
	}
};
function checkName(findings, path, name) {
	if (typeof name !== "string") findings.add(path, `must be text, not ${preview(name)}`);
	else if (name.trim() === "") findings.add(path, "must not be empty");
	else if (name.length > MAX_NAME_LENGTH) findings.add(path, `must have at most ${MAX_NAME_LENGTH} characters, not ${name.length}`);
	else if (UNSTORABLE.test(name)) findings.add(path, `must have no control characters and no unpaired surrogates, unlike ${preview(name)}`);
}
function checkFunction(findings, path, fn) {
	if (typeof fn !== "function") findings.add(path, `must be a function, not ${preview(fn)}`);
}
function checkRetry(findings, path, retry) {
	if (retry === void 0) return;
	findings.gather(path, () => validateRetry(retry));
}
/** A duration longer than nothing. */
function checkTimeLimit(findings, path, limit) {
	if (limit === void 0) return;
	findings.gather(path, () => {
		if (parseDuration(limit) === 0) findings.add(path, "must be longer than 0; leave it out for no limit");
	});
}
function checkSchema(findings, path, schema) {
	if (schema === void 0 || isStandardSchema(schema)) return;
	findings.add(path, `must be a Standard Schema, as Zod, Valibot and ArkType make them, not ${preview(schema)}`);
}
function checkChoice(findings, path, value, choices) {
	if (value === void 0 || choices.includes(value)) return;
	findings.add(path, `must be ${choices.map(preview).join(" or ")}, not ${preview(value)}`);
}
function isObject(x) {
	return typeof x === "object" && x !== null && !Array.isArray(x);
}
function freezeCopy(object) {
	return Object.freeze({ ...object });
}
function freezeRetry(retry) {
	const { nonRetryable } = retry;
	return freezeCopy(typeof nonRetryable === "object" ? {
		...retry,
		nonRetryable: Object.freeze([...nonRetryable])
	} : retry);
}
function isStandardSchema(schema) {
	if (typeof schema !== "object" && typeof schema !== "function" || schema === null || !("~standard" in schema)) return false;
	const standard = schema["~standard"];
	return typeof standard === "object" && standard !== null && "validate" in standard && typeof standard.validate === "function";
}
// packages/core/src/model/activity.ts
function activity(name, run, options = {}) {
	const findings = new Findings();
	checkName(findings, ["name"], name);
	checkFunction(findings, ["run"], run);
	if (isObject(options)) checkActivityOptions(findings, options);
	else findings.add(["options"], `must be an object, not ${preview(options)}`);
	findings.throwIfAny(`activity ${preview(name)}`);
	return Object.freeze({
		name,
		options: freezeCopy({
			...options,
			...options.retry !== void 0 && { retry: freezeRetry(options.retry) }
		}),
		run: async (args, info) => run(args, info)
	});
}
function checkActivityOptions(findings, options) {
	if (options.queue !== void 0) checkName(findings, ["queue"], options.queue);
	checkRetry(findings, ["retry"], options.retry);
	checkTimeLimit(findings, ["startToClose"], options.startToClose);
	checkTimeLimit(findings, ["scheduleToClose"], options.scheduleToClose);
	checkTimeLimit(findings, ["scheduleToStart"], options.scheduleToStart);
	checkTimeLimit(findings, ["heartbeat"], options.heartbeat);
}
// packages/core/src/model/loop.ts
function continueWith(state) {
	return {
		loop: "continue",
		state
	};
}
function breakWith(value) {
	return {
		loop: "break",
		value
	};
}
const Loop = Object.freeze({
	continue: continueWith,
	break: breakWith
});
/** Whether a loop's body returned one of the results of `Loop`, made by it or by hand. */
function isLoopResult(x) {
	if (typeof x !== "object" || x === null || !("loop" in x)) return false;
	switch (x.loop) {
		case "continue": return "state" in x;
		case "break": return "value" in x;
		default: return false;
	}
}
// packages/core/src/model/messages.ts
function signal(schema) {
	return makeSpec("signal", schema);
}
function update(schema) {
	return makeSpec("update", schema);
}
function makeSpec(kind, schema) {
	const findings = new Findings();
	checkSchema(findings, ["schema"], schema);
	findings.throwIfAny(kind);
	return Object.freeze(schema === void 0 ? { kind } : {
		kind,
		schema
	});
}
// packages/core/src/model/receive.ts
function noreply(state) {
	return {
		result: "noreply",
		state
	};
}
function reply(value, state) {
	return {
		result: "reply",
		value,
		state
	};
}
function stop(...args) {
	return args.length < 2 ? {
		result: "stop",
		state: args[0]
	} : {
		result: "stopWith",
		value: args[0],
		state: args[1]
	};
}
function runAsync(fn, state) {
	return {
		result: "async",
		fn,
		state
	};
}
const Receive = Object.freeze({
	noreply,
	reply,
	stop,
	async: runAsync
});
/** Whether a handler returned one of the results of `Receive`, made by it or by hand. Which of them it may return is R4. */
function isReceiveResult(x) {
	if (typeof x !== "object" || x === null || !("result" in x && "state" in x)) return false;
	switch (x.result) {
		case "noreply":
		case "stop": return true;
		case "reply":
		case "stopWith": return "value" in x;
		case "async": return "fn" in x && typeof x.fn === "function";
		default: return false;
	}
}
// packages/core/src/model/workflow.ts
function workflow(definition, run) {
	const options = typeof definition === "string" ? { name: definition } : definition;
	const findings = new Findings();
	if (isObject(options)) checkWorkflowOptions(findings, options);
	else findings.add([], `must be given a name or an object of options, not ${preview(definition)}`);
	checkFunction(findings, ["run"], run);
	findings.throwIfAny(`workflow ${preview(options?.name)}`);
	return Object.freeze({
		name: options.name,
		version: options.version,
		options: frozenOptions(options),
		run
	});
}
function checkWorkflowOptions(findings, options) {
	checkName(findings, ["name"], options.name);
	if (options.version !== void 0) checkVersion(findings, ["version"], options.version);
	checkServes(findings, options.serves);
	checkSchema(findings, ["input"], options.input);
	checkSchema(findings, ["output"], options.output);
	checkRetry(findings, ["retry"], options.retry);
	checkTimeLimit(findings, ["deadline"], options.deadline);
	checkChoice(findings, ["cancellation"], options.cancellation, ["enforced", "cooperative"]);
	checkChoice(findings, ["rollbackOnCancel"], options.rollbackOnCancel, [true, false]);
	for (const [name, spec] of namesIn(findings, "signals", options.signals)) checkSpec(findings, ["signals", name], "signal", spec);
	for (const [name, spec] of namesIn(findings, "updates", options.updates)) checkSpec(findings, ["updates", name], "update", spec);
	for (const [name, query] of namesIn(findings, "queries", options.queries)) checkFunction(findings, ["queries", name], query);
}
function checkVersion(findings, path, version) {
	if (version === "*") findings.add(path, "must be one version; \"*\" stands for all, and is written serves: \"*\"");
	else checkName(findings, path, version);
}
function checkServes(findings, serves) {
	if (serves === void 0 || serves === "*") return;
	if (!Array.isArray(serves)) findings.add(["serves"], `must be a list of versions or "*", not ${preview(serves)}`);
	else for (const [i, version] of serves.entries()) checkVersion(findings, ["serves", i], version);
}
/** The messages declared under `kind`, each with a name that can be sent. */
function namesIn(findings, kind, messages) {
	if (messages === void 0) return [];
	if (!isObject(messages)) {
		findings.add([kind], `must be an object, not ${preview(messages)}`);
		return [];
	}
	const entries = Object.entries(messages);
	for (const [name] of entries) checkName(findings, [kind, name], name);
	return entries;
}
function checkSpec(findings, path, kind, spec) {
	if (!isObject(spec) || !("kind" in spec) || spec.kind !== kind) findings.add(path, `must be made by ${kind}(), not ${preview(spec)}`);
	else if ("schema" in spec) checkSchema(findings, [...path, "schema"], spec.schema);
}
/** A copy: what the caller does to its own objects afterwards changes no definition. */
function frozenOptions(options) {
	const { serves, retry, signals, updates, queries } = options;
	return freezeCopy({
		...options,
		...serves !== void 0 && { serves: serves === "*" ? serves : Object.freeze([...serves]) },
		...retry !== void 0 && { retry: freezeRetry(retry) },
		...signals !== void 0 && { signals: freezeCopy(signals) },
		...updates !== void 0 && { updates: freezeCopy(updates) },
		...queries !== void 0 && { queries: freezeCopy(queries) }
	});
}
// packages/core/src/executor/loop.ts
/** Iterations between commits, between trims, and kept for people to look at. */
const DEFAULT_INTERVAL = 20;
var LoopScope = class {
	#operation;
	#execution;
	#run;
	#commitInterval;
	#historyEvery;
	#historyKeep;
	#ordinal;
	#state;
	#iteration = 0;
	#trimmedAt = 0;
	#unit;
	/** Iterations have changed the state of a receive: a replay that skips them would lose that. */
	#wroteState = false;
	#warned = false;
	constructor(operation, options, run) {
		this.#operation = operation;
		this.#execution = operation.unit.execution;
		this.#run = run;
		this.#state = options.state;
		this.#commitInterval = options.commitInterval ?? DEFAULT_INTERVAL;
		this.#historyEvery = options.historyEvery ?? DEFAULT_INTERVAL;
		this.#historyKeep = options.historyKeep ?? DEFAULT_INTERVAL;
		this.#ordinal = operation.unit.nextScope();
		operation.behaviour = this;
		if (!operation.committed) this.#start();
	}
	#start() {
		const parent = this.#operation.unit;
		const state = this.#state;
		this.#unit = this.#execution.spawn({
			role: parent.role,
			path: `${this.#operation.location}/~${this.#iteration}`,
			parent,
			order: parent.branchOrder(this.#ordinal, this.#iteration),
			receive: parent.receive,
			run: (unit) => this.#run(unit, state),
			onEnd: (outcome) => this.#ended(outcome)
		});
	}
	#ended(outcome) {
		this.#wroteState ||= this.#unit?.wroteState === true;
		this.#unit = void 0;
		const execution = this.#execution;
		const canceled = this.#operation.unit.canceled;
		if (canceled !== void 0) return execution.conclude(this.#operation, "canceled", {
			ok: false,
			error: canceled
		});
		if (!outcome.ok) return execution.conclude(this.#operation, "failed", {
			ok: false,
			error: outcome.error
		});
		const result = outcome.value;
		if (result !== void 0 && !isLoopResult(result)) {
			execution.violate(new IllegalReturnError(`An iteration of ${this.#operation.location} must return Loop.continue(state) or Loop.break(value).`));
			return;
		}
		if (result?.loop === "break") return execution.conclude(this.#operation, "completed", {
			ok: true,
			value: result.value
		});
		this.#state = result?.state;
		this.#iteration++;
		if (this.#iteration % this.#commitInterval === 0 && !this.#commit()) return;
		this.#start();
	}
	/** False if the state can't be encoded: then the loop has failed. */
	#commit() {
		const execution = this.#execution;
		if (this.#wroteState || !canCommit(execution, this.#operation)) {
			if (!this.#warned) {
				const why = this.#wroteState ? "its iterations call updateState, which only they can repeat" : execution.saga.holdsBeneath(this.#operation.location) ? "its steps have rollbacks that may still run: call rollbackCheckpoint in its body" : this.#operation.entangled ? "units outside of it have seen, through an ivar or a condition, what its iterations did" : "other units or operations are alive beside it";
				execution.log("warn", `The loop ${this.#operation.location} can't commit: ${why}. It runs on, and its history grows.`, this.#operation.unit);
			}
			this.#warned = true;
			return true;
		}
		let value;
		try {
			value = execution.encodeOrRefuse(this.#operation.unit, "commit", this.#state, `the state of loop ${this.#operation.location}`);
		} catch (error) {
			execution.conclude(this.#operation, "failed", {
				ok: false,
				error
			});
			return false;
		}
		let trim;
		if (this.#iteration - this.#trimmedAt >= this.#historyEvery) {
			this.#trimmedAt = this.#iteration - this.#iteration % this.#historyEvery;
			trim = Math.max(0, this.#iteration - this.#historyKeep);
		}
		execution.emit(commitCommand(execution, this.#operation, this.#iteration, value, trim));
		this.#state = execution.codec.decode(value);
		return true;
	}
	restore(_operation, commit) {
		this.#iteration = commit.count;
		this.#trimmedAt = commit.count - commit.count % this.#historyEvery;
		this.#state = this.#execution.codec.decode(commit.value);
		this.#start();
	}
	cancel(operation, error) {
		if (operation.committed) return;
		if (this.#unit !== void 0) this.#unit.cancel(error);
		else this.#execution.conclude(this.#operation, "canceled", {
			ok: false,
			error
		});
	}
};
function loop(unit, options, run) {
	for (const key of [
		"commitInterval",
		"historyEvery",
		"historyKeep"
	]) {
		const value = options[key];
		if (value !== void 0 && (!Number.isInteger(value) || value < (key === "historyKeep" ? 0 : 1))) throw new InvalidInputError({
			what: `ctx.loop "${options.name}"`,
			issues: [{
				message: `${key} must be a positive whole number, not ${value}.`,
				path: [key]
			}]
		});
	}
	const operation = unit.execution.open(unit, "loop", options.name);
	if (!operation.closed) new LoopScope(operation, options, run);
	return operation.promise;
}
// packages/core/src/executor/receive.ts
var ReceiveScope = class {
	operation;
	#execution;
	#signals;
	#updates;
	#checkpointEvery;
	#context;
	#ordinal;
	#async = /* @__PURE__ */ new Set();
	#state;
	#dispatched = 0;
	#sinceCheckpoint = 0;
	#sync;
	#closing = false;
	#timedOut = false;
	#error;
	#warned = false;
	/** Replay: nothing is dispatched before the commit that history has for it (R11). */
	#awaitingCommit;
	/** `updateState` calls that wait for the sync handler (R10). */
	#blocked = [];
	constructor(operation, state, handlers, context) {
		this.operation = operation;
		this.#execution = operation.unit.execution;
		this.#state = state;
		this.#signals = handlers.signals ?? {};
		this.#updates = handlers.updates ?? {};
		this.#checkpointEvery = handlers.checkpointEvery;
		this.#context = context;
		this.#ordinal = operation.unit.nextScope();
		this.#awaitingCommit = operation.committed;
		operation.behaviour = this;
		operation.floating = true;
		this.#execution.mailbox.enterReceive(this);
	}
	get closing() {
		return this.#closing;
	}
	get ready() {
		return this.#sync === void 0 && !this.#closing && !this.#draining && !this.#awaitingCommit;
	}
	/** R11: the checkpoint waits for the handlers in flight. */
	get #draining() {
		return this.#checkpointEvery !== void 0 && this.#sinceCheckpoint >= this.#checkpointEvery;
	}
	wants(name) {
		return !this.#closing && this.handlesSignal(name);
	}
	handlesSignal(name) {
		return Object.hasOwn(this.#signals, name) && this.#signals[name] !== void 0;
	}
	handles(update) {
		return Object.hasOwn(this.#updates, update) && this.#updates[update] !== void 0;
	}
	refuses(update) {
		const handler = this.#updates[update.name];
		if (this.#execution.replaying || !update.validate || typeof handler !== "object") return void 0;
		try {
			const input = this.#execution.codec.decode(update.input);
			if (isThenable(this.#execution.inClosure(`the validator of update "${update.name}"`, () => handler.validate(input, this.#state)))) this.#execution.violate(new IllegalReturnError(`The validator of update "${update.name}" returned a promise: it is synchronous.`));
			return;
		} catch (error) {
			return new UpdateRejectedError({
				update: update.name,
				reason: error instanceof Error ? error.message : String(error),
				cause: error
			});
		}
	}
	take(signal) {
		this.#dispatch(signal, signal.payload, this.#signals[signal.name]);
	}
	takeUpdate(update) {
		const handler = this.#updates[update.name];
		this.#dispatch(update, update.input, typeof handler === "object" ? handler.handle : handler);
	}
	#path(dispatch) {
		return `${this.operation.location}/~h${dispatch}`;
	}
	#dispatch(message, payload, handler) {
		const dispatch = this.#dispatched++;
		this.#sinceCheckpoint++;
		const path = this.#path(dispatch);
		this.#execution.emit({
			type: "dispatch",
			seq: this.operation.seq,
			unit: path,
			message: message.id
		});
		const parent = this.operation.unit;
		this.#sync = this.#execution.spawn({
			role: "handler",
			path,
			parent,
			order: parent.handlerOrder(this.#ordinal, dispatch, false),
			receive: this,
			run: (unit) => handler(this.#execution.codec.decode(payload), this.#state, this.#context(unit)),
			onEnd: (outcome) => this.#syncEnded(message, dispatch, outcome)
		});
	}
	#syncEnded(message, dispatch, outcome) {
		this.#sync = void 0;
		if (outcome.ok) this.#apply(message, dispatch, outcome.value);
		else if (message.type === "update") this.#completeUpdate(message, outcome);
		else this.#close({ error: outcome.error });
		this.#next();
	}
	#apply(message, dispatch, result) {
		const legal = message.type === "signal" ? SIGNAL_RESULTS : UPDATE_RESULTS;
		if (!isReceiveResult(result) || !legal.has(result.result)) {
			const kind = `${message.type} "${message.name}"`;
			const ways = message.type === "signal" ? "noreply(state), stop(state)" : "reply(value, state), stop(value, state)";
			this.#execution.violate(new IllegalReturnError(`The handler of ${kind} must return Receive.${ways} or async(fn, state).`));
			return;
		}
		if ((result.result === "reply" || result.result === "stopWith") && message.type === "update") {
			if (!this.#completeUpdate(message, {
				ok: true,
				value: result.value
			})) return;
		}
		this.#state = result.state;
		if (result.result === "stop" || result.result === "stopWith") this.#close();
		else if (result.result === "async") this.#spawnAsync(message, dispatch, result.fn);
	}
	#spawnAsync(message, dispatch, fn) {
		const parent = this.operation.unit;
		const unit = this.#execution.spawn({
			role: "asyncHandler",
			path: `${this.#path(dispatch)}/~async`,
			parent,
			order: parent.handlerOrder(this.#ordinal, dispatch, true),
			receive: this,
			run: (own) => fn(this.#context(own)),
			onEnd: (outcome) => this.#asyncEnded(message, unit, outcome)
		});
		this.#async.add(unit);
	}
	#asyncEnded(message, unit, outcome) {
		this.#async.delete(unit);
		if (message.type === "update") this.#completeUpdate(message, outcome);
		else if (!outcome.ok) {
			const error = serializeError(outcome.error);
			this.#execution.emit({
				type: "handlerFailed",
				seq: this.operation.seq,
				unit: unit.path,
				error
			});
			this.#execution.log("error", `The async handler of signal "${message.name}" failed: ${error.message}`, unit, { error });
		}
		this.#next();
	}
	/** M10. False if the reply could not be encoded: then the update has failed. */
	#completeUpdate(update, outcome) {
		const { seq } = this.operation;
		const emit = (error) => this.#execution.emit({
			type: "completeUpdate",
			seq,
			id: update.id,
			status: "failed",
			error: serializeError(error)
		});
		const failure = outcome.ok ? this.#execution.matcher?.overLimit("completeUpdate", update.id) : outcome.error;
		if (!outcome.ok || failure !== void 0) {
			emit(failure);
			return false;
		}
		let value;
		try {
			value = this.#execution.encode(outcome.value, `the reply to update ${update.name}`);
		} catch (error) {
			emit(error);
			return false;
		}
		this.#execution.emit({
			type: "completeUpdate",
			seq,
			id: update.id,
			status: "completed",
			value
		});
		return true;
	}
	/** A3, A6, R10: applies now, or in the unit's own turn once the sync handler has let go of the state. */
	updateState(unit, change) {
		for (let own = unit; own?.receive === this; own = own.parent) own.wroteState = true;
		if (this.#sync === void 0) {
			const settlement = this.#change(change);
			if (this.#execution.poison !== void 0) return new Promise(() => {});
			return settlement.ok ? Promise.resolve(settlement.value) : rejected(settlement.error);
		}
		const operation = this.#execution.open(unit, "updateState", "updateState");
		if (operation.closed) return operation.promise;
		operation.behaviour = UPDATE_STATE;
		operation.beforeDelivery = () => operation.settlement?.ok === false ? operation.settlement : this.#change(change);
		this.#blocked.push(operation);
		return operation.promise;
	}
	#change(change) {
		try {
			const result = this.#execution.inClosure("updateState", () => change(this.#state));
			if (!Array.isArray(result) || result.length !== 2) throw this.#execution.violate(new IllegalReturnError("updateState takes a synchronous function that returns [result, newState]."));
			this.#state = result[1];
			return {
				ok: true,
				value: result[0]
			};
		} catch (error) {
			return {
				ok: false,
				error
			};
		}
	}
	fire() {
		this.#timedOut = true;
		this.#close();
		this.#next();
	}
	cancel(_operation, error) {
		if (this.#awaitingCommit) return;
		const canceled = this.operation.unit.canceled;
		this.#close();
		if (canceled !== void 0) {
			this.#error = { error };
			this.#sync?.cancel(canceled);
			for (const unit of [...this.#async]) unit.cancel(canceled);
		}
		this.#next();
	}
	/** R5, R6: nothing more is dispatched; accepted updates that it did not get to fail. */
	#close(error) {
		this.#error ??= error;
		if (this.#closing) return;
		this.#closing = true;
		for (const update of this.#execution.mailbox.takeAccepted()) this.#completeUpdate(update, {
			ok: false,
			error: new ReceiveClosedError({ update: update.name })
		});
	}
	/** After whatever has ended: unblock, commit, conclude, or go on. */
	#next() {
		if (this.#execution.poison !== void 0) return;
		if (this.#sync === void 0) {
			const blocked = this.#blocked;
			this.#blocked = [];
			for (const operation of blocked) this.#execution.conclude(operation, "completed", {
				ok: true,
				value: void 0
			});
		}
		const idle = this.#sync === void 0 && this.#async.size === 0;
		if (this.#closing) {
			if (idle) this.#conclude();
		} else if (idle && this.#draining) this.#checkpoint();
		this.#execution.mailbox.wake();
	}
	#conclude() {
		this.#execution.mailbox.leave(this);
		const canceled = this.operation.unit.canceled;
		if (canceled !== void 0) this.#execution.conclude(this.operation, "canceled", {
			ok: false,
			error: canceled
		});
		else if (this.#error !== void 0) this.#execution.conclude(this.operation, "failed", {
			ok: false,
			error: this.#error.error
		});
		else {
			const value = {
				state: this.#state,
				timedOut: this.#timedOut
			};
			this.#execution.conclude(this.operation, this.#timedOut ? "timedOut" : "completed", {
				ok: true,
				value
			});
		}
	}
	#checkpoint() {
		this.#sinceCheckpoint = 0;
		const execution = this.#execution;
		if (!canCommit(execution, this.operation)) {
			if (!this.#warned) execution.log("warn", "This receive can't checkpoint: other units or rollbacks are alive beside it.", this.operation.unit);
			this.#warned = true;
			return;
		}
		let value;
		try {
			value = execution.encodeOrRefuse(this.operation.unit, "commit", this.#state, "the state of a receive");
		} catch (error) {
			this.#close({ error });
			this.#conclude();
			return;
		}
		execution.emit(commitCommand(execution, this.operation, this.#dispatched, value, this.#dispatched));
		this.#state = execution.codec.decode(value);
	}
	restore(operation, commit) {
		this.#awaitingCommit = false;
		this.#dispatched = commit.count;
		this.#sinceCheckpoint = 0;
		this.#state = this.#execution.codec.decode(commit.value);
		const { canceled } = operation.unit;
		if (canceled !== void 0) this.cancel(operation, canceled);
	}
};
const UPDATE_STATE = { cancel: (operation, error) => operation.unit.execution.conclude(operation, "canceled", {
	ok: false,
	error
}) };
const SIGNAL_RESULTS = /* @__PURE__ */ new Set([
	"noreply",
	"stop",
	"async"
]);
const UPDATE_RESULTS = /* @__PURE__ */ new Set([
	"reply",
	"stopWith",
	"async"
]);
function isThenable(value) {
	return typeof value === "object" && value !== null && typeof value.then === "function";
}
function receive(unit, state, handlers, context) {
	const execution = unit.execution;
	if (execution.mailbox.receive !== void 0) throw execution.illegal(unit, "receive", "another receive is open; one is open at a time");
	const every = handlers.checkpointEvery;
	if (every !== void 0 && (!Number.isInteger(every) || every < 1)) throw new InvalidInputError({
		what: "ctx.receive",
		issues: [{
			message: `checkpointEvery must be a positive whole number, not ${every}.`,
			path: ["checkpointEvery"]
		}]
	});
	const operation = execution.open(unit, "receive", "receive", {
		...handlers.timeout !== void 0 && { timeout: parseDuration(handlers.timeout) },
		...every !== void 0 && { checkpointEvery: every }
	});
	if (!operation.closed) new ReceiveScope(operation, state, handlers, context);
	return operation.promise;
}
// packages/core/src/executor/scopes.ts
/** Branches of one scope, started together, joined together. */
var Scope = class {
	#operation;
	#units = [];
	#outcomes;
	#keys;
	#left;
	#conclude;
	#onBranchEnd;
	/** A shield lets cancellation pass by. */
	#shielded;
	constructor(operation, branches, options) {
		this.#operation = operation;
		this.#keys = branches.map((branch) => branch.key);
		this.#outcomes = new Array(branches.length).fill(void 0);
		this.#left = branches.length;
		this.#conclude = options.conclude;
		this.#onBranchEnd = options.onBranchEnd;
		this.#shielded = options.shielded ?? false;
		operation.behaviour = this;
		const parent = operation.unit;
		const scope = parent.nextScope();
		const path = operation.location;
		branches.forEach((branch, index) => {
			this.#units.push(parent.execution.spawn({
				role: options.role,
				path: branch.part === void 0 ? path : `${path}/${branch.part}`,
				parent,
				order: parent.branchOrder(scope, index),
				receive: parent.receive,
				shielded: this.#shielded,
				run: branch.run,
				onEnd: (outcome) => this.#ended(index, outcome)
			}));
		});
	}
	cancel(_operation, error) {
		if (this.#shielded) return;
		for (const unit of this.#units) unit.cancel(error);
	}
	cancelOthers(winner, error) {
		this.#units.forEach((unit, index) => {
			if (index !== winner) unit.cancel(error);
		});
	}
	key(index) {
		return this.#keys[index] ?? "";
	}
	#ended(index, outcome) {
		this.#outcomes[index] = outcome;
		this.#left--;
		this.#onBranchEnd?.(this, index, outcome);
		if (this.#left > 0) return;
		const execution = this.#operation.unit.execution;
		const canceled = this.#operation.unit.canceled;
		if (canceled !== void 0 && !this.#shielded) {
			execution.conclude(this.#operation, "canceled", {
				ok: false,
				error: canceled
			});
			return;
		}
		const { failed, settlement } = this.#conclude(this.#outcomes);
		execution.conclude(this.#operation, failed ? "failed" : "completed", settlement);
	}
};
function parallel(unit, branches) {
	const execution = unit.execution;
	const operation = execution.open(unit, "parallel", "parallel", { branches: branches.length });
	if (operation.closed) return operation.promise;
	if (branches.length === 0) execution.concludeNow(operation, "completed", {
		ok: true,
		value: []
	});
	else new Scope(operation, branches.map((run, index) => ({
		key: String(index),
		part: `~${index}`,
		run
	})), {
		role: "branch",
		conclude: (outcomes) => ({
			failed: false,
			settlement: {
				ok: true,
				value: outcomes.map((outcome) => outcome.ok ? {
					status: "fulfilled",
					value: outcome.value
				} : {
					status: "rejected",
					reason: outcome.error
				})
			}
		})
	});
	return operation.promise;
}
function checkedKeys(call, branches) {
	const keys = Object.keys(branches);
	const integer = keys.find((key) => /^(0|[1-9]\d*)$/.test(key));
	if (integer !== void 0) throw new InvalidInputError({
		what: call,
		issues: [{
			message: `The branch key "${integer}" looks like an integer, and JavaScript reorders those. Give it a name.`,
			path: [integer]
		}]
	});
	return keys;
}
function named$1(keys, branches) {
	return keys.map((key) => ({
		key,
		part: segment(key),
		run: branches[key]
	}));
}
function errorsByKey(keys, outcomes) {
	return Object.fromEntries(outcomes.flatMap((outcome, index) => outcome.ok ? [] : [[keys[index], toError(outcome.error)]]));
}
function join(unit, name, branches) {
	const execution = unit.execution;
	const keys = checkedKeys("ctx.join", branches);
	const operation = execution.open(unit, "join", name, { keys });
	if (operation.closed) return operation.promise;
	if (keys.length === 0) execution.concludeNow(operation, "completed", {
		ok: true,
		value: {}
	});
	else new Scope(operation, named$1(keys, branches), {
		role: "branch",
		conclude: (outcomes) => {
			if (outcomes.every((outcome) => outcome.ok)) return {
				failed: false,
				settlement: {
					ok: true,
					value: Object.fromEntries(outcomes.map((outcome, index) => [keys[index], outcome.ok ? outcome.value : void 0]))
				}
			};
			return {
				failed: true,
				settlement: {
					ok: false,
					error: new JoinError({
						name,
						errors: errorsByKey(keys, outcomes)
					})
				}
			};
		}
	});
	return operation.promise;
}
function race(unit, name, branches) {
	const execution = unit.execution;
	const keys = checkedKeys("ctx.race", branches);
	if (keys.length === 0) throw new InvalidInputError({
		what: "ctx.race",
		issues: [{ message: `The race "${name}" has no branches: nothing could win it.` }]
	});
	const operation = execution.open(unit, "race", name, { keys });
	if (operation.closed) return operation.promise;
	let winner;
	new Scope(operation, named$1(keys, branches), {
		role: "branch",
		onBranchEnd: (scope, index, outcome) => {
			if (!outcome.ok || winner !== void 0 || operation.unit.canceled !== void 0) return;
			winner = {
				winner: scope.key(index),
				value: outcome.value
			};
			execution.emit({
				type: "winner",
				seq: operation.seq,
				key: winner.winner
			});
			scope.cancelOthers(index, new CanceledError(`"${winner.winner}" won the race "${name}"`));
		},
		conclude: (outcomes) => {
			if (winner !== void 0) return {
				failed: false,
				settlement: {
					ok: true,
					value: winner
				}
			};
			return {
				failed: true,
				settlement: {
					ok: false,
					error: new RaceError({
						name,
						errors: errorsByKey(keys, outcomes)
					})
				}
			};
		}
	});
	return operation.promise;
}
function attempt(unit, name, run) {
	const operation = unit.execution.open(unit, "try", name);
	if (operation.closed) return operation.promise;
	new Scope(operation, [{
		key: name,
		part: void 0,
		run
	}], {
		role: unit.role,
		conclude: ([outcome]) => ({
			failed: false,
			settlement: {
				ok: true,
				value: outcome?.ok === true ? {
					ok: true,
					value: outcome.value
				} : {
					ok: false,
					error: toError(outcome?.error)
				}
			}
		})
	});
	return operation.promise;
}
function shield(unit, run) {
	const operation = unit.execution.open(unit, "shield", "shield");
	if (operation.closed) return operation.promise;
	new Scope(operation, [{
		key: "shield",
		part: void 0,
		run
	}], {
		role: unit.role,
		shielded: true,
		conclude: ([outcome]) => outcome?.ok === true ? {
			failed: false,
			settlement: {
				ok: true,
				value: outcome.value
			}
		} : {
			failed: true,
			settlement: {
				ok: false,
				error: outcome?.error
			}
		}
	});
	return operation.promise;
}
// packages/core/src/executor/waits.ts
var SignalWait = class {
	operation;
	ready = true;
	#names;
	#count;
	#present;
	constructor(operation, names, count, present) {
		this.operation = operation;
		this.#names = names;
		this.#count = count;
		this.#present = present;
	}
	wants(name) {
		return this.#names.includes(name);
	}
	/** Takes the signal, and for `listen` more of what is there. */
	#gather(first) {
		const { mailbox } = this.operation.unit.execution;
		const signals = [first];
		while (signals.length < this.#count) {
			const more = mailbox.pop((name) => this.wants(name), this);
			if (more === void 0) break;
			signals.push(more);
		}
		return signals;
	}
	#value(signals) {
		return {
			ok: true,
			value: this.#present(signals)
		};
	}
	take(signal) {
		const execution = this.operation.unit.execution;
		const signals = this.#gather(signal);
		execution.mailbox.leave(this);
		execution.conclude(this.operation, "completed", this.#value(signals), ids(signals));
	}
	/** M4: without a pause. */
	takeNow(signal) {
		const signals = this.#gather(signal);
		this.operation.unit.execution.concludeNow(this.operation, "completed", this.#value(signals), ids(signals));
	}
	fire() {
		const execution = this.operation.unit.execution;
		execution.mailbox.leave(this);
		execution.conclude(this.operation, "timedOut", this.#value([]));
	}
	cancel(_operation, error) {
		const execution = this.operation.unit.execution;
		execution.mailbox.leave(this);
		execution.conclude(this.operation, "canceled", {
			ok: false,
			error
		});
	}
};
const ids = (signals) => signals.map((signal) => signal.id);
function wait(unit, call, options) {
	const execution = unit.execution;
	const handled = unit.receive === void 0 ? void 0 : options.names.find((name) => unit.receive?.handlesSignal(name));
	if (handled !== void 0) throw execution.illegal(unit, call, `the receive around it handles the signal "${handled}" itself; wait for another name`);
	const operation = execution.open(unit, "signal", options.location, {
		names: options.names,
		...options.count !== void 0 && { count: options.count },
		...options.timeout !== void 0 && { timeout: parseDuration(options.timeout) }
	});
	if (operation.closed) return operation.promise;
	const taker = new SignalWait(operation, options.names, options.count ?? 1, options.present);
	operation.behaviour = taker;
	operation.floating = true;
	const buffered = execution.mailbox.pop((name) => taker.wants(name));
	if (buffered === void 0) execution.mailbox.enter(taker);
	else taker.takeNow(buffered);
	return operation.promise;
}
function waitForSignal(unit, name, options) {
	const { codec } = unit.execution;
	const timed = options?.timeout !== void 0;
	return wait(unit, "waitForSignal", {
		location: name,
		names: [name],
		timeout: options?.timeout,
		present: ([signal]) => {
			if (signal === void 0) return { timedOut: true };
			const payload = codec.decode(signal.payload);
			return timed ? {
				timedOut: false,
				payload
			} : payload;
		}
	});
}
function listen(unit, names, options) {
	const { codec } = unit.execution;
	const count = options?.count ?? 1;
	if (names.length === 0 || !Number.isInteger(count) || count < 1) throw new InvalidInputError({
		what: "ctx.listen",
		issues: [{ message: "Give at least one name, and a count of 1 or more." }]
	});
	return wait(unit, "listen", {
		location: names.join("+"),
		names: [...names],
		count,
		timeout: options?.timeout,
		present: (signals) => signals.map((signal) => ({
			name: signal.name,
			payload: codec.decode(signal.payload)
		}))
	});
}
// packages/core/src/executor/context.ts
/** A call that may pause: refused, put off, or carried out. */
function admit(unit, call, run, evenIfCanceled = false) {
	if (!unit.execution.enter(unit, call)) return never();
	if (unit.canceled !== void 0 && !evenIfCanceled) return rejected(unit.canceled);
	if (unit.mustWait) {
		const inPlace = () => unit.canceled !== void 0 && !evenIfCanceled ? rejected(unit.canceled) : guarded(unit, run);
		return handled(new Promise((resolve, reject) => unit.postponed?.push(() => inPlace().then(resolve, reject))));
	}
	return guarded(unit, run);
}
/** Bad arguments reject; broken rules throw. */
function guarded(unit, run) {
	try {
		return run();
	} catch (error) {
		if (unit.execution.poison !== void 0) throw error;
		return rejected(error);
	}
}
function named(call, name) {
	if (typeof name === "string" && name !== "") return name;
	throw new InvalidInputError({
		what: `ctx.${call}`,
		issues: [{ message: `The name must be a non-empty string, not ${JSON.stringify(name)}.` }]
	});
}
function callable(call, value) {
	if (typeof value === "function") return;
	throw new InvalidInputError({
		what: `ctx.${call}`,
		issues: [{ message: `Expected a function, got ${value === null ? "null" : typeof value}.` }]
	});
}
var Context = class Context {
	#unit;
	#log;
	constructor(unit) {
		this.#unit = unit;
	}
	#pausing(call, run) {
		return admit(this.#unit, call, run);
	}
	/** A call that does not pause. Undefined from a run that is poisoned or evicted: nothing it computes counts. */
	#now(call, run) {
		if (!this.#unit.execution.enter(this.#unit, call)) return void 0;
		try {
			return run();
		} catch (error) {
			throw remember(error);
		}
	}
	#body(run) {
		return (unit) => run(new Context(unit));
	}
	#bodies(call, branches) {
		return Object.fromEntries(Object.entries(branches).map(([key, run]) => {
			callable(call, run);
			return [key, this.#body(run)];
		}));
	}
	get run() {
		const { start, attempt: current } = this.#unit.execution;
		return {
			id: start?.runId ?? "",
			workflow: start?.workflow ?? "",
			version: start?.version,
			attempt: current,
			startedAt: new Date(start?.startedAt ?? 0),
			parentId: start?.parentId
		};
	}
	get version() {
		return this.#unit.execution.start?.version;
	}
	get signal() {
		return this.#unit.signal;
	}
	get log() {
		const write = (level) => (message, fields) => this.#unit.execution.log(level, message, this.#unit, fields);
		this.#log ??= {
			debug: write("debug"),
			info: write("info"),
			warn: write("warn"),
			error: write("error")
		};
		return this.#log;
	}
	historyLength() {
		return this.#now("historyLength", () => this.#unit.execution.historyLength);
	}
	step(name, fn, options) {
		return this.#pausing("step", () => {
			callable("step", fn);
			return step$1(this.#unit, "step", named("step", name), fn, options);
		});
	}
	transaction(name, fn, options) {
		return this.#pausing("transaction", () => {
			callable("transaction", fn);
			return step$1(this.#unit, "transaction", named("transaction", name), fn, options);
		});
	}
	activity(activity, args, options) {
		return this.#pausing("activity", () => activityCall(this.#unit, activity, args, options));
	}
	child(workflow, input, options) {
		return this.#pausing("child", () => child(this.#unit, workflow, input, options));
	}
	startChild(workflow, input, options) {
		return this.#pausing("startChild", () => startChild(this.#unit, workflow, input, options, admit));
	}
	signalRun(runId, name, payload) {
		return this.#pausing("signalRun", () => signalRun(this.#unit, named("signalRun", runId), named("signalRun", name), payload));
	}
	cancelRun(runId) {
		return this.#pausing("cancelRun", () => cancelRun(this.#unit, named("cancelRun", runId)));
	}
	sleep(...args) {
		return this.#pausing("sleep", () => args.length === 1 ? sleep(this.#unit, "sleep", args[0]) : sleep(this.#unit, named("sleep", args[0]), args[1]));
	}
	sleepUntil(...args) {
		return this.#pausing("sleepUntil", () => args.length === 1 ? sleepUntil(this.#unit, "sleep", args[0]) : sleepUntil(this.#unit, named("sleepUntil", args[0]), args[1]));
	}
	waitForSignal(name, options) {
		return this.#pausing("waitForSignal", () => waitForSignal(this.#unit, named("waitForSignal", name), options));
	}
	listen(names, options) {
		return this.#pausing("listen", () => listen(this.#unit, names, options));
	}
	receive(state, handlers) {
		return this.#pausing("receive", () => {
			if (this.#unit.role !== "root") throw this.#unit.execution.illegal(this.#unit, "receive", "only the root of a workflow receives; pass what you need through its state");
			return receive(this.#unit, state, handlers, (unit) => new Context(unit));
		});
	}
	updateState(change) {
		return this.#pausing("updateState", () => {
			const { receive: scope, role, execution } = this.#unit;
			if (role !== "asyncHandler" || scope === void 0) throw execution.illegal(this.#unit, "updateState", "it exists only in the function given to Receive.async; elsewhere return the new state");
			return scope.updateState(this.#unit, change);
		});
	}
	sideEffect(fn) {
		const { execution } = this.#unit;
		if (!execution.enter(this.#unit, "sideEffect")) return never();
		return execution.sideEffects === "inline" && !this.#unit.mustWait ? guarded(this.#unit, () => sideEffect(this.#unit, fn)) : this.#pausing("sideEffect", () => sideEffect(this.#unit, fn));
	}
	publishState(state) {
		this.#now("publishState", () => publishState(this.#unit, state));
	}
	setAttributes(attributes) {
		this.#now("setAttributes", () => {
			for (const [key, value] of Object.entries(attributes)) if (value !== null && ![
				"string",
				"number",
				"boolean"
			].includes(typeof value)) throw new InvalidInputError({
				what: "ctx.setAttributes",
				issues: [{
					message: `"${key}" must be text, a number, a boolean or null.`,
					path: [key]
				}]
			});
			whenDue(this.#unit, () => this.#unit.execution.note(this.#unit, "attributes", "attributes", { attributes: { ...attributes } }));
		});
	}
	now() {
		return this.#now("now", () => new Date(this.#unit.execution.time)) ?? /* @__PURE__ */ new Date(0);
	}
	random() {
		return this.#now("random", () => this.#unit.random.next()) ?? 0;
	}
	uuid() {
		return this.#now("uuid", () => this.#unit.random.uuid()) ?? "";
	}
	parallel(branches) {
		return this.#pausing("parallel", () => {
			for (const run of branches) callable("parallel", run);
			return parallel(this.#unit, branches.map((run) => this.#body(run)));
		});
	}
	join(name, branches) {
		return this.#pausing("join", () => join(this.#unit, named("join", name), this.#bodies("join", branches)));
	}
	race(name, branches) {
		return this.#pausing("race", () => race(this.#unit, named("race", name), this.#bodies("race", branches)));
	}
	loop(options, run) {
		return this.#pausing("loop", () => {
			callable("loop", run);
			const full = typeof options === "string" ? {
				name: options,
				state: void 0
			} : options;
			named("loop", full.name);
			return loop(this.#unit, full, (unit, state) => run(new Context(unit), state));
		});
	}
	try(name, run) {
		return this.#pausing("try", () => {
			callable("try", run);
			return attempt(this.#unit, named("try", name), this.#body(run));
		});
	}
	shield(run) {
		const call = () => {
			callable("shield", run);
			return shield(this.#unit, this.#body(run));
		};
		return admit(this.#unit, "shield", call, true);
	}
	condition(predicate, timeout) {
		return this.#pausing("condition", () => {
			callable("condition", predicate);
			return condition(this.#unit, predicate, timeout);
		});
	}
	ivar() {
		this.#unit.execution.enter(this.#unit, "ivar");
		return new Cell(this.#unit, admit);
	}
	yield() {
		if (!this.#unit.execution.enter(this.#unit, "yield")) return never();
		return this.#unit.canceled === void 0 ? this.#unit.yieldTurn() : rejected(this.#unit.canceled);
	}
	patched(id) {
		return this.#now("patched", () => patched(this.#unit, named("patched", id))) ?? false;
	}
	deprecatePatch(id) {
		this.#now("deprecatePatch", () => deprecatePatch(this.#unit, named("deprecatePatch", id)));
	}
	removed(name, kind) {
		this.#now("removed", () => removed(this.#unit, named("removed", name), kind));
	}
	rollbackCheckpoint(name) {
		this.#now("rollbackCheckpoint", () => {
			const { execution } = this.#unit;
			named("rollbackCheckpoint", name);
			execution.saga.clear();
			whenDue(this.#unit, () => execution.note(this.#unit, "rollbackCheckpoint", name));
		});
	}
	continueAsNew(input, options) {
		return this.#now("continueAsNew", () => {
			const { execution, role } = this.#unit;
			if (role !== "root") throw execution.illegal(this.#unit, "continueAsNew", "only the root of a workflow continues as new");
			execution.continuation = new ContinueAsNewToken(input, options?.version);
			return execution.continuation;
		});
	}
};
// packages/core/src/executor/ending.ts
function rootEnded(execution, outcome) {
	const { cancelRequested: canceled, continuation } = execution;
	if (outcome.ok && continuation !== void 0 && outcome.value !== continuation) {
		execution.violate(new IllegalReturnError("ctx.continueAsNew(input) was called but its result not returned: `return ctx.continueAsNew(input)`."));
		return;
	}
	if (canceled !== void 0 && !settlesItself(execution, outcome)) return endCanceled(execution, canceled, outcome);
	if (!outcome.ok) return endFailed(execution, outcome.error);
	const overLimit = execution.matcher?.overLimit("fail");
	if (overLimit !== void 0) return endFailed(execution, overLimit);
	if (outcome.value instanceof ContinueAsNewToken) return endContinued(execution, outcome.value);
	let value;
	try {
		value = execution.encode(outcome.value, "the output of the workflow");
	} catch (error) {
		return endFailed(execution, error);
	}
	close(execution, {
		type: "complete",
		value
	});
}
/** The output as the workflow's schema has it. A schema that awaits anything foreign is caught like other code (X8). */
async function validatedOutput(workflow, schema, output) {
	const result = await schema["~standard"].validate(output);
	if (result.issues === void 0) return result.value;
	const issues = result.issues.map(({ message, path }) => path === void 0 ? { message } : {
		message,
		path: path.map((part) => typeof part === "object" ? part.key : part)
	});
	throw new InvalidInputError({
		what: `the output of workflow ${workflow.name}`,
		issues
	});
}
/** K3: a cooperative workflow that did not just let the cancellation through. */
function settlesItself(execution, outcome) {
	return execution.workflow.options.cancellation === "cooperative" && (outcome.ok || !(outcome.error instanceof CanceledError));
}
function endCanceled(execution, canceled, outcome) {
	const command = { type: "canceled" };
	const reason = execution.cancelReason;
	if (reason !== void 0) command.reason = reason;
	if (!outcome.ok) {
		if (outcome.error !== canceled) command.error = serializeError(outcome.error);
	} else if (!(outcome.value instanceof ContinueAsNewToken)) try {
		command.value = execution.encode(outcome.value, "the output of the workflow");
	} catch (error) {
		command.error = serializeError(error);
	}
	if (execution.workflow.options.rollbackOnCancel !== true || execution.saga.empty) return close(execution, command);
	execution.saga.run(canceled, (undone) => {
		if (!undone.ok) close(execution, {
			type: "fail",
			error: serializeError(canceled),
			rollbackError: serializeError(undone.error),
			rolledBack: true
		});
		else close(execution, command);
	});
}
function endFailed(execution, error) {
	const command = {
		type: "fail",
		error: serializeError(error)
	};
	const causes = [...execution.blame.causesOf(error)].sort((a, b) => a - b);
	if (causes.length > 0) command.causes = causes;
	const retryAfter = runRetry(execution, error);
	if (retryAfter !== void 0) {
		command.retryAfter = retryAfter;
		return close(execution, command);
	}
	undoAndFail(execution, error, command);
}
function undoAndFail(execution, error, command) {
	if (execution.saga.empty) return close(execution, command);
	execution.saga.run(error, (undone) => {
		command.rolledBack = true;
		if (!undone.ok) command.rollbackError = serializeError(undone.error);
		close(execution, command);
	});
}
/** Milliseconds until the run is tried again as a whole; undefined if it has failed for good. */
function runRetry(execution, error) {
	const policy = execution.start?.retry;
	const attempt = execution.matcher?.voided?.attempt ?? execution.attempt;
	if (policy === void 0 || attempt >= policy.maxAttempts) return void 0;
	const { nonRetryable } = policy;
	if (isFinal(error, nonRetryable === void 0 ? void 0 : { nonRetryable })) return void 0;
	return retryDelay(policy, attempt, new Random(execution.seed, `~retry/${attempt}`).next());
}
/** D8: thrown by the workflow or by a step beneath it, these end the run. */
function isFinal(error, policy, depth = 0) {
	if (!(error instanceof Error) || depth > 16) return false;
	const isFinalToo = (inner) => isFinal(inner, policy, depth + 1);
	if (error instanceof JoinError) return Object.values(error.errors).some(isFinalToo);
	if (error instanceof RaceError) return Object.values(error.errors).every(isFinalToo);
	return error instanceof FatalError || error instanceof RollbackError || !isRetryable(error, policy) || isFinalToo(error.cause);
}
function endContinued(execution, token) {
	let input;
	try {
		input = execution.encode(token.continueAsNew, "the input of the next execution");
	} catch (error) {
		return endFailed(execution, error);
	}
	const command = {
		type: "continueAsNew",
		input
	};
	if (token.version !== void 0) command.version = token.version;
	const signals = execution.mailbox.signals.map(({ id, name, payload }) => ({
		id,
		name,
		payload
	}));
	if (signals.length > 0) command.signals = signals;
	close(execution, command);
}
/** K7: whatever the workflow was doing stops here, unheard; only rollbacks run. */
function expire(execution, job) {
	if (execution.closed || execution.expired) return;
	execution.expired = true;
	const error = reviveError(job.error);
	if (execution.root?.over === true) return;
	execution.abandonUnits();
	undoAndFail(execution, error, {
		type: "fail",
		error: job.error
	});
}
function close(execution, command) {
	execution.emit(command);
	execution.closed = true;
}
// packages/core/src/executor/blame.ts
var Blame = class {
	#seqs = /* @__PURE__ */ new WeakMap();
	/** This error is the failure of that operation. */
	put(error, seq) {
		this.#seqs.set(error, seq);
	}
	/** The failed operations behind an error: its own, those of its causes, those of a join or race. */
	causesOf(error, found = /* @__PURE__ */ new Set(), depth = 0) {
		if (typeof error !== "object" || error === null || depth > 16) return found;
		const seq = this.#seqs.get(error);
		if (seq !== void 0) found.add(seq);
		const { cause, errors } = error;
		this.causesOf(cause, found, depth + 1);
		if (typeof errors === "object" && errors !== null) for (const one of Object.values(errors)) this.causesOf(one, found, depth + 1);
		return found;
	}
};
// packages/core/src/executor/limits.ts
const DEFAULT_LIMITS = {
	payloadBytes: 2097152,
	historyWarn: 1e4,
	historyMax: 5e4
};
function checkSize(payload, { payloadBytes: max }, what) {
	if (payloadExceeds(payload, max)) throw new LimitExceededError({
		limit: "payloadBytes",
		actual: payloadSize(payload),
		max,
		what
	});
}
function tooLong(length, { historyMax: max }) {
	return new LimitExceededError({
		limit: "historyMax",
		actual: length,
		max,
		what: "records in the history"
	});
}
// packages/core/src/executor/mailbox.ts
var Mailbox = class {
	#execution;
	#messages = [];
	/** Updates of this turn: by its end each is accepted or rejected. */
	#undecided = [];
	/** Replay: what came in this turn. */
	#arrived = /* @__PURE__ */ new Set();
	#takers = [];
	#receive;
	/** So many messages from the front were offered, and nobody has become ready for one of them since. */
	#offered = 0;
	constructor(execution) {
		this.#execution = execution;
	}
	beginReplayTurn() {
		this.#arrived.clear();
	}
	add(message) {
		this.#messages.push(message);
		if (message.type === "update") this.#undecided.push(message);
		if (this.#execution.matcher !== void 0) this.#arrived.add(message);
	}
	/** V3: what an operation that code no longer makes had consumed. */
	discard(ids) {
		this.#messages = this.#messages.filter((message) => message.type === "fire" || !ids.includes(message.id));
		this.wake();
	}
	#remove(message) {
		const index = this.#messages.indexOf(message);
		if (index < 0) return;
		this.#messages.splice(index, 1);
		if (index < this.#offered) this.#offered--;
	}
	/** Updates that this turn has brought are still to be rejected (M8). */
	clear() {
		this.#messages = this.#messages.filter((message) => message.type === "update" && !message.accepted);
		this.#takers.length = 0;
		this.#receive = void 0;
		this.wake();
	}
	/** P10: what the next execution gets. */
	get signals() {
		return this.#messages.filter((message) => message.type === "signal");
	}
	/** L3, R11: what a commit keeps. Updates that are not accepted are nobody's yet. */
	snapshot() {
		return this.#messages.filter((message) => message.type !== "update" || message.accepted).map((message) => {
			if (message.type === "fire") return {
				type: "fire",
				seq: message.seq
			};
			if (message.type === "signal") return {
				type: "signal",
				id: message.id,
				name: message.name,
				payload: message.payload
			};
			return {
				type: "update",
				id: message.id,
				name: message.name,
				input: message.input
			};
		});
	}
	/** What the commit kept, and after it what has come in the turn of the commit; all else was consumed on the way there. */
	restore(messages) {
		const here = this.#messages.filter((message) => this.#arrived.has(message));
		const older = messages.filter((message) => !here.some((one) => isSame(one, message)));
		this.#messages = older.map((message) => message.type === "update" ? {
			...message,
			validate: false,
			accepted: true
		} : message);
		this.#messages.push(...here);
		this.wake();
	}
	/** The open receive, if there is one (R1: one at a time). */
	get receive() {
		return this.#receive;
	}
	enter(taker) {
		this.#takers.push(taker);
		this.wake();
	}
	enterReceive(receive) {
		this.#receive = receive;
		this.enter(receive);
	}
	leave(taker) {
		const index = this.#takers.indexOf(taker);
		if (index >= 0) this.#takers.splice(index, 1);
		if (this.#receive === taker) this.#receive = void 0;
		this.wake();
	}
	/** Somebody may be ready for what was offered in vain. */
	wake() {
		this.#offered = 0;
	}
	/** M6: who is first in line for signals of this name. */
	#firstFor(name) {
		return this.#takers.find((taker) => taker.wants(name));
	}
	/** M4: the oldest buffered signal of one of the names, unless somebody who began earlier is in line for it. */
	pop(wants, self) {
		for (const message of this.#messages) {
			if (message.type !== "signal" || !wants(message.name)) continue;
			const first = this.#firstFor(message.name);
			if (first !== void 0 && first !== self) continue;
			this.#remove(message);
			return message;
		}
	}
	/** Hands over the next message that somebody accepts. False if there is none. */
	takeNext() {
		for (; this.#offered < this.#messages.length; this.#offered++) if (this.#offer(this.#messages[this.#offered])) return true;
		return false;
	}
	#offer(message) {
		switch (message.type) {
			case "signal": {
				const taker = this.#firstFor(message.name);
				if (taker === void 0 || !taker.ready) return false;
				this.#remove(message);
				taker.take(message);
				return true;
			}
			case "update": {
				const receive = this.#receive;
				if (receive === void 0 || !receive.ready || !receive.handles(message.name)) return false;
				this.#remove(message);
				if (message.accepted || this.#accept(message, receive)) receive.takeUpdate(message);
				return true;
			}
			case "fire": {
				const operation = this.#execution.operations.get(message.seq);
				if (operation !== void 0 && operation === this.#receive?.operation && !this.#receive.ready) return false;
				this.#remove(message);
				operation?.behaviour.fire?.(operation);
				return true;
			}
		}
	}
	/** M9, M10: validated, then accepted in history before its handler runs. Rejected, it leaves no trace. */
	#accept(update, receive) {
		const error = receive.refuses(update);
		if (this.#execution.poison !== void 0) return false;
		if (error !== void 0) {
			this.#reject(update, error);
			return false;
		}
		update.accepted = true;
		this.#execution.emit({
			type: "acceptUpdate",
			seq: receive.operation.seq,
			id: update.id
		});
		return true;
	}
	#reject(update, error) {
		this.#execution.replies.push({
			type: "rejectUpdate",
			id: update.id,
			error: serializeError(error)
		});
	}
	/** The end of the activation: updates are accepted behind a busy handler (R7), or rejected (M8). */
	closeTurn() {
		const undecided = this.#undecided;
		this.#undecided = [];
		for (const message of undecided) {
			if (message.accepted || !this.#messages.includes(message)) continue;
			const receive = this.#receive;
			if (receive !== void 0 && !receive.closing && receive.handles(message.name)) {
				if (!this.#accept(message, receive)) this.#remove(message);
			} else {
				this.#remove(message);
				this.#reject(message, new UpdateRejectedError({
					update: message.name,
					reason: `the run is not in a receive that handles it now`
				}));
			}
		}
	}
	/** R6: accepted updates that a closing receive will not get to. */
	takeAccepted() {
		const accepted = this.#messages.filter((message) => message.type === "update" && message.accepted);
		for (const update of accepted) this.#remove(update);
		return accepted;
	}
};
function isSame(a, b) {
	if (a.type === "fire") return b.type === "fire" && a.seq === b.seq;
	return b.type !== "fire" && a.id === b.id;
}
// packages/core/src/executor/saga.ts
const ROLLBACK = { outcome(operation, outcome) {
	const execution = operation.unit.execution;
	if (outcome.status === "completed") execution.settle(operation, {
		ok: true,
		value: void 0
	});
	else {
		const cause = outcome.status === "failed" ? reviveError(outcome.error) : new CanceledError(outcome.reason);
		const attempts = outcome.status === "failed" ? outcome.attempts ?? 1 : 1;
		execution.settle(operation, {
			ok: false,
			error: new StepFailedError({
				step: `rollback of ${operation.name}`,
				attempts,
				cause
			})
		});
	}
} };
var Saga = class {
	#execution;
	#stack = [];
	constructor(execution) {
		this.#execution = execution;
	}
	get size() {
		return this.#stack.length;
	}
	get empty() {
		return this.#stack.length === 0;
	}
	add(operation, rollback, output) {
		this.#stack.push({
			seq: operation.seq,
			location: operation.location,
			rollback,
			output,
			retry: operation.body?.retry
		});
	}
	clear() {
		this.#stack = [];
	}
	/** The steps that would be undone, by number. */
	get steps() {
		return this.#stack.map((entry) => entry.seq);
	}
	/** Lets go of all but these (L5). */
	keep(steps) {
		this.#stack = this.#stack.filter((entry) => steps.includes(entry.seq));
	}
	holdsBeneath(location) {
		return this.#stack.some((entry) => isWithin(entry.location, location));
	}
	/** Undoes everything, last first, in a unit of its own; stops at one that fails for good (S2). */
	run(error, onEnd) {
		const execution = this.#execution;
		const entries = this.#stack.reverse();
		this.#stack = [];
		execution.emit({
			type: "rollBack",
			error: serializeError(error)
		});
		execution.spawn({
			role: "internal",
			path: "~rollback",
			parent: void 0,
			order: [0],
			run: async (unit) => {
				for (const entry of entries) await this.#undo(unit, entry);
			},
			onEnd
		});
	}
	#undo(unit, entry) {
		const execution = this.#execution;
		const operation = execution.open(unit, "rollback", entry.location, { of: entry.seq });
		if (!operation.closed) {
			operation.behaviour = ROLLBACK;
			const run = (info) => entry.rollback(execution.codec.decode(entry.output), info);
			operation.body = {
				kind: "rollback",
				name: entry.location,
				run,
				retry: entry.retry,
				timeout: void 0
			};
		}
		return operation.promise;
	}
};
// packages/core/src/executor/scheduler.ts
const NOBODY = [];
var Scheduler = class {
	#round = NOBODY;
	#position = 0;
	#next = [];
	/** Rounds begun since the run was created. */
	rounds = 0;
	/** The unit gets a step in the next round, or in this one if it is still to come. */
	schedule(unit) {
		if (unit.scheduled) return;
		unit.scheduled = true;
		this.#next.push(unit);
	}
	/** The unit whose step it is, or undefined when nothing is runnable. */
	take() {
		for (;;) {
			while (this.#position < this.#round.length) {
				const unit = this.#round[this.#position++];
				unit.scheduled = false;
				if (unit.runnable) return unit;
			}
			if (this.#next.length === 0) {
				this.#round = NOBODY;
				this.#position = 0;
				return;
			}
			const round = this.#next;
			if (round.length > 1) round.sort((a, b) => compareOrder(a.order, b.order));
			this.#round = round;
			this.#next = [];
			this.#position = 0;
			this.rounds++;
		}
	}
	clear() {
		this.#round = NOBODY;
		this.#next = [];
		this.#position = 0;
	}
};
// packages/core/src/executor/unit.ts
const GATE = Symbol("gate");
const RANK_BRANCH = 0;
const RANK_HANDLER = 1;
var Unit = class {
	execution;
	role;
	path;
	parent;
	order;
	receive;
	shielded;
	onEnd;
	children = /* @__PURE__ */ new Set();
	/** Opened and not yet delivered or dropped, in order of emission. */
	open = /* @__PURE__ */ new Set();
	/** Settled, to be delivered one a step. `GATE`: a removed operation has settled in history (V3). */
	results = [];
	patches = /* @__PURE__ */ new Map();
	canceled;
	/** It, or a unit beneath it, has changed the state of its receive (A3). */
	wroteState = false;
	started = false;
	yielding = false;
	/** What its function came to; the unit may still have to join operations. */
	returned;
	over = false;
	/** In the list of the next round. */
	scheduled = false;
	/** V3: calls put off until the operation that code no longer makes has settled in history. */
	postponed;
	#run;
	#names;
	#lastName = "";
	#lastCount = 0;
	#scopes = 0;
	#random;
	#controller;
	#yielded;
	#resumeYield;
	constructor(execution, options) {
		this.execution = execution;
		this.role = options.role;
		this.path = options.path;
		this.parent = options.parent;
		this.order = options.order;
		this.receive = options.receive;
		this.shielded = options.shielded ?? false;
		this.onEnd = options.onEnd;
		this.#run = options.run;
		if (options.parent !== void 0) {
			options.parent.children.add(this);
			if (!this.shielded) this.canceled = options.parent.canceled;
		}
	}
	/** The path as people read it. */
	get title() {
		return this.path === "" ? "root" : this.path;
	}
	/** How often this unit has used a name before. Runs of one name, the common case, need no map. */
	occurrence(name) {
		if (name === this.#lastName) return ++this.#lastCount;
		this.#names ??= /* @__PURE__ */ new Map();
		if (this.#lastName !== "") this.#names.set(this.#lastName, this.#lastCount);
		this.#lastName = name;
		this.#lastCount = (this.#names.get(name) ?? -1) + 1;
		return this.#lastCount;
	}
	/** Gives back the occurrence that `occurrence` just gave out: the call came to nothing. */
	unuse(name) {
		if (name === this.#lastName) this.#lastCount--;
	}
	/** The order of a branch, iteration or body of this unit's next scope. */
	nextScope() {
		return this.#scopes++;
	}
	branchOrder(scope, index) {
		return [
			...this.order,
			RANK_BRANCH,
			scope,
			index
		];
	}
	handlerOrder(scope, dispatch, asynchronous) {
		return [
			...this.order,
			RANK_HANDLER,
			scope,
			dispatch,
			asynchronous ? 1 : 0
		];
	}
	get random() {
		this.#random ??= new Random(this.execution.seed, this.path);
		return this.#random;
	}
	/** A new seed for the run: the next draw uses it. */
	reseed() {
		this.#random = void 0;
	}
	/** Aborts when this unit is cancelled. */
	get signal() {
		if (this.#controller === void 0) {
			this.#controller = new AbortController();
			if (this.canceled !== void 0) this.#controller.abort(this.canceled);
		}
		return this.#controller.signal;
	}
	/** Has it something to do in the next round? */
	get runnable() {
		return !this.over && (!this.started || this.yielding || this.results.length > 0);
	}
	/** One step (X5): begins the function, ends a yield, or takes one result. */
	step() {
		if (!this.started) {
			this.started = true;
			this.#start();
		} else if (this.yielding) {
			this.yielding = false;
			this.#resumeYield?.();
		} else {
			const result = this.results.shift();
			if (result === void 0) return;
			if (result === GATE) this.#passGate();
			else {
				this.open.delete(result);
				result.deliver();
			}
		}
	}
	#start() {
		const run = this.#run;
		this.#run = noCode;
		Promise.resolve().then(() => run(this)).then((value) => this.execution.functionEnded(this, {
			ok: true,
			value
		}), (error) => this.execution.functionEnded(this, {
			ok: false,
			error
		}));
	}
	/** `ctx.yield()`: a pause without a record. Yields of one step end together: it is one resolution (C5). */
	yieldTurn() {
		if (!this.yielding || this.#yielded === void 0) {
			this.yielding = true;
			this.#yielded = new Promise((resolve) => {
				this.#resumeYield = resolve;
			});
		}
		return this.#yielded;
	}
	/** V3: removed operations that history has this unit wait for. */
	gates = 0;
	closeGate() {
		this.gates++;
		this.postponed ??= [];
	}
	/** One of them has settled in history: the unit gets a step for it, as it did then. */
	openGate() {
		this.results.push(GATE);
		this.execution.scheduler.schedule(this);
	}
	#passGate() {
		this.gates--;
		const calls = this.postponed ?? [];
		while (calls.length > 0 && (this.gates === 0 || this.execution.matcher?.isDue(this) !== false)) calls.shift()?.();
		if (this.gates === 0) this.postponed = void 0;
	}
	/** V3: has a call to wait for its place in history? Not if it was made beside the operation that was removed. */
	get mustWait() {
		return this.postponed !== void 0 && (this.postponed.length > 0 || this.execution.matcher?.isDue(this) === false);
	}
	/** Its function has returned: nobody takes results any more. */
	dropResults() {
		const gates = this.results.filter((result) => result === GATE);
		this.results.splice(0, this.results.length, ...gates);
	}
	/** K1: every operation of this unit and of those beneath it that is not shielded throws; new ones do too (K2). */
	cancel(error) {
		if (this.canceled !== void 0 || this.over) return;
		this.canceled = error;
		this.#controller?.abort(error);
		for (const operation of [...this.open]) if (operation.settlement === void 0) operation.behaviour.cancel?.(operation, error);
	}
	/** Forget everything, settle nothing (X10). */
	drop() {
		this.#run = noCode;
		this.open.clear();
		this.results.length = 0;
		this.#resumeYield = void 0;
	}
};
function noCode() {
	throw new Error("A unit starts once.");
}
// packages/core/src/executor/execution.ts
var Execution = class {
	workflow;
	codec;
	limits;
	sideEffects;
	scheduler = new Scheduler();
	mailbox;
	conditions;
	saga;
	blame = new Blame();
	/** Open operations by sequence number. */
	operations = /* @__PURE__ */ new Map();
	/** Children by the number of the operation that started them: outcomes for `ChildHandle.result`. */
	children = /* @__PURE__ */ new Map();
	/** Patches that the host's own history knows of. */
	notifiedPatches = /* @__PURE__ */ new Set();
	logger;
	watch;
	start;
	seed = "";
	attempt = 1;
	time = 0;
	historyLength = 0;
	replaying = false;
	matcher;
	salvage;
	commands = [];
	replies = [];
	/** Published in this turn / at all. */
	turnState;
	state;
	root;
	current;
	/** A synchronous function of the user's is being run by the executor: no ctx call is legal inside it (A4, M9, C6). */
	closure;
	cancelRequested;
	cancelReason;
	/** K7: the deadline has struck. */
	expired = false;
	continuation;
	poison;
	evicted = false;
	/** A terminal command was emitted. */
	closed = false;
	liveUnits = 0;
	#lastSeq = 0;
	#warnedOfLength = false;
	/** D10: operations that are settled by an outcome from before, at the end of the step. */
	#reused = [];
	constructor(options) {
		this.workflow = options.workflow;
		this.codec = options.codec;
		this.limits = options.limits;
		this.sideEffects = options.sideEffects;
		this.logger = options.logger;
		this.watch = options.watch;
		this.mailbox = new Mailbox(this);
		this.conditions = new Conditions(this);
		this.saga = new Saga(this);
	}
	get runId() {
		return this.start?.runId ?? "";
	}
	/** Appends a command, or in replay matches it; returns the one that counts. */
	emit(command) {
		if (this.poison !== void 0) return command;
		if (this.matcher !== void 0) return this.matcher.match(command);
		this.commands.push(command);
		return command;
	}
	/** Opens an operation of a unit that has the turn: its record, its number, its promise (Y7). */
	open(unit, type, name, fields) {
		const n = unit.occurrence(name);
		const refusal = this.matcher === void 0 ? this.#overLimit(unit) : this.matcher.refusal(unit.path, name, n, type);
		if (refusal !== void 0) return this.#refused(unit, type, name, n, refusal);
		const place = {
			type,
			seq: 0,
			unit: unit.path,
			name,
			n
		};
		const command = fields === void 0 ? place : {
			...place,
			...fields
		};
		const reusable = this.salvage === void 0 || this.matcher?.isInVoid(command) === true ? void 0 : this.salvage.take(command);
		if (reusable !== void 0) {
			const record = this.emit({
				type: "reuse",
				seq: reusable.seq,
				unit: unit.path,
				name,
				n,
				kind: type
			});
			const operation = this.#register(new Operation(unit, type, name, n, record.seq));
			this.#reused.push({
				operation,
				reusable
			});
			return operation;
		}
		if (this.matcher === void 0) command.seq = ++this.#lastSeq;
		const record = this.emit(command);
		this.sawSeq(record.seq);
		const operation = this.#register(new Operation(unit, type, name, n, record.seq));
		if ((record.type === "loop" || record.type === "receive") && record.committed === true) operation.committed = true;
		return operation;
	}
	#register(operation) {
		if (this.poison !== void 0) {
			operation.closed = true;
			return operation;
		}
		operation.unit.open.add(operation);
		this.operations.set(operation.seq, operation);
		return operation;
	}
	/** A command of a unit's that opens nothing. */
	note(unit, type, name, fields) {
		const seq = this.matcher === void 0 ? ++this.#lastSeq : 0;
		const record = this.emit({
			type,
			seq,
			unit: unit.path,
			name,
			n: unit.occurrence(name),
			...fields
		});
		this.sawSeq(record.seq);
		return record;
	}
	/** Y4: the call fails now, and in every replay. */
	refuse(unit, kind, name, error) {
		return this.#refused(unit, kind, name, unit.occurrence(name), error);
	}
	#refused(unit, kind, name, n, error) {
		const seq = this.matcher === void 0 ? ++this.#lastSeq : 0;
		const record = this.emit({
			type: "refuse",
			seq,
			unit: unit.path,
			name,
			n,
			kind,
			error: serializeError(error)
		});
		this.sawSeq(record.seq);
		const operation = new Operation(unit, kind, name, n, record.seq);
		operation.closed = true;
		if (this.poison !== void 0) return operation;
		operation.settlement = {
			ok: false,
			error: this.matcher === void 0 ? error : reviveError(record.error)
		};
		operation.deliver();
		return operation;
	}
	/** P9, Y4: why an operation that opens nothing is refused now, or was when history was recorded. */
	refusal(unit, name) {
		return this.matcher === void 0 ? this.#overLimit(unit) : this.matcher.refusal(unit.path, name, void 0, name);
	}
	#overLimit(unit) {
		const length = this.historyLength + this.commands.length;
		if (length < this.limits.historyWarn) return void 0;
		if (!this.#warnedOfLength) {
			this.#warnedOfLength = true;
			this.log("warn", `The history of this run has ${length} records. Continue as new, or use a loop that trims (historyEvery).`, unit);
		}
		if (length < this.limits.historyMax || unit.role === "internal") return void 0;
		return tooLong(length, this.limits);
	}
	freshSeq() {
		return ++this.#lastSeq;
	}
	get lastSeq() {
		return this.#lastSeq;
	}
	/** Numbers go on after the highest that history has used. */
	sawSeq(seq) {
		if (seq > this.#lastSeq) this.#lastSeq = seq;
	}
	/** The operation has its result; the unit takes it in its own turn, or nobody does if its function has returned (P3). */
	settle(operation, settlement) {
		if (operation.settlement !== void 0) return;
		operation.settlement = settlement;
		this.operations.delete(operation.seq);
		const unit = operation.unit;
		if (unit.returned === void 0) {
			unit.results.push(operation);
			this.scheduler.schedule(unit);
		} else {
			this.#letGo(operation);
			this.endIfOver(unit);
		}
	}
	/** P3: nobody will take the result. What it was to do in its unit's turn is done all the same (R10). */
	#letGo(operation) {
		operation.unit.open.delete(operation);
		operation.beforeDelivery?.();
	}
	/** The executor settles an operation of its own: with a record. */
	conclude(operation, status, settlement, messages) {
		if (operation.settlement !== void 0) return;
		this.emit(messages === void 0 ? {
			type: "settle",
			seq: operation.seq,
			status
		} : {
			type: "settle",
			seq: operation.seq,
			status,
			messages
		});
		this.settle(operation, settlement);
	}
	/** The same for an operation that need not pause: its result is there at once, the unit keeps the turn (X5). */
	concludeNow(operation, status, settlement, messages) {
		this.emit(messages === void 0 ? {
			type: "settle",
			seq: operation.seq,
			status
		} : {
			type: "settle",
			seq: operation.seq,
			status,
			messages
		});
		if (this.poison !== void 0) return;
		operation.settlement = settlement;
		this.operations.delete(operation.seq);
		operation.unit.open.delete(operation);
		operation.deliver();
	}
	spawn(options) {
		const unit = new Unit(this, options);
		this.liveUnits++;
		this.scheduler.schedule(unit);
		return unit;
	}
	/** A unit's function returned or threw. */
	functionEnded(unit, outcome) {
		if (this.poison !== void 0 || this.evicted || unit.over) return;
		if (this.current !== unit) this.violate(new ForeignAwaitError({ unit: unit.title }));
		else if (unit.role !== "handler" && outcome.ok && isReceiveResult(outcome.value) && outcome.value.result === "async") this.violate(new IllegalReturnError(`Receive.async(fn, state) is for the sync handlers of a receive: ${unit.title} can't return it.`));
		else unit.returned = outcome;
	}
	/** The barrier after a unit's step: what has become of it? */
	stepEnded(unit) {
		if (this.poison !== void 0) return;
		if (this.#reused.length > 0) this.#settleReused();
		if (unit.returned !== void 0) this.#windDown(unit);
		else if (unit.runnable) this.scheduler.schedule(unit);
		else if (unit.open.size === 0 && (unit.postponed ?? []).length === 0) this.violate(new ForeignAwaitError({ unit: unit.title }));
	}
	#settleReused() {
		const reused = this.#reused;
		this.#reused = [];
		for (const { operation, reusable } of reused) {
			if (reusable.runId !== void 0) operation.behaviour.childStarted?.(operation, reusable.runId);
			if (reusable.outcome !== void 0) operation.behaviour.outcome?.(operation, reusable.outcome);
		}
	}
	/** P3: timers and waits are given up, the rest is joined; then the unit is over. */
	#windDown(unit) {
		unit.dropResults();
		for (const operation of [...unit.open]) if (operation.settlement !== void 0) this.#letGo(operation);
		else if (operation.floating) operation.behaviour.cancel?.(operation, unit.canceled ?? RETURNED);
		this.endIfOver(unit);
	}
	endIfOver(unit) {
		if (unit.over || unit.returned === void 0 || unit.open.size > 0 || unit.gates > 0) return;
		unit.over = true;
		this.liveUnits--;
		unit.parent?.children.delete(unit);
		unit.onEnd(unit.returned, unit);
	}
	/** P9: what history has accepted is over no limit. */
	encode(value, what) {
		const payload = this.codec.encode(value);
		if (this.matcher === void 0) checkSize(payload, this.limits, what);
		return payload;
	}
	/** The same for a value that is no operation's: a refusal is recorded, so that replay takes the same way under other limits (Y4). */
	encodeOrRefuse(unit, kind, value, what) {
		let error = this.matcher?.refusal(unit.path, kind, void 0, kind);
		if (error === void 0) try {
			return this.encode(value, what);
		} catch (caught) {
			error = caught;
		}
		this.note(unit, "refuse", kind, {
			kind,
			error: serializeError(error)
		});
		throw error;
	}
	get nothing() {
		return this.codec.encode(void 0);
	}
	reseed(seed) {
		this.seed = seed;
		const reseed = (unit) => {
			unit.reseed();
			for (const child of unit.children) reseed(child);
		};
		if (this.root !== void 0) reseed(this.root);
	}
	/** Runs a synchronous function of the user's in which no ctx may be used. */
	inClosure(name, run) {
		const outer = this.closure;
		this.closure = name;
		const watch = this.current === void 0 ? this.watch : void 0;
		watch?.enter(this);
		try {
			return run();
		} finally {
			watch?.leave(this);
			this.closure = outer;
		}
	}
	/** Runs what is no workflow code, though a unit may have the turn: a side effect, the logger. */
	unwatched(run) {
		const watch = this.current === void 0 ? void 0 : this.watch;
		if (watch === void 0) return run();
		watch.leave(this);
		try {
			return run();
		} finally {
			watch.enter(this);
		}
	}
	/** X7, A4: may this unit call this now? False if the run is poisoned or evicted: then nothing it is given ever settles. */
	enter(unit, call) {
		if (this.poison !== void 0 || this.evicted) return false;
		if (this.closure !== void 0) throw this.illegal(unit, call, `it is inside ${this.closure}, which is synchronous and calls nothing on ctx`);
		if (this.current !== unit) {
			const pausedOn = [...unit.open].find((operation) => operation.settlement === void 0)?.description;
			const turnOf = this.current?.title;
			throw this.violate(new OutOfTurnError({
				unit: unit.title,
				call,
				...pausedOn !== void 0 && { pausedOn },
				...turnOf !== void 0 && { turnOf }
			}));
		}
		return true;
	}
	/** The unit that has the turn, for things that any unit may use. Undefined if the run is poisoned or evicted. */
	caller(call) {
		if (this.poison !== void 0 || this.evicted) return void 0;
		if (this.current === void 0) throw this.violate(new OutOfTurnError({
			unit: "(none)",
			call
		}));
		return this.enter(this.current, call) ? this.current : void 0;
	}
	illegal(unit, call, reason) {
		return this.violate(new IllegalCallError({
			call,
			unit: unit.title,
			reason
		}));
	}
	/** A broken rule: the turn, or the next one, fails, whatever user code does about the error (V4). */
	violate(error) {
		this.poison ??= error;
		return remember(error);
	}
	log(level, message, unit, fields) {
		if (this.replaying) return;
		try {
			this.unwatched(() => this.logger[level](message, {
				runId: this.runId,
				workflow: this.workflow.name,
				unit: unit?.title,
				...fields
			}));
		} catch {}
	}
	/** K7: no workflow code runs any more; what the host is doing for it is given up. */
	abandonUnits() {
		for (const { kind, seq } of [...this.operations.values()]) this.emit(givingUp(kind, seq));
		this.#forget();
	}
	#forget() {
		const forget = (unit) => {
			unit.over = true;
			unit.drop();
			for (const child of unit.children) forget(child);
			unit.children.clear();
		};
		if (this.root !== void 0) forget(this.root);
		this.liveUnits = 0;
		this.scheduler.clear();
		this.operations.clear();
		this.children.clear();
		this.mailbox.clear();
		this.conditions.clear();
	}
	/** X10: everything is dropped, nothing settles. */
	drop() {
		this.evicted = true;
		this.#forget();
		this.saga.clear();
		this.root = void 0;
		this.current = void 0;
	}
};
/** Why a wait was given up whose unit's function returned; nobody sees it. */
const RETURNED = new CanceledError("the function that waited has returned");
// packages/core/src/executor/carry.ts
var Carry = class {
	#execution;
	#turns;
	#same;
	#commands = [];
	/** Turns of resumes that are still to come in history, up to the one after which nothing was voided. */
	#resumes = [];
	/** Is the turn of the resume not in history: the one to come? */
	isLive = false;
	/** State was published in a turn whose failure was voided. */
	published = false;
	constructor(execution, turns, same) {
		this.#execution = execution;
		this.#turns = turns;
		this.#same = same;
	}
	beginTurn(index, voided) {
		const rest = this.#turns.slice(index + 1);
		const end = rest.findIndex((turn) => turn.voided === void 0);
		this.isLive = end < 0;
		this.#resumes = (end < 0 ? rest : rest.slice(0, end + 1)).filter((turn) => turn.jobs.some((job) => job.type === "resume"));
		for (const turn of [this.#turns[index], ...end < 0 ? rest : rest.slice(0, end)]) for (const command of turn?.commands ?? []) if ("seq" in command) this.#execution.sawSeq(command.seq);
		if (voided.free) this.#execution.attempt = voided.attempt;
	}
	get size() {
		return this.#commands.length;
	}
	takeAll() {
		const commands = this.#commands;
		this.#commands = [];
		return commands;
	}
	add(actual) {
		const fresh = "seq" in actual && actual.seq === 0 ? {
			...actual,
			seq: this.#execution.freshSeq()
		} : actual;
		const command = this.recordOf(actual) ?? fresh;
		this.#commands.push(command);
		return command;
	}
	/** The record that the turn of a resume has of this command. */
	recordOf(actual) {
		return this.#records().find((one) => difference(actual, one, this.#same) === void 0);
	}
	/** The next operation that the turns of resumes have for a unit. */
	nextOf(unit) {
		return this.#records().find((one) => isOpening(one) && one.unit === unit);
	}
	#records() {
		return this.#resumes.flatMap((turn) => turn.commands.filter((command) => !this.#commands.includes(command)));
	}
	/** Those that this turn of a resume has, though it was voided by the next; the others are carried on. */
	takeRecorded(turn) {
		const recorded = this.#commands.filter((command) => turn.commands.includes(command));
		this.#commands = this.#commands.filter((command) => !recorded.includes(command));
		return recorded;
	}
	allows(command, voided) {
		if (isOpening(command) || "unit" in command) return this.reaches(command.unit, voided);
		if (!("seq" in command)) return true;
		return this.reaches(this.#execution.operations.get(command.seq)?.unit.path ?? "", voided);
	}
	/** May a unit do something else than before: does it, one above it or one beneath it wait for what was voided? */
	reaches(unit, voided) {
		if (voided.free || unit === "") return true;
		for (const turn of this.#turns) for (const command of turn.commands) {
			if (!isOpening(command) || !(voided.seqs.includes(command.seq) || command.type === "childResult" && voided.seqs.includes(command.child))) continue;
			if (command.unit === "" || isWithin(command.unit, unit) || isWithin(unit, command.unit)) return true;
		}
		return false;
	}
};
// packages/core/src/executor/divergence.ts
/** Differences in what an operation is at all: told by whole operations, not by a field. */
const WHOLE = /* @__PURE__ */ new Set([
	"operation",
	"kind",
	"name",
	"unit",
	"occurrence"
]);
var Divergence = class {
	#execution;
	#turns;
	#same;
	#turn = 0;
	constructor(execution, turns, same) {
		this.#execution = execution;
		this.#turns = turns;
		this.#same = same;
	}
	beginTurn(index) {
		this.#turn = index;
	}
	/** History has `expected` where code does `actual`; one of them may be missing. */
	report(expected, actual) {
		const at = expected !== void 0 && (isOpening(expected) || actual === void 0 || !isOpening(actual)) ? expected : actual;
		const location = this.locate(at);
		if (expected === void 0 || actual === void 0) {
			const hint = actual === void 0 ? insteadOf(expected) : this.recordedLater(actual);
			this.#fail(location, "operation", expected && describeCommand(expected), actual && describeCommand(actual), hint);
			return;
		}
		const field = isOpening(expected) && isOpening(actual) && expected.unit !== actual.unit ? "operation" : difference(actual, expected, this.#same) ?? "order";
		if (isOpening(expected) && isOpening(actual) && !WHOLE.has(field)) this.#fail(location, field, this.#value(expected, field), this.#value(actual, field));
		else this.#fail(location, field, describeCommand(expected), describeCommand(actual));
	}
	/** Y6: both are in the turn, in another order. */
	reportOrder(expected, actual) {
		this.#fail(this.locate(expected), "order", describeCommand(expected), describeCommand(actual));
	}
	#fail(location, field, expected, actual, hint) {
		this.#execution.violate(new NondeterminismError({
			location,
			field,
			expected,
			actual,
			...hint !== void 0 && { hint }
		}));
	}
	#value(command, field) {
		return this.#same.decode(command[field], field);
	}
	/** What to say of a command that a later turn has; undefined if none does. */
	recordedLater(actual) {
		for (let turn = this.#turn + 1; turn < this.#turns.length; turn++) if (this.#turns[turn]?.commands.some((command) => difference(actual, command, this.#same) === void 0) === true) return `History has it ${turn - this.#turn === 1 ? "one turn" : `${turn - this.#turn} turns`} later: an operation before it is missing.`;
	}
	/** The location of the operation that a command is about. */
	locate(command) {
		if (isOpening(command)) return formatLocation(command.unit, command.name, command.n);
		if ("unit" in command) return command.unit;
		if ("seq" in command) for (let turn = Math.min(this.#turn, this.#turns.length - 1); turn >= 0; turn--) {
			const opening = this.#turns[turn]?.commands.find((one) => isOpening(one) && one.seq === command.seq);
			if (opening !== void 0) return this.locate(opening);
		}
		return "root";
	}
};
function insteadOf(expected) {
	if (!isOpening(expected)) return void 0;
	return `The unit ${expected.unit === "" ? "root" : expected.unit} did something else, or nothing, where history has it.`;
}
// packages/core/src/executor/removals.ts
const UNPAUSING = /* @__PURE__ */ new Set([
	"patch",
	"attributes",
	"rollbackCheckpoint",
	"refuse"
]);
/** Does it settle by being recorded? */
function isUnpausing(record) {
	if (record.type === "sideEffect") return record.value !== void 0 || record.error !== void 0;
	return UNPAUSING.has(record.type);
}
var Removals = class {
	#execution;
	#turns;
	#turn = 0;
	/** Locations of removed operations: all beneath them is removed as well. */
	#locations = /* @__PURE__ */ new Set();
	/** Those, and all beneath them, that have not settled yet. */
	#open = /* @__PURE__ */ new Map();
	/** The unit that goes on when the removed operation settles. */
	#waiting = /* @__PURE__ */ new Map();
	/** Updates that a removed receive has accepted and not answered. */
	#updates = /* @__PURE__ */ new Map();
	constructor(execution, turns) {
		this.#execution = execution;
		this.#turns = turns;
	}
	beginTurn(index) {
		this.#turn = index;
	}
	/** How many removed operations units wait for. */
	get waiting() {
		return this.#waiting.size;
	}
	/** Has the end of replay something to give up? */
	get pending() {
		return this.#open.size > 0 || this.#waiting.size > 0;
	}
	/** A unit has come to where the operation of this record was taken out. `next` is the record after it. */
	add(unit, record, next) {
		unit.occurrence(record.name);
		this.#locations.add(formatLocation(record.unit, record.name, record.n));
		this.#open.set(record.seq, record);
		const atOnce = next?.type === "settle" && next.seq === record.seq;
		if (isUnpausing(record) || atOnce) return;
		this.#waiting.set(record.seq, unit);
		unit.closeGate();
	}
	/** Is it a removed operation's, or of something beneath one? */
	has(command) {
		if (this.#locations.size === 0) return false;
		if (isOpening(command)) return this.#open.has(command.seq) || this.#isBeneath(command.unit);
		return "seq" in command && this.#open.has(command.seq);
	}
	#isBeneath(unit) {
		if (this.#locations.has(unit)) return true;
		for (let end = unit.lastIndexOf("/"); end > 0; end = unit.lastIndexOf("/", end - 1)) if (this.#locations.has(unit.slice(0, end))) return true;
		return false;
	}
	/** Is it what `finish` emitted? */
	isGivenUp(command) {
		const { type } = command;
		return (type === "cancel" || type === "completeUpdate" || type === "settle" && command.status === "canceled") && this.has(command);
	}
	/** History goes past a record of theirs. */
	pass(command) {
		if (isOpening(command)) {
			this.#execution.sawSeq(command.seq);
			if (isUnpausing(command)) this.#open.delete(command.seq);
			else this.#open.set(command.seq, command);
			return;
		}
		const { mailbox } = this.#execution;
		if (command.type === "dispatch") mailbox.discard([command.message]);
		else if (command.type === "commit") this.#passCommit(command);
		else if (command.type === "acceptUpdate") {
			const job = this.#turns[this.#turn]?.jobs.find((one) => one.type === "update" && one.id === command.id);
			this.#updates.set(command.id, {
				seq: command.seq,
				name: job?.type === "update" ? job.name : command.id
			});
			mailbox.discard([command.id]);
		} else if (command.type === "completeUpdate") this.#updates.delete(command.id);
		else if (command.type === "settle") {
			mailbox.discard(command.messages ?? []);
			this.#settled(command.seq);
		} else if (command.type === "cancel" && command.join !== true) this.#settled(command.seq);
	}
	/** What a commit of a removed scope had carried on is carried on without it. */
	#passCommit(commit) {
		const execution = this.#execution;
		execution.sawSeq(commit.lastSeq);
		execution.state = commit.state;
		const messages = commit.messages ?? [];
		for (const message of messages) if (message.type === "update") this.#updates.set(message.id, {
			seq: commit.seq,
			name: message.name
		});
		execution.mailbox.restore(messages.filter((message) => message.type !== "update"));
	}
	/** A job for an operation that the executor does not know. True if it was a removed one's. */
	passJob(job) {
		if (!("seq" in job) || !this.#open.has(job.seq)) return false;
		if (this.#settles(job, job.seq)) this.#settled(job.seq);
		return true;
	}
	/** Does this job settle the removed operation of that number? */
	#settles(job, seq) {
		if (!("seq" in job) || job.seq !== seq) return false;
		const record = this.#open.get(seq);
		if (job.type === "fire") return record?.type === "sleep";
		return job.type === "resolve" || record?.type === "child" && record.detached === true;
	}
	#settled(seq) {
		this.#open.delete(seq);
		const unit = this.#waiting.get(seq);
		if (unit === void 0) return;
		this.#waiting.delete(seq);
		unit.openGate();
	}
	/** Does the unit wait at a removed operation that history never settles? Then it is past its last record (V1). */
	frees(unit) {
		for (const [seq, waiting] of this.#waiting) if (waiting === unit && !this.#settlesLater(seq)) return true;
		return false;
	}
	#settlesLater(seq) {
		return this.#turns.some((turn, i) => {
			if (i < this.#turn) return false;
			return turn.commands.some((one) => (one.type === "settle" || one.type === "cancel") && one.seq === seq) || i > this.#turn && turn.jobs.some((job) => this.#settles(job, seq));
		});
	}
	/** Replay is over: what is still open of them is given up, and their units go on live. */
	finish() {
		const execution = this.#execution;
		for (const [id, { seq, name }] of this.#updates) {
			const error = serializeError(new ReceiveClosedError({ update: name }));
			execution.emit({
				type: "completeUpdate",
				seq,
				id,
				status: "failed",
				error
			});
		}
		this.#updates.clear();
		for (const record of this.#open.values()) execution.emit(givingUp(record.type, record.seq));
		this.#open.clear();
		for (const unit of this.#waiting.values()) unit.openGate();
		this.#waiting.clear();
	}
};
// packages/core/src/executor/salvage.ts
var Salvage = class {
	#byLocation = /* @__PURE__ */ new Map();
	#outcomes = /* @__PURE__ */ new Map();
	#started = /* @__PURE__ */ new Map();
	#same;
	constructor(same) {
		this.#same = same;
	}
	keep(command) {
		if (HOST_KINDS.has(command.type) || command.type === "sideEffect") {
			const opening = command;
			this.#byLocation.set(formatLocation(opening.unit, opening.name, opening.n), opening);
		}
	}
	resolved(seq, outcome) {
		this.#outcomes.set(seq, outcome);
	}
	childStarted(seq, runId) {
		this.#started.set(seq, runId);
	}
	/** How an operation that is made again as it was had settled, if it had. */
	take(now) {
		const record = this.#take(now);
		if (record === void 0) return void 0;
		const { seq } = record;
		const outcome = this.#outcomes.get(seq);
		const runId = record.type === "child" && record.detached === true ? this.#started.get(seq) : void 0;
		return outcome === void 0 && runId === void 0 ? void 0 : {
			seq,
			outcome,
			runId
		};
	}
	/** The value of a side effect that was recorded before, or its error. */
	takeEffect(now) {
		const record = this.#take(now);
		if (record?.type !== "sideEffect") return void 0;
		return record.error === void 0 ? { ...record.value !== void 0 && { value: record.value } } : { error: record.error };
	}
	#take(now) {
		if (this.#byLocation.size === 0) return void 0;
		const location = formatLocation(now.unit, now.name, now.n);
		const record = this.#byLocation.get(location);
		if (record === void 0 || record.type !== now.type) return void 0;
		this.#byLocation.delete(location);
		const before = record;
		const after = now;
		return IDENTITY[record.type].every((field) => this.#same(before[field], after[field], field)) ? record : void 0;
	}
};
// packages/core/src/executor/matcher.ts
/** V1: a marker that code may have done with altogether. */
function isDeprecated(command) {
	return command?.type === "patch" && command.deprecated === true;
}
var Matcher = class {
	#execution;
	#turns;
	#same;
	#turn = 0;
	#expected = [];
	#cursor = 0;
	/** Records of this turn that were matched ahead of the cursor. */
	#ahead;
	#firstOutOfOrder;
	/** What code emits now where it failed before (D10). */
	#carry;
	/** What code no longer makes (V3). */
	#removals;
	#divergence;
	constructor(execution, turns, same) {
		this.#execution = execution;
		this.#turns = turns;
		this.#same = same;
		this.#carry = new Carry(execution, turns, same);
		this.#removals = new Removals(execution, turns);
		this.#divergence = new Divergence(execution, turns, same);
	}
	/** Of this turn, if a failure in it was voided. */
	get voided() {
		return this.#turns[this.#turn]?.voided;
	}
	beginTurn(index) {
		this.#turn = index;
		this.#expected = this.#turns[index]?.commands ?? [];
		this.#cursor = 0;
		this.#ahead = void 0;
		this.#firstOutOfOrder = void 0;
		this.#removals.beginTurn(index);
		this.#divergence.beginTurn(index);
		this.#execution.mailbox.beginReplayTurn();
		const turn = this.#turns[index];
		if (turn?.voided !== void 0) {
			this.#ahead = new Set(this.#carry.takeRecorded(turn));
			this.#carry.beginTurn(index, turn.voided);
		} else for (const command of this.takeCarried()) this.match(command);
		for (;;) {
			const next = this.#expected[this.#cursor];
			if (next === void 0 || !this.#removals.isGivenUp(next)) return;
			this.#cursor++;
			this.#removals.pass(next);
		}
	}
	/** What a resumed run has emitted already (D10). */
	takeCarried() {
		return this.#carry.takeAll();
	}
	/** State that it has published already (D10). */
	get publishedState() {
		return this.#carry.published ? this.#execution.state : void 0;
	}
	match(actual) {
		for (;;) {
			this.#skip();
			const expected = this.#expected[this.#cursor];
			if (expected !== void 0 && difference(actual, expected, this.#same) === void 0) {
				this.#cursor++;
				return expected;
			}
			if (expected === void 0 || !isDeprecated(expected)) return this.#outOfOrder(actual, expected);
			this.#cursor++;
		}
	}
	#outOfOrder(actual, expected) {
		const later = this.#findLater(actual);
		if (this.voided !== void 0) return this.#matchInVoid(actual, later, this.voided);
		const own = isOpening(actual) ? this.#nextOf(actual.unit) : void 0;
		if (later !== void 0 && expected !== void 0 && (own === void 0 || own === later)) {
			this.#firstOutOfOrder ??= {
				expected,
				actual
			};
			this.#ahead ??= /* @__PURE__ */ new Set();
			this.#ahead.add(later);
			return later;
		}
		return this.#diverge(own ?? this.#missing(actual, expected) ?? (this.#isExtra(actual, expected) ? void 0 : expected), actual);
	}
	/** The operation that this turn has and code has left out, to judge by what code does too early. */
	#missing(actual, expected) {
		if (actual.type === "dispatch" && expected?.type === "dispatch") return void 0;
		if (!isOpening(actual)) return this.#nearest(this.#scopeOf(actual));
		if (this.#divergence.recordedLater(actual) !== void 0) return this.#nearest(actual.unit, 0);
		const before = this.#isKnown(actual.unit) ? void 0 : predecessor(actual.unit);
		return before === void 0 ? void 0 : this.#nearest(before);
	}
	/** The unmatched operation of this turn that is nearest to a path: within it, or sharing at least so much of it. */
	#nearest(path, atLeast = path === "" ? 0 : path.length + 1) {
		let nearest;
		let shared = atLeast - 1;
		for (let i = this.#cursor; i < this.#expected.length; i++) {
			const candidate = this.#expected[i];
			if (!isOpening(candidate) || this.#ahead?.has(candidate) === true || this.#removals.has(candidate)) continue;
			const common = sharedLength(`${candidate.unit}/`, `${path}/`);
			if (common <= shared) continue;
			nearest = candidate;
			shared = common;
		}
		return nearest;
	}
	#isKnown(unit) {
		return this.#turns.some((turn) => turn.commands.some((command) => isOpening(command) && command.unit === unit));
	}
	/** What must have ended for this command to be emitted. */
	#scopeOf(command) {
		if (command.type === "winner") return `${this.#divergence.locate(command)}/${segment(command.key)}`;
		return "seq" in command ? this.#divergence.locate({
			type: "cancel",
			seq: command.seq
		}) : "";
	}
	/** Does code do what history has nowhere, in a unit of which this turn has nothing? */
	#isExtra(actual, expected) {
		return isOpening(actual) && expected !== void 0 && isOpening(expected);
	}
	#findLater(actual) {
		for (let i = this.#cursor; i < this.#expected.length; i++) {
			const candidate = this.#expected[i];
			if (this.#ahead?.has(candidate) === true || this.#removals.has(candidate)) continue;
			if (difference(actual, candidate, this.#same) === void 0) return candidate;
		}
	}
	/** The next unmatched operation that this turn has for a unit. */
	#nextOf(unit) {
		for (let i = this.#cursor; i < this.#expected.length; i++) {
			const candidate = this.#expected[i];
			if (isOpening(candidate) && candidate.unit === unit && this.#ahead?.has(candidate) !== true && !this.#removals.has(candidate)) return candidate;
		}
	}
	#matchInVoid(actual, later, voided) {
		if (later !== void 0) {
			while (this.#expected[this.#cursor] !== later) this.#salvage(this.#expected[this.#cursor++]);
			this.#cursor++;
			return later;
		}
		return this.#carry.allows(actual, voided) ? this.#carry.add(actual) : this.#diverge(this.#expected[this.#cursor], actual);
	}
	/** D10: has a turn whose failure was voided this operation already? */
	isInVoid(command) {
		return this.voided !== void 0 && this.#findLater(command) !== void 0;
	}
	/** D10: is this done for the first time, where the workflow failed before? */
	isNew(command) {
		return this.voided !== void 0 && !this.isInVoid(command) && this.#carry.isLive && this.#carry.recordOf(command) === void 0;
	}
	#salvage(command) {
		if (this.#ahead?.delete(command) === true) return;
		this.#execution.salvage ??= new Salvage(this.#same);
		this.#execution.salvage.keep(command);
	}
	/** At the end of a turn everything recorded must have been emitted. */
	endTurn() {
		for (this.#skip(); isDeprecated(this.#expected[this.#cursor]); this.#skip()) this.#cursor++;
		const left = this.#expected[this.#cursor];
		if (this.voided !== void 0) {
			if (this.#execution.turnState !== void 0) this.#carry.published = true;
			for (; this.#cursor < this.#expected.length; this.#cursor++) this.#salvage(this.#expected[this.#cursor]);
		} else if (left !== void 0) this.#divergence.report(left, void 0);
		else if (this.#firstOutOfOrder !== void 0) this.#divergence.reportOrder(this.#firstOutOfOrder.expected, this.#firstOutOfOrder.actual);
	}
	/** A call that history saw refused (Y4). Without `n`: whichever occurrence comes next. */
	refusal(unit, name, n, kind) {
		const expected = this.#next();
		if (expected?.type !== "refuse" || expected.unit !== unit || expected.name !== name || expected.kind !== kind) return void 0;
		return n === void 0 || expected.n === n ? reviveError(expected.error) : void 0;
	}
	/** A reply or output that history saw over its limit; limits may be others by now (P9, Y4). */
	overLimit(type, id) {
		const expected = this.#next();
		if (expected?.type !== type || expected.error?.name !== "LimitExceededError") return void 0;
		return expected.type === "fail" || expected.id === id ? reviveError(expected.error) : void 0;
	}
	#next() {
		this.#skip();
		return this.#expected[this.#cursor];
	}
	#diverge(expected, actual) {
		this.#divergence.report(expected, actual);
		return actual;
	}
	/** When nothing is runnable: does history have something next that lets a unit go on by itself? */
	catchUp() {
		const { waiting } = this.#removals;
		this.#skip();
		return this.#restoreCommit() || this.#removals.waiting < waiting;
	}
	/** The commit that history has next, if its scope waits for it. */
	#restoreCommit() {
		const commit = this.#expected[this.#cursor];
		if (commit?.type !== "commit") return false;
		const execution = this.#execution;
		const operation = execution.operations.get(commit.seq);
		if (operation === void 0 || !operation.committed) return false;
		operation.committed = false;
		this.#cursor++;
		execution.sawSeq(commit.lastSeq);
		execution.mailbox.restore(commit.messages ?? []);
		execution.state = commit.state;
		execution.saga.keep(commit.rollbacks ?? []);
		operation.behaviour.restore?.(operation, commit);
		return true;
	}
	hasPatch(unit, id) {
		let next = this.#upcoming(unit);
		if (next === void 0 && this.voided !== void 0 && this.#carry.reaches(unit.path, this.voided)) {
			next = this.#carry.nextOf(unit.path);
			if (next === void 0 && this.#carry.isLive) return true;
		}
		if (next === void 0) return this.#removals.frees(unit);
		return next.type === "patch" && next.name === id;
	}
	/** V3: a unit has removed operations outstanding; is its next record the one at hand? */
	isDue(unit) {
		this.#skip();
		const expected = this.#expected[this.#cursor];
		return expected !== void 0 && isOpening(expected) && expected.unit === unit.path;
	}
	/** The next record of a unit that has the turn: the one at hand, or after removals one that is still to come. */
	#upcoming(unit) {
		this.#skip();
		if (unit.postponed === void 0) {
			const expected = this.#expected[this.#cursor];
			return expected !== void 0 && isOpening(expected) && expected.unit === unit.path ? expected : this.#nextOf(unit.path);
		}
		let before = unit.postponed.length;
		for (let turn = this.#turn; turn < this.#turns.length; turn++) {
			const commands = turn === this.#turn ? this.#expected.slice(this.#cursor) : this.#turns[turn]?.commands ?? [];
			for (const command of commands) if (isOpening(command) && command.unit === unit.path && !this.#removals.has(command) && before-- === 0) return command;
		}
	}
	remove(unit, name, kind) {
		const record = this.#upcoming(unit);
		if (record === void 0 || record.name !== name || (record.type === "childResult" ? "child" : record.type) !== kind) return;
		this.#removals.add(unit, record, this.#expected[this.#expected.indexOf(record) + 1]);
		this.#skip();
	}
	/** Passes over what belongs to removed operations and over what was matched ahead. */
	#skip() {
		for (;;) {
			const command = this.#expected[this.#cursor];
			if (command === void 0) return;
			if (this.#ahead?.delete(command) === true) this.#cursor++;
			else if (this.#removals.has(command)) {
				this.#cursor++;
				this.#removals.pass(command);
			} else return;
		}
	}
	/** A job for an operation that the executor does not know. True if it was a removed one's. */
	passJob(job) {
		return this.#removals.passJob(job);
	}
	/** Replay is over. */
	finish() {
		this.#removals.finish();
	}
	/** Has a replayed run something to do though no job has come? */
	get hasWork() {
		return this.#removals.pending || this.#carry.size > 0;
	}
};
// packages/core/src/executor/queries.ts
/** M11: a query is a pure function of published state; whoever has the definition can evaluate it. */
function evaluateQuery(workflow, name, state, args, codec = jsonCodec) {
	const queries = workflow.options.queries;
	const query = queries !== void 0 && Object.hasOwn(queries, name) ? queries[name] : void 0;
	if (query === void 0) {
		const known = Object.keys(queries ?? {}).join(", ") || "none";
		throw new QueryFailedError({
			query: name,
			reason: `workflow "${workflow.name}" has no such query (it has: ${known})`
		});
	}
	try {
		return query(state === void 0 ? void 0 : codec.decode(state), args);
	} catch (cause) {
		throw new QueryFailedError({
			query: name,
			reason: cause instanceof Error ? cause.message : String(cause),
			cause
		});
	}
}
// packages/core/src/executor/stopwatch.ts
/** The clock with its running lap. Whoever ends a lap takes the time since the last one ended. */
var Laps = class {
	#elapsed;
	#last;
	constructor(elapsed) {
		this.#elapsed = elapsed;
		this.#last = elapsed();
	}
	end() {
		const now = this.#elapsed();
		const lap = now - this.#last;
		this.#last = now;
		return lap;
	}
};
const lapsOf = /* @__PURE__ */ new WeakMap();
var Stopwatch = class {
	#laps;
	spent = 0;
	constructor(elapsed) {
		const laps = lapsOf.get(elapsed) ?? new Laps(elapsed);
		lapsOf.set(elapsed, laps);
		this.#laps = laps;
	}
	/** A turn begins: what went before is nobody's. */
	restart() {
		this.spent = 0;
		this.#laps.end();
	}
	/**
	* The time since the last lap was this turn's. Called before and after the executor's own work, and in a microtask right behind
	* the code that a step resumes, before the code of a neighbour begins.
	*/
	take = () => {
		this.spent += this.#laps.end();
	};
};
// packages/core/src/executor/executor.ts
const SCOPES = /* @__PURE__ */ new Set([
	"parallel",
	"join",
	"race",
	"loop",
	"try",
	"shield"
]);
const NO_ACTIVATION = {
	time: 0,
	jobs: []
};
const SILENT = {
	debug() {},
	info() {},
	warn() {},
	error() {}
};
var Executor = class {
	#execution;
	#barrier;
	#stopwatch;
	#turnTimeout;
	#codec;
	#matcher;
	#finish;
	/** Records in history, as far as this executor has seen them. */
	#records = 0;
	#activation = NO_ACTIVATION;
	#timeBefore = 0;
	constructor(options) {
		this.#codec = options.codec ?? jsonCodec;
		this.#execution = new Execution({
			workflow: options.workflow,
			codec: this.#codec,
			logger: options.logger ?? SILENT,
			limits: {
				...DEFAULT_LIMITS,
				...options.limits
			},
			sideEffects: options.sideEffects ?? "inline",
			watch: options.watch
		});
		this.#barrier = options.barrier ?? sharedBarrier();
		this.#stopwatch = options.elapsed === void 0 ? void 0 : new Stopwatch(options.elapsed);
		this.#turnTimeout = options.turnTimeout ?? 2e3;
	}
	/** One turn: jobs in, one completion out. Begin it from a fresh macrotask (see `Barrier`). */
	activate(activation) {
		return new Promise((resolve) => this.#begin(activation, void 0, resolve));
	}
	/** The same call for recorded turns: their jobs go in, and what comes out must be what was recorded. */
	replay(turns) {
		const execution = this.#execution;
		this.#matcher = new Matcher(execution, turns, sameBy(this.#codec));
		return new Promise((resolve) => {
			let index = 0;
			let last = {
				status: "ok",
				commands: [],
				replies: []
			};
			const proceed = () => {
				for (let over = true; over;) {
					const turn = turns[index];
					if (last.status === "failed" || turn === void 0) {
						execution.matcher = void 0;
						execution.replaying = false;
						resolve(last);
						return;
					}
					over = false;
					let beginning = true;
					this.#begin(turn, index++, (completion) => {
						last = completion;
						if (beginning) over = true;
						else proceed();
					});
					beginning = false;
				}
			};
			proceed();
		});
	}
	#begin(activation, recorded, finish) {
		const execution = this.#execution;
		if (this.#finish !== void 0) {
			finish({
				status: "failed",
				error: new OutOfTurnError({
					unit: "(host)",
					call: "activate",
					pausedOn: "an activation that is not over"
				})
			});
			return;
		}
		if (activation.jobs.length > 0 && activation.jobs.every((job) => job.type === "evict")) {
			execution.drop();
			finish({
				status: "ok",
				commands: [],
				replies: []
			});
			return;
		}
		this.#finish = finish;
		this.#activation = activation;
		execution.commands = [];
		execution.replies = [];
		execution.turnState = void 0;
		execution.historyLength = activation.historyLength ?? this.#records;
		this.#timeBefore = execution.time;
		if (activation.time > execution.time) execution.time = activation.time;
		execution.replaying = recorded !== void 0 || activation.replaying === true;
		execution.matcher = recorded === void 0 ? void 0 : this.#matcher;
		this.#stopwatch?.restart();
		if (execution.poison !== void 0) return this.#complete();
		if (activation.jobs.length > 0 && activation.jobs.every((job) => job.type === "query")) {
			this.#answerQueries();
			return this.#complete();
		}
		try {
			if (recorded !== void 0) execution.matcher?.beginTurn(recorded);
			else this.#leaveReplay();
			for (const job of activation.jobs) this.#apply(job);
			this.#advance();
		} catch (error) {
			this.#fault(error);
		}
	}
	/** X6: what a codec throws, or this code itself, fails the turn; it never leaves it open, nor harms runs that share its tick. */
	#fault(error) {
		this.#execution.violate(toError(error));
		this.#complete();
	}
	/** The first live turn after a replay. */
	#leaveReplay() {
		const matcher = this.#matcher;
		if (matcher === void 0) return;
		this.#matcher = void 0;
		this.#execution.commands.push(...matcher.takeCarried());
		this.#execution.turnState = matcher.publishedState;
		matcher.finish();
	}
	#apply(job) {
		const execution = this.#execution;
		switch (job.type) {
			case "start":
				this.#start(job);
				break;
			case "resolve": {
				const operation = execution.operations.get(job.seq);
				if (operation !== void 0) operation.behaviour.outcome?.(operation, job.outcome);
				else if (execution.matcher?.passJob(job) !== true) {
					execution.salvage?.resolved(job.seq, job.outcome);
					childEnded(execution, job.seq, job.outcome);
				}
				break;
			}
			case "fire": {
				const operation = execution.operations.get(job.seq);
				if (operation?.kind === "sleep") operation.behaviour.fire?.(operation);
				else if (operation !== void 0) execution.mailbox.add({
					type: "fire",
					seq: job.seq
				});
				else if (execution.matcher?.passJob(job) !== true) execution.salvage?.resolved(job.seq, {
					status: "completed",
					value: execution.nothing
				});
				break;
			}
			case "childStarted": {
				const operation = execution.operations.get(job.seq);
				if (operation !== void 0) operation.behaviour.childStarted?.(operation, job.runId);
				else if (execution.matcher?.passJob(job) !== true) execution.salvage?.childStarted(job.seq, job.runId);
				break;
			}
			case "signal":
				if (job.refused === void 0) execution.mailbox.add({
					type: "signal",
					id: job.id,
					name: job.name,
					payload: job.payload
				});
				else execution.log("warn", `Signal "${job.name}" was refused by its schema and is delivered to nobody: ${job.refused}`);
				break;
			case "update":
				execution.mailbox.add({
					type: "update",
					id: job.id,
					name: job.name,
					input: job.input,
					validate: job.validate ?? true,
					accepted: false
				});
				break;
			case "query": break;
			case "cancel":
				this.#cancel(job.reason);
				break;
			case "patch":
				execution.notifiedPatches.add(job.id);
				break;
			case "seed":
				execution.reseed(job.seed);
				break;
			case "expire":
				execution.matcher?.catchUp();
				expire(execution, job);
				break;
			case "resume": execution.attempt = job.attempt;
		}
	}
	#start(job) {
		const execution = this.#execution;
		execution.start = job;
		execution.seed = job.seed;
		execution.attempt = job.attempt ?? 1;
		const { run, options } = execution.workflow;
		const schema = options.output;
		execution.root = execution.spawn({
			role: "root",
			path: "",
			parent: void 0,
			order: [],
			run: async (unit) => {
				const output = await run(new Context(unit), execution.codec.decode(job.input));
				return schema === void 0 || output === execution.continuation ? output : validatedOutput(execution.workflow, schema, output);
			},
			onEnd: (outcome) => rootEnded(execution, outcome)
		});
	}
	#cancel(reason) {
		const execution = this.#execution;
		if (execution.cancelRequested !== void 0 || execution.closed || execution.root?.over === true) return;
		execution.cancelRequested = new CanceledError(reason);
		execution.cancelReason = reason;
		execution.root?.cancel(execution.cancelRequested);
	}
	#answerQueries() {
		for (const job of this.#activation.jobs) if (job.type === "query") this.#answer(job);
	}
	#answer(job) {
		const execution = this.#execution;
		try {
			const value = execution.encode(this.query(job.name, this.#codec.decode(job.args)), `the answer to query ${job.name}`);
			execution.replies.push({
				type: "answerQuery",
				id: job.id,
				value
			});
		} catch (error) {
			execution.replies.push({
				type: "failQuery",
				id: job.id,
				error: serializeError(error)
			});
		}
	}
	#advance() {
		const execution = this.#execution;
		while (execution.poison === void 0) {
			const unit = execution.scheduler.take();
			if (unit !== void 0) {
				execution.current = unit;
				this.#barrier(this.#stepEnded);
				execution.watch?.enter(execution);
				this.#stopwatch?.take();
				unit.step();
				if (this.#stopwatch !== void 0) queueMicrotask(this.#stopwatch.take);
				return;
			}
			if (execution.closed) break;
			if (execution.matcher?.catchUp() === true) continue;
			if (execution.mailbox.takeNext()) continue;
			if (execution.conditions.settleNext()) continue;
			break;
		}
		if (execution.poison === void 0) {
			execution.mailbox.closeTurn();
			execution.matcher?.endTurn();
			this.#answerQueries();
			this.#checkTime(execution.root);
		}
		this.#complete();
	}
	#stepEnded = () => {
		const execution = this.#execution;
		const unit = execution.current;
		execution.watch?.leave(execution);
		execution.current = void 0;
		try {
			execution.stepEnded(unit);
			this.#checkTime(unit);
			this.#advance();
		} catch (error) {
			this.#fault(error);
		}
	};
	/** X9. */
	#checkTime(unit) {
		if (this.#stopwatch === void 0) return;
		this.#stopwatch.take();
		const elapsed = this.#stopwatch.spent;
		if (elapsed <= this.#turnTimeout) return;
		const location = [...unit?.open ?? []].at(-1)?.location ?? unit?.title ?? "";
		this.#execution.violate(new TurnTimeoutError({
			elapsed,
			limit: this.#turnTimeout,
			location
		}));
	}
	#complete() {
		const execution = this.#execution;
		const finish = this.#finish;
		const activation = this.#activation;
		this.#finish = void 0;
		this.#activation = NO_ACTIVATION;
		execution.current = void 0;
		if (execution.poison !== void 0) {
			finish?.({
				status: "failed",
				error: execution.poison
			});
			return;
		}
		const { commands, replies, turnState } = execution;
		const replayed = activation.commands?.length ?? 0;
		const records = recordedJobs(activation.jobs, replies).length + commands.length + replayed;
		this.#records = execution.historyLength + records;
		if (records === 0) execution.time = this.#timeBefore;
		const { time } = execution;
		if (turnState === void 0 && time <= activation.time) finish?.({
			status: "ok",
			commands,
			replies
		});
		else finish?.({
			status: "ok",
			commands,
			replies,
			...turnState !== void 0 && { state: turnState },
			...time > activation.time && { time }
		});
	}
	/** What to run for a step, transaction, rollback or scheduled side effect that is open. */
	body(seq) {
		return this.#execution.operations.get(seq)?.body;
	}
	/** Numbers of the operations that are open. */
	get openOperations() {
		return [...this.#execution.operations.keys()];
	}
	/** What the run waits for, in words: `step charge`, `signal approve`. Scopes are left out: what is inside them tells more. */
	get waiting() {
		return [...this.#execution.operations.values()].filter((operation) => !SCOPES.has(operation.kind)).map(({ seq, description }) => ({
			seq,
			description
		}));
	}
	get waitingFor() {
		return this.waiting.map(({ description }) => description);
	}
	/** Completed steps whose rollback would run if the run failed now. */
	get rollbacks() {
		return this.#execution.saga.size;
	}
	/** A value as this run records it: within its limits (P8, P9). */
	encode(value, what) {
		return this.#execution.encode(value, what);
	}
	/** The last published state. */
	get state() {
		return this.#execution.state;
	}
	/** A terminal command was emitted. */
	get closed() {
		return this.#execution.closed;
	}
	/** After a replay: activate it even without jobs; changed code has freed it (V3) or it is being resumed (D10). */
	get hasWork() {
		return this.#matcher?.hasWork ?? false;
	}
	/** A rule was broken between turns: the next turn will fail with this (X7). */
	get violation() {
		return this.#execution.poison;
	}
	/** M11: evaluated on the last published state; advances nothing. */
	query(name, args) {
		return evaluateQuery(this.#execution.workflow, name, this.#execution.state, args, this.#codec);
	}
};
// packages/core/src/history/check.ts
const text = (value) => typeof value === "string";
const number = (value) => typeof value === "number" && Number.isFinite(value);
const payload = (value) => typeof value === "string" || value instanceof Uint8Array;
const list = (item) => (value) => Array.isArray(value) && value.every(item);
const optional = (check) => (value) => value === void 0 || check(value);
const record = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const has = (fields) => (value) => record(value) && wrongField(value, fields) === void 0;
const error = has({
	name: text,
	message: text
});
const OUTCOMES = {
	completed: has({ value: payload }),
	failed: has({ error }),
	canceled: record
};
const outcome = (value) => {
	const status = value?.status;
	return typeof status === "string" && Object.hasOwn(OUTCOMES, status) && OUTCOMES[status]?.(value) === true;
};
const MESSAGES = {
	signal: has({
		id: text,
		name: text,
		payload
	}),
	update: has({
		id: text,
		name: text,
		input: payload
	}),
	fire: has({ seq: number })
};
const message = (value) => {
	const type = value?.type;
	return typeof type === "string" && Object.hasOwn(MESSAGES, type) && MESSAGES[type]?.(value) === true;
};
const JOBS = {
	start: {
		runId: text,
		workflow: text,
		input: payload,
		seed: text,
		startedAt: number
	},
	resolve: {
		seq: number,
		outcome
	},
	fire: { seq: number },
	childStarted: {
		seq: number,
		runId: text
	},
	signal: {
		id: text,
		name: text,
		payload
	},
	update: {
		id: text,
		name: text,
		input: payload
	},
	cancel: {},
	patch: { id: text },
	seed: { seed: text },
	expire: { error },
	resume: {
		attempt: number,
		voids: list(number)
	}
};
const OPENING = {
	seq: number,
	unit: text,
	name: text,
	n: number
};
const COMMANDS = {
	step: OPENING,
	transaction: OPENING,
	activity: {
		...OPENING,
		input: payload
	},
	child: {
		...OPENING,
		input: payload,
		id: text
	},
	sleep: OPENING,
	signalRun: {
		...OPENING,
		payload
	},
	cancelRun: OPENING,
	rollback: {
		...OPENING,
		of: number
	},
	sideEffect: {
		...OPENING,
		value: optional(payload),
		error: optional(error)
	},
	signal: {
		...OPENING,
		names: list(text)
	},
	childResult: {
		...OPENING,
		child: number
	},
	condition: OPENING,
	ivar: OPENING,
	updateState: OPENING,
	parallel: {
		...OPENING,
		branches: number
	},
	join: {
		...OPENING,
		keys: list(text)
	},
	race: {
		...OPENING,
		keys: list(text)
	},
	try: OPENING,
	shield: OPENING,
	loop: OPENING,
	receive: OPENING,
	refuse: {
		...OPENING,
		kind: text,
		error
	},
	reuse: {
		...OPENING,
		kind: text
	},
	patch: OPENING,
	rollbackCheckpoint: OPENING,
	attributes: {
		...OPENING,
		attributes: record
	},
	settle: {
		seq: number,
		status: text,
		messages: optional(list(text))
	},
	winner: {
		seq: number,
		key: text
	},
	cancel: { seq: number },
	dispatch: {
		seq: number,
		unit: text,
		message: text
	},
	acceptUpdate: {
		seq: number,
		id: text
	},
	completeUpdate: {
		seq: number,
		id: text,
		status: text,
		value: optional(payload),
		error: optional(error)
	},
	handlerFailed: {
		seq: number,
		unit: text,
		error
	},
	commit: {
		seq: number,
		unit: text,
		count: number,
		value: payload,
		state: optional(payload),
		messages: optional(list(message)),
		lastSeq: number,
		rollbacks: optional(list(number))
	},
	rollBack: { error },
	complete: { value: payload },
	fail: { error },
	canceled: {},
	continueAsNew: { input: payload }
};
const TURN = {
	index: number,
	time: number,
	jobs: Array.isArray,
	commands: Array.isArray
};
function checkTurn(value, i) {
	const path = `turns[${i}]`;
	if (!record(value)) throw malformed("A turn is an object.", path);
	const field = wrongField(value, TURN);
	if (field !== void 0) throw malformed("A turn has an index, a time, jobs and commands.", `${path}.${field}`);
	const turn = value;
	for (const [at, job] of turn.jobs.entries()) checkEntry("job", job, JOBS, `${path}.jobs[${at}]`);
	for (const [at, command] of turn.commands.entries()) checkEntry("command", command, COMMANDS, `${path}.commands[${at}]`);
	return turn;
}
function checkEntry(kind, entry, shapes, path) {
	const type = entry?.type;
	if (typeof type !== "string" || !Object.hasOwn(shapes, type)) throw malformed(`Unknown ${kind} ${JSON.stringify(entry)?.slice(0, 80)}.`, path);
	const field = wrongField(entry, shapes[type] ?? {});
	if (field !== void 0) throw malformed(`The ${kind} "${type}" has no valid ${field}.`, `${path}.${field}`);
}
/** The first field that is missing or of another kind than it should be. */
function wrongField(entry, fields) {
	const values = entry;
	return Object.keys(fields).find((field) => fields[field]?.(values[field]) !== true);
}
function malformed(message, path) {
	return new InvalidInputError({
		what: "history",
		issues: [path === void 0 ? { message } : {
			message,
			path: [path]
		}]
	});
}
// packages/core/src/history/portable.ts
const HISTORY_FORMAT = "holdfast-history/1";
function toHistory(turns, status) {
	const start = turns[0]?.jobs.find((job) => job.type === "start");
	return {
		format: HISTORY_FORMAT,
		run: {
			id: start?.runId ?? "",
			workflow: start?.workflow ?? "",
			version: start?.version,
			input: start === void 0 ? void 0 : payloadToJson(start.input),
			status
		},
		turns: turns.map((turn) => mapPayloads(turn, (value) => payloadToJson(value)))
	};
}
function fromHistory(history) {
	if (typeof history !== "object" || history === null || history.format !== "holdfast-history/1") throw malformed(`Its format is ${JSON.stringify(history?.format)}, not "${HISTORY_FORMAT}".`);
	if (typeof history.run !== "object" || history.run === null) throw malformed("It does not say of which run it is.", "run");
	if (!Array.isArray(history.turns)) throw malformed("It has no list of turns.", "turns");
	return Array.from(history.turns, (turn, i) => checkTurn(mapPayloads(turn, (value) => payloadFromJson(value)), i));
}
/** Copies a tree of records; payload fields pass through `convert`. Errors are kept as they are: their `data` is their own. */
function mapPayloads(tree, convert) {
	if (Array.isArray(tree)) return Array.from(tree, (item) => mapPayloads(item, convert));
	if (typeof tree !== "object" || tree === null || tree instanceof Uint8Array) return tree;
	const copy = {};
	for (const [key, value] of Object.entries(tree)) {
		if (value === void 0) continue;
		if (PAYLOAD_FIELDS.has(key)) copy[key] = convert(value);
		else if (key === "error" || key === "rollbackError" || key === "attributes") copy[key] = value;
		else copy[key] = mapPayloads(value, convert);
	}
	return copy;
}
// packages/core/src/history/view.ts
function replayView(turns) {
	return fromCommits(withoutVoided(turns));
}
function withoutVoided(turns) {
	let result = [...turns];
	for (let i = 0; i < turns.length; i++) for (const job of turns[i]?.jobs ?? []) if (job.type === "resume") result = applyVoid(result, i, job);
	return result;
}
function applyVoid(turns, resume, { voids, attempt }) {
	const result = [...turns];
	const end = result.findLastIndex((turn, i) => i < resume && turn.commands.some((command) => command.type === "fail"));
	if (end < 0) return result;
	let first = end;
	for (const seq of voids) {
		const isFailure = (job) => job.type === "resolve" && job.seq === seq && job.outcome.status !== "completed";
		const at = result.findLastIndex((turn, i) => i <= end && turn.jobs.some(isFailure));
		const turn = result[at];
		if (turn === void 0) continue;
		result[at] = {
			...turn,
			jobs: turn.jobs.filter((job) => !isFailure(job))
		};
		first = Math.min(first, at);
	}
	if (voids.length === 0 && result[end]?.jobs.some((job) => job.type === "resume")) while (result[first - 1]?.voided !== void 0) first--;
	for (let i = first; i <= end; i++) {
		const turn = result[i];
		const commands = i === end ? turn.commands.filter((command) => command.type !== "fail") : turn.commands;
		const { voided } = turn;
		const seqs = voided === void 0 ? voids : [...voided.seqs, ...voids];
		result[i] = {
			...turn,
			commands,
			voided: {
				seqs,
				free: voids.length === 0 || voided?.free === true,
				attempt
			}
		};
	}
	return result;
}
function fromCommits(turns) {
	const last = /* @__PURE__ */ new Map();
	for (const turn of turns) for (const command of turn.commands) if (command.type === "commit") last.set(command.seq, command);
	let result = [...turns];
	for (const commit of last.values()) {
		if (!result.some((turn) => turn.commands.includes(commit))) continue;
		const ids = /* @__PURE__ */ new Set();
		const timers = /* @__PURE__ */ new Set();
		const jobs = result.find((turn) => turn.commands.includes(commit))?.jobs ?? [];
		for (const message of commit.messages ?? []) if (message.type !== "fire" && !jobs.some((job) => job.type === message.type && job.id === message.id)) ids.add(message.id);
		else if (message.type === "fire" && !jobs.some((job) => job.type === "fire" && job.seq === message.seq)) timers.add(message.seq);
		result = forget(withMark(result, commit), commit, (unit) => isWithin(unit, commit.unit), ids, timers);
	}
	return result;
}
/** Tells the scope, where it opens, that nothing of it runs before its commit is reached. */
function withMark(turns, commit) {
	const mark = (command) => (command.type === "loop" || command.type === "receive") && command.seq === commit.seq ? {
		...command,
		committed: true
	} : command;
	return turns.map((turn) => turn.commands.some((one) => "seq" in one && one.seq === commit.seq) ? {
		...turn,
		commands: turn.commands.map(mark)
	} : turn);
}
// packages/core/src/history/replay.ts
/** Runs the code against the history; throws `NondeterminismError` where they part. No effect, no store. */
async function replay(workflow, history, options = {}) {
	const turns = fromHistory(history);
	if (history.run.workflow !== workflow.name) throw new InvalidInputError({
		what: "replay",
		issues: [{
			message: `The history is of workflow "${history.run.workflow}", the code of "${workflow.name}".`,
			path: ["run", "workflow"]
		}]
	});
	const executor = new Executor({
		workflow,
		codec: options.codec ?? jsonCodec
	});
	const completion = await executor.replay(replayView(turns));
	if (completion.status === "failed") throw completion.error;
	await executor.activate({
		time: 0,
		jobs: [{
			type: "evict",
			reason: "replay is over"
		}]
	});
}
// packages/holdfast/src/host/committer.ts
/** Gathers items and hands them over in batches, one batch at a time. */
var Batcher = class {
	#environment;
	#write;
	#waiting = [];
	#busy = false;
	#scheduled = false;
	constructor(environment, write) {
		this.#environment = environment;
		this.#write = write;
	}
	add(item) {
		return new Promise((resolve, reject) => {
			this.#waiting.push({
				item,
				resolve,
				reject
			});
			this.#schedule();
		});
	}
	/** Nothing waits and nothing is being written. */
	get idle() {
		return !this.#busy && this.#waiting.length === 0;
	}
	#schedule() {
		if (this.#busy || this.#scheduled) return;
		this.#scheduled = true;
		this.#environment.soon(() => {
			this.#scheduled = false;
			this.#flush();
		});
	}
	async #flush() {
		const batch = this.#waiting;
		if (batch.length === 0) return;
		this.#waiting = [];
		this.#busy = true;
		try {
			const results = await this.#write(batch.map(({ item }) => item));
			for (const [i, { resolve }] of batch.entries()) resolve(results[i]);
		} catch (error) {
			for (const { reject } of batch) reject(error);
		} finally {
			this.#busy = false;
			if (this.#waiting.length > 0) this.#schedule();
		}
	}
};
var Committer = class {
	#turns;
	#runs;
	constructor(store, environment) {
		this.#turns = new Batcher(environment, (turns) => store.commit(turns));
		this.#runs = new Batcher(environment, (runs) => store.create(runs));
	}
	get idle() {
		return this.#turns.idle && this.#runs.idle;
	}
	commit(turn) {
		return this.#turns.add(turn);
	}
	create(run) {
		return this.#runs.add(run);
	}
};
// packages/holdfast/src/host/results.ts
const ENDED = /* @__PURE__ */ new Set([
	"completed",
	"failed",
	"canceled",
	"terminated",
	"blocked"
]);
/** A look at everything may take this share of the time. */
const SHARE = .1;
var Results = class {
	#store;
	#environment;
	#logger;
	#awaited = /* @__PURE__ */ new Map();
	/** Waited for and never looked up. */
	#fresh = /* @__PURE__ */ new Set();
	#freshScheduled = false;
	#looking = 0;
	#nextLook = 0;
	#lookScheduled = false;
	#closed = false;
	constructor(store, environment, logger) {
		this.#store = store;
		this.#environment = environment;
		this.#logger = logger;
	}
	get waiting() {
		return this.#awaited.size > 0;
	}
	get busy() {
		return this.#looking > 0 || this.#freshScheduled || this.#lookScheduled;
	}
	end(runId, options) {
		return this.#wait(runId, void 0, `The result of run ${runId}`, options);
	}
	update(runId, id, options) {
		return this.#wait(runId, id, `The reply to update ${id} of run ${runId}`, options);
	}
	async #wait(runId, update, what, options) {
		const { timeout, signal } = options;
		signal?.throwIfAborted();
		const key = keyOf(runId, update);
		const awaited = this.#awaited.get(key) ?? {
			runId,
			update,
			waiters: /* @__PURE__ */ new Set()
		};
		this.#awaited.set(key, awaited);
		const alive = this.#environment.stayAlive();
		let timer;
		let stop;
		try {
			return await new Promise((resolve, reject) => {
				const waiter = {
					resolve,
					reject
				};
				const onAbort = () => reject(signal?.reason);
				awaited.waiters.add(waiter);
				signal?.addEventListener("abort", onAbort);
				stop = () => {
					awaited.waiters.delete(waiter);
					signal?.removeEventListener("abort", onAbort);
				};
				if (timeout !== void 0) timer = this.#environment.after(timeout, () => reject(tooLate(what, timeout)));
				this.#lookAtFresh(key);
			});
		} finally {
			alive.cancel();
			timer?.cancel();
			stop?.();
			if (awaited.waiters.size === 0 && this.#awaited.get(key) === awaited) this.#awaited.delete(key);
		}
	}
	close() {
		this.#closed = true;
		const error = new HoldfastError("The engine was closed while something waited for it.", { code: "HF_ENGINE_CLOSED" });
		for (const { waiters } of this.#awaited.values()) for (const waiter of waiters) waiter.reject(error);
	}
	tellEnd(end) {
		for (const waiter of this.#awaited.get(keyOf(end.id, void 0))?.waiters ?? []) waiter.resolve(end);
	}
	tellUpdate(runId, id, outcome) {
		for (const waiter of this.#awaited.get(keyOf(runId, id))?.waiters ?? []) waiter.resolve(outcome);
	}
	/** What is newly waited for may have ended before. */
	#lookAtFresh(key) {
		this.#fresh.add(key);
		if (this.#freshScheduled) return;
		this.#freshScheduled = true;
		this.#environment.soon(() => {
			this.#freshScheduled = false;
			const keys = this.#fresh;
			this.#fresh = /* @__PURE__ */ new Set();
			this.#lookAt([...keys].flatMap((one) => this.#awaited.get(one) ?? []));
		});
	}
	/** Something may have ended. A crowd of waiters is looked at less often, so that looking never takes more than its share. */
	look() {
		if (this.#lookScheduled || this.#closed || this.#awaited.size === 0) return;
		this.#lookScheduled = true;
		const run = async () => {
			this.#lookScheduled = false;
			const start = this.#environment.elapsed();
			await this.#lookAt([...this.#awaited.values()]);
			const end = this.#environment.elapsed();
			this.#nextLook = end + (end - start) / SHARE;
		};
		const wait = this.#nextLook - this.#environment.elapsed();
		if (wait < 1) this.#environment.soon(() => void run());
		else this.#environment.after(wait, () => void run());
	}
	async #lookAt(awaited) {
		if (this.#closed || awaited.length === 0) return;
		this.#looking++;
		try {
			await Promise.all([this.#lookAtRuns(awaited.filter(({ update }) => update === void 0)), this.#lookAtUpdates(awaited)]);
		} catch (error) {
			if (!this.#closed) this.#logger.error("Results could not be looked up; trying again.", { error });
		} finally {
			this.#looking--;
		}
	}
	async #lookAtRuns(awaited) {
		if (awaited.length === 0) return;
		const rows = await this.#store.get(awaited.map(({ runId }) => runId));
		for (const [i, { runId, waiters }] of awaited.entries()) {
			const row = rows[i];
			for (const waiter of waiters) if (row === void 0) waiter.reject(new RunNotFoundError({ runId }));
			else if (ENDED.has(row.status)) waiter.resolve(row);
		}
	}
	async #lookAtUpdates(all) {
		const awaited = all.flatMap(({ runId, update, waiters }) => update === void 0 ? [] : {
			runId,
			id: update,
			waiters
		});
		if (awaited.length === 0) return;
		const outcomes = await this.#store.updates(awaited.map(({ runId, id }) => ({
			runId,
			id
		})));
		const unanswered = [];
		for (const [i, one] of awaited.entries()) {
			const outcome = outcomes[i];
			if (outcome === void 0) unanswered.push(one);
			else for (const waiter of one.waiters) waiter.resolve(outcome);
		}
		await this.#lookAtClosed(unanswered);
	}
	/** An update whose run has closed without answering it never will (a deadline, a termination). */
	async #lookAtClosed(awaited) {
		if (awaited.length === 0) return;
		const rows = await this.#store.get(awaited.map(({ runId }) => runId));
		const closed = awaited.flatMap((one, i) => {
			const status = rows[i]?.status ?? "terminated";
			return ENDED.has(status) && status !== "blocked" ? [{
				...one,
				status
			}] : [];
		});
		if (closed.length === 0) return;
		const outcomes = await this.#store.updates(closed.map(({ runId, id }) => ({
			runId,
			id
		})));
		for (const [i, { runId, status, waiters }] of closed.entries()) {
			const outcome = outcomes[i];
			for (const waiter of waiters) if (outcome === void 0) waiter.reject(new RunClosedError({
				runId,
				status
			}));
			else waiter.resolve(outcome);
		}
	}
};
function keyOf(runId, update) {
	return update === void 0 ? runId : `${runId}\n${update}`;
}
function tooLate(what, timeout) {
	return new HoldfastError(`${what} did not come within ${timeout} ms. It may still come: ask again.`, {
		code: "HF_WAIT_TIMEOUT",
		retryable: true
	});
}
// packages/holdfast/src/host/activities.ts
var ActivityRunner = class {
	#options;
	#answers;
	#running = /* @__PURE__ */ new Map();
	#claiming = false;
	#again = false;
	#stopped = false;
	#alarm;
	#onIdle;
	constructor(options) {
		this.#options = options;
		this.#answers = new Batcher(options.environment, (answers) => options.store.answerTasks(answers));
	}
	get active() {
		return this.#running.size;
	}
	get busy() {
		return this.#claiming || this.#running.size > 0;
	}
	/** Claims what there is room for. Called on wake-ups, freed slots, and now and then. */
	async poll() {
		const { store, workerId, queue, activities, concurrency, lease, environment, logger } = this.#options;
		if (this.#stopped || activities.size === 0) return;
		if (this.#claiming) {
			this.#again = true;
			return;
		}
		const room = concurrency - this.#running.size;
		if (room <= 0) return;
		this.#claiming = true;
		try {
			const { now, tasks, nextAt } = await store.claimTasks({
				workerId,
				queue,
				activities: [...activities.keys()],
				limit: room,
				lease
			});
			for (const task of tasks) this.#run(task);
			this.#alarm?.cancel();
			if (nextAt !== void 0) this.#alarm = environment.after(nextAt - now, () => void this.poll());
			if (tasks.length === room) this.#again = true;
		} catch (error) {
			logger.error("Activities could not be claimed; trying again.", { error });
		} finally {
			this.#claiming = false;
		}
		if (this.#again) {
			this.#again = false;
			this.poll();
		}
	}
	async #run(task) {
		const { codec, encode, environment, activities } = this.#options;
		const running = {
			task,
			controller: new AbortController(),
			timer: void 0,
			details: void 0
		};
		this.#running.set(task.id, running);
		this.#scheduleHeartbeat(running);
		let outcome;
		try {
			const activity = activities.get(task.activity);
			if (activity === void 0) throw new HoldfastError(`No activity "${task.activity}" here.`, { code: "HF_UNKNOWN_ACTIVITY" });
			const info = {
				attempt: task.attempt,
				idempotencyKey: `${task.runId}/${task.execution === 1 ? "" : `~${task.execution}/`}${task.location}`,
				signal: running.controller.signal,
				heartbeat: (details) => {
					running.details = encode(details, `what activity ${task.activity} reports`);
					this.#heartbeat(running);
				},
				lastHeartbeat: task.lastHeartbeat === void 0 ? void 0 : codec.decode(task.lastHeartbeat)
			};
			outcome = {
				status: "completed",
				value: encode(await (this.#options.replace(task.activity) ?? activity.run)(codec.decode(task.input), info), `the result of activity ${task.activity}`)
			};
		} catch (error) {
			const policy = activities.get(task.activity)?.options.retry;
			const named = task.retry.nonRetryable === void 0 ? void 0 : { nonRetryable: task.retry.nonRetryable };
			const retryable = isRetryable(error, policy) && isRetryable(error, named);
			outcome = {
				status: "failed",
				error: serializeError(error),
				retryable,
				random: environment.random()
			};
		}
		if (this.#running.get(task.id) !== running) return;
		await this.#answer(running, outcome);
		this.#end(running);
	}
	async #answer({ task }, outcome) {
		try {
			await this.#answers.add({
				id: task.id,
				token: task.token,
				outcome
			});
		} catch (error) {
			this.#options.logger.error(`The outcome of activity ${task.activity} could not be stored.`, {
				runId: task.runId,
				error
			});
		}
	}
	#end(running) {
		running.timer?.cancel();
		this.#running.delete(running.task.id);
		if (this.#running.size === 0) this.#onIdle?.();
		this.poll();
	}
	/** The lease is renewed while the code runs, unless the activity promised heartbeats of its own: then they are what renews it. */
	#scheduleHeartbeat(running) {
		const { environment, lease } = this.#options;
		running.timer = environment.after(Math.max(10, lease / 3), () => {
			this.#heartbeat(running);
			this.#scheduleHeartbeat(running);
		});
	}
	async #heartbeat(running) {
		const { store, lease } = this.#options;
		const { task, details } = running;
		running.details = void 0;
		try {
			const [held] = await store.heartbeat([{
				id: task.id,
				token: task.token,
				lease,
				details
			}]);
			if (held !== false || this.#running.get(task.id) !== running) return;
		} catch {
			return;
		}
		running.controller.abort(new HoldfastError("This attempt is over: canceled, timed out, or another worker has it.", { code: "HF_ATTEMPT_OVER" }));
		this.#end(running);
	}
	/** W4: claims nothing more; what runs may finish within the grace period. */
	async stop(grace) {
		this.#stopped = true;
		this.#alarm?.cancel();
		if (this.#running.size > 0) await new Promise((resolve) => {
			this.#onIdle = resolve;
			this.#options.environment.after(grace, resolve);
		});
		const reason = new HoldfastError("The worker is shutting down.", { code: "HF_SHUTDOWN" });
		for (const running of [...this.#running.values()]) {
			running.controller.abort(reason);
			running.timer?.cancel();
			this.#running.delete(running.task.id);
		}
	}
};
// packages/holdfast/src/host/definitions.ts
/** A list, or the exports of a module: values of other kinds are passed over. */
function byName(what, given, is) {
	const all = Array.isArray(given) ? given : Object.values(given);
	const found = /* @__PURE__ */ new Map();
	for (const value of all) {
		if (!is(value)) {
			if (Array.isArray(given)) throw invalid$2(what, `${String(value)} is none.`);
			continue;
		}
		if (found.has(value.name) && found.get(value.name) !== value) throw invalid$2(what, `There are two of the name "${value.name}".`);
		found.set(value.name, value);
	}
	return found;
}
function invalid$2(what, message) {
	return new InvalidInputError({
		what,
		issues: [{ message }]
	});
}
function isWorkflow(value) {
	return typeof value === "object" && value !== null && "run" in value && "options" in value && typeof value.options === "object" && "version" in value;
}
function isActivity(value) {
	return typeof value === "object" && value !== null && "run" in value && "options" in value && !("version" in value);
}
const codes = /* @__PURE__ */ new WeakMap();
/** Tells code from other code. Not secure, not complete (helpers it calls are not in it): enough to try a blocked run again. */
function codeOf(workflow) {
	let code = codes.get(workflow);
	if (code === void 0) {
		code = createHash("sha256").update(workflow.version ?? "").update(workflow.run.toString()).digest("hex").slice(0, 16);
		codes.set(workflow, code);
	}
	return code;
}
/** The value as the schema has it; throws InvalidInputError with every issue. */
async function validated(what, schema, value) {
	if (schema === void 0) return value;
	const result = await schema["~standard"].validate(value);
	if (result.issues === void 0) return result.value;
	throw new InvalidInputError({
		what,
		issues: result.issues.map(({ message, path }) => path === void 0 ? { message } : {
			message,
			path: path.map((part) => typeof part === "object" ? part.key : part)
		})
	});
}
async function validatedSignal(workflow, job, codec) {
	if (job.type !== "signal") return job;
	const spec = workflow.options.signals?.[job.name];
	if (spec?.schema === void 0) return job;
	try {
		await validated(`signal ${job.name}`, spec.schema, codec.decode(job.payload));
		return job;
	} catch (error) {
		return {
			...job,
			refused: error instanceof Error ? error.message : String(error)
		};
	}
}
// packages/holdfast/src/host/attempts.ts
/** What a body returns whose outcome is durable already: a transaction's, as a message in the inbox (D6). */
var Recorded = class {
	message;
	constructor(message) {
		this.message = message;
	}
};
var Attempts = class {
	#options;
	#inFlight = /* @__PURE__ */ new Map();
	constructor(options) {
		this.#options = options;
	}
	/** Attempts that somebody waits for. */
	get size() {
		return this.#inFlight.size;
	}
	has(seq) {
		return this.#inFlight.has(seq);
	}
	start(seq, body, number, forgiven, idempotencyKey) {
		const { environment, now } = this.#options;
		const attempt = {
			seq,
			number,
			forgiven,
			startedAt: now(),
			body,
			controller: new AbortController(),
			timer: void 0,
			dropped: false
		};
		this.#inFlight.set(seq, attempt);
		if (body.timeout !== void 0) {
			const { timeout } = body;
			attempt.timer = environment.after(timeout, () => {
				const error = new StepTimeoutError({
					step: body.name,
					timeout,
					attempt: number
				});
				attempt.controller.abort(error);
				this.#failed(attempt, error);
			});
		}
		const info = {
			attempt: number,
			idempotencyKey,
			signal: attempt.controller.signal
		};
		const run = this.#options.replace?.(body.name) ?? body.run;
		Promise.resolve().then(() => run(info)).then((value) => this.#succeeded(attempt, value), (error) => this.#failed(attempt, error));
	}
	#take(attempt) {
		attempt.timer?.cancel();
		if (attempt.dropped || this.#inFlight.get(attempt.seq) !== attempt) return false;
		this.#inFlight.delete(attempt.seq);
		return true;
	}
	#succeeded(attempt, value) {
		if (!this.#take(attempt)) return;
		if (value instanceof Recorded) return this.#options.onEnd({
			type: "recorded",
			attempt,
			message: value.message
		});
		let outcome;
		try {
			outcome = {
				status: "completed",
				value: this.#options.encode(value, `the result of step ${attempt.body.name}`)
			};
		} catch (error) {
			outcome = {
				status: "failed",
				error: serializeError(error),
				attempts: attempt.number
			};
		}
		this.#options.onEnd({
			type: "settled",
			attempt,
			outcome
		});
	}
	#failed(attempt, error) {
		if (!this.#take(attempt)) return;
		const serialized = serializeError(error);
		const delay = retryAfter(attempt.body, attempt.number - attempt.forgiven, error, this.#options.environment.random());
		if (delay === void 0) this.#options.onEnd({
			type: "settled",
			attempt,
			outcome: {
				status: "failed",
				error: serialized,
				attempts: attempt.number
			}
		});
		else this.#options.onEnd({
			type: "retry",
			attempt,
			error: serialized,
			delay
		});
	}
	/** The workflow gave it up (C7), or with `join` only tells it. */
	cancel(seq, reason, join) {
		const attempt = this.#inFlight.get(seq);
		if (attempt === void 0) return;
		attempt.controller.abort(reason);
		if (!join) this.#drop(attempt);
	}
	/** The claim is lost or the run is over: nobody wants any of it. */
	abandonAll(reason) {
		for (const attempt of [...this.#inFlight.values()]) {
			attempt.controller.abort(reason);
			this.#drop(attempt);
		}
	}
	#drop(attempt) {
		attempt.dropped = true;
		attempt.timer?.cancel();
		this.#inFlight.delete(attempt.seq);
	}
};
/** Milliseconds until the next attempt after `attempt` of them; undefined if there is none. */
function retryAfter(body, attempt, error, random) {
	const policy = resolveRetry(body.retry, "operation");
	if (attempt >= policy.maxAttempts || !isRetryable(error, body.retry)) return void 0;
	return retryDelay(policy, attempt, random);
}
// packages/holdfast/src/host/guard.ts
/** Stacks that are looked at within one step of a unit: a loop that calls Math.random a million times must not take minutes. */
const MOST_LOOKS = 20;
/** Turns in which user code may be running right now, with the guards of their workers. */
const entered = /* @__PURE__ */ new Map();
const errors = /* @__PURE__ */ new WeakMap();
let muted = false;
let looks = 0;
var Guard = class {
	mode;
	logger;
	/** Call sites that were warned of. */
	warned = /* @__PURE__ */ new Set();
	#stopped = false;
	constructor(mode, logger) {
		this.mode = mode;
		this.logger = logger;
		if (guards++ === 0) install();
	}
	enter(turn) {
		looks = 0;
		entered.set(turn, this);
	}
	leave(turn) {
		entered.delete(turn);
	}
	stop() {
		if (this.#stopped) return;
		this.#stopped = true;
		if (--guards === 0) uninstall();
	}
};
/** A codec of the user's is called in turns, and is no workflow code: it may encrypt with random bytes. */
function unguardedCodec(codec) {
	if (codec === jsonCodec) return codec;
	return {
		encode: (value) => unguarded(() => codec.encode(value)),
		decode: (data) => unguarded(() => codec.decode(data))
	};
}
function unguarded(run) {
	const outer = muted;
	muted = true;
	try {
		return run();
	} finally {
		muted = outer;
	}
}
/** `trap` is the patch that was called: the stack begins above it. */
function caught(call, trap) {
	if (looks++ >= MOST_LOOKS && ![...entered.keys()].some((turn) => errors.has(turn))) return;
	const error = unguarded(() => report(call, trap));
	if (error !== void 0) throw error;
}
function report(call, trap) {
	const turns = [...entered];
	const before = turns.map(([turn]) => errors.get(turn)).find((error) => error !== void 0);
	if (before !== void 0) return before;
	const site = callSite(trap);
	if (site === void 0) return void 0;
	const message = `${callers(turns.map(([turn]) => turn))} ${call.what} at ${site}. Workflow code runs again in replay, where that gives something else. Use ${call.instead}.`;
	let error;
	for (const [turn, guard] of turns) if (guard.mode === "error") {
		error ??= new HoldfastError(message, { code: "HF_NONDETERMINISTIC_CALL" });
		errors.set(turn, error);
		turn.violate(error);
	} else if (!guard.warned.has(`${call.what} ${site}`)) {
		guard.warned.add(`${call.what} ${site}`);
		warn(guard.logger, message, turn);
	}
	return error;
}
/** A logger that fails must not be seen by the workflow. */
function warn(logger, message, turn) {
	try {
		logger.warn(message, {
			runId: turn.runId,
			workflow: turn.workflow.name
		});
	} catch {}
}
function callers(turns) {
	const names = turns.slice(0, 5).map(({ runId, workflow, current, closure }) => `"${workflow.name}" (run ${runId}, ${closure ?? current?.title ?? "root"})`);
	if (turns.length === 1) return `Workflow ${names[0]}`;
	return `One of the workflows ${names.join(", ")}${turns.length > names.length ? ` and ${turns.length - names.length} others` : ""}`;
}
const OUTSIDE_SOURCES = /^(?:node:|<anonymous>|native$)/;
/** Where this package lies, unless it was bundled with the user's code. */
const HOME = /^(.*[\\/](?:src|dist)[\\/])host[\\/]guard\.[jt]s$/.exec(pathOf(import.meta.url))?.[1];
/** The user's file and line, or undefined if it is not the user's code that calls: Node's own modules read the environment, too. */
function callSite(trap) {
	const frames = framesAbove(trap);
	const caller = frames.find((frame) => frame !== "<anonymous>");
	if (caller === void 0) return "a place without a source line";
	if (OUTSIDE_SOURCES.test(caller) || HOME !== void 0 && caller.startsWith(HOME)) return void 0;
	return frames.filter((frame) => !OUTSIDE_SOURCES.test(frame)).find((frame) => !/[\\/]node_modules[\\/]/.test(frame)) ?? caller;
}
function framesAbove(trap) {
	const holder = {};
	const limit = Error.stackTraceLimit;
	Error.stackTraceLimit = 20;
	Error.captureStackTrace(holder, trap);
	const { stack } = holder;
	Error.stackTraceLimit = limit;
	if (typeof stack !== "string") return [];
	return stack.split("\n").map((line) => /^\s+at (.*)$/.exec(line)?.[1]).filter((line) => line !== void 0).map((line) => pathOf(/\(([^()]*)\)$/.exec(line)?.[1] ?? line.replace(/^async /, "")));
}
/** Of a module or a frame: a path, whichever way it is written. */
function pathOf(url) {
	if (!url.startsWith("file:")) return url;
	const [, file = url, position = ""] = /^(.*?)((?::\d+)*)$/.exec(url) ?? [];
	return fileURLToPath(file) + position;
}
let guards = 0;
let patches = [];
/** What is the same function in two places stays the same. */
const wrapped = /* @__PURE__ */ new Map();
const NOW = "ctx.now(), the time of the turn";
const FILE = "ctx.step, or read the file before the run starts and pass what it holds as input";
function install() {
	wrap(Date, "now", {
		what: "calls Date.now()",
		instead: NOW
	});
	wrapDate();
	wrap(globalThis.performance, "now", {
		what: "calls performance.now()",
		instead: `${NOW}; measure inside of steps`
	});
	wrap(Math, "random", {
		what: "calls Math.random()",
		instead: "ctx.random()"
	});
	for (const owner of [globalThis.crypto, crypto]) {
		wrap(owner, "randomUUID", {
			what: "calls crypto.randomUUID()",
			instead: "ctx.uuid()"
		});
		wrap(owner, "getRandomValues", {
			what: "calls crypto.getRandomValues()",
			instead: "ctx.random(), or ctx.sideEffect for bytes"
		});
	}
	wrap(crypto, "randomBytes", {
		what: "calls crypto.randomBytes()",
		instead: "ctx.random(), or ctx.sideEffect for bytes"
	});
	for (const owner of [
		globalThis,
		timers,
		timersPromises
	]) {
		wrap(owner, "setTimeout", {
			what: "calls setTimeout()",
			instead: "ctx.sleep"
		});
		wrap(owner, "setInterval", {
			what: "calls setInterval()",
			instead: "ctx.loop with ctx.sleep in it"
		});
		wrap(owner, "setImmediate", {
			what: "calls setImmediate()",
			instead: "ctx.yield() to let other units go first"
		});
	}
	wrap(globalThis, "fetch", {
		what: "calls fetch()",
		instead: "ctx.step, with the call inside of it"
	});
	for (const key of [
		"readFileSync",
		"existsSync",
		"statSync",
		"readdirSync"
	]) wrap(fs, key, {
		what: `calls fs.${key}()`,
		instead: FILE
	});
	wrapEnvironment();
	syncBuiltinESMExports();
}
/** Only what is still ours is taken back: what others have patched since is theirs. */
function uninstall() {
	for (const { owner, key, original, value } of patches.reverse()) if (Object.getOwnPropertyDescriptor(owner, key)?.value === value) Object.defineProperty(owner, key, original);
	patches = [];
	wrapped.clear();
	syncBuiltinESMExports();
}
function patch(owner, key, make) {
	const original = Object.getOwnPropertyDescriptor(owner, key);
	if (original?.configurable !== true || original.value === void 0 || original.value === null) return;
	const value = make(original.value);
	Object.defineProperty(owner, key, {
		...original,
		value
	});
	patches.push({
		owner,
		key,
		original,
		value
	});
}
/** A proxy, so that everything but the call is the original's: name, length, util.promisify's symbol. */
function wrap(holder, key, call) {
	const owner = holder === void 0 ? void 0 : ownerOf(holder, key);
	if (owner === void 0) return;
	patch(owner, key, (original) => {
		const proxy = wrapped.get(original) ?? new Proxy(original, { apply: function guarded(target, self, args) {
			if (entered.size > 0 && !muted) caught(call, guarded);
			return Reflect.apply(target, self, args);
		} });
		wrapped.set(original, proxy);
		return proxy;
	});
}
/** Methods of `performance` and `crypto` are their prototypes'. */
function ownerOf(holder, key) {
	for (let at = holder; at !== null; at = Object.getPrototypeOf(at)) if (Object.hasOwn(at, key)) return at;
}
function wrapDate() {
	patch(globalThis, "Date", (original) => {
		const proxy = new Proxy(original, {
			apply: function guarded(target, self, args) {
				if (entered.size > 0 && !muted) caught({
					what: "calls Date()",
					instead: NOW
				}, guarded);
				return Reflect.apply(target, self, args);
			},
			construct: function guarded(target, args, newTarget) {
				if (args.length === 0 && entered.size > 0 && !muted) caught({
					what: "calls new Date()",
					instead: NOW
				}, guarded);
				return Reflect.construct(target, args, newTarget === proxy ? target : newTarget);
			}
		});
		return proxy;
	});
	const { Date: guarded } = globalThis;
	patch(guarded.prototype, "constructor", () => guarded);
}
/** Libraries ask for it on every call, and it is the same wherever a run is replayed. */
const HARMLESS_VARIABLES = /* @__PURE__ */ new Set(["NODE_ENV"]);
function wrapEnvironment() {
	patch(process, "env", (original) => {
		const check = (key, trap) => {
			if (entered.size === 0 || muted || key !== void 0 && (typeof key === "symbol" || HARMLESS_VARIABLES.has(key))) return;
			caught({
				what: key === void 0 ? "reads process.env" : `reads process.env.${String(key)}`,
				instead: "ctx.sideEffect(() => process.env…), or pass the value as input"
			}, trap);
		};
		return new Proxy(original, {
			get: function guarded(target, key) {
				check(key, guarded);
				return Reflect.get(target, key);
			},
			has: function guarded(target, key) {
				check(key, guarded);
				return Reflect.has(target, key);
			},
			ownKeys: function guarded(target) {
				check(void 0, guarded);
				return Reflect.ownKeys(target);
			},
			set: (target, key, value) => Reflect.set(target, key, value)
		});
	});
}
// packages/holdfast/src/host/journal.ts
/** The commit of a turn, but for what only the driver knows: lease, timers, attempts, inbox. */
function draftOf(context, activation, completion) {
	const { runId, execution, epoch, workerId } = context;
	const draft = {
		runId,
		execution,
		epoch,
		workerId,
		status: "running",
		lease: "keep"
	};
	const turn = recordTurn(context.turns, context.historyLength, activation, completion);
	if (turn !== void 0) draft.turn = turn;
	if (completion.state !== void 0) draft.state = completion.state;
	const updates = [];
	for (const reply of completion.replies) if (reply.type === "rejectUpdate") updates.push({
		id: reply.id,
		outcome: {
			status: "rejected",
			error: reply.error
		}
	});
	for (const command of completion.commands) translate(context, command, draft, updates);
	if (updates.length > 0) draft.updates = updates;
	return draft;
}
function translate(context, command, draft, updates) {
	switch (command.type) {
		case "activity":
			draft.tasks = [...draft.tasks ?? [], taskOf(context, command)];
			break;
		case "child":
			draft.children = [...draft.children ?? [], childOf(context, command)];
			break;
		case "signalRun": {
			const { seq, runId, signal, payload } = command;
			const id = `${context.runId}/${context.execution}/${seq}`;
			const job = {
				type: "signal",
				id,
				name: signal,
				payload
			};
			draft.sends = [...draft.sends ?? [], {
				seq,
				runId,
				message: {
					job,
					idempotencyKey: id
				}
			}];
			break;
		}
		case "cancelRun":
			draft.sends = [...draft.sends ?? [], {
				seq: command.seq,
				runId: command.runId,
				message: { job: { type: "cancel" } }
			}];
			break;
		case "cancel":
			draft.cancelTasks = [...draft.cancelTasks ?? [], command.seq];
			draft.cancelChildren = [...draft.cancelChildren ?? [], command.seq];
			break;
		case "attributes":
			draft.attributes = {
				...draft.attributes,
				...command.attributes
			};
			break;
		case "completeUpdate":
			updates.push({
				id: command.id,
				outcome: command.error === void 0 && command.value !== void 0 ? {
					status: "completed",
					value: command.value
				} : {
					status: "failed",
					error: command.error ?? {
						name: "Error",
						message: "The update has no reply."
					}
				}
			});
			break;
		case "rollBack":
			draft.status = "rolling_back";
			break;
		case "complete":
		case "fail":
		case "canceled":
		case "continueAsNew": end$1(context, command, draft);
	}
}
function taskOf(context, command) {
	const { seq, name, unit, n, input, startToClose, scheduleToClose, scheduleToStart, heartbeat } = command;
	return {
		seq,
		activity: name,
		queue: command.queue ?? context.queueOfActivity(name) ?? context.queue,
		input,
		retry: storedRetry(command.retry, "operation"),
		startToClose,
		scheduleToClose,
		scheduleToStart,
		heartbeat,
		location: formatLocation(unit, name, n)
	};
}
function storedRetry(retry, kind) {
	const { nonRetryable, ...policy } = retry ?? {};
	const resolved = resolveRetry(policy, kind);
	return Array.isArray(nonRetryable) ? {
		...resolved,
		nonRetryable
	} : resolved;
}
function childOf(context, command) {
	return {
		id: command.id,
		workflow: command.name,
		version: command.version,
		input: command.input,
		queue: command.queue ?? context.queue,
		priority: 0,
		deadline: command.deadline,
		deadlineAt: command.deadlineAt,
		retry: command.retry === void 0 ? void 0 : storedRetry(command.retry, "run"),
		attributes: {},
		onConflict: "reject",
		seed: context.seed(),
		parent: {
			runId: context.runId,
			execution: context.execution,
			seq: command.seq,
			parentClose: command.parentClose ?? "cancel",
			announce: command.detached === true
		}
	};
}
function end$1(context, command, draft) {
	if (command.type === "fail" && command.retryAfter !== void 0) return;
	const close = closeOf(context, command);
	draft.close = close;
	draft.status = close.status;
}
function closeOf(context, command) {
	switch (command.type) {
		case "complete": return {
			status: "completed",
			output: command.value
		};
		case "fail": return {
			status: "failed",
			error: command.rollbackError === void 0 ? command.error : {
				...command.error,
				data: { rollbackError: command.rollbackError }
			},
			resumable: command.rolledBack !== true
		};
		case "canceled": return {
			status: "canceled",
			output: command.value,
			error: command.error
		};
		case "continueAsNew": {
			const carried = (command.signals ?? []).map((signal) => ({ job: {
				type: "signal",
				...signal
			} }));
			return {
				status: "continued",
				next: {
					input: command.input,
					version: command.version,
					seed: context.seed(),
					carried
				}
			};
		}
	}
}
// packages/holdfast/src/host/driver.ts
/** Jobs that a run takes at once, also while it waits to be tried again. */
const OVERRULING = /* @__PURE__ */ new Set([
	"cancel",
	"expire",
	"resume"
]);
const TIMED = /* @__PURE__ */ new Set([
	"sleep",
	"signal",
	"receive",
	"condition"
]);
var Driver = class {
	workflow;
	#host;
	#run;
	#epoch;
	#executor;
	#attempts;
	#open = /* @__PURE__ */ new Map();
	/** Due times of timers, and of retries (as `-seq`). */
	#due = /* @__PURE__ */ new Map();
	/** The last attempt of each open step that has had more than one, or none in flight. */
	#tried = /* @__PURE__ */ new Map();
	/** Open steps whose attempt in flight has a row, which its end has to be written to (D12). */
	#listed = /* @__PURE__ */ new Set();
	/** Attempts before the failure that a resume has voided (D10). */
	#forgiven = /* @__PURE__ */ new Map();
	#jobs = [];
	#consumed = [];
	#attemptRows = [];
	#retriesDue = [];
	#seen = 0;
	#deliveries = Promise.resolve();
	#delivering = 0;
	#turns;
	#historyLength;
	#busy = false;
	#alarm;
	#closed = false;
	#released = false;
	#stopping = false;
	/** When it is to be tried again as a whole (D10): until then no code runs. */
	#retryRunAt;
	constructor(workflow, run, host) {
		this.workflow = workflow;
		this.#host = host;
		this.#run = run;
		this.#epoch = run.epoch;
		this.#turns = run.turns;
		this.#historyLength = run.historyLength;
		this.#executor = this.#createExecutor();
		this.#attempts = this.#createAttempts();
	}
	get runId() {
		return this.#run.id;
	}
	get execution() {
		return this.#run.execution;
	}
	get epoch() {
		return this.#epoch;
	}
	get seen() {
		return this.#seen;
	}
	/** Is a turn, a commit or a step under way? */
	get busy() {
		return this.#busy || this.#delivering > 0 || this.#jobs.length > 0 || this.#attempts.size > 0;
	}
	/** Turns that are in memory, for a claim that needs no history. */
	get turns() {
		return this.#turns;
	}
	#createExecutor() {
		const { codec, logger, limits, environment, turnTimeout, watch } = this.#host;
		return new Executor({
			workflow: this.workflow,
			codec: unguardedCodec(codec),
			logger,
			limits,
			elapsed: environment.elapsed,
			turnTimeout,
			watch
		});
	}
	#createAttempts() {
		const { environment, codec } = this.#host;
		return new Attempts({
			environment,
			codec,
			encode: (value, what) => this.#executor.encode(value, what),
			now: () => this.#host.now(),
			onEnd: (end) => this.#attemptEnded(end),
			replace: (name) => this.#host.replaceStep(name)
		});
	}
	/** The first turn of a run that does not exist yet; undefined if it can't be computed (then let a claim do it). */
	async firstTurn(jobs) {
		this.#busy = true;
		const activation = {
			time: this.#host.now(),
			jobs: [this.#startJob(), ...jobs],
			historyLength: 0
		};
		await this.#freshMacrotask();
		const completion = await this.#executor.activate(activation);
		return completion.status === "ok" ? this.#draft(activation, completion) : void 0;
	}
	/** The run was created with its first turn. */
	begun(commit) {
		this.#busy = false;
		this.#committed(commit, {
			status: "committed",
			inbox: []
		});
	}
	/** A claim: replays if there is history to replay, then works off what is there. */
	async claimed(claim) {
		this.#run = claim.run;
		this.#epoch = claim.run.epoch;
		this.#released = false;
		this.#historyLength = claim.run.historyLength;
		if (claim.recovered && claim.run.recoveries > this.#host.maxRecoveries) {
			const message = `Run ${this.runId} was recovered ${claim.run.recoveries} times without a commit: it seems to kill its workers. Mend it, then resume it.`;
			return this.#block(new HoldfastError(message, { code: "HF_TOO_MANY_RECOVERIES" }));
		}
		const retryRunAt = retryRunAtOf(claim.turns ?? []);
		if (retryRunAt !== void 0 && retryRunAt > this.#host.now() && !claim.inbox.some(({ job }) => OVERRULING.has(job.type))) {
			this.#retryRunAt = retryRunAt;
			this.#seen = Math.max(0, ...claim.inbox.map(({ id }) => id));
			return this.#write(this.#bare("sleeping"));
		}
		const resume = claim.inbox.find(({ job }) => job.type === "resume");
		if (claim.run.turns === 0) this.#jobs.push(this.#startJob());
		if (claim.turns === void 0) this.#recount(claim);
		else {
			this.#busy = true;
			const failure = await this.#recover(claim, resume !== void 0);
			this.#busy = false;
			if (this.#released) return;
			if (failure !== void 0) return this.#block(failure);
		}
		await this.deliver(claim.inbox);
		this.#fireDue();
		if (this.#jobs.length === 0 && this.#executor.hasWork) return this.#activate();
		this.#pump();
	}
	#startJob() {
		const { id, workflow, version, input, seed, execution, attempt, parent, retry, createdAt } = this.#run;
		return {
			type: "start",
			runId: id,
			workflow,
			version,
			input,
			seed,
			startedAt: createdAt,
			execution,
			attempt,
			parentId: parent?.runId,
			retry
		};
	}
	async #recover(claim, resumed) {
		const turns = claim.turns ?? [];
		this.#executor = this.#createExecutor();
		this.#attempts = this.#createAttempts();
		this.#open.clear();
		this.#due.clear();
		this.#tried.clear();
		this.#listed.clear();
		this.#forgiven.clear();
		this.#turns = claim.run.turns;
		let view = replayView(turns);
		const fail = lastFailure(turns);
		if (fail !== void 0 && (resumed || fail.retryAfter !== void 0)) {
			const job = {
				type: "resume",
				attempt: claim.run.attempt,
				voids: fail.causes ?? []
			};
			const turn = {
				index: claim.run.turns,
				time: 0,
				historyLength: 0,
				jobs: [job],
				commands: []
			};
			view = replayView([...turns, turn]).slice(0, -1);
			this.#jobs.push(job);
		}
		await this.#freshMacrotask();
		if (this.#released) return void 0;
		const completion = await this.#executor.replay(view);
		if (completion.status === "failed") return completion.error;
		this.#forgive([...turns, {
			time: Number.MAX_SAFE_INTEGER,
			jobs: this.#jobs
		}], claim.attempts);
		this.#reopen(turns);
		this.#recount(claim);
	}
	#forgive(turns, attempts) {
		for (const { time, jobs } of turns) for (const job of jobs) {
			if (job.type !== "resume") continue;
			for (const seq of job.voids) {
				const before = attempts.filter((row) => row.seq === seq && (row.endedAt ?? 0) <= time);
				this.#forgiven.set(seq, Math.max(1, ...before.map((row) => row.number)));
			}
		}
	}
	/** What was open when the run was last in somebody's memory. */
	#reopen(turns) {
		const open = new Set(this.#executor.openOperations);
		for (const turn of turns) for (const command of turn.commands) if ("n" in command && open.has(command.seq)) this.#opened(command, turn.time);
	}
	/** Where the open steps stand: since this driver parked, others may have made attempts without a turn (D7, D8). */
	#recount({ attempts, inbox }) {
		this.#retriesDue.length = 0;
		for (const { command, time } of this.#open.values()) {
			const { seq } = command;
			const last = attempts.filter((row) => row.seq === seq).at(-1);
			this.#tried.set(seq, last?.number ?? 1);
			this.#due.delete(-seq);
			if (inbox.some(({ job }) => job.type === "resolve" && job.seq === seq)) {
				if (last !== void 0) this.#attemptRows.push({
					...last,
					status: "completed"
				});
				continue;
			}
			if (last === void 0) this.#attemptRows.push({
				seq,
				number: 1,
				status: "lost",
				startedAt: time,
				endedAt: this.#host.now(),
				workerId: ""
			});
			else if (last.status === "running") this.#attemptRows.push({
				...last,
				status: "lost",
				endedAt: this.#host.now()
			});
			this.#due.set(-seq, last?.status === "failed" ? last.retryAt ?? 0 : 0);
		}
	}
	/** Messages from the inbox, in order; what was delivered before is passed over. */
	deliver(messages) {
		this.#delivering++;
		this.#deliveries = this.#deliveries.then(() => this.#deliver(messages)).finally(() => this.#delivering--);
		return this.#deliveries;
	}
	async #deliver(messages) {
		for (const message of messages) {
			if (message.id <= this.#seen) continue;
			this.#seen = message.id;
			const job = message.job.type === "resume" ? void 0 : await this.#host.checked(this.workflow, message.job);
			this.#consumed.push(message.id);
			if (job !== void 0) this.#jobs.push(job);
		}
	}
	async receive(messages) {
		await this.deliver(messages);
		this.#pump();
	}
	#fireDue() {
		const now = this.#host.now();
		for (const [key, due] of this.#due) {
			if (due > now) continue;
			this.#due.delete(key);
			if (key < 0) this.#retriesDue.push(-key);
			else this.#jobs.push({
				type: "fire",
				seq: key
			});
		}
	}
	#setAlarm() {
		this.#alarm?.cancel();
		this.#alarm = void 0;
		const next = this.#nextDue();
		if (next === void 0 || this.#released) return;
		this.#alarm = this.#host.environment.after(next - this.#host.now(), () => {
			this.#fireDue();
			this.#pump();
			this.#setAlarm();
		});
	}
	#nextDue() {
		let next;
		for (const due of this.#due.values()) if (next === void 0 || due < next) next = due;
		return next;
	}
	/** Does the next thing, if there is one: a turn, a commit of attempts, or parking. */
	#pump() {
		if (this.#busy || this.#delivering > 0 || this.#released || this.#closed) return;
		if (this.#stopping && this.#attempts.size > 0) return;
		if (this.#jobs.length > 0) this.#activate();
		else if (this.#retriesDue.length > 0 || this.#attemptRows.length > 0) this.#write(this.#bare("running"));
		else if (this.#attempts.size === 0) this.#write(this.#bare("sleeping"));
	}
	async #activate() {
		this.#busy = true;
		await this.#freshMacrotask();
		if (this.#released) return;
		const jobs = this.#jobs;
		this.#jobs = [];
		const consumed = this.#consumed;
		this.#consumed = [];
		const activation = {
			time: this.#host.now(),
			jobs,
			historyLength: this.#historyLength
		};
		const completion = await this.#executor.activate(activation);
		if (this.#released) return;
		if (completion.status === "failed") return this.#block(completion.error);
		this.#busy = false;
		const draft = this.#draft(activation, completion);
		if (consumed.length > 0) draft.consumed = consumed;
		await this.#write(draft);
	}
	/** X8: no foreign continuation runs in the microtasks of a turn, and nothing else is taken for workflow code (the guard). */
	#freshMacrotask() {
		return new Promise((resolve) => this.#host.environment.soon(resolve));
	}
	/** A commit without a turn: attempts, or parking. */
	#bare(status) {
		const { runId, execution } = this;
		return {
			runId,
			execution,
			epoch: this.#epoch,
			workerId: this.#host.workerId,
			status,
			lease: "keep"
		};
	}
	#draft(activation, completion) {
		const { environment, workerId } = this.#host;
		const draft = draftOf({
			runId: this.runId,
			execution: this.execution,
			epoch: this.#epoch,
			workerId,
			queue: this.#run.queue,
			turns: this.#turns,
			historyLength: this.#historyLength,
			seed: () => environment.uuid(),
			queueOfActivity: (name) => this.#host.queueOfActivity(name)
		}, activation, completion);
		for (const job of activation.jobs) if (job.type === "resolve" || job.type === "fire") this.#settled(job.seq);
		for (const command of completion.commands) this.#apply(command, activation.time);
		const fail = completion.commands.find((command) => command.type === "fail");
		if (fail?.type === "fail" && fail.retryAfter !== void 0) {
			this.#retryRunAt = activation.time + fail.retryAfter;
			this.#seen = 0;
			draft.attempt = this.#run.attempt + 1;
			draft.status = "sleeping";
			this.#due.clear();
		}
		draft.rollbacks = this.#executor.rollbacks;
		return draft;
	}
	/** Keeps track of what the commands open, settle and give up; effects wait for the commit. */
	#apply(command, time) {
		if (command.type === "settle" || command.type === "cancel" && command.join !== true) this.#settled(command.seq);
		else if ("n" in command) this.#opened(command, time);
	}
	#opened(command, time) {
		if (command.type === "sleep") this.#due.set(command.seq, command.until ?? time + (command.duration ?? 0));
		else if (TIMED.has(command.type) && "timeout" in command && command.timeout !== void 0) this.#due.set(command.seq, time + command.timeout);
		if (isStep(command)) this.#open.set(command.seq, {
			command,
			time
		});
	}
	#settled(seq) {
		this.#open.delete(seq);
		this.#due.delete(seq);
		this.#due.delete(-seq);
		this.#tried.delete(seq);
		this.#listed.delete(seq);
		this.#forgiven.delete(seq);
	}
	async #write(draft) {
		this.#busy = true;
		const starting = [];
		const halting = this.#stopping && this.#attempts.size === 0;
		for (const seq of halting ? [] : this.#retriesDue.splice(0)) {
			const number = (this.#tried.get(seq) ?? 0) + 1;
			if (!this.#open.has(seq)) continue;
			if (this.#exhausted(seq, number)) continue;
			this.#tried.set(seq, number);
			this.#listed.add(seq);
			starting.push({
				seq,
				number
			});
			this.#attemptRows.push({
				seq,
				number,
				status: "running",
				startedAt: this.#host.now(),
				workerId: this.#host.workerId
			});
		}
		const fresh = draft.turn?.commands.filter((command) => "n" in command && isStep(command)) ?? [];
		const working = fresh.length > 0 || starting.length > 0 || this.#retriesDue.length > 0 || this.#attempts.size > 0 || this.#jobs.length > 0 || this.#delivering > 0;
		if (halting) for (const { seq } of fresh) this.#attemptRows.push(this.#notBegun(seq));
		if (this.#attemptRows.length > 0) draft.attempts = this.#attemptRows.splice(0);
		if (draft.close === void 0 && (halting || !working || this.#retryRunAt !== void 0)) {
			draft.lease = "park";
			draft.status = draft.status === "rolling_back" ? "rolling_back" : "sleeping";
			draft.waitingFor = this.#waitingFor();
			draft.wakeAt = this.#retryRunAt ?? (halting && working ? 0 : this.#nextDue());
		}
		draft.seen = this.#seen;
		let result;
		try {
			result = await this.#host.commit(draft);
		} catch (error) {
			this.#host.logger.error("A commit failed; the run is given back.", {
				runId: this.runId,
				error
			});
			return this.lose(error);
		}
		if (this.#released) return;
		this.#busy = false;
		for (const { seq, number } of starting) if (result.status === "committed") this.#startStep(seq, number);
		this.#committed(draft, result);
	}
	/** W4: its command is recorded, but the worker that recorded it stops: whoever comes next begins with attempt 1. */
	#notBegun(seq) {
		const now = this.#host.now();
		return {
			seq,
			number: 0,
			status: "failed",
			startedAt: now,
			endedAt: now,
			workerId: this.#host.workerId,
			retryAt: 0
		};
	}
	/** D7: attempts that never came back count too. */
	#exhausted(seq, number) {
		const body = this.#executor.body(seq);
		if (body === void 0) return true;
		const last = number - 1 - (this.#forgiven.get(seq) ?? 0);
		const lost = new HoldfastError(`The worker that ran attempt ${last} did not come back.`, { code: "HF_WORKER_LOST" });
		if (last <= 0 || retryAfter(body, last, lost, 0) !== void 0) return false;
		const outcome = {
			status: "failed",
			error: serializeError(lost),
			attempts: last
		};
		this.#jobs.push({
			type: "resolve",
			seq,
			outcome
		});
		return true;
	}
	#waitingFor() {
		const until = (seq) => {
			const due = this.#due.get(seq);
			return due === void 0 ? "" : ` until ${new Date(due).toISOString()}`;
		};
		const retries = [...this.#due].filter(([key]) => key < 0).map(([key, due]) => {
			return `step ${this.#open.get(-key)?.command.name ?? -key} (attempt ${(this.#tried.get(-key) ?? 0) + 1} at ${new Date(due).toISOString()})`;
		});
		return [
			...this.#retryRunAt === void 0 ? [] : [`another attempt at ${new Date(this.#retryRunAt).toISOString()}`],
			...retries,
			...this.#executor.waiting.filter(({ seq }) => !this.#due.has(-seq)).map(({ seq, description }) => description + until(seq))
		];
	}
	/** After the commit: effects (D1). */
	#committed(commit, result) {
		if (result.status === "stale") return this.lose(new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" }));
		const { turn } = commit;
		if (turn !== void 0) {
			this.#turns++;
			this.#historyLength = result.historyLength ?? this.#historyLength + recordCount(turn);
			this.#host.blocked.delete(this.runId);
		}
		if (commit.close !== void 0) {
			this.#closed = true;
			return this.#release("closed", new HoldfastError("The run is over.", { code: "HF_RUN_OVER" }));
		}
		if (commit.lease === "park") return this.#release(this.#retryRunAt === void 0 ? "parked" : "closed", void 0);
		if (this.#retryRunAt !== void 0) return void this.#write(this.#bare("sleeping"));
		for (const command of turn?.commands ?? []) if (command.type === "cancel") this.#attempts.cancel(command.seq, new HoldfastError("The step was cancelled.", { code: "HF_STEP_CANCELED" }), command.join === true);
		else if ("n" in command && isStep(command)) {
			this.#tried.set(command.seq, 1);
			this.#startStep(command.seq, 1);
		}
		if (result.inbox.length > 0) this.receive(result.inbox);
		this.#fireDue();
		this.#setAlarm();
		this.#pump();
	}
	#startStep(seq, number) {
		const body = this.#executor.body(seq);
		const open = this.#open.get(seq);
		if (body === void 0 || open === void 0) return;
		const { unit, name, n } = open.command;
		const execution = this.execution === 1 ? "" : `~${this.execution}/`;
		const forgiven = this.#forgiven.get(seq) ?? 0;
		const key = `${this.runId}/${execution}${formatLocation(unit, name, n)}`;
		if (body.kind === "transaction") this.#attempts.start(seq, this.#inTransaction(seq, body, key, number), number, forgiven, key);
		else this.#attempts.start(seq, body, number, forgiven, key);
	}
	/** D6: the outcome is in the inbox by the time the body has ended; it is not reported a second time. */
	#inTransaction(seq, body, idempotencyKey, attempt) {
		const run = async (info) => {
			const message = await this.#host.transact({
				runId: this.runId,
				epoch: this.#epoch,
				seq
			}, body, {
				...info,
				idempotencyKey,
				attempt
			});
			if (message === "stale") throw new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" });
			return new Recorded(message);
		};
		return {
			...body,
			run
		};
	}
	#attemptEnded(end) {
		const { attempt } = end;
		const { seq, number, startedAt } = attempt;
		const row = {
			seq,
			number,
			startedAt,
			endedAt: this.#host.now(),
			workerId: this.#host.workerId
		};
		if (end.type === "retry") {
			const retryAt = this.#host.now() + end.delay;
			this.#attemptRows.push({
				...row,
				status: "failed",
				error: end.error,
				retryAt
			});
			this.#due.set(-seq, retryAt);
			this.#setAlarm();
		} else if (end.type === "recorded") {
			if (this.#listed.has(seq)) this.#attemptRows.push({
				...row,
				status: "completed"
			});
			this.receive([end.message]);
			return;
		} else {
			if (end.outcome.status === "failed") this.#attemptRows.push({
				...row,
				status: "failed",
				error: end.outcome.error
			});
			else if (this.#listed.has(seq)) this.#attemptRows.push({
				...row,
				status: "completed"
			});
			this.#jobs.push({
				type: "resolve",
				seq,
				outcome: end.outcome
			});
		}
		this.#pump();
	}
	/** V4: the run is unharmed; it is tried again later, or when other code comes. */
	async #block(error) {
		const times = this.#host.blocked.get(this.runId) ?? 0;
		this.#host.blocked.set(this.runId, times + 1);
		const backoff = Math.min(1e3 * 2 ** times, 3e5);
		this.#host.logger.error(`Run ${this.runId} is blocked: ${error.message}`, {
			runId: this.runId,
			workflow: this.workflow.name,
			error
		});
		const draft = this.#bare("blocked");
		draft.blocked = {
			error: serializeError(error),
			code: this.#host.codeOf(this.workflow)
		};
		draft.lease = "park";
		draft.wakeAt = this.#host.now() + backoff;
		draft.seen = Number.MAX_SAFE_INTEGER;
		draft.waitingFor = [`code that can replay it (${error.name})`];
		try {
			await this.#host.commit(draft);
		} catch (failure) {
			this.#host.logger.error("A blocked run could not be given back.", {
				runId: this.runId,
				error: failure
			});
		}
		this.#release("blocked", error);
	}
	/** D4: somebody else has it. Its steps are told, nothing more is written. */
	lose(reason) {
		this.#release("lost", reason);
	}
	/** W4: no more turns are begun once its steps have ended. */
	stop() {
		this.#stopping = true;
		this.#pump();
	}
	/** W4: the grace period is over: its steps are told, and its lease ends so that others resume at once. */
	giveBack() {
		if (this.#released) return;
		const reason = new HoldfastError("The worker is shutting down.", { code: "HF_SHUTDOWN" });
		this.#attempts.abandonAll(reason);
		const draft = this.#bare("sleeping");
		draft.lease = "park";
		draft.wakeAt = 0;
		draft.seen = 0;
		this.#host.commit(draft).catch(() => void 0);
		this.#release("lost", reason);
	}
	#release(how, reason) {
		if (this.#released) return;
		this.#released = true;
		this.#busy = false;
		this.#alarm?.cancel();
		this.#attempts.abandonAll(reason);
		if (how !== "parked") this.#executor.activate({
			time: 0,
			jobs: [{ type: "evict" }]
		});
		this.#host.released(this, how);
	}
	/** Out of the cache (W5). */
	evict() {
		this.#executor.activate({
			time: 0,
			jobs: [{ type: "evict" }]
		});
	}
};
function isStep(command) {
	return command.type === "step" || command.type === "transaction" || command.type === "rollback";
}
/** When a run that failed is to be tried again. */
function retryRunAtOf(turns) {
	const after = lastFailure(turns)?.retryAfter;
	return after === void 0 ? void 0 : (turns.at(-1)?.time ?? 0) + after;
}
function lastFailure(turns) {
	const last = turns.at(-1)?.commands.at(-1);
	return last?.type === "fail" ? last : void 0;
}
// packages/holdfast/src/host/rejections.ts
let users = 0;
function onUnhandledRejection(reason) {
	if (isDeliveredError(reason)) return;
	if (process.listenerCount("unhandledRejection") > 1) return;
	throw reason instanceof Error ? reason : new Error(`Unhandled rejection: ${String(reason)}`, { cause: reason });
}
function tolerateRejections() {
	if (users++ === 0) process.on("unhandledRejection", onUnhandledRejection);
	let done = false;
	return () => {
		if (done) return;
		done = true;
		if (--users === 0) process.off("unhandledRejection", onUnhandledRejection);
	};
}
// packages/holdfast/src/host/watchdog.ts
const STEP = 0;
const DEPTH = 1;
const LIMIT = 2;
const LENGTH = 3;
const TEXT_AT = 16;
/** Plain JavaScript in a string: it needs no file beside it, whether this package is built, bundled or run from its sources. */
const THREAD = `
const { writeSync } = require("node:fs");
const { workerData } = require("node:worker_threads");
const numbers = new Int32Array(workerData, 0, 4);
const text = new Uint8Array(workerData, ${TEXT_AT});
let step = -1;
let since = 0;
let told = false;
function look() {
  const latest = Atomics.load(numbers, ${STEP});
  const limit = numbers[${LIMIT}];
  const now = performance.now();
  if (latest !== step || Atomics.load(numbers, ${DEPTH}) === 0) {
    step = latest;
    since = now;
    told = false;
  } else if (!told && now - since >= limit) {
    told = true;
    const [workflow, run, unit] = Buffer.from(text.slice(0, numbers[${LENGTH}])).toString().split("\\n");
    const seconds = ((now - since) / 1000).toFixed(1);
    const line = '[holdfast] Workflow "' + workflow + '" (run ' + run + ", unit " + unit + ") has had the thread for " + seconds +
      " s and does not give it back: an endless loop in workflow code? Nothing else in process " + process.pid + " can run meanwhile.\\n";
    try {
      writeSync(2, line);
    } catch {}
  }
  setTimeout(look, Math.min(1000, Math.max(10, limit / 10)));
}
look();
`;
let buffers;
/** Starts the thread, if there is none yet. It does not keep the process alive; without it, nothing is told. */
function started(limit) {
	if (buffers !== void 0) return buffers;
	const shared = new SharedArrayBuffer(2016);
	buffers = {
		numbers: new Int32Array(shared, 0, 4),
		text: Buffer.from(shared, TEXT_AT)
	};
	buffers.numbers[LIMIT] = limit;
	try {
		const thread = new Worker(THREAD, {
			eval: true,
			workerData: shared,
			execArgv: [],
			env: {},
			resourceLimits: {
				maxOldGenerationSizeMb: 16,
				maxYoungGenerationSizeMb: 1,
				codeRangeSizeMb: 16,
				stackSizeMb: 1
			},
			name: "holdfast-watchdog"
		});
		thread.on("error", () => {});
		thread.unref();
	} catch {}
	return buffers;
}
/** Turns that take longer than `limit` milliseconds are told of on stderr. */
var Watchdog = class {
	#limit;
	#numbers;
	#text;
	constructor(limit) {
		this.#limit = Math.ceil(Math.min(limit, 2 ** 31 - 1));
		({numbers: this.#numbers, text: this.#text} = started(this.#limit));
	}
	enter(turn) {
		const unit = turn.closure ?? turn.current?.title ?? "root";
		if (turn.runId !== written.run || unit !== written.unit || turn.workflow.name !== written.workflow) this.#write(turn, unit);
		this.#numbers[LIMIT] = this.#limit;
		this.#mark(1);
	}
	leave(_turn) {
		this.#mark(-1);
	}
	#mark(change) {
		depth += change;
		step = step + 1 | 0;
		Atomics.store(this.#numbers, DEPTH, depth);
		Atomics.store(this.#numbers, STEP, step);
	}
	/** Only when it changes: text costs more than all the rest. */
	#write(turn, unit) {
		const { runId: run } = turn;
		const { name: workflow } = turn.workflow;
		this.#numbers[LENGTH] = this.#text.write(`${workflow.slice(0, 200)}\n${run.slice(0, 200)}\n${unit.slice(0, 200)}`);
		written = {
			workflow,
			run,
			unit
		};
	}
};
let depth = 0;
let step = 0;
/** What the buffer says now. */
let written = {
	workflow: "",
	run: "",
	unit: ""
};
// packages/holdfast/src/host/worker.ts
var WorkerHost = class {
	id;
	environment;
	codec;
	logger;
	limits;
	turnTimeout;
	maxRecoveries;
	#settings;
	#ports;
	#serves;
	#activities;
	blocked = /* @__PURE__ */ new Map();
	#active = /* @__PURE__ */ new Map();
	/** Parked runs, least recently used first (W5). */
	#cache = /* @__PURE__ */ new Map();
	#offset = 0;
	#claiming = false;
	#again = false;
	#renewing = false;
	#stopping;
	#timers = [];
	#alarm;
	#onIdle;
	#intolerant = () => {};
	#started = false;
	#watchdog;
	#guard;
	constructor(settings, ports) {
		this.id = settings.id;
		this.environment = ports.environment;
		this.codec = ports.codec;
		this.logger = ports.logger;
		this.limits = ports.limits;
		this.turnTimeout = settings.turnTimeout;
		this.maxRecoveries = settings.maxRecoveries;
		this.#settings = settings;
		this.#ports = ports;
		this.#serves = [...settings.workflows.values()].map(({ name, version, options }) => ({
			workflow: name,
			versions: options.serves === "*" ? "*" : [version, ...options.serves ?? []]
		}));
		this.#activities = new ActivityRunner({
			workerId: settings.id,
			store: ports.store,
			environment: ports.environment,
			codec: ports.codec,
			encode: ports.encode,
			logger: ports.logger,
			queue: settings.queue,
			activities: settings.activities,
			concurrency: settings.activityConcurrency,
			lease: settings.lease,
			replace: settings.replaceActivity
		});
	}
	get workerId() {
		return this.id;
	}
	get active() {
		return this.#active.size + this.#activities.active;
	}
	/** Does anything go on without a message or a timer? */
	get busy() {
		return this.#claiming || this.#renewing || this.#activities.busy || [...this.#active.values()].some((driver) => driver.busy);
	}
	get queue() {
		return this.#settings.queue;
	}
	async start() {
		const { store } = this.#ports;
		this.#offset = await store.now() - this.environment.now();
		await store.unblock([...this.#settings.workflows.values()].map((workflow) => ({
			workflow: workflow.name,
			code: codeOf(workflow)
		})));
		this.#intolerant = tolerateRejections();
		const { determinism, watchdogAfter } = this.#settings;
		this.#watchdog = new Watchdog(watchdogAfter);
		if (determinism !== "off") this.#guard = new Guard(determinism, this.logger);
		this.#started = true;
		this.#timers.push(this.environment.stayAlive(), this.environment.every(this.#settings.lease / 3, () => void this.#renew()), this.environment.every(this.#settings.pollInterval, () => this.wake({
			work: true,
			tasks: true
		})));
		this.wake({
			work: true,
			tasks: true
		});
	}
	wake(wakeup) {
		if (wakeup.tasks === true) this.#activities.poll();
		if (wakeup.work !== true) return;
		this.#claim();
		if (this.#active.size > 0) this.#renew();
	}
	watch = {
		enter: (turn) => {
			this.#watchdog?.enter(turn);
			this.#guard?.enter(turn);
		},
		leave: (turn) => {
			this.#guard?.leave(turn);
			this.#watchdog?.leave(turn);
		}
	};
	now() {
		return this.environment.now() + this.#offset;
	}
	commit(turn) {
		return this.#ports.commit(turn);
	}
	async transact(claim, body, info) {
		const { store } = this.#ports;
		if (store.transact === void 0) throw new HoldfastError("This store has no transactions to offer: use ctx.step.", { code: "HF_NO_TRANSACTIONS" });
		const run = body.run;
		return store.transact(claim, (tx) => {
			const result = run(tx, info);
			if (typeof result?.then === "function") throw new IllegalReturnError(`The function of transaction "${body.name}" returned a promise: on this store it is synchronous.`);
			return this.#ports.encode(result, `the result of transaction ${body.name}`);
		});
	}
	queueOfActivity() {}
	replaceStep(name) {
		return this.#settings.replaceStep(name);
	}
	checked(workflow, job) {
		return validatedSignal(workflow, job, this.codec);
	}
	codeOf(workflow) {
		return codeOf(workflow);
	}
	released(driver, how) {
		if (this.#active.get(driver.runId) === driver) this.#active.delete(driver.runId);
		if (how === "parked") {
			if (this.#settings.cachedRuns === 0 || this.#stopping !== void 0 || this.#active.has(driver.runId)) driver.evict();
			else {
				this.#cache.set(driver.runId, driver);
				if (this.#cache.size > this.#settings.cachedRuns) this.#evictOldest();
			}
		}
		if (this.#active.size === 0) this.#onIdle?.();
		if (this.#again) this.#claim();
	}
	#evictOldest() {
		for (const [runId, driver] of this.#cache) {
			this.#cache.delete(runId);
			driver.evict();
			return;
		}
	}
	hasCodeFor(run) {
		const served = this.#serves.find((one) => one.workflow === run.workflow);
		return run.queue === this.#settings.queue && served !== void 0 && (served.versions === "*" || served.versions.includes(run.version));
	}
	/** Can it take a new run of this workflow at once? */
	hasRoomFor(workflow, queue, version) {
		if (!this.#started || this.#stopping !== void 0 || queue !== this.#settings.queue || this.#active.size >= this.#settings.concurrency) return false;
		const served = this.#serves.find((one) => one.workflow === workflow.name);
		return served !== void 0 && (served.versions === "*" || served.versions.includes(version)) && this.#settings.workflows.get(workflow.name) === workflow;
	}
	/** Computes the first turn of a run before it is created (no claim). Undefined: let a claim do it. */
	async begin(run) {
		const workflow = this.#settings.workflows.get(run.workflow);
		if (workflow === void 0 || this.#active.has(run.id)) return void 0;
		const driver = new Driver(workflow, unborn(run, this.id, this.now()), this);
		this.#active.set(run.id, driver);
		const commit = await driver.firstTurn([]);
		if (commit !== void 0) return {
			first: {
				workerId: this.id,
				lease: this.#settings.lease,
				commit
			},
			driver
		};
		this.#active.delete(run.id);
	}
	/** The run turned out to exist, or could not be created. */
	forget(driver) {
		if (this.#active.get(driver.runId) === driver) this.#active.delete(driver.runId);
		driver.evict();
	}
	async #claim() {
		if (this.#stopping !== void 0 || this.#serves.length === 0) return;
		if (this.#claiming) {
			this.#again = true;
			return;
		}
		const room = this.#settings.concurrency - this.#active.size;
		if (room <= 0) {
			this.#again = true;
			return;
		}
		this.#claiming = true;
		this.#again = false;
		try {
			const { lease, queue } = this.#settings;
			const result = await this.#ports.store.claim({
				workerId: this.id,
				queue,
				serves: this.#serves,
				limit: room,
				lease,
				cached: (runId) => {
					const driver = this.#cache.get(runId);
					return driver === void 0 ? void 0 : {
						execution: driver.execution,
						turns: driver.turns
					};
				}
			});
			this.#offset = result.now - this.environment.now();
			for (const claim of result.runs) this.#take(claim);
			this.#alarm?.cancel();
			if (result.nextAt !== void 0) this.#alarm = this.environment.after(result.nextAt - result.now, () => void this.#claim());
			if (result.runs.length === room) this.#again = true;
		} catch (error) {
			this.logger.error("Runs could not be claimed; trying again.", { error });
		} finally {
			this.#claiming = false;
		}
		if (this.#again && this.#active.size < this.#settings.concurrency) this.#claim();
	}
	#take(claim) {
		const { run } = claim;
		const workflow = this.#settings.workflows.get(run.workflow);
		if (workflow === void 0) return;
		const cached = this.#cache.get(run.id);
		this.#cache.delete(run.id);
		const reusable = claim.turns === void 0 && cached !== void 0;
		if (!reusable) cached?.evict();
		const driver = reusable ? cached : new Driver(workflow, run, this);
		this.#active.get(run.id)?.lose(new HoldfastError("The lease of this run was lost.", { code: "HF_CLAIM_LOST" }));
		this.#active.set(run.id, driver);
		driver.claimed(claim).catch((error) => {
			this.logger.error(`Run ${run.id} could not be driven; it is given back when its lease ends.`, {
				runId: run.id,
				error
			});
			driver.lose(error);
		});
	}
	/** Renews the leases of what is active and brings what has come into their inboxes. */
	async #renew() {
		if (this.#renewing || this.#active.size === 0) return;
		this.#renewing = true;
		try {
			const drivers = [...this.#active.values()];
			const claims = drivers.map(({ runId, epoch, seen }) => ({
				runId,
				epoch,
				seen
			}));
			(await this.#ports.store.renew(this.id, this.#settings.lease, claims)).forEach(({ held, inbox }, i) => {
				const driver = drivers[i];
				if (driver === void 0 || this.#active.get(driver.runId) !== driver) return;
				if (!held && driver.epoch === claims[i]?.epoch) driver.lose(new HoldfastError("The lease of this run is lost.", { code: "HF_CLAIM_LOST" }));
				else if (inbox.length > 0) driver.receive(inbox);
			});
		} catch (error) {
			this.logger.error("Leases could not be renewed; trying again.", { error });
		} finally {
			this.#renewing = false;
		}
	}
	stop() {
		this.#stopping ??= this.#stop();
		return this.#stopping;
	}
	async #stop() {
		const { gracePeriod } = this.#settings;
		this.#alarm?.cancel();
		const activities = this.#activities.stop(gracePeriod);
		if (this.#active.size > 0) await new Promise((resolve) => {
			this.#onIdle = resolve;
			const timer = this.environment.after(gracePeriod, resolve);
			for (const driver of this.#active.values()) driver.stop();
			if (this.#active.size === 0) {
				timer.cancel();
				resolve();
			}
		});
		for (const timer of this.#timers) timer.cancel();
		for (const driver of [...this.#active.values()]) driver.giveBack();
		await activities;
		for (const driver of this.#cache.values()) driver.evict();
		this.#cache.clear();
		this.#intolerant();
		this.#guard?.stop();
		this.#ports.stopped(this);
	}
};
/** The row of a run that is about to be created, leased to the worker that computes its first turn. */
function unborn(run, workerId, now) {
	const { id, workflow, version, input, queue, priority, attributes, seed, retry, parent } = run;
	return {
		id,
		workflow,
		version,
		input,
		queue,
		priority,
		attributes,
		seed,
		retry,
		parent,
		workerId,
		status: "running",
		output: void 0,
		error: void 0,
		state: void 0,
		waitingFor: [],
		execution: 1,
		attempt: 1,
		createdAt: now,
		startedAt: now,
		availableAt: void 0,
		deadlineAt: void 0,
		finishedAt: void 0,
		epoch: 1,
		historyLength: 0,
		turns: 0,
		recoveries: 0
	};
}
// packages/holdfast/src/engine.ts
var Engine = class {
	store;
	environment;
	codec;
	logger;
	limits;
	#committer;
	#sends;
	#workers = /* @__PURE__ */ new Set();
	#known = /* @__PURE__ */ new Map();
	#results;
	#unwatch = () => {};
	#timers = [];
	#closed = false;
	constructor(options) {
		this.store = options.store;
		this.environment = options.environment;
		this.codec = options.codec;
		this.logger = options.logger;
		this.limits = {
			...DEFAULT_LIMITS,
			...options.limits
		};
		this.#results = new Results(options.store, options.environment, options.logger);
		this.#committer = new Committer(options.store, options.environment);
		this.#sends = new Batcher(options.environment, (messages) => options.store.send(messages));
	}
	async open() {
		await this.store.open();
		this.#unwatch = this.store.watch((wakeup) => {
			for (const worker of this.#workers) worker.wake(wakeup);
			if (wakeup.results === true) this.#results.look();
		});
		this.#timers.push(this.environment.every(500, () => void this.#expire()), this.environment.every(1e3, () => this.#results.look()));
	}
	async close() {
		if (this.#closed) return;
		await Promise.all([...this.#workers].map((worker) => worker.stop()));
		this.#closed = true;
		this.#unwatch();
		for (const timer of this.#timers) timer.cancel();
		this.#results.close();
		await this.store.close();
	}
	/** What can't go on after `close`. */
	assertOpen() {
		if (this.#closed) throw new HoldfastError("This engine is closed. Open another: Holdfast.open(url).", { code: "HF_ENGINE_CLOSED" });
	}
	encode(value, what) {
		const payload = this.codec.encode(value);
		if (payload.length * 3 > this.limits.payloadBytes) {
			const actual = payloadSize(payload);
			if (actual > this.limits.payloadBytes) throw new LimitExceededError({
				limit: "payloadBytes",
				actual,
				max: this.limits.payloadBytes,
				what
			});
		}
		return payload;
	}
	async startWorker(settings) {
		this.assertOpen();
		const worker = new WorkerHost(settings, {
			store: this.store,
			environment: this.environment,
			codec: this.codec,
			logger: this.logger,
			limits: this.limits,
			encode: (value, what) => this.encode(value, what),
			commit: (turn) => this.#commit(turn),
			stopped: (one) => this.#workers.delete(one)
		});
		for (const workflow of settings.workflows.values()) this.#known.set(workflow.name, workflow);
		this.#workers.add(worker);
		await worker.start();
		return worker;
	}
	/** Is anything of this process's under way that will go on by itself? */
	get busy() {
		return this.#results.busy || !this.#sends.idle || !this.#committer.idle || [...this.#workers].some((worker) => worker.busy);
	}
	/** Does anybody in this process wait for a result or an update? */
	get waiting() {
		return this.#results.waiting;
	}
	workflowNamed(name) {
		return this.#known.get(name);
	}
	async #commit(turn) {
		const result = await this.#committer.commit(turn);
		if (result.status === "committed") this.#tell(turn);
		return result;
	}
	/** Clients of this process learn of ends and outcomes without looking them up. */
	#tell(turn) {
		this.#expectDeadlines(turn.children ?? []);
		for (const { id, outcome } of turn.updates ?? []) this.#results.tellUpdate(turn.runId, id, outcome);
		const { close, blocked, runId } = turn;
		if (close !== void 0 && close.status !== "continued") this.#results.tellEnd({
			id: runId,
			status: close.status,
			output: close.output,
			error: close.error
		});
		else if (blocked !== void 0) this.#results.tellEnd({
			id: runId,
			status: "blocked",
			output: void 0,
			error: blocked.error
		});
	}
	/** K7: looks at deadlines, and at the timeouts of activities. */
	async #expire() {
		if (this.#closed) return;
		try {
			await this.store.expire();
		} catch (error) {
			this.logger.error("Deadlines could not be looked at; trying again.", { error });
		}
	}
	/** Deadlines that this process knows of are looked at when they strike. */
	#expectDeadlines(runs) {
		for (const { deadline, deadlineAt } of runs) {
			const after = deadline ?? (deadlineAt === void 0 ? void 0 : deadlineAt - this.environment.now());
			if (after !== void 0) this.environment.after(after, () => void this.#expire());
		}
	}
	async start(run, workflow) {
		this.assertOpen();
		if (workflow !== void 0) this.#known.set(workflow.name, workflow);
		this.#expectDeadlines([run]);
		const begun = await this.#begin(run, workflow);
		if (begun === void 0) return this.#committer.create(run);
		let result;
		try {
			result = await this.#committer.create({
				...run,
				first: begun.first
			});
		} catch (error) {
			begun.worker.forget(begun.driver);
			throw error;
		}
		if (result.status !== "created") begun.worker.forget(begun.driver);
		else {
			begun.driver.begun(begun.first.commit);
			this.#tell(begun.first.commit);
		}
		return result;
	}
	/** Where a worker here has a free slot, the first turn is computed before the run is created: no claim, one commit less. */
	async #begin(run, workflow) {
		if (workflow === void 0 || run.onConflict !== "reject" || (run.delay ?? 0) > 0 || run.startAt !== void 0) return void 0;
		if ((run.messages?.length ?? 0) > 0 || run.deadline !== void 0 || run.deadlineAt !== void 0 || run.idempotencyKey !== void 0) return void 0;
		for (const worker of this.#workers) {
			if (!worker.hasRoomFor(workflow, run.queue, run.version)) continue;
			const begun = await worker.begin(run);
			return begun === void 0 ? void 0 : {
				worker,
				...begun
			};
		}
	}
	send(runId, message) {
		this.assertOpen();
		return this.#sends.add({
			runId,
			message
		});
	}
	async updateOutcome(runId, id) {
		const [outcome] = await this.store.updates([{
			runId,
			id
		}]);
		return outcome;
	}
	waitForUpdate(runId, id, options) {
		this.assertOpen();
		return this.#results.update(runId, id, options);
	}
	waitForEnd(runId, options) {
		this.assertOpen();
		return this.#results.end(runId, options);
	}
	infoOf(row) {
		const date = (time) => time === void 0 ? void 0 : new Date(time);
		const served = [...this.#workers].some((worker) => worker.hasCodeFor(row));
		const waitingFor = row.status === "pending" && !served ? [`no worker here serves ${row.workflow}${row.version === void 0 ? "" : `@${row.version}`}`] : row.waitingFor;
		return {
			id: row.id,
			workflow: row.workflow,
			version: row.version,
			status: row.status,
			queue: row.queue,
			priority: row.priority,
			input: this.codec.decode(row.input),
			output: row.output === void 0 ? void 0 : this.codec.decode(row.output),
			error: row.error,
			waitingFor,
			execution: row.execution,
			attempt: row.attempt,
			parentId: row.parent?.runId,
			attributes: { ...row.attributes },
			createdAt: new Date(row.createdAt),
			startedAt: date(row.startedAt),
			availableAt: date(row.availableAt),
			deadlineAt: date(row.deadlineAt),
			finishedAt: date(row.finishedAt),
			workerId: row.workerId,
			historyLength: row.historyLength
		};
	}
};
// packages/holdfast/src/host/environment.ts
/** Node cuts longer timers short. */
const LONGEST_TIMER = 2 ** 31 - 1;
const { now } = Date;
const elapsed = performance.now.bind(performance);
const { random } = Math;
const uuid = randomUUID;
const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate } = globalThis;
const realEnvironment = {
	now: () => now(),
	elapsed: () => elapsed(),
	after(ms, callback) {
		const timer = setTimeout(callback, Math.min(Math.max(0, Math.ceil(ms)), LONGEST_TIMER));
		timer.unref();
		return { cancel: () => clearTimeout(timer) };
	},
	every(ms, callback) {
		const timer = setInterval(callback, ms);
		timer.unref();
		return { cancel: () => clearInterval(timer) };
	},
	stayAlive() {
		const timer = setInterval(() => {}, LONGEST_TIMER);
		return { cancel: () => clearInterval(timer) };
	},
	soon: (callback) => void setImmediate(callback),
	random: () => random(),
	uuid: () => uuid()
};
/** Run ids sort by time of creation: 48 bits of milliseconds, then randomness (UUID version 7). */
function timeOrderedId(environment) {
	const time = Math.floor(environment.now()).toString(16).padStart(12, "0");
	const rest = environment.uuid();
	return `${time.slice(0, 8)}-${time.slice(8, 12)}-7${rest.slice(15)}`;
}
// packages/holdfast/src/logger.ts
function line(message, fields) {
	return [
		"[holdfast]",
		message,
		...Object.entries(fields ?? {}).filter(([, value]) => value !== void 0).map(([key, value]) => `${key}=${value instanceof Error ? `${value.name}: ${value.message}` : typeof value === "string" ? value : JSON.stringify(value)}`)
	].join(" ");
}
const consoleLogger = {
	debug() {},
	info() {},
	warn: (message, fields) => console.warn(line(message, fields)),
	error: (message, fields) => console.error(line(message, fields))
};
// packages/holdfast/src/host/operations.ts
const KINDS = /* @__PURE__ */ new Set([
	"step",
	"transaction",
	"activity",
	"child",
	"sleep",
	"signal",
	"parallel",
	"join",
	"race",
	"loop",
	"receive",
	"sideEffect",
	"patch"
]);
const ATTEMPTED = /* @__PURE__ */ new Set([
	"step",
	"transaction",
	"activity"
]);
/** `workers`: who committed a turn, by its index. */
function operationsOf(turns, attempts, workers, codec) {
	const drafts = /* @__PURE__ */ new Map();
	for (const turn of turns) {
		for (const job of turn.jobs) settleByJob(drafts, job, turn, codec);
		for (const command of turn.commands) if ("n" in command) {
			if (KINDS.has(command.type) || command.type === "rollback") drafts.set(command.seq, opened(command, turn, codec));
		} else if (command.type === "settle") end(drafts.get(command.seq), SETTLED[command.status], turn.time);
		else if (command.type === "cancel") {
			const draft = drafts.get(command.seq);
			end(draft, draft?.kind === "step" || draft?.kind === "transaction" ? "abandoned" : "canceled", turn.time);
		}
	}
	for (const draft of drafts.values()) addAttempts(draft, attempts, workers.get(draft.turn) ?? "");
	return [...drafts.values()].map(({ seq: _, turn: _turn, ...info }) => info);
}
const SETTLED = {
	completed: "completed",
	failed: "failed",
	canceled: "canceled",
	timedOut: "completed"
};
function opened(command, turn, codec) {
	const at = new Date(turn.time);
	const kind = command.type === "rollback" ? "step" : command.type;
	const instant = command.type === "sideEffect" || command.type === "patch";
	const output = command.type === "sideEffect" && command.value !== void 0 ? codec.decode(command.value) : void 0;
	return {
		seq: command.seq,
		turn: turn.index,
		location: formatLocation(command.unit, command.name, command.n),
		unit: command.unit,
		kind,
		name: command.name,
		status: instant ? "completed" : ATTEMPTED.has(kind) ? "scheduled" : "waiting",
		output,
		error: command.type === "sideEffect" ? command.error : void 0,
		attempts: [],
		scheduledAt: at,
		endedAt: instant ? at : void 0
	};
}
function settleByJob(drafts, job, turn, codec) {
	if (job.type === "fire") {
		const draft = drafts.get(job.seq);
		if (draft?.kind === "sleep") end(draft, "completed", turn.time);
	}
	if (job.type === "resume") for (const seq of job.voids) reopen(drafts.get(seq));
	if (job.type !== "resolve") return;
	const draft = drafts.get(job.seq);
	if (draft === void 0) return;
	const { outcome } = job;
	if (outcome.status === "completed") draft.output = codec.decode(outcome.value);
	if (outcome.status === "failed") draft.error = outcome.error;
	end(draft, outcome.status, turn.time);
}
function end(draft, status, time) {
	if (draft === void 0 || draft.endedAt !== void 0) return;
	draft.status = status;
	draft.endedAt = new Date(time);
}
/** D10: its failure is voided; it goes on, or comes again. */
function reopen(draft) {
	if (draft === void 0) return;
	draft.status = ATTEMPTED.has(draft.kind) ? "scheduled" : "waiting";
	draft.error = void 0;
	draft.endedAt = void 0;
}
/** A step that succeeded at once has no rows: its record and its outcome are its one attempt, begun by whoever recorded it. */
function addAttempts(draft, rows, recordedBy) {
	if (!ATTEMPTED.has(draft.kind)) return;
	const own = rows.filter((row) => row.seq === draft.seq && row.number > 0).sort((a, b) => a.number - b.number);
	for (const { number, status, error, startedAt, endedAt, workerId } of own) draft.attempts.push({
		number,
		status,
		error,
		startedAt: new Date(startedAt),
		endedAt: endedAt === void 0 ? void 0 : new Date(endedAt),
		workerId: workerId === "" ? recordedBy : workerId
	});
	if (draft.attempts.length === 0 && draft.kind !== "activity") {
		const status = draft.endedAt === void 0 ? "running" : draft.status === "completed" ? "completed" : draft.status === "failed" ? "failed" : "lost";
		draft.attempts.push({
			number: 1,
			status,
			error: draft.error,
			startedAt: draft.scheduledAt,
			endedAt: draft.endedAt,
			workerId: recordedBy
		});
	}
	if (draft.endedAt === void 0 && draft.attempts.at(-1)?.status === "running") draft.status = "running";
}
// packages/holdfast/src/run.ts
var RunHandle = class {
	id;
	#engine;
	#workflow;
	constructor(engine, id, workflow) {
		this.id = id;
		this.#engine = engine;
		this.#workflow = workflow;
	}
	async result(options = {}) {
		const timeout = options.timeout === void 0 ? void 0 : parseDuration(options.timeout);
		return resultOf(await this.#engine.waitForEnd(this.id, {
			timeout,
			signal: options.signal
		}), this.#engine);
	}
	async signal(name, payload, options = {}) {
		refuseTx("signal", options);
		const spec = this.#spec("signals", name, "signal");
		const value = await validated(`signal ${name}`, spec?.schema, payload);
		const job = {
			type: "signal",
			id: options.idempotencyKey ?? this.#engine.environment.uuid(),
			name,
			payload: this.#engine.encode(value, `the payload of signal ${name}`)
		};
		await this.#send({
			job,
			idempotencyKey: options.idempotencyKey
		});
	}
	async update(name, input, options = {}) {
		const message = await this.updateMessage(name, input, options);
		const timeout = options.timeout === void 0 ? void 0 : parseDuration(options.timeout);
		const result = await this.#engine.send(this.id, message);
		if (result.status === "not-found") throw new RunNotFoundError({ runId: this.id });
		if (result.status === "closed") {
			const ended = await this.#engine.updateOutcome(this.id, message.job.id);
			if (ended === void 0) throw new RunClosedError({
				runId: this.id,
				status: result.runStatus
			});
			return this.#reply(name, ended);
		}
		return this.#reply(name, await this.#engine.waitForUpdate(this.id, message.job.id, { timeout }));
	}
	async updateMessage(name, input, options = {}) {
		refuseTx("update", options);
		const spec = this.#spec("updates", name, "update");
		const value = await validated(`update ${name}`, spec?.schema, input);
		const id = options.idempotencyKey ?? this.#engine.environment.uuid();
		return {
			job: {
				type: "update",
				id,
				name,
				input: this.#engine.encode(value, `the input of update ${name}`)
			},
			idempotencyKey: id
		};
	}
	#reply(name, outcome) {
		if (outcome.status === "completed") return this.#engine.codec.decode(outcome.value);
		const error = reviveError(outcome.error);
		throw outcome.status === "rejected" || error instanceof HoldfastError ? error : new UpdateFailedError({
			update: name,
			cause: error
		});
	}
	#spec(kind, name, word) {
		const declared = this.#definition()?.options[kind];
		if (declared === void 0 || Object.keys(declared).length === 0) return void 0;
		if (!Object.hasOwn(declared, name)) throw new HoldfastError(`Workflow "${this.#definition()?.name}" declares no ${word} "${name}". It has: ${Object.keys(declared).join(", ")}.`, { code: "HF_UNKNOWN_MESSAGE" });
		return declared[name];
	}
	#definition() {
		return this.#workflow;
	}
	async #send(message) {
		check(await this.#engine.send(this.id, message), this.id);
	}
	async cancel(reason) {
		await this.#send({ job: {
			type: "cancel",
			reason
		} });
	}
	async terminate(reason) {
		const [result] = await this.#engine.store.terminate([{
			runId: this.id,
			reason
		}]);
		if (result !== void 0) check(result, this.id);
	}
	async resume() {
		const [result] = await this.#engine.store.resume([this.id]);
		if (result === "not-found") throw new RunNotFoundError({ runId: this.id });
		if (result === "not-resumable") {
			const row = await this.#row();
			throw new HoldfastError(`Run ${this.id} is ${row.status}: only a failed run whose rollbacks have not run, or a blocked one, can be resumed.`, { code: "HF_NOT_RESUMABLE" });
		}
	}
	async #row() {
		const [row] = await this.#engine.store.get([this.id]);
		if (row === void 0) throw new RunNotFoundError({ runId: this.id });
		return row;
	}
	async query(name, args) {
		const row = await this.#row();
		const workflow = this.#workflow ?? this.#engine.workflowNamed(row.workflow);
		if (workflow === void 0) {
			const reason = `this process does not know workflow "${row.workflow}": pass it, engine.run(id, workflow)`;
			throw new QueryFailedError({
				query: name,
				reason
			});
		}
		const { codec } = this.#engine;
		return codec.decode(codec.encode(evaluateQuery(workflow, name, row.state, args, codec)));
	}
	async state() {
		const { state } = await this.#row();
		return state === void 0 ? void 0 : this.#engine.codec.decode(state);
	}
	async describe() {
		return this.#engine.infoOf(await this.#row());
	}
	async history() {
		const row = await this.#row();
		return toHistory(await this.#engine.store.history(this.id), row.status);
	}
	async operations() {
		await this.#row();
		const { store, codec } = this.#engine;
		const [turns, attempts, workers] = await Promise.all([
			store.history(this.id),
			store.attempts(this.id),
			store.workers?.(this.id)
		]);
		return operationsOf(turns, attempts, workers ?? /* @__PURE__ */ new Map(), codec);
	}
};
/** Never ignored: a caller who passes one counts on it. */
function refuseTx(what, options) {
	if (options.tx === void 0) return;
	throw new InvalidInputError({
		what,
		issues: [{
			message: "This store can't take part in a transaction of yours.",
			path: ["tx"]
		}]
	});
}
function check(result, runId) {
	if (result.status === "not-found") throw new RunNotFoundError({ runId });
	if (result.status === "closed") throw new RunClosedError({
		runId,
		status: result.runStatus
	});
}
/** What `result()` gives for a run that has ended, or is blocked (V4). */
function resultOf(row, engine) {
	const cause = row.error === void 0 ? void 0 : reviveError(row.error);
	switch (row.status) {
		case "completed": return row.output === void 0 ? void 0 : engine.codec.decode(row.output);
		case "canceled": throw new CanceledError(cause?.message);
		case "terminated": throw cause instanceof RunTerminatedError ? cause : new RunTerminatedError({ runId: row.id });
		case "blocked": throw new RunBlockedError({
			runId: row.id,
			reason: cause?.message ?? "its code can't advance it",
			...cause !== void 0 && { cause }
		});
		default: throw new RunFailedError({
			runId: row.id,
			...cause !== void 0 && { cause }
		});
	}
}
// packages/holdfast/src/store/open.ts
const DEFAULT_URL = "file:.holdfast/holdfast.db";
function invalid$1(message) {
	return new InvalidInputError({
		what: "Holdfast.open",
		issues: [{ message }]
	});
}
async function openStore(url = DEFAULT_URL) {
	if (typeof url !== "string") throw invalid$1(`The url must be text, not ${typeof url}.`);
	if (url === "memory:") {
		const { MemoryStore } = await import("./store-ijqWA-1H.js");
		return new MemoryStore();
	}
	if (url.startsWith("file:")) {
		const [place = "", query = ""] = url.split("?", 2);
		const path = place.startsWith("file://") ? decodeURIComponent(new URL(place).pathname) : place.slice(5);
		if (path === "") throw invalid$1("\"file:\" names no file. Example: \"file:./app.db\".");
		const options = sqliteOptions(new URLSearchParams(query));
		const { SqliteStore } = await import("./store-Ch84CsIw.js");
		return new SqliteStore(path, options);
	}
	throw invalid$1(`"${url.slice(0, 100)}" is no url of a store. Use "file:./app.db" or "memory:".`);
}
/** `?synchronous=NORMAL` trades the last commits on power loss for speed; everything else is refused. */
function sqliteOptions(query) {
	const options = {};
	for (const [key, value] of query) {
		const upper = value.toUpperCase();
		if (key !== "synchronous" || upper !== "FULL" && upper !== "NORMAL") throw invalid$1(`"${key}=${value}" is no option of a file. There is synchronous=FULL (default) and synchronous=NORMAL.`);
		options.synchronous = upper;
	}
	return options;
}
// packages/holdfast/src/holdfast.ts
const STATUSES = /* @__PURE__ */ new Set([
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
]);
var Holdfast = class Holdfast {
	#engine;
	#internals;
	constructor(engine, internals) {
		this.#engine = engine;
		this.#internals = internals;
	}
	/** "file:./app.db" (default file:.holdfast/holdfast.db), "memory:", "postgres://…", "temporal://host:7233/namespace?queue=…". */
	static async open(url, options = {}) {
		if (options.namespace !== void 0 && options.namespace !== "default") throw invalid("Holdfast.open", "This store keeps one namespace. Use a file of its own for another.", "namespace");
		return Holdfast.with({ store: await openStore(url) }, options);
	}
	/** On a store of your own. */
	static async with(internals, options = {}) {
		const engine = new Engine({
			store: internals.store,
			environment: internals.environment ?? realEnvironment,
			codec: options.codec ?? jsonCodec,
			logger: options.logger ?? consoleLogger,
			limits: options.limits ?? {}
		});
		await engine.open();
		return new Holdfast(engine, internals);
	}
	async start(workflow, input, options = {}) {
		const definition = typeof workflow === "string" ? this.#engine.workflowNamed(workflow) : workflow;
		const run = await this.#newRun(workflow, input, options);
		return this.#handle(await this.#create(run, definition), definition);
	}
	/** Starts the run, or finds it, and sends it an update that its first receive may accept. */
	async updateWithStart(workflow, input, update, options = {}) {
		const run = await this.#newRun(workflow, input, {
			onConflict: "use-existing",
			...options
		});
		const message = await new RunHandle(this.#engine, run.id, workflow).updateMessage(update.name, update.input, update);
		const created = await this.#engine.start({
			...run,
			messages: [...run.messages ?? [], message]
		}, workflow);
		if (created.status === "conflict" && run.onConflict === "reject") throw new RunAlreadyExistsError({ runId: run.id });
		const handle = new RunHandle(this.#engine, created.id, workflow);
		return {
			run: handle,
			result: await handle.update(update.name, update.input, { idempotencyKey: message.job.id })
		};
	}
	async startMany(workflow, items) {
		const runs = await Promise.all([...items].map(({ input, ...options }) => this.#newRun(workflow, input, options)));
		return (await Promise.all(runs.map((run) => this.#create(run, workflow)))).map((id) => this.#handle(id, workflow));
	}
	/** The id of the run that was created, or found: under an idempotency key it may be another than was asked for (M3). */
	async #create(run, workflow) {
		const result = await this.#engine.start(run, workflow);
		if (result.status !== "conflict") return result.id;
		if (run.onConflict === "use-existing") throw new RunClosedError({
			runId: run.id,
			status: result.runStatus
		});
		throw new RunAlreadyExistsError({ runId: run.id });
	}
	async #newRun(workflow, input, options) {
		this.#engine.assertOpen();
		refuseTx("start", options);
		const definition = typeof workflow === "string" ? this.#engine.workflowNamed(workflow) : workflow;
		const name = typeof workflow === "string" ? workflow : workflow.name;
		if (typeof name !== "string" || name === "") throw invalid("start", "Give a workflow, or the name of one.");
		const value = await validated(`the input of workflow ${name}`, definition?.options.input, input);
		const deadline = options.deadline ?? definition?.options.deadline;
		return {
			id: checkedId(options.id) ?? timeOrderedId(this.#engine.environment),
			workflow: name,
			version: options.version ?? definition?.version,
			input: this.#engine.encode(value, `the input of workflow ${name}`),
			queue: options.queue ?? "default",
			priority: checkedPriority(options.priority ?? 0),
			delay: options.delay === void 0 ? void 0 : parseDuration(options.delay),
			startAt: options.startAt === void 0 ? void 0 : moment("startAt", options.startAt),
			deadline: deadline === void 0 || deadline instanceof Date ? void 0 : parseDuration(deadline),
			deadlineAt: deadline instanceof Date ? moment("deadline", deadline) : void 0,
			retry: storedRunRetry(options.retry ?? definition?.options.retry),
			attributes: checkedAttributes(options.attributes ?? {}),
			idempotencyKey: options.idempotencyKey,
			onConflict: options.onConflict ?? "reject",
			seed: this.#engine.environment.uuid(),
			messages: options.signals === void 0 ? void 0 : await this.#startSignals(definition, options.signals)
		};
	}
	async #startSignals(workflow, signals) {
		const specs = workflow?.options.signals ?? {};
		return Promise.all(signals.map(async ({ name, payload }) => {
			const value = await validated(`signal ${name}`, specs[name]?.schema, payload);
			return { job: {
				type: "signal",
				id: this.#engine.environment.uuid(),
				name,
				payload: this.#engine.encode(value, `signal ${name}`)
			} };
		}));
	}
	run(id, workflow) {
		return this.#handle(id, workflow);
	}
	#handle(id, workflow) {
		return new RunHandle(this.#engine, id, workflow);
	}
	async list(filter = {}) {
		const limit = filter.limit ?? 100;
		if (!Number.isInteger(limit) || limit < 1 || limit > 1e3) throw invalid("list", "limit is a whole number from 1 to 1,000.", "limit");
		const { runs, cursor } = await this.#engine.store.list({
			...queryOf(filter),
			limit,
			cursor: filter.cursor
		});
		return {
			runs: runs.map((row) => this.#engine.infoOf(row)),
			cursor
		};
	}
	count(filter = {}) {
		return this.#engine.store.count(queryOf(filter));
	}
	/** Starts at once; `await worker.stop()` for a graceful end. */
	async worker(options) {
		const workflows = byName("worker.workflows", options.workflows, isWorkflow);
		const activities = byName("worker.activities", options.activities ?? [], isActivity);
		const whole = (key, fallback, least) => {
			const value = options[key] ?? fallback;
			if (!Number.isInteger(value) || value < least) throw invalid("worker", `${key} is a whole number of at least ${least}, not ${value}.`, key);
			return value;
		};
		const { environment } = this.#engine;
		const turnTimeout = parseDuration(options.turnTimeout ?? "2s");
		const host = await this.#engine.startWorker({
			id: `worker-${environment.uuid().slice(0, 8)}`,
			queue: options.queue ?? "default",
			workflows,
			activities,
			concurrency: whole("concurrency", 100, 1),
			activityConcurrency: whole("activityConcurrency", 100, 1),
			cachedRuns: whole("cachedRuns", 1e3, 0),
			lease: parseDuration(options.lease ?? "30s"),
			gracePeriod: parseDuration(options.gracePeriod ?? "10s"),
			turnTimeout,
			watchdogAfter: Math.max(this.#internals.watchdogAfter ?? 5e3, 2 * turnTimeout),
			determinism: checkedDeterminism(options.determinism),
			maxRecoveries: 100,
			pollInterval: 1e3,
			replaceStep: this.#internals.replaceStep ?? (() => void 0),
			replaceActivity: this.#internals.replaceActivity ?? (() => void 0)
		});
		for (const signal of options.stopOn ?? []) stopOnSignal(signal, host, this.#engine);
		return new WorkerHandle(host);
	}
	close() {
		return this.#engine.close();
	}
	[Symbol.asyncDispose]() {
		return this.close();
	}
};
var WorkerHandle = class {
	#host;
	constructor(host) {
		this.#host = host;
	}
	get id() {
		return this.#host.id;
	}
	get active() {
		return this.#host.active;
	}
	stop() {
		return this.#host.stop();
	}
	[Symbol.asyncDispose]() {
		return this.stop();
	}
};
/** W4: the signal stops the worker gracefully and the process exits 0; a second one ends it. */
function stopOnSignal(signal, host, engine) {
	let asked = false;
	process.on(signal, () => {
		if (asked) process.exit(signal === "SIGINT" ? 130 : 143);
		asked = true;
		host.stop().then(() => engine.close()).then(() => process.exit(0), (error) => {
			engine.logger.error("The worker could not stop cleanly.", { error });
			process.exit(1);
		});
	});
}
function invalid(what, message, path) {
	return new InvalidInputError({
		what,
		issues: [path === void 0 ? { message } : {
			message,
			path: [path]
		}]
	});
}
function checkedId(id) {
	if (id === void 0) return void 0;
	if (typeof id !== "string" || id === "" || id.length > 512 || /[\u0000-\u001f\u007f]/.test(id)) throw invalid("start", "An id is text of 1 to 512 characters without control characters.", "id");
	return id;
}
function checkedPriority(priority) {
	if (!Number.isInteger(priority) || Math.abs(priority) > 1e6) throw invalid("start", `priority is a whole number, not ${priority}.`, "priority");
	return priority;
}
function checkedDeterminism(mode) {
	if (mode === void 0) return process.env["NODE_ENV"] === "production" ? "off" : "warn";
	if (![
		"off",
		"warn",
		"error"
	].includes(mode)) throw invalid("worker", `determinism is "off", "warn" or "error", not ${String(mode)}.`, "determinism");
	return mode;
}
function moment(key, date) {
	const time = date instanceof Date ? date.getTime() : NaN;
	if (Number.isNaN(time)) throw invalid("start", `${key} is not a valid Date.`, key);
	return time;
}
function checkedAttributes(attributes) {
	for (const [key, value] of Object.entries(attributes)) if (![
		"string",
		"number",
		"boolean"
	].includes(typeof value)) throw invalid("start", `attribute "${key}" must be text, a number or a boolean.`, key);
	return { ...attributes };
}
function storedRunRetry(retry) {
	if (retry === void 0) return void 0;
	validateRetry(retry);
	const { nonRetryable } = retry;
	const resolved = resolveRetry(retry, "run");
	return Array.isArray(nonRetryable) ? {
		...resolved,
		nonRetryable
	} : resolved;
}
function queryOf(filter) {
	const status = filter.status === void 0 ? void 0 : typeof filter.status === "string" ? [filter.status] : filter.status;
	for (const one of status ?? []) if (!STATUSES.has(one)) throw invalid("list", `There is no status "${one}".`, "status");
	return {
		status,
		workflow: filter.workflow,
		queue: filter.queue,
		parentId: filter.parentId,
		attributes: filter.attributes,
		since: filter.since?.getTime(),
		until: filter.until?.getTime()
	};
}
export { ActivityFailedError, CanceledError, ChildFailedError, DeadlineExceededError, FatalError, ForeignAwaitError, Holdfast, HoldfastError, IllegalCallError, IllegalReturnError, InvalidInputError, JoinError, LimitExceededError, Loop, NondeterminismError, OutOfTurnError, QueryFailedError, RaceError, Receive, ReceiveClosedError, RollbackError, RunAlreadyExistsError, RunBlockedError, RunClosedError, RunFailedError, RunNotFoundError, RunTerminatedError, StepFailedError, StepTimeoutError, TurnTimeoutError, UnserializableValueError, UpdateFailedError, UpdateRejectedError, activity, isDeliveredError, jsonCodec, replay, signal, update, workflow };
