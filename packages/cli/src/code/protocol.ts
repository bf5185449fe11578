// What the command line and the process with the user's code say to each other.
// Owns: the types of these messages.
// Invariants: values cross as structured clones; errors as SerializedError, so that their class and code arrive.

import type { History, Payload, SerializedError } from "@holdfast/core";
import type { TemporalEvents } from "holdfast";
import type { CodeWorkflow } from "../api/context.ts";
import type { Issue } from "../api/problem.ts";
import type { WorkerConfig } from "../config/index.ts";
import type { SourcePlace } from "../hook/index.ts";

export interface LoadRequest {
  /** Absolute paths of the entries. */
  readonly files: readonly string[];
  /** Paths in messages are relative to it. */
  readonly cwd: string;
  readonly url: string;
  readonly namespace: string | undefined;
  /** Has the codec. */
  readonly configFile: string | undefined;
}
export interface LoadResult {
  /** Names, sorted. */
  readonly workflows: readonly string[];
  /** Every file that was loaded, except for those in node_modules; also when loading failed. */
  readonly files: readonly string[];
  /** Why the code can't be used. */
  readonly problem: string | undefined;
}
export interface WorkRequest {
  readonly workers: readonly WorkerConfig[];
}

/** A history to replay: given, or of the store, by the id of its run. */
export interface ReplayItem {
  readonly runId: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly history?: History | TemporalEvents | undefined;
}
export interface ReplayRequest {
  readonly items: readonly ReplayItem[];
  readonly strict: boolean;
}
export interface OpenRunsRequest {
  readonly most: number;
  /** In milliseconds. */
  readonly within: number;
}
export interface Divergence {
  readonly location: string;
  readonly field: string;
  readonly expected: unknown;
  readonly actual: unknown;
  /** `file` is relative to the working directory, if it is below it. */
  readonly source: SourcePlace | null;
  readonly advice: string;
}
export interface ReplayOutcome {
  readonly runId: string;
  readonly workflow: string;
  /** "gone": the run was deleted meanwhile. */
  readonly status: "passed" | "diverged" | "skipped" | "failed" | "gone";
  readonly divergence?: Divergence | undefined;
  /** Why it was skipped, or failed. */
  readonly reason?: string | undefined;
}
export interface OpenRunsResult {
  readonly checked: number;
  /** There are more open runs than were looked at. */
  readonly isPartial: boolean;
  readonly diverged: readonly ReplayOutcome[];
  readonly failed: readonly ReplayOutcome[];
}

export type MessagePart = { readonly kind: "input" } | { readonly kind: "signal" | "update"; readonly name: string };

export interface CodeCalls {
  load: { readonly request: LoadRequest; readonly reply: LoadResult };
  describe: { readonly request: undefined; readonly reply: readonly CodeWorkflow[] };
  /** The state and the reply are payloads of the default codec. */
  query: {
    readonly request: {
      readonly workflow: string;
      readonly version: string | undefined;
      readonly state: Payload | undefined;
      readonly name: string;
      readonly input: unknown;
    };
    readonly reply: Payload;
  };
  validate: {
    readonly request: {
      readonly workflow: string;
      readonly version: string | undefined;
      readonly part: MessagePart;
      readonly value: unknown;
    };
    readonly reply: readonly Issue[] | undefined;
  };
  /** Where the code asks for the operation, or, without a location, where it diverges from the history. */
  source: {
    readonly request: {
      readonly runId: string;
      readonly execution: number | undefined;
      readonly workflow: string;
      readonly version: string | undefined;
      readonly location: string | undefined;
    };
    readonly reply: SourcePlace | null;
  };
  /** Each outcome is reported as it is known: the reply is empty. */
  replay: { readonly request: ReplayRequest; readonly reply: undefined };
  replayOpen: { readonly request: OpenRunsRequest; readonly reply: OpenRunsResult };
  work: { readonly request: WorkRequest; readonly reply: undefined };
  /** Stops claiming at once, and answers; the process ends when its workers have stopped. */
  retire: { readonly request: undefined; readonly reply: undefined };
  /** Whether its workers claim. */
  ping: { readonly request: undefined; readonly reply: boolean };
}
export type CallName = keyof CodeCalls;

export type ToCode = { [N in CallName]: { readonly id: number; readonly call: N; readonly request: CodeCalls[N]["request"] } }[CallName];
export type FromCode =
  | { readonly id: number; readonly reply: unknown }
  | { readonly id: number; readonly error: SerializedError }
  | { readonly outcome: ReplayOutcome };
