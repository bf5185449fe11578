// Bugs that are planted in a copy of the engine, one at a time: the simulation has to find each of them.
// Owns: what each bug replaces. Code that is no longer in its file is an error: the bug then needs a new place. Comments and layout are
// ignored (plant.mjs).
// Invariants: no package contains any of this; each bug breaks a rule in a way that a real engine plausibly could.

const engine = "packages/holdfast/src/engine";
const kit = "packages/host/src";
const memory = "packages/holdfast/src/store/memory";
const filing = "packages/holdfast/src/store/filing";
const core = "packages/core/src";

/** @typedef {{ name: string, what: string, replacements: readonly import("./plant.mjs").Replacement[] }} Planted */

/** @param {string} name @param {string} what @param {string} file @param {string} from @param {string} to @returns {Planted} */
const bug = (name, what, file, from, to) => ({ name, what, replacements: [{ file, from, to }] });

/** @type {readonly Planted[]} */
export const planted = [
  // ── bugs that the simulation found and that were fixed: planted again ──
  bug(
    "outcome-taken-twice",
    "found: a transaction's outcome is consumed twice, from its answer and from the inbox",
    `${engine}/runInbox.ts`,
    "if (id <= this.#seen) return;",
    "",
  ),
  {
    name: "evicted-while-claimed",
    what: "found: a run is evicted from the cache between a claim and its answer, and is driven without its history",
    replacements: [
      { file: `${engine}/runCache.ts`, from: "if (this.#promised.has(runId)) continue;", to: "" },
      { file: `${engine}/claims.ts`, from: "claim.turns === undefined && cached === undefined && run.turns > 0", to: "run.turns < 0" },
    ],
  },
  bug(
    "claims-before-start",
    "found: a worker claims runs before it has started, and after its start has failed",
    `${engine}/worker.ts`,
    "if (!this.#started) return;",
    "",
  ),
  bug(
    "transaction-taken-for-failed",
    "found: a transaction whose answer was lost is treated as failed",
    `${engine}/transactions.ts`,
    "if (!hasThrown && isUncertain(error)) outcomeUnknown(claim, error);",
    "",
  ),
  bug(
    "answered-attempt-lost",
    "found: a transaction whose outcome is in the inbox before its answer arrives is listed with a lost attempt",
    `${kit}/attempts/openOperations.ts`,
    "const attempt = this.#attempts.forget(seq);\n    if (attempt !== undefined) this.#noteCompleted(attempt, this.#rows);",
    "this.settled(seq);",
  ),
  bug(
    "next-execution-forgets-time",
    "found: the next execution begins before the last turn of the previous one",
    `${engine}/loadedRun.ts`,
    "this.#notBefore = Math.max(this.#notBefore, claim.lastTime ?? 0);",
    "",
  ),

  bug(
    "fork-loses-attempts",
    "found: a step whose outcome comes with the first turn of a fork is listed with a lost attempt",
    `${engine}/loadedRun.ts`,
    "this.#executor.openOperations.filter((seq) => !settled.has(seq))",
    "this.#executor.openOperations",
  ),
  bug(
    "fork-forgets-keys",
    "found: a signal of the first turn of a fork is delivered again under its key",
    `${engine}/fork.ts`,
    "keys: [...new Set(ids)]",
    "keys: [...new Set(ids)].slice(0, 0)",
  ),

  // ── forks ──
  bug("seed-kept-after-fork", "a fork keeps the seed of its source", `${core}/executor/fork.ts`, "execution.reseed(fork.seed);", ""),
  bug(
    "fork-keeps-identity",
    "a fork is its source, as its code sees it",
    `${core}/executor/fork.ts`,
    "execution.start = { ...start, runId, version,",
    "execution.start = { ...start, version,",
  ),
  bug(
    "fork-repeats-turn",
    "a fork has the turn that emitted the operation as well",
    `${core}/history/fork.ts`,
    "const copied = turns.slice(0, at);",
    "const copied = turns.slice(0, at + 1);",
  ),

  // ── queues ──
  bug(
    "rate-without-moment",
    "found: a claim that uses up a rate does not say when the rate has room again",
    `${filing}/choose.ts`,
    "if (this.#rate !== undefined) this.#started.push(now);",
    "",
  ),
  {
    name: "counted-before-lock",
    what: "a claim counts the slots in use before it has the lock: another claim comes between",
    replacements: [
      {
        file: `${memory}/filedWork.ts`,
        from: 'held: (of) => this.#held(of === "queue" ? QUEUE_SLOT : KEY_SLOT, isIn(of)),',
        to: 'held: (of) => countedBefore(this, of, this.#held(of === "queue" ? QUEUE_SLOT : KEY_SLOT, isIn(of))),',
      },
      {
        file: `${memory}/filedWork.ts`,
        from: "interface ShelfHead<T> extends Head {",
        to: "const counts = new WeakMap<object, Map<string, number>>();\nfunction countedBefore(queue: object, of: Of, count: number): number {\n  const known = counts.get(queue) ?? new Map<string, number>();\n  counts.set(queue, known);\n  const name = JSON.stringify(of);\n  const before = known.get(name) ?? count;\n  known.set(name, count);\n  return Math.min(before, count);\n}\n\ninterface ShelfHead<T> extends Head {",
      },
    ],
  },
  bug(
    "fixed-windows",
    "a rate counts the starts of fixed windows: twice as many fit around the end of one",
    `${filing}/choose.ts`,
    "this.#started.push(...shelf.startsAfter(now - rate.per, of));",
    "this.#started.push(...shelf.startsAfter(Math.floor(now / rate.per) * rate.per - 1, of));",
  ),
  {
    name: "idle-key-keeps-pass",
    what: "a key that was idle keeps its old pass, and is served alone until the others are as far behind",
    replacements: [
      { file: `${filing}/choose.ts`, from: "own.pass = Math.max(own.pass, this.#times[share]);", to: "" },
      {
        file: `${memory}/filedWork.ts`,
        from: "const pass = sibling?.pass ?? Math.max(passes.keys.get(key)?.pass ?? 0, passes.time(priority));",
        to: "const pass = sibling?.pass ?? passes.keys.get(key)?.pass ?? 0;",
      },
    ],
  },
  bug(
    "resumed-for-started",
    "found: runs that are resumed while a rate stops all starts count against the next starts of their key",
    `${filing}/rules.ts`,
    "spec?.rate === undefined ? START : START | SHARED_START",
    "START",
  ),
  bug(
    "pause-of-new-only",
    "the pause of a key does not stop runs that have begun",
    `${filing}/choose.ts`,
    "let isAdmitted = pausedUntil === undefined;",
    "let isAdmitted = pausedUntil === undefined || (needs & START) === 0;",
  ),
  bug(
    "freed-slot-not-hinted",
    "no worker learns that a run has freed its slot by parking",
    `${memory}/writer.ts`,
    "    this.#runs.slots.freed(run);\n",
    "",
  ),
  bug(
    "first-next-start-wins",
    "a start that waits for the end of its run is not replaced by a newer one",
    `${memory}/writer.ts`,
    "existing.next = next;",
    "existing.next ??= next;",
  ),
  bug(
    "after-not-awaited",
    "a run begins although the run that it waits for is open",
    `${memory}/runs.ts`,
    "this.setAvailable(kept, kept.after === undefined ? at : undefined);",
    "this.setAvailable(kept, at);",
  ),

  // ── claims and epochs ──
  bug(
    "no-epoch-check",
    "the store accepts a commit at any epoch",
    `${memory}/writer.ts`,
    "run.epoch === epoch && run.workerId !== undefined",
    "epoch > 0",
  ),
  bug(
    "renew-after-loss",
    "the store renews the lease of a worker that has lost it",
    `${memory}/store.ts`,
    "if (!holds(run, epoch) || run.workerId !== workerId)",
    "if (run === undefined || !isOpen(run))",
  ),
  bug(
    "short-lease",
    "a lease ends earlier than its worker expects",
    `${memory}/store.ts`,
    "this.#runs.lend(run, request.lease, now);",
    "this.#runs.lend(run, request.lease / 2, now);",
  ),
  bug(
    "epoch-stands-still",
    "a claim does not raise the epoch",
    `${memory}/store.ts`,
    "    run.epoch++;\n    if (run.status",
    "    if (run.status",
  ),
  bug(
    "stale-ignored",
    "a worker continues after the store has answered that its claim is over",
    `${engine}/runDriver.ts`,
    'if (result.status === "stale") return this.lose(new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" }));',
    "",
  ),
  bug(
    "old-memory",
    "a parked run is resumed from memory although another worker has advanced it",
    `${memory}/store.ts`,
    "cached.execution === run.execution && cached.turns === run.turns",
    "cached.execution === run.execution",
  ),
  bug(
    "served-anything",
    "a worker is given runs that it has no code for",
    `${memory}/store.ts`,
    'if ((one.queue ?? queue) !== where || one.workflow !== name) return false;\n        return one.versions === "*" || one.versions.includes(version);',
    "return true;",
  ),
  bug(
    "commit-failure-ignored",
    "a failed commit is treated as successful",
    "packages/holdfast/src/store/batcher.ts",
    "for (const one of batch) reject(one, error);",
    'for (const one of batch) batch.length === 1 ? resolve(one, { status: "committed", inbox: [] } as R) : reject(one, error);',
  ),
  // That an item overtakes one of its key that waits for a lock can't be seen here: simulated clients await each send. See batcher.test.ts.
  bug(
    "busy-taken-for-written",
    "a turn that waits for a lock is treated as committed",
    "packages/holdfast/src/store/batcher.ts",
    'const busy = batch.filter((_, i) => answers[i] === "busy");\n      const done = batch.filter((_, i) => answers[i] !== "busy");',
    'const busy = batch.filter((_, i) => answers[i] === "busy" && batch.length > 1);\n      const done = batch.filter((one) => !busy.includes(one));\n      if (batch.length === 1) answers = [{ status: "committed", inbox: [] } as R];',
  ),

  bug(
    "newest-first",
    "the run that became available last is claimed first",
    `${memory}/claimQueue.ts`,
    "b.priority - a.priority || a.at - b.at || a.order - b.order",
    "b.priority - a.priority || b.at - a.at || a.order - b.order",
  ),

  // ── queries and lists of operations ──
  {
    name: "query-remembered",
    what: "a process answers queries from the first state that it read",
    replacements: [
      {
        file: "packages/holdfast/src/api/run.ts",
        from: "evaluateQuery(workflow, name, row.state, args, codec)",
        to: "evaluateQuery(workflow, name, remembered(this.#client, row), args, codec)",
      },
      {
        file: "packages/holdfast/src/api/run.ts",
        from: "function refuseTx(",
        to: 'const memories = new WeakMap<Client, Map<string, RunSnapshot["state"]>>();\nfunction remembered(client: Client, { id, state }: RunSnapshot): RunSnapshot["state"] {\n  const memory = memories.get(client) ?? new Map();\n  memories.set(client, memory);\n  if (!memory.has(id)) memory.set(id, state);\n  return memory.get(id);\n}\n\nfunction refuseTx(',
      },
    ],
  },
  bug(
    "lost-attempts-unlisted",
    "lost attempts are missing from the list of operations",
    `${kit}/operationsOf.ts`,
    "rows.filter((row) => row.number > 0)",
    'rows.filter((row) => row.number > 0 && row.status !== "lost")',
  ),

  // ── turns and effects ──
  bug(
    "step-before-commit",
    "a step begins before the commit that schedules it",
    `${engine}/runDriver.ts`,
    "    draft.seen = this.#inbox.seen;\n    this.#host.commit(",
    "    draft.seen = this.#inbox.seen;\n    for (const { seq } of openedSteps(draft)) this.#operations.begin(seq, 1);\n    this.#host.commit(",
  ),
  bug(
    "sibling-not-joined",
    "a run parks while one of its steps is in flight",
    `${engine}/runDriver.ts`,
    "      this.#operations.inFlight > 0 ||\n      !this.#queue.isEmpty ||",
    "      !this.#queue.isEmpty ||",
  ),
  bug(
    "crash-not-counted",
    "an attempt that was lost in a crash does not count",
    `${kit}/attempts/openOperations.ts`,
    "open.tried = last?.number ?? 1;",
    'open.tried = (last?.number ?? 1) - (last?.status === "failed" ? 0 : 1);',
  ),
  bug(
    "retry-at-once",
    "after a recovery the next attempt does not wait for its backoff",
    `${kit}/attempts/openOperations.ts`,
    'this.#timers.setRetry(seq, last?.status === "failed" ? (last.retryAt ?? 0) : 0);',
    "this.#timers.setRetry(seq, 0);",
  ),
  {
    name: "transaction-not-fenced",
    what: "a transaction commits although its worker has lost the claim",
    replacements: [
      {
        file: `${memory}/store.ts`,
        from: "holds(this.#runs.get(claim.runId), claim.epoch)",
        to: "this.#runs.get(claim.runId) !== undefined",
      },
      { file: `${memory}/store.ts`, from: 'if (!holds(run, claim.epoch)) return "stale";', to: 'if (run === undefined) return "stale";' },
    ],
  },
  bug(
    "clock-believed",
    "a worker trusts the wall clock of its process, which can be set back or forward",
    `${engine}/storeClock.ts`,
    "this.#environment.steady()",
    "this.#environment.now()",
  ),
  bug(
    "timer-early",
    "timers fire up to 60 ms early",
    `${kit}/attempts/timers.ts`,
    "if (due > now) continue;",
    "if (due > now + 60) continue;",
  ),
  bug(
    "timer-lost",
    "a run that parks forgets its first timer",
    `${engine}/runDriver.ts`,
    '(this.#stopping === "leaves work" ? 0 : this.#operations.nextDue)',
    '(this.#stopping === "leaves work" ? 0 : undefined)',
  ),
  bug(
    "begun-though-taken",
    "a worker drives a run that it tried to create but that already existed",
    `${engine}/engine.ts`,
    'if (result.status !== "created" || this.#filed.isFiled(run, result)) begun.worker.forget(begun.driver);',
    'if (result.status === "created" && this.#filed.isFiled(run, result)) begun.worker.forget(begun.driver);',
  ),

  bug(
    "no-backoff",
    "a failed step is retried at once",
    `${kit}/attempts/attempts.ts`,
    "return askedWait(error) ?? retryDelay(policy, attempt, random);",
    "return 0 * retryDelay(policy, attempt, random);",
  ),
  bug(
    "fatal-retried",
    "a step that failed with a fatal error is retried",
    `${kit}/attempts/attempts.ts`,
    " || !isRetryable(error, body.retry) || ",
    " || ",
  ),
  bug(
    "lost-steps-go-on",
    "the steps of a lost claim are not aborted",
    `${kit}/attempts/attempts.ts`,
    "      attempt.abort(reason);\n      this.#drop(attempt);",
    "      this.#drop(attempt);",
  ),
  bug(
    "canceled-step-goes-on",
    "a step that its run has cancelled is not aborted",
    `${kit}/attempts/attempts.ts`,
    "    attempt.abort(reason);\n    if (!join)",
    "    if (!join)",
  ),
  bug(
    "lease-not-given-back",
    "a worker that stops keeps its lease on runs whose steps are still running",
    `${engine}/runDriver.ts`,
    'const returned = this.#phase === "unborn" ? undefined : this.#returnLease(wakeAt, seen, uncertain);',
    "const returned = wakeAt + seen < 0 ? this.#returnLease() : undefined;",
  ),

  // ── messages ──
  bug(
    "ack-before-durable",
    "a signal is acknowledged before it is in the store",
    `${engine}/engine.ts`,
    "if (tx === undefined) return this.#sends.add(message);",
    'if (tx === undefined) {\n      const sent = this.#sends.add(message);\n      sent.catch(() => {});\n      return message.message.job.type === "signal" ? { status: "sent", inboxId: 0 } : sent;\n    }',
  ),
  {
    name: "start-keys-shared",
    what: "a start under another workflow's idempotency key returns that workflow's run",
    replacements: [
      { file: `${memory}/runs.ts`, from: "this.#startKeys.get(startKey(workflow, key))", to: 'this.#startKeys.get(startKey("", key))' },
      {
        file: `${memory}/runs.ts`,
        from: "const name = startKey(workflow, key);",
        to: 'const name = startKey("", key);',
      },
    ],
  },
  bug(
    "other-workflow-found",
    "a start returns a run of another workflow that has the same id",
    `${memory}/writer.ts`,
    'if (run.onConflict === "reject" || existing.workflow !== run.workflow) return conflict;',
    'if (run.onConflict === "reject") return conflict;',
  ),
  bug(
    "accepted-after-rejected",
    "a turn accepts an update that its sender has already rejected",
    `${memory}/writer.ts`,
    'if (commit.accepts?.some((id) => run.updates?.has(id)) === true) return { status: "stale" };',
    "",
  ),
  bug(
    "patient-update-dropped",
    "a waiting update leaves the inbox with the first turn that does not accept it",
    `${engine}/runInbox.ts`,
    "draft.consumed = turn.messages.flatMap(({ id }) => (kept.has(id) ? [] : [id]));",
    "draft.consumed = turn.messages.map(({ id }) => id);",
  ),
  bug(
    "told-before-durable",
    "the reply to an update is sent before its commit",
    `${engine}/committer.ts`,
    "=> store.commit(turns);",
    "=> {\n      for (const turn of turns) committed(turn);\n      return store.commit(turns);\n    };",
  ),
  bug(
    "late-timer-forgotten",
    "found: a timer that fires while its run parks is forgotten when the run is resumed from the cache",
    `${engine}/runInbox.ts`,
    'isReplayed ? "drop fires" : "keep fires"',
    '"drop fires"',
  ),
  bug(
    "consumed-apart",
    "a message leaves the inbox one commit after the turn that consumed it",
    `${engine}/runDriver.ts`,
    "if (turn.messages.length > 0) this.#inbox.consume(draft, turn, completion);",
    "const owing = this as { owed?: number[] };\n    draft.consumed = owing.owed ?? [];\n    owing.owed = turn.messages.map(({ id }) => id);",
  ),
  bug(
    "late-end-written",
    "a run ends without handling a message that arrived before its end",
    `${memory}/writer.ts`,
    'if (isLate(run, commit)) return { status: "late", inbox: unseen(run, commit) };',
    "",
  ),
  bug(
    "cancel-not-late",
    "a cancellation that arrives while the last turn is computed is ignored",
    `${memory}/writer.ts`,
    'return job.type === "cancel" ? lateIf.cancel : ',
    "return ",
  ),
  bug(
    "overtaken-signal-lost",
    "a run ends by a timer or a step although the same turn delivers a signal that it waits for",
    `${engine}/runDriver.ts`,
    "completion.overtaken !== undefined && isMixed(turn)",
    "false",
  ),
  bug(
    "taken-back-outcomes-lost",
    "a turn that is undone and computed again loses the outcomes of its steps",
    `${engine}/jobQueue.ts`,
    "this.#held = held.length === 0 ? undefined : { jobs: held, until: messages.at(-1)?.id ?? 0 };",
    "this.#held = undefined;",
  ),
  bug(
    "race-not-unmet",
    "a wait that lost a race is treated as one that needs no more signals",
    `${core}/executor/operations/signals.ts`,
    "if (error !== execution.cancelRequested) execution.mailbox.leftUnmet(this.#names);",
    "",
  ),
  bug(
    "delivered-again",
    "messages that were already delivered are delivered again",
    `${engine}/runInbox.ts`,
    "if (message.id <= this.#seen) continue;",
    "",
  ),
  bug(
    "parks-blindly",
    "a run parks although a message has arrived in the meantime",
    `${memory}/writer.ts`,
    "if (unseen(run, commit).length > 0) this.#runs.availableNow(run, now);",
    "",
  ),
  bug(
    "saw-everything",
    "a worker reports messages as seen that it has not seen",
    `${engine}/runDriver.ts`,
    "draft.seen = this.#inbox.seen;",
    "draft.seen = Number.MAX_SAFE_INTEGER;",
  ),
  bug(
    "keys-forgotten",
    "a second send under the same idempotency key becomes a second message",
    `${memory}/runs.ts`,
    "run.keys.set(key, { inboxId,",
    'if (message.job.type === "update") run.keys.set(key, { inboxId,',
  ),
  bug(
    "last-in-first-out",
    "new messages are put at the front of the inbox",
    `${memory}/runs.ts`,
    "run.inbox.push({ id, job });",
    "run.inbox.unshift({ id, job });",
  ),
  bug(
    "newest-signal",
    "a wait consumes the newest signal instead of the oldest",
    `${core}/executor/mailbox.ts`,
    "for (let i = this.#first; i < this.#messages.length; i++) {\n      const message = this.#messages[i] as Message;",
    "for (let i = this.#messages.length - 1; i >= this.#first; i--) {\n      const message = this.#messages[i] as Message;",
  ),
  bug(
    "carried-lost",
    "the first unconsumed signal is not carried over to the next execution",
    `${engine}/journal.ts`,
    "seed: context.environment.uuid(), carried }",
    "seed: context.environment.uuid(), carried: carried.slice(1) }",
  ),
  bug(
    "update-unanswered",
    "an update whose handler throws is never answered",
    `${kit}/updateAnswers.ts`,
    'if (command.type !== "completeUpdate") continue;',
    'if (command.type !== "completeUpdate" || command.error !== undefined) continue;',
  ),

  bug(
    "last-waiter-first",
    "among several waiters the last one is served first",
    `${core}/executor/mailbox.ts`,
    "return this.#takers.find((taker)",
    "return this.#takers.findLast((taker)",
  ),
  bug(
    "accepted-and-dropped",
    "updates that a receive has accepted are dropped when the receive closes",
    `${core}/executor/operations/receive.ts`,
    "      this.#completeUpdate(update, { ok: false, error: new ReceiveClosedError({ update: update.name }) });\n",
    "      if (update.name === undefined) throw new ReceiveClosedError({ update: update.name });\n",
  ),
  bug(
    "never-timed-out",
    "a receive does not report that it timed out",
    `${core}/executor/operations/receive.ts`,
    "    this.#timedOut = true;\n",
    "",
  ),
  bug(
    "old-answers-carried",
    "answers in the inbox are carried over to the next execution",
    `${memory}/runs.ts`,
    "if (!isAnswer(job)) this.append(run, job)",
    "if (job.type !== undefined) this.append(run, job)",
  ),

  // ── families ──
  bug(
    "busy-parent-not-told",
    "a parent that a worker holds is not notified when its child ends",
    `${memory}/runs.ts`,
    "this.resolve(waiting, parent.seq, outcomeOf(run), now);",
    "if (waiting.workerId === undefined) this.resolve(waiting, parent.seq, outcomeOf(run), now);",
  ),
  {
    name: "parent-told-later",
    what: "a child's end and the notification of its parent are two commits",
    replacements: [
      {
        file: `${memory}/writer.ts`,
        from: "this.#runs.close(run, commit.close, now);",
        to: "this.#runs.closeQuietly(run, commit.close, now);",
      },
      {
        file: `${memory}/runs.ts`,
        from: "  tellParent(run: KeptRun, now: number): void {\n",
        to: "  isQuiet = false;\n  closeQuietly(run: KeptRun, close: RunClose, now: number): void {\n    this.isQuiet = true;\n    this.close(run, close, now);\n    this.isQuiet = false;\n  }\n  tellParent(run: KeptRun, now: number): void {\n    if (this.isQuiet) return;\n",
      },
      {
        file: `${memory}/store.ts`,
        from: "  async attempts(runId: string): Promise<(AttemptRow & { task?: boolean })[]> {\n",
        to: '  async attempts(runId: string): Promise<(AttemptRow & { task?: boolean })[]> {\n    const ended = runId.startsWith("tell:") ? this.#runs.get(runId.slice(5)) : undefined;\n    if (ended !== undefined) return this.#change((now) => (this.#runs.tellParent(ended, now), []));\n',
      },
      {
        file: `${engine}/runDriver.ts`,
        from: "    if (commit.close !== undefined) {\n      this.#endClaim(",
        to: '    if (commit.close !== undefined) {\n      this.#host.attempts("tell:" + this.runId).catch(() => {});\n      this.#endClaim(',
      },
    ],
  },
  bug(
    "children-live-on",
    "children that should be terminated with their parent continue",
    `${memory}/runs.ts`,
    'if (child.parent?.parentClose === "terminate") this.terminate(child, reason, now);',
    'if (child.parent?.parentClose === "terminate") return;',
  ),

  bug(
    "old-child-answers",
    "a child that one execution started answers the next execution",
    `${memory}/runs.ts`,
    "!isOpen(waiting) || waiting.execution !== parent.execution) return;\n    this.resolve",
    "!isOpen(waiting)) return;\n    this.resolve",
  ),
  bug(
    "children-not-canceled",
    "children are not cancelled when their parent ends",
    `${memory}/runs.ts`,
    'else if (child.parent?.parentClose === "cancel") this.cancel(',
    "else if (child.parent === null) this.cancel(",
  ),
  bug(
    "given-up-child-goes-on",
    "a child that lost a race in its parent is not cancelled",
    `${memory}/writer.ts`,
    "    for (const seq of commit.cancelChildren ?? []) this.#cancelChild(run, seq, now);\n",
    "    for (const seq of commit.cancelChildren ?? []) if (seq < 0) this.#cancelChild(run, seq, now);\n",
  ),

  // ── cancellation, deadlines, activities ──
  bug(
    "canceled-at-once",
    "a run in progress is cancelled without running its code",
    `${memory}/runs.ts`,
    'if (run.turns === 0 && run.workerId === undefined) this.close(run, { status: "canceled"',
    'if (run.workerId === undefined) this.close(run, { status: "canceled"',
  ),
  bug(
    "deadline-early",
    "deadlines expire half a second early",
    `${memory}/store.ts`,
    "run.deadlineAt === undefined || run.deadlineAt > now ||",
    "run.deadlineAt === undefined || run.deadlineAt > now + 500 ||",
  ),
  bug(
    "deadline-ignored",
    "the deadline of a run that a worker holds does not expire",
    `${memory}/store.ts`,
    "run.deadlineAt === undefined || run.deadlineAt > now ||",
    "run.deadlineAt === undefined || run.workerId !== undefined || run.deadlineAt > now ||",
  ),
  bug(
    "late-answer",
    "the store accepts the answer of an attempt that is over",
    `${memory}/tasks.ts`,
    "task.token === token && task.workerId !== undefined",
    "token > 0",
  ),
  bug(
    "dead-workers-task",
    "an activity of a dead worker is not given to another worker",
    `${memory}/tasks.ts`,
    "limits.push({ at: leaseEndsAt,",
    "if (leaseEndsAt < 0) limits.push({ at: leaseEndsAt,",
  ),

  bug(
    "given-up-activity-goes-on",
    "an activity that its run has cancelled continues",
    `${memory}/writer.ts`,
    "    if (commit.cancelTasks !== undefined) runs.giveUpTasks(run, now, commit.cancelTasks);\n",
    "",
  ),
  bug(
    "one-attempt-too-many",
    "an activity gets one attempt too many",
    `${memory}/tasks.ts`,
    "task.attempt >= task.retry.maxAttempts ||",
    "task.attempt > task.retry.maxAttempts ||",
  ),
  bug(
    "activity-at-once",
    "a failed activity is retried at once",
    `${memory}/tasks.ts`,
    "    task.availableAt = next;",
    "    task.availableAt = now;",
  ),
  bug(
    "deadline-forgotten",
    "the next execution has no deadline",
    `${memory}/runs.ts`,
    "    run.epoch++;\n    run.attempt = 1;",
    "    run.epoch++;\n    run.deadlineAt = undefined;\n    this.deadlines.delete(run);\n    run.attempt = 1;",
  ),
  bug(
    "retry-after-deadline",
    "a step's retry is scheduled after the deadline of its run",
    `${kit}/attempts/openOperations.ts`,
    "if (this.#isAfterDeadline(retryAt) && ",
    "if (this.#isAfterDeadline(Math.min(0, retryAt)) && ",
  ),
  bug(
    "deadline-keeps-epoch",
    "a worker keeps a run after the run's deadline",
    `${memory}/runs.ts`,
    '    run.epoch++;\n    run.workerId = undefined;\n    if (status === "running")',
    '    run.workerId = undefined;\n    if (status === "running")',
  ),
  bug(
    "claimed-after-deadline",
    "a run past its deadline is claimed and continues",
    `${memory}/store.ts`,
    "if (!this.#runs.isLate(run, now)) return false;",
    "if (!this.#runs.isLate(run, 0)) return false;",
  ),
  bug(
    "tick-not-compared",
    "a tick is written without a compare-and-set on the tick that it replaces",
    `${memory}/schedules.ts`,
    "kept === undefined || kept.revision !== tick.revision || kept.tick !== tick.replaces",
    "kept === undefined || kept.revision !== tick.revision",
  ),

  // ── waiting, replay, sagas ──
  {
    name: "no-polling",
    what: "lost attempts cause no hint, and workers rely on hints alone",
    replacements: [
      {
        file: `${engine}/worker.ts`,
        from: "this.environment.every(this.#settings.pollInterval, () => this.#lookForWork())",
        to: "this.environment.every(this.#settings.pollInterval, () => {})",
      },
      { file: `${memory}/runs.ts`, from: 'if (this.tasks.sweep(now)) this.wake("tasks");', to: "this.tasks.sweep(now);" },
    ],
  },
  bug(
    "hints-alone",
    "a client that waits for a result relies on hints alone",
    `${engine}/engine.ts`,
    "this.environment.every(1_000, () => this.#results.look()),",
    "",
  ),
  bug(
    "trims-too-much",
    "a loop trims one iteration too many",
    `${core}/history/recording.ts`,
    "return iteration !== undefined && iteration < keepFrom;",
    "return iteration !== undefined && iteration <= keepFrom;",
  ),
  bug(
    "commit-forgets-messages",
    "a loop's commit loses the buffered signals",
    `${core}/executor/mailbox.ts`,
    "  snapshot(): BufferedMessage[] {\n",
    "  snapshot(): BufferedMessage[] {\n    if (this.#messages.length > 0) return [];\n",
  ),
  bug(
    "commit-off-by-one",
    "replay resumes one iteration before the loop's commit",
    `${core}/executor/operations/loop.ts`,
    "    this.#iteration = commit.count;\n",
    "    this.#iteration = Math.max(0, commit.count - 1);\n",
  ),
  bug(
    "rollback-order",
    "rollbacks run first in, first out",
    `${core}/executor/saga.ts`,
    "this.#due = this.#stack;",
    "this.#due = this.#stack.toReversed();",
  ),
  bug(
    "rollback-forgotten",
    "only the first two rollbacks run",
    `${core}/executor/saga.ts`,
    "this.#due = this.#stack;",
    "this.#due = this.#stack.slice(-2);",
  ),
  bug(
    "attributes-not-indexed",
    "lists find runs by attributes that they had before",
    `${memory}/runs.ts`,
    "    this.searchIndex.changed(run, before);\n",
    "",
  ),
  bug(
    "list-skips-ties",
    "a page begins after all runs of the moment at which the one before it ended",
    `${memory}/searchIndex.ts`,
    "cursor === undefined || comparePlaces(run, cursor) < 0;",
    "cursor === undefined || run.createdAt < cursor.createdAt;",
  ),
];
