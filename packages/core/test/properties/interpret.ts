// Job: interpret a program on the reference machine: what each operation, scope and ending means by the contract.
// Owns: how a node of the AST becomes calls, units and commands. It shares no code with the executor, nor with `compile.ts`.
// Invariants: C1–C6 (scopes), L1–L5 (loops), R1–R11 A1–A6 (receive), K2 K3 (cancellation), P6 P7, S1 S2 (rollbacks).

import type { Activation, Outcome } from "@holdfast/core";
import { type Block, BRANCH_KEYS, type Loop, type Operation, type Program, type Receive, type Statement } from "./program.ts";
import { Receiving } from "./receiving.ts";
import {
  Call,
  type Code,
  type Command,
  Failure,
  locate,
  Machine,
  type Message,
  type Result,
  remove,
  segment,
  type TurnResult,
  type Unit,
} from "./reference.ts";
import { describeError, render } from "./trace.ts";
import { type Cell, fresh, type Shared } from "./variables.ts";

export interface ReferenceOptions {
  /** Payloads of jobs as values. */
  readonly decode: (payload: never) => unknown;
  /** P7: the generator of a unit. */
  readonly random: (path: string) => { next(): number; uuid(): string };
}

/** Runs a program by the contract: one turn for each activation. */
export class Reference {
  readonly #machine: Machine;

  constructor(program: Program, options: ReferenceOptions) {
    this.#machine = new Machine(options.decode, (machine) => new Interpreter(machine, program, options.random).start());
  }
  activate(activation: Activation): TurnResult {
    return this.#machine.activate(activation);
  }
}

interface Frame {
  readonly unit: Unit;
  readonly shared: Shared;
  /** The reducer state, for async handlers. */
  readonly receiving: Receiving | undefined;
  readonly trace: unknown[];
  readonly held: Call[];
  child: { readonly seq: number; readonly id: string; readonly name: string } | undefined;
}

const DEFAULT_INTERVAL = 20;
const CANCELED = "CanceledError";

function* settled(call: Call): Generator<void, unknown, void> {
  while (!call.delivered) yield;
  return unwrap(call);
}
function unwrap(call: Call): unknown {
  const { result } = call;
  if (result?.ok === true) return result.value;
  throw result?.error;
}
/** C5: over operations of one unit. */
function* combined(mode: Extract<Statement, { do: "all" }>["mode"], calls: readonly Call[]): Generator<void, unknown, void> {
  for (;;) {
    const done = calls.filter((call) => call.delivered);
    const decisive =
      mode === "all"
        ? done.find((call) => call.result?.ok !== true)
        : mode === "any"
          ? done.find((call) => call.result?.ok === true)
          : undefined;
    if (decisive !== undefined) return unwrap(decisive);
    if (mode === "race" && done[0] !== undefined) return unwrap(done[0]);
    if (done.length === calls.length) break;
    yield;
  }
  if (mode === "all") return calls.map(unwrap);
  if (mode === "allSettled") return calls.map((call) => slot(call.result));
  throw new Failure("AggregateError", "", {
    errors: Object.fromEntries(calls.map((call, i) => [i, call.result?.ok === false && call.result.error])),
  });
}
function slot(result: Result | undefined): object {
  return result?.ok === true ? { status: "fulfilled", value: result.value } : { status: "rejected", reason: result?.error };
}

export class Interpreter {
  readonly machine: Machine;
  readonly #program: Program;
  readonly #random: (path: string) => { next(): number; uuid(): string };
  readonly #randoms = new Map<Unit, { next(): number; uuid(): string }>();

