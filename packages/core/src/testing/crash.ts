// Crash tests: a run that crashes after any turn and is replayed must continue as if nothing had happened.
// Owns: nothing between calls.
// Invariants: X1 (commands depend only on the transcript), Y1 Y6 (replay yields the same commands), L3 R11 (also from commits).

import { recordCount, recordTurn, replayView, trimmed } from "../history/index.ts";
import type { Turn } from "../protocol/index.ts";
import type { Harness } from "./harness.ts";

/**
 * For every prefix of the transcript: a new executor replays the history up to there and then gets the remaining jobs live. Returns the
 * number of crashes.
 * @throws at the first command that differs from those of the original run.
 */
export async function crashAnywhere(harness: Harness): Promise<number> {
  const { transcript } = harness;
  for (let cut = 0; cut <= transcript.length; cut++) await crashAfter(harness, cut);
  return transcript.length + 1;
}

/**
 * The same for one crash, after `cut` turns.
 * @throws at the first command that differs from those of the original run.
 */
export async function crashAfter(harness: Harness, cut: number): Promise<void> {
  const { transcript } = harness;
  const executor = harness.createExecutor();
  const replayed = await executor.replay(replayView(historyOf(harness, cut)));
  if (replayed.status === "failed") throw replayed.error;
  for (let i = cut; i < transcript.length; i++) {
    const entry = transcript[i];
    if (entry === undefined) break;
    const completion = await executor.activate(entry.activation);
    if (completion.status !== entry.completion.status) {
      throw completion.status === "failed" ? completion.error : new Error(`Turn ${i} failed before and does not after a crash at ${cut}.`);
    }
    if (completion.status === "failed" || entry.completion.status === "failed") return;
    expectSame(entry.completion.commands, completion.commands, `turn ${i} after a crash at ${cut}`);
    expectSame(entry.completion.replies, completion.replies, `replies of turn ${i} after a crash at ${cut}`);
    expectSame(entry.completion.state, completion.state, `published state of turn ${i} after a crash at ${cut}`);
  }
  await executor.activate({ time: harness.time, jobs: [{ type: "evict" }] });
}

/** The history as a host would store it after this many activations. */
export function historyOf(harness: Harness, activations: number): Turn[] {
  let turns: Turn[] = [];
  let index = 0;
  let length = 0;
  for (const { activation, completion } of harness.transcript.slice(0, activations)) {
    const turn = recordTurn(index, length, activation, completion);
    if (turn === undefined) continue;
    index++;
    turns = trimmed([...turns, turn]);
    length = turns.reduce((sum, one) => sum + recordCount(one), 0);
  }
  return turns;
}

function expectSame(before: unknown, after: unknown, where: string): void {
  const a = stable(before);
  const b = stable(after);
  if (a !== b) throw new Error(`Different commands in ${where}:\n- ${a}\n+ ${b}`);
}
/** JSON without stacks, which may differ. */
function stable(value: unknown): string {
  return JSON.stringify(value, (key, item: unknown) => (key === "stack" ? undefined : item)) ?? "undefined";
}
