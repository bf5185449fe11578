// `waitForSignal` and `listen`: waits for signals.
// Owns: one `SignalWait` for each open `waitForSignal` and `listen`.
// Invariants: M4 (consumes the oldest signal of the name, without a pause if there is one), M5 (listen), M6 (waits are served in the order
// in which they began), M7 (consumption is recorded in the turn that consumed), R8 (a timeout is queued like a message).

import { InvalidInputError } from "../../errors/index.ts";
import { type Duration, parseDuration } from "../../values/index.ts";
import type { Signal, Taker } from "../mailbox.ts";
import type { Behaviour, Operation } from "../operation.ts";
import type { Unit } from "../unit.ts";

class SignalWait implements Taker, Behaviour {
  readonly operation: Operation;
  readonly ready = true;
  readonly #names: readonly string[];
  readonly #count: number;
  readonly #present: (signals: readonly Signal[]) => unknown;

  constructor(operation: Operation, names: readonly string[], count: number, present: (signals: readonly Signal[]) => unknown) {
    this.operation = operation;
    this.#names = names;
    this.#count = count;
    this.#present = present;
  }
  wants(name: string): boolean {
    return this.#names.includes(name);
  }
  /** The signal, and for `listen` up to `count` buffered ones. */
  #gather(first: Signal): Signal[] {
    const { mailbox } = this.operation.unit.execution;
    const signals = [first];
    while (signals.length < this.#count) {
      const more = mailbox.pop((name) => this.wants(name), this);
      if (more === undefined) break;
      signals.push(more);
    }
    return signals;
  }
  #value(signals: readonly Signal[]) {
    return { ok: true, value: this.#present(signals) } as const;
  }
  take(signal: Signal): void {
    const execution = this.operation.unit.execution;
    const signals = this.#gather(signal);
    execution.mailbox.leave(this);
    this.operation.consumed = signal.name;
    execution.conclude(this.operation, "completed", this.#value(signals), ids(signals));
  }
  /** Settles the wait without a pause (M4). */
  takeNow(signal: Signal): void {
    const signals = this.#gather(signal);
    this.operation.unit.execution.concludeNow(this.operation, "completed", this.#value(signals), ids(signals));
  }
  fire(): void {
    const execution = this.operation.unit.execution;
    execution.mailbox.leave(this);
    execution.mailbox.leftUnmet(this.#names);
    execution.conclude(this.operation, "timedOut", this.#value([]));
  }
  cancel(_operation: Operation, error: Error): void {
    const execution = this.operation.unit.execution;
    execution.mailbox.leave(this);
    if (error !== execution.cancelRequested) execution.mailbox.leftUnmet(this.#names); // D9: a cancellation is a message, and it came first
    execution.conclude(this.operation, "canceled", { ok: false, error });
  }
}
const ids = (signals: readonly Signal[]): string[] => signals.map((signal) => signal.id);

interface WaitOptions {
  readonly location: string;
  readonly names: readonly string[];
  readonly count?: number | undefined;
  readonly timeout?: Duration | undefined;
  readonly present: (signals: readonly Signal[]) => unknown;
}

function wait(unit: Unit, call: string, options: WaitOptions): Promise<unknown> {
  const execution = unit.execution;
  const handled = unit.receive === undefined ? undefined : options.names.find((name) => unit.receive?.handlesSignal(name));
  if (handled !== undefined) {
    throw execution.illegal(unit, call, `the enclosing receive handles the signal "${handled}"; wait for another name`);
  }
  const operation = execution.open(unit, "signal", options.location, {
    names: options.names,
    ...(options.count !== undefined && { count: options.count }),
    ...(options.timeout !== undefined && { timeout: parseDuration(options.timeout) }),
  });
  if (operation.closed) return operation.promise;
  const taker = new SignalWait(operation, options.names, options.count ?? 1, options.present);
  operation.behaviour = taker;
  operation.floating = true;
  const buffered = execution.mailbox.pop((name) => taker.wants(name));
  if (buffered === undefined) execution.mailbox.enter(taker);
  else taker.takeNow(buffered);
  return operation.promise;
}

export function waitForSignal(unit: Unit, name: string, options: { timeout: Duration } | undefined): Promise<unknown> {
  const { execution } = unit;
  const timed = options?.timeout !== undefined;
  return wait(unit, "waitForSignal", {
    location: name,
    names: [name],
    timeout: options?.timeout,
    present: ([signal]) => {
      if (signal === undefined) return { timedOut: true };
      const payload = execution.decode(signal.payload);
      return timed ? { timedOut: false, payload } : payload;
    },
  });
}

export function listen(
  unit: Unit,
  names: readonly string[],
  options: { count?: number; timeout?: Duration } | undefined,
): Promise<unknown> {
  const { execution } = unit;
  const count = options?.count ?? 1;
  if (names.length === 0 || !Number.isInteger(count) || count < 1) {
    throw new InvalidInputError({ what: "ctx.listen", issues: [{ message: "Expected at least one name, and a count of 1 or more." }] });
  }
  return wait(unit, "listen", {
    location: names.join("+"),
    names: [...names],
    count,
    timeout: options?.timeout,
    present: (signals) => signals.map((signal) => ({ name: signal.name, payload: execution.decode(signal.payload) })),
  });
}
