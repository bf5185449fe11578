// Conformance: parents and children in a queue that counts open runs.
// Owns: tests of which slots a run needs below a parent that holds some, and a model of that: which slots each run holds and needs.
// Invariants tested: Q2, Q6, Q7, Q8.

import assert from "node:assert/strict";
import type { ClaimRequest, NewRun, ParentLink, RunRow } from "holdfast/store";
import { type Bench, COMPLETED, failure, type Held, heldOf, range, runIds, same, signal } from "./bench.ts";
import { add, claimIds, limit, Q, queuesOf } from "./queueBench.ts";
import { randomOf } from "./startSequences.ts";
import type { Suite } from "./suite.ts";

const FAILED = { status: "failed", error: failure("no") } as const;
const OPEN = { concurrency: 1, counts: "open" } as const;

async function claimHeld(bench: Bench, more: Partial<ClaimRequest> = {}): Promise<Held[]> {
  return (await bench.claim({ ...Q, ...more })).runs.map(heldOf);
}
/** The one run that a claim gets. */
async function claimOne(bench: Bench, id: string, more: Partial<ClaimRequest> = {}): Promise<Held> {
  const [held, ...others] = await claimHeld(bench, more);
  same([held?.runId, ...others.map(({ runId }) => runId)], [id]);
  assert.ok(held !== undefined);
  return held;
}
const link = (runId: string, seq = 1, parentClose: ParentLink["parentClose"] = "cancel"): ParentLink => {
  return { runId, execution: 1, seq, parentClose, announce: false };
};
/** Adds a child, and keeps the lease of its parent. */
async function beget(bench: Bench, parent: Held, id: string, more: Partial<NewRun> = {}): Promise<void> {
  await bench.commit(parent, { turn: bench.turn(parent), children: [bench.newRun(id, { ...Q, parent: link(parent.runId), ...more })] });
}
/** Also tells whether a worker that waits would claim again: the claim says so, or a hint does. */
async function claimsAgain(bench: Bench, claim: () => Promise<{ readonly nextAt: number | undefined }>): Promise<void> {
  let hint: () => void = () => {};
  const hinted = new Promise<void>((resolve) => {
    hint = resolve;
  });
  const stop = bench.raw.watch(({ work }) => (work === true ? hint() : undefined));
  const { nextAt } = await claim();
  if (nextAt === undefined || nextAt > bench.time) await hinted;
  stop();
}

