// Job: every program that is one change away from a given one.
// Owns: the kinds of changes, and which of them history must tolerate.
// Invariants: Y2 (each kind changes what an operation is), V1 V3 P5 P7 (what may be changed under a running workflow).
import type { ActivityOptions, ChildOptions, Duration, OperationKind } from "@holdfast/core";
import type { Body, Branches, End, Op, Program } from "./program.ts";

export interface Mutant {
  /** The kind of change. */
  readonly kind: string;
  /** In words, with the statement it was made to. */
  readonly change: string;
  readonly program: Program;
}

interface Change {
  readonly kind: string;
  readonly change: string;
  readonly body: Body;
}

export function mutants(program: Program): Mutant[] {
  const result: Mutant[] = [];
  for (const { kind, change, body } of changes(program.body, "the root")) result.push({ kind, change, program: { ...program, body } });
  for (const [kind, end] of otherEnds(program.end))
    result.push({ kind, change: `${text(program.end)} → ${text(end)}`, program: { ...program, end } });
  return result.filter((mutant) => JSON.stringify(mutant.program) !== JSON.stringify(program));
}

function text(value: unknown): string {
  return JSON.stringify(value) ?? "undefined";
}

function* changes(body: Body, where: string): Generator<Change> {
  for (let i = 0; i <= body.length; i++) {
    for (const [kind, inserted] of [...someOf(INSERTED, i, 2), ...someOf(TOLERATED, i, 1)]) {
      const change = `insert ${text(inserted)} at ${i} of ${where}`;
      yield { kind, change, body: [...body.slice(0, i), inserted, ...body.slice(i)] };
    }
  }
  for (const [i, op] of body.entries()) {
    if (op.op === "putCell") continue; // it leaves no record of its own
    const replaced = (...ops: Op[]): Body => [...body.slice(0, i), ...ops, ...body.slice(i + 1)];
    yield { kind: "remove", change: `remove ${text(op)} from ${where}`, body: replaced() };
    const next = body[i + 1];
    if (next !== undefined && next.op !== "putCell") {
      const swapped = [...body.slice(0, i), next, op, ...body.slice(i + 2)];
      yield { kind: "reorder neighbours", change: `swap ${text(op)} and ${text(next)} in ${where}`, body: swapped };
    }
    for (const [kind, ...ops] of variants(op)) yield { kind, change: `${text(op)} → ${text(ops)} in ${where}`, body: replaced(...ops) };
    yield {
      kind: "legal: put behind a patch",
      change: `patch ${text(op)} in ${where}`,
      body: replaced({ op: "patched", id: "new-way", whenNew: [{ op: "step", name: "new way" }], otherwise: [op] }),
    };
    for (const [inner, rebuild] of bodies(op)) {
      for (const one of changes(inner, `${op.op}${"name" in op ? ` ${op.name}` : ""} in ${where}`)) {
        yield { ...one, body: replaced(rebuild(one.body)) };
      }
    }
  }
}

const INSERTED: readonly (readonly [kind: string, op: Op])[] = [
  ["insert a step", { op: "step", name: "inserted" }],
  ["insert a side effect", { op: "sideEffect" }],
  ["insert a sleep", { op: "sleep", duration: "5m" }],
  ["insert a scope", { op: "parallel", branches: [[{ op: "step", name: "inserted" }]] }],
];
const TOLERATED: typeof INSERTED = [
  ["legal: insert calls without a record", { op: "quiet" }],
  ["legal: insert a patch", { op: "patched", id: "inserted", whenNew: [{ op: "step", name: "inserted" }], otherwise: [] }],
  ["legal: insert a mark of a removal", { op: "removed", name: "was never here", kind: "step" }],
];

/** So many of a list, from a place in it on. */
function someOf<T>(list: readonly T[], from: number, count: number): T[] {
  return [...list, ...list].slice(from % list.length, (from % list.length) + count);
}

