// Job: stores on a real server, for tests.
// Owns: the databases and stores of a test file; everything that was opened is closed after each test.
// Invariants: nothing is waited for by sleeping.

import { type SettledStore, settled } from "@holdfast/conformance/bench";
import { jsonCodec, type Turn } from "@holdfast/core";
import type {
  AddressedMessage,
  ClaimedRun,
  ClaimRequest,
  CommitResult,
  CreateResult,
  DeleteResult,
  Heartbeat,
  HeldClaim,
  InboxJob,
  InboxMessage,
  NewRun,
  Renewal,
  ResumeResult,
  SendResult,
  TaskAnswer,
  Termination,
  Tick,
  TickResult,
  TurnCommit,
} from "holdfast/store";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll } from "vitest";
import { PostgresStore, type PostgresStoreOptions } from "../src/index.ts";
import { emptySchema, type ServerOptions, startServer, type TestServer } from "./server/index.ts";

/** As the batcher of an engine uses it: what is busy is asked for again until it is not. */
export class TestStore extends PostgresStore {
  override create(runs: readonly NewRun[]): Promise<CreateResult[]> {
    return settled(runs, (some) => super.create(some));
  }
  override commit(turns: readonly TurnCommit[]): Promise<CommitResult[]> {
    return settled(turns, (some) => super.commit(some));
  }
  override send(messages: readonly AddressedMessage[]): Promise<SendResult[]> {
    return settled(messages, (some, wait) => super.send(some, wait));
  }
  override tick(ticks: readonly Tick[]): Promise<TickResult[]> {
    return settled(ticks, (some, wait) => super.tick(some, wait));
  }
  override renew(workerId: string, lease: number, claims: readonly HeldClaim[]): Promise<Renewal[]> {
    return settled(claims, (some, wait) => super.renew(workerId, lease, some, wait));
  }
  override terminate(runs: readonly Termination[]): Promise<SendResult[]> {
    return settled(runs, (some) => super.terminate(some));
  }
  override resume(runIds: readonly string[]): Promise<ResumeResult[]> {
    return settled(runIds, (some) => super.resume(some));
  }
  override delete(runIds: readonly string[]): Promise<DeleteResult[]> {
    return settled(runIds, (some) => super.delete(some));
  }
  override heartbeat(beats: readonly Heartbeat[]): Promise<boolean[]> {
    return settled(beats, (some) => super.heartbeat(some));
  }
  override answerTasks(answers: readonly TaskAnswer[]): Promise<boolean[]> {
    return settled(answers, (some, wait) => super.answerTasks(some, wait));
  }
}

export type { SettledStore };

export interface Database {
  readonly url: string;
  readonly server: TestServer;
  /** A schema that no other test has, and that is yet to be made. */
  newSchema(): string;
  /** A schema with nothing in it, which an earlier test may have used. Not for a test that changes more than rows. */
  emptySchema(): Promise<string>;
  /** An opened store, which is closed after the test. */
  open(options?: Partial<PostgresStoreOptions>): Promise<TestStore>;
  /** The same, as it is. */
  openBare(options?: Partial<PostgresStoreOptions>): Promise<PostgresStore>;
  /** One statement on a connection of its own. */
  sql<R extends object = Record<string, unknown>>(text: string, values?: unknown[]): Promise<R[]>;
  /** A connected client, which is ended after the test. */
  client(): Promise<Client>;
}

