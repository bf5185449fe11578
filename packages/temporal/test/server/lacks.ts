// What the host on a Temporal cluster does not offer: see docs/hosts.md, "On a Temporal cluster".

import type { HostConformanceOptions } from "@holdfast/conformance";

type Lack = NonNullable<HostConformanceOptions["lacks"]>[number];
interface Reason {
  /** In the words of users. */
  readonly feature: string;
  readonly why: string;
}

const REMOVED: Reason = { feature: "`ctx.removed`", why: "to Temporal's Core an event without its command is nondeterminism" };

/** A rule, a capability or the title of a test of the suite, and why a Temporal cluster can't keep it. */
export const LACKS = {
  V2: {
    feature: "workers of one queue that serve different versions",
    why: "a task goes to any worker of its queue: one without the version fails it, and the server tries again",
  },
  D10: {
    feature: "`resume()` of a failed run, and a retry of a run that keeps its completed steps",
    why: "the server retries a run with an empty history, and can't continue a closed one",
  },
  operations: {
    feature: "every attempt in `run.operations()`",
    why: "the server keeps no record of failed attempts but their number and the last failure",
  },
  "V3 an operation that was taken out is passed over, also if the run waits at it": REMOVED,
  "V3 resume of an open run is a wake-up: code that has taken out the operation it waits at goes on": REMOVED,
  "M3 P10 a start that is repeated under its key is one run": {
    feature: "a start with an id and an idempotency key is found by either of them",
    why: "the workflow id is the only key of a start: with both, the id decides",
  },
  "M8 M10 an update whose time is over stays rejected under its key": {
    feature: "an update that was rejected, at once or after `acceptWithin`, stays rejected under its key",
    why: "the server keeps no trace of a rejected update",
  },
  "M8 one whose caller has gone is rejected by the next activation after its time": {
    feature: "an update with `acceptWithin` is offered further after its caller has stopped waiting",
    why: "the caller repeats the update until it is accepted",
  },
  "M12 a signal from run to run fails for a closed one, and says that it is closed": {
    feature: "`ctx.signalRun` tells a closed run from one that does not exist",
    why: "the server answers the same for both",
  },
  Q9: {
    feature: '`onConflict: "replace"` and `"debounce"`',
    why: "the server keeps one start of an id, and can't begin another when the run closes",
  },
  Q10: {
    feature: "`after` of a start",
    why: "the server can't start a run when another has closed",
  },
  queues: {
    feature: "`engine.queues`: limits, rates and pauses of queues and keys",
    why: "the server does not count the runs that are in progress; a worker limits its own with `concurrency`",
  },
} as const satisfies Partial<Record<Lack, Reason>>;

/** What the suite does not ask for: an UnsupportedError. See refused.test.ts. */
export const REFUSED: readonly Reason[] = [
  {
    feature: "a filter by `key` or `version`",
    why: "the server finds runs by search attributes: set an attribute, and register it",
  },
  {
    feature: "`updateWithStart` with `delay` or `startAt`",
    why: "the server begins a run that is started with an update at once: start it, and send the update with `acceptWithin`",
  },
  {
    feature: '`result()` of a child with `parentClose: "abandon"`, after a commit has continued the run in a new execution',
    why: "the server reports the end of a child to the execution that has started it: let the child signal the run",
  },
  { feature: "`retention` of an engine or a workflow", why: "the namespace has one: set it there, or call `run.delete()`" },
  { feature: "`run.fork()`", why: "the server can't begin a run with the history of another one: `temporal workflow reset` repeats a run" },
  {
    feature: "`engine.bulk()`",
    why: "a batch of the server is not a run, and does not say which runs it has failed for: list the runs and call the action on each",
  },
  {
    feature: "`engine.workers()`",
    why: "the server knows who asks for tasks of a queue, not what they serve: `temporal task-queue describe`",
  },
];
