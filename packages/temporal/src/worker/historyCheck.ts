// Compares what a run's code asks for in replay with what its history has recorded.
// Owns: the recorded commands of each task, and the first difference.
// Invariants: Y2 (kind, name, input, duration, child type and id, patch id and the output of the run are compared; the error names the field,
// the recorded value and the new one), V4 (a difference fails the task, never the run). Core compares kinds, ids and order, and nothing else;
// options (queues, timeouts, retries) may change, and the run is told of it.

import { type Codec, NondeterminismError, sameValue } from "@holdfast/core";
import type { CoreCommand, HistoryEvent, TemporalHistory } from "../bridge.ts";
import { activityHeader, type RecordedOptions, startHeader } from "../headers.ts";
import { completedBy } from "../history.ts";
import { STEP_TYPE } from "../names.ts";
import { type Payloads, readJson, type TemporalPayload } from "../payloads.ts";
import { api, msIfSet } from "../proto.ts";

const { EventType } = api.api.enums.v1;
const PATCH_MARKER = "core_patch";
const LOCAL_MARKER = "core_local_activity";

/** Scheduled, started, completed. */
const TASK_EVENTS = 3;

/** A search attribute that Core sets by itself. */
const PATCHES = "TemporalChangeVersion";

type IndexedFields = Record<string, TemporalPayload>;
type AttributeChanges = Readonly<Record<string, string | number | boolean | null>>;

/** A command, or the event that recorded it. */
interface Entry {
  readonly kind: "activity" | "timer" | "child" | "signal" | "cancellation" | "patch" | "state" | "end" | "local";
  /** What the operation is called: its location, or what stands for it. */
  readonly id: string;
  /** The operation in words. */
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly payloads?: Readonly<Record<string, TemporalPayload | undefined>>;
  /** How it is carried out. */
  readonly options?: RecordedOptions | undefined;
  /** Core's number, by which it is cancelled. */
  readonly seq?: number;
}

/** A side effect or a local step, which is recorded when it has ended: in the task that scheduled it or, if it takes long, in a later one. */
interface Local {
  /** Core's number. */
  readonly seq: number;
  readonly id: string;
}

/** What the completion of a task has recorded. `task`: the event that started it. */
interface Recorded {
  readonly task: string;
  readonly entries: Entry[];
  readonly locals: Local[];
  readonly indexed: IndexedFields[];
}

/** An option of an operation that code has changed since it was recorded (Y2). */
export interface ChangedOption {
  readonly location: string;
  readonly field: string;
  readonly recorded: unknown;
  readonly code: unknown;
}

export class HistoryCheck {
  /** By the event that started the task: what its completion recorded. */
  readonly #recorded = new Map<string, Entry[]>();
  /** By the id of an activity. */
  readonly #options = new Map<string, RecordedOptions | undefined>();
  /** By the same event: the side effects and local steps that the completion recorded. */
  readonly #ended = new Map<string, Local[]>();
  /** By Core's number. */
  readonly #locals = new Map<number, Local>();
  /** The same events of tasks that Core may have completed early, to keep them from timing out while a local step was in progress. */
  readonly #prolonged = new Set<string>();
  /** By the same event: the search attributes that the completion has set. */
  readonly #indexed = new Map<string, IndexedFields[]>();
  /** The same events of tasks that have ended the execution with a continue-as-new. */
  readonly #continued = new Set<string>();
  /** By the same event: its time. */
  readonly #startedAt = new Map<string, number>();
  /** The ids of those that the code has asked for, by Core's number. */
  readonly #asked = new Map<number, string>();
  readonly #payloads: Payloads;
  readonly #changed: (option: ChangedOption) => void;
  #task = "";
  #commands: CoreCommand[] = [];

