// Sessions whose connections were abandoned, since no answer came.
// Owns: the list of them, until the server has ended them.
// Invariants: the server does not know that the client is gone: the session would continue, and keep its locks. So it is ended from another
// connection. Only sessions of this store are ended.

import type { Client } from "pg";
import { takeLeave } from "./pipeline.ts";
import { isUnavailable } from "./serverErrors.ts";

interface AbandonedSessionsOptions {
  /** A connection outside of the pools. */
  readonly lone: () => Client;
  /** Tries again while the server can't be reached, as long as the patience lasts. */
  readonly patiently: (attempt: () => Promise<void>) => Promise<void>;
  readonly isClosed: () => boolean;
}

/** The pause between two tries, if the first one has used up the patience. */
const AGAIN_MS = 1_000;

export class AbandonedSessions {
  readonly #options: AbandonedSessionsOptions;
  /** By process id: when the session was abandoned. */
  readonly #sessions = new Map<number, number>();
  #isEnding = false;

  constructor(options: AbandonedSessionsOptions) {
    this.#options = options;
  }
  add(client: object): void {
    const { processID } = client as { readonly processID?: number | null };
    if (typeof processID === "number") this.#sessions.set(processID, performance.now());
    if (!this.#isEnding && this.#sessions.size > 0) void this.#endAll();
  }
  /** Sessions that can't be ended now are ended with the next. */
  async #endAll(): Promise<void> {
    const { patiently, isClosed } = this.#options;
    this.#isEnding = true;
    while (this.#sessions.size > 0 && !isClosed()) {
      await patiently(() => this.#tell()).catch((error: unknown) => {
        if (!isUnavailable(error)) this.#sessions.clear(); // the role may not end sessions
      });
      if (this.#sessions.size > 0) await new Promise((resolve) => void setTimeout(resolve, AGAIN_MS).unref());
    }
    this.#isEnding = false;
  }
  async #tell(): Promise<void> {
    if (this.#options.isClosed()) return;
    const client = this.#options.lone();
    client.on("error", () => undefined);
    try {
      await client.connect();
      while (this.#sessions.size > 0) {
        const now = performance.now();
        const pids = [...this.#sessions.keys()];
        await client.query(END_SESSIONS, [pids, [...this.#sessions.values()].map((since) => now - since)]);
        for (const pid of pids) this.#sessions.delete(pid);
      }
    } finally {
      await takeLeave(client);
    }
  }
}

/**
 * A process id may have been reused, or belong to a pooler: only sessions with our user, database and application name are ended.
 * And none that waits for a synchronous standby: its writes would become visible at once, and would wrongly count as safe.
 */
const END_SESSIONS = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN unnest($1::integer[], $2::float8[]) AS gone(pid, ms) USING (pid)
  WHERE pid <> pg_backend_pid() AND backend_start < clock_timestamp() - gone.ms * interval '1 millisecond' AND usename = session_user AND datname = current_database() AND application_name = current_setting('application_name')
  AND wait_event IS DISTINCT FROM 'SyncRep'`;
