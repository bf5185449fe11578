// The program of the thread that reads an SQLite file.
// Owns: its connection to the file.
// Invariants: every request with an id gets one answer, until the reader is closed: then the thread ends.

import { parentPort, workerData } from "node:worker_threads";
import { HoldfastError, messageOf, toError } from "@holdfast/core";
import { SqliteReader } from "../store/sqlite/reader.ts";
import type { Answer, Request, ThreadSettings } from "./threadCalls.ts";

const { path, library } = workerData as ThreadSettings;
let now = Date.now();
const reader = new SqliteReader(path, { library, clock: () => now });
const inspect = reader.inspect();
let unwatch: (() => void) | undefined;

parentPort?.on("message", (request: Request) => void answered(request));

async function answered(request: Request): Promise<void> {
  ({ now } = request);
  const { id, of, method, given } = request;
  if (of === "watch") return watch(method === "on");
  try {
    const target = (of === "store" ? reader : inspect) as unknown as Readonly<Record<string, (...given: unknown[]) => Promise<unknown>>>;
    tell({ id, value: await target[method]?.(...given) });
    if (method === "close") parentPort?.close();
  } catch (error) {
    const { name } = toError(error);
    const known = error instanceof HoldfastError ? error : undefined;
    tell({ id, error: { name, message: messageOf(error), code: known?.code, retryable: known?.retryable ?? false } });
  }
}
function watch(isOn: boolean): void {
  if (isOn) unwatch ??= reader.watch(() => tell({ id: 0 }));
  else {
    unwatch?.();
    unwatch = undefined;
  }
}
function tell(answer: Answer): void {
  parentPort?.postMessage(answer);
}