  /** `changed` is told of every option that the code has changed, and may throw. */
  constructor({ events }: TemporalHistory, payloads: Payloads, changed: (option: ChangedOption) => void) {
    this.#payloads = payloads;
    this.#changed = changed;
    const byCompletion = new Map<string, Recorded>();
    const clock = new TaskClock();
    for (const event of events ?? []) {
      const { eventType, workflowTaskCompletedEventAttributes: completed } = event;
      clock.see(event);
      const at = eventType === EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED ? msIfSet(event.eventTime) : undefined;
      if (at !== undefined) this.#startedAt.set(String(event.eventId), at);
      if (eventType === EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED && completed) {
        const [entries, locals, indexed]: [Entry[], Local[], IndexedFields[]] = [[], [], []];
        byCompletion.set(String(event.eventId), { task: String(completed.startedEventId), entries, locals, indexed });
        if (clock.isProlonged(event)) this.#prolonged.add(String(completed.startedEventId));
        this.#indexed.set(String(completed.startedEventId), indexed);
        this.#recorded.set(String(completed.startedEventId), entries);
        this.#ended.set(String(completed.startedEventId), locals);
        continue;
      }
      const task = byCompletion.get(completedBy(event) ?? "");
      const local = localOf(event);
      if (local !== undefined) {
        this.#locals.set(local.seq, local);
        task?.locals.push(local);
      }
      const fields = event.upsertWorkflowSearchAttributesEventAttributes?.searchAttributes?.indexedFields;
      if (fields && !Object.hasOwn(fields, PATCHES)) task?.indexed.push(fields);
      if (event.workflowExecutionContinuedAsNewEventAttributes && task !== undefined) this.#continued.add(task.task);
      const entry = entryOfEvent(event);
      if (entry?.kind === "activity" && !this.#options.has(entry.id)) this.#options.set(entry.id, entry.options);
      if (entry !== undefined) task?.entries.push(entry);
    }
  }

  /**
   * The commands of an activation of the task that `historyLength` belongs to. Throws if they differ from the recorded ones. `awaited`:
   * Core's numbers of the side effects and local steps that the run waits for. If history has the end of one, the task goes on with it.
   */
  add(historyLength: number, commands: readonly CoreCommand[], awaited: readonly number[]): void {
    const task = String(historyLength);
    if (task !== this.#task) {
      this.#compare();
      this.#task = task;
    }
    this.#commands.push(...commands);
    this.#noteLocals(commands);
    if (!awaited.some((seq) => this.#locals.has(seq))) this.#compare(awaited);
  }
  /** How the activity was carried out when it was first scheduled; undefined if history does not have it. */
  optionsOf(activityId: string): RecordedOptions | undefined {
    return this.#options.get(activityId);
  }
  /**
   * The search attributes that the task `historyLength` belongs to has set for these changes; undefined if it has set none. Which attributes
   * are registered may have changed since, and Core wants a command exactly where history has the event. Undefined is not "unknown":
   * `hasTask` tells.
   */
  searchAttributes(historyLength: number, changes: AttributeChanges): IndexedFields | undefined {
    const left = this.#indexed.get(String(historyLength));
    const next = left?.[0];
    return next !== undefined && isFor(next, changes) ? left?.shift() : undefined;
  }
  /** When the task began, by the server's clock; undefined if history does not have it. */
  startedAt(historyLength: number): number | undefined {
    return this.#startedAt.get(String(historyLength));
  }
  /**
   * When the first of the tasks began that Core takes for one: those after `last` that asked for nothing, and were followed by the next one
   * at once, with its three events. Undefined if it is the task itself.
   */
  beganBefore(task: number, last: number): number | undefined {
    let first = task;
    while (first - TASK_EVENTS > last && this.hasTask(first - TASK_EVENTS)) first -= TASK_EVENTS;
    return first === task ? undefined : this.startedAt(first);
  }
  /** Whether history has what the task recorded. */
  hasTask(historyLength: number): boolean {
    return this.#indexed.has(String(historyLength));
  }
  /** Whether the task has ended the execution with a continue-as-new. */
  hasContinued(historyLength: number): boolean {
    return this.#continued.has(String(historyLength));
  }
  #noteLocals(commands: readonly CoreCommand[]): void {
    for (const { scheduleLocalActivity: local } of commands) {
      if (!local) continue;
      const [seq, id] = [local.seq ?? 0, local.activityId ?? ""];
      const recorded = this.#locals.get(seq);
      if (recorded !== undefined && recorded.id !== id)
        throw new NondeterminismError({
          location: recorded.id,
          field: "operation",
          expected: localText(recorded.id),
          actual: localText(id),
        });
      this.#asked.set(seq, id);
    }
  }
  #compare(awaited: readonly number[] = []): void {
    const commands = this.#commands;
    this.#commands = [];
    const recorded = this.#recorded.get(this.#task);
    if (recorded === undefined) return;
    this.#recorded.delete(this.#task);
    const actual = withoutWithdrawn(commands);
    const [extra] = awaited;
    if (actual.length < recorded.length && extra !== undefined) actual.push(localEntry(this.#asked.get(extra) ?? ""));
    for (let i = 0; i < Math.max(recorded.length, actual.length); i++) this.#compareEntries(recorded[i], actual[i]);
    // Core completes a task when its side effects and local steps have ended, or the run has.
    if (extra !== undefined && !this.#prolonged.has(this.#task) && !recorded.some(({ kind }) => kind === "end"))
      this.#compareEntries(undefined, localEntry(this.#asked.get(extra) ?? ""));
    for (const { seq, id } of this.#ended.get(this.#task) ?? [])
      if (!this.#asked.has(seq))
        throw new NondeterminismError({ location: id, field: "operation", expected: localText(id), actual: undefined });
  }
  #compareEntries(expected: Entry | undefined, actual: Entry | undefined): void {
    if (expected === undefined || actual === undefined || expected.kind !== actual.kind || expected.id !== actual.id) {
      const location = (expected ?? actual)?.id ?? "";
      throw new NondeterminismError({ location, field: "operation", expected: expected?.text, actual: actual?.text });
    }
    for (const [field, value] of Object.entries(actual.fields)) {
      const before = expected.fields[field];
      if (before !== value) throw new NondeterminismError({ location: actual.id, field, expected: before, actual: value });
    }
    for (const [field, payload] of Object.entries(actual.payloads ?? {})) {
      const [before, now] = [expected.payloads?.[field], payload].map((one) => decoded(one, this.#payloads));
      if (!same(expected.payloads?.[field], payload) && !sameValue(before, now))
        throw new NondeterminismError({ location: actual.id, field, expected: before, actual: now });
    }
    if (expected.options !== undefined && actual.options !== undefined) this.#compareOptions(actual.id, expected.options, actual.options);
  }
  #compareOptions(location: string, before: RecordedOptions, now: RecordedOptions): void {
    for (const field of new Set([...Object.keys(before), ...Object.keys(now)]) as Set<keyof RecordedOptions>)
      if (!sameValue(before[field], now[field])) this.#changed({ location, field, recorded: before[field], code: now[field] });
  }
}

/** Core completes a task at four fifths of its timeout, and asks for another, if a side effect or a local step is in progress. */
const PROLONGED = 0.5;

/** How long tasks took, as the server saw it. */
class TaskClock {
  #timeout: number | undefined;
  #startedAt: number | undefined;

  see({ eventTime, eventType, workflowTaskScheduledEventAttributes: scheduled }: HistoryEvent): void {
    if (scheduled) this.#timeout = msIfSet(scheduled.startToCloseTimeout);
    if (eventType === EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED) this.#startedAt = msIfSet(eventTime);
  }
  /** `completed`: the event that ended the task. True if the times are not known. */
  isProlonged({ eventTime }: HistoryEvent): boolean {
    const endedAt = msIfSet(eventTime);
    if (endedAt === undefined || this.#startedAt === undefined || this.#timeout === undefined) return true;
    return endedAt - this.#startedAt >= PROLONGED * this.#timeout;
  }
}

/** By name or, if the engine had given the search attribute another name, by value. */
function isFor(fields: IndexedFields, changes: AttributeChanges): boolean {
  const values = new Set(Object.values(changes));
  return Object.entries(fields).every(([name, payload]) => Object.hasOwn(changes, name) || values.has((readJson(payload) ?? null) as null));
}
function same(a: TemporalPayload | undefined, b: TemporalPayload | undefined): boolean {
  if (!a?.data || !b?.data) return a === b;
  return Buffer.compare(Buffer.from(a.data), Buffer.from(b.data)) === 0;
}
function decoded(payload: TemporalPayload | undefined, payloads: Payloads): unknown {
  const codec: Codec = payloads.codec;
  return payload === undefined ? undefined : codec.decode(payloads.fromTemporal(payload));
}

// ── what the code asks for ──

/** Core sends nothing for what is started and withdrawn in the same task. */
function withoutWithdrawn(commands: readonly CoreCommand[]): Entry[] {
  const timers = new Set(commands.flatMap(({ cancelTimer }) => cancelTimer?.seq ?? []));
  const activities = new Set(commands.flatMap(({ requestCancelActivity }) => requestCancelActivity?.seq ?? []));
  const children = new Set(commands.flatMap(({ cancelChildWorkflowExecution: cancel }) => cancel?.childWorkflowSeq ?? []));
  const entries: Entry[] = [];
  for (const command of commands) {
    const entry = entryOfCommand(command);
    if (entry === undefined) continue;
    const withdrawn =
      entry.kind === "timer" ? timers : entry.kind === "activity" ? activities : entry.kind === "child" ? children : undefined;
    if (entry.seq === undefined || withdrawn?.has(entry.seq) !== true) entries.push(entry);
  }
  // Core moves the end of the run behind everything else.
  return [...entries.filter(({ kind }) => kind !== "end"), ...entries.filter(({ kind }) => kind === "end")];
}
function entryOfCommand(command: CoreCommand): Entry | undefined {
  const text = summaryOf(command.userMetadata?.summary);
  const {
    scheduleActivity: activity,
    startTimer: timer,
    startChildWorkflowExecution: child,
    signalExternalWorkflowExecution: signal,
  } = command;
  if (activity) {
    const entry = activityEntry(activity.activityId, activity.activityType, activity.arguments?.[0], activity.seq ?? undefined);
    return { ...entry, options: activityHeader(activity.headers)?.options };
  }
  if (timer) return timerEntry(timer.seq, msIfSet(timer.startToFireTimeout), text, timer.seq ?? undefined);
  if (child) {
    const entry = childEntry(child.workflowId, child.workflowType, child.input?.[0], child.seq ?? undefined);
    return { ...entry, options: startHeader(child.headers).options };
  }
  if (signal) return signalEntry(signal.workflowExecution?.workflowId ?? signal.childWorkflowId, signal.signalName, signal.args?.[0]);
  if (command.requestCancelExternalWorkflowExecution)
    return cancellationEntry(command.requestCancelExternalWorkflowExecution.workflowExecution?.workflowId);
  if (command.setPatchMarker) return patchEntry(command.setPatchMarker.patchId);
  if (command.modifyWorkflowProperties) return STATE;
  if (command.completeWorkflowExecution) return endEntry("completed", command.completeWorkflowExecution.result);
  if (command.failWorkflowExecution) return endEntry("failed");
  if (command.cancelWorkflowExecution) return endEntry("canceled");
  if (command.continueAsNewWorkflowExecution) return endEntry("continued as new", command.continueAsNewWorkflowExecution.arguments?.[0]);
  return undefined;
}

// ── what history has ──

function entryOfEvent(event: HistoryEvent): Entry | undefined {
  const text = summaryOf(event.userMetadata?.summary);
  const activity = event.activityTaskScheduledEventAttributes;
  if (activity) {
    const entry = activityEntry(activity.activityId, activity.activityType?.name, activity.input?.payloads?.[0]);
    return { ...entry, options: activityHeader(activity.header?.fields)?.options };
  }
  const timer = event.timerStartedEventAttributes;
  if (timer) return timerEntry(timer.timerId, msIfSet(timer.startToFireTimeout), text);
  const child = event.startChildWorkflowExecutionInitiatedEventAttributes;
  if (child) {
    const entry = childEntry(child.workflowId, child.workflowType?.name, child.input?.payloads?.[0]);
    return { ...entry, options: startHeader(child.header?.fields).options };
  }
  const signal = event.signalExternalWorkflowExecutionInitiatedEventAttributes;
  if (signal) return signalEntry(signal.workflowExecution?.workflowId, signal.signalName, signal.input?.payloads?.[0]);
  const cancellation = event.requestCancelExternalWorkflowExecutionInitiatedEventAttributes;
  // That of a child is the consequence of another operation's end: Core compares it.
  if (cancellation && cancellation.childWorkflowOnly !== true) return cancellationEntry(cancellation.workflowExecution?.workflowId);
  const marker = event.markerRecordedEventAttributes;
  if (marker) return marker.markerName === PATCH_MARKER ? patchEntry(patchIdOf(marker.details ?? {})) : undefined;
  if (event.workflowPropertiesModifiedEventAttributes) return STATE;
  const completed = event.workflowExecutionCompletedEventAttributes;
  if (completed) return endEntry("completed", completed.result?.payloads?.[0]);
  if (event.workflowExecutionFailedEventAttributes) return endEntry("failed");
  if (event.workflowExecutionCanceledEventAttributes) return endEntry("canceled");
  const continued = event.workflowExecutionContinuedAsNewEventAttributes;
  if (continued) return endEntry("continued as new", continued.input?.payloads?.[0]);
  return undefined;
}
function localOf({ markerRecordedEventAttributes: marker }: HistoryEvent): Local | undefined {
  if (marker?.markerName !== LOCAL_MARKER) return undefined;
  const data = readJson(marker.details?.["data"]?.payloads?.[0]) as { readonly seq?: number; readonly activity_id?: string } | undefined;
  return data?.seq === undefined ? undefined : { seq: data.seq, id: data.activity_id ?? "" };
}
function patchIdOf(details: NonNullable<NonNullable<HistoryEvent["markerRecordedEventAttributes"]>["details"]>): string | undefined {
  const data = readJson(details["patch-data"]?.payloads?.[0]) as { readonly id?: string } | undefined;
  return data?.id;
}

// ── both in one form ──

type Text = string | null | undefined;
type Value = TemporalPayload | null | undefined;

const STATE: Entry = { kind: "state", id: "", text: "published state or attributes", fields: {} };

function activityEntry(id: Text, type: Text, input: Value, seq?: number): Entry {
  const isStep = type === STEP_TYPE;
  const text = `${isStep ? "step" : `activity ${type} at`} ${id}`;
  return {
    kind: "activity",
    id: id ?? "",
    text,
    fields: { activity: type },
    ...(!isStep && { payloads: { input: input ?? undefined } }),
    ...(seq !== undefined && { seq }),
  };
}
function timerEntry(id: Text | number, duration: number | undefined, summary: string | undefined, seq?: number): Entry {
  const name = summary ?? `timer ${id}`;
  return { kind: "timer", id: name, text: `${name}, a timer of ${duration} ms`, fields: { duration }, ...(seq !== undefined && { seq }) };
}
function childEntry(id: Text, type: Text, input: Value, seq?: number): Entry {
  const text = `child ${type} with id ${id}`;
  return {
    kind: "child",
    id: id ?? "",
    text,
    fields: { workflow: type },
    payloads: { input: input ?? undefined },
    ...(seq !== undefined && { seq }),
  };
}
function signalEntry(target: Text, name: Text, input: Value): Entry {
  return {
    kind: "signal",
    id: `${name} to ${target}`,
    text: `signal ${name} to run ${target}`,
    fields: {},
    payloads: { payload: input ?? undefined },
  };
}
function cancellationEntry(target: Text): Entry {
  return { kind: "cancellation", id: target ?? "", text: `cancellation of run ${target}`, fields: {} };
}
function patchEntry(id: Text): Entry {
  return { kind: "patch", id: id ?? "", text: `patch ${id}`, fields: {} };
}
function endEntry(how: string, value?: Value): Entry {
  return { kind: "end", id: how, text: `the run has ${how}`, fields: {}, ...(value && { payloads: { output: value } }) };
}
/** Stands for one that history does not have. */
function localEntry(id: string): Entry {
  return { kind: "local", id, text: localText(id), fields: {} };
}
function localText(id: string): string {
  return `side effect or local step ${id}`;
}
function summaryOf(summary: Value): string | undefined {
  const text = readJson(summary);
  return typeof text === "string" ? text : undefined;
}