/** A database of its own for this file. */
export function useDatabase(options: ServerOptions = {}): Database {
  let server: TestServer | undefined;
  let url = "";
  let schemas = 0;
  const stores: PostgresStore[] = [];
  const clients: Client[] = [];
  const free: string[] = [];
  const lent: string[] = [];
  beforeAll(async () => {
    server = await startServer(options);
    url = await server.createDatabase();
  }, 60_000);
  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()));
    await Promise.all(clients.splice(0).map((client) => client.end().catch(() => undefined)));
    free.push(...lent.splice(0));
  });
  afterAll(async () => {
    await server?.stop();
  }, 60_000);
  const connect = async (): Promise<Client> => {
    const client = new Client({ connectionString: url });
    client.on("error", () => undefined);
    await client.connect();
    return client;
  };
  const opened = async <S extends PostgresStore>(store: S): Promise<S> => {
    stores.push(store);
    await store.open();
    return store;
  };
  return {
    get url() {
      return url;
    },
    get server() {
      if (server === undefined) throw new Error("The server is not started yet.");
      return server;
    },
    newSchema: () => `test_${++schemas}`,
    async emptySchema() {
      const used = free.pop();
      if (used !== undefined) await emptySchema(url, used);
      const schema = used ?? `test_${++schemas}`;
      lent.push(schema);
      return schema;
    },
    open: (given = {}) => opened(new TestStore({ connectionString: url, ...given })),
    openBare: (given = {}) => opened(new PostgresStore({ connectionString: url, ...given })),
    async sql<R extends object>(text: string, values: unknown[] = []): Promise<R[]> {
      const client = await connect();
      try {
        return (await client.query<R>(text, values)).rows;
      } finally {
        await client.end();
      }
    },
    async client() {
      const client = await connect();
      clients.push(client);
      return client;
    },
  };
}

/** Looks until it is so, for less time than a test may take: the failure says what was waited for. */
export async function until<T>(look: () => T | Promise<T>, what = "it"): Promise<Exclude<T, false | undefined | null>> {
  const end = Date.now() + 50_000;
  for (;;) {
    const found = await look();
    if (found !== false && found !== undefined && found !== null) return found as Exclude<T, false | undefined | null>;
    if (Date.now() > end) throw new Error(`Timed out waiting for ${what}.`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A run to be created, with what tests leave open filled in. */
export function newRun(id: string, more: Partial<NewRun> = {}): NewRun {
  const input = jsonCodec.encode(id);
  const defaults = { workflow: "order", version: undefined, input, queue: "default", priority: 0, attributes: {}, seed: `seed of ${id}` };
  return { id, ...defaults, onConflict: "reject", ...more };
}
export const signal = (id: string, name = "poke"): InboxJob => ({ type: "signal", id, name, payload: jsonCodec.encode(id) });
export const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** A claim as a worker holds it. */
export interface Held {
  readonly runId: string;
  readonly execution: number;
  readonly epoch: number;
  readonly workerId: string;
  turns: number;
}
export async function claim(store: SettledStore, more: Partial<ClaimRequest> = {}): Promise<ClaimedRun[]> {
  const serves = [{ workflow: "order", versions: "*" }] as const;
  const { runs } = await store.claim({
    workerId: "w1",
    queue: "default",
    serves,
    limit: 100,
    lease: 30_000,
    cached: () => undefined,
    ...more,
  });
  return [...runs];
}
export function heldOf({ run }: ClaimedRun): Held {
  return { runId: run.id, execution: run.execution, epoch: run.epoch, workerId: run.workerId ?? "", turns: run.turns };
}
/** A new run, claimed. */
export async function running(store: SettledStore, id: string, more: Partial<NewRun> = {}): Promise<Held> {
  await store.create([newRun(id, { queue: `queue of ${id}`, ...more })]);
  const [claimed] = await claim(store, { queue: `queue of ${id}`, ...(more.queue !== undefined && { queue: more.queue }) });
  if (claimed === undefined) throw new Error(`${id} can't be claimed.`);
  return heldOf(claimed);
}
/** The next turn of a held run: one step more. */
export function turnOf(held: Held, more: Partial<Turn> = {}): Turn {
  const index = held.turns++;
  const step = { type: "step", seq: index + 1, unit: "", name: `step-${index}`, n: 0 } as const;
  return { index, time: 1_000 + index, historyLength: index, jobs: [], commands: [step], ...more };
}
export function draft({ runId, execution, epoch, workerId }: Held, more: Partial<TurnCommit> = {}): TurnCommit {
  return { runId, execution, epoch, workerId, status: "running", lease: "keep", ...more };
}
export const COMPLETED = { status: "completed", close: { status: "completed", output: jsonCodec.encode("done") } } as const;
export async function inboxOf(store: SettledStore, { runId, epoch, workerId }: Held, seen = 0): Promise<readonly InboxMessage[]> {
  const [renewed] = await store.renew(workerId, 30_000, [{ runId, epoch, seen }]);
  if (renewed?.held !== true) throw new Error(`The claim of ${runId} does not hold.`);
  return renewed.inbox;
}
