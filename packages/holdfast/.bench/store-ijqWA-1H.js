import { A as StepTimeoutError, I as RunClosedError, L as RunNotFoundError, O as RunTerminatedError, P as RunAlreadyExistsError, S as DeadlineExceededError, W as jsonCodec, r as retryDelay, s as recordCount, tt as HoldfastError, u as trimmed, v as serializeError } from "./retry-JkheHewo.js";
// packages/holdfast/src/store/memory/agenda.ts
const byTurn = (a, b) => b.priority - a.priority || a.at - b.at || a.order - b.order;
const byTime = (a, b) => a.at - b.at;
var Agenda = class {
	#queues = /* @__PURE__ */ new Map();
	/** Where each is entered now: a run may come back under another queue or version. */
	#placeOf = /* @__PURE__ */ new WeakMap();
	/** Call it whenever `availableAt` has changed. */
	put(queue, name, variant, item) {
		const { availableAt, priority, order } = item;
		if (availableAt === void 0) return;
		const place = this.#place(queue, name, variant);
		this.#placeOf.set(item, place);
		place.later.push({
			item,
			at: availableAt,
			priority,
			order
		});
	}
	/** Those that are due, in the order of claims. Each must have another `availableAt` before the next call. */
	due(queue, accepts, limit, now) {
		const places = this.#accepted(queue, accepts);
		for (const place of places) this.#ripen(place, now);
		const taken = [];
		while (taken.length < limit) {
			let best;
			for (const place of places) {
				const top = this.#top(place, place.ready);
				const rival = best?.ready.top;
				if (top !== void 0 && (rival === void 0 || byTurn(top, rival) < 0)) best = place;
			}
			const entry = best?.ready.pop();
			if (entry === void 0) break;
			if (!taken.includes(entry.item)) taken.push(entry.item);
		}
		return taken;
	}
	/** The earliest moment at which anything is due. */
	next(queue, accepts) {
		let next;
		for (const place of this.#accepted(queue, accepts)) for (const heap of [place.ready, place.later]) {
			const at = this.#top(place, heap)?.at;
			if (at !== void 0 && (next === void 0 || at < next)) next = at;
		}
		return next;
	}
	#place(queue, name, variant) {
		const places = this.#queues.get(queue) ?? /* @__PURE__ */ new Map();
		this.#queues.set(queue, places);
		const key = variant === void 0 ? name : `${name}\n${variant}`;
		const place = places.get(key) ?? {
			name,
			variant,
			ready: new Heap(byTurn),
			later: new Heap(byTime)
		};
		places.set(key, place);
		return place;
	}
	#accepted(queue, accepts) {
		return [...this.#queues.get(queue)?.values() ?? []].filter(({ name, variant }) => accepts(name, variant));
	}
	/** The first entry that still says what is so. */
	#top(place, heap) {
		for (let top = heap.top; top !== void 0; top = heap.top) {
			if (top.item.availableAt === top.at && this.#placeOf.get(top.item) === place) return top;
			heap.pop();
		}
	}
	#ripen(place, now) {
		for (let top = this.#top(place, place.later); top !== void 0 && top.at <= now; top = this.#top(place, place.later)) {
			place.later.pop();
			place.ready.push(top);
		}
	}
};
/** A binary heap, least first. */
var Heap = class {
	#items = [];
	#compare;
	constructor(compare) {
		this.#compare = compare;
	}
	get top() {
		return this.#items[0];
	}
	push(item) {
		const items = this.#items;
		let at = items.push(item) - 1;
		while (at > 0) {
			const above = at - 1 >> 1;
			const other = items[above];
			if (this.#compare(item, other) >= 0) break;
			items[at] = other;
			at = above;
		}
		items[at] = item;
	}
	pop() {
		const items = this.#items;
		const top = items[0];
		const item = items.pop();
		if (item === void 0 || items.length === 0) return top;
		let at = 0;
		for (let below = 1; below < items.length; below = 2 * at + 1) {
			if (below + 1 < items.length && this.#compare(items[below + 1], items[below]) < 0) below++;
			const other = items[below];
			if (this.#compare(other, item) >= 0) break;
			items[at] = other;
			at = below;
		}
		items[at] = item;
		return top;
	}
};
// packages/holdfast/src/store/memory/state.ts
const CLOSED = /* @__PURE__ */ new Set([
	"completed",
	"failed",
	"canceled",
	"terminated"
]);
const isOpen = (run) => !CLOSED.has(run.status);
function rowOf(run) {
	return {
		id: run.id,
		workflow: run.workflow,
		version: run.version,
		status: run.status,
		queue: run.queue,
		priority: run.priority,
		input: run.input,
		output: run.output,
		error: run.error,
		state: run.state,
		waitingFor: [...run.waitingFor],
		execution: run.execution,
		attempt: run.attempt,
		parent: run.parent,
		attributes: { ...run.attributes },
		seed: run.seed,
		retry: run.retry,
		createdAt: run.createdAt,
		startedAt: run.startedAt,
		availableAt: run.availableAt,
		deadlineAt: run.deadlineAt,
		finishedAt: run.finishedAt,
		workerId: run.workerId,
		epoch: run.epoch,
		historyLength: run.historyLength,
		turns: run.turns,
		recoveries: run.recoveries
	};
}
/** A run before anything is known of it but what it is. */
function unbegun(order, { id, workflow, version, queue, priority, input, seed }, now) {
	return {
		order,
		id,
		workflow,
		version,
		status: "pending",
		queue,
		priority,
		input,
		output: void 0,
		error: void 0,
		state: void 0,
		waitingFor: [],
		execution: 1,
		attempt: 1,
		parent: void 0,
		attributes: {},
		seed,
		retry: void 0,
		createdAt: now,
		startedAt: void 0,
		availableAt: void 0,
		deadlineAt: void 0,
		finishedAt: void 0,
		workerId: void 0,
		epoch: 0,
		historyLength: 0,
		turns: 0,
		recoveries: 0,
		rollbacks: 0,
		resumable: true,
		blockedCode: void 0,
		history: [],
		workers: /* @__PURE__ */ new Map(),
		attempts: [],
		inbox: [],
		keys: void 0,
		updates: void 0
	};
}
function claimedTask(task) {
	return {
		seq: task.seq,
		activity: task.activity,
		queue: task.queue,
		input: task.input,
		retry: task.retry,
		startToClose: task.startToClose,
		scheduleToClose: task.scheduleToClose,
		scheduleToStart: task.scheduleToStart,
		heartbeat: task.heartbeat,
		location: task.location,
		id: task.id,
		runId: task.runId,
		execution: task.execution,
		attempt: task.attempt,
		token: task.token,
		lastHeartbeat: task.lastHeartbeat
	};
}
// packages/holdfast/src/store/memory/tasks.ts
var Tasks = class {
	#tasks = /* @__PURE__ */ new Map();
	#byRun = /* @__PURE__ */ new Map();
	#agenda = new Agenda();
	#attempts = /* @__PURE__ */ new Map();
	#resolve;
	/** No limit of any task passes before this moment. */
	#nextLimit = Number.POSITIVE_INFINITY;
	#lastId = 0;
	#lastToken = 0;
	constructor(resolve) {
		this.#resolve = resolve;
	}
	add(runId, execution, task, now) {
		const id = ++this.#lastId;
		const kept = {
			...task,
			id,
			order: id,
			priority: 0,
			runId,
			execution,
			scheduledAt: now,
			availableAt: now,
			attempt: 0,
			token: 0,
			workerId: void 0,
			startedAt: 0,
			lastHeartbeat: void 0,
			heartbeatAt: 0,
			leaseEndsAt: 0
		};
		this.#tasks.set(id, kept);
		const siblings = this.#byRun.get(runId);
		if (siblings === void 0) this.#byRun.set(runId, /* @__PURE__ */ new Set([kept]));
		else siblings.add(kept);
		this.#changed(kept);
	}
	/** Gives up tasks of a run: these, or all (C7, and at its end). Nobody is told but their workers, when they ask. */
	removeOf(runId, now, seqs) {
		for (const task of this.#byRun.get(runId) ?? []) {
			if (seqs !== void 0 && !seqs.includes(task.seq)) continue;
			if (task.workerId !== void 0) this.#keepAttempt(task, "lost", void 0, now);
			this.#remove(task);
		}
	}
	/** Attempts of these operations (L4), or all: the next execution uses their numbers again (P10). */
	forgetAttemptsOf(runId, seqs) {
		const rows = this.#attempts.get(runId);
		if (rows === void 0 || seqs === void 0) this.#attempts.delete(runId);
		else this.#attempts.set(runId, rows.filter(({ seq }) => !seqs.has(seq)));
	}
	#remove(task) {
		task.availableAt = void 0;
		this.#tasks.delete(task.id);
		const siblings = this.#byRun.get(task.runId);
		siblings?.delete(task);
		if (siblings?.size === 0) this.#byRun.delete(task.runId);
	}
	#changed(task) {
		this.#agenda.put(task.queue, task.activity, void 0, task);
		this.#nextLimit = Math.min(this.#nextLimit, limitOf(task)?.at ?? Number.POSITIVE_INFINITY);
	}
	claim(request, now) {
		const { queue, activities, limit, lease, workerId } = request;
		const accepts = (activity) => activities.includes(activity);
		const taken = this.#agenda.due(queue, accepts, limit, now);
		for (const task of taken) {
			task.availableAt = void 0;
			task.attempt++;
			task.token = ++this.#lastToken;
			task.workerId = workerId;
			task.startedAt = now;
			task.heartbeatAt = now;
			task.leaseEndsAt = now + lease;
			this.#changed(task);
		}
		return {
			tasks: taken.map(claimedTask),
			nextAt: this.#agenda.next(queue, accepts)
		};
	}
	#held({ id, token }) {
		const task = this.#tasks.get(id);
		return task !== void 0 && task.token === token && task.workerId !== void 0 ? task : void 0;
	}
	heartbeat(beat, now) {
		const task = this.#held(beat);
		if (task === void 0) return false;
		task.leaseEndsAt = now + beat.lease;
		if (beat.details !== void 0) {
			task.lastHeartbeat = beat.details;
			task.heartbeatAt = now;
		}
		this.#changed(task);
		return true;
	}
	answer(answer, now) {
		const task = this.#held(answer);
		if (task === void 0) return false;
		const { outcome } = answer;
		if (outcome.status === "completed") {
			this.#keepAttempt(task, "completed", void 0, now);
			this.#over(task, outcome, now);
		} else {
			this.#keepAttempt(task, "failed", outcome.error, now);
			if (outcome.retryable) this.#retry(task, outcome.error, retryDelay(task.retry, task.attempt, outcome.random), now);
			else this.#over(task, {
				status: "failed",
				error: outcome.error,
				attempts: task.attempt
			}, now);
		}
		return true;
	}
	attemptsOf(runId) {
		const running = [...this.#byRun.get(runId) ?? []].filter(({ workerId }) => workerId !== void 0);
		return [...this.#attempts.get(runId) ?? [], ...running.map((task) => attemptRow(task, "running", void 0, void 0))];
	}
	#keepAttempt(task, status, error, now) {
		const row = attemptRow(task, status, error, now);
		const rows = this.#attempts.get(task.runId);
		if (rows === void 0) this.#attempts.set(task.runId, [row]);
		else rows.push(row);
	}
	#over(task, outcome, now) {
		this.#remove(task);
		this.#resolve(task, outcome, now);
	}
	#retry(task, error, delay, now) {
		const next = now + delay;
		const tooLate = task.scheduleToClose !== void 0 && next >= task.scheduledAt + task.scheduleToClose;
		if (task.attempt >= task.retry.maxAttempts || tooLate) {
			this.#over(task, {
				status: "failed",
				error,
				attempts: task.attempt
			}, now);
			return;
		}
		task.workerId = void 0;
		task.token = ++this.#lastToken;
		task.availableAt = next;
		this.#changed(task);
	}
	/** Ends what has run out of time. */
	sweep(now) {
		if (now < this.#nextLimit) return;
		this.#nextLimit = Number.POSITIVE_INFINITY;
		for (const task of [...this.#tasks.values()]) {
			const limit = limitOf(task);
			if (limit === void 0) continue;
			if (limit.at > now) this.#nextLimit = Math.min(this.#nextLimit, limit.at);
			else this.#late(task, limit, now);
		}
	}
	#late(task, limit, now) {
		const running = task.workerId !== void 0;
		const error = serializeError(limit.kind === "lease" ? new HoldfastError(`The worker that ran attempt ${task.attempt} did not come back.`, { code: "HF_WORKER_LOST" }) : new StepTimeoutError({
			step: task.activity,
			timeout: limit.length,
			attempt: Math.max(1, task.attempt)
		}));
		if (running) this.#keepAttempt(task, limit.kind === "lease" ? "lost" : "failed", error, now);
		if (limit.kind === "task") this.#over(task, {
			status: "failed",
			error,
			attempts: task.attempt
		}, now);
		else this.#retry(task, error, limit.kind === "lease" ? 0 : retryDelay(task.retry, task.attempt, .5), now);
	}
};
/** The first limit that a task runs into as it stands. */
function limitOf(task) {
	const { scheduledAt, startedAt, heartbeatAt, leaseEndsAt, scheduleToClose, scheduleToStart, startToClose, heartbeat } = task;
	const limits = [];
	if (scheduleToClose !== void 0) limits.push({
		at: scheduledAt + scheduleToClose,
		length: scheduleToClose,
		kind: "task"
	});
	if (task.workerId === void 0) {
		if (scheduleToStart !== void 0 && task.attempt === 0) limits.push({
			at: scheduledAt + scheduleToStart,
			length: scheduleToStart,
			kind: "task"
		});
	} else {
		if (startToClose !== void 0) limits.push({
			at: startedAt + startToClose,
			length: startToClose,
			kind: "attempt"
		});
		if (heartbeat !== void 0) limits.push({
			at: heartbeatAt + heartbeat,
			length: heartbeat,
			kind: "attempt"
		});
		limits.push({
			at: leaseEndsAt,
			length: 0,
			kind: "lease"
		});
	}
	return limits.reduce((first, limit) => first === void 0 || limit.at < first.at ? limit : first, void 0);
}
function attemptRow(task, status, error, endedAt) {
	return {
		seq: task.seq,
		number: task.attempt,
		status,
		error,
		startedAt: task.startedAt,
		endedAt,
		workerId: task.workerId ?? ""
	};
}
// packages/holdfast/src/store/memory/book.ts
const NOTHING = jsonCodec.encode(void 0);
var Book = class {
	#runs = /* @__PURE__ */ new Map();
	#startKeys = /* @__PURE__ */ new Map();
	#children = /* @__PURE__ */ new Map();
	/** Open runs that have a deadline which nobody has told them of. */
	deadlines = /* @__PURE__ */ new Set();
	agenda = new Agenda();
	tasks = new Tasks(({ runId, execution, seq }, outcome, now) => {
		const run = this.#runs.get(runId);
		if (run !== void 0 && isOpen(run) && run.execution === execution) this.resolve(run, seq, outcome, now);
	});
	#wakeup = {};
	#lastOrder = 0;
	#lastInbox = 0;
	get(id) {
		return this.#runs.get(id);
	}
	all() {
		return this.#runs.values();
	}
	startedUnder(key) {
		return key === void 0 ? void 0 : this.#startKeys.get(key);
	}
	insert(run, now) {
		const kept = unbegun(++this.#lastOrder, run, now);
		this.#runs.set(kept.id, kept);
		this.#settle(kept, run, now);
		return kept;
	}
	/** P10: a closed run begins again, as a new start says. */
	restart(kept, run, now) {
		this.#nextExecution(kept, run);
		const { workflow, queue, priority } = run;
		Object.assign(kept, {
			workflow,
			queue,
			priority,
			startedAt: void 0
		});
		this.#settle(kept, run, now);
	}
	/** What a start says, for a new run and for one that begins again. */
	#settle(kept, run, now) {
		if (kept.parent !== void 0) this.#children.get(kept.parent.runId)?.delete(kept);
		kept.parent = run.parent;
		kept.retry = run.retry;
		kept.attributes = { ...run.attributes };
		kept.deadlineAt = run.deadlineAt ?? (run.deadline === void 0 ? void 0 : now + run.deadline);
		if (kept.deadlineAt !== void 0) this.deadlines.add(kept);
		if (run.idempotencyKey !== void 0) this.#startKeys.set(run.idempotencyKey, kept);
		if (run.parent !== void 0) {
			const siblings = this.#children.get(run.parent.runId);
			if (siblings === void 0) this.#children.set(run.parent.runId, /* @__PURE__ */ new Set([kept]));
			else siblings.add(kept);
		}
		this.setAvailable(kept, run.startAt ?? now + (run.delay ?? 0));
	}
	childrenOf(runId) {
		return [...this.#children.get(runId) ?? []];
	}
	setAvailable(run, at) {
		run.availableAt = at;
		this.agenda.put(run.queue, run.workflow, run.version, run);
		if (at !== void 0 && run.workerId === void 0) this.wake("work");
	}
	availableNow(run, now) {
		if (run.availableAt === void 0 || run.availableAt > now) this.setAvailable(run, now);
		this.wake("work");
	}
	wake(what) {
		this.#wakeup[what] = true;
	}
	/** What watchers are to be told since this was last asked. */
	takeWakeup() {
		const wakeup = this.#wakeup;
		if (wakeup.work !== true && wakeup.tasks !== true && wakeup.results !== true) return void 0;
		this.#wakeup = {};
		return wakeup;
	}
	send(runId, message, now) {
		const run = this.#runs.get(runId);
		if (run === void 0) return { status: "not-found" };
		const used = usedKey(run, message);
		if (used !== void 0) return {
			status: "duplicate",
			inboxId: used.inboxId
		};
		if (!isOpen(run)) return {
			status: "closed",
			runStatus: run.status
		};
		const inboxId = this.put(run, message, now);
		if (message.job.type === "cancel" && run.turns === 0 && run.workerId === void 0) this.close(run, { status: "canceled" }, now);
		return {
			status: "sent",
			inboxId
		};
	}
	/** Into the inbox of an open run, once for each key. Wakes it if it is parked; one that has yet to start keeps its time. */
	put(run, message, now) {
		const used = usedKey(run, message);
		if (used !== void 0) return used.inboxId;
		const key = keyOf(message);
		const inboxId = this.append(run, message.job);
		if (key !== void 0) {
			run.keys ??= /* @__PURE__ */ new Map();
			run.keys.set(key, {
				inboxId,
				update: message.job.type === "update"
			});
		}
		if (run.workerId === void 0 && run.status !== "pending") this.availableNow(run, now);
		return inboxId;
	}
	/** Into the inbox, key or no key. */
	append(run, job) {
		const id = ++this.#lastInbox;
		run.inbox.push({
			id,
			job
		});
		this.wake("work");
		return id;
	}
	resolve(run, seq, outcome, now) {
		this.put(run, { job: {
			type: "resolve",
			seq,
			outcome
		} }, now);
	}
	close(run, close, now) {
		if (close.status === "continued" && close.next !== void 0) return this.#continue(run, close.next, now);
		run.status = close.status;
		run.output = close.output;
		run.error = close.error;
		run.resumable = close.status === "failed" && close.resumable !== false;
		run.finishedAt = now;
		run.workerId = void 0;
		run.availableAt = void 0;
		run.waitingFor = [];
		run.epoch++;
		this.#refuseUpdates(run);
		run.inbox = [];
		this.deadlines.delete(run);
		this.tasks.removeOf(run.id, now);
		this.wake("results");
		this.#tellParent(run, now);
		for (const child of this.childrenOf(run.id)) this.#followParent(child, run, now);
	}
	terminate(run, reason, now) {
		const error = serializeError(new RunTerminatedError(reason === void 0 ? { runId: run.id } : {
			runId: run.id,
			reason
		}));
		this.close(run, {
			status: "terminated",
			error
		}, now);
	}
	/** M10: no caller waits for ever. */
	#refuseUpdates(run) {
		const open = [...run.keys ?? []].filter(([id, { update }]) => update && run.updates?.has(id) !== true);
		if (open.length === 0) return;
		const error = serializeError(new RunClosedError({
			runId: run.id,
			status: run.status
		}));
		const waiting = new Set(run.inbox.map(({ job }) => job.type === "update" ? job.id : void 0));
		run.updates ??= /* @__PURE__ */ new Map();
		for (const [id] of open) run.updates.set(id, {
			status: waiting.has(id) ? "rejected" : "failed",
			error
		});
	}
	#tellParent(run, now) {
		const { parent } = run;
		const waiting = parent === void 0 ? void 0 : this.#runs.get(parent.runId);
		if (parent === void 0 || waiting === void 0 || !isOpen(waiting) || waiting.execution !== parent.execution) return;
		this.resolve(waiting, parent.seq, outcomeOf(run), now);
	}
	#followParent(child, parent, now) {
		if (!isOpen(child)) return;
		const reason = `its parent ${parent.id} has ended`;
		if (child.parent?.parentClose === "terminate") this.terminate(child, reason, now);
		else if (child.parent?.parentClose === "cancel") this.send(child.id, { job: {
			type: "cancel",
			reason
		} }, now);
	}
	#continue(run, next, now) {
		const waiting = run.inbox.map(({ job }) => job);
		run.inbox = [];
		this.tasks.removeOf(run.id, now);
		this.#nextExecution(run, next);
		for (const { job } of next.carried) this.append(run, job);
		for (const job of waiting) if (!isAnswer(job)) this.append(run, job);
		this.setAvailable(run, now);
	}
	#nextExecution(run, { input, version, seed }) {
		this.tasks.forgetAttemptsOf(run.id);
		run.input = input;
		run.version = version;
		run.seed = seed;
		run.execution++;
		run.epoch++;
		run.attempt = 1;
		run.status = "pending";
		run.workerId = void 0;
		run.output = void 0;
		run.error = void 0;
		run.finishedAt = void 0;
		run.waitingFor = [];
		run.blockedCode = void 0;
		run.rollbacks = 0;
		run.resumable = true;
		run.historyLength = 0;
		run.turns = 0;
		run.recoveries = 0;
		run.history = [];
		run.workers = /* @__PURE__ */ new Map();
		run.attempts = [];
	}
};
/** Answers are to operations of one execution; the next uses their numbers again (P10). */
const isAnswer = (job) => job.type === "resolve" || job.type === "childStarted" || job.type === "resume";
/** For updates the key is the update's id (M10). */
function keyOf({ job, idempotencyKey }) {
	return job.type === "update" ? job.id : idempotencyKey;
}
function usedKey(run, message) {
	const key = keyOf(message);
	return key === void 0 ? void 0 : run.keys?.get(key);
}
/** The end of a child as its parent's operation sees it. */
function outcomeOf(run) {
	if (run.status === "completed") return {
		status: "completed",
		value: run.output ?? NOTHING
	};
	if (run.status === "canceled") return { status: "canceled" };
	return {
		status: "failed",
		error: run.error ?? {
			name: "Error",
			message: `The run ${run.id} ended as ${run.status}.`
		}
	};
}
// packages/holdfast/src/store/memory/writer.ts
/** Whether a claim of this run still counts. */
function holds(run, epoch) {
	return run !== void 0 && isOpen(run) && run.epoch === epoch && run.workerId !== void 0;
}
var Writer = class {
	#book;
	constructor(book) {
		this.#book = book;
	}
	create(run, now) {
		const begun = this.#book.startedUnder(run.idempotencyKey);
		if (begun !== void 0) return {
			status: "existing",
			id: begun.id,
			execution: begun.execution,
			inboxIds: []
		};
		const existing = this.#book.get(run.id);
		if (existing !== void 0) return this.#existing(existing, run, now);
		const kept = this.#book.insert(run, now);
		const inboxIds = this.#putAll(kept, run.messages, now);
		if (run.first !== void 0) {
			kept.epoch = 1;
			kept.status = "running";
			kept.startedAt = now;
			kept.workerId = run.first.workerId;
			this.#book.setAvailable(kept, now + run.first.lease);
			this.commit(run.first.commit, now);
		}
		return {
			status: "created",
			id: kept.id,
			execution: 1,
			inboxIds
		};
	}
	#existing(existing, run, now) {
		const { id } = existing;
		const closed = !isOpen(existing);
		const conflict = {
			status: "conflict",
			id,
			runStatus: existing.status
		};
		if (run.onConflict === "reject") return conflict;
		if (closed && run.onConflict === "restart-if-closed") {
			this.#book.restart(existing, run, now);
			return {
				status: "created",
				id,
				execution: existing.execution,
				inboxIds: this.#putAll(existing, run.messages, now)
			};
		}
		if (closed && (run.messages?.length ?? 0) > 0) return conflict;
		return {
			status: "existing",
			id,
			execution: existing.execution,
			inboxIds: this.#putAll(existing, run.messages, now)
		};
	}
	#putAll(run, messages, now) {
		return (messages ?? []).map((message) => this.#book.put(run, message, now));
	}
	commit(commit, now) {
		const run = this.#book.get(commit.runId);
		if (!holds(run, commit.epoch) || run.execution !== commit.execution) return { status: "stale" };
		this.#write(run, commit);
		this.#carryOut(run, commit, now);
		if (commit.close !== void 0) this.#book.close(run, commit.close, now);
		else if (commit.lease === "park") this.#park(run, commit, now);
		return {
			status: "committed",
			inbox: unseen(run, commit),
			historyLength: run.historyLength
		};
	}
	/** What it says of the run itself. */
	#write(run, commit) {
		if (commit.turn !== void 0) this.#appendTurn(run, commit.turn, commit.workerId);
		for (const row of commit.attempts ?? []) upsertAttempt(run, row);
		const consumed = new Set(commit.consumed ?? []);
		if (consumed.size > 0) run.inbox = run.inbox.filter(({ id }) => !consumed.has(id));
		run.status = commit.status;
		run.error = commit.blocked?.error;
		run.blockedCode = commit.blocked?.code;
		run.waitingFor = [...commit.waitingFor ?? []];
		if (commit.attempt !== void 0) run.attempt = commit.attempt;
		if (commit.rollbacks !== void 0) run.rollbacks = commit.rollbacks;
		if (commit.state !== void 0) run.state = commit.state;
		for (const [key, value] of Object.entries(commit.attributes ?? {})) if (value === null) delete run.attributes[key];
		else run.attributes[key] = value;
		for (const { id, outcome } of commit.updates ?? []) {
			run.updates ??= /* @__PURE__ */ new Map();
			run.updates.set(id, outcome);
			this.#book.wake("results");
		}
		if (commit.status === "blocked") this.#book.wake("results");
	}
	#appendTurn(run, turn, workerId) {
		run.turns++;
		run.recoveries = 0;
		run.history.push(turn);
		run.workers.set(turn.index, workerId);
		run.historyLength += recordCount(turn);
		if (turn.commands.some((command) => command.type === "commit" && command.trim !== void 0)) this.#trim(run);
	}
	/** L4: with the records go the attempts of what they recorded. */
	#trim(run) {
		const gone = new Set(openedIn(run.history));
		run.history = trimmed(run.history);
		run.historyLength = run.history.reduce((sum, turn) => sum + recordCount(turn), 0);
		run.workers = new Map(run.history.map(({ index }) => [index, run.workers.get(index) ?? ""]));
		for (const seq of openedIn(run.history)) gone.delete(seq);
		if (gone.size === 0) return;
		run.attempts = run.attempts.filter(({ seq }) => !gone.has(seq));
		this.#book.tasks.forgetAttemptsOf(run.id, gone);
	}
	/** What it asks of others. */
	#carryOut(run, commit, now) {
		const book = this.#book;
		if (commit.cancelTasks !== void 0) book.tasks.removeOf(run.id, now, commit.cancelTasks);
		for (const task of commit.tasks ?? []) {
			book.tasks.add(run.id, run.execution, task, now);
			book.wake("tasks");
		}
		for (const child of commit.children ?? []) this.#createChild(run, child, now);
		for (const seq of commit.cancelChildren ?? []) this.#cancelChild(run, seq, now);
		for (const { seq, runId, message } of commit.sends ?? []) book.resolve(run, seq, this.#deliver(runId, message, now), now);
	}
	#createChild(parent, child, now) {
		const result = this.create(child, now);
		const seq = child.parent?.seq ?? 0;
		if (result.status === "conflict") {
			const error = serializeError(new RunAlreadyExistsError({ runId: child.id }));
			this.#book.resolve(parent, seq, {
				status: "failed",
				error
			}, now);
		} else if (child.parent?.announce === true) this.#book.put(parent, { job: {
			type: "childStarted",
			seq,
			runId: child.id
		} }, now);
	}
	#cancelChild(run, seq, now) {
		for (const child of this.#book.childrenOf(run.id)) {
			if (child.parent?.seq !== seq || child.parent.execution !== run.execution) continue;
			this.#book.send(child.id, { job: {
				type: "cancel",
				reason: `its parent ${run.id} gave it up`
			} }, now);
		}
	}
	#deliver(runId, message, now) {
		const result = this.#book.send(runId, message, now);
		if (result.status === "not-found") return {
			status: "failed",
			error: serializeError(new RunNotFoundError({ runId }))
		};
		if (result.status === "closed") return {
			status: "failed",
			error: serializeError(new RunClosedError({
				runId,
				status: result.runStatus
			}))
		};
		return {
			status: "completed",
			value: jsonCodec.encode(void 0)
		};
	}
	#park(run, commit, now) {
		run.workerId = void 0;
		this.#book.setAvailable(run, commit.wakeAt);
		if (unseen(run, commit).length > 0) this.#book.availableNow(run, now);
	}
};
const unseen = (run, { seen = 0 }) => run.inbox.filter(({ id }) => id > seen);
const openedIn = (turns) => turns.flatMap(({ commands }) => commands.flatMap((command) => "n" in command ? [command.seq] : []));
function upsertAttempt(run, row) {
	const at = run.attempts.findIndex(({ seq, number }) => seq === row.seq && number === row.number);
	if (at < 0) run.attempts.push(row);
	else run.attempts[at] = row;
}
// packages/holdfast/src/store/memory/store.ts
var MemoryStore = class {
	#clock;
	#book = new Book();
	#writer = new Writer(this.#book);
	#watchers = /* @__PURE__ */ new Set();
	constructor(options = {}) {
		this.#clock = options.clock ?? Date.now;
	}
	async open() {}
	async close() {}
	async now() {
		return this.#clock();
	}
	/** Does the work of one call, then tells who watches. */
	async #change(work) {
		try {
			return work(this.#clock());
		} finally {
			const wakeup = this.#book.takeWakeup();
			if (wakeup !== void 0) queueMicrotask(() => this.#tell(wakeup));
		}
	}
	#tell(wakeup) {
		for (const watcher of this.#watchers) watcher(wakeup);
	}
	watch(onWakeup) {
		const watcher = (wakeup) => onWakeup(wakeup);
		this.#watchers.add(watcher);
		return () => {
			this.#watchers.delete(watcher);
		};
	}
	create(runs) {
		return this.#change((now) => runs.map((run) => this.#writer.create(run, now)));
	}
	commit(turns) {
		return this.#change((now) => turns.map((turn) => this.#writer.commit(turn, now)));
	}
	send(messages) {
		return this.#change((now) => messages.map(({ runId, message }) => this.#book.send(runId, message, now)));
	}
	transact(claim, body) {
		return this.#change(() => {
			const run = this.#book.get(claim.runId);
			if (!holds(run, claim.epoch)) return "stale";
			const job = {
				type: "resolve",
				seq: claim.seq,
				outcome: {
					status: "completed",
					value: body(void 0)
				}
			};
			return {
				id: this.#book.append(run, job),
				job
			};
		});
	}
	claim(request) {
		return this.#change((now) => {
			const { queue, limit } = request;
			const accepts = (name, version) => request.serves.some(({ workflow, versions }) => workflow === name && (versions === "*" || versions.includes(version)));
			const due = this.#book.agenda.due(queue, accepts, limit, now);
			const nextAt = this.#book.agenda.next(queue, accepts);
			return {
				now,
				runs: due.map((run) => this.#claim(run, request, now)),
				nextAt
			};
		});
	}
	#claim(run, request, now) {
		const recovered = run.workerId !== void 0;
		if (recovered) {
			run.recoveries++;
			run.attempts = run.attempts.map((row) => row.status === "running" ? {
				...row,
				status: "lost",
				endedAt: now
			} : row);
		}
		run.epoch++;
		if (run.status !== "rolling_back") run.status = "running";
		run.workerId = request.workerId;
		run.startedAt ??= now;
		this.#book.setAvailable(run, now + request.lease);
		const cached = request.cached(run.id);
		const known = cached !== void 0 && cached.execution === run.execution && cached.turns === run.turns;
		return {
			run: rowOf(run),
			turns: known ? void 0 : [...run.history],
			attempts: [...run.attempts],
			inbox: [...run.inbox],
			recovered
		};
	}
	renew(workerId, lease, claims) {
		return this.#change((now) => claims.map(({ runId, epoch, seen }) => {
			const run = this.#book.get(runId);
			if (!holds(run, epoch) || run.workerId !== workerId) return {
				held: false,
				inbox: []
			};
			this.#book.setAvailable(run, now + lease);
			return {
				held: true,
				inbox: run.inbox.filter(({ id }) => id > seen)
			};
		}));
	}
	terminate(runs) {
		return this.#change((now) => runs.map(({ runId, reason }) => {
			const run = this.#book.get(runId);
			if (run === void 0) return { status: "not-found" };
			if (!isOpen(run)) return {
				status: "closed",
				runStatus: run.status
			};
			this.#book.terminate(run, reason, now);
			return {
				status: "sent",
				inboxId: 0
			};
		}));
	}
	resume(runIds) {
		return this.#change((now) => runIds.map((id) => this.#resume(this.#book.get(id), now)));
	}
	#resume(run, now) {
		if (run === void 0) return "not-found";
		if (run.status === "blocked") this.#book.availableNow(run, now);
		else {
			if (run.status !== "failed" || !run.resumable || run.turns === 0) return "not-resumable";
			run.status = "sleeping";
			run.attempt++;
			run.error = void 0;
			run.finishedAt = void 0;
			if (run.deadlineAt !== void 0) this.#book.deadlines.add(run);
			this.#book.append(run, {
				type: "resume",
				attempt: run.attempt,
				voids: []
			});
			this.#book.availableNow(run, now);
		}
		return "resumed";
	}
	expire() {
		return this.#change((now) => {
			this.#book.tasks.sweep(now);
			let expired = 0;
			for (const run of [...this.#book.deadlines]) {
				if (run.deadlineAt === void 0 || run.deadlineAt > now || !this.#book.deadlines.delete(run)) continue;
				this.#expire(run, run.deadlineAt, now);
				expired++;
			}
			return expired;
		});
	}
	#expire(run, deadline, now) {
		const error = serializeError(new DeadlineExceededError({
			runId: run.id,
			deadline
		}));
		if (run.rollbacks === 0) return this.#book.close(run, {
			status: "failed",
			error,
			resumable: false
		}, now);
		run.epoch++;
		run.workerId = void 0;
		this.#book.append(run, {
			type: "expire",
			error
		});
		this.#book.availableNow(run, now);
	}
	unblock(workflows) {
		return this.#change((now) => {
			const codes = new Map(workflows.map(({ workflow, code }) => [workflow, code]));
			let unblocked = 0;
			for (const run of this.#book.all()) {
				if (run.status !== "blocked" || !codes.has(run.workflow) || codes.get(run.workflow) === run.blockedCode) continue;
				this.#book.availableNow(run, now);
				unblocked++;
			}
			return unblocked;
		});
	}
	claimTasks(request) {
		return this.#change((now) => {
			this.#book.tasks.sweep(now);
			return {
				now,
				...this.#book.tasks.claim(request, now)
			};
		});
	}
	heartbeat(tasks) {
		return this.#change((now) => {
			this.#book.tasks.sweep(now);
			return tasks.map((beat) => this.#book.tasks.heartbeat(beat, now));
		});
	}
	answerTasks(answers) {
		return this.#change((now) => {
			this.#book.tasks.sweep(now);
			this.#book.wake("tasks");
			return answers.map((answer) => this.#book.tasks.answer(answer, now));
		});
	}
	async get(runIds) {
		return runIds.map((id) => {
			const run = this.#book.get(id);
			return run === void 0 ? void 0 : rowOf(run);
		});
	}
	async workers(runId) {
		return new Map(this.#book.get(runId)?.workers);
	}
	async history(runId) {
		return [...this.#book.get(runId)?.history ?? []];
	}
	async attempts(runId) {
		const tasks = this.#book.tasks.attemptsOf(runId).map((row) => ({
			...row,
			task: true
		}));
		return [...this.#book.get(runId)?.attempts ?? [], ...tasks];
	}
	async updates(keys) {
		return keys.map(({ runId, id }) => this.#book.get(runId)?.updates?.get(id));
	}
	async list(query) {
		const found = [...this.#book.all()].filter((run) => matches(query, run));
		found.sort((a, b) => b.createdAt - a.createdAt || b.order - a.order);
		const [at = 0, order = 0] = (query.cursor ?? "").split(".").map(Number);
		const isAfter = (run) => run.createdAt < at || run.createdAt === at && run.order < order;
		const after = query.cursor === void 0 ? found : found.filter(isAfter);
		const page = after.slice(0, query.limit);
		const last = page.at(-1);
		return {
			runs: page.map(rowOf),
			cursor: after.length > page.length && last !== void 0 ? `${last.createdAt}.${last.order}` : void 0
		};
	}
	async count(query) {
		const counts = {
			pending: 0,
			running: 0,
			sleeping: 0,
			blocked: 0,
			rolling_back: 0,
			completed: 0,
			failed: 0,
			canceled: 0,
			terminated: 0,
			continued: 0
		};
		for (const run of this.#book.all()) if (matches(query, run)) counts[run.status]++;
		return counts;
	}
};
function matches(query, run) {
	return (query.status === void 0 || query.status.includes(run.status)) && (query.workflow === void 0 || query.workflow === run.workflow) && (query.queue === void 0 || query.queue === run.queue) && (query.parentId === void 0 || query.parentId === run.parent?.runId) && (query.since === void 0 || run.createdAt >= query.since) && (query.until === void 0 || run.createdAt < query.until) && Object.entries(query.attributes ?? {}).every(([key, value]) => run.attributes[key] === value);
}
export { MemoryStore };
