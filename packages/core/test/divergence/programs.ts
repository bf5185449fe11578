// Job: the family of programs that are recorded and changed.
// Owns: nothing; each program is there for the operations it has, alone and inside one another.
import type { Op, Program } from "./program.ts";

const step = (name: string): Op => ({ op: "step", name });

function program(name: string, body: readonly Op[], more: Partial<Program> = {}): Program {
  return { name, body, end: { end: "return", value: `${name} is over` }, messages: [], ...more };
}
const signals = (...names: string[]) => names.map((name) => ({ message: "signal", name }) as const);
const updates = (...names: string[]) => names.map((name) => ({ message: "update", name }) as const);

export const PROGRAMS: readonly Program[] = [
  program("steps", [
    step("plain"),
    { op: "step", name: "timed", timeout: "1h" },
    { op: "step", name: "retried", retry: { maxAttempts: 3 } },
    { op: "step", name: "undone", rollback: true },
    { op: "transaction", name: "exactly once", retry: { maxAttempts: 2 } },
    step("plain"),
    { op: "rollbackCheckpoint", name: "all well" },
    step("plain"),
  ]),
  program("activities", [
    { op: "activity", name: "charge", input: { order: 7, items: ["a"] }, options: {} },
    { op: "activity", name: "ship", input: "box", options: { queue: "depot", retry: { maxAttempts: 4 } } },
    {
      op: "activity",
      name: "bill",
      input: 12,
      options: { startToClose: "30s", scheduleToClose: "1h", scheduleToStart: "5m", heartbeat: "10s" },
    },
    { op: "activity", name: "charge", input: { order: 8 }, options: { queue: "depot" } },
  ]),
  program("children", [
    { op: "child", name: "order", input: 1, options: {} },
    { op: "child", name: "order", input: 2, options: { id: "order-2", queue: "q", version: "1", parentClose: "terminate" } },
    { op: "startChild", name: "watch", input: { deep: [1, 2] }, options: { deadline: "1h", parentClose: "abandon" }, result: true },
    { op: "startChild", name: "watch", input: null, options: { retry: { maxAttempts: 2 } }, result: false },
    { op: "signalRun", runId: "order-2", name: "hurry", payload: { by: 5 } },
    { op: "cancelRun", runId: "order-2" },
    { op: "signalRun", runId: "order-3", name: "hurry", payload: null },
  ]),
  program("timers", [
    { op: "sleep", duration: "1h" },
    { op: "sleep", name: "a while", duration: 5_000 },
    { op: "sleepUntil", until: Date.UTC(2026, 5, 1) },
    { op: "sleepUntil", name: "the day", until: Date.UTC(2026, 6, 1) },
    { op: "sleep", duration: "2h" },
    { op: "condition", holds: false, timeout: "1h" },
    { op: "condition", holds: true },
    { op: "condition", holds: true, timeout: "3h" },
  ]),
  program(
    "signals",
    [
      { op: "wait", name: "approve" },
      { op: "wait", name: "reject", timeout: "1h" },
      { op: "listen", names: ["a", "b"], count: 2 },
      { op: "listen", names: ["a", "b", "c"], timeout: "2h" },
      { op: "wait", name: "approve" },
      { op: "wait", name: "missing", timeout: "1m" },
    ],
    { messages: signals("approve", "a", "b", "reject", "approve") },
  ),
  program(
    "unrecorded ends",
    [
      { op: "sideEffect" },
      { op: "attributes", attributes: { stage: "one", count: 1 } },
      step("x"),
      { op: "sideEffect" },
      { op: "sideEffect" },
      { op: "attributes", attributes: { stage: "two", late: null } },
      { op: "patched", id: "p1", whenNew: [step("new"), { op: "sideEffect" }], otherwise: [step("old")] },
      { op: "patched", id: "p2", whenNew: [], otherwise: [step("older")] },
      { op: "deprecatePatch", id: "p0" },
      step("y"),
    ],
    { end: { end: "continueAsNew", input: { round: 2 }, version: "2" } },
  ),
  program("parallel", [
    step("before"),
    {
      op: "parallel",
      branches: [
        [step("a1"), step("a2")],
        [{ op: "activity", name: "b1", input: 1, options: { queue: "q" } }, { op: "sleep", duration: "1h" }, step("b3")],
        [{ op: "sideEffect" }, step("c2"), { op: "attributes", attributes: { c: true } }],
      ],
    },
    step("between"),
    { op: "parallel", branches: [[step("d1")], [step("e1")]] },
  ]),
  program("parallel with failures", [
    {
      op: "parallel",
      branches: [
        [{ op: "step", name: "fails", fails: true }, step("never")],
        [step("fine"), { op: "activity", name: "fails too", input: 0, options: {}, fails: true }],
        [step("third"), step("fourth")],
      ],
    },
    step("after"),
  ]),
  program("join", [
    {
      op: "join",
      name: "gather",
      branches: [
        ["user", [step("fetch"), step("check")]],
        ["posts", [step("fetch"), { op: "sleep", name: "breathe", duration: "10s" }, step("more")]],
        [
          "deep",
          [
            {
              op: "join",
              name: "inner",
              branches: [
                ["x", [step("x1")]],
                ["y", [step("y1"), step("y2")]],
              ],
            },
          ],
        ],
      ],
    },
    step("done"),
  ]),
  program("race", [
    {
      op: "race",
      name: "timeout",
      branches: [
        ["work", [step("work"), step("more work")]],
        ["clock", [{ op: "sleep", duration: "5s" }]],
        ["other", [{ op: "activity", name: "other", input: 1, options: {} }, step("late")]],
      ],
    },
    {
      op: "race",
      name: "two",
      branches: [
        ["slow", [{ op: "sleep", duration: "1h" }, step("tick")]],
        ["slower", [{ op: "sleep", duration: "2h" }]],
      ],
    },
    step("after"),
  ]),
  program("loop", [
    {
      op: "loop",
      name: "pages",
      times: 4,
      body: [step("fetch"), { op: "sideEffect" }, { op: "activity", name: "store", input: 1, options: {} }],
    },
    step("after"),
    { op: "loop", name: "nested", times: 2, body: [{ op: "loop", name: "inner", times: 2, body: [step("deep")] }, step("flat")] },
  ]),
  program("loop with commits", [
    step("before"),
    { op: "loop", name: "pages", times: 7, commitInterval: 2, body: [step("fetch"), { op: "sleep", duration: "1m" }] },
    { op: "loop", name: "trimmed", times: 5, commitInterval: 2, trims: true, body: [step("fetch"), step("store")] },
    step("after"),
  ]),
  program(
    "receive",
    [
      step("open"),
      {
        op: "receive",
        timeout: "24h",
        handlers: [
          { message: "signal", name: "event", body: [step("store"), { op: "sideEffect" }] },
          { message: "signal", name: "ping", body: [] },
          { message: "update", name: "add", body: [{ op: "activity", name: "price", input: "sku", options: {} }] },
          { message: "signal", name: "close", body: [step("flush")], stops: true },
        ],
      },
      step("closed"),
      {
        op: "receive",
        handlers: [{ message: "update", name: "confirm", body: [step("confirm")], stops: true }],
      },
      step("end"),
    ],
    {
      messages: [
        ...signals("event", "ping"),
        ...updates("add"),
        ...signals("event"),
        ...updates("add"),
        ...signals("close"),
        ...updates("confirm"),
      ],
    },
  ),
  program(
    "receive beside its handlers",
    [
      {
        op: "receive",
        checkpointEvery: 50,
        handlers: [
          {
            message: "update",
            name: "restock",
            body: [step("look")],
            async: [{ op: "activity", name: "price", input: "sku", options: {} }, step("write")],
          },
          { message: "signal", name: "note", body: [], async: [{ op: "sleep", duration: "1m" }, step("noted")] },
          { message: "signal", name: "close", body: [], stops: true },
        ],
      },
      step("end"),
    ],
    { messages: [...updates("restock", "restock"), ...signals("note", "close")] },
  ),
  program(
    "receive with checkpoints",
    [
      {
        op: "receive",
        checkpointEvery: 2,
        timeout: "1h",
        handlers: [{ message: "signal", name: "event", body: [step("store")] }],
      },
      step("end"),
    ],
    { messages: signals("event", "event", "event", "event", "event") },
  ),
  program("try and shield", [
    { op: "try", name: "risky", body: [step("first"), { op: "step", name: "breaks", fails: true }, step("never")] },
    { op: "try", name: "safe", body: [step("fine"), { op: "sleep", duration: "1s" }] },
    { op: "shield", body: [step("kept"), step("kept"), { op: "try", name: "inner", body: [step("deep")] }] },
    { op: "shield", body: [{ op: "parallel", branches: [[step("l")], [step("r")]] }] },
    step("after"),
  ]),
  program(
    "all inside one another",
    [
      {
        op: "join",
        name: "all",
        branches: [
          [
            "loop",
            [{ op: "loop", name: "rounds", times: 2, body: [{ op: "parallel", branches: [[step("p")], [{ op: "wait", name: "go" }]] }] }],
          ],
          [
            "race",
            [
              {
                op: "race",
                name: "first",
                branches: [
                  ["a", [step("a")]],
                  ["b", [{ op: "wait", name: "win" }, step("b")]],
                ],
              },
              step("won"),
            ],
          ],
          [
            "try",
            [
              { op: "try", name: "attempt", body: [{ op: "step", name: "breaks", fails: true }] },
              { op: "shield", body: [step("cleanup")] },
            ],
          ],
        ],
      },
      { op: "patched", id: "later", whenNew: [{ op: "parallel", branches: [[step("n1")], [step("n2")]] }], otherwise: [] },
    ],
    { messages: signals("go", "win", "go") },
  ),
  program("a failed run", [step("one"), { op: "sideEffect" }, { op: "step", name: "breaks", fails: true }, step("never")]),
  program("a failed join", [
    {
      op: "join",
      name: "both",
      branches: [
        ["bad", [{ op: "step", name: "breaks", fails: true }]],
        ["good", [step("g1"), step("g2")]],
      ],
    },
    step("never"),
  ]),
  program("a thrown end", [step("one"), { op: "attributes", attributes: { a: 1 } }], { end: { end: "throw", message: "over" } }),
  program("cells", [
    {
      op: "parallel",
      branches: [
        [step("first"), { op: "awaitCell", cell: "c" }, step("second")],
        [step("other"), { op: "sleep", duration: "1s" }, { op: "putCell", cell: "c" }, step("done")],
      ],
    },
  ]),
  program("odd names", [
    step("a/b"),
    step("a#1"),
    {
      op: "join",
      name: "50%/50%",
      branches: [
        ["~0", [step("é ~x")]],
        ["k/y", [step("a/b"), step("a/b")]],
      ],
    },
    { op: "wait", name: "sig/nal", timeout: "1h" },
  ]),
  program("a short one", [step("only")]),
];
