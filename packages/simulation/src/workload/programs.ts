// Random programs: blocks of operations, nested in every way that the contract allows.
// Owns: the programs, and the workflow that executes them and checks the results of their operations.
// Invariants: every program is legal (N), so none is ever blocked; a wrong result fails the run with "WRONG".

import {
  type Activity,
  type AnyWorkflow,
  activity,
  type BranchContext,
  FatalError,
  Loop,
  signal,
  type UnitContext,
  workflow,
} from "@holdfast/core";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

type Block = readonly Node[];
type Node =
  | {
      readonly do: "step" | "transaction";
      readonly name: string;
      readonly attempts: number;
      readonly wait: number;
      readonly timeout: number | undefined;
    }
  | { readonly do: "activity"; readonly n: number; readonly timeout: number | undefined }
  | { readonly do: "sleep"; readonly ms: number }
  | { readonly do: "wait"; readonly signal: "a" | "b"; readonly timeout: number | undefined }
  | { readonly do: "listen"; readonly count: number; readonly timeout: number }
  | { readonly do: "sideEffect" | "random" | "publish" | "yield" | "attributes" }
  | { readonly do: "condition"; readonly timeout: number }
  | { readonly do: "child"; readonly body: Block; readonly isDetached: boolean }
  | { readonly do: "signalSelf"; readonly signal: "a" | "b" }
  | { readonly do: "together"; readonly nodes: Block; readonly mode: "all" | "race" | "allSettled" }
  | { readonly do: "parallel" | "join" | "race"; readonly branches: readonly Block[] }
  | { readonly do: "loop"; readonly times: number; readonly commitInterval: number; readonly historyEvery: number; readonly body: Block }
  | { readonly do: "try" | "shield"; readonly body: Block }
  | { readonly do: "throw" };

interface Plan {
  readonly id: string;
  readonly body: Block;
  readonly signals: readonly { readonly name: "a" | "b"; readonly pause: number }[];
  readonly end: "none" | "cancel" | "terminate";
  readonly after: number;
  readonly deadline: number | undefined;
}

const SIGNALS = { a: signal<number>(), b: signal<number>() };
const KEYS = ["x", "y", "z"] as const;

// ── drawing ──

/** The largest number of nodes of a program: failures of small programs are easier to understand. */
const MOST_NODES = 14;

class Drawing {
  readonly #random: Random;
  #left = MOST_NODES;

