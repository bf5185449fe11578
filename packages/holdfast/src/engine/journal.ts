// From the commands of a turn to what its commit writes.
// Owns: nothing; a pure translation.
// Invariants: D2 (everything a turn decided is in its one commit), M10 (outcomes of updates), K6 (children by their links),
// P10 (the next execution), S1 (status while rolling back).

import {
  type Activation,
  type AnyWorkflow,
  type CarriedOutBy,
  type ChildCommand,
  type Command,
  type Completion,
  carriedOutBy,
  childRunId,
  formatLocation,
  type OpeningCommand,
  type RunStatus,
  recordCount,
  recordTurn,
  type SignalJob,
  type TerminalCommand,
  type Turn,
  trimmed,
} from "@holdfast/core";
import {
  canceledBy,
  carriedSignals,
  childStartOf,
  type Environment,
  type RunEnd,
  retryTimeOf,
  runEndOf,
  storedRetry,
  updateAnswers,
} from "@holdfast/host";
import type { NewRun, NewTask, RunClose, TurnCommit } from "../store/port.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export interface JournalContext {
  readonly runId: string;
  readonly execution: number;
  readonly epoch: number;
  readonly workerId: string;
  readonly queue: string;
  /** The run's. Children and activities inherit both unless they set their own. */
  readonly key: string | undefined;
  readonly priority: number;
  readonly version: string | undefined;
  readonly turns: number;
  readonly historyLength: number;
  readonly deadlineAt: number | undefined;
  /** Creates seeds. */
  readonly environment: Pick<Environment, "uuid">;
  /** Knows the definitions of children, and how many steps there are to undo. */
  readonly executor: {
    childWorkflow(seq: number): AnyWorkflow | undefined;
    readonly rollbacks: number;
    readonly unconsumedSignals: readonly SignalJob[];
  };
}

export type Draft = Mutable<TurnCommit>;

/** The operations that the run's worker carries out. */
export const STEPS = carriedOutBy("worker");

export function openedSteps(commit: TurnCommit | undefined): OpeningCommand[] {
  const steps: OpeningCommand[] = [];
  for (const command of commit?.turn?.commands ?? []) if ("n" in command && STEPS.has(command.type)) steps.push(command);
  return steps;
}

/** L4: the history length after a first turn that trims; undefined if it does not trim. */
export function lengthAfterTrims(turn: Turn | undefined): number | undefined {
  if (turn?.commands.some((command) => command.type === "commit" && command.trim !== undefined) !== true) return undefined;
  return trimmed([turn]).reduce((count, left) => count + recordCount(left), 0);
}

/** The commit of a turn, without the fields that only the driver knows: lease, timers, attempts, inbox. */
export function draftOf(context: JournalContext, activation: Activation, completion: Completion & { status: "ok" }): Draft {
  const { runId, execution, epoch, workerId } = context;
  const draft: Draft = { runId, execution, epoch, workerId, status: "running", lease: "keep" };
  const turn = recordTurn(context.turns, context.historyLength, activation, completion);
  if (turn !== undefined) draft.turn = turn;
  if (completion.state !== undefined) draft.state = completion.state;
  const updates = updateAnswers(completion);
  if (updates.length > 0) draft.updates = updates;
  for (const command of completion.commands) translate(context, command, draft);
  return draft;
}

function translate(context: JournalContext, command: Command, draft: Draft): void {
  switch (command.type) {
    case "activity":
      draft.tasks = [...(draft.tasks ?? []), taskOf(context, command)];
      break;
    case "child":
      draft.children = [...(draft.children ?? []), childOf(context, command)];
      break;
    case "signalRun": {
      const { seq, runId, signal, payload } = command;
      const id = `${context.runId}/${context.execution}/${seq}`;
      const job = { type: "signal", id, name: signal, payload } as const;
      draft.sends = [...(draft.sends ?? []), { seq, runId, message: { job, idempotencyKey: id } }];
      break;
    }
    case "cancelRun":
      draft.sends = [...(draft.sends ?? []), { seq: command.seq, runId: command.runId, message: { job: { type: "cancel" } } }];
      break;
    case "cancel":
      draft.cancelTasks = [...(draft.cancelTasks ?? []), command.seq];
      draft.cancelChildren = [...(draft.cancelChildren ?? []), command.seq];
      break;
    case "attributes":
      draft.attributes = { ...draft.attributes, ...command.attributes };
      break;
    case "rollBack":
      draft.status = "rolling_back";
      break;
    case "complete":
    case "fail":
    case "canceled":
    case "continueAsNew":
      end(context, command, draft);
      break;
    default:
      command satisfies Exclude<Command, CarriedOutBy<"activityWorker" | "otherRun"> | TerminalCommand>;
      break; // records only
  }
}

