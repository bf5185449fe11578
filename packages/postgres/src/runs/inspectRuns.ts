// What consoles read of a database: lists without values, pages of turns, older executions, messages, registered workflows.
// Owns: these statements.
// Invariants: nothing here writes; a page of turns costs what it shows.

import type { Turn } from "@holdfast/core";
import {
  type ExecutionRow,
  type InspectStore,
  MOST_EXECUTIONS,
  parseCursor,
  type ReceivedMessage,
  type StorageState,
  type TurnQuery,
  type WorkflowRow,
} from "holdfast/store";
import { readNumber, readOptionalNumber, readOptionalText, readPayload, readText, text, type Value } from "../columns.ts";
import type { Connections } from "../connection/connections.ts";
import { SCHEMA_VERSION } from "../schema/migrate.ts";
import { attemptsOf } from "../sql/fragments.ts";
import { listRuns } from "./findRuns.ts";
import { type HistoryRow, turnsOf } from "./history.ts";
import { type AttemptColumns, attemptRow, type InboxColumns, inboxMessage } from "./runRow.ts";

/** Of a schema that was opened by a store, which migrates it. */
export const CURRENT: StorageState = { exists: true, schema: { found: SCHEMA_VERSION, known: SCHEMA_VERSION } };

type Columns = Readonly<Record<string, Value>>;

/** `s`: the schema, quoted. `state`: whether it is there. `understood` gives errors of damaged rows their type. */
export function inspectPostgres(
  db: Connections,
  s: string,
  state: () => StorageState,
  understood: <T>(answer: Promise<T>) => Promise<T>,
): InspectStore {
  const look = <T>(nothing: T, work: () => Promise<T>): Promise<T> => (state().exists ? understood(work()) : Promise.resolve(nothing));
  return {
    host: "PostgreSQL",
    state: async () => state(),
    listRuns: async (query) => {
      if (query.cursor !== undefined) parseCursor(query.cursor); // a wrong cursor is not a damaged row
      return look({ runs: [], cursor: undefined }, async () => {
        const { runs, cursor } = await listRuns(db, s, query, "without values");
        return { runs: runs.map(({ input: _input, output: _output, state: _state, seed: _seed, ...row }) => row), cursor };
      });
    },
    turnsOf: (runId, query) => look<Turn[]>([], () => readTurns(db, s, runId, query)),
    attemptsOf: (runId, execution) => look([], () => readAttempts(db, s, runId, execution)),
    workersOf: (runId, execution) => look(new Map(), () => readWorkers(db, s, runId, execution)),
    executionsOf: (runId) => look<ExecutionRow[]>([], () => readExecutions(db, s, runId)),
    messagesOf: (runId) => look<ReceivedMessage[]>([], () => readMessages(db, s, runId)),
    workflows: () => look<WorkflowRow[]>([], () => readWorkflows(db, s)),
  };
}

async function readTurns(
  db: Connections,
  s: string,
  runId: string,
  { execution, after = -1, limit, values = true }: TurnQuery,
): Promise<Turn[]> {
  if (limit !== undefined && limit < 1) return [];
  const [state, value] = values ? ["h.state", "h.value"] : ["NULL", "CASE WHEN h.value IS NULL THEN NULL ELSE 'null' END"];
  // The last turn of the page is found by the index alone.
  const last =
    limit === undefined
      ? ""
      : `AND h.turn <= coalesce((SELECT DISTINCT t.turn FROM ${s}.records t WHERE t.run = e.run AND t.execution = e.execution
        AND t.turn > $3 ORDER BY t.turn LIMIT 1 OFFSET $4), 2147483647)`;
  const sql = `SELECT e.workflow, e.version, e.seed, e.input, (SELECT json_agg(json_build_array(h.turn, h.time, h.history_length, h.worker, ${state},
      h.direction, h.type, h.seq, h.unit, h.name, h.n, h.refs, h.data, ${value}) ORDER BY h.turn, h.position)
      FROM ${s}.records h WHERE h.run = e.run AND h.execution = e.execution AND h.turn > $3 ${last}) AS records
    FROM ${s}.runs r JOIN ${s}.executions e ON e.run = r.key AND e.execution = coalesce($2, r.execution) WHERE r.id = $1`;
  const parameters = [text(runId), execution ?? null, Math.max(after, -1), ...(limit === undefined ? [] : [limit - 1])];
  const [row] = await db.query<Columns & { records: HistoryRow[] | null }>(sql, parameters);
  if (row === undefined) return [];
  const executionStart = {
    runId,
    workflow: readText(row["workflow"] as Value),
    version: readOptionalText(row["version"] as Value),
    seed: readText(row["seed"] as Value),
    input: readPayload(row["input"] as Value),
  };
  return turnsOf(row.records ?? [], executionStart);
}

