// Job: hold the executor to its contract on random programs and random schedules.
// Owns: nothing between runs; fast-check prints seed and path of what fails.
// Invariants: X1 X2 X6, Y1 Y6, P3, and through the reference interpreter all of P, M, R, A, C, L, K, S that programs reach.

import {
  type Command,
  type Completion,
  Executor,
  IDENTITY,
  jsonCodec,
  OPTIONS,
  PAYLOAD_FIELDS,
  type Payload,
  Random,
  replay,
  reviveError,
} from "@holdfast/core";
import { crashAnywhere, Harness, type HarnessOptions } from "@holdfast/core/testing";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compile } from "./compile.ts";
import { Reference } from "./interpret.ts";
import { checkLifecycle } from "./lifecycle.ts";
import { type Program, programs } from "./program.ts";
import { regressions } from "./regressions.ts";
import { play, type Schedule, schedules } from "./schedule.ts";
import { describeError } from "./trace.ts";

/** Programs per property. `PROPERTY_RUNS=20` tries twenty times as many, as `npm run nightly` does. */
const FACTOR = Number(process.env["PROPERTY_RUNS"] ?? 1);
const RUNS = 150 * FACTOR;

async function played(program: Program, schedule: Schedule, options: HarnessOptions = {}): Promise<Harness> {
  const harness = new Harness(compile(program), options);
  await play(harness, schedule);
  return harness;
}
function check(property: (program: Program, schedule: Schedule) => Promise<void>): Promise<void> {
  return fc.assert(fc.asyncProperty(programs, schedules, property), { numRuns: RUNS });
}

const random = (path: string) => new Random("seed", path);
const decode = (payload: Payload): unknown => jsonCodec.decode(payload);

/** What a command is compared by, besides its identity (Y2). */
const MORE: Partial<Record<Command["type"], readonly string[]>> = {
  sideEffect: ["value", "error"],
  cancel: ["join"],
  commit: ["state", "messages", "trim"],
  completeUpdate: ["value", "error"],
  handlerFailed: ["error"],
  rollBack: ["error"],
  fail: ["error", "rollbackError", "rolledBack"],
  canceled: ["reason", "value", "error"],
  continueAsNew: ["signals"],
};
function plainCommand(command: Command): Record<string, unknown> {
  const fields = command as unknown as Record<string, unknown>;
  const place = "n" in command ? ["seq", "unit", "name", "n"] : [];
  const plain: Record<string, unknown> = { type: command.type };
  for (const key of [...place, ...IDENTITY[command.type], ...(OPTIONS[command.type] ?? []), ...(MORE[command.type] ?? [])]) {
    const value = fields[key];
    if (value === undefined) continue;
    if (key === "error" || key === "rollbackError") plain[key] = describeError(reviveError(value as never));
    else if (PAYLOAD_FIELDS.has(key)) plain[key] = decode(value as Payload);
    else if ((key === "messages" && command.type === "commit") || key === "signals") {
      plain[key] = (value as readonly { id?: string; seq?: number }[]).map(({ id, seq }) => id ?? seq);
    } else plain[key] = value;
  }
  return plain;
}

function expectReference(program: Program, harness: Harness): void {
  const reference = new Reference(program, { decode, random });
  for (const { activation, completion } of harness.transcript) {
    if (completion.status === "failed") throw completion.error;
    const { commands, rejected, state } = reference.activate(activation);
    const { replies } = completion;
    expect({
      commands: completion.commands.map(plainCommand),
      rejected: replies.flatMap((reply) => (reply.type === "rejectUpdate" ? [reply.id] : [])),
      state: completion.state === undefined ? undefined : { value: decode(completion.state) },
    }).toEqual({ commands, rejected, state });
  }
}

/** What is compared of two runs of the same activations: everything but stacks. */
function plainCompletion(completion: Completion): unknown {
  if (completion.status === "failed") throw completion.error;
  return JSON.parse(JSON.stringify(completion, (key, value: unknown) => (key === "stack" ? undefined : value)));
}
/** More microtasks in some places than in others. */
const sprinkle = (position: number): number => (position * 7 + 3) % 4;

describe("random programs on random schedules", { timeout: 30_000 * Math.max(1, FACTOR) }, () => {
  it("P3 X7 no unit outlives its scope, no operation its unit, and no rule is ever reported broken", async () => {
    await check(async (program, schedule) => {
      checkLifecycle(await played(program, schedule));
    });
  });
  it("X4 X6 C5 the executor does what the reference interpreter does", async () => {
    await check(async (program, schedule) => {
      expectReference(program, await played(program, schedule));
    });
  });
  it("X1 X8 R9 the same jobs give the same commands, with more microtasks in the code, with frozen states and with other runs in the same tick", async () => {
    const runs = fc.array(fc.tuple(programs, schedules), { minLength: 1, maxLength: 3, size: "max" });
    await fc.assert(
      fc.asyncProperty(runs, async (pairs) => {
        const transcripts = await Promise.all(pairs.map(async ([program, schedule]) => (await played(program, schedule)).transcript));
        const lanes = pairs.flatMap(([program], index) => {
          const transcript = transcripts[index] ?? [];
          const workflows = [compile(program), compile(program, { sprinkle })];
          // R9: no program changes a state in place, so freezing them changes nothing.
          return workflows.map((workflow, i) => ({ transcript, executor: new Executor({ workflow, freezeStates: i === 0 }) }));
        });
        const longest = Math.max(...transcripts.map((transcript) => transcript.length));
        for (let turn = 0; turn < longest; turn++) {
          await Promise.all(
            lanes.map(async ({ transcript, executor }) => {
              const entry = transcript[turn];
              if (entry === undefined) return;
              expect(plainCompletion(await executor.activate(entry.activation))).toEqual(plainCompletion(entry.completion));
            }),
          );
        }
      }),
      { numRuns: Math.ceil(RUNS / 2) },
    );
  });
  it("Y1 Y6 L3 R11 cut after any turn and replayed, a run goes on as if nothing had happened", async () => {
    const sideEffects = fc.constantFrom<HarnessOptions["sideEffects"][]>("inline", "inline", "scheduled");
    await fc.assert(
      fc.asyncProperty(programs, schedules, sideEffects, async (program, schedule, how) => {
        const harness = await played(program, schedule, how === undefined ? {} : { sideEffects: how });
        await crashAnywhere(harness);
      }),
      { numRuns: Math.ceil(RUNS * 0.7) },
    );
  });
  it("Y5 a history replays after a round trip through JSON", async () => {
    await check(async (program, schedule) => {
      const harness = await played(program, schedule);
      await replay(harness.workflow, JSON.parse(JSON.stringify(harness.history())));
    });
  });
});

describe("programs that broke a rule once", () => {
  it.each(regressions)("$title", async ({ program, schedule }) => {
    const harness = await played(program, schedule);
    checkLifecycle(harness);
    expectReference(program, harness);
    await crashAnywhere(harness);
    await replay(harness.workflow, JSON.parse(JSON.stringify(harness.history())));
  });
});
