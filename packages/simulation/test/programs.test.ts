// Job: play the random programs of the core's property tests in simulated worlds, with every kind of fault.
// Owns: the host's side of a program: what its steps do, its children and activities, and the clients who send, cancel and terminate.
// Invariants: a world is drawn from its seed alone; a failure prints the program, the seed and the command that plays it again.
//
// The programs, and the code that they become, are those of packages/core/test/properties.

import { type Activity, type AnyWorkflow, activity, FatalError, type StepInfo, signal, workflow } from "@holdfast/core";
import {
  type Clients,
  type Random,
  type Scenario,
  SimulationFailed,
  type SimulationOptions,
  type SimulationReport,
  type StepBodies,
  shrink,
  simulate,
} from "@holdfast/simulation";
import fc from "fast-check";
import { expect, test } from "vitest";
import { isNight, PATIENCE, worlds } from "./night.ts";

/** What is known here of the core's programs: their project and this one don't compile together, so they are imported when this runs. */
interface Program {
  readonly body: unknown;
  readonly cancellation: "enforced" | "cooperative";
  readonly end: "return" | "continue";
}
interface Generator {
  readonly programs: fc.Arbitrary<Program>;
  readonly SIGNALS: readonly string[];
  readonly UPDATES: readonly string[];
}
interface Compiler {
  compile(program: Program, options: { readonly bodies: Bodies }): AnyWorkflow;
}
interface Bodies {
  step(info: StepInfo): unknown;
  transaction(tx: unknown, info: StepInfo): unknown;
  rollback(info: StepInfo): Promise<void> | void;
}
const PROPERTIES = "../../core/test/properties";
const { programs, SIGNALS, UPDATES } = (await import(`${PROPERTIES}/program.ts`)) as Generator;
const { compile } = (await import(`${PROPERTIES}/compile.ts`)) as Compiler;

const FILE = "packages/simulation/test/programs.test.ts";
/** The first of the worlds that were never drawn before. */
const FRESH = Number(process.env["PROGRAMS_FROM"] ?? Date.now() % 2_000_000_000);
const FRESH_STORE = process.env["PROGRAMS_STORE"] === "sqlite" ? "sqlite" : "memory";

// ── drawing ──

interface Message {
  readonly kind: "signal" | "update";
  readonly name: string;
  readonly payload: number;
  readonly pause: number;
}
interface Plan {
  readonly program: Program;
  readonly messages: readonly Message[];
  /** Milliseconds from the last message until a client wants it to end. */
  readonly patience: number;
  readonly end: "cancel" | "terminate";
  readonly deadline: number | undefined;
}

function drawnPlan(random: Random): Plan {
  const [program] = fc.sample(programs, { seed: random.between(0, 2_000_000_000), numRuns: 1 }) as [Program];
  return {
    program,
    messages: Array.from({ length: random.between(0, 8) }, () => drawnMessage(random)),
    patience: random.between(0, program.end === "continue" ? 400 : 2_500), // it may go round and round, an execution a millisecond
    end: goesOnForever(program) || random.chance(0.15) ? "terminate" : "cancel",
    deadline: random.chance(0.1) ? random.between(1, 4_000) : undefined,
  };
}
/** A cooperative program that has caught its cancellation may continue as new (K3). */
function goesOnForever({ cancellation, end }: Program): boolean {
  return cancellation === "cooperative" && end === "continue";
}
function drawnMessage(random: Random): Message {
  const isSignal = random.chance(0.6);
  return {
    kind: isSignal ? "signal" : "update",
    name: random.pick(isSignal ? SIGNALS : [...UPDATES, "w"]), // no receive handles "w" (M8)
    payload: random.between(0, 9),
    pause: random.chance(0.3) ? random.between(1, 1_000) : random.between(0, 5),
  };
}

// ── the host's side ──

const RUN = "program-0";
/** Names of steps, children and activities in programs. */
const NAMES = ["s", "t", "o/d~d#1%"] as const;
const RETRY = { maxAttempts: 5, initialInterval: 10, maxInterval: 100 };

