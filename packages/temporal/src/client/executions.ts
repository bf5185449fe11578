// Reads executions: their descriptions, how they were started and how they ended.
// Owns: a cache of first and last events, which never change.
// Invariants: an execution is read by Temporal's run id once that is known, so that the parts of an answer belong together.

import { HoldfastError, type Payload, payloadFromJson } from "@holdfast/core";
import type { HistoryEvent } from "../bridge.ts";
import { type StartHeader, startHeader } from "../headers.ts";
import { eventsIn } from "../history.ts";
import { CARRIED_ENCODING, isImpossible } from "../names.ts";
import { encodingOf, readJson, type TemporalPayload } from "../payloads.ts";
import { api, msIfSet, type temporal } from "../proto.ts";
import { absenceOf, called } from "./serviceErrors.ts";
import type { ClientSettings } from "./settings.ts";

export type Description = temporal.api.workflowservice.v1.IDescribeWorkflowExecutionResponse;
export type PendingActivity = temporal.api.workflow.v1.IPendingActivityInfo;

const { HistoryEventFilterType, WorkflowExecutionStatus } = api.api.enums.v1;

/** An execution: the id of the run, and Temporal's id of the execution within it. */
export interface ExecutionId {
  readonly workflowId: string;
  readonly runId: string;
}
/** How an execution was started. */
export interface Started {
  readonly input: Payload;
  readonly header: StartHeader;
  /** Milliseconds since 1970; undefined if this process has started it and has not read it. */
  readonly at: number | undefined;
  /** By Temporal's retry policy. */
  readonly attempt: number;
}

const MOST_CACHED = 2_000;
/** Larger events are read again. */
const LARGEST_CACHED = 16 * 1024;

export function statusIn({ workflowExecutionInfo: info }: Description): number {
  return info?.status ?? WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED;
}
export function isOpen(description: Description): boolean {
  return statusIn(description) === WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING;
}
export function executionIn({ workflowExecutionInfo: info }: Description): ExecutionId {
  return { workflowId: info?.execution?.workflowId ?? "", runId: info?.execution?.runId ?? "" };
}

export class Executions {
  readonly #settings: ClientSettings;
  readonly #started = new Cache<Started>();
  readonly #ends = new Cache<HistoryEvent>();

  constructor(settings: ClientSettings) {
    this.#settings = settings;
  }

  /** The newest execution, or the one with Temporal's run id. Undefined if there is no such run. */
  async describe(workflowId: string, runId?: string): Promise<Description | undefined> {
    if (isImpossible(workflowId)) return undefined;
    const { service, namespace } = this.#settings.connection;
    try {
      const execution = { workflowId, ...(runId !== undefined && { runId }) };
      return await called("describe", service.describeWorkflowExecution({ namespace, execution }));
    } catch (error) {
      if (absenceOf(error) === undefined) throw error;
      return undefined;
    }
  }

  // ── first events ──

  async started(execution: ExecutionId): Promise<Started> {
    return this.#started.get(execution.runId) ?? this.#readStarted(execution);
  }
  async #readStarted(execution: ExecutionId): Promise<Started & { readonly at: number }> {
    const [event] = await this.#page(execution, { maximumPageSize: 1 });
    const { input, header, attempt } = event?.workflowExecutionStartedEventAttributes ?? {};
    const [payload] = input?.payloads ?? [];
    const started = {
      input: this.#inputOf(payload),
      header: startHeader(header?.fields),
      at: msIfSet(event?.eventTime) ?? 0,
      attempt: attempt ?? 1,
    };
    this.#started.set(execution.runId, started, sizeOf(started));
    return started;
  }
  /** This process has started it: no need to read how. */
  remember(runId: string, started: Started): void {
    this.#started.set(runId, started, sizeOf(started));
  }
  #inputOf(payload: TemporalPayload | undefined): Payload {
    if (payload === undefined || encodingOf(payload) !== CARRIED_ENCODING) return this.#settings.payloads.fromTemporal(payload);
    return payloadFromJson((readJson(payload) as { readonly input: unknown }).input);
  }
  /** When the first execution of the chain was started. */
  async chainBegan(description: Description, { header }: Started): Promise<number> {
    const { workflowExecutionInfo: info } = description;
    if (header.createdAt !== undefined) return header.createdAt;
    const { workflowId, runId } = executionIn(description);
    const first = info?.firstRunId ?? "";
    const own = msIfSet(info?.startTime) ?? 0;
    if (first === "" || first === runId) return own;
    // Temporal's retries of a run: each is an execution with the header of the first.
    try {
      return this.#started.get(first)?.at ?? (await this.#readStarted({ workflowId, runId: first })).at;
    } catch (error) {
      if (absenceOf(error) === undefined) throw error;
      return own; // its retention is over
    }
  }

  // ── last events ──

  /** The event with which a closed execution ended. */
  async closing(execution: ExecutionId): Promise<HistoryEvent> {
    const known = this.#ends.get(execution.runId);
    if (known !== undefined) return known;
    const [event] = await this.#page(execution, { historyEventFilterType: HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT });
    if (event === undefined)
      throw new HoldfastError(`The last event of run ${execution.workflowId} is missing.`, { code: "HF_TEMPORAL_REFUSED" });
    const size = api.api.history.v1.HistoryEvent.encode(event).len;
    if (size <= LARGEST_CACHED) this.#ends.set(execution.runId, event, size);
    return event;
  }

  // ── histories ──

  /** All events, the newest first. */
  async *newest(execution: ExecutionId): AsyncGenerator<HistoryEvent> {
    const { service, namespace } = this.#settings.connection;
    let nextPageToken: Uint8Array | null | undefined;
    do {
      const request = { namespace, execution, maximumPageSize: 50, ...(nextPageToken && { nextPageToken }) };
      const answer = await called("history", service.getWorkflowExecutionHistoryReverse(request));
      yield* eventsIn(answer);
      ({ nextPageToken } = answer);
    } while (nextPageToken !== null && nextPageToken !== undefined && nextPageToken.length > 0);
  }
  /** All events, in order. */
  async *events(execution: ExecutionId): AsyncGenerator<HistoryEvent> {
    const { service, namespace } = this.#settings.connection;
    let nextPageToken: Uint8Array | null | undefined;
    do {
      const request = { namespace, execution, ...(nextPageToken && { nextPageToken }) };
      const answer = await called("history", service.getWorkflowExecutionHistory(request));
      yield* eventsIn(answer);
      ({ nextPageToken } = answer);
    } while (nextPageToken !== null && nextPageToken !== undefined && nextPageToken.length > 0);
  }
  async #page(
    execution: ExecutionId,
    filter: { readonly maximumPageSize?: number; readonly historyEventFilterType?: number },
  ): Promise<HistoryEvent[]> {
    const { service, namespace } = this.#settings.connection;
    return eventsIn(await called("history", service.getWorkflowExecutionHistory({ namespace, execution, ...filter })));
  }
}

function sizeOf({ input }: Started): number {
  return input.length;
}

/** By Temporal's run ids; the entry that was set first is dropped first. */
class Cache<T> {
  readonly #entries = new Map<string, T>();

  get(runId: string): T | undefined {
    return this.#entries.get(runId);
  }
  set(runId: string, entry: T, size: number): void {
    if (size > LARGEST_CACHED) return;
    this.#entries.delete(runId);
    this.#entries.set(runId, entry);
    if (this.#entries.size <= MOST_CACHED) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      return;
    }
  }
}