/** The bodies of a statement, each with the way to put another in its place. */
function bodies(op: Op): [body: Body, rebuild: (body: Body) => Op][] {
  switch (op.op) {
    case "parallel":
      return op.branches.map((body, i) => [body, (other) => ({ ...op, branches: op.branches.with(i, other) })]);
    case "join":
    case "race":
      return op.branches.map(([key, body], i) => [body, (other) => ({ ...op, branches: op.branches.with(i, [key, other]) })]);
    case "loop":
    case "try":
    case "shield":
      return [[op.body, (body) => ({ ...op, body })]];
    case "receive":
      return op.handlers.flatMap((handler, i): [Body, (body: Body) => Op][] => {
        const sync: [Body, (body: Body) => Op] = [handler.body, (body) => ({ ...op, handlers: op.handlers.with(i, { ...handler, body }) })];
        if (handler.async === undefined) return [sync];
        return [sync, [handler.async, (async) => ({ ...op, handlers: op.handlers.with(i, { ...handler, async }) })]];
      });
    case "patched":
      return [[op.whenNew, (whenNew) => ({ ...op, whenNew })]];
    default:
      return [];
  }
}

type Variant = readonly [kind: string, ...ops: Op[]];

function variants(op: Op): Variant[] {
  return [...fieldsOf(op), ...kindsOf(op).map((other): Variant => ["change kind", other]), ...removals(op)];
}

const other = (name: string): string => `${name} v2`;
const later = (duration: Duration | undefined): Duration => (duration === "1h" ? "2h" : "1h");

