// What the thread that reads an SQLite file and the thread that asks it tell each other.
// Owns: types only.
// Invariants: everything can be cloned between threads.

import type { LibraryName } from "../store/sqlite/library.ts";

export interface ThreadSettings {
  readonly path: string;
  readonly library: LibraryName | undefined;
}
export interface Request {
  /** 0: no answer is expected. */
  readonly id: number;
  readonly of: "store" | "inspect" | "watch";
  readonly method: string;
  readonly given: readonly unknown[];
  /** The time of the asking thread. */
  readonly now: number;
}
/** With the id 0: the file has changed. */
export interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly name: string; readonly message: string; readonly code: string | undefined; readonly retryable: boolean };
}
