// The units of an execution: the root, branches, handlers, iterations and bodies, with their beginning and their end.
// Owns: nothing.
// Invariants: Y7 (a unit that pauses waits for an operation: one without an open operation has ended); X3 (paths say which unit is inside
// which). How a unit other than the root ended is not recorded: it follows from its last operation, and from the operation that it is part of.

import { formatLocation, type OpeningCommand, parseLocation, type Turn } from "@holdfast/core";
import type { RecordedOperation } from "@holdfast/host";
import type { TimelineUnit, UnitRole } from "../types.ts";

export interface UnitOptions {
  readonly closedAt: number | undefined;
  /** Only units that were there after this turn. */
  readonly after: number | undefined;
  /** Only the units of these operations, and those around them. Undefined: all. */
  readonly listed: readonly RecordedOperation[] | undefined;
}
type Status = TimelineUnit["status"];
interface Draft {
  readonly path: string;
  readonly role: UnitRole;
  readonly parent: string | null;
  startedAt: number;
  /** Open operations: those that are listed, and others. */
  open: number;
  lastEnd: number;
  lastStatus: Status;
  /** What the history says of its end. */
  ended: Status | undefined;
}

export function unitsOf(turns: readonly Turn[], operations: readonly RecordedOperation[], options: UnitOptions): TimelineUnit[] {
  const units = new Units(operations);
  const first = turns[0];
  if (first !== undefined) units.get("", first.time);
  for (const turn of turns) units.read(turn);
  for (const operation of operations) units.ended(operation);
  const since = options.after === undefined ? undefined : turns.find(({ index }) => index > (options.after ?? 0))?.time;
  const shown = options.listed === undefined ? undefined : units.around(options.listed);
  return units
    .finished(turns, options.closedAt)
    .filter(
      ({ path, endedAt }) =>
        shown?.has(path) !== false && (options.after === undefined || endedAt === null || endedAt >= (since ?? Number.POSITIVE_INFINITY)),
    );
}

class Units {
  readonly #units = new Map<string, Draft>();
  /** The record of the operation at each location that consists of units. */
  readonly #scopes = new Map<string, RecordedOperation>();
  /** Operations that are not listed, but that a unit may wait for. */
  readonly #unlisted = new Map<number, Draft>();
  readonly #messageUnits = new Map<string, string>();

  constructor(operations: readonly RecordedOperation[]) {
    for (const operation of operations) this.#scopes.set(operation.info.location, operation);
  }

