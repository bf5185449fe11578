// The `ctx` of workflow code: checks that the call is allowed, then starts the operation.
// Owns: only its unit. The operations are in operations/.
// Invariants: N (what each context offers), X7 (usable only in its unit's turn), K2 (after cancellation pausing calls throw, except
// shield), V3 (calls after a removed operation wait for their place in history).

import type {
  Activity,
  ActivityOptions,
  AnyWorkflow,
  ChildHandle,
  ChildOptions,
  Logger,
  LoopOptions,
  Messages,
  ReceiveHandlers,
  StepOptions,
} from "../model/index.ts";
import { checkedText } from "../model/startOptions.ts";
import type { OperationKind } from "../protocol/index.ts";
import type { Duration } from "../values/index.ts";
import {
  CONTINUE,
  callable,
  checkActivity,
  checkAttributes,
  checkBranches,
  checkBranchList,
  checkChildOptions,
  checkedKind,
  checkHandlers,
  checkLoop,
  checkOptions,
  checkSignalNames,
  checkStepOptions,
  checkWorkflow,
  LISTEN,
  named,
  WAIT,
} from "./arguments.ts";
import { ContinueAsNewToken } from "./continuation.ts";
import { handled, never, rejected, remember } from "./operation.ts";
import { activityCall } from "./operations/activities.ts";
import { cancelRun, child, signalRun, startChild } from "./operations/children.ts";
import { Cell, condition } from "./operations/conditions.ts";
import { loop } from "./operations/loop.ts";
import { deprecatePatch, patched, removed, whenDue } from "./operations/patches.ts";
import { receive } from "./operations/receive.ts";
import { attempt, join, parallel, race, shield } from "./operations/scopes.ts";
import { publishState, sideEffect } from "./operations/sideEffects.ts";
import { listen, waitForSignal } from "./operations/signals.ts";
import { step } from "./operations/steps.ts";
import { sleep, sleepUntil } from "./operations/timers.ts";
import type { Unit } from "./unit.ts";

type Body = (ctx: Context, ...rest: unknown[]) => unknown;

/** Handles a call that may pause: rejects it, postpones it, or runs it. */
function admit(unit: Unit, call: string, run: () => Promise<unknown>, evenIfCanceled = false): Promise<unknown> {
  const execution = unit.execution;
  if (!execution.enter(unit, call)) return never();
  if (unit.canceled !== undefined && !evenIfCanceled) return rejected(unit.canceled);
  if (unit.mustWait) {
    // The unit may be cancelled before the call's place in history is reached (K2).
    const inPlace = () => (unit.canceled !== undefined && !evenIfCanceled ? rejected(unit.canceled) : guarded(unit, run));
    return handled(new Promise((resolve, reject) => unit.postponed?.push(() => inPlace().then(resolve, reject))));
  }
  return guarded(unit, run);
}
/** Invalid arguments reject the promise; broken rules throw. */
function guarded(unit: Unit, run: () => Promise<unknown>): Promise<unknown> {
  try {
    return run();
  } catch (error) {
    if (unit.execution.poison !== undefined) throw error;
    return rejected(error);
  }
}

export class Context {
  readonly #unit: Unit;
  #log: Logger | undefined;