export function queueFamilies({ test }: Suite): void {
  test("Q2 Q7 counts open: a resumed child goes under its resumed parent only once that has a slot again", async (bench) => {
    await limit(bench, OPEN);
    await add(bench, ["p", "other"]);
    const parent = await claimOne(bench, "p");
    await beget(bench, parent, "c");
    const child = await claimOne(bench, "c");
    await bench.close(child, FAILED, { turn: bench.turn(child) });
    await bench.close(parent, FAILED);
    const other = await claimOne(bench, "other");
    await bench.store.resume(["p"]);
    await bench.store.resume(["c"]);
    same(await claimIds(bench), []);
    same((await queuesOf(bench).getQueue("q")).runs.held, 1);
    await bench.close(other);
    await claimsAgain(bench, async () => {
      const claimed = await bench.claim({ ...Q });
      same(runIds(claimed), ["p"]);
      return claimed;
    });
    same(await claimIds(bench), ["c"]);
    same((await queuesOf(bench).getQueue("q")).runs.held, 1);
  });
  test("Q2 counts open: a run goes under an ancestor of its queue only as long as those in between are open", async (bench) => {
    await limit(bench, OPEN);
    await add(bench, ["top"]);
    const top = await claimOne(bench, "top");
    await beget(bench, top, "middle", { queue: "elsewhere" });
    const middle = await claimOne(bench, "middle", { queue: "elsewhere" });
    await beget(bench, middle, "low");
    const low = await claimOne(bench, "low");
    await bench.park(low, { turn: bench.turn(low) });
    await bench.close(middle, FAILED, { turn: bench.turn(middle) });
    same(await claimIds(bench), []); // canceled, and due
    await bench.store.resume(["middle"]);
    same(await claimIds(bench), ["low"]);
  });
  test("Q2 counts open: what began before open runs counted goes under the highest that holds a slot", async (bench) => {
    await add(bench, ["top"]);
    const top = await claimOne(bench, "top");
    await beget(bench, top, "middle", { queue: "elsewhere" });
    const middle = await claimOne(bench, "middle", { queue: "elsewhere" });
    await beget(bench, middle, "low");
    await claimOne(bench, "low");
    await limit(bench, { concurrency: 2, counts: "open" });
    same((await queuesOf(bench).getQueue("q")).runs.held, 1);
    await add(bench, ["a", "b"]);
    same((await claimIds(bench)).length, 1);
  });
  test("Q2 V4 counts open: a worker that starts tries a blocked child under the slot of its parent", async (bench) => {
    await limit(bench, { ...OPEN, perKey: { concurrency: 1 } });
    await add(bench, ["p"], { key: "k" });
    const parent = await claimOne(bench, "p");
    await beget(bench, parent, "c", { key: "k" });
    const child = await claimOne(bench, "c");
    await bench.park(child, { turn: bench.turn(child), status: "blocked", blocked: { error: failure("no code"), code: "" } });
    await queuesOf(bench).pauseQueue("q", { key: "k" });
    same(await claimIds(bench, { blockedAfter: 0 }), []);
    await queuesOf(bench).resumeQueue("q", "k");
    same(await claimIds(bench, { blockedAfter: 0 }), ["c"]);
    same((await queuesOf(bench).getQueue("q")).runs.held, 1);
  });
  test("Q2 Q8 counts open: a blocked run that holds its slot is not tried while its key is paused", async (bench) => {
    await limit(bench, OPEN);
    await add(bench, ["a"], { key: "k" });
    const run = await claimOne(bench, "a");
    await bench.park(run, { turn: bench.turn(run), status: "blocked", blocked: { error: failure("no code"), code: "" } });
    await queuesOf(bench).pauseQueue("q", { key: "k" });
    same(await claimIds(bench, { blockedAfter: 0 }), []);
    await queuesOf(bench).resumeQueue("q", "k");
    same(await claimIds(bench, { blockedAfter: 0 }), ["a"]);
  });
  test("Q6 counts open: runs of a paused key that hold slots are passed over, however many there are", async (bench) => {
    await limit(bench, { ...OPEN, concurrency: 5 });
    for (const id of ["p1", "p2", "p3", "p4"]) await bench.parked(id, { ...Q, key: "p" });
    await bench.parked("other", { ...Q, key: "o" });
    await queuesOf(bench).pauseQueue("q", { key: "p" });
    for (const id of ["p1", "p2", "p3", "p4", "other"]) {
      bench.time += 1;
      await bench.sent(id, signal("go on"));
    }
    same(await claimIds(bench, { limit: 2 }), ["other"]);
  });
  test("Q6 counts open: children that a rate holds back are passed over, however many there are", async (bench) => {
    await limit(bench, { ...OPEN, perKey: { rate: { limit: 2, per: 10_000 } } });
    await add(bench, ["parent"]);
    const parent = await claimOne(bench, "parent");
    for (const i of range(5)) await beget(bench, parent, `k${i}`, { key: "k" });
    same(await claimIds(bench, { limit: 2 }), ["k0", "k1"]);
    bench.time += 1;
    await beget(bench, parent, "other", { key: "o" });
    same(await claimIds(bench, { limit: 2 }), ["other"]);
  });
  test("Q2 counts open: a child that holds a slot of its key needs one of the queue once its parent has ended", async (bench) => {
    await limit(bench, { ...OPEN, perKey: { concurrency: 1 } });
    await add(bench, ["p"], { key: "a" });
    const parent = await claimOne(bench, "p");
    await beget(bench, parent, "c", { key: "b" });
    const child = await claimOne(bench, "c");
    await bench.park(child, { turn: bench.turn(child) });
    await add(bench, ["other"], { key: "x" });
    await bench.close(parent);
    const [first, ...more] = await claimHeld(bench); // the child is canceled, and due
    same(more, []);
    assert.ok(first !== undefined);
    same((await queuesOf(bench).getQueue("q")).runs, { waiting: 1, held: 1, oldest: bench.time });
    same(await claimIds(bench), []);
    await bench.close(first);
    same([first.runId, ...(await claimIds(bench))].sort(), ["c", "other"]);
  });
  for (const seed of range(4)) {
    test(`Q2 counts open: claims of families against a model, seed ${seed}`, async (bench) => {
      await new Families(bench, seed).play(60);
    });
  }
}

const CONCURRENCY = 3;
const PER_KEY = 2;
const QUEUE = 1;
const KEY = 2;

/** Random families in one queue that counts open runs, and in one without limits. Who holds what is the model's; all else is read. */
class Families {
  readonly #bench: Bench;
  readonly #random: (below: number) => number;
  readonly #ids: string[] = [];
  /** Slots by run, as bits. */
  readonly #slots = new Map<string, number>();
  readonly #claims = new Map<string, Held>();
  #rows = new Map<string, RunRow>();
  #signals = 0;

