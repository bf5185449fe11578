// Conformance: histories that are trimmed while they grow.
// Owns: long lives of loops and receives, made up at random from a seed; the core's `trimmed` says what must be left of them.
// Invariants tested: L4, R11.

import assert from "node:assert/strict";
import { type Command, type Job, recordCount, type Turn, trimmed } from "@holdfast/core";
import { type Bench, failure, type Held, LEASE, payload, range, START, same } from "./bench.ts";
import type { Suite } from "./suite.ts";

export function trimming({ test }: Suite): void {
  for (const [rule, scope] of [
    ["L4 a loop", loop],
    ["R11 a receive", receive],
  ] as const) {
    // biome-ignore format: pairs
    test(`${rule} that trims leaves what the core says, turn by turn`, async (bench) => {
      for (const seed of range(6)) {
        const id = `r${seed}`;
        const held = await bench.running(id);
        let kept: Turn[] = [];
        const life = [...scope(bench, held, randomOf(seed))];
        for (const turn of life) {
          await bench.commit(held, { turn });
          kept = trimmed([...kept, turn]);
          same(await bench.store.history(id), kept, `seed ${seed}, turn ${turn.index}`);
          assert.equal((await bench.row(id)).historyLength, countOf(kept), `seed ${seed}, turn ${turn.index}`);
        }
        assert.ok(countOf(kept) < countOf(life), "something was trimmed");
        assert.equal((await bench.row(id)).turns, life.length);
        await bench.park(held, { wakeAt: START });
        same((await bench.claimRun(id)).turns, kept);
      }
    });
  }
  test("L4 a commit that trims does so in its own transaction: a stale one deletes nothing", async (bench) => {
    const held = await bench.running("a");
    const life = [...loop(bench, held, randomOf(1))];
    const at = life.findIndex(({ commands }) => commands.some((command) => command.type === "commit" && (command.trim ?? 0) > 0));
    for (const turn of life.slice(0, at)) await bench.commit(held, { turn });
    const before = await bench.store.history("a");
    assert.equal((await bench.tryCommit({ ...held, epoch: held.epoch + 1 }, { turn: life[at] })).status, "stale");
    same(await bench.store.history("a"), before);
    await bench.commit(held, { turn: life[at] });
    assert.ok(countOf(await bench.store.history("a")) < countOf(life.slice(0, at + 1)));
  });
  test("L4 attempts of operations that were trimmed go with them, those of others stay", async (bench) => {
    const held = await bench.running("a");
    const life = [...loop(bench, held, randomOf(2))];
    const attempt = (seq: number) =>
      ({ seq, number: 1, status: "failed", error: failure("no"), startedAt: START, endedAt: START, workerId: "w1" }) as const;
    for (const turn of life) {
      const attempts = turn.commands.flatMap((command) => (command.type === "step" ? [attempt(command.seq)] : []));
      await bench.commit(held, { turn, attempts });
    }
    const left = (await bench.store.history("a")).flatMap(({ commands }) =>
      commands.flatMap((command) => (command.type === "step" ? [command.seq] : [])),
    );
    same((await bench.attempts("a")).map(({ seq }) => seq), left.toSorted((a, b) => a - b)); // biome-ignore format: one line
  });
  test("L4 a trimmed history can be taken over", async (bench) => {
    const held = await bench.running("a");
    let kept: Turn[] = [];
    for (const [i, turn] of [...loop(bench, held, randomOf(3))].entries()) {
      if (i % 7 === 6) {
        bench.time += LEASE;
        const { run, turns } = await bench.claimRun("a");
        Object.assign(held, { epoch: run.epoch });
        same(turns, kept);
      }
      // Stores may go by it: it is what the row counts when the run is taken over.
      const counted = { ...turn, historyLength: countOf(kept) };
      await bench.commit(held, { turn: counted });
      kept = trimmed([...kept, counted]);
    }
  });
}

const countOf = (turns: readonly Turn[]): number => turns.reduce((sum, turn) => sum + recordCount(turn), 0);

