// `holdfast dev`: a worker and the dashboard, with reload on save.
// Owns: nothing: DevServer has the server, LiveCode the process with the code, DevConfig the configuration.
// Invariants: this process never loads user code, except for the configuration. On each save open runs are replayed before the new code gets
// them. Code or a configuration that can't be loaded is reported, and the old one goes on.

import { rmSync } from "node:fs";
import { join, parse } from "node:path";
import { openReadOnly } from "holdfast/inspect";
import { Entries } from "../../code/entries.ts";
import { LiveCode } from "../../code/liveCode.ts";
import type { OpenRunsResult } from "../../code/protocol.ts";
import { groupsOf } from "../../code/report.ts";
import type { Settings } from "../../config/settings.ts";
import { printableUrl } from "../../config/url.ts";
import { printable } from "../../terminal/escape.ts";
import { unsupported, usage } from "../failures.ts";
import type { Session } from "../session.ts";
import { DevConfig } from "./devConfig.ts";
import { DevServer } from "./devServer.ts";
import { asked, needsStore } from "./ending.ts";
import { isForPrograms, openPage, planServer, sayError, sayReady } from "./server.ts";

interface DevFlags {
  readonly port?: string;
  readonly open?: boolean;
  readonly fresh?: boolean;
  readonly migrate?: boolean;
}

export async function serveDev(session: Session, _: readonly [], flags: DevFlags): Promise<number> {
  const { io } = session;
  const settings = await session.settings();
  needsStore("dev", settings.url);
  const plan = planServer(flags, settings.server);
  const ended = asked(io.signal);
  if (flags.fresh === true) removeStore(settings);
  await checkSchema(settings, flags.migrate === true);
  const config = new DevConfig(session, settings);
  const code = new LiveCode({
    settings,
    entries: new Entries(settings),
    cwd: io.cwd,
    workers: settings.workers,
    config,
    events: {
      reloaded: (workflows, open) => sayReloaded(session, workflows, open),
      error: (message) => sayError(session, message),
    },
  });
  let server: DevServer | undefined;
  try {
    const opened = await DevServer.open(settings, plan, code);
    server = opened;
    const begun = await Promise.race([Promise.all([opened.listen(), code.start()]), ended]);
    if (typeof begun === "number") return begun;
    const [url, loaded] = begun;
    let { workflows } = loaded;
    sayReady(session, "Ready", { url, token: plan.token, store: settings.url, workflows });
    if (loaded.problem !== undefined) sayError(session, loaded.problem);
    if (flags.open === true) openPage(plan.token === null ? url : `${url}#token=${plan.token}`);
    config.follow(async (next) => {
      needsStore("dev", next.url);
      const planned = planServer(flags, next.server, plan.token);
      await checkSchema(next, flags.migrate === true);
      await opened.replace(next, planned);
      const reloaded = await code.reconfigure(next, new Entries(next), next.workers);
      if (reloaded?.problem === undefined) ({ workflows } = reloaded ?? { workflows });
      sayReady(session, "Restarted", { url: await opened.listen(), token: planned.token, store: next.url, workflows });
    });
    return await ended;
  } finally {
    await config.close();
    await server?.stop();
    await code.close();
    await server?.close();
  }
}

// ── the store ──

function removeStore({ url, namespace }: Settings): void {
  const path = filePathOf(url);
  if (path === undefined)
    throw unsupported(`--fresh deletes a SQLite file, and ${printable(printableUrl(url))} is not one.`, "Leave --fresh out.");
  const { dir, name, ext } = parse(path);
  const file = namespace === undefined || namespace === "default" ? path : join(dir, `${name}.${namespace}${ext}`);
  for (const ending of ["", "-wal", "-shm", "-journal"]) rmSync(`${file}${ending}`, { force: true });
}
/** The path that a `file:` url names; undefined for others. */
function filePathOf(url: string): string | undefined {
  if (!url.startsWith("file:")) return undefined;
  const [place = ""] = url.split("?");
  return place.startsWith("file://") ? decodeURIComponent(new URL(place).pathname) : place.slice("file:".length);
}
/** PostgreSQL is shared with others: its schema is only changed if that was asked for. */
async function checkSchema({ url, namespace }: Settings, migrates: boolean): Promise<void> {
  if (migrates || !/^postgres(ql)?:/.test(url)) return;
  const inspection = await openReadOnly(url, namespace === undefined ? {} : { namespace });
  try {
    const { exists, schema } = await inspection.store();
    if (exists && (schema === undefined || schema.found >= schema.known)) return;
    const what = exists ? `is of version ${schema?.found}, and this code needs ${schema?.known}` : "does not exist yet";
    throw usage(`The schema in ${printable(printableUrl(url))} ${what}.`, "Run `holdfast migrate`, or add --migrate.");
  } finally {
    await inspection.close();
  }
}

// ── what is said ──

function sayReloaded(session: Session, workflows: readonly string[], open: OpenRunsResult | undefined): void {
  const diverged = (open?.diverged ?? []).map(({ runId, divergence }) => ({
    runId,
    location: divergence?.location ?? "",
    source: divergence?.source ?? null,
  }));
  if (isForPrograms(session)) return session.line({ event: "reloaded", workflows, diverged });
  const { green, red, yellow } = session.colours;
  const lines = [`${green("Reloaded:")} ${workflows.map(printable).join(", ")}`];
  if (open !== undefined) {
    const of = `${open.isPartial ? "at least " : ""}${open.checked}`;
    for (const { count, location, source } of groupsOf(open.diverged)) {
      const where = source === null ? "" : `, ${printable(source.file)}:${source.line}`;
      lines.push(red(`  ${count} of ${of} would block at \`${printable(location) || "the root"}\`${where}`));
    }
    for (const { runId, reason = "" } of open.failed.slice(0, 5))
      lines.push(yellow(`  ${printable(runId)} can't be replayed: ${printable(reason.split("\n")[0] ?? "")}`));
  }
  session.show({ json: null, human: () => lines });
}
