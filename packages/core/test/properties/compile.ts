// Job: turn a program into a workflow: its operations become calls on ctx, its blocks async functions.
// Owns: how each node of the AST looks in real code. Nothing of it is shared between runs.
// Invariants: P1 (one async function), X8 (it awaits operations and microtasks only), C5 (`all` awaits operations of one unit).

import {
  type AnyWorkflow,
  type AsyncHandlerContext,
  activity,
  CanceledError,
  type ChildHandle,
  FatalError,
  type IVar,
  Loop as LoopResults,
  Receive as Results,
  RollbackError,
  type StepInfo,
  type UnitContext,
  type WorkflowContext,
  workflow,
} from "@holdfast/core";
import {
  type Block,
  BRANCH_KEYS,
  CELLS,
  FLAGS,
  type Handler,
  type Loop,
  type Operation,
  type Program,
  type Receive,
  type Statement,
  type ThrownKind,
} from "./program.ts";
import { describeError, render } from "./trace.ts";

/** What steps do, where a host runs them. */
export interface Bodies {
  step(info: StepInfo): unknown;
  transaction(tx: unknown, info: StepInfo): unknown;
  rollback(info: StepInfo): Promise<void> | void;
}
export interface CompileOptions {
  /** Microtasks awaited before every statement and after every operation, by how many there were before. */
  readonly sprinkle?: (position: number) => number;
  readonly name?: string;
  /** Without them steps do nothing: the harness answers in their place. */
  readonly bodies?: Bodies;
}

interface Shared {
  readonly flags: number[];
  readonly cells: readonly IVar<number>[];
}
/** One unit's variables. */
interface Frame {
  readonly ctx: UnitContext;
  readonly shared: Shared;
  readonly trace: unknown[];
  readonly held: Promise<unknown>[];
  child: ChildHandle<unknown> | undefined;
}
type State = unknown[];
interface LoopState {
  readonly i: number;
  readonly last: unknown[];
}

const RETURNED = Symbol("returned");

export function compile(program: Program, options: CompileOptions = {}): AnyWorkflow {
  const { cancellation, rollbackOnCancel, end } = program;
  const name = options.name ?? "program";
  return workflow<unknown, unknown>({ name, cancellation, rollbackOnCancel } as never, async (ctx: WorkflowContext) => {
    const trace = await new Code(options).unit(ctx, program.body, fresh(ctx));
    return end === "return" ? trace : ctx.continueAsNew(trace);
  });
}

function fresh(ctx: UnitContext): Shared {
  return { flags: new Array<number>(FLAGS).fill(0), cells: Array.from({ length: CELLS }, () => ctx.ivar<number>()) };
}

function thrown(kind: ThrownKind, message: string): Error {
  switch (kind) {
    case "Error":
      return new Error(message);
    case "FatalError":
      return new FatalError(message);
    case "RollbackError":
      return new RollbackError(message);
    case "CanceledError":
      return new CanceledError(message);
  }
}

const NOTHING: Bodies = { step: () => undefined, transaction: () => undefined, rollback: () => {} };
const childNamed = (name: string) => workflow<number, unknown>(name, async () => undefined);
const activityNamed = (name: string) => activity<number, unknown>(name, () => undefined);

class Code {
  readonly #sprinkle: ((position: number) => number) | undefined;
  readonly #bodies: Bodies;
  #position = 0;

  constructor({ sprinkle, bodies = NOTHING }: CompileOptions) {
    this.#sprinkle = sprinkle;
    this.#bodies = bodies;
  }
  #undoing(rollback: true | undefined) {
    return rollback === undefined ? undefined : { rollback: (_: unknown, info: StepInfo) => this.#bodies.rollback(info) };
  }
  async #sprinkled(): Promise<void> {
    for (let left = this.#sprinkle?.(this.#position++) ?? 0; left > 0; left--) await null;
  }

