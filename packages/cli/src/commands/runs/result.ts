// `holdfast runs result`, and waiting for the end of a run.
// Owns: how a wait is cut into requests, and what an end other than completion is.
// Invariants: a run that has not completed, or is blocked, is exit code 5, with its error on standard error; a wait that is over is 7.

import { ConsoleError } from "../../api/problem.ts";
import type { ResponseOf } from "../../api/routes.ts";
import type { Client } from "../../client/client.ts";
import { CommandFailure, EXIT, timedOut } from "../failures.ts";
import type { Session } from "../session.ts";
import { textOf } from "./list.ts";

export type Result = ResponseOf<"runs.result">;

const DEFAULT_WAIT = 30_000;
/** One request waits no longer: what is between may close a connection that is silent for a minute. */
const LONGEST_WAIT = 20_000;

/** Waits for `--timeout`, or 30 seconds. */
export async function awaitResult(session: Session, client: Client, id: string): Promise<Result> {
  const end = Date.now() + ((await session.timeout()) ?? DEFAULT_WAIT);
  for (;;) {
    const left = end - Date.now();
    try {
      const wait = Math.max(0, Math.min(LONGEST_WAIT, left));
      return await client.call("runs.result", { params: { id }, query: { wait }, signal: session.io.signal });
    } catch (error) {
      if (!(error instanceof ConsoleError) || error.status !== 504) throw error;
      if (end - Date.now() <= 0) throw timedOut(`Run ${id} is still open.`, "It goes on. Wait longer: --timeout 5m.");
      session.progress.say(`Waiting for ${id} …`);
    }
  }
}

export async function printResult(session: Session, [id]: readonly [string]): Promise<number> {
  const client = await session.reader();
  const result = await awaitResult(session, client, id);
  session.progress.end();
  if (result.status !== "completed") throw notCompleted(id, result);
  session.value(result.output);
  return EXIT.ok;
}

const CODES: Readonly<Record<string, string>> = {
  failed: "HF_RUN_FAILED",
  canceled: "HF_CANCELED",
  terminated: "HF_RUN_TERMINATED",
  blocked: "HF_RUN_BLOCKED",
};

export function notCompleted(id: string, { status, error }: Pick<Result, "status" | "error">): CommandFailure {
  const reason = error === null ? "" : `: ${error.name}: ${textOf(error.message)}`;
  return new CommandFailure({
    code: CODES[status] ?? "HF_RUN_FAILED",
    status: 200,
    title: `The run is ${status}`,
    detail: `Run ${id} is ${status}${reason}`,
    advice: `See: holdfast runs show ${id}`,
    exitCode: EXIT.notCompleted,
  });
}