  constructor(machine: Machine, program: Program, random: (path: string) => { next(): number; uuid(): string }) {
    this.machine = machine;
    this.#program = program;
    this.#random = random;
  }
  start(): void {
    const { machine } = this;
    machine.fail = (error) => this.#fail(error);
    machine.judgeRoot = (result) => this.#rootEnded(result);
    machine.root = machine.spawn({
      path: "",
      order: [],
      parent: undefined,
      code: (unit) => this.unit(unit, this.#program.body, fresh()),
      onEnd: (result) => {
        machine.rootResult = result;
      },
    });
  }

  // ── code ──

  *unit(unit: Unit, block: Block, shared: Shared, receiving?: Receiving): Code {
    const frame: Frame = { unit, shared, receiving, trace: [], held: [], child: undefined };
    yield* this.#block(block, frame);
    return frame.trace;
  }
  *#block(block: Block, frame: Frame): Generator<void, boolean, void> {
    for (const statement of block) if (yield* this.#statement(statement, frame)) return true;
    return false;
  }
  /** True if the unit's function returns here. */
  *#statement(statement: Statement, frame: Frame): Generator<void, boolean, void> {
    const { unit, shared, trace } = frame;
    const { machine } = this;
    switch (statement.do) {
      case "await": {
        const value = yield* settled(this.#call(statement.operation, frame));
        if (statement.operation.op === "startChild") frame.child = value as Frame["child"];
        trace.push(render(value));
        break;
      }
      case "all":
        trace.push(
          render(
            yield* combined(
              statement.mode,
              statement.operations.map((operation) => this.#call(operation, frame)),
            ),
          ),
        );
        break;
      case "start":
        frame.held.push(this.#call(statement.operation, frame));
        break;
      case "collect": {
        const call = frame.held.shift();
        trace.push(call === undefined ? null : render(yield* settled(call)));
        break;
      }
      case "publish":
        machine.publish({ trace: [...trace] });
        break;
      case "random":
        trace.push(this.#randomOf(unit).next());
        break;
      case "uuid":
        trace.push(this.#randomOf(unit).uuid());
        break;
      case "now":
        trace.push(machine.time);
        break;
      case "historyLength":
        trace.push(machine.historyLength);
        break;
      case "aborted":
        trace.push(unit.canceled !== undefined);
        break;
      case "return":
        return true;
      case "attributes":
        machine.note(unit, "attributes", "attributes", { attributes: { value: statement.value } });
        break;
      case "checkpoint":
        machine.rollbacks = [];
        machine.note(unit, "rollbackCheckpoint", statement.name);
        break;
      case "patched":
      case "deprecatePatch":
        if (!unit.patches.has(statement.id)) machine.note(unit, "patch", statement.id);
        unit.patches.add(statement.id);
        if (statement.do === "patched") trace.push(true);
        break;
      case "bump":
        shared.flags[statement.flag] = (shared.flags[statement.flag] ?? 0) + 1;
        trace.push(shared.flags[statement.flag]);
        break;
      case "put":
        this.#put(shared.cells[statement.cell], trace.length);
        break;
      case "tryRead":
        trace.push(shared.cells[statement.cell]?.value?.value ?? null);
        break;
      case "micro":
        break;
      case "throw":
        throw new Failure(statement.kind, statement.message);
      case "catch": {
        let returned: boolean;
        try {
          returned = yield* this.#block(statement.body, frame);
        } catch (error) {
          if (!(error instanceof Failure) || statement.handler === undefined) throw error;
          trace.push(`caught ${describeError(error)}`);
          returned = yield* this.#block(statement.handler, frame);
        } finally {
          if (statement.cleanup !== undefined) yield* this.#block(statement.cleanup, frame);
        }
        return returned;
      }
    }
    return false;
  }
  #randomOf(unit: Unit): { next(): number; uuid(): string } {
    let random = this.#randoms.get(unit);
    if (random === undefined) {
      random = this.#random(unit.path);
      this.#randoms.set(unit, random);
    }
    return random;
  }
  #put(cell: Cell | undefined, value: number): void {
    if (cell === undefined) return;
    if (cell.value !== undefined) throw new Failure("IllegalCallError");
    cell.value = { value };
    for (const call of cell.waiters) this.machine.conclude(call, "completed", { ok: true, value });
    cell.waiters = [];
  }

  // ── operations ──

  #now(unit: Unit, result: Result): Call {
    const call = new Call(unit);
    call.result = result;
    call.delivered = true;
    return call;
  }
  #call(operation: Operation, frame: Frame): Call {
    const { unit } = frame;
    const { machine } = this;
    const child = ["childResult", "childCancel", "childSignal"].includes(operation.op);
    if (child && frame.child === undefined) return this.#now(unit, { ok: true, value: null });
    // K2: once cancelled, what could pause throws, shield aside; a side effect does not pause (P6).
    if (unit.canceled !== undefined && operation.op !== "shield" && operation.op !== "sideEffect")
      return this.#now(unit, { ok: false, error: unit.canceled });
    switch (operation.op) {
      case "step":
      case "transaction":
        return this.#step(operation, unit);
      case "activity": {
        const call = machine.open(unit, "activity", operation.name, { input: operation.input });
        call.cancel = (error) => machine.abandon(call, error);
        call.outcome = (outcome) => machine.settle(call, this.#hostResult(outcome, "ActivityFailedError"));
        return call;
      }
      case "child":
      case "startChild":
        return this.#child(operation, unit);
      case "childResult":
        return this.#childResult(frame);
      case "childCancel":
        return this.#send(unit, "cancelRun", "cancelRun", { runId: frame.child?.id });
      case "childSignal":
        return this.#send(unit, "signalRun", "s", { runId: frame.child?.id, signal: "s", payload: 1 });
      case "cancelRun":
        return this.#send(unit, "cancelRun", "cancelRun", { runId: operation.run });
      case "sleep":
        return this.#sleep(unit, operation.name ?? "sleep", { duration: operation.ms });
      case "sleepUntil":
        return this.#sleep(unit, "sleep", { until: machine.time + operation.ms });
      case "wait":
        return this.#wait(unit, operation.signal, [operation.signal], 1, operation.timeout, {}, ([message]) => {
          if (operation.timeout === undefined) return message?.payload;
          return message === undefined ? { timedOut: true } : { timedOut: false, payload: message.payload };
        });
      case "listen": {
        const { signals, count, timeout } = operation;
        const present = (messages: readonly Message[]) => messages.map(({ name, payload }) => ({ name, payload }));
        return this.#wait(unit, signals.join("+"), signals, count, timeout, { count }, present);
      }
      case "condition":
        return this.#condition(operation, frame);
      case "ivar":
        return this.#ivar(unit, frame.shared.cells[operation.cell]);
      case "sideEffect":
        return this.#sideEffect(operation, unit);
      case "yield":
        unit.yielding ??= new Call(unit);
        unit.yielding.result = { ok: true, value: undefined };
        return unit.yielding;
      case "updateState": {
        const change = (): Result => {
          const { receiving } = frame;
          if (receiving === undefined || operation.throws === true) return { ok: false, error: new Failure("Error", "update") };
          receiving.state = [...receiving.state, operation.value];
          return { ok: true, value: receiving.state.length };
        };
        for (let own: Unit | undefined = unit; own !== undefined && own !== frame.receiving?.call.unit; own = own.parent)
          own.wroteState = true;
        if (frame.receiving?.busy !== true) return this.#now(unit, change());
        const call = machine.open(unit, "updateState", "updateState");
        call.compute = change;
        call.cancel = (error) => machine.conclude(call, "canceled", { ok: false, error });
        frame.receiving.blocked.push(call);
        return call;
      }
      case "parallel":
      case "join":
      case "race":
        return this.#branches(operation, frame);
      case "try":
      case "shield":
        return this.#body(operation, frame);
      case "loop":
        return this.#loop(operation, frame);
      case "receive":
        return this.#receive(operation, frame);
    }
  }

