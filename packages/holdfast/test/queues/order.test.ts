// Claims of limited and keyed queues against brute force: every run is looked at, after every claim.
// Each case is a random program by its seed: runs come, are claimed, park, end, lose their workers, limits change, keys pause.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jsonCodec } from "@holdfast/core";
import { PostgresStore } from "@holdfast/postgres";
import { emptySchema, startServer, type TestServer } from "@holdfast/postgres-server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { longestWindow } from "../../src/store/filing/rules.ts";
import { MemoryStore } from "../../src/store/memory/store.ts";
import type { ClaimedRun, NewRun, RunRow, Store } from "../../src/store/port.ts";
import type { QueueLimit, QueueStore, StoredQueueSpec } from "../../src/store/queuePort.ts";
import { SqliteStore } from "../../src/store/sqlite/store.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-order-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const LEASE = 1_000;
const KEYS = ["a", "b", "c", "d", undefined] as const;
const SERVES = ["one", "two"].map((workflow) => ({ workflow, versions: "*" as const }));

class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed * 2_654_435_761 + 1;
  }
  below(n: number): number {
    this.#state = (Math.imul(this.#state ^ (this.#state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) | 0;
    return ((this.#state ^ (this.#state >>> 13)) >>> 0) % n;
  }
  of<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }
  chance(percent: number): boolean {
    return this.below(100) < percent;
  }
}

/** What the rules say, from all rows and from what was claimed so far. */
class Model {
  readonly random: Random;
  readonly store: Store & QueueStore;
  spec: StoredQueueSpec | undefined;
  now = 1_000_000;
  readonly paused = new Set<string>();
  readonly ids: string[] = [];
  readonly claims = new Map<string, { readonly epoch: number; readonly execution: number; turns: number }>();
  /** Those that hold a slot in a queue that counts open runs. */
  readonly open = new Set<string>();
  readonly starts: { readonly at: number; readonly key: string | undefined }[] = [];
  /** For each pair of keys that both have had something admissible since: the range of the difference of their shares. */
  readonly shares = new Map<string, { d: number; least: number; most: number }>();
  readonly weights = new Map<string | undefined, number>();
  readonly isOnePriority: boolean;

