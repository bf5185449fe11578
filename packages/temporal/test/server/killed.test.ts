// Workers that are killed, and a server that is killed: what is run again, and by which worker.
// Owns: the processes that it starts.
// Invariants: D6 (a step whose outcome is recorded is never run again), D7 (a lost attempt counts), W4 (a worker that stops gives its tasks
// back). A function may be run again only if the process that ran it was killed or stopped meanwhile.

import { type ChildProcess, fork, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { type Holdfast, type Run, workflow } from "holdfast";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { engines, LONG, newQueue } from "./engines.ts";

type Plan = readonly (string | readonly Plan[])[];
const planned = workflow<Plan, unknown>("planned", async () => undefined);
const parent = workflow<Plan, unknown>("parent", async () => undefined);
const entity = workflow("entity", async () => undefined as unknown);

const SOON = { timeout: 60_000, interval: 20 };
const hands: Hand[] = [];
const folders: string[] = [];
afterAll(async () => {
  await Promise.all(hands.map((hand) => hand.kill()));
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}, LONG);

const root = resolve(import.meta.dirname, "../../../..");
beforeAll(() => {
  // Processes get what is built, not the sources.
  const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));
  const { stdout } = spawnSync(process.execPath, [join(typescript, "bin/tsc"), "-b", "packages/temporal"], { cwd: root, encoding: "utf8" });
  if (!existsSync(join(root, "packages/temporal/dist/index.js"))) throw new Error(`The packages can't be built:\n${stdout}`);
}, LONG);

interface Begun {
  readonly run: string;
  readonly step: string;
  readonly attempt: number;
  readonly pid: number;
  readonly at: number;
}
/** A worker in a process of its own. */
class Hand {
  readonly process: ChildProcess;
  id = "";
  readonly begun: { readonly begun: string; readonly run: string }[] = [];
  readonly #said = new Set<string>();
  readonly #hearers = new Set<() => void>();