function codeOf(program: Program, given: StepBodies): AnyWorkflow {
  const bodies: Bodies = {
    step: (info: StepInfo) => given.step(info, info.attempt),
    transaction: (tx: unknown, info: StepInfo) => given.transaction(tx, info, info.attempt),
    rollback: (info: StepInfo) => given.step(info, undefined),
  };
  return compile(program, { bodies });
}
/** One that works, one that waits to be told something, one that fails. Programs also signal and cancel them. */
function childrenOf(bodies: StepBodies): AnyWorkflow[] {
  const [works, waits, fails] = NAMES;
  return [
    workflow(works, async (ctx, n: number) => (await ctx.step("work", (info) => bodies.step(info, n * 2), { retry: RETRY })) as number),
    workflow({ name: waits, signals: { s: signal<number>() } }, async (ctx, n: number) => {
      const { timedOut } = await ctx.waitForSignal("s", { timeout: 50 * (n + 1) });
      return timedOut ? "nothing" : "told";
    }),
    workflow(fails, async (ctx, n: number) => {
      await ctx.sleep(n + 1);
      throw new FatalError(`child ${n}`);
    }),
  ] as unknown as AnyWorkflow[];
}
function activitiesOf(bodies: StepBodies): Activity<number, number>[] {
  return NAMES.map((name) => activity<number, number>(name, (n, info) => bodies.activity(info, n * 2)));
}

// ── what clients do ──

async function play(clients: Clients, plan: Plan): Promise<void> {
  const { program, deadline } = plan;
  await clients.start("program", null, { id: RUN, ...(deadline !== undefined && { deadline }) });
  await clients.start(NAMES[1], 9, { id: "other" }); // which programs cancel; "else", which they cancel too, does not exist
  let isOver = false;
  const over = clients.end(RUN).then(() => {
    isOver = true;
  });
  const asked: Promise<unknown>[] = [];
  for (const [i, message] of plan.messages.entries()) {
    await clients.sleep(message.pause);
    asked.push(send(clients, message, `${message.name}${i}`));
  }
  await clients.sleep(plan.patience);
  if (!isOver) asked.push(clients[plan.end](RUN));
  // What is shielded from the cancellation needs messages until it is over, and may wait for what never comes.
  for (let i = 0; !isOver; i++) {
    await clients.sleep(700);
    if (i === 30 && outlastsCancellation(program.body)) asked.push(clients.terminate(RUN));
    else if (!isOver) asked.push(send(clients, { kind: "signal", name: SIGNALS[i % SIGNALS.length] ?? "a", payload: i }, `more${i}`));
  }
  await Promise.all(asked);
  await over;
}
function send(clients: Clients, { kind, name, payload }: Omit<Message, "pause">, key: string): Promise<unknown> {
  return clients[kind](RUN, name, payload, key);
}
/** A shield in it has a wait that neither messages nor time end for certain (K2). */
function outlastsCancellation(node: unknown, isShielded = false): boolean {
  if (typeof node !== "object" || node === null) return false;
  const { op, timeout } = node as { op?: string; timeout?: number };
  if (isShielded && (op === "ivar" || ((op === "condition" || op === "receive") && timeout === undefined))) return true;
  return Object.values(node).some((part) => outlastsCancellation(part, isShielded || op === "shield"));
}

// ── worlds ──

/** What programs had in them, and how they ended. */
class Tally {
  readonly parts = new Set<string>();
  readonly ends = new Set<string>();

  saw(node: unknown): void {
    if (typeof node !== "object" || node === null) return;
    const { op, do: statement } = node as { op?: string; do?: string };
    const part = op ?? statement;
    if (part !== undefined) this.parts.add(part);
    for (const one of Object.values(node)) this.saw(one);
  }
  async ended(clients: Clients): Promise<void> {
    const { status = "gone" } = (await clients.row(RUN)) ?? {};
    this.ends.add(status);
  }
}

interface Worlds {
  readonly seeds: number;
  readonly from?: number;
  readonly store?: "memory" | "sqlite";
}

