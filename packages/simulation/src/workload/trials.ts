// Trials: small runs, each of which tests one rule that the other workloads rarely reach.
// Owns: the plan of each run, and its expected result.
// Invariants: D8 D11 (policies with few attempts and long waits, fatal errors), C7 (losers of a race), M6 (the order of waiters), R6 M10
// (a receive that closes), R1 (a receive that times out), K7 P10 (a deadline carries over to the next execution, an answer does not).

import {
  type ActivityInfo,
  type AnyWorkflow,
  activity,
  FatalError,
  Receive,
  type StepInfo,
  signal,
  update,
  workflow,
} from "@holdfast/core";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

const KINDS = ["errand", "fatal", "loser", "waiters", "deadline", "lateRetry", "undone", "heirs", "closing", "patience"] as const;
type Kind = (typeof KINDS)[number];
interface Plan {
  readonly id: string;
  readonly kind: Kind;
  readonly length: number;
  readonly count: number;
}
interface Input extends Plan {
  /** The number of the execution, from 0. */
  readonly turn: number;
}
/** The input of a child: how long and how often it sleeps, and what it returns. */
interface Idle {
  readonly length: number;
  readonly times: number;
  readonly value: number;
}
const RETRY = { maxAttempts: 50, initialInterval: 10, maxInterval: 50 };
/** Waits that are longer than any clock drift, so that a missing wait is noticed. */
const FEW = { maxAttempts: 3, initialInterval: 300, backoff: 2, maxInterval: 5_000 };

export function trials(random: Random, name: string): Scenario {
  const plans = Array.from(
    { length: random.between(1, 3) },
    (_, i): Plan => ({ id: `${name}-${i}`, kind: random.pick(KINDS), length: random.between(20, 400), count: random.between(2, 4) }),
  );
  return {
    name,
    activities: (bodies) => [errand(bodies, name)],
    workflows: (bodies) => code(bodies, name),
    async play(clients) {
      await Promise.all(plans.map((plan) => play(clients, name, plan)));
    },
  };
}

async function play(clients: Clients, name: string, plan: Plan): Promise<void> {
  const { id, kind, length, count } = plan;
  const deadline = LIMITED.has(kind) ? 600 + length : undefined;
  await clients.start(`${name}-${kind}`, { ...plan, turn: 0 } satisfies Input, { id, ...(deadline !== undefined && { deadline }) });
  if (kind === "waiters") {
    await clients.sleep(length);
    for (let n = 0; n < count; n++) await clients.signal(id, "n", n, `n${n}`);
  }
  if (kind === "closing") {
    await Promise.all(
      Array.from({ length: count }, async (_, n) => {
        await clients.sleep(n);
        await clients.update(id, "last", n, `u${n}`);
      }),
    );
    await clients.signal(id, "go", count, "go"); // every client was answered
  }
  const told = await clients.end(id);
  const got = "value" in told ? told.value : told.error.name;
  const expected = deadline === undefined ? "done" : "RunFailedError";
  if (got !== expected) clients.violate("trials", RULES[kind], `${id} (${kind}) gave ${String(got)}, not ${expected}`);
}
const LIMITED: ReadonlySet<Kind> = new Set(["deadline", "lateRetry", "undone"]);
const RULES: Readonly<Record<Kind, string>> = {
  errand: "D11",
  fatal: "D8",
  loser: "C7",
  waiters: "M6",
  deadline: "K7",
  lateRetry: "K7",
  undone: "K7",
  heirs: "P10",
  closing: "R6",
  patience: "R1",
};

/** An activity that always fails (0), or that takes long. */
function errand(bodies: StepBodies, name: string) {
  const work = (n: number, info: ActivityInfo): Promise<number> => bodies.activity(info, n, n === 0 ? { fails: true } : { takes: 600 });
  return activity<number, number>(`${name}-errand`, work, { retry: FEW });
}