  constructor(url: string, ledger: string, options: object) {
    this.process = fork(join(import.meta.dirname, "processes/worker.mjs"), [url, ledger, JSON.stringify(options)], { execArgv: [] });
    this.process.on("message", (message: { begun?: string; run?: string; ready?: string }) => {
      if (message.begun !== undefined) this.begun.push({ begun: message.begun, run: message.run ?? "" });
      if (message.ready !== undefined) this.id = message.ready;
      for (const key of Object.keys(message)) this.#said.add(key);
      for (const hear of [...this.#hearers]) hear();
    });
  }
  get pid(): number {
    return this.process.pid ?? 0;
  }
  /** Until it has said so. */
  async says(what: "ready" | "begun" | "stopping" | "stopped"): Promise<void> {
    await this.until(() => this.#said.has(what));
  }
  async until(isSo: () => boolean): Promise<void> {
    if (isSo()) return;
    await new Promise<void>((done) => {
      const hear = (): void => {
        if (!isSo()) return;
        this.#hearers.delete(hear);
        done();
      };
      this.#hearers.add(hear);
    });
  }
  tell(what: "release" | "stop"): void {
    this.process.send(what);
  }
  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = new Promise((done) => this.process.once("exit", done));
    this.process.kill("SIGKILL");
    await gone;
  }
}

class Crew {
  readonly holdfast: Holdfast;
  readonly killed = new Set<number>();
  readonly #url: string;
  readonly #ledger: string;

  private constructor(holdfast: Holdfast, url: string, folder: string) {
    this.holdfast = holdfast;
    this.#url = url;
    this.#ledger = join(folder, "ledger.txt");
  }
  static async on(on: ReturnType<typeof engines>): Promise<Crew> {
    const queue = newQueue();
    const folder = mkdtempSync(join(tmpdir(), "holdfast-killed-"));
    folders.push(folder);
    return new Crew(await on.open(queue), on.server.url(queue), folder);
  }
  async hire(options: object = {}): Promise<Hand> {
    const hand = new Hand(this.#url, this.#ledger, options);
    hands.push(hand);
    await hand.says("ready");
    return hand;
  }
  async kill(hand: Hand): Promise<void> {
    this.killed.add(hand.pid);
    await hand.kill();
  }
  async start(plan: Plan): Promise<Run<unknown>> {
    return this.holdfast.start(planned, plan);
  }
  get ledger(): Begun[] {
    if (!existsSync(this.#ledger)) return [];
    return readFileSync(this.#ledger, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Begun);
  }
  /** How often each step of a run has begun. */
  counts(run: Run<unknown>): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { run: id, step } of this.ledger) if (id === run.id) counts[step] = (counts[step] ?? 0) + 1;
    return counts;
  }
  /** Functions that were run again though the process that had run them lived. */
  get needless(): Begun[] {
    const last = new Map<string, Begun>();
    const found: Begun[] = [];
    for (const begun of this.ledger) {
      const key = `${begun.run} ${begun.step}`;
      const before = last.get(key);
      if (before !== undefined && !this.killed.has(before.pid)) found.push(before);
      last.set(key, begun);
    }
    return found;
  }
}

describe("workers that are killed", () => {
  const on = engines();

  test.concurrent(
    "D6 D7 in a step: a worker that never had the run goes on with it",
    async () => {
      const crew = await Crew.on(on);
      const first = await crew.hire();
      const run = await crew.start(["a", "b", "held", "c", "d"]);
      await first.says("begun");
      await crew.kill(first);
      const second = await crew.hire();
      second.tell("release");
      expect(await run.result()).toEqual(["a", "b", "held", "c", "d"]);
      expect(crew.counts(run)).toEqual({ a: 1, b: 1, held: 2, c: 1, d: 1 });
      expect(crew.ledger.filter(({ step }) => step === "held").map(({ attempt }) => attempt)).toEqual([1, 2]);
      expect(crew.needless).toEqual([]);
    },
    LONG,
  );

  test.concurrent(
    "D6 in one of two branches: the other one's steps are not run again, while it is in progress and after",
    async () => {
      const crew = await Crew.on(on);
      const first = await crew.hire();
      const run = await crew.start([[["held"], ["x", "y", "z"]], "last"]);
      await first.says("begun");
      await vi.waitFor(() => expect(crew.counts(run)).toEqual({ held: 1, x: 1, y: 1, z: 1 }), SOON);
      await crew.kill(first);
      const second = await crew.hire();
      second.tell("release");
      expect(await run.result()).toEqual([[["held"], ["x", "y", "z"]], "last"]);
      const { held, x, y, last } = crew.counts(run);
      expect({ held, x, y, last }).toEqual({ held: 2, x: 1, y: 1, last: 1 });
      expect(crew.needless).toEqual([]);
    },
    LONG,
  );

  test.concurrent(
    "D6 between turns: a run that waited for a signal goes on elsewhere, and nothing is run again",
    async () => {
      const crew = await Crew.on(on);
      const first = await crew.hire();
      const run = await crew.start(["a", "signal", "b", "signal", "c"]);
      await vi.waitFor(async () => expect((await run.describe()).waitingFor).toEqual(["a signal or update"]), SOON);
      await crew.kill(first);
      await run.signal("go", 1);
      const second = await crew.hire();
      await vi.waitFor(() => expect(crew.counts(run)).toEqual({ a: 1, b: 1 }), SOON);
      await crew.kill(second);
      await crew.hire();
      await run.signal("go", 2);
      expect(await run.result()).toEqual(["a", 1, "b", 2, "c"]);
      expect(crew.needless).toEqual([]);
    },
    LONG,
  );

  test.concurrent(
    "W4 D7 in stop(): the step that it waited for is run again; an attempt that was given back counts",
    async () => {
      const crew = await Crew.on(on);
      const first = await crew.hire();
      const run = await crew.start(["a", "held", "b"]);
      await first.says("begun");
      first.tell("stop");
      await first.says("stopping");
      await crew.kill(first);
      const second = await crew.hire({ gracePeriod: "100ms" });
      await second.says("begun");
      second.tell("stop");
      await second.says("stopped");
      crew.killed.add(second.pid);
      const third = await crew.hire();
      third.tell("release");
      expect(await run.result()).toEqual(["a", "held", "b"]);
      expect(crew.counts(run)).toEqual({ a: 1, held: 3, b: 1 });
      // The first was lost, the second was given back: both have begun.
      expect(crew.ledger.filter(({ step }) => step === "held").map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
      expect(crew.needless).toEqual([]);
    },
    LONG,
  );

  test.concurrent(
    "D1 D6 one of three: its steps are run by workers that have computed no turn of the run",
    async () => {
      const crew = await Crew.on(on);
      const first = await crew.hire();
      const runs = await Promise.all(Array.from({ length: 8 }, () => crew.start(["a", "held", "b"])));
      await first.until(() => first.begun.length === runs.length);
      const others = await Promise.all([crew.hire(), crew.hire()]);
      await crew.kill(first);
      for (const other of others) other.tell("release");
      for (const run of runs) expect(await run.result()).toEqual(["a", "held", "b"]);
      for (const run of runs) expect(crew.counts(run)).toEqual({ a: 1, held: 2, b: 1 });
      expect(crew.needless).toEqual([]);
      const strangers = await Promise.all(runs.map(({ id }) => byStrangers(id)));
      expect(strangers.flat()).toContain("held");
    },
    LONG,
  );

  test.concurrent(
    "M10 in the handler of an update: its caller gets the answer, and it is applied once",
    async () => {
      const crew = await Crew.on(on);
      const first = await crew.hire();
      const run = await crew.holdfast.start(entity);
      const before = await run.update("run", "before");
      const answer = run.update("run", "held");
      await first.says("begun");
      const next = run.update("run", "next");
      await crew.kill(first);
      const second = await crew.hire();
      second.tell("release");
      expect([before, await answer, await next]).toEqual(["before", "held", "next"]);
      await run.signal("end");
      expect(await run.result()).toEqual(["before", "held", "next"]);
      expect(crew.counts(run)).toEqual({ before: 1, held: 2, next: 1 });
    },
    LONG,
  );

  test.concurrent(
    "P10 D6 a parent and its child on the same worker: the child is started once, and the parent gets its result",
    async () => {
      const crew = await Crew.on(on);
      const first = await crew.hire();
      const run = await crew.holdfast.start(parent, ["a", "held", "b"]);
      await first.says("begun");
      await crew.kill(first);
      const second = await crew.hire();
      second.tell("release");
      expect(await run.result()).toEqual(["a", "held", "b"]);
      expect(crew.ledger.map(({ run: id, step }) => [id, step])).toEqual(
        ["a", "held", "held", "b"].map((step) => [`${run.id}-child`, step]),
      );
    },
    LONG,
  );

  /** Steps that were run by a worker that had not completed the task that scheduled them. */
  async function byStrangers(id: string): Promise<string[]> {
    const events = await on.events(id);
    const byId = new Map(events.map((event) => [String(event.eventId), event]));
    const found: string[] = [];
    for (const { activityTaskStartedEventAttributes: started } of events) {
      const scheduled = byId.get(String(started?.scheduledEventId))?.activityTaskScheduledEventAttributes;
      const task = byId.get(String(scheduled?.workflowTaskCompletedEventId))?.workflowTaskCompletedEventAttributes;
      if (scheduled && started && task && started.identity !== task.identity) found.push(scheduled.activityId ?? "");
    }
    return found;
  }

  /** Functions that began after the outcome of their step was recorded. */
  async function begunAfterTheirEnd(crew: Crew, id: string): Promise<Begun[]> {
    const events = await on.events(id);
    const ends = new Map<string, number>();
    for (const { activityTaskCompletedEventAttributes: completed, eventTime } of events) {
      const scheduled = events.find(({ eventId }) => completed && String(eventId) === String(completed.scheduledEventId));
      const step = scheduled?.activityTaskScheduledEventAttributes?.activityId?.match(/(\w+)$/)?.[1];
      if (step !== undefined) ends.set(step, Number(eventTime?.seconds) * 1_000 + (eventTime?.nanos ?? 0) / 1e6);
    }
    expect(ends.size).toBe(8);
    return crew.ledger.filter(({ run, step, at }) => run === id && at > (ends.get(step) ?? 0) + 1);
  }

  test.concurrent(
    "D1 D6 one after the other, at any moment: only what was interrupted is run again",
    async () => {
      const crew = await Crew.on(on);
      const crewed = await Promise.all([crew.hire(), crew.hire(), crew.hire()]);
      const plan = [
        "a",
        [
          ["b", "c"],
          ["d", "e", "f"],
        ],
        "g",
        "h",
      ];
      const runs: Run<unknown>[] = [];
      for (let kills = 0; kills < 4; kills++) {
        const seen = crew.ledger.length;
        runs.push(...(await Promise.all(Array.from({ length: 5 }, () => crew.start(plan)))));
        await vi.waitFor(() => expect(crew.ledger.length).toBeGreaterThan(seen + 8), SOON);
        await crew.kill(crewed[kills] as Hand);
        crewed.push(await crew.hire());
      }
      for (const run of runs)
        expect(await run.result()).toEqual([
          "a",
          [
            ["b", "c"],
            ["d", "e", "f"],
          ],
          "g",
          "h",
        ]);
      expect(crew.needless).toEqual([]);
      for (const run of runs) {
        expect(Object.keys(crew.counts(run)).sort()).toEqual(["a", "b", "c", "d", "e", "f", "g", "h"]);
        expect(await begunAfterTheirEnd(crew, run.id)).toEqual([]);
      }
    },
    LONG,
  );
});

describe("a server that is killed", () => {
  const on = engines({ own: true, file: true });

  test(
    "D6 runs in progress go on when it is there again; what was interrupted is run again, and nothing else",
    async () => {
      const crew = await Crew.on(on);
      const first = await crew.hire();
      const held = await crew.start(["a", "held", "b"]);
      await first.says("begun");
      const waiting = await crew.start(["a", "signal", "b"]);
      await vi.waitFor(async () => expect((await waiting.describe()).waitingFor).toEqual(["a signal or update"]), SOON);
      const runs = await Promise.all(Array.from({ length: 6 }, () => crew.start(["a", "b", [["c"], ["d", "e"]], "f"])));
      await vi.waitFor(() => expect(crew.ledger.length).toBeGreaterThan(15), SOON);
      await on.server.kill9();
      await on.server.restart();
      first.tell("release");
      await waiting.signal("go", 1);
      expect(await held.result()).toEqual(["a", "held", "b"]);
      expect(await waiting.result()).toEqual(["a", 1, "b"]);
      for (const run of runs) expect(await run.result()).toEqual(["a", "b", [["c"], ["d", "e"]], "f"]);
      expect(crew.counts(waiting)).toEqual({ a: 1, b: 1 });
      // What was running when the server went away may be run again: one function in each branch.
      for (const run of runs) {
        const again = Object.values(crew.counts(run)).filter((count) => count > 1);
        expect(again.length).toBeLessThanOrEqual(2);
      }
    },
    LONG,
  );

  test(
    "W4 a worker whose server is gone stops, and its process ends by itself",
    async () => {
      const crew = await Crew.on(on);
      const [idle, busy] = await Promise.all([crew.hire({ gracePeriod: "200ms" }), crew.hire({ gracePeriod: "200ms" })]);
      const run = await crew.start(["a", "held"]);
      await Promise.race([idle.says("begun"), busy.says("begun")]);
      await on.server.kill9();
      const ends = [idle, busy].map(
        (hand) => new Promise((resolve) => hand.process.once("exit", (code, killedBy) => resolve(killedBy ?? code))),
      );
      for (const hand of [idle, busy]) hand.tell("stop");
      expect(await Promise.all(ends)).toEqual([0, 0]);
      await on.server.restart();
      const third = await crew.hire();
      third.tell("release");
      expect(await run.result()).toEqual(["a", "held"]);
      expect(crew.counts(run)).toEqual({ a: 1, held: 2 });
    },
    LONG,
  );
});
