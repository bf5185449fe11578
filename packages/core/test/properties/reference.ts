// Job: the scheduler of the contract once more, as plainly as possible: units as generators, no promise, no microtask, no replay.
// Owns: units, rounds, open operations, messages, and the commands of a turn. What the code of units does is `interpret.ts`.
// Invariants: X4 (rounds), C5 (one resolution a step), X6 (jobs, rounds, messages, conditions), P3 (how units end), K1 K2 (cancellation),
// M4–M8 (messages), S1 S2 (rollbacks). It shares no code with the executor.

import type { Activation, Job, Outcome } from "@holdfast/core";

export type Command = Record<string, unknown>;
export type Result = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: unknown };
export type Code = Generator<void, unknown, void>;

/** An error of the interpreted program. */
export class Failure {
  readonly isFailure = true;
  readonly name: string;
  readonly message: string;
  readonly cause: unknown;
  readonly errors: Readonly<Record<string, unknown>> | undefined;

  constructor(name: string, message = "", more: { cause?: unknown; errors?: Readonly<Record<string, unknown>> } = {}) {
    this.name = name;
    this.message = message;
    this.cause = more.cause;
    this.errors = more.errors;
  }
}

/** An operation from its call to the delivery of its result. */
export class Call {
  readonly unit: Unit;
  readonly name: string;
  readonly n: number;
  readonly seq: number;
  result: Result | undefined;
  /** The unit has taken the result: its code may see it. */
  delivered = false;
  /** Carried out by the host. */
  byHost = false;
  /** A loop or receive beneath which a condition outside of it may have been fulfilled: it can't commit any more (L3). */
  entangled = false;
  /** A timer or a wait: abandoned when the unit's function returns (P3). */
  waits = false;
  /** Its timer is all there is to it. */
  sleeps = false;
  /** Computed when the result is taken (A6). */
  compute: (() => Result) | undefined;
  cancel: (error: unknown) => void = () => {};
  outcome: (outcome: Outcome) => void = () => {};
  fire: () => void = () => {};
  started: (runId: string) => void = () => {};

  constructor(unit: Unit, name = "", n = 0, seq = 0) {
    this.unit = unit;
    this.name = name;
    this.n = n;
    this.seq = seq;
  }
  get location(): string {
    return locate(this.unit.path, this.name, this.n);
  }
}

export interface Unit {
  readonly path: string;
  readonly order: readonly number[];
  readonly parent: Unit | undefined;
  readonly shielded: boolean;
  readonly code: (unit: Unit) => Code;
  readonly onEnd: (result: Result) => void;
  running: Code | undefined;
  /** In order of emission, until delivered. */
  open: Call[];
  /** Settled, to be delivered one per step. */
  inbox: Call[];
  yielding: Call | undefined;
  canceled: unknown;
  returned: Result | undefined;
  over: boolean;
  readonly occurrences: Map<string, number>;
  readonly patches: Set<string>;
  scopes: number;
  /** It, or a unit beneath it, has called updateState. */
  wroteState: boolean;
}

export interface Message {
  readonly type: "signal" | "update" | "fire";
  readonly id: string;
  readonly name: string;
  readonly payload: unknown;
  readonly seq: number;
  accepted: boolean;
}
export interface Taker {
  readonly wants: (name: string) => boolean;
  readonly ready: () => boolean;
  readonly take: (message: Message) => void;
}
/** The open receive, as messages see it. */
export interface Receiver extends Taker {
  readonly call: Call;
  readonly handles: (update: string) => boolean;
  readonly refuses: (message: Message) => boolean;
  readonly closing: () => boolean;
}
interface Condition {
  readonly call: Call;
  readonly read: () => Result | undefined;
}
export interface Rollback {
  readonly seq: number;
  readonly location: string;
}

export interface TurnResult {
  readonly commands: readonly Command[];
  /** Ids of rejected updates. */
  readonly rejected: readonly string[];
  /** The last state published in the turn, if any. */
  readonly state: { readonly value: unknown } | undefined;
}

