// Outcomes of operations that followed a voided failure, kept so that they don't run again.
// Owns: their records and outcomes, by location.
// Invariants: D10 (a settled operation does not run again), P6 (nor does a recorded side effect).

import {
  type Command,
  HOST_OR_INLINE_KINDS,
  IDENTITY,
  type OpeningCommand,
  type Outcome,
  type SideEffectCommand,
} from "../../protocol/index.ts";
import { formatLocation } from "../../protocol/location.ts";

/** The recorded result of an operation. */
export interface Reusable {
  readonly seq: number;
  readonly outcome: Outcome | undefined;
  /** The run id of a started child. */
  readonly runId: string | undefined;
}

export class ReusableOutcomes {
  readonly #byLocation = new Map<string, OpeningCommand>();
  readonly #outcomes = new Map<number, Outcome>();
  readonly #started = new Map<number, string>();
  readonly #same: (a: unknown, b: unknown, field?: string) => boolean;

  constructor(same: (a: unknown, b: unknown, field?: string) => boolean) {
    this.#same = same;
  }
  keep(command: Command): void {
    if (HOST_OR_INLINE_KINDS.has(command.type)) {
      const opening = command as OpeningCommand;
      this.#byLocation.set(formatLocation(opening.unit, opening.name, opening.n), opening);
    }
  }
  resolved(seq: number, outcome: Outcome): void {
    this.#outcomes.set(seq, outcome);
  }
  /** The numbers of the operations that have settled. */
  get settled(): Iterable<number> {
    return this.#outcomes.keys();
  }
  childStarted(seq: number, runId: string): void {
    this.#started.set(seq, runId);
  }

  /** The recorded result of an operation that is called again unchanged, if it had settled. */
  take(now: OpeningCommand): Reusable | undefined {
    const record = this.#take(now);
    if (record === undefined) return undefined;
    const { seq } = record;
    const outcome = this.#outcomes.get(seq);
    const runId = record.type === "child" && record.detached === true ? this.#started.get(seq) : undefined;
    return outcome === undefined && runId === undefined ? undefined : { seq, outcome, runId };
  }
  /** The recorded value or error of a side effect. */
  takeEffect(now: SideEffectCommand): Pick<SideEffectCommand, "value" | "error"> | undefined {
    const record = this.#take(now);
    if (record?.type !== "sideEffect") return undefined;
    return record.error === undefined ? { ...(record.value !== undefined && { value: record.value }) } : { error: record.error };
  }
  #take(now: OpeningCommand): OpeningCommand | undefined {
    if (this.#byLocation.size === 0) return undefined;
    const location = formatLocation(now.unit, now.name, now.n);
    const record = this.#byLocation.get(location);
    if (record === undefined || record.type !== now.type) return undefined;
    this.#byLocation.delete(location);
    const before = record as unknown as Record<string, unknown>;
    const after = now as unknown as Record<string, unknown>;
    return IDENTITY[record.type].every((field) => this.#same(before[field], after[field], field)) ? record : undefined;
  }
}
