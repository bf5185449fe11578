// Job: workflows as data, so that a test can change one thing in them and know what it changed.
// Owns: the syntax of programs and the way from a program to a workflow that runs it.
// Invariants: X1 (a program's operations depend on nothing but what is delivered to it).
import {
  type ActivityOptions,
  type AnyWorkflow,
  activity,
  type ChildOptions,
  type Duration,
  FatalError,
  type HandlerContext,
  type IVar,
  Loop,
  type OperationKind,
  Receive,
  type RetryPolicy,
  type UnitContext,
  type WorkflowContext,
  workflow,
} from "@holdfast/core";

export type Body = readonly Op[];
export type Branches = readonly (readonly [key: string, body: Body])[];
export type Attributes = Readonly<Record<string, string | number | boolean | null>>;

interface Handler {
  readonly message: "signal" | "update";
  readonly name: string;
  readonly body: Body;
  /** Runs beside the receive after `body`. */
  readonly async?: Body;
  readonly stops?: true;
}

/** One statement of a program. `fails` is for the host: the outcome that it reports. */
export type Op =
  | {
      readonly op: "step";
      readonly name: string;
      readonly timeout?: Duration;
      readonly retry?: RetryPolicy;
      readonly rollback?: true;
      readonly fails?: true;
    }
  | { readonly op: "transaction"; readonly name: string; readonly retry?: RetryPolicy; readonly rollback?: true; readonly fails?: true }
  | { readonly op: "activity"; readonly name: string; readonly input: unknown; readonly options: ActivityOptions; readonly fails?: true }
  | { readonly op: "child"; readonly name: string; readonly input: unknown; readonly options: ChildOptions; readonly fails?: true }
  | { readonly op: "startChild"; readonly name: string; readonly input: unknown; readonly options: ChildOptions; readonly result: boolean }
  | { readonly op: "sleep"; readonly name?: string; readonly duration: Duration }
  | { readonly op: "sleepUntil"; readonly name?: string; readonly until: number }
  | { readonly op: "wait"; readonly name: string; readonly timeout?: Duration }
  | { readonly op: "listen"; readonly names: readonly string[]; readonly count?: number; readonly timeout?: Duration }
  | { readonly op: "signalRun"; readonly runId: string; readonly name: string; readonly payload: unknown }
  | { readonly op: "cancelRun"; readonly runId: string }
  | { readonly op: "sideEffect" }
  | { readonly op: "attributes"; readonly attributes: Attributes }
  | { readonly op: "rollbackCheckpoint"; readonly name: string }
  | { readonly op: "condition"; readonly holds: boolean; readonly timeout?: Duration }
  | { readonly op: "awaitCell"; readonly cell: string }
  | { readonly op: "putCell"; readonly cell: string }
  | { readonly op: "parallel"; readonly branches: readonly Body[] }
  | { readonly op: "join" | "race"; readonly name: string; readonly branches: Branches }
  | {
      readonly op: "loop";
      readonly name: string;
      readonly times: number;
      readonly body: Body;
      readonly commitInterval?: number;
      readonly trims?: true;
    }
  | { readonly op: "try"; readonly name: string; readonly body: Body }
  | { readonly op: "shield"; readonly body: Body }
  | { readonly op: "receive"; readonly handlers: readonly Handler[]; readonly timeout?: Duration; readonly checkpointEvery?: number }
  | { readonly op: "patched"; readonly id: string; readonly whenNew: Body; readonly otherwise: Body }
  | { readonly op: "deprecatePatch"; readonly id: string }
  | { readonly op: "removed"; readonly name: string; readonly kind: OperationKind }
  /** Calls that leave no record. */
  | { readonly op: "quiet" };

export type End =
  | { readonly end: "return"; readonly value: unknown }
  | { readonly end: "throw"; readonly message: string }
  | { readonly end: "continueAsNew"; readonly input: unknown; readonly version?: string };

export interface Message {
  readonly message: "signal" | "update";
  readonly name: string;
}
export interface Program {
  readonly name: string;
  readonly body: Body;
  readonly end: End;
  /** What is sent to it, in this order. */
  readonly messages: readonly Message[];
}

export function compile(program: Program): AnyWorkflow {
  const run = async (ctx: WorkflowContext): Promise<unknown> => {
    await new Interpreter().body(ctx, program.body);
    const { end } = program;
    switch (end.end) {
      case "return":
        return end.value;
      case "throw":
        throw new FatalError(end.message);
      case "continueAsNew":
        return end.version === undefined ? ctx.continueAsNew(end.input) : ctx.continueAsNew(end.input, { version: end.version });
    }
  };
  return workflow<unknown, unknown>(program.name, run);
}

class Interpreter {
  readonly #cells = new Map<string, IVar<boolean>>();

  async body(ctx: UnitContext, body: Body): Promise<void> {
    for (const op of body) await this.#run(ctx, op);
  }