  constructor(seed: number, store: Store & QueueStore) {
    this.random = new Random(seed);
    this.isOnePriority = this.random.chance(60);
    this.store = store;
  }
  limitOf(key: string | undefined): QueueLimit & { readonly weight: number } {
    if (key === undefined || this.spec === undefined) return { weight: 1 };
    const own = this.spec.keys?.[key];
    const { perKey } = this.spec;
    return { concurrency: own?.concurrency ?? perKey?.concurrency, rate: own?.rate ?? perKey?.rate, weight: own?.weight ?? 1 };
  }
  /** Of all that the key has had. */
  leastWeight(key: string | undefined): number {
    const least = Math.min(this.weights.get(key) ?? 1, this.limitOf(key).weight);
    this.weights.set(key, least);
    return least;
  }
  async rows(): Promise<RunRow[]> {
    return (await this.store.get(this.ids)).filter((row) => row !== undefined);
  }
  holds(row: RunRow): boolean {
    return this.spec?.counts === "open" ? this.open.has(row.id) : row.workerId !== undefined;
  }
  #rateLeaves({ rate }: QueueLimit, key: string | undefined | "all"): boolean {
    if (rate === undefined) return true;
    return this.starts.filter((start) => (key === "all" || start.key === key) && start.at > this.now - rate.per).length < rate.limit;
  }
  isAdmissible(row: RunRow, rows: readonly RunRow[]): boolean {
    if (row.finishedAt !== undefined || row.availableAt === undefined || row.availableAt > this.now) return false;
    if (row.key !== undefined && this.paused.has(row.key)) return false;
    const limit = this.limitOf(row.key);
    if (!this.holds(row)) {
      const held = rows.filter((other) => other.finishedAt === undefined && this.holds(other));
      if (held.length >= (this.spec?.concurrency ?? Number.POSITIVE_INFINITY)) return false;
      if (held.filter(({ key }) => key === row.key).length >= (limit.concurrency ?? Number.POSITIVE_INFINITY)) return false;
    }
    return row.startedAt !== undefined || (this.#rateLeaves(this.spec ?? {}, "all") && this.#rateLeaves(limit, row.key));
  }

  /** Goes through a claim one run at a time: each must have been the one to take. */
  async claim(limit: number): Promise<void> {
    const rows = await this.rows();
    const { runs, nextAt } = await this.store.claim({
      workerId: "w",
      queue: "q",
      serves: SERVES,
      limit,
      lease: LEASE,
      cached: () => undefined,
    });
    for (const { run } of runs) {
      const at = rows.findIndex(({ id }) => id === run.id);
      const before = rows[at] as RunRow;
      const admissible = rows.filter((row) => this.isAdmissible(row, rows));
      expect(admissible, `${run.id} is admitted (Q2, Q4, Q8)`).toContain(before);
      expect(before.priority, `${run.id} goes by priority (Q5)`).toBe(Math.max(...admissible.map(({ priority }) => priority)));
      const isFiled = this.spec !== undefined || before.key !== undefined;
      const rank = (row: RunRow): number[] => [isFiled && row.startedAt === undefined ? 1 : 0, row.availableAt ?? 0];
      // Those that need no slot, and runs without a key in a queue without limits, may come in a line of their own.
      const isPeer = (row: RunRow): boolean =>
        this.holds(row) === this.holds(before) && (isFiled || (row.startedAt === undefined) === (before.startedAt === undefined));
      const peers = admissible.filter((row) => row.key === before.key && row.priority === before.priority && isPeer(row));
      for (const peer of peers) expect(compare(rank(before), rank(peer)), `${run.id} before ${peer.id} (W2)`).toBeLessThanOrEqual(0);
      this.#share(before, admissible);
      if (!this.holds(before)) this.open.add(run.id);
      if (before.startedAt === undefined) this.starts.push({ at: this.now, key: before.key });
      rows[at] = run;
      this.#note({ run });
    }
    // Otherwise the worker claims again at once.
    if (runs.length < limit && (nextAt === undefined || nextAt > this.now)) {
      const left = rows.filter((row) => this.isAdmissible(row, rows));
      expect(left.map(({ id }) => id), "nothing admissible is left (Q6, Q7)").toEqual([]); // biome-ignore format: one line
      this.shares.clear();
    }
  }
  #note({ run }: Pick<ClaimedRun, "run">): void {
    this.claims.set(run.id, { epoch: run.epoch, execution: run.execution, turns: run.turns });
  }
  /** Q5: of two keys that both had something admissible throughout, shares differ by at most 1/w₁ + 1/w₂, over any stretch. */
  #share(taken: RunRow, admissible: readonly RunRow[]): void {
    const ready = new Set(admissible.map(({ key }) => key));
    for (const [i, one] of KEYS.entries()) {
      for (const other of KEYS.slice(i + 1)) {
        const name = `${one} ${other}`;
        if (!ready.has(one) || !ready.has(other)) {
          this.shares.delete(name);
          continue;
        }
        const [w1, w2] = [this.limitOf(one).weight, this.limitOf(other).weight];
        const share = this.shares.get(name) ?? { d: 0, least: 0, most: 0 };
        this.shares.set(name, share);
        if (this.holds(taken) || !this.isOnePriority) continue;
        if (taken.key === one) share.d += 1 / w1;
        if (taken.key === other) share.d -= 1 / w2;
        share.least = Math.min(share.least, share.d);
        share.most = Math.max(share.most, share.d);
        // A new weight counts from the next claim: what was taken before was taken by the old one.
        const [least1, least2] = [this.leastWeight(one), this.leastWeight(other)];
        expect(share.most - share.least, `shares of ${name}`).toBeLessThanOrEqual(1 / least1 + 1 / least2 + 1e-6);
      }
    }
  }

  // ── what happens ──

  async create(): Promise<void> {
    const count = 1 + this.random.below(6);
    const key = this.random.of(KEYS);
    const runs = Array.from({ length: count }, (): NewRun => {
      const id = `r${this.ids.length}`;
      this.ids.push(id);
      return {
        ...{ id, workflow: this.random.of(["one", "two"]), version: undefined, input: jsonCodec.encode(1), queue: "q", key },
        ...{ priority: this.isOnePriority ? 0 : this.random.below(3), attributes: {}, onConflict: "reject", seed: id },
        ...(this.random.chance(20) && { delay: this.random.below(300) }),
      };
    });
    await this.store.create(runs);
  }
  async end(): Promise<void> {
    const held = [...this.claims].filter(() => this.random.chance(50));
    for (const [runId, claim] of held) {
      this.claims.delete(runId);
      const draft = { runId, execution: claim.execution, epoch: claim.epoch, workerId: "w", status: "running", lease: "keep" } as const;
      const turn = {
        ...{ index: claim.turns, time: this.now, historyLength: claim.turns, jobs: [] },
        commands: [{ type: "step", seq: claim.turns + 1, unit: "", name: `s${claim.turns}`, n: 0 } as const],
      };
      const what = this.random.below(3);
      if (what === 0) continue; // its worker dies
      if (what === 1) {
        const wakeAt = this.now + this.random.below(200);
        await this.store.commit([{ ...draft, turn, status: "sleeping", lease: "park", ...(this.random.chance(60) && { wakeAt }) }]);
      } else {
        await this.store.commit([{ ...draft, turn, status: "completed", close: { status: "completed", output: jsonCodec.encode(1) } }]);
        const [row] = await this.store.get([runId]);
        if (row?.finishedAt !== undefined) this.open.delete(runId);
      }
    }
  }
  async change(): Promise<void> {
    this.shares.clear();
    const { random } = this;
    const limit = (): QueueLimit => ({
      ...(random.chance(60) && { concurrency: 1 + random.below(4) }),
      ...(random.chance(30) && { rate: { limit: 1 + random.below(4), per: 50 + random.below(300) } }),
    });
    if (random.chance(50)) {
      const key = random.of(["a", "b"]);
      if (this.paused.delete(key)) await this.store.resumeQueue("q", key);
      else {
        this.paused.add(key);
        await this.store.pauseQueue("q", { key });
      }
      return;
    }
    const before = this.spec;
    for (const key of KEYS) this.leastWeight(key);
    const weights = Object.fromEntries(
      ["a", "b"].map((key) => [key, { ...(random.chance(30) && limit()), weight: random.of([0.5, 2, 3]) }]),
    );
    const counts = random.of(["running", "open"] as const);
    this.spec = random.chance(15) ? undefined : { ...limit(), perKey: limit(), keys: weights, counts };
    if (this.spec === undefined) await this.store.deleteQueue("q");
    else await this.store.setQueue("q", this.spec);
    // Q4: starts are known for as long as the longest window was.
    const known = this.starts.filter(({ at }) => at > this.now - longestWindow(before));
    this.starts.splice(0, this.starts.length, ...known);
    const rows = await this.rows();
    if ((before?.counts ?? "running") !== counts || before === undefined || this.spec === undefined) {
      this.open.clear();
      for (const row of rows) if (row.finishedAt === undefined && row.startedAt !== undefined) this.open.add(row.id);
    }
  }
}
function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, i) => value !== b[i]);
  return at < 0 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
}

