// Job: where a changed program must diverge from a history of the old one, derived from the two programs alone.
// Owns: the operations of each unit as the text of a program has them, and the comparison of two programs, unit by unit.
// Invariants: Y2 (a unit's operations in order, field by field), Y6 (nothing beyond the end of history is compared), L3 R11 (nothing
// before a commit is), V1 V3 (patched, deprecatePatch and removed tolerate what they are for).
import type { Body, End, Op, Program } from "./program.ts";
import { locationOf, type Recorded, segment } from "./record.ts";

/** The first thing of a unit that is not as it was. */
export interface Difference {
  readonly location: string;
  /** What may be named as different. One, unless a whole operation is missing or extra. */
  readonly fields: readonly string[];
  /** The old value of the field and the new one, where both are known. */
  readonly values?: readonly [before: unknown, after: unknown];
  /** The turn of history that shows it. */
  readonly turn: number;
  /** Code that cancellation may have kept from running. */
  readonly unsure?: true;
}

interface Shape {
  readonly kind: string;
  readonly name: string;
  readonly fields: readonly (readonly [name: string, value: unknown])[];
  readonly source?: Line;
  readonly deprecated?: true;
}
/** A statement, with the two operations of a started child apart. */
type Line = Op | { readonly op: "childResult"; readonly name: string };
type Placed = Shape & { readonly location: string };

/** What is known of a unit besides its code. */
interface About {
  /** The turn in which its function began, where it may have no operations. */
  readonly started?: number;
  /** The turn in which it was cancelled, or one above it. */
  readonly canceled?: number;
  /** How the two programs end, if it is the root. */
  readonly ends?: readonly [Shape, Shape];
}

const MISSING_OR_EXTRA = ["kind", "operation"];

/** Everything in which `after` differs from what `before` has recorded, the earliest of each unit. */
export function differences(before: Program, after: Program, recorded: Recorded): Difference[] {
  const walk = new Walk(recorded);
  walk.unit("", before.body, after.body, { started: 0, ends: [endShape(before.end), endShape(after.end)] });
  return walk.found;
}

class Walk {
  readonly found: Difference[] = [];
  readonly #recorded: Recorded;

  constructor(recorded: Recorded) {
    this.#recorded = recorded;
  }

  unit(path: string, before: Body, after: Body, about: About = {}): void {
    if (before === after && about.ends === undefined) return; // untouched, with all beneath it
    const old = place(path, lines(before).flatMap(shapes));
    const code = lines(after);
    const counts = new Map<string, number>();
    let last: Placed | undefined;
    for (let i = 0; ; ) {
      const expected = old[i];
      const reached = expected === undefined ? this.#endTurn(last, about) : this.#recorded.opened(expected.location);
      if (reached === undefined) return this.#endOfHistory(last, about); // nothing beyond it is compared
      const op: Line | undefined = code.shift();
      const actual = this.#next(op, expected, code);
      if (actual === "nothing") continue;
      if (actual === "removed") {
        count(counts, expected?.name ?? "");
        // Where the record was cancelled, its unit threw then; now it goes on to what does not pause.
        const mayBeCut = this.#recorded.canceled || about.canceled !== undefined;
        const ended = expected === undefined ? undefined : this.#recorded.endedWell(expected.location);
        if (ended === undefined && mayBeCut && !pauses(code[0])) return this.#report("", [], reached, true);
        last = expected;
        i++;
        continue;
      }
      if (expected?.deprecated === true && !(actual?.kind === "patch" && actual.name === expected.name)) {
        if (op !== undefined) code.unshift(op);
        i++;
        continue;
      }
      if (actual === undefined) {
        if (expected !== undefined) this.#report(expected.location, MISSING_OR_EXTRA, reached);
        else if (about.ends !== undefined) this.#compareEnds(...about.ends);
        return;
      }
      const location = locationOf(path, actual.name, count(counts, actual.name));
      if (expected === undefined) return this.#report(location, MISSING_OR_EXTRA, reached, this.#mayBeCanceled(about, reached));
      const differing = firstDifference(expected, { ...actual, location });
      if (differing !== undefined) {
        // What was put in its place may have been kept from running.
        const fields = this.#mayBeCanceled(about, reached) ? [differing.field, "operation"] : [differing.field];
        return this.#report(expected.location, fields, reached, false, differing.values);
      }
      if (expected.source !== undefined && actual.source !== undefined)
        this.#beneath(expected.location, expected.source, actual.source, about);
      last = expected;
      i++;
    }
  }

