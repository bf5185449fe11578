// What a voided failure left behind: operations that ran because of it, kept so that they do not run again.
// Owns: their records and outcomes, by location.
// Invariants: D10 (completed steps do not run again).

import { type Command, IDENTITY, type OpeningCommand, type Outcome } from "../protocol/index.ts";
import { formatLocation } from "./location.ts";

const HOST_KINDS: ReadonlySet<string> = new Set(["step", "transaction", "activity", "child", "sleep", "signalRun", "cancelRun"]);

export class Salvage {
  readonly #byLocation = new Map<string, OpeningCommand>();
  readonly #outcomes = new Map<number, Outcome>();
  readonly #same: (a: unknown, b: unknown) => boolean;

  constructor(same: (a: unknown, b: unknown) => boolean) {
    this.#same = same;
  }
  keep(command: Command): void {
    if (HOST_KINDS.has(command.type)) {
      const opening = command as OpeningCommand;
      this.#byLocation.set(formatLocation(opening.unit, opening.name, opening.n), opening);
    }
  }
  resolved(seq: number, outcome: Outcome): void {
    this.#outcomes.set(seq, outcome);
  }
  /** The outcome from before for an operation that is made again as it was, if it completed. */
  take(type: string, unit: string, name: string, n: number, fields: object | undefined): { seq: number; outcome: Outcome } | undefined {
    if (this.#byLocation.size === 0) return undefined;
    const location = formatLocation(unit, name, n);
    const record = this.#byLocation.get(location);
    if (record === undefined || record.type !== type) return undefined;
    this.#byLocation.delete(location);
    const outcome = this.#outcomes.get(record.seq);
    if (outcome?.status !== "completed") return undefined;
    const before = record as unknown as Record<string, unknown>;
    const now = (fields ?? {}) as Record<string, unknown>;
    return IDENTITY[record.type].every((field) => this.#same(before[field], now[field])) ? { seq: record.seq, outcome } : undefined;
  }
}
