// Job: fork random programs before every operation of their histories.
// Owns: nothing between runs; fast-check prints seed and path of what fails.
// Invariants: F1 F2 (the source is unchanged, the prefix is the source's, the fork replays), F5 (refused exactly where records are missing).

import {
  type Command,
  Executor,
  type ForkedHistory,
  type ForkJob,
  forkHistory,
  formatLocation,
  InvalidInputError,
  type Job,
  jsonCodec,
  recordCount,
  recordTurn,
  replay,
  replayView,
  type Turn,
  toHistory,
  trimmed,
} from "@holdfast/core";
import { Harness, historyOf } from "@holdfast/core/testing";
import fc from "fast-check";
import { expect, it } from "vitest";
import { compile } from "./compile.ts";
import { programs } from "./program.ts";
import { play, schedules } from "./schedule.ts";

const FACTOR = Number(process.env["PROPERTY_RUNS"] ?? 1);
const ID = "fork-of-run";

const lengthOf = (turns: readonly Turn[]): number => turns.reduce((sum, turn) => sum + recordCount(turn), 0);
const locationsIn = (turns: readonly Turn[]): string[] => [
  ...new Set(turns.flatMap(({ commands }) => commands.flatMap((one) => ("n" in one ? formatLocation(one.unit, one.name, one.n) : [])))),
];
const isAt = (location: string) => (one: Command) => "n" in one && formatLocation(one.unit, one.name, one.n) === location;
/** Everything but the ids of children that the fork has under its own. */
const withoutIds = (turns: readonly Turn[]): string =>
  JSON.stringify(turns, (key, value: unknown) => {
    if (key !== "jobs") return value;
    return (value as Job[]).map((job) => (job.type === "childStarted" ? { type: job.type, seq: job.seq } : job));
  });

/** The history as it was when the turn was computed. Undefined: it had no such turn. */
function historyBefore(harness: Harness, index: number): Turn[] | undefined {
  for (let k = 1; k <= harness.transcript.length; k++) {
    const entry = harness.transcript[k - 1];
    const before = historyOf(harness, k - 1);
    const count = harness.transcript.slice(0, k - 1).filter(({ activation, completion }) => recordTurn(0, 0, activation, completion) !== undefined).length; // biome-ignore format: one line
    if (count === index && entry !== undefined && recordTurn(0, 0, entry.activation, entry.completion) !== undefined) return before;
  }
  return undefined;
}

class Fork {
  readonly executor: Executor;
  readonly #harness: Harness;
  #turns: Turn[];
  #index: number;

  constructor(harness: Harness, turns: readonly Turn[], index: number) {
    this.#harness = harness;
    this.#turns = [...turns];
    this.#index = index;
    this.executor = new Executor({ workflow: harness.workflow });
  }
  get turns(): readonly Turn[] {
    return this.#turns;
  }
  async turn(jobs: readonly Job[]): Promise<void> {
    const activation = { time: this.#harness.time + 1_000, jobs, historyLength: lengthOf(this.#turns) };
    const completion = await this.executor.activate(activation);
    if (completion.status === "failed") throw completion.error;
    const turn = recordTurn(this.#index, activation.historyLength, activation, completion);
    if (turn === undefined) return;
    this.#index++;
    this.#turns = trimmed([...this.#turns, turn]);
  }
  /** Outcomes of everything that is open, at most. */
  answers(): Job[] {
    const { openOperations } = this.executor;
    const openings = this.#turns.flatMap(({ commands }) => commands);
    return openOperations.flatMap((seq): Job[] => {
      const command = openings.find((one) => "n" in one && one.seq === seq);
      if (command === undefined) return [];
      if (command.type === "sleep") return [{ type: "fire", seq }];
      if (command.type === "child" && command.detached === true) return [{ type: "childStarted", seq, runId: `${ID}/${command.name}` }];
      if (!["step", "transaction", "activity", "child", "signalRun", "cancelRun", "rollback"].includes(command.type)) return [];
      return [{ type: "resolve", seq, outcome: { status: "completed", value: jsonCodec.encode(1) } }];
    });
  }
  async checkReplay(): Promise<void> {
    const { workflow } = this.#harness;
    const input = jsonCodec.encode(null);
    const history = toHistory(this.#turns, { id: ID, workflow: workflow.name, input, status: "sleeping" });
    await replay(workflow, JSON.parse(JSON.stringify(history)));
  }
}

/** A fork with this seed that has gone on for a while. Throws if it does not replay. */
async function forkedWith(seed: string, harness: Harness, cut: Turn, forked: ForkedHistory, keeps: boolean): Promise<Fork> {
  const fork = new Fork(harness, forked.turns, forked.index);
  const replayed = await fork.executor.replay(replayView(forked.turns));
  if (replayed.status === "failed") throw replayed.error;
  const start = cut.jobs.find((job) => job.type === "start");
  const becomes: ForkJob = {
    type: "fork",
    runId: ID,
    from: "run-1",
    seed,
    startedAt: harness.time,
    ...(!keeps && { dropsRollbacks: true }),
  };
  await fork.turn([start === undefined ? becomes : { ...start, runId: ID, seed }, ...forked.jobs]);
  await fork.checkReplay();
  for (let i = 0; i < 3 && !fork.executor.closed; i++) await fork.turn(fork.answers());
  await fork.checkReplay();
  return fork;
}
function uuidsIn(fork: Fork): Set<string> {
  const own = JSON.stringify(fork.turns.map(({ commands, state }) => [commands, state]));
  return new Set(own.match(/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g));
}

it("F1 F2 F5 a fork before any operation has the source's prefix, changes nothing of the source, and replays", {
  timeout: 60_000 * Math.max(1, FACTOR),
}, async () => {
  let forks = 0;
  let refusals = 0;
  let fresh = 0;
  await fc.assert(
    fc.asyncProperty(programs, schedules, fc.boolean(), async (program, schedule, keeps) => {
      const harness = new Harness(compile(program));
      await play(harness, schedule);
      const source = JSON.stringify(harness.turns);
      for (const before of locationsIn(harness.turns)) {
        const at = harness.turns.findLastIndex(({ commands }) => commands.some(isAt(before)));
        const cut = harness.turns[at] as Turn;
        const prefix = harness.turns.slice(0, at);
        const isWhole = JSON.stringify(historyBefore(harness, cut.index)) === JSON.stringify(prefix);
        let forked: ForkedHistory;
        try {
          forked = forkHistory(harness.turns, before, ID);
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidInputError);
          const isChild = (error as Error).message.includes("its code gives it the id");
          expect([before, isWhole && !isChild]).toEqual([before, false]);
          refusals++;
          continue;
        }
        forks++;
        expect([before, isWhole]).toEqual([before, true]);
        expect(withoutIds(forked.turns)).toBe(withoutIds(prefix));
        const own = await forkedWith("another", harness, cut, forked, keeps);
        const other = await forkedWith("yet another", harness, cut, forked, keeps);
        // F2: what both have was drawn before the cut, and what one has alone after it.
        const [drawn, drawnByOther] = [uuidsIn(own), uuidsIn(other)];
        for (const uuid of drawn) if (!drawnByOther.has(uuid)) fresh++;
        expect([...drawn].filter((uuid) => drawnByOther.has(uuid) !== source.includes(uuid))).toEqual([]);
      }
      expect(JSON.stringify(harness.turns)).toBe(source);
    }),
    { numRuns: 40 * FACTOR },
  );
  expect([forks > 100, refusals > 0, fresh > 0]).toEqual([true, true, true]);
});