  /** What code does next: an operation, nothing that history would show, or the passing over of a record. */
  #next(op: Line | undefined, expected: Shape | undefined, code: Line[]): Shape | undefined | "nothing" | "removed" {
    switch (op?.op) {
      case "quiet":
      case "putCell":
        return "nothing";
      case "removed":
        return expected?.name === op.name && expected.kind === op.kind ? "removed" : "nothing";
      case "deprecatePatch":
        return expected?.kind === "patch" && expected.name === op.id ? patch(op.id) : "nothing";
      case "patched": {
        const known = expected?.kind === "patch" && expected.name === op.id;
        code.unshift(...lines(known ? op.whenNew : op.otherwise));
        return known ? patch(op.id) : "nothing";
      }
      default:
        return op === undefined ? undefined : shapes(op)[0];
    }
  }

  /** The units that two equal operations start. */
  #beneath(location: string, before: Line, after: Line, about: About): void {
    const inherited = about.canceled === undefined ? {} : { canceled: about.canceled };
    if (before.op === "parallel" && after.op === "parallel") {
      for (const [i, body] of before.branches.entries()) this.unit(`${location}/~${i}`, body, after.branches[i] ?? [], inherited);
    } else if ((before.op === "join" || before.op === "race") && (after.op === "join" || after.op === "race")) {
      const won = this.#recorded.won(location);
      for (const [i, [key, body]] of before.branches.entries()) {
        const lost = won !== undefined && won.key !== key ? { canceled: won.turn } : inherited;
        this.unit(`${location}/${segment(key)}`, body, after.branches[i]?.[1] ?? [], lost);
      }
    } else if ((before.op === "try" && after.op === "try") || (before.op === "shield" && after.op === "shield")) {
      this.unit(location, before.body, after.body, inherited);
    } else if (before.op === "loop" && after.op === "loop") this.#iterations(location, before, after, inherited);
    else if (before.op === "receive" && after.op === "receive") this.#dispatches(location, before, after);
  }
  #iterations(location: string, before: Op & { op: "loop" }, after: Op & { op: "loop" }, about: About): void {
    const committed = this.#recorded.committed(location);
    const times = committed === 0 ? after.times : Math.max(after.times, committed + 1);
    for (let i = committed; i < Math.max(before.times, times); i++) {
      const path = `${location}/~${i}`;
      if (i < Math.min(before.times, times)) this.unit(path, before.body, after.body, about);
      else this.#iterationMore(location, path, i, before, after, about);
    }
  }
  /** An iteration that only one of the two programs has. */
  #iterationMore(location: string, path: string, i: number, before: Op & { op: "loop" }, after: Op & { op: "loop" }, about: About): void {
    const isMissing = i < before.times;
    const body = isMissing ? before.body : after.body;
    const [first] = place(path, lines(body).flatMap(shapes));
    if (first === undefined) return;
    const turn = isMissing ? this.#recorded.opened(first.location) : this.#recorded.endedWell(location);
    // A patch that history does not have opens nothing, and what follows it may not either.
    const unsure = this.#mayBeCanceled(about, turn) || (!isMissing && body[0]?.op === "patched");
    this.#report(first.location, MISSING_OR_EXTRA, turn, unsure);
    if (!isMissing && i % (after.commitInterval ?? 20) === 0) this.#report(location, MISSING_OR_EXTRA, turn, unsure);
  }
  #dispatches(location: string, before: Op & { op: "receive" }, after: Op & { op: "receive" }): void {
    for (const { name, turn } of this.#recorded.accepted(location)) {
      if (!after.handlers.some((one) => one.message === "update" && one.name === name)) this.#report(location, ["operation"], turn);
    }
    for (let k = this.#recorded.committed(location); ; k++) {
      const message = this.#recorded.dispatched(location, k);
      if (message === undefined) return;
      const of = (op: Op & { op: "receive" }) => op.handlers.find((one) => one.message === message.message && one.name === message.name);
      const [old, code] = [of(before), of(after)];
      const path = `${location}/~h${k}`;
      if (code === undefined) return this.#report(path, ["operation", "message", "kind"], message.turn);
      this.unit(path, old?.body ?? [], code.body, { started: message.turn });
      this.unit(`${path}/~async`, old?.async ?? [], code.async ?? []);
    }
  }

  #compareEnds(before: Shape, after: Shape): void {
    const differing = firstDifference({ ...before, location: "root" }, { ...after, location: "root" });
    // A run that cancellation reached ends canceled, whatever its root returned (K3).
    if (differing !== undefined) this.#report("root", [differing.field], this.#recorded.terminal?.turn, this.#recorded.canceled);
  }
  /** The turn in which a unit was past all of its operations. */
  #endTurn(last: Placed | undefined, { started, ends }: About): number | undefined {
    const passed = last === undefined ? started : this.#recorded.endedWell(last.location);
    return passed === undefined || ends === undefined ? passed : this.#recorded.terminal?.turn;
  }
  /** In a unit that was cancelled, calls that pause leave no record and others do. */
  #endOfHistory(last: Placed | undefined, about: About): void {
    const passed = last === undefined ? (about.started ?? about.canceled ?? 0) : this.#recorded.endedWell(last.location);
    if (this.#mayBeCanceled(about, passed)) this.#report("", [], passed, true);
  }
  #mayBeCanceled(about: About, turn: number | undefined): boolean {
    return this.#recorded.canceled || (about.canceled !== undefined && turn !== undefined && turn >= about.canceled);
  }
  #report(location: string, fields: readonly string[], turn: number | undefined, unsure = false, values?: Difference["values"]): void {
    if (turn === undefined) return;
    this.found.push({ location, fields, turn, ...(unsure && { unsure }), ...(values !== undefined && { values }) });
  }
}

