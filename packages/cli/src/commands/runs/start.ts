// `holdfast runs start`
// Owns: how options become a start; what --like takes over.
// Invariants: an option that is given wins over the run that --like names; nothing is sent before every argument was read.

import type { RequestOf } from "../../api/routes.ts";
import { printable } from "../../terminal/escape.ts";
import { attributesOption, durationOption, jsonArgument, numberOption, pairOf, timeOption } from "../arguments.ts";
import { CommandFailure, EXIT, usage } from "../failures.ts";
import type { Session } from "../session.ts";
import { awaitResult, notCompleted } from "./result.ts";

interface StartOptions {
  readonly id?: string;
  readonly queue?: string;
  readonly key?: string;
  readonly priority?: string;
  readonly after?: string;
  readonly delay?: string;
  readonly maxDelay?: string;
  readonly at?: string;
  readonly deadline?: string;
  readonly attr?: readonly string[];
  readonly version?: string;
  readonly idempotencyKey?: string;
  readonly onConflict?: "reject" | "use-existing" | "restart-if-closed" | "replace" | "debounce";
  readonly signal?: readonly string[];
  readonly like?: string;
  readonly wait?: true;
  readonly tagged?: true;
}
type StartBody = NonNullable<RequestOf<"runs.start">["body"]>;

export async function startRun(
  session: Session,
  [workflow, input]: readonly [string | undefined, string | undefined],
  options: StartOptions,
): Promise<number> {
  if (workflow === undefined && options.like === undefined) throw usage("Name a workflow, or a run with --like.");
  const given = await givenStart(session, workflow, input, options);
  const model = options.like === undefined ? undefined : await modelOf(session, options.like, given.input !== undefined);
  const client = await session.writer();
  const started = await client.call("runs.start", {
    // Values of another run come tagged.
    query: { ...((options.tagged === true || model !== undefined) && { tagged: true }) },
    body: { ...model, ...given } as StartBody,
    idempotencyKey: options.idempotencyKey,
  });
  if (options.wait !== true) {
    session.show({ json: started, ids: [started.id], human: () => [`Started ${printable(started.id)}`] });
    return EXIT.ok;
  }
  session.note(`Started ${printable(started.id)}`);
  const result = await awaitResult(session, client, started.id);
  session.progress.end();
  const { status, output, error } = result;
  session.show({
    json: { ...started, status, output: output ?? null, error },
    ids: [started.id],
    human: () => (status === "completed" ? [session.pretty(output)] : []),
  });
  if (status === "completed") return EXIT.ok;
  throw notCompleted(started.id, result);
}

async function givenStart(
  session: Session,
  workflow: string | undefined,
  input: string | undefined,
  options: StartOptions,
): Promise<Partial<StartBody>> {
  const { id, queue, key, after, version, onConflict } = options;
  const attributes = attributesOption(options.attr);
  const value = await jsonArgument("The input", input, session.io);
  const signals = await Promise.all((options.signal ?? []).map((one) => signalOf(session, one)));
  return {
    ...(workflow !== undefined && { workflow }),
    ...(input !== undefined && { input: value }),
    ...(id !== undefined && { id }),
    ...(queue !== undefined && { queue }),
    ...(key !== undefined && { key }),
    ...(after !== undefined && { after }),
    ...(version !== undefined && { version }),
    ...(onConflict !== undefined && { onConflict }),
    ...(attributes !== undefined && { attributes }),
    ...(signals.length > 0 && { signals }),
    ...(options.priority !== undefined && { priority: numberOption("--priority", options.priority) }),
    ...(options.delay !== undefined && { delay: durationOption("--delay", options.delay) }),
    ...(options.maxDelay !== undefined && { maxDelay: durationOption("--max-delay", options.maxDelay) }),
    ...(options.at !== undefined && { startAt: timeOption("--at", options.at).toISOString() }),
    ...(options.deadline !== undefined && { deadline: deadlineOf(options.deadline) }),
  };
}

function deadlineOf(text: string): string | number {
  return /^\d{4}-/.test(text) ? timeOption("--deadline", text).toISOString() : durationOption("--deadline", text);
}

/** `name=json`, or a name alone. */
async function signalOf(session: Session, text: string): Promise<{ name: string; payload?: unknown }> {
  if (!text.includes("=")) return { name: text };
  const [name, value] = pairOf("--signal", text);
  return { name, payload: await jsonArgument(`--signal ${name}`, value, session.io) };
}

/** What a start takes over from another run. */
async function modelOf(session: Session, id: string, hasInput: boolean): Promise<Partial<StartBody>> {
  const client = await session.reader();
  const { workflow, version, queue, key, priority, attributes, input } = await client.call("runs.get", {
    params: { id },
    query: { full: true },
  });
  if (!hasInput && isHidden(input)) {
    throw new CommandFailure({
      code: "HF_FORBIDDEN",
      status: 403,
      title: "Forbidden",
      detail: `The input of ${id} can't be read, so that it can't be taken over.`,
      advice: "Give the input as an argument, or use a token that may see values.",
      exitCode: EXIT.refused,
    });
  }
  return {
    workflow,
    queue,
    priority,
    attributes,
    ...(!hasInput && input !== undefined && input !== null && { input }),
    ...(version !== null && { version }),
    ...(key !== null && { key }),
  };
}

function isHidden(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return ["$redacted", "$unreadable", "$large"].some((marker) => Object.hasOwn(value, marker));
}