  constructor(bench: Bench, seed: number) {
    this.#bench = bench;
    this.#random = randomOf(seed);
  }
  async play(steps: number): Promise<void> {
    await limit(this.#bench, { concurrency: CONCURRENCY, perKey: { concurrency: PER_KEY }, counts: "open" });
    for (const _ of range(steps)) {
      await this.#step();
      await this.#read();
      await this.#claimAll();
    }
  }
  #pick<T>(items: readonly T[]): T | undefined {
    return items[this.#random(items.length)];
  }
  #start(): Partial<NewRun> {
    const key = this.#pick([undefined, "a", "b"]);
    return { queue: this.#pick(["q", "q", "elsewhere"]) ?? "q", ...(key !== undefined && { key }) };
  }
  async #step(): Promise<void> {
    const bench = this.#bench;
    const [held, parked] = [this.#pick([...this.#claims.values()]), this.#pick(this.#all("sleeping"))];
    const failed = this.#pick(this.#all("failed"));
    switch (this.#random(8)) {
      case 0:
        return void (await bench.created(this.#id(), this.#start()));
      case 1:
      case 2: {
        if (held === undefined) return;
        const parent = link(held.runId, held.turns + 1, this.#pick(["cancel", "cancel", "abandon", "terminate"]) ?? "cancel");
        const child = bench.newRun(this.#id(), { ...this.#start(), parent });
        return void (await bench.commit(held, { turn: bench.turn(held), children: [child] }));
      }
      case 3:
        return held && void (await bench.park(held, { turn: bench.turn(held), seen: Number.MAX_SAFE_INTEGER }));
      case 4:
        return held && bench.close(held, this.#pick([COMPLETED, FAILED, FAILED]), { turn: bench.turn(held) });
      case 5:
        return parked && void (await bench.sent(parked.id, signal(`s${++this.#signals}`)));
      case 6:
        return failed && void (await bench.store.resume([failed.id]));
      default: {
        if (this.#random(4) > 0) return;
        const open = this.#pick([...this.#rows.values()].filter(isOpen));
        return open && void (await bench.store.terminate([{ runId: open.id, reason: undefined }]));
      }
    }
  }
  #id(): string {
    this.#ids.push(`r${this.#ids.length}`);
    return this.#ids.at(-1) as string;
  }
  #all(status: RunRow["status"]): RunRow[] {
    return [...this.#rows.values()].filter((row) => row.status === status);
  }
  async #read(): Promise<void> {
    const rows = await this.#bench.store.get(this.#ids);
    this.#rows = new Map(rows.flatMap((row) => (row === undefined ? [] : [[row.id, row]])));
    for (const row of this.#rows.values()) if (!isOpen(row)) this.#slots.delete(row.id);
    for (const id of [...this.#claims.keys()]) if (this.#rows.get(id)?.workerId === undefined) this.#claims.delete(id);
  }

  /** Each claim fits when it is made, and what is left when there are no more does not. */
  async #claimAll(): Promise<void> {
    for (const queue of ["elsewhere", "q"]) {
      for (let claimed = await this.#claim(queue); claimed.length > 0; claimed = await this.#claim(queue))
        for (const held of claimed) {
          if (queue === "q") this.#take(held.runId);
          this.#claims.set(held.runId, held);
        }
      await this.#read();
    }
    for (const row of this.#rows.values()) {
      const isDue = row.queue === "q" && row.workerId === undefined && row.availableAt !== undefined && row.availableAt <= this.#bench.time;
      if (isDue) assert.ok(!this.#fits(row, this.#needs(row)), `${row.id} waits although it needs ${this.#needs(row)}: ${this.#state()}`);
    }
    same((await queuesOf(this.#bench).getQueue("q")).runs.held, this.#count(QUEUE), "what the queue says that is held");
  }
  async #claim(queue: string): Promise<Held[]> {
    return claimHeld(this.#bench, { queue, limit: 1 + this.#random(3) });
  }
  #take(id: string): void {
    const row = this.#rows.get(id);
    assert.ok(row !== undefined, `${id} is known`);
    const needs = this.#needs(row);
    assert.ok(this.#fits(row, needs), `${id} was claimed although it needs ${needs}: ${this.#state()}`);
    this.#slots.set(id, (this.#slots.get(id) ?? 0) | needs);
  }
  #needs(row: RunRow): number {
    let covered = 0;
    for (let { parent } = row; parent !== undefined && parent.parentClose !== "abandon"; ) {
      const above = this.#rows.get(parent.runId);
      if (above === undefined || !isOpen(above)) break;
      if (above.queue === "q") covered |= (this.#slots.get(above.id) ?? 0) & (above.key === row.key ? QUEUE | KEY : QUEUE);
      ({ parent } = above);
    }
    if ((covered & QUEUE) === 0) covered = 0;
    return (QUEUE | KEY) & ~covered & ~(this.#slots.get(row.id) ?? 0);
  }
  #fits({ key }: RunRow, needs: number): boolean {
    if ((needs & QUEUE) !== 0 && this.#count(QUEUE) >= CONCURRENCY) return false;
    return (needs & KEY) === 0 || key === undefined || this.#count(KEY, key) < PER_KEY;
  }
  #count(slot: number, key?: string): number {
    return [...this.#slots].filter(([id, slots]) => (slots & slot) !== 0 && (key === undefined || this.#rows.get(id)?.key === key)).length;
  }
  #state(): string {
    return [...this.#rows.values()]
      .filter(isOpen)
      .map(
        ({ id, queue, key, status, parent }) => `${id}(${queue} ${key} ${status} below ${parent?.runId} holds ${this.#slots.get(id) ?? 0})`,
      )
      .join(" ");
  }
}

const isOpen = ({ status }: RunRow): boolean => !["completed", "failed", "canceled", "terminated"].includes(status);