const HOST_KINDS: ReadonlySet<string> = new Set(["step", "transaction", "activity", "child", "sleep", "signalRun", "cancelRun"]);
const escapes: Readonly<Record<string, string>> = { "%": "%25", "/": "%2F", "#": "%23", "~": "%7E" };
export const segment = (name: string): string => name.replace(/[%/#~]/g, (char) => escapes[char] ?? char);
export function locate(path: string, name: string, n: number): string {
  const last = n === 0 ? segment(name) : `${segment(name)}#${n}`;
  return path === "" ? last : `${path}/${last}`;
}

export class Machine {
  readonly decode: (payload: never) => unknown;
  readonly #begin: (machine: Machine) => void;
  runId = "";
  time = 0;
  historyLength = 0;
  commands: Command[] = [];
  #rejected: string[] = [];
  #turnState: { value: unknown } | undefined;
  published: { value: unknown } | undefined;
  #lastSeq = 0;
  readonly #units: Unit[] = [];
  readonly #calls = new Map<number, Call>();
  messages: Message[] = [];
  readonly #takers: Taker[] = [];
  receiver: Receiver | undefined;
  conditions: Condition[] = [];
  rollbacks: Rollback[] = [];
  /** Outcomes of started children, by the number of the call that started them. */
  readonly children = new Map<number, { result: Result | undefined; waiters: Call[] }>();
  root: Unit | undefined;
  /** `unheard`: it came when the root's function had returned. */
  canceled: { readonly error: Failure; readonly reason: string | undefined; readonly unheard: boolean } | undefined;
  /** The outcome of the root, judged when all jobs of the turn have been applied. */
  rootResult: Result | undefined;
  judgeRoot: (result: Result) => void = () => {};
  closed = false;
  #expired = false;
  /** Ends the run with this error, after its rollbacks. */
  fail: (error: unknown) => void = () => {};

  /** `begin` starts the root when the start job comes. */
  constructor(decode: (payload: never) => unknown, begin: (machine: Machine) => void) {
    this.decode = decode;
    this.#begin = begin;
  }

  // ── X6 ──

  activate(activation: Activation): TurnResult {
    this.commands = [];
    this.#rejected = [];
    this.#turnState = undefined;
    this.time = Math.max(this.time, activation.time);
    this.historyLength = activation.historyLength ?? 0;
    for (const job of activation.jobs) this.#apply(job);
    for (;;) {
      if (this.rootResult !== undefined) {
        const result = this.rootResult;
        this.rootResult = undefined;
        this.judgeRoot(result);
      }
      if (this.#round()) continue;
      if (this.closed) break;
      if (this.#takeMessage()) continue;
      if (this.#settleCondition()) continue;
      break;
    }
    this.#closeTurn();
    return { commands: this.commands, rejected: this.#rejected, state: this.#turnState };
  }

  #apply(job: Job): void {
    switch (job.type) {
      case "start":
        this.runId = job.runId;
        this.#begin(this);
        break;
      case "resolve": {
        const call = this.#calls.get(job.seq);
        if (call !== undefined) call.outcome(job.outcome);
        else this.#childEnded(job.seq, job.outcome);
        break;
      }
      case "fire": {
        const call = this.#calls.get(job.seq);
        if (call === undefined) break;
        // R8: timeouts queue with messages; a sleep is a result like others.
        if (call.sleeps) call.fire();
        else this.messages.push({ type: "fire", id: "", name: "", payload: undefined, seq: job.seq, accepted: false });
        break;
      }
      case "childStarted":
        this.#calls.get(job.seq)?.started(job.runId);
        break;
      case "signal":
        this.messages.push({
          type: "signal",
          id: job.id,
          name: job.name,
          payload: this.decode(job.payload as never),
          seq: 0,
          accepted: false,
        });
        break;
      case "update":
        this.messages.push({
          type: "update",
          id: job.id,
          name: job.name,
          payload: this.decode(job.input as never),
          seq: 0,
          accepted: false,
        });
        break;
      case "cancel":
        if (this.canceled !== undefined || this.root === undefined || (this.root.over && this.rootResult === undefined)) break;
        this.canceled = { error: new Failure("CanceledError"), reason: job.reason, unheard: this.root.returned !== undefined };
        this.cancelUnit(this.root, this.canceled.error);
        break;
      case "expire":
        this.#expire(job.error);
        break;
      default:
        break;
    }
  }
  /** K7: what is open is abandoned, no code runs any more, the rollbacks are due. */
  #expire(error: unknown): void {
    if (this.closed || this.root === undefined || this.#expired) return;
    this.#expired = true;
    if (this.root.over && this.rootResult === undefined) return; // its rollbacks are running already
    this.rootResult = undefined;
    for (const call of this.#calls.values()) {
      this.emit(call.byHost ? { type: "cancel", seq: call.seq } : { type: "settle", seq: call.seq, status: "canceled" });
    }
    for (const unit of this.#units.splice(0)) unit.over = true;
    this.#calls.clear();
    this.children.clear();
    this.#takers.length = 0;
    this.messages = this.messages.filter((message) => message.type === "update" && !message.accepted);
    this.conditions = [];
    this.receiver = undefined;
    this.fail(error);
  }

  /** X4: false if nothing was runnable. */
  #round(): boolean {
    const runnable = this.#units.filter(isRunnable).sort((a, b) => compare(a.order, b.order));
    for (const unit of runnable) if (isRunnable(unit)) this.#step(unit);
    return runnable.length > 0;
  }
  #step(unit: Unit): void {
    if (unit.running === undefined) unit.running = unit.code(unit);
    else if (unit.yielding !== undefined) {
      unit.yielding.delivered = true;
      unit.yielding = undefined;
    } else {
      const call = unit.inbox.shift();
      if (call === undefined) return;
      remove(unit.open, call);
      if (call.compute !== undefined && call.result?.ok === true) call.result = call.compute();
      call.delivered = true;
    }
    try {
      const { done, value } = unit.running.next();
      if (done === true) unit.returned = { ok: true, value };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      unit.returned = { ok: false, error };
    }
    if (unit.returned !== undefined) this.#windDown(unit);
  }
  /** P3. */
  #windDown(unit: Unit): void {
    unit.inbox = [];
    for (const call of [...unit.open]) {
      if (call.result !== undefined) this.#letGo(call);
      else if (call.waits) call.cancel(unit.canceled ?? new Failure("CanceledError"));
    }
    this.#endIfOver(unit);
  }
  /** No code gets the result; a change of state that was to come with it is still made (R10). */
  #letGo(call: Call): void {
    remove(call.unit.open, call);
    if (call.result?.ok === true) call.compute?.();
  }
  #endIfOver(unit: Unit): void {
    if (unit.over || unit.returned === undefined || unit.open.length > 0) return;
    unit.over = true;
    remove(this.#units, unit);
    unit.onEnd(unit.returned);
  }

  // ── units ──

  spawn(options: Pick<Unit, "path" | "order" | "parent" | "code" | "onEnd"> & { shielded?: boolean }): Unit {
    const { parent, shielded = false } = options;
    const unit: Unit = {
      ...options,
      shielded,
      running: undefined,
      open: [],
      inbox: [],
      yielding: undefined,
      canceled: shielded ? undefined : parent?.canceled,
      returned: undefined,
      over: false,
      occurrences: new Map(),
      patches: new Set(),
      scopes: 0,
      wroteState: false,
    };
    this.#units.push(unit);
    return unit;
  }
  /** K1. */
  cancelUnit(unit: Unit, error: unknown): void {
    if (unit.canceled !== undefined || unit.over) return;
    unit.canceled = error;
    for (const call of [...unit.open]) if (call.result === undefined) call.cancel(error);
  }
  /** L3, R11, L5: nothing lives but what leads to this call. */
  canCommit(call: Call): boolean {
    let depth = 0;
    for (let unit: Unit | undefined = call.unit; unit !== undefined; unit = unit.parent) {
      if (unit.open.length !== 1 || (unit.yielding !== undefined && unit.returned === undefined)) return false; // a yield leaves no record
      depth++;
    }
    const beneath = `${call.location}/`;
    return depth === this.#units.length && !call.entangled && !this.rollbacks.some(({ location }) => location.startsWith(beneath));
  }

  /** L3: what a condition outside of a scope has seen may be the doing of the units beneath it. */
  entangle({ path }: Unit): void {
    for (const call of this.#calls.values()) if (path !== call.location && !path.startsWith(`${call.location}/`)) call.entangled = true;
  }

  // ── operations ──

  emit(command: Command): void {
    this.commands.push(command);
  }
  /** A record of a unit's that opens nothing. */
  note(unit: Unit, type: string, name: string, fields: object = {}): { n: number; seq: number } {
    const n = unit.occurrences.get(name) ?? 0;
    unit.occurrences.set(name, n + 1);
    const seq = ++this.#lastSeq;
    this.emit({ type, seq, unit: unit.path, name, n, ...fields });
    return { n, seq };
  }
  open(unit: Unit, type: string, name: string, fields: object = {}): Call {
    const { n, seq } = this.note(unit, type, name, fields);
    const call = new Call(unit, name, n, seq);
    call.byHost = HOST_KINDS.has(type);
    unit.open.push(call);
    this.#calls.set(seq, call);
    return call;
  }
  /** The call has its result. Its unit gets it in its turn, or no code does (P3). */
  settle(call: Call, result: Result): void {
    if (call.result !== undefined) return;
    call.result = result;
    this.#calls.delete(call.seq);
    if (call.unit.returned === undefined) call.unit.inbox.push(call);
    else {
      this.#letGo(call);
      this.#endIfOver(call.unit);
    }
  }
  /** The same with a record. */
  conclude(call: Call, status: "completed" | "failed" | "canceled" | "timedOut", result: Result, messages?: readonly Message[]): void {
    if (call.result !== undefined) return;
    this.emit({ type: "settle", seq: call.seq, status, ...(messages !== undefined && { messages: messages.map(({ id }) => id) }) });
    this.settle(call, result);
  }
  /** X5: it need not wait; the unit keeps the turn. */
  concludeNow(call: Call, status: "completed" | "failed", result: Result, messages?: readonly Message[]): void {
    this.emit({ type: "settle", seq: call.seq, status, ...(messages !== undefined && { messages: messages.map(({ id }) => id) }) });
    call.result = result;
    call.delivered = true;
    this.#calls.delete(call.seq);
    remove(call.unit.open, call);
  }
  /** C7: abandoned at once. */
  abandon(call: Call, error: unknown): void {
    this.emit({ type: "cancel", seq: call.seq });
    this.settle(call, { ok: false, error });
  }
  #childEnded(seq: number, outcome: Outcome): void {
    const child = this.children.get(seq);
    if (child === undefined || child.result !== undefined) return;
    const result = this.childResult(outcome);
    child.result = result;
    for (const call of child.waiters) this.conclude(call, result.ok ? "completed" : "failed", result);
    child.waiters = [];
  }
  childResult(outcome: Outcome): Result {
    if (outcome.status === "completed") return { ok: true, value: this.decode(outcome.value as never) };
    const cause = outcome.status === "failed" ? outcome.error : new Failure("CanceledError");
    return { ok: false, error: new Failure("ChildFailedError", "", { cause }) };
  }
  publish(value: unknown): void {
    this.#turnState = { value };
    this.published = { value };
  }

  // ── messages ──

  enter(taker: Taker): void {
    this.#takers.push(taker);
  }
  leave(taker: Taker): void {
    remove(this.#takers, taker);
    if (this.receiver === taker) this.receiver = undefined;
  }
  /** M4, M6: the oldest signal of these names that no other waiter is in line for. */
  pop(names: readonly string[], self?: Taker): Message | undefined {
    const found = this.messages.find((message) => {
      if (message.type !== "signal" || !names.includes(message.name)) return false;
      const first = this.#takers.find((taker) => taker.wants(message.name));
      return first === undefined || first === self;
    });
    if (found !== undefined) remove(this.messages, found);
    return found;
  }
  #takeMessage(): boolean {
    for (const message of this.messages) if (this.#offer(message)) return true;
    return false;
  }
  #offer(message: Message): boolean {
    if (message.type === "signal") {
      const taker = this.#takers.find((one) => one.wants(message.name));
      if (taker === undefined || !taker.ready()) return false;
      remove(this.messages, message);
      taker.take(message);
      return true;
    }
    const { receiver } = this;
    if (message.type === "fire") {
      const call = this.#calls.get(message.seq);
      if (call !== undefined && call === receiver?.call && !receiver.ready()) return false;
      remove(this.messages, message);
      call?.fire();
      return true;
    }
    if (receiver === undefined || !receiver.ready() || !receiver.handles(message.name)) return false;
    remove(this.messages, message);
    if (message.accepted || this.#accept(message, receiver)) receiver.take(message);
    return true;
  }
  /** M9, M10. */
  #accept(message: Message, receiver: Receiver): boolean {
    if (receiver.refuses(message)) {
      this.#rejected.push(message.id);
      return false;
    }
    message.accepted = true;
    this.emit({ type: "acceptUpdate", seq: receiver.call.seq, id: message.id });
    return true;
  }
  /** R7, M8. */
  #closeTurn(): void {
    for (const message of [...this.messages]) {
      if (message.type !== "update" || message.accepted) continue;
      const { receiver } = this;
      if (receiver !== undefined && !receiver.closing() && receiver.handles(message.name)) {
        if (!this.#accept(message, receiver)) remove(this.messages, message);
      } else {
        remove(this.messages, message);
        this.#rejected.push(message.id);
      }
    }
  }
  #settleCondition(): boolean {
    for (const condition of this.conditions) {
      const result = condition.read();
      if (result === undefined) continue;
      this.entangle(condition.call.unit);
      remove(this.conditions, condition);
      this.conclude(condition.call, result.ok ? "completed" : "failed", result);
      return true;
    }
    return false;
  }

  // ── the end ──

  /** L3, R11: with the published state, and the messages that wait. */
  commit(call: Call, count: number, value: unknown, trim: number | undefined): void {
    const messages = this.messages.filter((message) => message.type !== "update" || message.accepted);
    this.emit({
      type: "commit",
      seq: call.seq,
      count,
      value,
      ...(this.published !== undefined && { state: this.published.value }),
      ...(messages.length > 0 && { messages: messages.map((message) => (message.type === "fire" ? message.seq : message.id)) }),
      ...(trim !== undefined && { trim }),
    });
  }
  close(command: Command): void {
    this.emit(command);
    this.closed = true;
  }
}

export function remove<T>(list: T[], item: T): void {
  const index = list.indexOf(item);
  if (index >= 0) list.splice(index, 1);
}
function isRunnable(unit: Unit): boolean {
  return !unit.over && unit.returned === undefined && (unit.running === undefined || unit.yielding !== undefined || unit.inbox.length > 0);
}
/** X3: part by part, a parent before its children. */
function compare(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}