/** The same operation with one field changed. */
function fieldsOf(op: Op): Variant[] {
  switch (op.op) {
    case "step": {
      const { rollback, timeout, ...rest } = op;
      return [
        ["rename", { ...op, name: other(op.name) }],
        ["change step timeout", { ...op, timeout: later(timeout) }],
        ["change step retry", { ...op, retry: { ...op.retry, maxAttempts: 7 } }],
        [
          "change step rollback",
          rollback === undefined ? { ...op, rollback: true } : { ...rest, ...(timeout !== undefined && { timeout }) },
        ],
        ...(timeout === "1h" ? [["legal: spell a duration otherwise", { ...op, timeout: 3_600_000 }] satisfies Variant] : []),
      ];
    }
    case "transaction":
      return [
        ["rename", { ...op, name: other(op.name) }],
        ["change step retry", { ...op, retry: { ...op.retry, backoff: 3 } }],
        ...(op.rollback === undefined ? [["change step rollback", { ...op, rollback: true }] satisfies Variant] : []),
      ];
    case "activity": {
      const with_ = (kind: string, options: ActivityOptions): Variant => [kind, { ...op, options: { ...op.options, ...options } }];
      return [
        ["change activity", { ...op, name: other(op.name) }],
        ["change input", { ...op, input: { other: op.input } }],
        ["legal: order the keys of an input otherwise", { ...op, input: reversedKeys(op.input) }],
        with_("change queue", { queue: `${op.options.queue ?? "default"}-2` }),
        with_("change activity retry", { retry: { ...op.options.retry, initialInterval: 123 } }),
        with_("change activity timeout", { startToClose: later(op.options.startToClose) }),
        with_("change activity timeout", { scheduleToClose: later(op.options.scheduleToClose) }),
        with_("change activity timeout", { scheduleToStart: later(op.options.scheduleToStart) }),
        with_("change activity timeout", { heartbeat: later(op.options.heartbeat) }),
      ];
    }
    case "child":
    case "startChild": {
      const with_ = (kind: string, options: ChildOptions): Variant => [kind, { ...op, options: { ...op.options, ...options } }];
      const { parentClose } = op.options;
      return [
        ["change child type", { ...op, name: other(op.name) }],
        ["change input", { ...op, input: [op.input] }],
        with_("change child id", { id: `${op.options.id ?? "child"}-2` }),
        with_("change queue", { queue: `${op.options.queue ?? "default"}-2` }),
        with_("change child version", { version: `${op.options.version ?? "1"}.1` }),
        with_("change child deadline", { deadline: op.options.deadline === "1h" ? "2h" : "1h" }),
        with_("change child deadline", { deadline: new Date(Date.UTC(2030, 0, 1)) }),
        with_("change child retry", { retry: { maxAttempts: 9 } }),
        with_("change parentClose", { parentClose: parentClose === "abandon" ? "terminate" : "abandon" }),
        ...(op.op === "startChild" ? [["await a child, or not", { ...op, result: !op.result }] satisfies Variant] : []),
      ];
    }
    case "sleep":
      return [
        ["change timer duration", { ...op, duration: later(op.duration) }],
        ["change timer duration", { ...named(op), op: "sleepUntil", until: Date.UTC(2027, 0, 1) }],
        ["rename", { ...op, name: other(op.name ?? "sleep") }],
        ...(op.duration === "1h" ? [["legal: spell a duration otherwise", { ...op, duration: "60m" }] satisfies Variant] : []),
      ];
    case "sleepUntil":
      return [
        ["change timer duration", { ...op, until: op.until + 1 }],
        ["change timer duration", { ...named(op), op: "sleep", duration: "3s" }],
        ["rename", { ...op, name: other(op.name ?? "sleep") }],
      ];
    case "wait":
      return [
        ["change signal name", { ...op, name: other(op.name) }],
        ["change wait timeout", { ...op, timeout: later(op.timeout) }],
      ];
    case "listen":
      return [
        ["change signal name", { ...op, names: [...op.names, "more"] }],
        ["change signal name", { ...op, names: op.names.toReversed() }],
        ["change listen count", { ...op, count: (op.count ?? 1) + 1 }],
        ["change wait timeout", { ...op, timeout: later(op.timeout) }],
      ];
    case "signalRun":
      return [
        ["change signal name", { ...op, name: other(op.name) }],
        ["change run id", { ...op, runId: other(op.runId) }],
        ["change input", { ...op, payload: { other: op.payload } }],
      ];
    case "cancelRun":
      return [["change run id", { ...op, runId: other(op.runId) }]];
    case "attributes":
      return [
        ["change attribute values", { ...op, attributes: { ...op.attributes, more: true } }],
        ["change attribute values", { ...op, attributes: Object.fromEntries(Object.keys(op.attributes).map((key) => [key, null])) }],
        ["legal: order the keys of an input otherwise", { ...op, attributes: reversedKeys(op.attributes) as typeof op.attributes }],
      ];
    case "rollbackCheckpoint":
    case "try":
      return [["rename", { ...op, name: other(op.name) }]];
    case "condition":
      return [["change wait timeout", { ...op, timeout: later(op.timeout) }]];
    case "parallel":
      return branchChanges(op.branches.map((body, i) => [`b${i}`, body])).map(([kind, branches]) => [
        kind,
        { ...op, branches: branches.map(([, body]) => body) },
      ]);
    case "join":
    case "race":
      return [
        ["rename", { ...op, name: other(op.name) }],
        ...branchChanges(op.branches).map(([kind, branches]): Variant => [kind, { ...op, branches }]),
        ...op.branches.map(
          ([key, body], i): Variant => ["rename a branch key", { ...op, branches: op.branches.with(i, [other(key), body]) }],
        ),
      ];
    case "loop":
      return [
        ["change loop name", { ...op, name: other(op.name) }],
        ["change how often a loop runs", { ...op, times: op.times + 1 }],
        ...(op.times > 1 ? [["change how often a loop runs", { ...op, times: op.times - 1 }] satisfies Variant] : []),
      ];
    case "receive":
      return [
        ["change receive timeout", { ...op, timeout: later(op.timeout) }],
        ["change checkpointEvery", { ...op, checkpointEvery: (op.checkpointEvery ?? 100) + 1 }],
        ...op.handlers.map(
          (handler, i): Variant => [
            "change a handler's message",
            { ...op, handlers: op.handlers.with(i, { ...handler, name: other(handler.name) }) },
          ],
        ),
      ];
    case "patched":
      return [
        ["change patch id", { ...op, id: other(op.id) }],
        ["legal: deprecate a patch", { op: "deprecatePatch", id: op.id }, ...op.whenNew],
      ];
    case "deprecatePatch":
      return [["legal: be done with a deprecated patch"]];
    case "shield":
    case "sideEffect":
    case "awaitCell":
    case "putCell":
    case "removed":
    case "quiet":
      return [];
  }
}

function named(op: { readonly name?: string }): { name?: string } {
  return op.name === undefined ? {} : { name: op.name };
}
function reversedKeys(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).reverse());
}

function branchChanges(branches: Branches): [kind: string, branches: Branches][] {
  const result: [string, Branches][] = [
    ["add a branch", [...branches, ["added", [{ op: "step", name: "in the added branch" }]]]],
    ["add a branch", [["added", [{ op: "step", name: "in the added branch" }]], ...branches]],
  ];
  for (const [i, branch] of branches.entries()) {
    if (branches.length > 1) result.push(["remove a branch", branches.toSpliced(i, 1)]);
    const next = branches[i + 1];
    if (next !== undefined) result.push(["swap branches", branches.toSpliced(i, 2, next, branch)]);
  }
  return result;
}