/** Resolves to the number of events that happened in all of them. */
async function playAll({ seeds, from = 1, store = "memory" }: Worlds, tally = new Tally()): Promise<number> {
  let events = 0;
  for (let seed = from; seed < from + seeds; seed++) {
    let program: Program | undefined;
    const scenarios = (random: Random): Scenario[] => {
      const plan = drawnPlan(random);
      program = plan.program;
      return [scenarioOf(plan, tally)];
    };
    const options: SimulationOptions = { seed, store, scenarios };
    const report = await simulate(options);
    events += report.events;
    tally.saw(program);
    if (report.violation !== undefined && !isLegal(report, program as unknown as Program)) throw await failure(options, report, program);
  }
  return events;
}
function scenarioOf(plan: Plan, tally: Tally): Scenario {
  return {
    name: "program",
    workflows: (bodies) => [codeOf(plan.program, bodies), ...childrenOf(bodies)],
    activities: activitiesOf,
    play: (clients) => play(clients, plan),
    verify: (clients) => tally.ended(clients),
  };
}
/** Two oracles are stricter than the contract; what they say of a program may be legal. */
function isLegal({ violation, trace }: SimulationReport, { cancellation }: Program): boolean {
  const commits = trace.filter((line) => line.includes(`commit ${RUN} by`));
  switch (violation?.oracle) {
    case "cancellation": {
      // K3: one that is cooperative or undoes a failure already need not end canceled.
      const canceled = commits.findIndex((line) => /\[[^\]]*\bcancel\b[^\]]*\] →/.test(line));
      const undone = commits.findIndex((line) => /→ \[[^\]]*\brollBack\b/.test(line));
      const mayEndOtherwise = cancellation === "cooperative" || (undone >= 0 && undone < canceled);
      return violation.message.includes(`${RUN} was canceled`) && mayEndOtherwise;
    }
    case "trimming":
      // L4: of several commits in a turn, the last says what is kept.
      return /commit#.*commit#/.test(commits.at(-1) ?? "");
    default:
      return false;
  }
}
async function failure(options: SimulationOptions, report: SimulationReport, program: Program | undefined): Promise<Error> {
  const shrunk = await shrink(options, report);
  const failed = new SimulationFailed(shrunk.options, shrunk.report);
  const command = `HOLDFAST_NIGHTLY=1 PROGRAMS_FROM=${options.seed} PROGRAMS_STORE=${options.store} npx vitest run ${FILE} -t "never drawn before"`;
  return new Error(`${failed.message}\nprogram: ${JSON.stringify(program)}\nreproduce: ${command}`, { cause: report.violation });
}

/** Everything that a program can have in it: operations, and statements around them. */
const PARTS = [
  ..."activity cancelRun child childCancel childResult childSignal condition ivar join listen loop parallel race".split(" "),
  ..."receive shield sideEffect sleep sleepUntil startChild step transaction try updateState wait yield".split(" "),
  ..."aborted all attributes await bump catch checkpoint collect deprecatePatch historyLength micro now patched publish put random return start throw tryRead uuid".split(
    " ",
  ),
];

test(
  "D1 D2 D4 D6 D7 D9 M1 M2 M3 M7 M8 M10 K2 K3 K8 S1 L3 R11 P10 V4 Y1 hold for random programs in a fixed set of worlds",
  async () => {
    const tally = new Tally();
    expect(await playAll({ seeds: worlds(100) }, tally)).toBeGreaterThan(5_000);
    expect([...tally.parts].sort()).toEqual(PARTS.sort());
    expect([...tally.ends].sort()).toEqual(["canceled", "completed", "failed", "terminated"]);
  },
  PATIENCE,
);

test(
  "D1 D2 D4 D6 M1 M7 D9 Y1 hold for random programs on the real SQLite store",
  async () => {
    expect(await playAll({ seeds: worlds(8), from: 1_001, store: "sqlite" })).toBeGreaterThan(250);
  },
  PATIENCE,
);

if (isNight) {
  test(
    "D1 D4 D6 D9 M1 M7 Y1 hold for random programs that were never drawn before",
    async () => {
      expect(await playAll({ seeds: 600, from: FRESH, store: FRESH_STORE })).toBeGreaterThan(10_000);
    },
    PATIENCE,
  );
}
