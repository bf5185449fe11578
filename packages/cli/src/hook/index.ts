// The hook that lets Node load TypeScript, in this thread: on Node 20.19, 22 and 24 alike, without a build step.
// Owns: whether it is installed, and which files it has loaded.
// Invariants: only files outside node_modules are touched; oxc is loaded where the hook runs and nowhere else.

import module from "node:module";
import { MessageChannel, type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import { builtUrl } from "./built.ts";

export { builtUrl } from "./built.ts";
export { endsDuring } from "./exits.ts";
export { placeOf, type SourcePlace, shownPath } from "./place.ts";

/** Of Node 22.15 and later: the types of Node 20 don't have it. */
interface SyncHooks {
  registerHooks?(hooks: Pick<typeof import("./hooks.ts"), "resolve" | "load">): unknown;
}

let installed: Promise<void> | undefined;
const files = new Set<string>();
let port: MessagePort | undefined;

/** Installs the hook, once. */
export function installHook(): Promise<void> {
  installed ??= install();
  return installed;
}

async function install(): Promise<void> {
  process.setSourceMapsEnabled(true); // errors show lines of the source
  const { registerHooks } = module as SyncHooks;
  if (registerHooks !== undefined) {
    const hooks = await import("./hooks.ts");
    hooks.reportLoaded((file) => files.add(file));
    registerHooks({ resolve: hooks.resolve, load: hooks.load });
    return;
  }
  // Node 20: hooks run in a thread of their own, which reports the files.
  const channel = new MessageChannel();
  port = channel.port1;
  port.unref();
  module.register(builtUrl("./thread.ts", import.meta.url), { data: { port: channel.port2 }, transferList: [channel.port2] });
}

/** The absolute paths of all files that the hook has loaded so far. */
export function loadedFiles(): string[] {
  for (let next = port && receiveMessageOnPort(port); next !== undefined; next = port && receiveMessageOnPort(port))
    files.add(next.message);
  return [...files];
}