/** Whole numbers below `below`, the same for the same seed. */
type Random = (below: number) => number;
function randomOf(seed: number): Random {
  let state = (seed + 1) * 2_654_435_761;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Gathers what happens until a turn is full. */
class Scribe {
  readonly #bench: Bench;
  readonly #held: Held;
  readonly #random: Random;
  readonly turns: Turn[] = [];
  jobs: Job[] = [];
  commands: Command[] = [];
  lastSeq = 0;
  #messages = 0;

  constructor(bench: Bench, held: Held, random: Random) {
    this.#bench = bench;
    this.#held = held;
    this.#random = random;
  }
  endTurn(): void {
    const { jobs, commands } = this;
    if (jobs.length === 0 && commands.length === 0) return;
    const state = this.#random(4) === 0 ? { state: payload(this.turns.length) } : {};
    this.turns.push(this.#bench.turn(this.#held, { jobs, commands, ...state }));
    this.jobs = [];
    this.commands = [];
  }
  signal(): string {
    const id = `m${this.#messages++}`;
    this.jobs.push({ type: "signal", id, name: "poke", payload: payload(id) });
    return id;
  }
  update(): string {
    const id = `m${this.#messages++}`;
    this.jobs.push({ type: "update", id, name: "change", input: payload(id) });
    return id;
  }
  /** An operation of any kind, opened in one turn and settled in a later one. */
  operation(unit: string, n: number): void {
    const seq = ++this.lastSeq;
    switch (this.#random(4)) {
      case 0: {
        this.commands.push({ type: "step", seq, unit, name: "work", n });
        this.endTurn();
        const value = payload({ n });
        this.jobs.push({
          type: "resolve",
          seq,
          outcome: this.#random(3) === 0 ? { status: "failed", error: failure("no") } : { status: "completed", value },
        });
        break;
      }
      case 1:
        this.commands.push({ type: "sleep", seq, unit, name: "nap", n, duration: 5 });
        this.endTurn();
        this.jobs.push({ type: "fire", seq });
        break;
      case 2: {
        const early = this.#random(2) === 0 ? [this.signal()] : [];
        this.commands.push({ type: "signal", seq, unit, name: "poke", n, names: ["poke"] });
        this.endTurn();
        this.commands.push({ type: "settle", seq, status: "completed", messages: [...early, this.signal()] });
        break;
      }
      default:
        this.commands.push({ type: "sideEffect", seq, unit, name: "value", n, value: payload(n) });
    }
  }
}

function loop(bench: Bench, held: Held, random: Random): Turn[] {
  const scribe = new Scribe(bench, held, random);
  for (const n of range(1 + random(3))) scribe.operation("", n);
  scribe.signal(); // no code consumes it
  const seq = ++scribe.lastSeq;
  scribe.commands.push({ type: "loop", seq, unit: "", name: "work", n: 0 });
  for (const i of range(12)) {
    const unit = `work/~${i}`;
    if (i > 0 && i % 2 === 0) {
      const trim = i % 4 === 0 ? { trim: i - 1 - random(2) } : {};
      scribe.commands.push({
        type: "commit",
        seq,
        unit: "work",
        count: i,
        value: payload(i),
        state: payload(i),
        lastSeq: scribe.lastSeq,
        ...trim,
      });
    }
    for (const n of range(random(3))) scribe.operation(unit, n);
    if (random(3) === 0) inner(scribe, `${unit}/again`, random);
  }
  scribe.endTurn();
  return scribe.turns;
}

/** A loop inside an iteration, which trims as well. */
function inner(scribe: Scribe, location: string, random: Random): void {
  const seq = ++scribe.lastSeq;
  scribe.commands.push({ type: "loop", seq, unit: location.slice(0, location.lastIndexOf("/")), name: "again", n: 0 });
  for (const i of range(4)) {
    if (i === 2)
      scribe.commands.push({ type: "commit", seq, unit: location, count: i, value: payload(i), lastSeq: scribe.lastSeq, trim: 1 });
    for (const n of range(1 + random(2))) scribe.operation(`${location}/~${i}`, n);
  }
  scribe.commands.push({ type: "settle", seq, status: "completed" });
}

function receive(bench: Bench, held: Held, random: Random): Turn[] {
  const scribe = new Scribe(bench, held, random);
  const buffered = range(random(3)).map(() => scribe.signal());
  scribe.operation("", 0);
  const seq = ++scribe.lastSeq;
  scribe.commands.push({ type: "receive", seq, unit: "", name: "inbox", n: 0, checkpointEvery: 3 });
  for (const i of range(14)) {
    const unit = `inbox/~h${i}`;
    if (i > 0 && i % 3 === 0)
      scribe.commands.push({ type: "commit", seq, unit: "inbox", count: i, value: payload(i), lastSeq: scribe.lastSeq, trim: i });
    const message = buffered.shift();
    if (message !== undefined || random(2) === 0) {
      scribe.commands.push({ type: "dispatch", seq, unit, message: message ?? scribe.signal() });
      for (const n of range(random(3))) scribe.operation(unit, n);
      if (random(3) === 0) scribe.commands.push({ type: "handlerFailed", seq, unit, error: failure("no") });
    } else {
      const id = scribe.update();
      scribe.commands.push({ type: "acceptUpdate", seq, id }, { type: "dispatch", seq, unit, message: id });
      for (const n of range(random(3))) scribe.operation(unit, n);
      scribe.commands.push({ type: "completeUpdate", seq, id, status: "completed", value: payload(id) });
    }
    if (random(2) === 0) scribe.endTurn();
  }
  scribe.endTurn();
  return scribe.turns;
}
