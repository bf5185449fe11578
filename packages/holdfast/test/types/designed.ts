// Job: what the packages declare beside what was designed, type by type. Nothing here runs: types.test.ts compiles it.
// Owns: the list of what is left out, because it is not built yet.
// Invariants: what is built has the types that it was designed to have; an error is all that it was designed to be.

import type * as designed from "designed";
import type * as ours from "holdfast";
import type * as testing from "holdfast/testing";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
/** Properties one by one: an intersection and the interface of the same members count as the same. */
type Flat<T> = T extends (...args: never[]) => unknown ? T : { [K in keyof T]: T[K] };
type Equal<A, B> = Same<Flat<A>, Flat<B>>;
/** Either can be put where the other is asked for. */
type Alike<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
type Extends<A, B> = [A] extends [B] ? true : false;
/** "none", or the names of what does not hold: the compiler says which. */
type Failing<T> = { [K in keyof T]: T[K] extends true ? never : K }[keyof T];
type None<T> = [T] extends [never] ? "none" : `${T & string} is not as designed`;

interface Item {
  sku: string;
  quantity: number;
}
type Input = { currency: "eur" | "usd" };
type Nothing = Record<never, never>;
type S = { go: ours.SignalSpec<Item, Input>; stop: ours.SignalSpec<void> };
type DS = { go: designed.SignalSpec<Item, Input>; stop: designed.SignalSpec<void> };

