// Waits for the ends of runs.
// Owns: following a chain of executions to its end.
// Invariants: P10 (the result is that of the newest execution), V4 (a blocked run ends the wait).

import { RunNotFoundError } from "@holdfast/core";
import type { RunEnd } from "holdfast/backend";
import { eventsIn } from "../history.ts";
import { isImpossible } from "../names.ts";
import { api } from "../proto.ts";
import type { Blocking } from "./blocking.ts";
import { endIn, successorIn } from "./ends.ts";
import { absenceOf, callerError, isPassing } from "./serviceErrors.ts";
import type { ClientSettings } from "./settings.ts";
import { Backoff, type Waiting } from "./waiting.ts";

const { HistoryEventFilterType } = api.api.enums.v1;

export class Results {
  readonly #settings: ClientSettings;
  readonly #blocking: Blocking;

  constructor(settings: ClientSettings, blocking: Blocking) {
    this.#settings = settings;
    this.#blocking = blocking;
  }
  /** The end of the run, across its executions, or that it is blocked. */
  async ended(runId: string, waiting: Waiting): Promise<RunEnd> {
    if (isImpossible(runId)) throw new RunNotFoundError({ runId });
    return Promise.race([this.#end(runId, waiting), this.#blocking.watch(runId, waiting)]);
  }
  async #end(workflowId: string, waiting: Waiting): Promise<RunEnd> {
    const { longPolls, namespace } = this.#settings.connection;
    const backoff = new Backoff(waiting);
    let runId = "";
    let nextPageToken: Uint8Array | null | undefined;
    for (;;) {
      waiting.throwIfOver();
      try {
        const answer = await longPolls.getWorkflowExecutionHistory({
          namespace,
          execution: { workflowId, ...(runId !== "" && { runId }) },
          waitNewEvent: true,
          historyEventFilterType: HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
          ...(nextPageToken && { nextPageToken }),
        });
        ({ nextPageToken } = answer);
        const event = eventsIn(answer).at(-1);
        if (event === undefined) continue; // the long poll was over
        const next = successorIn(event);
        if (next === undefined) return { id: workflowId, ...endIn(event, workflowId, this.#settings) };
        runId = next;
        nextPageToken = undefined;
      } catch (error) {
        if (!isPassing(error))
          throw absenceOf(error) === undefined ? callerError("result", error) : new RunNotFoundError({ runId: workflowId });
        await backoff.pause();
      }
    }
  }
}
