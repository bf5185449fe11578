// What handlers work on: an engine to write, an inspection to read, and the user's code if it is at hand.
// Owns: these types.
// Invariants: a handler that only reads uses the inspection alone; the user's code never runs in this process (CodeHost).

import type { Holdfast, RunStatus } from "holdfast";
import type { Inspection, WorkflowSchemas } from "holdfast/inspect";
import type { BulkTokens } from "./bulkTokens.ts";
import type { Issue } from "./problem.ts";
import type { Role } from "./routes.ts";

/** A run, as the code needs it to find its workflow. */
export interface RunForCode {
  /** The id of the run. */
  readonly id: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that it was started with. */
  readonly version: string | undefined;
}
/** A run as a query needs it. Values are as the default codec writes them. */
export interface RunForQuery extends RunForCode {
  /** Where it is in its life. */
  readonly status: RunStatus;
  /** The published state. */
  readonly state: unknown;
}
/** A workflow that the code defines. */
export interface CodeWorkflow {
  /** The name of the workflow. */
  readonly name: string;
  /** The version that its starts have. */
  readonly version: string | undefined;
  /** The versions whose runs it can replay; "*" means all. */
  readonly versions: "*" | readonly (string | undefined)[];
  /** What its input and messages look like. */
  readonly schemas: WorkflowSchemas;
}
/** The user's code in a process of its own. `dev` and `dashboard` have one. */
export interface CodeHost {
  /** The workflows that the code defines. */
  describe(): Promise<readonly CodeWorkflow[]>;
  /**
   * Answers a query.
   * @throws `QueryFailedError` if it fails.
   * @throws an error with the code HF_NO_CODE if the code has no such workflow.
   */
  query(run: RunForQuery, name: string, input: unknown): Promise<unknown>;
  /**
   * Where the code asks for the operation: `file`, `line` and `column`; without a location: where it diverges from the history. Null: that
   * is not known.
   */
  source(
    run: RunForCode,
    execution: number | undefined,
    location: string | undefined,
  ): Promise<{ readonly file: string; readonly line: number; readonly column: number } | null>;
  /**
   * Checks a value against the schema of the code: that of the input, or with the `name` of a signal or update (`kind`) that of its
   * payload. Undefined: it has no schema for it.
   */
  validate(
    workflow: string,
    version: string | undefined,
    part: { readonly kind: "input" } | { readonly kind: "signal" | "update"; readonly name: string },
    value: unknown,
  ): Promise<readonly Issue[] | undefined>;
}

/** A caller of the API. */
export interface Caller {
  /** The name under which its calls are known. */
  readonly name: string;
  /** What it may do. */
  readonly role: Role;
  /** Whether it may see user values. */
  readonly values: boolean;
}

/** What handlers work on. */
export interface ConsoleContext {
  /** Absent: opened for reading only. A function: opened when the first handler writes. */
  engine(): Promise<Holdfast>;
  /** What reads the store. */
  inspection(): Promise<Inspection>;
  /** The user's code, if it is at hand. */
  readonly code?: CodeHost | undefined;
  /** The previews of bulk actions that may be started. */
  readonly bulkTokens: BulkTokens;
  /** Whether calls that write are refused. */
  readonly readOnly: boolean;
  /** Reads once for all calls that ask for the same in answer to one event. Absent: the call is not an answer to an event. */
  readonly shared?: (<T>(key: string, read: () => Promise<T>) => Promise<T>) | undefined;
  /** Milliseconds since 1970. */
  now(): number;
}
