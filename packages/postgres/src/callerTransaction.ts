// Starts and signals in the caller's transaction: they exist if and only if it commits.
// Owns: which objects of which libraries count as a transaction.
// Invariants: no run that a worker may have is locked for as long as the caller's transaction lasts; wake-ups come with its commit; anything
// other than an open transaction is refused, since each statement would commit at once.

import { InvalidInputError } from "@holdfast/core";
import { type AddressedMessage, type CreateResult, type NewRun, type SendResult, StoreError, type StoreWithin } from "holdfast/store";
import { text } from "./columns.ts";
import type { Parameter } from "./connection/connections.ts";
import { placeholders } from "./connection/functions.ts";
import { isContended } from "./connection/serverErrors.ts";
import type { Context } from "./context.ts";
import { type SentAnswer, sendResult } from "./runs/commitTurns.ts";
import { createBatch, createResults } from "./runs/createRuns.ts";
import { addressedFields } from "./runs/runRow.ts";

/** Runs one statement in the caller's transaction; the first column of its first row. */
type Ask = (sql: string, values: readonly Parameter[]) => Promise<string | null>;

type Loose = Readonly<Record<string, unknown>>;
type Method = (...args: readonly unknown[]) => unknown;
type Rows = readonly Readonly<Record<string, unknown>>[];

/** `context`: of a store that is open, with the ids of all names that these runs refer to. */
export function within(tx: unknown, context: (runs: readonly NewRun[]) => Context | Promise<Context>): StoreWithin {
  const ask = askIn(tx);
  const post = async (messages: readonly AddressedMessage[]): Promise<SendResult[]> => {
    if (messages.length === 0) return [];
    const { notifications, place, now } = await context([]);
    const fields = messages.map(addressedFields);
    const values = [now(), notifications.channel, notifications.notice("mail"), JSON.stringify(fields)];
    const answer = await ask(`SELECT ${place.s}.post_mail_1($1, $2, $3, $4) AS answer`, values);
    return (JSON.parse(answer ?? "[]") as SentAnswer[]).map(sendResult);
  };
  const create = async (run: NewRun): Promise<CreateResult> => {
    const { names, notifications, place, now } = await context([run]);
    const messages = run.messages ?? [];
    // A run that a worker may have must not be locked for as long as this transaction lasts: its messages go by mail.
    const isSuperseding = run.onConflict === "replace" || run.onConflict === "debounce"; // the whole start goes by mail
    const isOpen =
      messages.length > 0 && run.onConflict !== "reject" && !isSuperseding
        ? await ask(`SELECT execution::text FROM ${place.s}.runs WHERE id = $1 AND finished_at IS NULL`, [text(run.id)])
        : null;
    const batch = createBatch([isOpen === null ? run : { ...run, messages: undefined }], names);
    // Nor is one that exists already: nothing is written to it, unless it has ended and begins again.
    const [rows, records, states, others] = batch.parameters;
    const runs = [rows, records, states, others, null, null];
    // The run that another one waits for is notified of it by mail (Q10).
    const notice = run.after === undefined && !isSuperseding ? notifications.notice("work") : notifications.notice("work", "mail");
    const values = [null, null, null, now(), ...runs, notifications.channel, notice, null];
    const answer = await ask(`SELECT ${place.s}.create_runs_1(${placeholders(values.length)}) AS answer`, values);
    const [result] = createResults([run], () => batch, answer ?? "{}") as [CreateResult];
    if (isOpen === null || result.status !== "existing") return result;
    const sent = await post(messages.map((message) => ({ runId: result.id, message })));
    return { ...result, inboxIds: sent.map((one) => ("inboxId" in one ? one.inboxId : 0)) };
  };
  return {
    create: async (runs) => {
      const results: CreateResult[] = [];
      for (const run of runs) results.push(await create(run));
      return results;
    },
    send: post,
  };
}

function askIn(tx: unknown): Ask {
  const ask = findWay(tx);
  return async (sql, values) => {
    let rows: Rows;
    try {
      rows = await ask(sql, values);
    } catch (error) {
      throw explained(error);
    }
    const [first] = rows;
    const value = first === undefined ? null : Object.values(first)[0];
    return typeof value === "string" ? value : value === null || value === undefined ? null : JSON.stringify(value);
  };
}

function findWay(tx: unknown): (sql: string, values: readonly Parameter[]) => Promise<Rows> {
  if ((typeof tx !== "object" && typeof tx !== "function") || tx === null) throw refused(`it is ${tx === null ? "null" : typeof tx}`);
  const given = tx as Loose;
  const has = (...names: readonly string[]): boolean => names.every((name) => typeof given[name] === "function");

  // postgres.js: `sql.begin((sql) => …)`.
  if (typeof tx === "function" && has("unsafe")) {
    if (!has("savepoint")) throw refused("it is a postgres.js client: use the sql that sql.begin hands to its function");
    return async (sql, values) => (await (given["unsafe"] as Method)(sql, [...values])) as Rows;
  }
  // Kysely: `db.transaction().execute((trx) => …)`.
  if (has("selectFrom", "executeQuery")) {
    if (given["isTransaction"] !== true)
      throw refused("it is a Kysely instance: use the trx that db.transaction().execute hands to its function");
    return async (sql, values) => {
      const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] };
      const { rows } = (await (given["executeQuery"] as Method).call(tx, {
        sql,
        parameters: [...values],
        query,
        queryId: { queryId: "holdfast" },
      })) as { rows: Rows };
      return rows;
    };
  }
  // Drizzle: `db.transaction((tx) => …)`.
  if (has("execute", "select", "insert")) {
    if (!has("rollback")) throw refused("it is a Drizzle database: use the tx that db.transaction hands to its function");
    return async (sql, values) => {
      const result = (await (given["execute"] as Method).call(tx, inlined(sql, values))) as Rows | { readonly rows: Rows };
      return "rows" in result ? result.rows : result;
    };
  }
  // pg.
  if (has("query")) {
    if (has("connect") && "totalCount" in given) throw refused("it is a pool: take a client of it, BEGIN on that, and give that client");
    const status = has("getTransactionStatus") ? (given["getTransactionStatus"] as Method).call(tx) : undefined;
    if (status === "I") throw refused("no transaction is open on it: BEGIN first");
    return async (sql, values) => ((await (given["query"] as Method).call(tx, sql, [...values])) as { rows: Rows }).rows;
  }
  throw refused("this store does not know its type");
}

function refused(why: string): InvalidInputError {
  return new InvalidInputError({
    what: "tx",
    issues: [
      { message: `must be an open transaction of pg, postgres.js, Drizzle or Kysely on the store's database; ${why}`, path: ["tx"] },
    ],
  });
}

/** Drizzle takes a statement as text. Escape strings mean the same whatever the server's settings say. */
function inlined(sql: string, values: readonly Parameter[]): string {
  return sql.replace(/\$(\d+)/g, (_, number: string) => {
    const value = values[Number(number) - 1];
    if (value === null || value === undefined) return "NULL";
    if (typeof value !== "string") return String(value);
    return `E'${value.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
  });
}

/** A call that conflicts with another can't be repeated here: the caller's transaction has failed. */
function explained(error: unknown): unknown {
  const cause = error instanceof Error && isContended(error.cause) ? error.cause : error;
  if (!isContended(cause)) return error;
  return new StoreError("Another transaction changed the same run.\nRoll this one back and repeat it.", {
    code: "HF_STORE_BUSY",
    cause,
    retryable: true,
  });
}
