// Families: parents and children that are cancelled, terminated or fail at any moment.
// Owns: the tree of runs, and the plan of each run.
// Invariants: K6 (children end with their parent, or outlive it, as `parentClose` says), D2 (a parent is notified of every child's end),
// K3 (a child's status reaches its parent).

import { type BranchContext, FatalError, workflow } from "@holdfast/core";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Member {
  readonly id: string;
  readonly children: readonly Member[];
  readonly parentClose: "cancel" | "abandon" | "terminate";
  /** "child": the parent waits for it. "left": the parent only starts it. "asked": the parent starts it and waits for its result later. */
  readonly how: "child" | "left" | "asked";
  readonly pause: number;
  readonly works: boolean;
  readonly fails: boolean;
  readonly parallel: boolean;
}
interface Plan {
  readonly root: Member;
  readonly end: "none" | "cancel" | "terminate";
  readonly after: number;
}

export function family(random: Random, name: string): Scenario {
  const plan: Plan = {
    root: member(random, `${name}-0`, 0),
    end: random.chance(0.5) ? "none" : random.pick(["cancel", "terminate"] as const),
    after: random.between(0, 1_500),
  };
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await clients.start(name, plan.root, { id: plan.root.id });
      if (plan.end !== "none") {
        await clients.sleep(plan.after);
        await clients[plan.end](plan.root.id);
      }
      await clients.end(plan.root.id);
    },
    verify: (clients) => verify(clients, plan.root, plan.end === "none"),
  };
}

function member(random: Random, id: string, depth: number): Member {
  const count = depth >= 2 ? 0 : random.between(depth === 0 ? 1 : 0, 2);
  return {
    id,
    parentClose: random.pick(["cancel", "abandon", "terminate"] as const),
    how: random.pick(["child", "child", "left", "asked"] as const),
    pause: random.chance(0.5) ? random.between(0, 1_200) : 0,
    works: random.chance(0.6),
    fails: depth > 0 && random.chance(0.2),
    parallel: random.chance(0.5),
    children: Array.from({ length: count }, (_, i) => member(random, `${id}.${i}`, depth + 1)),
  };
}

function code(bodies: StepBodies, name: string) {
  const own = workflow(name, async (ctx, one: Member): Promise<string[]> => {
    const retry = { maxAttempts: 50, initialInterval: 10, maxInterval: 50 };
    if (one.works) await ctx.step("work", (info) => bodies.step(info, 1), { retry });
    const raise = async (child: Member, on: BranchContext): Promise<string> => {
      const options = { id: child.id, parentClose: child.parentClose };
      try {
        if (child.how === "child") return `${child.id}:${(await on.child(own, child, options)).join()}`;
        const handle = await on.startChild(own, child, options);
        return child.how === "left" ? `${child.id}:left` : `${child.id}:${(await handle.result()).join()}`;
      } catch (error) {
        if (!(error instanceof Error) || error.name !== "ChildFailedError") throw error;
        return `${child.id}:failed`;
      }
    };
    const ends: string[] = [];
    if (one.parallel) {
      for (const end of await ctx.parallel(one.children.map((child) => (ctx) => raise(child, ctx)))) {
        if (end.status === "rejected") throw end.reason;
        ends.push(end.value);
      }
    } else for (const child of one.children) ends.push(await raise(child, ctx));
    if (one.pause > 0) await ctx.sleep(one.pause);
    if (one.fails) throw new FatalError("It fails.");
    return ends;
  });
  return own;
}

async function verify(clients: Clients, one: Member, isUndisturbed: boolean): Promise<void> {
  const row = await clients.row(one.id);
  if (row === undefined) return; // its parent ended before it could start it
  if (isUndisturbed && row.status !== (one.fails ? "failed" : "completed"))
    clients.violate("families", "K6", `${one.id} ended ${row.status} (${row.error?.message})`);
  for (const child of one.children) {
    const theirs = await clients.row(child.id);
    if (theirs === undefined) {
      if (row.status === "completed") clients.violate("families", "D2", `${one.id} completed, but its child ${child.id} was never created`);
      continue;
    }
    const isFree = isUndisturbed && (child.how !== "left" || child.parentClose === "abandon");
    // The commit that ends a parent also terminates its children. A cancellation takes time to arrive, and an end that the child computed
    // before that counts.
    const margin = child.parentClose === "terminate" ? 0 : clients.isCalm ? 300 : 15_000;
    const wasOpen = row.finishedAt !== undefined && theirs.finishedAt !== undefined && theirs.finishedAt > row.finishedAt + margin;
    const expected = { cancel: "canceled", abandon: undefined, terminate: "terminated" }[child.parentClose];
    if (wasOpen && expected !== undefined && theirs.status !== expected && theirs.status !== "terminated")
      clients.violate(
        "families",
        "K6",
        `${child.id} was open when ${one.id} closed (parentClose: ${child.parentClose}), but ended ${theirs.status}`,
      );
    await verify(clients, child, isFree && row.status !== "canceled" && row.status !== "terminated");
  }
}