  #sideEffect(operation: Extract<Operation, { op: "sideEffect" }>, unit: Unit): Call {
    const error = new Failure("Error", "side effect");
    const fails = operation.throws === true;
    this.machine.note(unit, "sideEffect", "sideEffect", fails ? { error: describeError(error) } : { value: operation.value });
    return this.#now(unit, fails ? { ok: false, error } : { ok: true, value: operation.value });
  }
  #hostResult(outcome: Outcome, wrapper: string | undefined): Result {
    if (outcome.status === "completed") return { ok: true, value: this.machine.decode(outcome.value as never) };
    if (outcome.status === "canceled") return { ok: false, error: new Failure(CANCELED) };
    const cause = new Failure(outcome.error.name, outcome.error.message);
    return { ok: false, error: wrapper === undefined ? cause : new Failure(wrapper, "", { cause }) };
  }
  /** C7: one with a rollback is joined when cancelled. */
  #step(operation: Extract<Operation, { name: string; rollback?: true }>, unit: Unit): Call {
    const { machine } = this;
    const { op, name, rollback } = operation as { op: string; name: string; rollback?: true };
    const call = machine.open(unit, op, name, rollback === true ? { rollback } : {});
    let joining = false;
    call.cancel = (error) => {
      if (rollback !== true) machine.abandon(call, error);
      else if (!joining) machine.emit({ type: "cancel", seq: call.seq, join: true });
      joining = true;
    };
    call.outcome = (outcome) => {
      if (outcome.status === "completed" && rollback === true) machine.rollbacks.push({ seq: call.seq, location: call.location });
      const late = joining && unit.canceled !== undefined;
      machine.settle(call, late ? { ok: false, error: unit.canceled } : this.#hostResult(outcome, "StepFailedError"));
    };
    return call;
  }
  #send(unit: Unit, type: string, name: string, fields: object): Call {
    const call = this.machine.open(unit, type, name, fields);
    call.cancel = (error) => this.machine.abandon(call, error);
    call.outcome = (outcome) => this.machine.settle(call, this.#hostResult(outcome, undefined));
    return call;
  }
  #sleep(unit: Unit, name: string, fields: object): Call {
    const call = this.machine.open(unit, "sleep", name, fields);
    call.sleeps = true;
    call.waits = true;
    call.cancel = (error) => this.machine.abandon(call, error);
    call.fire = () => this.machine.settle(call, { ok: true, value: undefined });
    return call;
  }
  #child(operation: Extract<Operation, { input: number }>, unit: Unit): Call {
    const { machine } = this;
    const { name, input } = operation;
    const detached = operation.op === "startChild";
    const id = `${machine.runId}/${locate(unit.path, name, unit.occurrences.get(name) ?? 0)}`;
    const call = machine.open(unit, "child", name, { input, id, ...(detached && { detached }) });
    call.cancel = (error) => machine.abandon(call, error);
    call.outcome = (outcome) => machine.settle(call, machine.childResult(outcome));
    call.started = (runId) => {
      machine.children.set(call.seq, { result: undefined, waiters: [] });
      machine.settle(call, { ok: true, value: { id: runId, result: "handle", seq: call.seq, name } });
    };
    return call;
  }
  #childResult(frame: Frame): Call {
    const { machine } = this;
    const seq = frame.child?.seq ?? 0;
    const known = machine.children.get(seq);
    const call = machine.open(frame.unit, "childResult", frame.child?.name ?? "", { child: seq });
    call.waits = true;
    call.cancel = (error) => machine.conclude(call, "canceled", { ok: false, error });
    if (known?.result === undefined) known?.waiters.push(call);
    else machine.concludeNow(call, known.result.ok ? "completed" : "failed", known.result);
    return call;
  }

  /** M4–M6. */
  #wait(
    unit: Unit,
    name: string,
    names: readonly string[],
    count: number,
    timeout: number | undefined,
    fields: object,
    present: (messages: readonly Message[]) => unknown,
  ): Call {
    const { machine } = this;
    const call = machine.open(unit, "signal", name, { names, ...fields, ...(timeout !== undefined && { timeout }) });
    const gather = (first: Message): Message[] => {
      const taken = [first];
      for (let more = first as Message | undefined; more !== undefined && taken.length < count; ) {
        more = machine.pop(names, taker);
        if (more !== undefined) taken.push(more);
      }
      return taken;
    };
    const leave = (status: "completed" | "timedOut" | "canceled", result: Result, messages?: Message[]) => {
      machine.leave(taker);
      machine.conclude(call, status, result, messages);
    };
    const taker = {
      wants: (one: string) => names.includes(one),
      ready: () => true,
      take: (message: Message) => {
        const taken = gather(message);
        leave("completed", { ok: true, value: present(taken) }, taken);
      },
    };
    call.waits = true;
    call.fire = () => leave("timedOut", { ok: true, value: present([]) });
    call.cancel = (error) => leave("canceled", { ok: false, error });
    const buffered = machine.pop(names);
    if (buffered === undefined) machine.enter(taker);
    else {
      const taken = gather(buffered);
      machine.concludeNow(call, "completed", { ok: true, value: present(taken) }, taken);
    }
    return call;
  }

  /** C6. */
  #condition(operation: Extract<Operation, { op: "condition" }>, frame: Frame): Call {
    const { machine } = this;
    const { flag, least, timeout } = operation;
    const call = machine.open(frame.unit, "condition", "condition", timeout === undefined ? {} : { timeout });
    const read = (): Result | undefined => {
      const value = frame.shared.flags[flag] ?? 0;
      if (value < least) return undefined;
      return operation.throws === true ? { ok: false, error: new Failure("Error", `flag ${value}`) } : { ok: true, value: { flag: value } };
    };
    const condition = { call, read };
    machine.conditions.push(condition);
    call.waits = true;
    call.cancel = (error) => {
      remove(machine.conditions, condition);
      machine.conclude(call, "canceled", { ok: false, error });
    };
    call.fire = () => {
      remove(machine.conditions, condition);
      const result = read();
      if (result === undefined) return machine.conclude(call, "timedOut", { ok: true, value: undefined });
      machine.entangle(frame.unit);
      machine.conclude(call, result.ok ? "completed" : "failed", result);
    };
    return call;
  }
  #ivar(unit: Unit, cell: Cell | undefined): Call {
    if (cell?.value !== undefined) return this.#now(unit, { ok: true, value: cell.value.value });
    const call = this.machine.open(unit, "ivar", "ivar");
    call.waits = true;
    cell?.waiters.push(call);
    call.cancel = (error) => {
      if (cell !== undefined) remove(cell.waiters, call);
      this.machine.conclude(call, "canceled", { ok: false, error });
    };
    return call;
  }

  // ── scopes ──

  /** C1–C4, P3: concluded when the last branch has ended. */
  #scope(
    call: Call,
    bodies: readonly { readonly part: string | undefined; readonly block: Block }[],
    frame: Frame,
    options: {
      shielded?: boolean;
      receiving?: Receiving | undefined;
      ended?: (index: number, result: Result) => void;
      conclude: (results: readonly Result[]) => { readonly status: "completed" | "failed"; readonly result: Result };
    },
  ): Unit[] {
    const { machine } = this;
    const { unit } = frame;
    const ordinal = unit.scopes++;
    const results: Result[] = [];
    let left = bodies.length;
    const units = bodies.map(({ part, block }, index) =>
      machine.spawn({
        path: part === undefined ? call.location : `${call.location}/${part}`,
        order: [...unit.order, 0, ordinal, index],
        parent: unit,
        shielded: options.shielded === true,
        code: (own) => this.unit(own, block, frame.shared, options.receiving),
        onEnd: (result) => {
          results[index] = result;
          left--;
          options.ended?.(index, result);
          if (left > 0) return;
          if (unit.canceled !== undefined && options.shielded !== true) {
            machine.conclude(call, "canceled", { ok: false, error: unit.canceled });
          } else {
            const end = options.conclude(results);
            machine.conclude(call, end.status, end.result);
          }
        },
      }),
    );
    call.cancel = (error) => {
      if (options.shielded !== true) for (const one of units) machine.cancelUnit(one, error);
    };
    return units;
  }

  #branches(operation: Extract<Operation, { branches: readonly Block[] }>, frame: Frame): Call {
    const { machine } = this;
    const { op, branches } = operation;
    const keys = BRANCH_KEYS.slice(0, branches.length);
    const call =
      op === "parallel"
        ? machine.open(frame.unit, op, op, { branches: branches.length })
        : machine.open(frame.unit, op, operation.name, { keys });
    if (branches.length === 0) {
      machine.concludeNow(call, "completed", { ok: true, value: [] });
      return call;
    }
    const bodies = branches.map((block, index) => ({ part: op === "parallel" ? `~${index}` : segment(keys[index] ?? ""), block }));
    const errors = (results: readonly Result[]) =>
      Object.fromEntries(results.flatMap((result, index) => (result.ok ? [] : [[keys[index] ?? "", result.error]])));
    if (op === "parallel") {
      this.#scope(call, bodies, frame, {
        conclude: (results) => ({ status: "completed", result: { ok: true, value: results.map(slot) } }),
      });
    } else if (op === "join") {
      this.#scope(call, bodies, frame, {
        conclude: (results) => {
          const failed = results.some((result) => !result.ok);
          if (failed) return { status: "failed", result: { ok: false, error: new Failure("JoinError", "", { errors: errors(results) }) } };
          const value = Object.fromEntries(results.map((result, index) => [keys[index] ?? "", result.ok && result.value]));
          return { status: "completed", result: { ok: true, value } };
        },
      });
    } else {
      let winner: { winner: string; value: unknown } | undefined;
      const units = this.#scope(call, bodies, frame, {
        ended: (index, result) => {
          if (!result.ok || winner !== undefined || frame.unit.canceled !== undefined) return;
          winner = { winner: keys[index] ?? "", value: result.value };
          machine.emit({ type: "winner", seq: call.seq, key: winner.winner });
          units.forEach((unit, other) => {
            if (other !== index) machine.cancelUnit(unit, new Failure(CANCELED));
          });
        },
        conclude: (results) =>
          winner === undefined
            ? { status: "failed", result: { ok: false, error: new Failure("RaceError", "", { errors: errors(results) }) } }
            : { status: "completed", result: { ok: true, value: winner } },
      });
    }
    return call;
  }
  #body(operation: Extract<Operation, { op: "try" | "shield" }>, frame: Frame): Call {
    const { op, body } = operation;
    const call = this.machine.open(frame.unit, op, op === "try" ? operation.name : op);
    this.#scope(call, [{ part: undefined, block: body }], frame, {
      shielded: op === "shield",
      receiving: frame.receiving,
      conclude: ([result = { ok: true, value: undefined }]) => {
        if (op === "try") return { status: "completed", result: { ok: true, value: result } };
        return { status: result.ok ? "completed" : "failed", result };
      },
    });
    return call;
  }

  /** L1–L5. */
  #loop(loop: Loop, frame: Frame): Call {
    const { machine } = this;
    const { commitInterval = DEFAULT_INTERVAL, historyEvery = DEFAULT_INTERVAL, historyKeep = DEFAULT_INTERVAL } = loop;
    const call = machine.open(frame.unit, "loop", loop.name);
    const ordinal = frame.unit.scopes++;
    let last: unknown[] = [];
    let trimmedAt = 0;
    let current: Unit | undefined;
    // What iterations did to the state of a receive is nowhere but in their replay.
    let wroteState = false;
    const commit = (count: number): void => {
      if (wroteState || !machine.canCommit(call)) return;
      const trims = count - trimmedAt >= historyEvery;
      if (trims) trimmedAt = count - (count % historyEvery);
      machine.commit(call, count, { i: count, last }, trims ? Math.max(0, count - historyKeep) : undefined);
    };
    const iterate = (i: number): void => {
      current = machine.spawn({
        path: `${call.location}/~${i}`,
        order: [...frame.unit.order, 0, ordinal, i],
        parent: frame.unit,
        code: (own) => this.unit(own, loop.body, fresh(), frame.receiving),
        onEnd: (result) => {
          wroteState ||= current?.wroteState === true;
          const { canceled } = frame.unit;
          if (canceled !== undefined) machine.conclude(call, "canceled", { ok: false, error: canceled });
          else if (!result.ok) machine.conclude(call, "failed", result);
          else {
            last = [...last, result.value].slice(-2);
            if (i + 1 >= loop.times) machine.conclude(call, "completed", { ok: true, value: last });
            else {
              if ((i + 1) % commitInterval === 0) commit(i + 1);
              iterate(i + 1);
            }
          }
        },
      });
    };
    call.cancel = (error) => {
      if (current !== undefined) machine.cancelUnit(current, error);
    };
    iterate(0);
    return call;
  }

  #receive(receive: Receive, frame: Frame): Call {
    const { timeout, checkpointEvery } = receive;
    const fields = { ...(timeout !== undefined && { timeout }), ...(checkpointEvery !== undefined && { checkpointEvery }) };
    const call = this.machine.open(frame.unit, "receive", "receive", fields);
    new Receiving(this.machine, call, receive, frame.shared, (...args) => this.unit(...args));
    return call;
  }

  // ── the end ──

  /** K3, S1–S3. */
  #rootEnded(result: Result): void {
    const { machine } = this;
    const { cancellation, rollbackOnCancel, end } = this.#program;
    const { canceled } = machine;
    const isCancellation = !result.ok && (result.error as Failure).name === CANCELED;
    const isUnheard = canceled?.unheard === true && result.ok && end !== "return";
    if (canceled !== undefined && (cancellation === "enforced" || isCancellation || isUnheard)) {
      const command: Command = { type: "canceled", ...(canceled.reason !== undefined && { reason: canceled.reason }) };
      if (!result.ok && result.error !== canceled.error) command["error"] = describeError(result.error);
      if (result.ok && end === "return") command["value"] = result.value;
      if (!rollbackOnCancel) machine.close(command);
      else {
        this.#rollBack(canceled.error, (failure) => {
          if (failure === undefined) machine.close(command);
          else machine.close({ type: "fail", error: CANCELED, rollbackError: describeError(failure), rolledBack: true });
        });
      }
    } else if (!result.ok) this.#fail(result.error);
    else if (end === "return") machine.close({ type: "complete", value: result.value });
    else {
      const signals = machine.messages.flatMap((message) => (message.type === "signal" ? [message.id] : []));
      machine.close({ type: "continueAsNew", input: result.value, ...(signals.length > 0 && { signals }) });
    }
  }
  #fail(error: unknown): void {
    const undone = this.machine.rollbacks.length > 0;
    this.#rollBack(error, (failure) => {
      const outcome = { ...(undone && { rolledBack: true }), ...(failure !== undefined && { rollbackError: describeError(failure) }) };
      this.machine.close({ type: "fail", error: describeError(error), ...outcome });
    });
  }
  #rollBack(error: unknown, then: (failure: unknown) => void): void {
    const { machine } = this;
    const entries = machine.rollbacks.reverse();
    machine.rollbacks = [];
    if (entries.length === 0) return then(undefined);
    machine.emit({ type: "rollBack", error: describeError(error) });
    const hostResult = (outcome: Outcome) => this.#hostResult(outcome, "StepFailedError");
    machine.spawn({
      path: "~rollback",
      order: [0],
      parent: undefined,
      *code(unit) {
        for (const { seq, location } of entries) {
          const call = machine.open(unit, "rollback", location, { of: seq });
          call.outcome = (outcome) => machine.settle(call, hostResult(outcome));
          yield* settled(call);
        }
      },
      onEnd: (result) => then(result.ok ? undefined : result.error),
    });
  }
}