let server: TestServer | undefined;
let url = "";
beforeAll(async () => {
  server = await startServer();
  url = await server.createDatabase();
}, 60_000);
afterAll(() => server?.stop());

type Make = (seed: number, clock: () => number) => (Store & QueueStore) | Promise<Store & QueueStore>;
const stores: readonly (readonly [name: string, seeds: number, make: Make])[] = [
  ["memory", 150, (_, clock) => new MemoryStore({ clock })],
  ["SQLite", 40, (seed, clock) => new SqliteStore(join(folder, `${seed}.db`), { clock, synchronous: "NORMAL" })],
  [
    "Postgres",
    33,
    async (_, clock) => {
      await emptySchema(url, "holdfast");
      return new PostgresStore({ connectionString: url, clock });
    },
  ],
];
describe.each(stores)("claims against brute force, %s", (_, seeds, make) => {
  test.each(Array.from({ length: seeds }, (_, seed) => seed))("Q2–Q8 seed %i", async (seed) => {
    let now = () => 0;
    const model = new Model(seed, await make(seed, () => now()));
    now = () => model.now;
    await model.store.open();
    for (let step = 0; step < 60; step++) {
      const what = model.random.below(100);
      if (what < 30) await model.create();
      else if (what < 65) await model.claim(1 + model.random.below(6));
      else if (what < 80) await model.end();
      else if (what < 85) await model.change();
      else model.now += model.random.chance(20) ? LEASE : model.random.below(120);
    }
    const rows = await model.rows();
    const { runs } = await model.store.getQueue("q");
    const held = rows.filter(
      (row) => row.finishedAt === undefined && (model.spec === undefined ? row.workerId !== undefined : model.holds(row)),
    );
    expect(runs.held, "held equals leases at the end").toBe(held.length);
    await model.store.close();
  });
});
