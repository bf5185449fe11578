// The hook's thread on Node 20: the same hooks, asked asynchronously.
// Owns: the port on which loaded files are reported.
// Invariants: runs only where `module.register` started it.

import type { MessagePort } from "node:worker_threads";
import { reportLoaded } from "./hooks.ts";

export { load, resolve } from "./hooks.ts";

export function initialize({ port }: { readonly port: MessagePort }): void {
  port.unref();
  reportLoaded((file) => port.postMessage(file));
}
