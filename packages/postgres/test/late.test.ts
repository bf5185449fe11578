// Commits that come late: a copy of a call is still on its way, or under way, when it goes again. Its fate is known before any part of it
// is asked for under another name, so that nothing is written twice and nothing that was written is said to be refused.

import { Holdfast, type Logger, workflow } from "holdfast";
import { describe, expect, onTestFinished, test } from "vitest";
import { canOwnServers, LAST_BYTES, SlowNetwork } from "./server/index.ts";
import { type Database, draft, type Held, inboxOf, range, running, type TestStore, turnOf, until, useDatabase } from "./support.ts";

const database = useDatabase();
const COMMITTED = { status: "committed" };

/** One turn more of each, in one batch. */
const commit = (store: TestStore, ...held: Held[]): Promise<unknown[]> =>
  store.commit(held.map((one) => draft(one, { turn: turnOf(one), seen: 0 })));
const turnsOf = async (store: TestStore, { runId }: Held): Promise<number[]> => (await store.history(runId)).map(({ index }) => index);

async function slow(on: Database = database): Promise<SlowNetwork> {
  const network = await SlowNetwork.to(on.url);
  onTestFinished(() => network.close());
  return network;
}
/** A store through the network, with a connection for turns, and runs that it holds. */
async function bench(network: SlowNetwork, ids: readonly string[]): Promise<{ store: TestStore; held: Held[]; schema: string }> {
  const schema = database.newSchema();
  const store = await database.open({ schema, connectionString: network.url });
  const held = await Promise.all(ids.map((id) => running(store, id)));
  for (const _ of range(2)) await Promise.all(held.map((one) => commit(store, one)));
  return { store, held, schema };
}
/** Once: the end of the next piece with this text in it comes late. */
const lateOnce = (network: SlowNetwork, text: string, ms: number): void => {
  network.fault = (direction, piece) => {
    if (direction !== "asked" || !piece.includes(text)) return undefined;
    network.fault = () => undefined;
    return { bytes: LAST_BYTES, ms };
  };
};