function lines(body: Body): Line[] {
  return body.flatMap((op): Line[] => (op.op === "startChild" && op.result ? [op, { op: "childResult", name: op.name }] : [op]));
}
function count(counts: Map<string, number>, name: string): number {
  const n = counts.get(name) ?? 0;
  counts.set(name, n + 1);
  return n;
}
function place(path: string, all: readonly Shape[]): Placed[] {
  const counts = new Map<string, number>();
  return all.map((one) => ({ ...one, location: locationOf(path, one.name, count(counts, one.name)) }));
}

function firstDifference(before: Placed, after: Placed): { field: string; values?: readonly [unknown, unknown] } | undefined {
  if (before.kind !== after.kind) return { field: "kind" };
  if (before.name !== after.name) return { field: "name" };
  if (before.location !== after.location) return { field: "occurrence" };
  for (const [i, [field, old]] of before.fields.entries()) {
    const changed = after.fields[i]?.[1];
    if (!sameAs(old, changed)) return field === "id" ? { field } : { field, values: [old, changed] };
  }
  return undefined;
}
export function sameAs(a: unknown, b: unknown): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}
/** Objects without the order of their keys. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  const keys = Object.keys(value).sort();
  return keys.map((key) => [key, sorted((value as Record<string, unknown>)[key])]);
}

function milliseconds(duration: unknown): unknown {
  const match = typeof duration === "string" ? /^(\d+)(s|m|h)$/.exec(duration) : null;
  if (match === null) return duration;
  return Number(match[1]) * ({ s: 1_000, m: 60_000, h: 3_600_000 }[match[2] ?? ""] ?? Number.NaN);
}

const patch = (id: string): Shape => ({ kind: "patch", name: id, fields: [] });

const NOT_PAUSING: ReadonlySet<string> = new Set(["sideEffect", "attributes", "patched", "rollbackCheckpoint", "shield", "quiet"]);
/** Is it a statement that throws in a unit that was cancelled? */
function pauses(line: Line | undefined): boolean {
  return line !== undefined && !NOT_PAUSING.has(line.op);
}

