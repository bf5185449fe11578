// Runs of every shape, stored as they stand between two workers, and what is wrong with how they go on after damage.
// Owns: the workflows, what they should result in, and the look at each of them.
// Invariants: each run has all that it needs to end but a worker; a step that was recorded is never carried out again.

import { activity, Holdfast, Receive, signal, update, workflow } from "holdfast";
import { until } from "../engine/engines.ts";

/** Steps whose bodies were carried out since it was last emptied: run and name. */
type Effects = string[];
const effects = new Map<string, Effects>();
const did = (at: string, run: string, name: string): void => void effects.get(at)?.push(`${run} ${name}`);

/** `isChanged`: the code of one of them no longer fits its history. */
export function workflowsAt(at: string, isChanged: boolean) {
  const mail = activity("mail", async (to: string) => `sent ${to}`);
  const child = workflow("child", async (ctx, n: number) => {
    await ctx.waitForSignal("go");
    return n * 2;
  });
  const steps = workflow("steps", async (ctx, input: { readonly x: number }) => {
    const { id } = ctx.run;
    const a = await ctx.step("a", () => {
      did(at, id, "a");
      return input.x + 1;
    });
    ctx.publishState({ a });
    return [a, await ctx.waitForSignal<string>("go")];
  });
  const acts = workflow("acts", async (ctx) => [await ctx.activity(mail, "bob"), await ctx.activity(mail, "eve")]);
  const parent = workflow("parent", async (ctx) => ctx.child(child, 4, { id: "kid" }));
  const nap = workflow("nap", async (ctx) => {
    const { id } = ctx.run;
    const a = await ctx.step("a", () => {
      did(at, id, "a");
      return 1;
    });
    await ctx.sleep(NAP);
    return [a, await ctx.step("b", () => 2)];
  });
  const retrier = workflow("retrier", async (ctx) =>
    ctx.step(
      "flaky",
      ({ attempt }) => {
        if (attempt === 1) throw new Error("flaky");
        return "fine";
      },
      { retry: { initialInterval: NAP } },
    ),
  );
  const entity = workflow(
    { name: "entity", signals: { stop: signal<void>() }, updates: { add: update<number, number>() } },
    async (ctx) =>
      (
        await ctx.receive(0, {
          signals: { stop: (_, sum) => Receive.stop(sum) },
          updates: { add: (n, sum) => Receive.reply(sum + n, sum + n) },
        })
      ).state,
  );
  const changed = workflow("changed", async (ctx) => {
    const { id } = ctx.run;
    await ctx.step(isChanged ? "two" : "one", () => did(at, id, "one"));
    return ctx.waitForSignal("go");
  });
  return {
    workflows: [steps, acts, parent, child, nap, retrier, entity, changed],
    activities: [mail],
    steps,
    acts,
    parent,
    nap,
    retrier,
    entity,
    changed,
  };
}
/** `npm run nightly` writes every value to every column. `npm test` writes one to each: the first that the column takes. */
export const IS_NIGHTLY = (process.env["HOLDFAST_NIGHTLY"] ?? "") !== "";
/** The same list, from another place on for each column, so that every value is written to some of them. */
export const rotated = <T>(list: readonly T[], by: number): T[] => list.map((_, i) => list[(i + by) % list.length] as T);

/** Longer than all runs take to park. */
const NAP = 1_500;
export const quiet = { debug() {}, info() {}, warn() {}, error() {} };

const OUTPUTS: Readonly<Record<string, unknown>> = {
  steps: [2, "hi"],
  left: [8, "hey"],
  acts: ["sent bob", "sent eve"],
  parent: 8,
  nap: [1, 2],
  retrier: "fine",
  entity: 3,
  kid: 8,
  fresh: [6, "ho"],
  changed: undefined,
};
/** A run that is blocked whatever happens to others. */
const BLOCKED = "changed";
const [PARENT, CHILD] = ["parent", "kid"];