  constructor(random: Random) {
    this.#random = random;
  }
  block(depth: number): Block {
    const length = this.#random.between(depth === 0 ? 1 : 0, depth === 0 ? 5 : 2);
    return Array.from({ length }, () => this.#node(depth)).filter((node): node is Node => node !== undefined);
  }
  #node(depth: number): Node | undefined {
    if (this.#left-- <= 0) return undefined;
    const random = this.#random;
    const timeout = random.chance(0.4) ? random.between(1, 600) : undefined;
    if (depth >= 3 || random.chance(0.6)) return this.#leaf(timeout);
    const branches = (): Block[] => Array.from({ length: random.between(1, 3) }, () => this.block(depth + 1));
    switch (random.between(0, 8)) {
      case 0:
      case 1:
        return { do: "parallel", branches: branches() };
      case 2:
        return { do: "join", branches: branches() };
      case 3:
        return { do: "race", branches: branches() };
      case 4:
      case 5: {
        const [times, commitInterval, historyEvery] = [random.between(1, 4), random.between(1, 3), random.between(1, 3)];
        return { do: "loop", times, commitInterval, historyEvery, body: this.block(depth + 1) };
      }
      case 6:
        return { do: random.pick(["try", "shield"] as const), body: this.block(depth + 1) };
      case 7:
        return { do: "child", body: this.block(depth + 1), isDetached: random.chance(0.4) };
      default: {
        const nodes = Array.from({ length: random.between(1, 3) }, () => this.#leaf(timeout));
        return { do: "together", nodes, mode: random.pick(["all", "race", "allSettled"] as const) };
      }
    }
  }
  #leaf(timeout: number | undefined): Node {
    const random = this.#random;
    const wait = random.chance(0.3) ? random.between(300, 1_500) : 10;
    switch (random.between(0, 13)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return { do: "step", name: random.pick(["s", "t"]), attempts: random.between(1, 6), wait, timeout };
      case 4:
        return { do: "transaction", name: random.pick(["s", "t"]), attempts: random.between(1, 6), wait, timeout: undefined };
      case 5:
        return { do: "activity", n: random.between(0, 9), timeout };
      case 6:
      case 7:
        return { do: "sleep", ms: random.chance(0.3) ? random.between(1, 1_500) : random.between(1, 50) };
      case 8:
        return { do: "wait", signal: random.pick(["a", "b"] as const), timeout };
      case 9:
        return { do: "listen", count: random.between(1, 3), timeout: random.between(1, 500) };
      case 10:
        return { do: "condition", timeout: random.between(1, 100) };
      case 11:
        return { do: "signalSelf", signal: random.pick(["a", "b"] as const) };
      case 12:
        return random.chance(0.3) ? { do: "throw" } : { do: "sideEffect" };
      default:
        return { do: random.pick(["random", "publish", "yield", "attributes"] as const) };
    }
  }
}

export function programs(random: Random, name: string): Scenario {
  const plans = Array.from({ length: random.between(1, 3) }, (_, i): Plan => {
    const body = new Drawing(random).block(0);
    return {
      id: `${name}-${i}`,
      body,
      signals: Array.from({ length: random.between(0, 5) }, () => ({
        name: random.pick(["a", "b"] as const),
        pause: random.chance(0.3) ? random.between(1, 1_000) : random.between(0, 5),
      })),
      end: random.chance(0.7) ? "none" : random.pick(["cancel", "terminate"] as const),
      after: random.between(0, 2_000),
      deadline: random.chance(0.1) ? random.between(1, 4_000) : undefined,
    };
  });
  return {
    name,
    workflows: (bodies) => [codeOf(bodies, name)],
    activities: (bodies) => [errandOf(bodies, name)],
    async play(clients) {
      await Promise.all(plans.map((plan) => play(clients, name, plan)));
    },
  };
}

async function play(clients: Clients, name: string, plan: Plan): Promise<void> {
  const { id, deadline } = plan;
  await clients.start(name, { body: plan.body }, { id, ...(deadline !== undefined && { deadline }) });
  let isOver = false;
  const over = clients.end(id).then((told) => {
    isOver = true;
    return told;
  });
  const ended = (async () => {
    if (plan.end === "none") return;
    await clients.sleep(plan.after);
    if (!isOver) await clients[plan.end](id);
  })();
  for (const [i, { name: one, pause }] of plan.signals.entries()) {
    await clients.sleep(pause);
    await clients.signal(id, one, i, `${one}${i}`);
  }
  await ended;
  // Waits without a timeout need signals until the run has ended.
  for (let i = 0; !isOver; i++) {
    await clients.sleep(700);
    if (!isOver) await clients.signal(id, i % 2 === 0 ? "a" : "b", i, `more${i}`);
  }
  const told = await over;
  if ("error" in told && /WRONG/.test(`${told.error.message} ${(told.error.cause as Error | undefined)?.message}`))
    clients.violate("values", "P8", `${id}: ${told.error.message}`);
}

// ── executing ──

function errandOf(bodies: StepBodies, name: string): Activity<number, number> {
  return activity<number, number>(`${name}-errand`, (n, info) => bodies.activity(info, n * 2), {
    retry: { maxAttempts: 5, initialInterval: 10, maxInterval: 100 },
  });
}

function codeOf(bodies: StepBodies, name: string): AnyWorkflow {
  const errand = errandOf(bodies, name);
  const own: AnyWorkflow = workflow({ name, signals: SIGNALS }, async (ctx, { body }: { body: Block }) => {
    const flags = { count: 0 };
    const trace = await unit(ctx, body, flags);
    return { trace };
  }) as unknown as AnyWorkflow;

  async function unit(ctx: UnitContext, block: Block, flags: { count: number }): Promise<unknown[]> {
    const trace: unknown[] = [];
    for (const node of block) {
      const value = await caught(() => run(ctx, node, flags));
      flags.count++;
      trace.push(value);
    }
    return trace;
  }
  /** Turns failures into values, except for those that end the run. */
  async function caught(call: () => Promise<unknown>): Promise<unknown> {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof Error) || error.name === "CanceledError" || error instanceof FatalError) throw error;
      return error.name;
    }
  }
  function expect<T>(value: T, wanted: T, what: string): T {
    if (value !== wanted) throw new FatalError(`WRONG: ${what} gave ${String(value)}, not ${String(wanted)}`);
    return value;
  }
  async function run(ctx: UnitContext, node: Node, flags: { count: number }): Promise<unknown> {
    const branch = (block: Block) => (own: BranchContext) => unit(own, block, { count: 0 });
    switch (node.do) {
      case "step": {
        const retry = { maxAttempts: node.attempts, initialInterval: node.wait, maxInterval: 2_000 };
        const options = { retry, ...(node.timeout !== undefined && { timeout: node.timeout }) };
        return expect(await ctx.step(node.name, (info) => bodies.step(info, node.name), options), node.name, "a step");
      }
      case "transaction": {
        const retry = { maxAttempts: node.attempts, initialInterval: node.wait, maxInterval: 2_000 };
        return expect(
          await ctx.transaction(node.name, (tx: unknown, info) => bodies.transaction(tx, info, node.name), { retry }),
          node.name,
          "a transaction",
        );
      }
      case "activity": {
        const options = node.timeout === undefined ? {} : { startToClose: node.timeout };
        return expect(await ctx.activity(errand, node.n, options), node.n * 2, "an activity");
      }
      case "sleep": {
        const before = ctx.now().getTime();
        await ctx.sleep(node.ms);
        const passed = ctx.now().getTime() - before;
        if (passed < node.ms) throw new FatalError(`WRONG: a sleep of ${node.ms} ms took ${passed}`);
        return null;
      }
      case "wait":
        if (node.timeout === undefined) return ctx.waitForSignal(node.signal);
        return (await ctx.waitForSignal(node.signal, { timeout: node.timeout })).timedOut;
      case "listen":
        return (await ctx.listen(["a", "b"], { count: node.count, timeout: node.timeout })).length;
      case "sideEffect":
        return ctx.sideEffect(() => bodies.process.random.between(0, 1_000_000));
      case "random":
        return [ctx.random(), ctx.uuid()];
      case "publish":
        ctx.publishState({ count: flags.count });
        return null;
      case "yield":
        return ctx.yield();
      case "attributes":
        ctx.setAttributes({ count: flags.count });
        return null;
      case "condition":
        return ctx.condition(() => flags.count > 2, node.timeout);
      case "signalSelf":
        return ctx.signalRun(ctx.run.id, node.signal, -1);
      case "child": {
        const child = own as never;
        if (!node.isDetached) return ctx.child(child, { body: withoutWaits(node.body) } as never);
        const handle = await ctx.startChild(child, { body: withoutWaits(node.body) } as never);
        return caught(() => handle.result());
      }
      case "together": {
        const calls = node.nodes.map((one) => caught(() => run(ctx, one, flags)));
        if (node.mode === "race") return Promise.race(calls);
        return node.mode === "all" ? Promise.all(calls) : (await Promise.allSettled(calls)).length;
      }
      case "parallel":
        return (await ctx.parallel(node.branches.map(branch))).map(({ status }) => status);
      case "join":
        return ctx.join("j", keyed(node.branches, branch));
      case "race":
        return (await ctx.race("r", keyed(node.branches, branch))).winner;
      case "loop": {
        const { times, commitInterval, historyEvery, body } = node;
        const sum = await ctx.loop({ name: "l", state: { i: 0 }, commitInterval, historyEvery }, async (own, { i }) => {
          await unit(own, body, { count: 0 });
          return i + 1 >= times ? Loop.break(i + 1) : Loop.continue({ i: i + 1 });
        });
        return expect(sum, times, "a loop");
      }
      case "try":
        return (await ctx.try("t", (own) => unit(own, node.body, flags))).ok;
      case "shield":
        return ctx.shield((own) => unit(own, node.body, flags));
      case "throw":
        throw new Error("It throws.");
    }
  }
  return own;
}

function keyed<T>(branches: readonly Block[], branch: (block: Block) => T): Record<string, T> {
  return Object.fromEntries(branches.map((block, i) => [KEYS[i] ?? "", branch(block)]));
}
/** Gives every wait a timeout: children receive no signals. */
function withoutWaits(block: Block): Block {
  return block.map((node): Node => {
    if (node.do === "wait") return { ...node, timeout: node.timeout ?? 200 };
    if ("body" in node) return { ...node, body: withoutWaits(node.body) };
    if ("branches" in node) return { ...node, branches: node.branches.map(withoutWaits) };
    if (node.do === "together") return { ...node, nodes: withoutWaits(node.nodes) };
    return node;
  });
}
