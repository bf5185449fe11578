// A worker for bulk actions, where no other is alive.
// Owns: an engine on the store of the command, with a worker that serves nothing else.
// Invariants: on a console, and where a worker is alive, it does nothing: they carry the action out.

import { randomUUID } from "node:crypto";
import { Holdfast, workflow } from "holdfast";
import { HELPER_WORKFLOW } from "../../api/handlers/messages.ts";
import type { Client } from "../../client/client.ts";
import { isConsole } from "../../config/url.ts";
import type { Session } from "../session.ts";

/** Returns how to stop it. */
export async function helpWithBulk(session: Session, client: Client): Promise<() => Promise<void>> {
  const { url, namespace, codec } = await session.settings();
  const { workers } = await client.call("health");
  if (isConsole(url) && workers === 0) session.note("No worker is alive: the action begins when one starts.");
  if (isConsole(url) || workers !== 0) return async () => undefined;
  const engine = await Holdfast.open(url, { ...(namespace !== undefined && { namespace }), ...(codec !== undefined && { codec }) });
  // Every worker that serves workflows serves bulk actions too, whatever its queue. No run is ever in this one.
  await engine.worker({ workflows: [workflow(HELPER_WORKFLOW, async () => undefined)], queue: `holdfast-cli-${randomUUID()}` });
  return () => engine.close();
}