  get(path: string, time: number): Draft {
    const known = this.#units.get(path);
    if (known !== undefined) return known;
    const { role, parent } = this.#placeOf(path);
    if (parent !== null) this.get(parent, time);
    const unit: Draft = { path, role, parent, startedAt: time, open: 0, lastEnd: time, lastStatus: "completed", ended: undefined };
    this.#units.set(path, unit);
    return unit;
  }
  #placeOf(path: string): { role: UnitRole; parent: string | null } {
    if (path === "") return { role: "root", parent: null };
    const { unit: around, name } = parseLocation(path);
    const last = path.slice(around === "" ? 0 : around.length + 1);
    const own = this.#scopes.get(path)?.command.type;
    if (own === "try" || own === "shield" || last === "~rollback") return { role: "body", parent: around };
    if (last === "~async") return { role: "async", parent: unitOf(parseLocation(around).unit) };
    if (/^~h\d+$/.test(last)) return { role: "handler", parent: unitOf(around) };
    const isIteration = /^~\d+$/.test(last) && this.#scopes.get(around)?.command.type !== "parallel";
    return { role: isIteration || name === "" ? "iteration" : "branch", parent: unitOf(around) };
  }

  read({ time, commands }: Turn): void {
    for (const command of commands) {
      if ("n" in command) this.#opened(command, time);
      else if (command.type === "dispatch") {
        this.get(command.unit, time);
        this.#messageUnits.set(command.message, command.unit);
      } else if (command.type === "handlerFailed") this.get(command.unit, time).ended = "failed";
      else if (command.type === "completeUpdate") this.#updateEnded(command.id, command.status);
      else if (command.type === "settle" || command.type === "cancel") this.#settled(command.seq, time);
    }
  }
  #opened(command: OpeningCommand, time: number): void {
    const unit = this.get(command.unit, time);
    const location = formatLocation(command.unit, command.name, command.n);
    for (const path of partsOf(command, location)) this.get(path, time);
    if (command.type !== "childResult" && command.type !== "updateState") return;
    unit.open++;
    this.#unlisted.set(command.seq, unit);
  }
  #settled(seq: number, time: number): void {
    const unit = this.#unlisted.get(seq);
    if (unit === undefined) return;
    this.#unlisted.delete(seq);
    unit.open--;
    unit.lastEnd = Math.max(unit.lastEnd, time);
  }
  #updateEnded(id: string, status: "completed" | "failed"): void {
    const handler = this.#messageUnits.get(id);
    const unit = this.#units.get(`${handler}/~async`) ?? (handler === undefined ? undefined : this.#units.get(handler));
    if (unit !== undefined) unit.ended = status;
  }

  ended({ info: { unit: path, endedAt, status } }: RecordedOperation): void {
    const unit = this.#units.get(path);
    if (unit === undefined) return;
    if (endedAt === undefined) unit.open++;
    else if (endedAt.getTime() >= unit.lastEnd) {
      unit.lastEnd = endedAt.getTime();
      unit.lastStatus = status === "failed" ? "failed" : status === "canceled" || status === "abandoned" ? "canceled" : "completed";
    }
  }

  finished(turns: readonly Turn[], closedAt: number | undefined): TimelineUnit[] {
    const end = endOf(turns, closedAt);
    return [...this.#units.values()].map((unit) => {
      const { path, role, parent, startedAt } = unit;
      if (role === "root") return { path, role, parent, startedAt, endedAt: end?.time ?? null, status: end?.status ?? "running" };
      const isOpen = unit.open > 0 && end === undefined;
      const endedAt = unit.open > 0 ? (end?.time ?? null) : unit.lastEnd;
      return { path, role, parent, startedAt, endedAt, status: isOpen ? "running" : this.#statusOf(unit) };
    });
  }
  #statusOf(unit: Draft): Status {
    if (unit.open > 0) return "canceled";
    if (unit.ended !== undefined) return unit.ended;
    const scope = this.#scopes.get(unit.role === "body" ? unit.path : unit.path.slice(0, unit.path.lastIndexOf("/")));
    if (scope?.info.status === "canceled") return "canceled";
    if (unit.role === "body" && scope !== undefined) return scope.info.status === "failed" ? "failed" : "completed";
    // An error that a join or a loop threw on; in a loop it is the last iteration that failed.
    if (unit.role === "iteration" && scope?.info.status !== "failed") return "completed";
    return unit.lastStatus;
  }

  /** The units of these operations, and those around them. */
  around(operations: readonly RecordedOperation[]): ReadonlySet<string> {
    const found = new Set<string>([""]);
    for (const { info } of operations) {
      for (let path: string | null = info.unit; path !== null && !found.has(path); path = this.#units.get(path)?.parent ?? null)
        found.add(path);
    }
    return found;
  }
}

/** The unit in which the operation at this location was opened. */
function unitOf(location: string): string {
  return parseLocation(location).unit;
}

/** The units that begin with an operation. Those of loops and receives begin later. */
function partsOf(command: OpeningCommand, location: string): string[] {
  if (command.type === "parallel") return Array.from({ length: command.branches }, (_, i) => `${location}/~${i}`);
  if (command.type === "join" || command.type === "race") return command.keys.map((key) => formatLocation(location, key, 0));
  return command.type === "try" || command.type === "shield" ? [location] : [];
}

/** How the execution ended, unless a resume has reopened it. */
function endOf(turns: readonly Turn[], closedAt: number | undefined): { time: number; status: Status } | undefined {
  const last = turns.at(-1);
  const command = last?.commands.at(-1);
  const time = last?.time ?? 0;
  switch (command?.type) {
    case "complete":
    case "continueAsNew":
      return { time, status: "completed" };
    case "fail":
      return command.retryAfter === undefined ? { time, status: "failed" } : undefined;
    case "canceled":
      return { time, status: "canceled" };
    default:
      return closedAt === undefined ? undefined : { time: closedAt, status: "canceled" };
  }
}
