// Job: prove that messages enter turns in order, and leave the inbox with the turn that took them.
// Owns: the workflows in it.
// Invariants: M2 (order), M7 (consumed in the commit of the turn that has them), D9 (a run never parks on a message it was given).

import { realEnvironment } from "@holdfast/host";
import { Holdfast, Receive, signal, workflow } from "holdfast";
import { expect, it } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import type { CommitResult, TurnCommit } from "../../src/store/port.ts";

/** Keeps what was committed. */
class RecordingStore extends MemoryStore {
  readonly commits: TurnCommit[] = [];
  override commit(turns: readonly TurnCommit[]): Promise<CommitResult[]> {
    this.commits.push(...turns);
    return super.commit(turns);
  }
}

const N = 300;

async function collectAll(schema: Parameters<typeof signal<number>>[0]): Promise<{ taken: number[]; commits: TurnCommit[] }> {
  const store = new RecordingStore();
  const engine = await Holdfast.with({ store, environment: realEnvironment });
  const collect = workflow({ name: "collect", signals: { item: signal<number>(schema) } }, async (ctx) => {
    const { state } = await ctx.receive<number[]>([], {
      signals: {
        item: async (item, items, ctx) => {
          if (item % 3 === 0) await ctx.step("think", () => item);
          const next = [...items, item];
          return next.length === N ? Receive.stop(next) : Receive.noreply(next);
        },
      },
    });
    return state;
  });
  await engine.worker({ workflows: [collect] });
  const run = await engine.start(collect, undefined);
  for (let i = 0; i < N; i++) {
    await run.signal("item", i);
    if (i % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  const taken = await run.result({ timeout: "10s" });
  await engine.close();
  return { taken, commits: store.commits };
}
const inOrder = Array.from({ length: N }, (_, i) => i);

it("M7 a commit consumes the messages that its own turn has, no others", async () => {
  const { taken, commits } = await collectAll(undefined);

  expect(taken).toEqual(inOrder);
  for (const { consumed = [], turn } of commits) {
    expect(turn?.jobs.filter((job) => job.type === "signal").length ?? 0).toBe(consumed.length);
  }
});

it("M2 D9 a schema that takes its time lets no message overtake another, and none is left behind", async () => {
  const { taken } = await collectAll({
    "~standard": {
      version: 1,
      vendor: "test",
      validate: async (value) => {
        if (typeof value === "number" && value % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        return { value: value as number };
      },
    },
  });

  expect(taken).toEqual(inOrder);
});