test("D2 D3 V4 a batch whose commit comes late, behind another: it is waited for, and not taken apart", async () => {
  const network = await slow();
  const { store, held, schema } = await bench(network, ["a", "b", "c", "d"]);
  const [a, b, ...others] = held as [Held, Held, ...Held[]];
  await commit(store, a, b); // by name from now on
  const holder = await database.client();
  await holder.query("BEGIN");
  await holder.query(`SELECT 1 FROM "${schema}".runs WHERE id = 'a' FOR UPDATE`);
  const first = commit(store, a);
  await until(async () => (await database.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")).length > 0, "the first");
  lateOnce(network, "b", 3_000); // the batch carries the ids of its runs
  const second = commit(store, b, ...others);
  await until(() => network.faults > 0, "the second on its way");
  await holder.query("ROLLBACK");
  expect(await first).toMatchObject([COMMITTED]);
  expect(await second).toMatchObject([b, ...others].map(() => COMMITTED));
  expect(await turnsOf(store, b)).toEqual([0, 1, 2, 3]);
}, 30_000);

test("D2 a call that was abandoned is never carried out, however late it comes; one that was carried out keeps its answer", async () => {
  const schema = database.newSchema();
  const store = await database.open({ schema });
  const ask = async (call: string): Promise<unknown> => (await database.sql(`SELECT "${schema}".${call} AS answer`))[0]?.["answer"];
  const send = (token: number): Promise<unknown> =>
    ask(`send_messages_1('here', 1, ${token}, NULL, '[{"o":0,"r":"a","y":"signal","m":"go","f":["s"],"v":"1"}]', NULL, false)`);
  const held = await running(store, "a");
  expect(await ask("give_up_call_1('here', 1, 1)")).toBe(null);
  expect(await ask("give_up_call_1('here', 1, 1)")).toBe(null); // its first answer may be lost, too
  await send(1);
  expect(await inboxOf(store, held)).toEqual([]);
  const answer = await send(2);
  expect(await ask("give_up_call_1('here', 1, 2)")).toBe(answer);
  expect(await send(2)).toBe(answer);
  expect(await inboxOf(store, held)).toHaveLength(1);
});

const lines = (): { logger: Logger; errors: unknown[] } => {
  const errors: unknown[] = [];
  const note = (message: string, fields?: object): void => void errors.push([message, fields]);
  return { logger: { debug() {}, info() {}, warn: note, error: note }, errors };
};

const ENGINES = 2;
/** Runs of three steps each, on several engines, while there are more to come. What went wrong: runs, log lines, steps that did not run once. */
async function underLoad(url: string, schema: string, more: (started: number) => boolean, onOpen = (): void => {}): Promise<unknown[]> {
  const ran = new Map<string, number>();
  const count = (key: string): string => {
    ran.set(key, (ran.get(key) ?? 0) + 1);
    return key;
  };
  const order = workflow("order", async (ctx, id: string) => {
    for (const i of range(3)) await ctx.step(`step-${i}`, async () => count(`${id}/${i}`), { retry: { maxAttempts: 1 } });
    return id;
  });
  const { logger, errors } = lines();
  const all = await Promise.all(range(ENGINES).map(() => Holdfast.open(`${url}?schema=${schema}`, { logger })));
  for (const engine of all) onTestFinished(() => engine.close());
  onOpen();
  for (const engine of all) await engine.worker({ workflows: [order], concurrency: 60 });
  const bad: unknown[] = [];
  let next = 0;
  const drive = async (engine: Holdfast): Promise<void> => {
    while (more(next)) {
      const id = `r${next++}`;
      const run = await engine.start(order, id, { id });
      await run.result().catch((error: unknown) => bad.push([id, error]));
    }
  };
  await Promise.all(all.flatMap((engine) => range(60).map(() => drive(engine))));
  const steps = range(next).flatMap((n) => range(3).map((i) => `r${n}/${i}`));
  return [...bad, ...errors, ...steps.filter((key) => ran.get(key) !== 1).map((key) => [key, ran.get(key)])];
}

const isNight = (process.env["HOLDFAST_NIGHTLY"] ?? "") !== "";
/** At least so many; more of them in `npm run nightly`. */
const RUNS = isNight ? 4_000 : 150;
const PATIENCE = isNight ? 1_800_000 : 240_000;
interface Slow {
  readonly direction: "asked" | "answered";
  readonly bytes: number;
  readonly ms: number;
  /** Of a piece to be held back. */
  readonly chance: number;
}
const ALL = Number.POSITIVE_INFINITY;

describe("V4 D6 D7 under load, no run is blocked or failed and no step runs twice, where", () => {
  test.each<[string, Slow]>([
    ["the last bytes of what is asked come 3 s late", { direction: "asked", bytes: LAST_BYTES, ms: 3_000, chance: 0.06 }],
    ["the last bytes of what is asked come 1.6 s late", { direction: "asked", bytes: LAST_BYTES, ms: 1_600, chance: 0.1 }],
    ["whole messages come 1.6 s late", { direction: "asked", bytes: ALL, ms: 1_600, chance: 0.1 }],
    ["answers come 1.6 s late", { direction: "answered", bytes: ALL, ms: 1_600, chance: 0.1 }],
  ])(
    "%s",
    async (_, { direction, bytes, ms, chance }) => {
      const network = await slow();
      const schema = database.newSchema();
      await database.open({ schema });
      // Not while the engines open: a LISTEN that is answered as late as that counts as one that does not work, and the log says so.
      const slowDown = (): void => {
        network.fault = (which, piece) =>
          which === direction && piece.length > 40 && Math.random() < chance ? { bytes: Math.min(bytes, piece.length), ms } : undefined;
      };
      expect(await underLoad(network.url, schema, (started) => started < RUNS || network.faults < 5, slowDown)).toEqual([]);
    },
    PATIENCE,
  );

  if (canOwnServers) {
    describe("the server stands still", () => {
      const own = useDatabase({ own: true });
      test(
        "in pulses of 1.6 s, some of its processes at a time",
        async () => {
          const schema = own.newSchema();
          await own.open({ schema });
          const client = await own.client();
          let isOver = false;
          let pulses = 0;
          const frozen = new Set<number>();
          const thaw = (): void => {
            for (const pid of frozen) process.kill(pid, "SIGCONT");
            frozen.clear();
          };
          onTestFinished(thaw);
          const pulse = async (): Promise<void> => {
            while (!isOver) {
              await new Promise((resolve) => setTimeout(resolve, 50));
              const { rows } = await client.query<{ pid: number }>(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast' AND state = 'active' AND random() < 0.7",
              );
              for (const { pid } of rows) {
                try {
                  process.kill(pid, "SIGSTOP");
                  frozen.add(pid);
                } catch {} // it has ended
              }
              if (rows.length > 0) pulses++;
              await new Promise((resolve) => setTimeout(resolve, rows.length > 0 ? 1_600 : 5));
              thaw();
            }
          };
          const pulsing = pulse();
          const bad = await underLoad(own.url, schema, (started) => started < RUNS || pulses < 8).finally(() => {
            isOver = true;
          });
          await pulsing;
          expect(bad).toEqual([]);
        },
        PATIENCE,
      );
    });
  }
});
