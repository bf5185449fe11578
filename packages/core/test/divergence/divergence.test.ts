// Job: prove that changed code is caught where it was changed, and unchanged or legally changed code never.
// Owns: the tally of mutants that it prints.
// Invariants: Y1, Y2, Y5, Y6, V1, V3.
import { NondeterminismError, replay } from "@holdfast/core";
import { afterAll, describe, expect, test } from "vitest";
import { generate } from "./generate.ts";
import { type Mutant, mutants } from "./mutate.ts";
import { type Difference, differences, sameAs } from "./oracle.ts";
import { compile, type Program } from "./program.ts";
import { PROGRAMS } from "./programs.ts";
import { type Recording, record } from "./record.ts";

/** Programs made by chance: more of them in `npm run nightly`. */
const SEEDS = (process.env["HOLDFAST_NIGHTLY"] ?? "") === "" ? 4 : 40;

/** So many mutants of a kind, so many of their replays that were caught, so many that had to pass and did. */
interface Tally {
  mutants: number;
  caught: number;
  passed: number;
}
const tally = new Map<string, Tally>();
const total = (): number => [...tally.values()].reduce((sum, row) => sum + row.mutants, 0);

afterAll(() => {
  const row = (name: string, ...numbers: (number | string)[]) => name.padEnd(48) + numbers.map((one) => String(one).padStart(9)).join("");
  const rows = [...tally]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([kind, { mutants, caught, passed }]) => row(kind, mutants, caught, passed));
  // biome-ignore lint/suspicious/noConsole: the table is what this suite is for
  console.log([row("change", "mutants", "caught", "passed"), ...rows, row("all", total())].join("\n"));
});

describe("a program that was changed parts from its history where it was changed", () => {
  for (const program of PROGRAMS) {
    test(`Y2 Y5 Y6 V1 V3 every change of "${program.name}" is caught where it was made, and not before history has it`, async () => {
      expectNone(await everyChange(program, mutants(program)));
    });
    test(`Y1 Y5 "${program.name}" itself is never flagged, at any point of any course`, async () => {
      const workflow = compile(program);
      for (const { history } of await record(program, Number.POSITIVE_INFINITY)) {
        await expect(replay(workflow, history)).resolves.toBeUndefined();
      }
    });
  }

  for (let seed = 1; seed <= SEEDS; seed++) {
    test(`Y2 Y5 Y6 V1 V3 so it is with programs made by chance (${seed})`, async () => {
      const program = generate(seed);
      expectNone(await everyChange(program, [{ kind: "legal: no change", change: "none", program }]));
      expectNone(
        await everyChange(
          program,
          mutants(program).filter((_, i) => i % 4 === seed % 4),
        ),
      );
    });
  }

  test("Y2 at least 500 mutants, of every kind some that history has shown to be what they are", () => {
    expect(total()).toBeGreaterThanOrEqual(500);
    expect([...tally].filter(([kind, row]) => (kind.startsWith("legal") ? row.passed : row.caught) === 0)).toEqual([]);
  });
});

function expectNone(failures: readonly string[]): void {
  if (failures.length > 0) throw new Error(`${failures.length} replays went wrong:\n\n${failures.slice(0, 3).join("\n\n")}`);
}

/** Replays every mutant against recordings of the program; returns what went wrong. */
async function everyChange(program: Program, changed: readonly Mutant[]): Promise<string[]> {
  const recordings = await record(program, 3);
  const failures: string[] = [];
  for (const mutant of changed) {
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

/** Y2: changes of how an operation is carried out, which only a strict replay reports. */
const OPTION_CHANGES: ReadonlySet<string> = new Set([
  "change step timeout",
  "change step retry",
  "change queue",
  "change activity retry",
  "change activity timeout",
  "change child retry",
  "change parentClose",
  "change attribute values",
]);

/** Undefined if replay did what it must; otherwise what went wrong. */
async function judge(program: Program, mutant: Mutant, recording: Recording, counts: Tally): Promise<string | undefined> {
  const all = differences(program, mutant.program, recording.recorded);
  if (all.some((one) => one.unsure)) return undefined;
  const replayed = (strict: boolean): Promise<unknown> =>
    replay(compile(mutant.program), recording.history, { strict }).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
  const isOption = OPTION_CHANGES.has(mutant.kind);
  const error = await replayed(isOption);
  if (isOption) {
    const lenient = await replayed(false);
    if (lenient !== undefined) return report(program, mutant, recording, [], lenient);
  }
  const first = Math.min(...all.map((one) => one.turn));
  const wanted = all.filter((one) => one.turn === first);
  const right = wanted.length === 0 ? error === undefined : wanted.some((one) => isAt(error, one));
  if (!right) return report(program, mutant, recording, wanted, error);
  if (error === undefined) counts.passed++;
  else counts.caught++;
  return undefined;
}

/** Y2: the error names the location, the field, the old and the new. */
function isAt(error: unknown, { location, fields, values }: Difference): boolean {
  if (!(error instanceof NondeterminismError) || error.location !== location || !fields.includes(error.field)) return false;
  return values === undefined || error.field === "operation" || (sameAs(error.expected, values[0]) && sameAs(error.actual, values[1]));
}

function report(program: Program, mutant: Mutant, recording: Recording, wanted: readonly Difference[], error: unknown): string {
  const name = ({ location, fields, values }: Difference) => `${fields.join(" or ")} at ${location} ${JSON.stringify(values ?? [])}`;
  return [
    `program:  ${JSON.stringify(program)}`,
    `history:  ${recording.turns} turns, ${recording.course}`,
    `mutation: ${mutant.kind}: ${mutant.change}`,
    `wanted:   ${wanted.length === 0 ? "no error" : wanted.map(name).join(", or ")}`,
    `got:      ${error instanceof Error ? error.stack : "no error"}`,
  ].join("\n");
}