async function readAttempts(
  db: Connections,
  s: string,
  runId: string,
  execution: number | undefined,
): ReturnType<InspectStore["attemptsOf"]> {
  const sql = `SELECT ${attemptsOf(s, "r.key", "coalesce($2, r.execution)", "true")} AS attempts FROM ${s}.runs r WHERE r.id = $1`;
  const [row] = await db.query<{ attempts: AttemptColumns[] | null }>(sql, [text(runId), execution ?? null]);
  return (row?.attempts ?? []).map(attemptRow);
}

async function readWorkers(db: Connections, s: string, runId: string, execution: number | undefined): Promise<Map<number, string>> {
  const rows = await db.query<{ turn: number; id: string }>(
    `SELECT h.turn, w.id FROM ${s}.runs r JOIN ${s}.records h ON h.run = r.key AND h.execution = coalesce($2, r.execution)
       JOIN ${s}.workers w ON w.key = h.worker WHERE r.id = $1 ORDER BY h.turn`,
    [text(runId), execution ?? null],
  );
  return new Map(rows.map(({ turn, id }) => [turn, readText(id)]));
}

async function readExecutions(db: Connections, s: string, runId: string): Promise<ExecutionRow[]> {
  const records = `FROM ${s}.records h WHERE h.run = e.run AND h.execution = e.execution`;
  const sql = `SELECT e.execution, e.workflow, e.version, e.input, (SELECT count(DISTINCT h.turn)::integer ${records}) AS turns,
      (SELECT h.time ${records} ORDER BY h.turn, h.position LIMIT 1) AS first,
      (SELECT h.time ${records} AND h.time IS NOT NULL ORDER BY h.turn DESC LIMIT 1) AS last,
      (SELECT h.type ${records} ORDER BY h.turn DESC, h.position DESC LIMIT 1) AS type
    FROM ${s}.runs r JOIN ${s}.executions e ON e.run = r.key WHERE r.id = $1 ORDER BY e.execution DESC LIMIT ${MOST_EXECUTIONS}`;
  const rows = await db.query<Columns>(sql, [text(runId)]);
  const found = rows.map((row) => ({
    execution: readNumber(row["execution"] as Value),
    workflow: readText(row["workflow"] as Value),
    version: readOptionalText(row["version"] as Value),
    input: readPayload(row["input"] as Value),
    turns: readNumber(row["turns"] as Value),
    firstTurnAt: readOptionalNumber(row["first"] as Value),
    lastTurnAt: readOptionalNumber(row["last"] as Value),
    lastRecord: readOptionalText(row["type"] as Value),
  }));
  return found.reverse();
}

async function readMessages(db: Connections, s: string, runId: string): Promise<ReceivedMessage[]> {
  const sql = `SELECT i.id, i.type, i.seq, i.name, i.refs, i.data, i.value, i.received_at FROM ${s}.runs r JOIN ${s}.inbox i ON i.run = r.key WHERE r.id = $1 ORDER BY i.id`;
  const rows = await db.query<Readonly<Record<string, InboxColumns[number]>>>(sql, [text(runId)]);
  return rows.map(({ id, type, seq, name, refs, data, value, received_at }) => ({
    ...inboxMessage([id, type, seq, name, refs, data, value] as InboxColumns),
    receivedAt: readNumber(received_at as Value),
  }));
}

async function readWorkflows(db: Connections, s: string): Promise<WorkflowRow[]> {
  const rows = await db.query<Columns>(
    `SELECT w.workflow, w.version, w.info FROM ${s}.workflows w ORDER BY w.workflow, w.version NULLS FIRST`,
  );
  return rows.map((row) => ({
    workflow: readText(row["workflow"] as Value),
    version: readOptionalText(row["version"] as Value),
    info: readText(row["info"] as Value),
  }));
}