  /** The code of one unit; its value is what the unit saw. */
  async unit(ctx: UnitContext, block: Block, shared: Shared): Promise<unknown[]> {
    const frame: Frame = { ctx, shared, trace: [], held: [], child: undefined };
    await this.#block(block, frame);
    return frame.trace;
  }
  async #block(block: Block, frame: Frame): Promise<typeof RETURNED | undefined> {
    for (const statement of block) {
      if (this.#sprinkle !== undefined) await this.#sprinkled();
      if ((await this.#statement(statement, frame)) === RETURNED) return RETURNED;
    }
    return undefined;
  }

  async #statement(statement: Statement, frame: Frame): Promise<typeof RETURNED | undefined> {
    const { ctx, shared, trace, held } = frame;
    switch (statement.do) {
      case "await": {
        const promise = this.#call(statement.operation, frame);
        for (let left = statement.late ?? 0; left > 0; left--) await null;
        const value = await promise;
        if (this.#sprinkle !== undefined) await this.#sprinkled();
        if (statement.operation.op === "startChild") frame.child = value as ChildHandle<unknown>;
        trace.push(render(value));
        break;
      }
      case "all": {
        const promises = statement.operations.map((operation) => this.#call(operation, frame));
        trace.push(render(await combined(statement.mode, promises)));
        break;
      }
      case "start":
        held.push(this.#call(statement.operation, frame));
        break;
      case "collect":
        trace.push(render(await held.shift()));
        break;
      case "publish":
        ctx.publishState({ trace: [...trace] });
        break;
      case "random":
        trace.push(ctx.random());
        break;
      case "uuid":
        trace.push(ctx.uuid());
        break;
      case "now":
        trace.push(ctx.now().getTime());
        break;
      case "historyLength":
        trace.push(ctx.historyLength());
        break;
      case "aborted":
        trace.push(ctx.signal.aborted);
        break;
      case "return":
        return RETURNED;
      case "attributes":
        ctx.setAttributes({ value: statement.value });
        break;
      case "checkpoint":
        ctx.rollbackCheckpoint(statement.name);
        break;
      case "patched":
        trace.push(ctx.patched(statement.id));
        break;
      case "deprecatePatch":
        ctx.deprecatePatch(statement.id);
        break;
      case "bump":
        shared.flags[statement.flag] = (shared.flags[statement.flag] ?? 0) + 1;
        trace.push(shared.flags[statement.flag]);
        break;
      case "put":
        shared.cells[statement.cell]?.put(trace.length);
        break;
      case "tryRead":
        trace.push(render(shared.cells[statement.cell]?.tryRead()));
        break;
      case "micro":
        for (let left = statement.count; left > 0; left--) await (statement.nested ? Promise.resolve().then(async () => null) : null);
        break;
      case "throw":
        throw thrown(statement.kind, statement.message);
      case "catch":
        return this.#catch(statement, frame);
    }
    return undefined;
  }
  async #catch(statement: Extract<Statement, { do: "catch" }>, frame: Frame): Promise<typeof RETURNED | undefined> {
    let result: typeof RETURNED | undefined;
    try {
      result = await this.#block(statement.body, frame);
    } catch (error) {
      if (statement.handler === undefined) throw error;
      frame.trace.push(`caught ${describeError(error)}`);
      result = await this.#block(statement.handler, frame);
    } finally {
      if (statement.cleanup !== undefined) await this.#block(statement.cleanup, frame);
    }
    return result;
  }

  /** The promise of ctx itself: nothing between it and the code that awaits it. */
  #call(operation: Operation, frame: Frame): Promise<unknown> {
    const { ctx, shared } = frame;
    const branch = (block: Block) => (own: UnitContext) => this.unit(own, block, shared);
    const timeout = "timeout" in operation ? operation.timeout : undefined;
    switch (operation.op) {
      case "step":
        return ctx.step(operation.name, (info) => this.#bodies.step(info), this.#undoing(operation.rollback));
      case "transaction":
        return ctx.transaction(
          operation.name,
          (tx: unknown, info) => this.#bodies.transaction(tx, info),
          this.#undoing(operation.rollback),
        );
      case "activity":
        return ctx.activity(activityNamed(operation.name), operation.input);
      case "child":
      case "startChild":
        return ctx[operation.op](childNamed(operation.name), operation.input);
      case "childResult":
        return frame.child?.result() ?? Promise.resolve(null);
      case "childCancel":
        return frame.child?.cancel() ?? Promise.resolve(null);
      case "childSignal":
        return frame.child?.signal("s", 1) ?? Promise.resolve(null);
      case "cancelRun":
        return ctx.cancelRun(operation.run);
      case "sleep":
        return operation.name === undefined ? ctx.sleep(operation.ms) : ctx.sleep(operation.name, operation.ms);
      case "sleepUntil":
        return ctx.sleepUntil(ctx.now().getTime() + operation.ms);
      case "wait":
        return timeout === undefined ? ctx.waitForSignal(operation.signal) : ctx.waitForSignal(operation.signal, { timeout });
      case "listen":
        return ctx.listen(operation.signals, { count: operation.count, ...(timeout !== undefined && { timeout }) });
      case "condition": {
        const predicate = () => {
          const flag = shared.flags[operation.flag] ?? 0;
          if (flag < operation.least) return undefined;
          if (operation.throws === true) throw new Error(`flag ${flag}`);
          return { flag };
        };
        return timeout === undefined ? ctx.condition(predicate) : ctx.condition(predicate, timeout);
      }
      case "ivar":
        return shared.cells[operation.cell]?.wait() ?? Promise.resolve(null);
      case "sideEffect":
        return ctx.sideEffect(() => {
          if (operation.throws === true) throw new Error("side effect");
          return operation.value;
        });
      case "yield":
        return ctx.yield();
      case "updateState":
        return (ctx as AsyncHandlerContext<State>).updateState((state) => {
          if (operation.throws === true) throw new Error("update");
          const next = [...state, operation.value];
          return [next.length, next];
        });
      case "parallel":
        return ctx.parallel(operation.branches.map(branch));
      case "join":
      case "race":
        return ctx[operation.op](
          operation.name,
          Object.fromEntries(operation.branches.map((block, index) => [BRANCH_KEYS[index] ?? "", branch(block)])),
        );
      case "try":
        return ctx.try(operation.name, branch(operation.body));
      case "shield":
        return ctx.shield(branch(operation.body));
      case "loop":
        return this.#loop(operation, ctx);
      case "receive":
        return this.#receive(operation, frame);
    }
  }

  #loop(loop: Loop, ctx: UnitContext): Promise<unknown> {
    const { op: _, times, body, ...options } = loop;
    const state: LoopState = { i: 0, last: [] };
    return ctx.loop({ ...options, state }, async (own, { i, last }) => {
      const traces = [...last, await this.unit(own, body, fresh(own))].slice(-2);
      return i + 1 >= times ? LoopResults.break(traces) : LoopResults.continue({ i: i + 1, last: traces });
    });
  }

  #receive(receive: Receive, frame: Frame): Promise<unknown> {
    const { timeout, checkpointEvery } = receive;
    const sharedIn = (ctx: UnitContext) => (checkpointEvery === undefined ? frame.shared : fresh(ctx));
    const run = async (handler: Handler, payload: unknown, state: State, ctx: UnitContext): Promise<State> => [
      ...state,
      [payload, await this.unit(ctx, handler.body, sharedIn(ctx))],
    ];
    const beside = (block: Block) => (ctx: UnitContext) => this.unit(ctx, block, sharedIn(ctx));
    const onSignal = (handler: Handler) => async (payload: unknown, state: State, ctx: UnitContext) => {
      const next = await run(handler, payload, state, ctx);
      if (handler.stopAt !== undefined && next.length >= handler.stopAt) return Results.stop(next);
      return handler.async === undefined ? Results.noreply(next) : Results.async(beside(handler.async), next);
    };
    const onUpdate = (handler: Handler) => {
      const handle = async (input: unknown, state: State, ctx: UnitContext) => {
        const next = await run(handler, input, state, ctx);
        if (handler.stopAt !== undefined && next.length >= handler.stopAt) return Results.stop("stopped", next);
        return handler.async === undefined ? Results.reply(next.length, next) : Results.async(beside(handler.async), next);
      };
      const { refuses } = handler;
      if (refuses === undefined) return handle;
      const validate = (input: unknown, state: State) => {
        const isRefused = (Number(input) + state.length) % refuses === 0;
        (state as unknown[]).push("seen by a validator"); // M9: it never counts
        if (isRefused) throw new Error("refused");
      };
      return { validate, handle };
    };
    const signals = Object.fromEntries(Object.entries(receive.signals).map(([name, handler]) => [name, onSignal(handler)]));
    const updates = Object.fromEntries(Object.entries(receive.updates).map(([name, handler]) => [name, onUpdate(handler)]));
    const options = {
      signals,
      updates,
      ...(timeout !== undefined && { timeout }),
      ...(checkpointEvery !== undefined && { checkpointEvery }),
    };
    return (frame.ctx as WorkflowContext).receive<State>([], options as never);
  }
}

function combined(mode: Extract<Statement, { do: "all" }>["mode"], promises: Promise<unknown>[]): Promise<unknown> {
  switch (mode) {
    case "all":
      return Promise.all(promises);
    case "allSettled":
      return Promise.allSettled(promises);
    case "race":
      return Promise.race(promises);
    case "any":
      return Promise.any(promises);
  }
}
