// An open store: its connections and the parts that carry out its calls.
// Owns: the order in which they begin.
// Invariants: a store that can't be opened leaves no connection behind.

import type { Expired, StoreSettings, TurnCommit } from "holdfast/store";
import { Connections, type Session } from "./connection/connections.ts";
import { Functions } from "./connection/functions.ts";
import type { Context } from "./context.ts";
import { LiveWorkers } from "./liveWorkers.ts";
import { NameIds } from "./nameIds.ts";
import { Notifications } from "./notifications.ts";
import { type PostgresStoreOptions, retentionOf } from "./options.ts";
import { Overdue } from "./overdue.ts";
import { Queues } from "./queues.ts";
import { Refusals } from "./refusals.ts";
import { RunClaims } from "./runs/claimRuns.ts";
import { ExecutionStarts } from "./runs/executionStarts.ts";
import { OneStatements } from "./runs/oneStatement.ts";
import { Retention } from "./runs/retireRuns.ts";
import { Slots } from "./runs/slots.ts";
import { Schedules } from "./schedules.ts";
import { migrate, type Place } from "./schema/migrate.ts";
import { checkSettings } from "./schema/settings.ts";
import { Tasks } from "./tasks.ts";
import { Transactions } from "./transactions.ts";

const DEFAULT_CONNECTIONS = 4;
const DEFAULT_PATIENCE_MS = 30_000;
/** The first connection waits for a server that is starting; a server that can't be reached is soon reported. */
const OPEN_PATIENCE_MS = 5_000;
const QUIET = { debug() {}, info() {}, warn() {}, error() {} };

export interface Opened extends Context {
  readonly executionStarts: ExecutionStarts;
  readonly oneStatements: OneStatements;
  readonly claims: RunClaims;
  readonly overdue: Overdue;
  readonly queues: Queues;
  readonly slots: Slots;
  readonly retention: Retention;
  readonly liveWorkers: LiveWorkers;
  readonly schedules: Schedules;
  readonly tasks: Tasks;
  readonly transactions: Transactions;
}

interface Opening {
  readonly options: PostgresStoreOptions;
  readonly settings: StoreSettings;
  readonly place: Place;
  /** The time of a test. Null: the server's clock. */
  readonly now: () => number | null;
  /** Calls of the store itself. */
  readonly calls: { commit(turns: readonly TurnCommit[]): Promise<unknown>; expire(): Promise<Expired> };
}

export async function openParts({ options, settings, place, now, calls }: Opening): Promise<Opened> {
  const { connectionString, patience = DEFAULT_PATIENCE_MS, noAnswer, logger = QUIET, listen = true, archive = false } = options;
  const retention = retentionOf(settings.retention ?? options.retention);
  const { s, where } = place;
  const most = options.connections ?? DEFAULT_CONNECTIONS;
  const connections = new Connections({ connectionString, connections: most, s, where, patience, noAnswer, logger });
  const notifications = new Notifications(connections, place, logger, () => void overdue.deliverMail().catch(() => undefined));
  const functions = new Functions(connections, s, retention);
  const names = new NameIds(connections, s);
  const context: Context = { connections, functions, names, notifications, refusals: new Refusals(logger), place, logger, now };
  const retired = new Retention(context, archive);
  const overdue = new Overdue(context, retired);
  try {
    const prepare = async (session: Session): Promise<void> => {
      await checkSettings(session, place);
      await migrate(session, place);
    };
    await connections.firstSession(prepare, Math.min(patience, OPEN_PATIENCE_MS));
    await notifications.start(listen);
  } catch (error) {
    await connections.close();
    throw error;
  }
  const executionStarts = new ExecutionStarts();
  const slots = new Slots();
  return {
    ...context,
    oneStatements: new OneStatements(s, retention),
    overdue,
    executionStarts,
    claims: new RunClaims(context, { executionStarts, slots, ...calls }),
    queues: new Queues(context),
    slots,
    schedules: new Schedules(context),
    retention: retired,
    liveWorkers: new LiveWorkers(context),
    tasks: new Tasks(context, overdue),
    transactions: new Transactions(connections, s, now),
  };
}
