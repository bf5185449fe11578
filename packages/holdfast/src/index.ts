// What users install: the door of `holdfast`.
// Owns: nothing; it re-exports the model from the core, and the engine.
// Invariants: names and shapes are those of the public surface.

export {
  type Activity, type ActivityInfo, type ActivityOptions, ActivityFailedError, activity, type AnyWorkflow, type Async, type AsyncHandlerContext,
  type BranchContext, CanceledError, ChildFailedError, type ChildHandle, type ChildOptions, type Codec, type ContinueAsNew, DeadlineExceededError,
  type Duration, FatalError, ForeignAwaitError, type HandlerContext, type History, HoldfastError, IllegalCallError, IllegalReturnError, InvalidInputError,
  type IVar, isDeliveredError, JoinError, jsonCodec, LimitExceededError, type Limits, type Logger, Loop, type LoopOptions, type LoopResult, type Messages,
  type NoReply, NondeterminismError, type OperationInfo, type OperationKind, OutOfTurnError, type Queries, QueryFailedError, RaceError, Receive,
  ReceiveClosedError, type ReceiveHandlers, type Reply, type RetryPolicy, RollbackError, RunAlreadyExistsError, RunBlockedError, RunClosedError,
  RunFailedError, type RunInfo, RunNotFoundError, type RunStatus, RunTerminatedError, replay, type SerializedError, type SignalHandler,
  type SignalPayload, type SignalResult, type Signals, type SignalSpec, StepFailedError, type StepInfo, type StepOptions, StepTimeoutError,
  type Stop, type StopWith, type StoredRetryPolicy, signal, TurnTimeoutError, type UnitContext, UnserializableValueError, UpdateFailedError,
  type UpdateHandler, type UpdateInput, type UpdateOutput, UpdateRejectedError, type UpdateResult, type Updates, type UpdateSpec, update,
  type Workflow, type WorkflowContext, type WorkflowOptions, workflow,
} from "@holdfast/core";
export { Holdfast, type OpenOptions } from "./holdfast.ts";
export type * from "./store/port.ts";
export type { Run, RunFilter, SendOptions, StartOptions, Worker, WorkerOptions } from "./surface.ts";
