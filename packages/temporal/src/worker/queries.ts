// Queries of Temporal's own tools: they are answered from the published state, like those of `Run.query`.
// Owns: the answers to the queries that Temporal's UI and command line send to every workflow.
// Invariants: M11 (a query advances no code and changes nothing).

import { serializeError } from "@holdfast/core";
import type { ActivationJob } from "../bridge.ts";
import { toFailure } from "../failures.ts";
import { jsonPayload, type Payloads } from "../payloads.ts";
import type { coresdk } from "../proto.ts";
import type { HostedRun } from "./run.ts";

type QueryWorkflow = NonNullable<ActivationJob["queryWorkflow"]>;

export function answerQuery(query: QueryWorkflow, run: HostedRun, payloads: Payloads): coresdk.workflow_commands.IQueryResult {
  const queryId = query.queryId ?? "";
  const name = query.queryType ?? "";
  const { executor } = run;
  try {
    if (name === "__stack_trace") return { queryId, succeeded: { response: jsonPayload(executor.waitingFor.join("\n")) } };
    if (name === "__temporal_workflow_metadata") return { queryId, succeeded: { response: jsonPayload(metadataOf(run)) } };
    const args = payloads.codec.decode(payloads.first(query.arguments));
    const answer = payloads.codec.encode(executor.query(name, args));
    return { queryId, succeeded: { response: payloads.toTemporal(answer) } };
  } catch (error) {
    return { queryId, failed: toFailure(serializeError(error), payloads.codec) };
  }
}
function metadataOf({ workflow, executor }: HostedRun): unknown {
  const named = (kind: "signals" | "updates" | "queries") =>
    Object.keys((workflow.options[kind] as object | undefined) ?? {}).map((name) => ({ name }));
  return {
    definition: {
      type: workflow.name,
      signalDefinitions: named("signals"),
      updateDefinitions: named("updates"),
      queryDefinitions: named("queries"),
    },
    currentDetails: executor.waitingFor.join("\n"),
  };
}
