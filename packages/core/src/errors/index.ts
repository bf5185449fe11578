// The entry point of errors/: every error class, the catalog, and the stored form of errors.
// Owns nothing.
// Invariants: each class has an entry in the catalog, and each entry a class.

export { type ErrorEntry, type ErrorName, errorCatalog } from "../base/catalog.ts";
export { isError, messageOf, NON_ERROR, toError } from "../base/errorParts.ts";
export { HoldfastError, type HoldfastErrorOptions } from "../base/holdfastError.ts";
export { InvalidInputError, type Issue, LimitExceededError, UnserializableValueError } from "../base/inputs.ts";
export { isInstance } from "../base/text.ts";
export { adviseAs, type HostAdvice } from "./advice.ts";
export {
  QueryFailedError,
  ReceiveClosedError,
  RunAlreadyExistsError,
  RunBlockedError,
  RunClosedError,
  RunNotFoundError,
  RunOpenError,
  ScheduleNotFoundError,
  UnsupportedError,
  UpdateFailedError,
  UpdateRejectedError,
} from "./clientErrors.ts";
export { logLine } from "./logLine.ts";
export {
  ActivityFailedError,
  type ActivityLimit,
  CanceledError,
  ChildFailedError,
  DeadlineExceededError,
  FatalError,
  JoinError,
  RaceError,
  RetryLaterError,
  RollbackError,
  RunFailedError,
  RunTerminatedError,
  StepFailedError,
  StepTimeoutError,
} from "./outcomes.ts";
export { reviveError, reviveRecorded, type SerializedError, serializeError } from "./serialize.ts";
export {
  ForeignAwaitError,
  IllegalCallError,
  IllegalReturnError,
  NondeterminismError,
  OutOfTurnError,
  TurnTimeoutError,
} from "./violations.ts";