function code(bodies: StepBodies, name: string): AnyWorkflow[] {
  const idler = workflow(`${name}-idler`, async (ctx, { length, times, value }: Idle) => {
    for (let i = 0; i < times; i++) await ctx.sleep(length);
    return value;
  });
  const work = errand(bodies, name);
  const kind = (one: Kind) => ({ name: `${name}-${one}` });
  return [
    idler,
    workflow(kind("errand"), (ctx, _: Input) => failed(ctx.activity(work, 0), "ActivityFailedError")),
    workflow(kind("fatal"), (ctx, _: Input) => {
      const fatal = async (info: StepInfo): Promise<number> => {
        await bodies.step(info, 1);
        throw new FatalError("It can't be done.");
      };
      return failed(ctx.step("fatal", fatal, { retry: FEW }), "StepFailedError");
    }),
    workflow(kind("loser"), async (ctx, { id, length }: Input) => {
      await ctx.race("first", {
        step: (ctx) => ctx.step("long", (info) => bodies.step(info, 1, { takes: 600 }), { retry: RETRY }),
        errand: (ctx) => ctx.activity(work, 1),
        child: (ctx) => ctx.child(idler, { length: 300, times: 8, value: 0 }, { id: `${id}.0` }),
        time: (ctx) => ctx.sleep(length),
      });
      await ctx.sleep(1_500);
      return "done";
    }),
    workflow({ ...kind("waiters"), signals: { n: signal<number>() } }, async (ctx, { count }: Input) => {
      const ends = await ctx.parallel(Array.from({ length: count }, () => (ctx) => ctx.waitForSignal("n")));
      const got = ends.map((end) => (end.status === "fulfilled" ? end.value : end.status));
      return got.every((n, i) => n === i) ? "done" : `WRONG: ${got.join()}`;
    }),
    workflow(kind("deadline"), async (ctx, input: Input) => {
      await ctx.sleep(input.length / 2);
      return input.turn === 400 ? "WRONG: its deadline never expired" : ctx.continueAsNew({ ...input, turn: input.turn + 1 });
    }),
    workflow(kind("lateRetry"), async (ctx, _: Input) => {
      await ctx.step("late", (info) => bodies.step(info, 1, { fails: true }), { retry: { ...FEW, initialInterval: 2_000 } });
      return "WRONG: a step that always fails succeeded";
    }),
    workflow(kind("undone"), async (ctx, _: Input) => {
      const rollback = (_: unknown, info: StepInfo) => bodies.step(info, undefined);
      await ctx.step("do", (info) => bodies.step(info, 1), { retry: RETRY, rollback });
      await ctx.step("long", (info) => bodies.step(info, 1, { takes: 2_000 }), { retry: RETRY });
      await ctx.sleep(60_000);
      return "WRONG: it continued after its deadline";
    }),
    // Each child ends at about the same time as the execution that started it, or while the next has a child with the same sequence number.
    workflow(kind("heirs"), async (ctx, input: Input) => {
      const { id, length, turn, count } = input;
      const idle = { length, times: 1, value: turn };
      const child = await ctx.startChild(idler, idle, { id: `${id}.${turn}`, parentClose: "abandon" });
      if (turn < count) {
        await ctx.sleep(turn % 2 === 0 ? length : length / 2);
        return ctx.continueAsNew({ ...input, turn: turn + 1 });
      }
      const value = await child.result();
      return value === turn ? "done" : `WRONG: the child of execution ${value} answered execution ${turn}`;
    }),
    closing(bodies, kind("closing")),
    workflow(kind("patience"), async (ctx, { length }: Input) => {
      const { timedOut } = await ctx.receive(0, { timeout: length });
      return timedOut ? "done" : "WRONG: it ended without a timeout";
    }),
  ];
}

/** The first update closes the receive: updates that were accepted meanwhile fail, later ones are refused. */
function closing(bodies: StepBodies, named: { readonly name: string }): AnyWorkflow {
  const messages = { signals: { go: signal<number>() }, updates: { last: update<number, number>() } };
  return workflow({ ...named, ...messages }, async (ctx, { length }: Input) => {
    const first = await ctx.receive<number>(0, {
      updates: {
        last: async (n, _, ctx) => {
          await ctx.step("last", (info) => bodies.step(info, n, { takes: length }), { retry: RETRY });
          return Receive.stop(n, n);
        },
      },
    });
    await ctx.waitForSignal("go");
    return first.timedOut ? "WRONG: it timed out although it has no timeout" : "done";
  });
}

async function failed(operation: Promise<unknown>, as: string): Promise<string> {
  try {
    await operation;
    return "WRONG: an operation that always fails succeeded";
  } catch (error) {
    if (!(error instanceof Error) || error.name !== as) throw error;
    return "done";
  }
}