/** The operations that a statement makes in its own unit, as history shows them. */
function shapes(op: Line): Shape[] {
  const one = (kind: string, name: string, ...fields: (readonly [string, unknown])[]): Shape[] => [{ kind, name, fields, source: op }];
  switch (op.op) {
    case "step":
      return one("step", op.name, ["timeout", milliseconds(op.timeout)], ["retry", op.retry], ["rollback", op.rollback]);
    case "transaction":
      return one("transaction", op.name, ["timeout", undefined], ["retry", op.retry], ["rollback", op.rollback]);
    case "activity": {
      const { queue, retry, startToClose, scheduleToClose, scheduleToStart, heartbeat } = op.options;
      const limits = Object.entries({ startToClose, scheduleToClose, scheduleToStart, heartbeat });
      return one(
        "activity",
        op.name,
        ["input", op.input],
        ["queue", queue],
        ["retry", retry],
        ...limits.map(([name, limit]) => [name, milliseconds(limit)] as const),
      );
    }
    case "child":
      return [child(op, false)];
    case "startChild":
      return [child(op, true)];
    case "childResult":
      return one("childResult", op.name);
    case "sleep":
      return one("sleep", op.name ?? "sleep", ["duration", milliseconds(op.duration)], ["until", undefined]);
    case "sleepUntil":
      return one("sleep", op.name ?? "sleep", ["duration", undefined], ["until", op.until]);
    case "wait":
      return one("signal", op.name, ["names", [op.name]], ["count", undefined], ["timeout", milliseconds(op.timeout)]);
    case "listen":
      return one("signal", op.names.join("+"), ["names", op.names], ["count", op.count ?? 1], ["timeout", milliseconds(op.timeout)]);
    case "signalRun":
      return one("signalRun", op.name, ["runId", op.runId], ["signal", op.name], ["payload", op.payload]);
    case "cancelRun":
      return one("cancelRun", "cancelRun", ["runId", op.runId]);
    case "sideEffect":
      return one("sideEffect", "sideEffect");
    case "attributes":
      return one("attributes", "attributes", ["attributes", op.attributes]);
    case "rollbackCheckpoint":
      return one("rollbackCheckpoint", op.name);
    case "condition":
      return one("condition", "condition", ["timeout", milliseconds(op.timeout)]);
    case "awaitCell":
      return one("ivar", "ivar");
    case "parallel":
      return one("parallel", "parallel", ["branches", op.branches.length]);
    case "join":
    case "race":
      return one(op.op, op.name, ["keys", op.branches.map(([key]) => key)]);
    case "loop":
    case "try":
      return one(op.op, op.name);
    case "shield":
      return one("shield", "shield");
    case "receive":
      return one("receive", "receive", ["timeout", milliseconds(op.timeout)], ["checkpointEvery", op.checkpointEvery]);
    case "patched":
      return [patch(op.id), ...lines(op.whenNew).flatMap(shapes)];
    case "deprecatePatch":
      return [{ ...patch(op.id), deprecated: true }];
    case "putCell":
    case "removed":
    case "quiet":
      return [];
  }
}
function child(op: Op & { op: "child" | "startChild" }, detached: boolean): Shape {
  const { id, queue, version, deadline, retry, parentClose } = op.options;
  return {
    kind: "child",
    name: op.name,
    source: op,
    fields: [
      ["input", op.input],
      ["id", id],
      ["queue", queue],
      ["version", version],
      ["deadline", deadline instanceof Date ? undefined : milliseconds(deadline)],
      ["deadlineAt", deadline instanceof Date ? deadline.getTime() : undefined],
      ["retry", retry],
      ["parentClose", parentClose],
      ["detached", detached || undefined],
    ],
  };
}

function endShape(end: End): Shape {
  switch (end.end) {
    case "return":
      return { kind: "complete", name: "", fields: [["value", end.value]] };
    case "throw":
      return { kind: "fail", name: "", fields: [] };
    case "continueAsNew":
      return {
        kind: "continueAsNew",
        name: "",
        fields: [
          ["input", end.input],
          ["version", end.version],
        ],
      };
  }
}