/** D10: repeats a request of a failed run to activity workers or other runs. `attempts`: how many the activity has had. */
export function askAgain(context: JournalContext, command: Command, draft: Draft, attempts: number, isStarted: boolean): void {
  if (command.type === "activity") {
    const task = taskOf(context, command);
    const retry = { ...task.retry, maxAttempts: task.retry.maxAttempts + attempts };
    draft.tasks = [...(draft.tasks ?? []), { ...task, attempt: attempts, retry }];
  } else if (command.type === "child") {
    const { parent, ...child } = childOf(context, command);
    const link = parent === undefined ? undefined : { ...parent, announce: parent.announce && !isStarted };
    draft.children = [...(draft.children ?? []), { ...child, parent: link, onConflict: "reopen" }];
  } else translate(context, command, draft);
}

function taskOf(context: JournalContext, command: Extract<Command, { type: "activity" }>): NewTask {
  const { seq, name, unit, n, input, startToClose, scheduleToClose, scheduleToStart, heartbeat } = command;
  return {
    seq,
    activity: name,
    queue: command.queue ?? context.queue,
    key: command.key ?? context.key,
    priority: command.priority ?? context.priority,
    input,
    retry: storedRetry(command.retry, "operation"),
    startToClose,
    scheduleToClose,
    scheduleToStart,
    heartbeat,
    location: formatLocation(unit, name, n),
  };
}

function childOf(context: JournalContext, command: ChildCommand): NewRun {
  const { runId, execution } = context;
  const isIdDerived = command.id === childRunId(runId, execution, formatLocation(command.unit, command.name, command.n));
  return {
    ...childStartOf(command, context.executor.childWorkflow(command.seq)),
    queue: command.queue ?? context.queue,
    key: command.key ?? context.key,
    priority: command.priority ?? context.priority,
    seed: context.environment.uuid(),
    parent: {
      runId,
      execution,
      seq: command.seq,
      parentClose: command.parentClose ?? "cancel",
      announce: command.detached === true,
    },
    ...(isIdDerived && { replacesOrphan: true }),
  };
}

/** D10: a run that is retried as a whole does not end. */
function end(context: JournalContext, command: TerminalCommand, draft: Draft): void {
  const { deadlineAt, executor } = context;
  if (retryTimeOf(command, draft.turn?.time ?? 0, { deadlineAt, rollbacks: executor.rollbacks }) !== undefined) return;
  const close = closeOf(context, command);
  draft.close = close;
  draft.status = close.status as RunStatus;
}

function closeOf(context: JournalContext, command: TerminalCommand): RunClose {
  if (command.type === "continueAsNew") {
    const carried = carriedSignals(command).map((job) => ({ job }));
    const version = command.version ?? context.version; // V2: the run's version, unless the code asks for another
    return { status: "continued", next: { input: command.input, version, seed: context.environment.uuid(), carried } };
  }
  const close = closedAs(runEndOf(command));
  const unconsumed = context.executor.unconsumedSignals;
  return unconsumed.length === 0 ? close : { ...close, unconsumed: unconsumed.map((job) => ({ job })) };
}
function closedAs(end: RunEnd): RunClose {
  switch (end.status) {
    case "completed":
      return { status: "completed", output: end.value };
    case "failed":
      return end;
    case "canceled":
      return { status: "canceled", output: end.value, error: canceledBy(end.reason, end.error) };
  }
}
