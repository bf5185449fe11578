// Crash anywhere: a run that is cut after any turn and replayed must go on as if nothing had happened.
// Owns: nothing between calls.
// Invariants: X1 (commands depend on the transcript alone), Y1 Y6 (replay gives the same commands), L3 R11 (from commits too).

import { recordCount, recordTurn, replayView, trimmed } from "../history/index.ts";
import type { Turn } from "../protocol/index.ts";
import type { Harness } from "./harness.ts";

/**
 * For every prefix of the transcript: a new executor replays what history would hold by then and is given the rest of the jobs
 * live. Throws at the first command that differs from the ones of the run. Returns how many cuts it made.
 */
export async function crashAnywhere(harness: Harness): Promise<number> {
  const { transcript } = harness;
  for (let cut = 0; cut <= transcript.length; cut++) await crashAfter(harness, cut);
  return transcript.length + 1;
}

/** The same for one cut: the executor dies after `cut` turns. */
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

/** History as a host would hold it after so many activations. */
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
/** Stacks are not part of what happened. */
function stable(value: unknown): string {
  return JSON.stringify(value, (key, item: unknown) => (key === "stack" ? undefined : item)) ?? "undefined";
}
