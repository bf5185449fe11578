// Sends signals.
// Owns: the request of a signal.
// Invariants: M1 (acknowledged means durable), M3 (a repeated send with the same key is delivered once: the server drops it within an
// execution, the worker across executions).

import type { Message, SignalJob } from "holdfast/backend";
import { headerOf } from "../headers.ts";
import { boundedId, isImpossible } from "../names.ts";
import { absenceOf, called } from "./serviceErrors.ts";
import type { ClientSettings } from "./settings.ts";

export class Signals {
  readonly #settings: ClientSettings;

  constructor(settings: ClientSettings) {
    this.#settings = settings;
  }
  async send(runId: string, { job, idempotencyKey: key }: Message<SignalJob>): Promise<"sent" | "not-found" | "closed"> {
    if (isImpossible(runId)) return "not-found";
    const { connection, payloads, identity } = this.#settings;
    try {
      await called(
        "signal",
        connection.service.signalWorkflowExecution({
          namespace: connection.namespace,
          workflowExecution: { workflowId: runId },
          signalName: job.name,
          input: { payloads: [payloads.toTemporal(job.payload)] },
          identity,
          requestId: boundedId(key ?? job.id),
          ...(key !== undefined && { header: { fields: headerOf({ key }) } }),
        }),
      );
      return "sent";
    } catch (error) {
      const absence = absenceOf(error);
      if (absence === undefined) throw error;
      return absence;
    }
  }
}
