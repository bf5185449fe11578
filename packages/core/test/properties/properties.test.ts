// Job: hold the executor to its contract on random programs and random schedules.
// Owns: nothing between runs; fast-check prints seed and path of what fails.
// Invariants: X1 X2 X6, Y1 Y6, P3, and through the reference interpreter all of P, M, R, A, C, L, K, S that programs reach.

import { type Command, IDENTITY, jsonCodec, PAYLOAD_FIELDS, type Payload, Random, replay, reviveError } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compile } from "./compile.ts";
import { Reference } from "./interpret.ts";
import { type Program, programs } from "./program.ts";
import { play, type Schedule, schedules } from "./schedule.ts";
import { describeError } from "./trace.ts";

/** Programs per property. `PROPERTY_RUNS=20` tries twenty times as many. */
const FACTOR = Number(process.env["PROPERTY_RUNS"] ?? 1);
const RUNS = 300 * FACTOR;

async function played(program: Program, schedule: Schedule): Promise<Harness> {
  const harness = new Harness(compile(program));
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
  for (const key of [...place, ...IDENTITY[command.type], ...(MORE[command.type] ?? [])]) {
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

describe("random programs on random schedules", { timeout: 20_000 * Math.max(1, FACTOR) }, () => {
  it("Y1 Y6 cut after any turn and replayed, a run goes on as if nothing had happened", async () => {
    await check(async (program, schedule) => {
      const harness = await played(program, schedule);
      await crashAnywhere(harness);
    });
  });
  it("Y5 a history replays after a round trip through JSON", async () => {
    await check(async (program, schedule) => {
      const harness = await played(program, schedule);
      await replay(harness.workflow, JSON.parse(JSON.stringify(harness.history())));
    });
  });
  it("X4 X6 C5 the executor does what the reference interpreter does", async () => {
    await check(async (program, schedule) => {
      const harness = await played(program, schedule);
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
    });
  });
});
