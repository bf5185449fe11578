// Job: keep what random programs have found: small programs, each of which broke a rule once.
// Owns: the list; `properties.test.ts` holds every one of them to all properties.
// Invariants: L3 L4 R11 (replay from a commit), M8, K7, C5.

import type { Block, Loop, Operation, Program, Statement } from "./program.ts";
import type { Arrival, Schedule } from "./schedule.ts";

const awaited = (operation: Operation): Statement => ({ do: "await", operation });
const step: Statement = awaited({ op: "step", name: "s" });
const loop = (times: number, body: Block, options: Partial<Loop> = {}): Statement =>
  awaited({ op: "loop", name: "s", times, body, commitInterval: 1, ...options });
const program = (...body: Statement[]): Program => ({ body, cancellation: "enforced", rollbackOnCancel: false, end: "return" });
const continuing = (...body: Statement[]): Program => ({ ...program(...body), end: "continue" });

const answer: Arrival = { arrive: "answer", pick: 0, how: "completed", value: 0 };
const failure: Arrival = { ...answer, how: "failed" };
const signal = (name: "a" | "b" | "c"): Arrival => ({ arrive: "signal", name, payload: 0 });
const update = (name: "u" | "v"): Arrival => ({ arrive: "update", name, input: 0 });
const cancel: Arrival = { arrive: "cancel" };
const expire: Arrival = { arrive: "expire" };
const quiet = (...turns: Arrival[][]): Schedule => ({ first: [], turns, afterwards: "quiet" });

const empty = { body: [] };

export const regressions: readonly { readonly title: string; readonly program: Program; readonly schedule: Schedule }[] = [
  {
    title: "R11 a number whose record was trimmed is not given out again",
    program: program(
      awaited({ op: "receive", signals: {}, updates: { u: { body: [{ do: "attributes", value: 0 }] } }, timeout: 1, checkpointEvery: 1 }),
      awaited({ op: "receive", signals: {}, updates: {} }),
    ),
    schedule: quiet([update("u")]),
  },
  {
    title: "C5 several yields of one step end together",
    program: program({ do: "all", mode: "all", operations: [{ op: "yield" }, { op: "yield" }] }),
    schedule: quiet(),
  },
  {
    title: "L4 trims fall on the same iterations after a crash",
    program: program(loop(7, [step], { commitInterval: 2, historyEvery: 3 })),
    schedule: quiet(),
  },
  {
    title: "L3 a commit is restored before the messages that came after it are taken",
    program: program(awaited({ op: "receive", signals: { a: { body: [], async: [loop(2, [])] } }, updates: { u: empty } })),
    schedule: { ...quiet(), first: [signal("a"), update("u")] },
  },
  {
    title: "L3 K1 a commit and a cancellation after it in one turn",
    program: program(loop(2, [{ do: "start", operation: { op: "activity", name: "s", input: 0 } }])),
    schedule: quiet([answer, cancel]),
  },
  {
    title: "R11 K4 a checkpoint and a cancellation after it in one turn",
    program: program(
      awaited({
        op: "receive",
        signals: { a: { body: [{ do: "start", operation: { op: "activity", name: "s", input: 0 } }] } },
        updates: {},
        checkpointEvery: 1,
      }),
    ),
    schedule: quiet([signal("a")], [answer, cancel]),
  },
  {
    title: "L3 K7 a commit and a deadline after it in one turn",
    program: program(loop(2, [{ do: "start", operation: { op: "activity", name: "s", input: 0 } }])),
    schedule: quiet([answer, expire]),
  },
  {
    title: "L3 a signal that comes after a commit in its turn is not lost",
    program: program(loop(2, [{ do: "start", operation: { op: "activity", name: "s", input: 0 } }]), awaited({ op: "wait", signal: "a" })),
    schedule: quiet([answer, signal("a")]),
  },
  {
    title: "L3 R7 a commit carries an update that the receive around it has accepted",
    program: program(
      awaited({
        op: "receive",
        signals: { b: { body: [awaited({ op: "loop", name: "s", times: 2, body: [loop(2, []), awaited({ op: "sleep", ms: 1 })] })] } },
        updates: { v: empty },
      }),
    ),
    schedule: { ...quiet(), first: [signal("b"), update("v")] },
  },
  {
    title: "L3 X6 an update keeps its place among the signals that a commit carries",
    program: program(awaited({ op: "receive", signals: { a: { body: [loop(2, [step])] }, b: empty }, updates: { u: empty } })),
    schedule: quiet([signal("a")], [update("u"), signal("b"), answer]),
  },
  {
    title: "L3 R11 a signal that one commit carries and the next has behind it is dispatched once",
    program: program(step, loop(2, []), awaited({ op: "receive", signals: { a: empty }, updates: {}, checkpointEvery: 1 })),
    schedule: quiet([signal("a")]),
  },
  {
    title: "R11 P10 signals keep their order through several commits",
    program: continuing(
      awaited({
        op: "loop",
        name: "s",
        times: 2,
        body: [
          awaited({
            op: "receive",
            signals: { a: empty, b: empty },
            updates: { v: { ...empty, stopAt: 1, refuses: 3 } },
            checkpointEvery: 1,
          }),
        ],
      }),
    ),
    schedule: { ...quiet(), afterwards: "messages" },
  },
  {
    title: "M8 K7 an update that comes with the deadline is rejected",
    program: program(awaited({ op: "receive", signals: {}, updates: {} })),
    schedule: quiet([update("u"), expire]),
  },
  {
    title: "K7 S1 a deadline between two rollbacks leaves them to run",
    program: program(awaited({ op: "step", name: "s", rollback: true }), awaited({ op: "step", name: "t", rollback: true }), step),
    schedule: quiet([answer], [answer], [failure], [answer, expire]),
  },
  {
    title: "K1 P10 a cancellation that comes with the last result of a run that continues is not lost",
    program: continuing({ do: "start", operation: { op: "step", name: "s" } }),
    schedule: quiet([answer, cancel, signal("a")]),
  },
  {
    title: "K1 K3 P10 a cancellation that comes when a cooperative run has asked to be continued is not lost",
    program: { ...continuing({ do: "start", operation: { op: "step", name: "s" } }), cancellation: "cooperative" },
    schedule: quiet([cancel], [answer]),
  },
  {
    title: "K7 a deadline that comes with the last result of a run ends it",
    program: program({ do: "start", operation: { op: "step", name: "s" } }),
    schedule: quiet([answer, expire]),
  },
  {
    title: "K7 a child's end that comes with the deadline is delivered to no code",
    program: program(awaited({ op: "startChild", name: "s", input: 0 }), awaited({ op: "childResult" })),
    schedule: quiet([answer], [expire, answer]),
  },
];
