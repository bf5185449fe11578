// `holdfast runs watch`
// Owns: what counts as a change.
// Invariants: one line a change, until the run has ended or is blocked; there is no limit of time unless one is given.

import type { ResponseOf } from "../../api/routes.ts";
import type { Client, ClientEvent } from "../../client/client.ts";
import { statusText } from "../../terminal/colours.ts";
import { printable } from "../../terminal/escape.ts";
import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";
import { isClosed } from "./filters.ts";
import { textOf } from "./list.ts";
import { notCompleted } from "./result.ts";

type Run = ResponseOf<"runs.get">;
interface Change {
  readonly time: string;
  readonly runId: string;
  readonly status: Run["status"];
  readonly execution: number;
  readonly historyLength: number;
  readonly waitingFor: Run["waitingFor"];
}

export async function watchRun(session: Session, [id]: readonly [string]): Promise<number> {
  const client = await session.reader();
  const changes: Change[] = [];
  const last = await follow(session, client, id, (run) => {
    const { status, execution, historyLength, waitingFor } = run;
    const change: Change = { time: new Date().toISOString(), runId: id, status, execution, historyLength, waitingFor };
    changes.push(change);
    if (session.globals.output !== "json") report(session, change);
  });
  if (session.globals.output === "json") session.show({ json: { runId: id, status: last.status, changes }, human: () => [] });
  if (last.status !== "completed") throw notCompleted(id, last);
  return EXIT.ok;
}

/** Until it has ended or is blocked: that is returned. */
async function follow(session: Session, client: Client, id: string, changed: (run: Run) => void): Promise<Run> {
  const stop = new AbortController();
  const listen = (): AsyncIterator<ClientEvent> =>
    client.events([`run:${id}`], { signal: AbortSignal.any([session.io.signal, stop.signal]) })[Symbol.asyncIterator]();
  let events = listen();
  // If the command ends first, by its timeout or a signal, nothing awaits the next event, which fails when the client closes.
  const ask = (): ReturnType<typeof events.next> => {
    const asked = events.next();
    asked.catch(() => undefined);
    return asked;
  };
  let next = ask();
  let before: string | undefined;
  try {
    for (;;) {
      // `next` was asked for before this look, so that no change falls between the two.
      const run = await client.call("runs.get", { params: { id } });
      const view = viewOf(run);
      if (view !== before) changed(run);
      before = view;
      if (isClosed(run.status) || run.status === "blocked") return run;
      const { done } = await next;
      session.io.signal.throwIfAborted();
      if (done === true) events = listen();
      next = ask();
    }
  } finally {
    stop.abort();
  }
}

function viewOf({ status, execution, historyLength, waitingFor, attempt }: Run): string {
  return JSON.stringify([status, execution, historyLength, waitingFor, attempt]);
}

function report(session: Session, change: Change): void {
  const { time, runId, status, waitingFor } = change;
  const { colours } = session;
  const waits = printable(waitingFor.map(textOf).join(", "));
  const line = `${colours.dim(time.slice(11, 19))}  ${statusText(status, colours)}${waits === "" ? "" : `  ${colours.dim(waits)}`}`;
  session.show({ json: change, ids: [runId], human: () => [line] });
}
