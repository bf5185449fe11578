// Reports where code and history diverge.
// Owns: the choice of the location, the field, and the two sides of the difference.
// Invariants: Y2 (the error names the field, the old value and the new one), V4 (it poisons the turn; the run is unharmed).

import { NondeterminismError } from "../../errors/index.ts";
import type { Command, ReplayTurn } from "../../protocol/index.ts";
import { formatLocation } from "../../protocol/location.ts";
import { describeCommand, difference, isOpening, type Same } from "../comparison.ts";
import type { Execution } from "../execution.ts";

/** Differences in the identity of an operation: the report describes whole operations, not a field. */
const WHOLE: ReadonlySet<string> = new Set(["operation", "kind", "name", "unit", "occurrence"]);

/** Between the call in the workflow and the report there are more frames than an error has by default. */
const DEEPEST = 30;
/** The stack of the error reaches the line of the workflow that diverges. */
function withDeepStack<T>(make: () => T): T {
  const engine = Error as { stackTraceLimit?: unknown };
  const { stackTraceLimit } = engine;
  if (typeof stackTraceLimit !== "number" || stackTraceLimit >= DEEPEST || Object.isFrozen(Error)) return make();
  engine.stackTraceLimit = DEEPEST;
  try {
    return make();
  } finally {
    engine.stackTraceLimit = stackTraceLimit;
  }
}

export class Divergence {
  readonly #execution: Execution;
  readonly #turns: readonly ReplayTurn[];
  readonly #same: Same;
  #turn = 0;

  constructor(execution: Execution, turns: readonly ReplayTurn[], same: Same) {
    this.#execution = execution;
    this.#turns = turns;
    this.#same = same;
  }
  beginTurn(index: number): void {
    this.#turn = index;
  }

  /** History has `expected` where the code emits `actual`; one of them may be missing. */
  report(expected: Command | undefined, actual: Command | undefined): void {
    const at =
      expected !== undefined && (isOpening(expected) || actual === undefined || !isOpening(actual)) ? expected : (actual as Command);
    const location = this.locate(at);
    if (expected === undefined || actual === undefined) {
      const hint = actual === undefined ? insteadOf(expected as Command) : this.recordedLater(actual);
      this.#fail(location, "operation", expected && describeCommand(expected), actual && describeCommand(actual), hint);
      return;
    }
    const elsewhere = isOpening(expected) && isOpening(actual) && expected.unit !== actual.unit;
    const field = elsewhere ? "operation" : (difference(actual, expected, this.#same) ?? "order");
    const [before, now] = [describeCommand(expected), describeCommand(actual)];
    const isField = !WHOLE.has(field) && field !== "order";
    // For a terminal command the whole command says more than one field, unless only that field differs.
    if (isField && ((isOpening(expected) && isOpening(actual)) || before === now)) {
      this.#fail(location, field, this.#value(expected, field), this.#value(actual, field));
    } else this.#fail(location, field, before, now);
  }
  /** Reports a changed option in a strict replay (Y2). */
  reportOption(expected: Command, actual: Command, field: string): void {
    this.#fail(this.locate(expected), field, this.#value(expected, field), this.#value(actual, field));
  }
  /** Reports that both commands are in the turn, but in a different order (Y6). */
  reportOrder(expected: Command, actual: Command): void {
    this.#fail(this.locate(expected), "order", describeCommand(expected), describeCommand(actual));
  }
  #fail(location: string, field: string, expected: unknown, actual: unknown, hint?: string): void {
    const details = { location, field, expected, actual, ...(hint !== undefined && { hint }) };
    this.#execution.violate(withDeepStack(() => new NondeterminismError(details)));
  }
  #value(command: Command, field: string): unknown {
    return this.#same.decode((command as unknown as Record<string, unknown>)[field], field);
  }

  /** A hint that a later turn has this command; undefined if none has it. */
  recordedLater(actual: Command): string | undefined {
    for (let turn = this.#turn + 1; turn < this.#turns.length; turn++) {
      const found = this.#turns[turn]?.commands.some((command) => difference(actual, command, this.#same) === undefined);
      if (found === true)
        return `History has it ${turn - this.#turn === 1 ? "one turn" : `${turn - this.#turn} turns`} later: an operation before it is missing.`;
    }
    return undefined;
  }
  /** The location of the operation that a command belongs to. */
  locate(command: Command): string {
    if (isOpening(command)) return formatLocation(command.unit, command.name, command.n);
    if ("unit" in command) return command.unit;
    if ("seq" in command) {
      for (let turn = Math.min(this.#turn, this.#turns.length - 1); turn >= 0; turn--) {
        const opening = this.#turns[turn]?.commands.find((one) => isOpening(one) && one.seq === command.seq);
        if (opening !== undefined) return this.locate(opening);
      }
    }
    return "root";
  }
}

function insteadOf(expected: Command): string | undefined {
  if (!isOpening(expected)) return undefined;
  const unit = expected.unit === "" ? "root" : expected.unit;
  return `At this point the unit ${unit} did something else, or nothing.`;
}