interface Proofs {
  Duration: Equal<ours.Duration, designed.Duration>;
  RetryPolicy: Equal<ours.RetryPolicy, designed.RetryPolicy>;
  StoredRetryPolicy: Equal<ours.StoredRetryPolicy, designed.StoredRetryPolicy>;
  RunStatus: Equal<ours.RunStatus, designed.RunStatus>;
  OperationKind: Equal<ours.OperationKind, designed.OperationKind>;
  SignalSpec: Equal<ours.SignalSpec<Item, Input>, designed.SignalSpec<Item, Input>>;
  UpdateSpec: Equal<ours.UpdateSpec<Item, "ok", Input>, designed.UpdateSpec<Item, "ok", Input>>;
  InputArgs: Equal<ours.InputArgs<Item, 1>, designed.InputArgs<Item, 1>>;
  InputArgsOfNothing: Equal<ours.InputArgs<void, 1>, designed.InputArgs<void, 1>>;
  // biome-ignore lint/suspicious/noExplicitAny: what is to be proven
  InputArgsOfAny: Equal<ours.InputArgs<any, 1>, designed.InputArgs<any, 1>>;
  SignalPayload: Equal<ours.SignalPayload<S["go"]>, designed.SignalPayload<DS["go"]>>;
  SignalInput: Equal<ours.SignalInput<S["go"]>, designed.SignalInput<DS["go"]>>;
  UpdateInput: Equal<ours.UpdateInput<ours.UpdateSpec<1, 2, 3>>, designed.UpdateInput<designed.UpdateSpec<1, 2, 3>>>;
  UpdateSent: Equal<ours.UpdateSent<ours.UpdateSpec<1, 2, 3>>, designed.UpdateSent<designed.UpdateSpec<1, 2, 3>>>;
  UpdateOutput: Equal<ours.UpdateOutput<ours.UpdateSpec<1, 2, 3>>, designed.UpdateOutput<designed.UpdateSpec<1, 2, 3>>>;
  StartSignal: Equal<ours.StartSignal<S>, designed.StartSignal<DS>>;
  WorkflowOptions: Alike<
    ours.WorkflowOptions<Item, 1, S, Nothing, Nothing, Input>,
    designed.WorkflowOptions<Item, 1, DS, Nothing, Nothing, Input>
  >;
  ActivityInfo: Equal<ours.ActivityInfo, designed.ActivityInfo>;
  ActivityOptions: Equal<ours.ActivityOptions, designed.ActivityOptions>;
  StepInfo: Equal<ours.StepInfo, designed.StepInfo>;
  StepOptions: Equal<ours.StepOptions<Item>, designed.StepOptions<Item>>;
  ChildHandle: Equal<ours.ChildHandle<Item>, designed.ChildHandle<Item>>;
  ChildOptions: Equal<ours.ChildOptions, designed.ChildOptions>;
  LoopOptions: Equal<ours.LoopOptions<Item>, designed.LoopOptions<Item>>;
  LoopResult: Equal<ours.LoopResult<Item, 1>, designed.LoopResult<Item, 1>>;
  BreakValue: Equal<ours.BreakValue<ours.LoopResult<Item, 1>>, designed.BreakValue<designed.LoopResult<Item, 1>>>;
  IVar: Equal<ours.IVar<Item>, designed.IVar<Item>>;
  ContinueAsNew: Equal<ours.ContinueAsNew, designed.ContinueAsNew>;
  NoReply: Equal<ours.NoReply<Item>, designed.NoReply<Item>>;
  Reply: Equal<ours.Reply<Item, 1>, designed.Reply<Item, 1>>;
  Stop: Equal<ours.Stop<Item>, designed.Stop<Item>>;
  StopWith: Equal<ours.StopWith<Item, 1>, designed.StopWith<Item, 1>>;
  Loop: Alike<typeof ours.Loop, typeof designed.Loop>;
  SendOptions: Equal<ours.SendOptions, designed.SendOptions>;
  UpdateOptions: Equal<ours.UpdateOptions, designed.UpdateOptions>;
  StartOptions: Alike<ours.StartOptions, designed.StartOptions>;
  RunInfo: Equal<ours.RunInfo, designed.RunInfo>;
  ScheduleOptions: Alike<Omit<ours.ScheduleOptions<Item>, "workflow">, Omit<designed.ScheduleOptions<Item>, "workflow">>;
  ScheduleSpec: Alike<Omit<ours.ScheduleSpec<Item>, "workflow">, Omit<designed.ScheduleSpec<Item>, "workflow">>;
  ScheduleInfo: Alike<ours.ScheduleInfo, designed.ScheduleInfo>;
  Schedules: Alike<Omit<ours.Schedules, "set">, Omit<designed.Schedules, "set">>;
  OperationInfo: Equal<ours.OperationInfo, designed.OperationInfo>;
  SerializedError: Equal<ours.SerializedError, designed.SerializedError>;
  Scalar: Equal<ours.Scalar, designed.Scalar>;
  AttributeTest: Equal<ours.AttributeTest, designed.AttributeTest>;
  RunFilter: Equal<ours.RunFilter, designed.RunFilter>;
  RunCounts: Equal<ours.RunCounts, designed.RunCounts>;
  WorkerOptions: Alike<Omit<ours.WorkerOptions, "workflows">, Omit<designed.WorkerOptions, "workflows">>;
  Worker: Equal<ours.Worker, designed.Worker>;
  Rate: Equal<ours.Rate, designed.Rate>;
  Limit: Equal<ours.Limit, designed.Limit>;
  QueueSpec: Equal<ours.QueueSpec, designed.QueueSpec>;
  QueueLoad: Equal<ours.QueueLoad, designed.QueueLoad>;
  QueueInfo: Equal<ours.QueueInfo, designed.QueueInfo>;
  Queues: Alike<ours.Queues, designed.Queues>;
  EngineQueues: Equal<ours.Holdfast["queues"], ours.Queues>;
  Limits: Equal<ours.Limits, designed.Limits>;
  Codec: Equal<ours.Codec, designed.Codec>;
  Logger: Equal<ours.Logger, designed.Logger>;
  Result: Equal<ours.Run<Item>["result"], designed.Run<Item>["result"]>;
  Reason: Equal<ours.Reason, designed.Reason>;
  WorkerInfo: Equal<ours.WorkerInfo, designed.WorkerInfo>;
  BulkAction: Equal<ours.BulkAction, designed.BulkAction>;
  BulkResult: Equal<ours.BulkResult, designed.BulkResult>;
  Bulk: Equal<
    ReturnType<ours.Holdfast["bulk"]> extends Promise<infer R extends { result(): unknown }> ? Awaited<ReturnType<R["result"]>> : never,
    designed.BulkResult
  >;
  Why: Equal<ours.Run<Item>["why"], designed.Run<Item>["why"]>;
  Workers: Equal<ours.Holdfast["workers"], designed.Holdfast["workers"]>;
  Fork: Alike<Parameters<ours.Run<Item>["fork"]>[0], Parameters<designed.Run<Item>["fork"]>[0]>;
  Delete: Equal<ours.Run<Item>["delete"], designed.Run<Item>["delete"]>;
  Retention: Equal<ours.OpenOptions["retention"], designed.OpenOptions["retention"]>;
  Namespace: Equal<ours.OpenOptions["namespace"], designed.OpenOptions["namespace"]>;
  State: Equal<ours.Run<Item>["state"], designed.Run<Item>["state"]>;
  Now: Equal<testing.TestEngine["now"], () => Date>;
  Advance: Equal<testing.TestEngine["advance"], (by: designed.Duration) => Promise<void>>;
}
export const different: None<Failing<Proofs>> = "none";

/** What is designed and comes later. */
type Later = "DecryptionError";
type Errors = { [K in keyof typeof designed as K extends `${string}Error` ? K : never]: (typeof designed)[K] };
type Instance<C> = C extends abstract new (...args: never[]) => infer I ? I : never;
/** `never`, if every error is there with all that it was designed to have. */
type Lacking = {
  [K in Exclude<keyof Errors, Later>]: K extends keyof typeof ours
    ? Extends<Instance<(typeof ours)[K]>, Instance<Errors[K]>> extends true
      ? never
      : K
    : K;
}[Exclude<keyof Errors, Later>];
export const lacking: None<Lacking> = "none";
new (null as unknown as typeof ours.FatalError)("no", { cause: new Error("why"), data: { a: 1 } });
new (null as unknown as typeof ours.RollbackError)("no", { cause: new Error("why") });