  #cell(ctx: UnitContext, name: string): IVar<boolean> {
    const cell = this.#cells.get(name) ?? ctx.ivar<boolean>();
    this.#cells.set(name, cell);
    return cell;
  }

  async #run(ctx: UnitContext, op: Op): Promise<unknown> {
    switch (op.op) {
      case "step":
        return ctx.step(op.name, () => null, {
          ...(op.timeout !== undefined && { timeout: op.timeout }),
          ...(op.retry !== undefined && { retry: op.retry }),
          ...(op.rollback !== undefined && { rollback: () => {} }),
        });
      case "transaction":
        return ctx.transaction(op.name, () => null, {
          ...(op.retry !== undefined && { retry: op.retry }),
          ...(op.rollback !== undefined && { rollback: () => {} }),
        });
      case "activity":
        return ctx.activity(
          activity(op.name, (_: unknown) => null),
          op.input,
          op.options,
        );
      case "child":
        return ctx.child(childType(op.name), op.input, op.options);
      case "startChild": {
        const handle = await ctx.startChild(childType(op.name), op.input, op.options);
        return op.result ? handle.result() : undefined;
      }
      case "sleep":
        return op.name === undefined ? ctx.sleep(op.duration) : ctx.sleep(op.name, op.duration);
      case "sleepUntil":
        return op.name === undefined ? ctx.sleepUntil(op.until) : ctx.sleepUntil(op.name, op.until);
      case "wait":
        return op.timeout === undefined ? ctx.waitForSignal(op.name) : ctx.waitForSignal(op.name, { timeout: op.timeout });
      case "listen":
        return ctx.listen(op.names, {
          ...(op.count !== undefined && { count: op.count }),
          ...(op.timeout !== undefined && { timeout: op.timeout }),
        });
      case "signalRun":
        return ctx.signalRun(op.runId, op.name, op.payload);
      case "cancelRun":
        return ctx.cancelRun(op.runId);
      case "sideEffect":
        return ctx.sideEffect(() => 1);
      case "attributes":
        return ctx.setAttributes({ ...op.attributes });
      case "rollbackCheckpoint":
        return ctx.rollbackCheckpoint(op.name);
      case "condition":
        return op.timeout === undefined ? ctx.condition(() => op.holds) : ctx.condition(() => op.holds, op.timeout);
      case "awaitCell":
        return this.#cell(ctx, op.cell).wait();
      case "putCell":
        return this.#cell(ctx, op.cell).put(true);
      case "parallel":
        return ctx.parallel(op.branches.map((body) => (inner: UnitContext) => this.body(inner, body)));
      case "join":
        return ctx.join(op.name, this.#branches(op.branches));
      case "race":
        return ctx.race(op.name, this.#branches(op.branches));
      case "loop":
        return ctx.loop(
          {
            name: op.name,
            state: 1,
            ...(op.commitInterval !== undefined && { commitInterval: op.commitInterval }),
            ...(op.trims !== undefined && { historyEvery: 1, historyKeep: 0 }),
          },
          async (inner, round) => {
            await this.body(inner, op.body);
            return round >= op.times ? Loop.break(undefined) : Loop.continue(round + 1);
          },
        );
      case "try":
        return ctx.try(op.name, (inner) => this.body(inner, op.body));
      case "shield":
        return ctx.shield((inner) => this.body(inner, op.body));
      case "receive":
        return this.#receive(ctx as WorkflowContext, op);
      case "patched":
        return this.body(ctx, ctx.patched(op.id) ? op.whenNew : op.otherwise);
      case "deprecatePatch":
        return ctx.deprecatePatch(op.id);
      case "removed":
        return ctx.removed(op.name, op.kind);
      case "quiet":
        ctx.publishState({ at: ctx.now(), draw: ctx.random(), id: ctx.uuid(), length: ctx.historyLength() });
        ctx.log.info("quiet");
        return undefined;
    }
  }

  #branches(branches: Branches): Record<string, (ctx: UnitContext) => Promise<void>> {
    return Object.fromEntries(branches.map(([key, body]) => [key, (ctx: UnitContext) => this.body(ctx, body)]));
  }

  #receive(ctx: WorkflowContext, op: Op & { readonly op: "receive" }): Promise<unknown> {
    const of = (message: Message["message"]) => op.handlers.filter((handler) => handler.message === message);
    const beside = (body: Body) => Receive.async((inner) => this.body(inner, body), null);
    const signals = of("signal").map((handler) => [
      handler.name,
      async (_payload: unknown, _state: null, inner: HandlerContext) => {
        await this.body(inner, handler.body);
        if (handler.async !== undefined) return beside(handler.async);
        return handler.stops === true ? Receive.stop(null) : Receive.noreply(null);
      },
    ]);
    const updates = of("update").map((handler) => [
      handler.name,
      async (_input: unknown, _state: null, inner: HandlerContext) => {
        await this.body(inner, handler.body);
        if (handler.async !== undefined) return beside(handler.async);
        return handler.stops === true ? Receive.stop("ok", null) : Receive.reply("ok", null);
      },
    ]);
    return ctx.receive(null, {
      signals: Object.fromEntries(signals),
      updates: Object.fromEntries(updates),
      ...(op.timeout !== undefined && { timeout: op.timeout }),
      ...(op.checkpointEvery !== undefined && { checkpointEvery: op.checkpointEvery }),
    });
  }
}

function childType(name: string): AnyWorkflow {
  return workflow(name, async () => null);
}
