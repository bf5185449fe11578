// Checks options, ids and keys that users pass.
// Owns: the texts of these errors.
// Invariants: invalid input is an InvalidInputError that names the option, thrown before anything is written.

import {
  type AnyWorkflow,
  type Codec,
  checkOptionNames,
  InvalidInputError,
  type OptionNames,
  typedCodec,
  UnsupportedError,
} from "@holdfast/core";
import type { AnyOpenOptions, AnyRunOptions, SendOptions, StartOptions, UpdateOptions } from "./options.ts";

export function invalid(what: string, message: string, path?: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [path === undefined ? { message } : { message, path: [path] }] });
}

const OPEN: OptionNames<AnyOpenOptions> = {
  driver: true,
  workflow: true,
  id: true,
  activities: true,
  router: true,
  codec: true,
  logger: true,
  limits: true,
  turnTimeout: true,
  determinism: true,
  watchdog: true,
  environment: true,
};
const START: OptionNames<StartOptions> = { signals: true, deadline: true, retry: true, version: true, attributes: true, parent: true };
const RUN: OptionNames<AnyRunOptions & { mode: unknown }> = { ...OPEN, ...START, input: true, mode: true };
const SEND: OptionNames<UpdateOptions> = { idempotencyKey: true, timeout: true, acceptWithin: true };

const ONE_RUN = "A namespace has one run: open it under its id.";
const NO_QUEUES = "Your system decides which runs go first: it starts and wakes them.";
const YOUR_START = "Start the run when it is time.";
/** Options of a start that other hosts have, and what to do here. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  ...{ queue: NO_QUEUES, key: NO_QUEUES, priority: NO_QUEUES },
  ...{ after: YOUR_START, delay: YOUR_START, startAt: YOUR_START, maxDelay: YOUR_START },
  ...{ onConflict: ONE_RUN, idempotencyKey: ONE_RUN },
  tx: "Start the run after your transaction has committed: a start under the same id can be repeated.",
};
function unsupported(feature: string, instead: string): UnsupportedError {
  return new UnsupportedError({ feature, host: "a key-value store", instead });
}
/** Closed runs are deleted with their namespace, by the system that keeps it. */
export function refuseRetention({ options }: AnyWorkflow): void {
  if (options.retention === undefined) return;
  throw unsupported("retention of a workflow", "Leave it out, and delete the namespace of the run (LevelStore.delete) when it is time.");
}

/** The options of opening or starting a run: an object without unknown names. */
export function checkedOptions<T extends object>(what: string, options: T): T {
  if (typeof options !== "object" || options === null) throw invalid(what, "Expected an object, { driver, workflow, id, … }.");
  for (const [name, instead] of Object.entries(ELSEWHERE))
    if ((options as Record<string, unknown>)[name] !== undefined) throw unsupported(name, instead);
  checkOptionNames(what, options, RUN);
  return options;
}
export function checkedSend<T extends SendOptions>(what: "signal" | "update", options: T): T {
  if (typeof options !== "object" || options === null) throw invalid(what, "The options must be an object, or omitted.");
  checkOptionNames(what, options, SEND);
  return options;
}

export function checkedId(id: unknown, what = "runWorkflow"): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the check rejects them
  if (typeof id !== "string" || id === "" || id.length > 512 || /[\u0000-\u001f\u007f]|\p{Cs}/u.test(id)) {
    throw invalid(what, "An id must have 1 to 512 characters, no control characters and no unpaired surrogates.", "id");
  }
  return id;
}
/** A sender's key. It becomes part of a storage key. */
export function checkedKey(key: string | undefined): string | undefined {
  if (key === undefined) return undefined;
  if (typeof key !== "string" || key === "" || key.length > 512 || /\p{Cs}|^\0/u.test(key)) {
    throw invalid(
      "send",
      "An idempotency key must have 1 to 512 characters, no unpaired surrogates, and no NUL at its beginning.",
      "idempotencyKey",
    );
  }
  return key;
}

export function checkedDeterminism(mode: AnyOpenOptions["determinism"] = "off"): "off" | "warn" | "error" {
  if (mode === "off" || mode === "warn" || mode === "error") return mode;
  throw invalid("runWorkflow", 'determinism must be "off", "warn" or "error".', "determinism");
}

export function checkedCodec(codec: Codec): Codec {
  if (typeof (codec as Partial<Codec> | null)?.encode !== "function" || typeof codec.decode !== "function")
    throw invalid("runWorkflow", "A codec must have the functions encode and decode.", "codec");
  return typedCodec(codec);
}