  constructor(unit: Unit) {
    this.#unit = unit;
  }
  #pausing(call: string, run: () => Promise<unknown>): Promise<unknown> {
    return admit(this.#unit, call, run);
  }
  /** Handles a call that does not pause. Returns undefined if the run is poisoned or evicted, because its turn is discarded anyway. */
  #now<T>(call: string, run: () => T): T {
    if (!this.#unit.execution.enter(this.#unit, call)) return undefined as T;
    try {
      return run();
    } catch (error) {
      throw remember(error); // X11
    }
  }
  #body(run: Body): (unit: Unit) => unknown {
    return (unit) => run(new Context(unit));
  }
  #bodies(call: string, branches: Readonly<Record<string, Body>>): Record<string, (unit: Unit) => unknown> {
    checkBranches(call, branches);
    return Object.fromEntries(Object.entries(branches).map(([key, run]) => [key, this.#body(run)]));
  }

  // ── about the run ──

  get run() {
    const { start, attempt: current } = this.#unit.execution;
    return {
      id: start?.runId ?? "",
      workflow: start?.workflow ?? "",
      version: start?.version,
      attempt: current,
      startedAt: new Date(start?.startedAt ?? 0),
      parentId: start?.parentId,
      key: start?.key,
      tick: start?.tick === undefined ? undefined : new Date(start.tick),
    };
  }
  get version(): string | undefined {
    return this.#unit.execution.start?.version;
  }
  get signal(): AbortSignal {
    return this.#unit.signal;
  }
  get log(): Logger {
    const write = (level: keyof Logger) => (message: string, fields?: object) =>
      this.#unit.execution.log(level, message, this.#unit, fields);
    this.#log ??= { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
    return this.#log;
  }
  historyLength(): number {
    return this.#now("historyLength", () => this.#unit.execution.historyLength);
  }

  // ── work ──

  step<T>(name: string, fn: (...args: never[]) => unknown, options?: StepOptions<T>): Promise<unknown> {
    return this.#pausing("step", () => {
      callable("step", fn);
      checkStepOptions("step", options);
      return step(this.#unit, "step", named("step", name), fn, options);
    });
  }
  transaction<T>(name: string, fn: (...args: never[]) => unknown, options?: Omit<StepOptions<T>, "timeout">): Promise<unknown> {
    return this.#pausing("transaction", () => {
      callable("transaction", fn);
      checkStepOptions("transaction", options);
      return step(this.#unit, "transaction", named("transaction", name), fn, options);
    });
  }
  activity<A, R>(activity: Activity<A, R>, args: A, options?: ActivityOptions): Promise<unknown> {
    return this.#pausing("activity", () => {
      checkActivity(activity);
      checkOptions("activity", options);
      return activityCall(this.#unit, activity, args, options);
    });
  }
  child(workflow: AnyWorkflow, input: unknown, options?: ChildOptions): Promise<unknown> {
    return this.#pausing("child", () => {
      checkWorkflow("child", workflow);
      if (options !== undefined) checkChildOptions("child", options);
      return child(this.#unit, workflow, input, options);
    });
  }
  startChild(workflow: AnyWorkflow, input: unknown, options?: ChildOptions): Promise<ChildHandle<unknown>> {
    return this.#pausing("startChild", () => {
      checkWorkflow("startChild", workflow);
      if (options !== undefined) checkChildOptions("startChild", options);
      return startChild(this.#unit, workflow, input, options, admit);
    }) as Promise<ChildHandle<unknown>>;
  }
  signalRun(runId: string, name: string, payload?: unknown): Promise<unknown> {
    return this.#pausing("signalRun", () => signalRun(this.#unit, named("signalRun", runId), named("signalRun", name), payload));
  }
  cancelRun(runId: string): Promise<unknown> {
    return this.#pausing("cancelRun", () => cancelRun(this.#unit, named("cancelRun", runId)));
  }

  // ── time and messages ──

  sleep(...args: [Duration] | [string, Duration]): Promise<unknown> {
    return this.#pausing("sleep", () =>
      args.length === 2 ? sleep(this.#unit, named("sleep", args[0]), args[1]) : sleep(this.#unit, "sleep", args[0]),
    );
  }
  sleepUntil(...args: [Date | number] | [string, Date | number]): Promise<unknown> {
    return this.#pausing("sleepUntil", () =>
      args.length === 2 ? sleepUntil(this.#unit, named("sleepUntil", args[0]), args[1]) : sleepUntil(this.#unit, "sleep", args[0]),
    );
  }
  waitForSignal(name: string, options?: { timeout: Duration }): Promise<unknown> {
    return this.#pausing("waitForSignal", () => {
      checkOptions("waitForSignal", options, WAIT);
      return waitForSignal(this.#unit, named("waitForSignal", name), options);
    });
  }
  listen(names: readonly string[], options?: { count?: number; timeout?: Duration }): Promise<unknown> {
    return this.#pausing("listen", () => {
      checkSignalNames("listen", names);
      checkOptions("listen", options, LISTEN);
      return listen(this.#unit, names, options);
    });
  }
  receive(state: unknown, handlers: ReceiveHandlers<unknown, Messages>): Promise<unknown> {
    return this.#pausing("receive", () => {
      if (this.#unit.role !== "root") {
        throw this.#unit.execution.illegal(
          this.#unit,
          "receive",
          "only the root of a workflow can receive; pass values to it through the state",
        );
      }
      checkHandlers(handlers);
      return receive(this.#unit, state, handlers, (unit) => new Context(unit));
    });
  }
  updateState(change: (state: unknown) => readonly [unknown, unknown]): Promise<unknown> {
    return this.#pausing("updateState", () => {
      const { receive: scope, role, execution } = this.#unit;
      if (role !== "asyncHandler" || scope === undefined) {
        throw execution.illegal(
          this.#unit,
          "updateState",
          "it exists only in the function given to Receive.async; elsewhere return the new state",
        );
      }
      callable("updateState", change);
      return scope.updateState(this.#unit, change);
    });
  }

  // ── values ──

  sideEffect(fn: () => unknown): Promise<unknown> {
    const { execution } = this.#unit;
    if (!execution.enter(this.#unit, "sideEffect")) return never();
    const run = () => {
      callable("sideEffect", fn);
      return sideEffect(this.#unit, fn);
    };
    return execution.options.sideEffects === "inline" && !this.#unit.mustWait ? guarded(this.#unit, run) : this.#pausing("sideEffect", run);
  }
  publishState(state: unknown): void {
    this.#now("publishState", () => publishState(this.#unit, state));
  }
  setAttributes(attributes: Record<string, string | number | boolean | null>): void {
    this.#now("setAttributes", () => {
      checkAttributes("setAttributes", attributes);
      whenDue(this.#unit, () => this.#unit.execution.note(this.#unit, "attributes", "attributes", { attributes: { ...attributes } }));
    });
  }
  now(): Date {
    return this.#now("now", () => new Date(this.#unit.execution.time)) ?? new Date(0);
  }
  random(): number {
    return this.#now("random", () => this.#unit.random.next()) ?? 0;
  }
  uuid(): string {
    return this.#now("uuid", () => this.#unit.random.uuid()) ?? "";
  }

  // ── scopes ──

  parallel(branches: readonly Body[]): Promise<unknown> {
    return this.#pausing("parallel", () => {
      checkBranchList("parallel", branches);
      return parallel(
        this.#unit,
        branches.map((run) => this.#body(run)),
      );
    });
  }
  join(name: string, branches: Readonly<Record<string, Body>>): Promise<unknown> {
    return this.#pausing("join", () => join(this.#unit, named("join", name), this.#bodies("join", branches)));
  }
  race(name: string, branches: Readonly<Record<string, Body>>): Promise<unknown> {
    return this.#pausing("race", () => race(this.#unit, named("race", name), this.#bodies("race", branches)));
  }
  loop(options: string | LoopOptions<unknown>, run: Body): Promise<unknown> {
    return this.#pausing("loop", () => {
      callable("loop", run);
      const full = typeof options === "string" ? { name: options, state: undefined } : options;
      checkLoop(full);
      return loop(this.#unit, full, (unit, state) => run(new Context(unit), state));
    });
  }
  try(name: string, run: Body): Promise<unknown> {
    return this.#pausing("try", () => {
      callable("try", run);
      return attempt(this.#unit, named("try", name), this.#body(run));
    });
  }
  shield(run: Body): Promise<unknown> {
    const call = () => {
      callable("shield", run);
      return shield(this.#unit, this.#body(run));
    };
    return admit(this.#unit, "shield", call, true); // K2: cleanup runs even if the unit is cancelled
  }
  condition(predicate: () => unknown, timeout?: Duration): Promise<unknown> {
    return this.#pausing("condition", () => {
      callable("condition", predicate);
      return condition(this.#unit, predicate, timeout);
    });
  }
  ivar<T>(): Cell<T> {
    this.#unit.execution.enter(this.#unit, "ivar");
    return new Cell<T>(this.#unit, admit);
  }
  yield(): Promise<void> {
    if (!this.#unit.execution.enter(this.#unit, "yield")) return never();
    return this.#unit.canceled === undefined ? this.#unit.yieldTurn() : rejected(this.#unit.canceled);
  }

  // ── code changes, rollbacks, continue-as-new ──

  patched(id: string): boolean {
    return this.#now("patched", () => patched(this.#unit, named("patched", id))) ?? false;
  }
  deprecatePatch(id: string): void {
    this.#now("deprecatePatch", () => deprecatePatch(this.#unit, named("deprecatePatch", id)));
  }
  removed(name: string, kind: OperationKind): void {
    this.#now("removed", () => removed(this.#unit, named("removed", name), checkedKind("removed", kind)));
  }
  rollbackCheckpoint(name: string): void {
    this.#now("rollbackCheckpoint", () => {
      const { execution } = this.#unit;
      named("rollbackCheckpoint", name);
      execution.saga.clear();
      whenDue(this.#unit, () => execution.note(this.#unit, "rollbackCheckpoint", name));
    });
  }
  continueAsNew(input: unknown, options?: { version?: string }): ContinueAsNewToken {
    return this.#now("continueAsNew", () => {
      const { execution, role } = this.#unit;
      if (role !== "root") throw execution.illegal(this.#unit, "continueAsNew", "only the root of a workflow can continue as new");
      checkOptions("continueAsNew", options, CONTINUE);
      checkedText("ctx.continueAsNew", "version", options?.version);
      execution.continuation = new ContinueAsNewToken(input, options?.version);
      return execution.continuation;
    });
  }
}