/** One run of each shape. */
export async function prepare(url: string): Promise<void> {
  const engine = await Holdfast.open(url, { logger: quiet });
  const { workflows, steps, acts, parent, nap, retrier, entity, changed } = workflowsAt("", false);
  const worker = await engine.worker({ workflows });
  await engine.start(changed, undefined, { id: "changed" });
  await engine.start(steps, { x: 1 }, { id: "steps", idempotencyKey: "k" });
  await engine.start(steps, { x: 7 }, { id: "left" });
  await engine.start(acts, undefined, { id: "acts" });
  await engine.start(parent, undefined, { id: "parent" });
  await engine.start(nap, undefined, { id: "nap" });
  await engine.start(retrier, undefined, { id: "retrier" });
  const sum = await engine.start(entity, undefined, { id: "entity" });
  await sum.update("add", 3, { idempotencyKey: "u" });
  const parked = async (id: string) => (await engine.run(id).describe()).workerId === undefined;
  for (const id of ["changed", "steps", "left", "acts", "parent", "entity", "kid", "nap", "retrier"]) await until(() => parked(id), id);
  await worker.stop();
  const other = await engine.worker({ workflows: [workflowsAt("", true).changed] });
  await engine.run("changed").signal("go", undefined);
  await until(async () => (await engine.run("changed").describe()).status === "blocked", "the changed run to be blocked");
  await other.stop();
  await engine.run("kid").signal("go", undefined, { idempotencyKey: "m" });
  await engine.run("steps").signal("go", "hi");
  await engine.run("left").signal("go", "hey");
  await sum.signal("stop");
  await engine.start(steps, { x: 5 }, { id: "fresh", signals: [{ name: "go", payload: "ho" }] });
  await engine.close();
}

const codeOf = (error: unknown): string => String((error as { code?: unknown }).code);
/** A run that waits, and not for the time of its start, which it would say. */
const isStuck = (error: unknown): boolean => codeOf(error) === "HF_WAIT_TIMEOUT" && !String(error).includes("waits for: start at ");
/** By how much longer a run is waited for that seems to be stuck: the machine may be busy. */
const MORE_PATIENCE = 10;

interface Found {
  readonly wrong: string[];
  /** Runs that ended otherwise than they should, and said so. */
  readonly told: string[];
}

/** How the runs of a damaged store go on. */
export async function lookAt(url: string, at: string, patience = 12_000): Promise<Found> {
  const wrong: string[] = [];
  const told: string[] = [];
  let engine: Holdfast;
  try {
    engine = await Holdfast.open(url, { logger: quiet });
  } catch (error) {
    return codeOf(error).startsWith("HF_")
      ? { wrong, told: [`open: ${String(error)} ${String((error as Error).cause)}`] }
      : { wrong: [`open: ${String(error)}`], told };
  }
  const done: Effects = [];
  effects.set(at, done);
  try {
    const { workflows, activities } = workflowsAt(at, true);
    await engine.worker({ workflows, activities });
    const look = async (id: string): Promise<void> => {
      try {
        const result = (timeout: number): Promise<unknown> => engine.run(id).result({ timeout });
        const output = await result(patience).catch((error: unknown) => {
          if (isStuck(error)) return result(patience * MORE_PATIENCE);
          throw error;
        });
        if (JSON.stringify(output) !== JSON.stringify(OUTPUTS[id])) wrong.push(`${id}: ${JSON.stringify(output)}`);
      } catch (error) {
        const code = codeOf(error);
        if (!code.startsWith("HF_")) wrong.push(`${id}: ${String(error)}`);
        if (isStuck(error)) wrong.push(`${id} waits: ${String(error)}`);
        else if (id !== BLOCKED) told.push(`${id}: ${code} ${String((error as { cause?: unknown }).cause)}`);
      }
    };
    await Promise.all(Object.keys(OUTPUTS).flatMap((id) => (id === PARENT ? [] : look(id))));
    // A parent waits for its child, which says what is wrong with it.
    if (!told.some((one) => one.startsWith(`${CHILD}: `))) await look(PARENT);
  } catch (error) {
    if (!codeOf(error).startsWith("HF_")) wrong.push(`worker: ${String(error)}`);
  } finally {
    await engine.close();
    effects.delete(at);
  }
  // The steps of these are in their history.
  for (const one of done) if (one !== "fresh a") wrong.push(`again: ${one}`);
  for (const one of done) if (done.filter((x) => x === one).length > 1) wrong.push(`twice: ${one}`);
  return { wrong, told };
}