/** Another kind of operation in the same place, under the same name where there is one. */
function kindsOf(op: Op): Op[] {
  const name = "name" in op && op.name !== undefined ? op.name : op.op;
  const step: Op = { op: "step", name };
  switch (op.op) {
    case "step":
      return [
        { op: "transaction", name },
        { op: "activity", name, input: null, options: {} },
        { op: "sleep", name, duration: "1s" },
      ];
    case "transaction":
    case "rollbackCheckpoint":
    case "signalRun":
      return [step];
    case "activity":
      return [step, { op: "child", name, input: op.input, options: {} }];
    case "child":
      return [
        { op: "activity", name, input: op.input, options: {} },
        { op: "startChild", name, input: op.input, options: op.options, result: true },
      ];
    case "startChild":
      return [{ op: "child", name, input: op.input, options: op.options }];
    case "sleep":
    case "sleepUntil":
      return [step, { op: "wait", name }];
    case "wait":
      return [step, { op: "sleep", name, duration: "1s" }];
    case "listen":
      return [{ op: "step", name: op.names.join("+") }];
    case "cancelRun":
      return [{ op: "signalRun", runId: op.runId, name: "cancelRun", payload: null }];
    case "sideEffect":
      return [{ op: "attributes", attributes: { a: 1 } }, step];
    case "attributes":
      return [{ op: "sideEffect" }];
    case "condition":
      return [{ op: "sleep", name: "condition", duration: op.timeout ?? "1s" }];
    case "awaitCell":
      return [{ op: "condition", holds: true }];
    case "parallel":
      return [{ op: "join", name: "parallel", branches: op.branches.map((body, i) => [`b${i}`, body]) }];
    case "join":
      return [{ op: "race", name, branches: op.branches }];
    case "race":
      return [{ op: "join", name, branches: op.branches }];
    case "loop":
      return [{ op: "try", name, body: op.body }];
    case "try":
      return [{ op: "loop", name, times: 1, body: op.body }];
    case "shield":
      return [{ op: "try", name: "shield", body: op.body }];
    case "receive":
      return [{ op: "wait", name: "receive" }];
    case "patched":
      return [{ op: "step", name: op.id }];
    case "deprecatePatch":
    case "putCell":
    case "removed":
    case "quiet":
      return [];
  }
}

const REMOVABLE: Readonly<Partial<Record<Op["op"], OperationKind>>> = {
  step: "step",
  transaction: "transaction",
  activity: "activity",
  child: "child",
  sleep: "sleep",
  sleepUntil: "sleep",
  wait: "signal",
  listen: "signal",
  parallel: "parallel",
  join: "join",
  race: "race",
  loop: "loop",
  receive: "receive",
  sideEffect: "sideEffect",
  patched: "patch",
  signalRun: "signalRun",
  cancelRun: "cancelRun",
  condition: "condition",
  awaitCell: "ivar",
  try: "try",
  shield: "shield",
  attributes: "attributes",
};
/** V3: the operation is gone, and the code says so. */
function removals(op: Op): Variant[] {
  const kind = REMOVABLE[op.op];
  if (kind === undefined || "fails" in op || JSON.stringify(op).includes('"fails"')) return []; // what failed led elsewhere
  const name =
    op.op === "listen" ? op.names.join("+") : op.op === "patched" ? op.id : "name" in op && op.name !== undefined ? op.name : kind;
  return [["legal: leave a mark where an operation was", { op: "removed", name, kind }, ...(op.op === "patched" ? op.whenNew : [])]];
}

function otherEnds(end: End): [kind: string, end: End][] {
  switch (end.end) {
    case "return":
      return [
        ["change the result", { end: "return", value: { other: end.value } }],
        ["change how the run ends", { end: "throw", message: "no" }],
        ["change how the run ends", { end: "continueAsNew", input: end.value }],
      ];
    case "throw":
      return [["change how the run ends", { end: "return", value: null }]];
    case "continueAsNew":
      return [
        ["change input", { ...end, input: { other: end.input } }],
        ["change version of the next execution", { ...end, version: `${end.version ?? "1"}.1` }],
        ["change how the run ends", { end: "return", value: end.input }],
      ];
  }
}
