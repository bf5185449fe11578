// `holdfast dashboard`: the dashboard and the HTTP API, without a worker.
// Owns: the server, and the process with the code if the project has any.
// Invariants: this process never loads user code, except for the configuration; without code it serves everything that needs none.

import { Holdfast } from "holdfast";
import { type Inspection, openReadOnly } from "holdfast/inspect";
import { Entries } from "../../code/entries.ts";
import { LiveCode } from "../../code/liveCode.ts";
import type { Settings } from "../../config/settings.ts";
import { type Console, type ConsoleOptions, consoleOver, createConsole } from "../../server/index.ts";
import type { Session } from "../session.ts";
import { asked, needsStore } from "./ending.ts";
import { listenAs, openPage, planServer, type ServerFlags, sayError, sayReady } from "./server.ts";

export async function serveDashboard(session: Session, _: readonly [], flags: ServerFlags & { readonly open?: boolean }): Promise<number> {
  const { io } = session;
  const settings = await session.settings();
  needsStore("dashboard", settings.url);
  const plan = planServer(flags, settings.server);
  const ended = asked(io.signal);
  const entries = new Entries(settings);
  const hasCode = entries.files().length > 0;
  const code = hasCode
    ? new LiveCode({
        settings,
        entries,
        cwd: io.cwd,
        workers: undefined,
        events: { reloaded: () => session.note("Reloaded the code."), error: (message) => sayError(session, message) },
      })
    : undefined;
  const options = { ...plan.options, code };
  const { console, close } = await consoleOf(settings, options, plan.options.readOnly === true);
  try {
    const listening = await listenAs(console, plan);
    try {
      const loaded = await Promise.race([code?.start(), ended]);
      if (typeof loaded === "number") return loaded;
      const page = { url: listening.url, token: plan.token, store: settings.url, workflows: loaded?.workflows ?? [] };
      sayReady(session, "Dashboard", page);
      if (loaded?.problem !== undefined) sayError(session, loaded.problem);
      if (flags.open === true) openPage(plan.token === null ? listening.url : `${listening.url}#token=${plan.token}`);
      return await ended;
    } finally {
      await listening.close();
    }
  } finally {
    await Promise.all([code?.close(), close()]);
  }
}

/** A server that changes nothing opens its store for reading only: it creates nothing, either. */
async function consoleOf(
  settings: Settings,
  options: ConsoleOptions,
  isReadOnly: boolean,
): Promise<{ readonly console: Console; close(): Promise<void> }> {
  const { url, codec, namespace } = settings;
  const opening = { ...(codec !== undefined && { codec }), ...(namespace !== undefined && { namespace }) };
  if (!isReadOnly) {
    const engine = await Holdfast.open(url, opening);
    return { console: createConsole(engine, options), close: () => engine.close() };
  }
  const inspection: Inspection = await openReadOnly(url, opening);
  const source = {
    engine: () => Promise.reject(new Error("The store is open for reading only.")),
    inspection: async () => inspection,
    close: async () => {},
  };
  return { console: consoleOver(source, options), close: () => inspection.close() };
}
