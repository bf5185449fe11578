import { NondeterminismError, replay } from "@holdfast/core";
import { afterAll, describe, expect, test } from "vitest";
import { generate } from "./generate.ts";
import { type Mutant, mutants } from "./mutate.ts";
import { type Difference, differences } from "./oracle.ts";
import { compile, type Program } from "./program.ts";
import { PROGRAMS } from "./programs.ts";
import { record, type Recording } from "./record.ts";

interface Tally {
  mutants: number;
  caught: number;
  passed: number;
}
const tally = new Map<string, Tally>();

afterAll(() => {
  const rows = [...tally].sort(([a], [b]) => a.localeCompare(b));
  const total = rows.reduce((sum, [, row]) => sum + row.mutants, 0);
  const line = (kind: string, row: Tally) => `${kind.padEnd(48)}${[row.mutants, row.caught, row.passed].map((n) => String(n).padStart(9)).join("")}`;
  const head = `${"change".padEnd(48)}${["mutants", "caught", "passed"].map((one) => one.padStart(9)).join("")}`;
  // biome-ignore lint/suspicious/noConsole: the table is what this suite is for
  console.log([head, ...rows.map(([kind, row]) => line(kind, row)), `${total} mutants`].join("\n"));
});

/** Undefined if replay did what it must; otherwise what went wrong. */
async function judge(program: Program, mutant: Mutant, recording: Recording, counts: Tally): Promise<string | undefined> {
  const expected = differences(program, mutant.program, recording.recorded);
  if (expected.some((one) => one.unsure)) return undefined;
  let error: unknown;
  try {
    await replay(compile(mutant.program), recording.history);
  } catch (thrown) {
    error = thrown;
  }
  const first = Math.min(...expected.map((one) => one.turn));
  const wanted = expected.filter((one) => one.turn === first);
  if (wanted.length === 0) {
    if (error === undefined) counts.passed++;
    return error === undefined ? undefined : report(program, mutant, recording, wanted, error);
  }
  if (error instanceof NondeterminismError && wanted.some(({ location, fields }) => location === error.location && fields.includes(error.field))) {
    counts.caught++;
    return undefined;
  }
  return report(program, mutant, recording, wanted, error);
}

function report(program: Program, mutant: Mutant, recording: Recording, wanted: readonly Difference[], error: unknown): string {
  const want = wanted.length === 0 ? "no error" : wanted.map((one) => `${one.fields.join(" or ")} at ${one.location}`).join(", or ");
  const got = error instanceof NondeterminismError ? `${error.field} at ${error.location}` : error === undefined ? "no error" : "another error";
  return [
    `program:  ${JSON.stringify(program)}`,
    `history:  ${recording.turns} turns, ${recording.course}`,
    `mutation: ${mutant.kind}: ${mutant.change}`,
    `wanted:   ${want}`,
    `got:      ${got}`,
    `error:    ${error instanceof Error ? error.stack : String(error)}`,
  ].join("\n");
}

/** Replays every mutant against every recording; returns what went wrong. */
async function everyChange(program: Program, points: number, choose: (all: Mutant[]) => Mutant[] = (all) => all): Promise<string[]> {
  const recordings = await record(program, points);
  const failures: string[] = [];
  for (const mutant of choose(mutants(program))) {
    const counts = tally.get(mutant.kind) ?? { mutants: 0, caught: 0, passed: 0 };
    tally.set(mutant.kind, counts);
    counts.mutants++;
    for (const recording of recordings) {
      const failure = await judge(program, mutant, recording, counts);
      if (failure !== undefined) failures.push(failure);
    }
  }
  return failures;
}

describe("a program that was changed parts from its history where it was changed", () => {
  for (const program of PROGRAMS) {
    test(`Y2 Y5 Y6 V4 every change of "${program.name}" is caught where it was made, and no sooner than history has it`, async () => {
      const failures = await everyChange(program, 3);
      if (process.env["DUMP"]) { const fs = await import("node:fs"); for (const f of failures) fs.appendFileSync(process.env["DUMP"], f.split("\n    at ")[0] + "\n\n"); }
      if (failures.length > 0) throw new Error(`${failures.length} of the replays went wrong:\n\n${failures.slice(0, 3).join("\n\n")}`);
    });

    test(`Y1 Y5 "${program.name}" itself is never flagged, at any point of any course`, async () => {
      const workflow = compile(program);
      for (const { history } of await record(program, 1_000)) await expect(replay(workflow, history)).resolves.toBeUndefined();
    });
  }

  test("Y2 Y5 Y6 V4 so it is with programs made by chance", async () => {
    for (let seed = Number(process.env["FROM"] ?? 1); seed <= Number(process.env["TO"] ?? 40); seed++) {
      const program = generate(seed);
      const failures = await everyChange(program, 3, (all) => all.filter((_, i) => i % 4 === seed % 4));
      if (process.env["DUMP"]) { const fs = await import("node:fs"); for (const f of failures) fs.appendFileSync(process.env["DUMP"], f.split("\n    at ")[0] + "\n\n"); }
      else if (failures.length > 0) throw new Error(`${failures.length} of the replays went wrong:\n\n${failures.slice(0, 3).join("\n\n")}`);
    }
  }, 600000);

  test("Y2 at least 500 mutants, of every kind some that were caught", () => {
    const total = [...tally.values()].reduce((sum, row) => sum + row.mutants, 0);
    const idle = [...tally].filter(([kind, row]) => (kind.startsWith("legal") ? row.passed : row.caught) === 0);
    expect(total).toBeGreaterThanOrEqual(500);
    expect(idle).toEqual([]);
  });
});
