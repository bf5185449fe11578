// Functions of the schema, called by name.
// Owns: the text of each call: the same each time, so that connections that have prepared it recognise it.
// Invariants: `ask` is for functions that write nothing, or the same again if they are called twice; `call` is for all others (D2).

import type { CallOptions, Connections, Parameter, QueryOptions, Statement } from "./connections.ts";

export class Functions {
  readonly #connections: Connections;
  readonly #s: string;
  readonly #statements = new Map<string, string>();

  readonly #retention: number | undefined;

  /** `s`: the schema, quoted. `retention`: how long the engine keeps closed runs, in milliseconds. */
  constructor(connections: Connections, s: string, retention?: number) {
    this.#connections = connections;
    this.#s = s;
    this.#retention = retention;
  }
  /** The call of a function that returns one value. */
  sqlOf(name: string, parameters: number): string {
    const known = this.#statements.get(name);
    if (known !== undefined) return known;
    const call = `SELECT ${this.#s}.${name}(${placeholders(parameters)}) AS answer`;
    const sql =
      this.#retention === undefined || !ENDS_RUNS.has(name) ? call : `${keptFor(this.#retention)} ${call} FROM kept WHERE kept.said <> ''`;
    this.#statements.set(name, sql);
    return sql;
  }
  async ask(name: string, values: readonly Parameter[], how: QueryOptions = {}): Promise<string> {
    const [row] = await this.#connections.query<{ answer: string | number }>(this.sqlOf(name, values.length), values, how);
    return String(row?.answer ?? "");
  }
  /** Parameters that are given as a function are made when they are needed. */
  async call(name: string, values: readonly Parameter[] | (() => readonly Parameter[]), how: CallOptions = {}): Promise<string> {
    const statementOf = (): Statement => {
      const given = typeof values === "function" ? values() : values;
      return { sql: this.sqlOf(name, given.length + 3), values: given };
    };
    const [row] = await this.#connections.call<{ answer: string }>(statementOf, how);
    return row?.answer ?? "{}";
  }
}

/** Functions that may end a run, whatever it follows from. */
const ENDS_RUNS: ReadonlySet<string> = new Set([
  "commit_turns_1",
  "create_runs_1",
  "expire_runs_1",
  "send_messages_1",
  "terminate_runs_1",
  "tick_schedules_1",
]);
/** B4: for as long as the statement takes, so that it works with a pooler that gives connections to others in between (see `kept_for_1`). */
const keptFor = (ms: number): string => `WITH kept AS MATERIALIZED (SELECT set_config('runs.kept_for', '${ms}', true) AS said)`;

export function placeholders(count: number): string {
  return Array.from({ length: count }, (_, i) => `$${i + 1}`).join(", ");
}
