// Starts of runs: what a caller asked for becomes what a backend creates, and its answer an id or an error.
// Owns: the checks of a start and its errors. `Holdfast` owns the calls of the backend.
// Invariants: invalid input is a typed error, and nothing is written; M3 (a run of another workflow under that id), P10 (ids and conflicts),
// K7 (deadlines), V2 (versions).

import {
  type AnyWorkflow,
  checkedId,
  checkedKey,
  checkedPriority,
  checkedText,
  type Duration,
  HoldfastError,
  parseDuration,
  RunAlreadyExistsError,
  RunClosedError,
  type SignalSpec,
  uncheckedSeed,
} from "@holdfast/core";
import { declaredMessage, keptFor, storedRunRetry, timeOrderedId, validated } from "@holdfast/host";
import type { Message, RunStart, SignalJob, StartAnswer } from "../backend/port.ts";
import { type Client, encoded } from "./client.ts";
import {
  checkedAttributes,
  checkedBeginning,
  checkedConflict,
  checkedRunRetry,
  checkedSignals,
  checkedWorkflow,
  moment,
} from "./options.ts";
import type { StartOptions } from "./types.ts";

/** Checks and encodes one start. */
export async function newRun(client: Client, workflow: AnyWorkflow | string, input: unknown, options: StartOptions): Promise<RunStart> {
  const { definitions, environment } = client;
  const given = checkedWorkflow(workflow);
  const definition = typeof given === "string" ? definitions.servedAs(given) : given;
  const name = typeof given === "string" ? given : given.name;
  const { value } = await validated(`the input of workflow ${name}`, definition?.options.input as never, input);
  const deadline = options.deadline ?? definition?.options.deadline;
  const id = checkedId("start", options.id);
  return {
    id: id ?? timeOrderedId(environment),
    isIdGenerated: id === undefined,
    workflow: name,
    version: checkedText("start", "version", options.version) ?? definition?.version,
    input: encoded(client, value, `the input of workflow ${name}`),
    isChecked: definition !== undefined,
    queue: checkedText("start", "queue", options.queue) ?? "default",
    key: checkedKey("start", options.key),
    after: checkedText("start", "after", options.after),
    maxDelay: options.maxDelay === undefined ? undefined : parseDuration(options.maxDelay, "maxDelay"),
    retention: keptFor(definition?.options.retention),
    priority: checkedPriority("start", options.priority) ?? 0,
    ...checkedBeginning(options),
    deadline: deadline === undefined || deadline instanceof Date ? undefined : parseDuration(deadline as Duration, "deadline"),
    deadlineAt: deadline instanceof Date ? moment("start", "deadline", deadline) : undefined,
    retry: storedRunRetry(checkedRunRetry(options.retry) ?? definition?.options.retry),
    attributes: checkedAttributes(options.attributes),
    idempotencyKey: checkedText("start", "idempotencyKey", options.idempotencyKey),
    onConflict: checkedConflict(options),
    seed: definition === undefined ? uncheckedSeed(environment.uuid()) : environment.uuid(),
    messages: options.signals === undefined ? undefined : await startSignals(client, definition, checkedSignals(options.signals)),
  };
}
async function startSignals(
  client: Client,
  workflow: AnyWorkflow | undefined,
  signals: NonNullable<StartOptions["signals"]>,
): Promise<Message<SignalJob>[]> {
  return Promise.all(
    signals.map(async ({ name, payload }): Promise<Message<SignalJob>> => {
      const spec = declaredMessage<SignalSpec<unknown>>(workflow, "signals", name);
      await validated(`signal ${name}`, spec?.schema as never, payload); // only checked: the receiver's schema transforms it
      const id = client.environment.uuid();
      return { job: { type: "signal", id, name, payload: encoded(client, payload, `signal ${name}`) } };
    }),
  );
}

/** The id of the run that a start has created or found. Throws the error for the caller if there is none. */
export function startedId(run: RunStart, answer: StartAnswer): string {
  if (answer.status === "failed") throw answer.error;
  if (answer.status !== "conflict") return answer.id;
  const workflow = otherWorkflow(run, answer);
  if (run.onConflict === "use-existing" && workflow === undefined) throw new RunClosedError({ runId: run.id, status: answer.runStatus });
  throw new RunAlreadyExistsError({ runId: run.id, workflow });
}
/** The id of the existing run, if the start could not send to it because it has closed. */
export function closedId(run: RunStart, answer: StartAnswer): string | undefined {
  const isClosed = answer.status === "conflict" && run.onConflict !== "reject" && otherWorkflow(run, answer) === undefined;
  return isClosed ? answer.id : undefined;
}
/** M3: the workflow of the existing run, if it differs from the one that the start names. */
function otherWorkflow({ workflow }: RunStart, conflict: Extract<StartAnswer, { status: "conflict" }>): string | undefined {
  return conflict.workflow === workflow ? undefined : conflict.workflow;
}

/** One error for all runs that could not be started. The others were started. */
export function startFailure(failures: readonly unknown[], all: number): unknown {
  const [first] = failures;
  if (failures.length === 1) return first; // it lists the conflicting id in `runIds`, as for many
  const taken = failures.flatMap((failure) => (failure instanceof RunAlreadyExistsError ? [failure.runId] : []));
  if (taken.length === failures.length) return new RunAlreadyExistsError({ runId: taken[0] ?? "", runIds: taken });
  const why = failures.map((failure) => (failure instanceof Error ? failure.message.split("\n", 1)[0] : String(failure)));
  return new HoldfastError(`${failures.length} of ${all} runs could not be started: ${why.join("; ")}`, {
    code: "HF_START_FAILED",
    cause: new AggregateError(failures, "Some runs could not be started."),
  });
}
