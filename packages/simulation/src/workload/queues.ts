// Queues: more work than their limits admit, of several keys, while clients change, pause and resume them.
// Owns: the limits, what waits in the queue and when, and which runs are put off, replaced, cancelled and deleted.
// Invariants: Q1–Q8 (every claim is held against the oracles of queues), Q9 (replaced runs: `storms.ts`), Q10 (`after`), B4 (what is deleted, or
// has been kept for long enough, is gone).

import { activity, FatalError, RunClosedError, RunNotFoundError, signal, workflow } from "@holdfast/core";
import type { QueueSpec } from "holdfast";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";
import { drawnStorm, playStorm, stormCode, verifyStorm } from "./storms.ts";

const KEYS = ["a", "b", "c"] as const;
const KINDS = ["step", "step", "nap", "nap", "errand", "parent", "again", "signal", "cancel"] as const;
const RETRY = { maxAttempts: 60, initialInterval: 10, maxInterval: 50 };
/** Milliseconds that closed runs are kept where they are to go. */
const RETENTION = 10_000;
/** Milliseconds after which no call of a client is under way: a late start would begin a run again that was removed. */
const CALLS_OVER = 10_000;
/** B4: a run is gone within a minute of its time. Clocks drift. */
const GONE_WITHIN = 61_000;

type Kind = (typeof KINDS)[number] | "nothing";
interface Job {
  readonly id: string;
  readonly kind: Kind;
  readonly key: string | undefined;
  readonly priority: number;
  readonly length: number;
  /** Milliseconds after those before it. */
  readonly pause: number;
  readonly delay: number | undefined;
  /** The job that it begins after. */
  readonly after: string | undefined;
  readonly cancelAfter: number | undefined;
  /** The job that it cancels. */
  readonly target: string | undefined;
  readonly parentClose: "cancel" | "abandon" | "terminate";
  readonly isDeleted: boolean;
}
interface Deed {
  readonly after: number;
  readonly do: "set" | "delete" | "pause" | "resume";
  readonly spec: QueueSpec;
  readonly key: string | undefined;
  readonly for: number | undefined;
}

export function queues(random: Random, name: string): Scenario {
  const isRanked = random.chance(0.35);
  const first = random.chance(0.85) ? drawnSpec(random) : undefined;
  const jobs = drawnJobs(random, name, isRanked);
  const deeds = random.chance(0.6) ? Array.from({ length: random.between(1, 5) }, () => drawnDeed(random)) : [];
  const storm = random.chance(0.4) ? drawnStorm(random, `${name}-storm`, random.chance(0.5) ? random.pick(KEYS) : undefined) : undefined;
  const isKept = random.chance(0.85);
  return {
    name,
    queue: name,
    activities: (bodies) => [errand(bodies, name)],
    workflows: (bodies) => [code(bodies, name, isKept), stormCode(bodies, `${name}-storm`)],
    async play(clients) {
      const set = (spec: QueueSpec) => clients.ask(`set queue ${name}`, (engine) => engine.queues.set(name, spec));
      if (first !== undefined) await set(first);
      const starts = new Map<string, Promise<void>>();
      const play = async (job: Job): Promise<void> => {
        // One that it begins after is there before it.
        const before = starts.get(job.after ?? "") ?? Promise.resolve();
        const started = before.then(() => start(clients, name, job));
        starts.set(job.id, started);
        await started;
        await end(clients, job, isTarget(jobs, job));
      };
      const playJobs = async (): Promise<void> => {
        const plays: Promise<void>[] = [];
        for (const job of jobs) {
          if (job.pause > 0) await clients.sleep(job.pause);
          plays.push(play(job));
        }
        await Promise.all(plays);
      };
      const playDeeds = async (): Promise<void> => {
        for (const deed of deeds) await act(clients, name, deed, set);
        // A pause whose client got no answer may still be made later.
        if (deeds.some((deed) => deed.do === "pause")) await clients.sleep(CALLS_OVER);
        for (const key of [undefined, ...KEYS]) await resume(clients, name, key);
      };
      await Promise.all([playJobs(), playDeeds(), storm === undefined ? undefined : playStorm(clients, name, storm)]);
      const deleted = jobs.filter(({ isDeleted }) => isDeleted);
      if (isKept && deleted.length > 0) await clients.sleep(CALLS_OVER);
      if (isKept) await Promise.all(deleted.map(({ id }) => remove(clients, id)));
      else await outlive(clients, name, jobs);
    },
    verify: async (clients, effects) => {
      if (isKept) await verifyTimes(clients, jobs);
      if (storm !== undefined) verifyStorm(clients, storm, effects);
    },
  };
}

// ── what is drawn ──

function drawnSpec(random: Random): QueueSpec {
  const rate = () => ({ limit: random.between(1, 3), per: random.between(20, 600) });
  const limit = () => ({
    ...(random.chance(0.6) && { concurrency: random.between(1, 2) }),
    ...(random.chance(0.25) && { rate: rate() }),
  });
  const keys = KEYS.filter(() => random.chance(0.4)).map((key) => [
    key,
    { ...(random.chance(0.4) && limit()), weight: random.pick([0.5, 1, 2, 4]) },
  ]);
  return {
    ...(random.chance(0.75) && { concurrency: random.between(1, 3) }),
    ...(random.chance(0.3) && { rate: rate() }),
    ...(random.chance(0.35) && { perKey: limit() }),
    ...(keys.length > 0 && { keys: Object.fromEntries(keys) }),
    ...(random.chance(0.3) && { counts: "open" as const }),
  };
}
function drawnDeed(random: Random): Deed {
  return {
    after: random.between(1, 900),
    do: random.pick(["set", "set", "delete", "pause", "pause", "resume"] as const),
    spec: drawnSpec(random),
    key: random.chance(0.5) ? random.pick(KEYS) : undefined,
    for: random.chance(0.5) ? random.between(1, 900) : undefined,
  };
}
/** In bursts of mostly one key: keys that have been idle meet others that are busy. */
function drawnJobs(random: Random, name: string, isRanked: boolean): Job[] {
  const jobs: Job[] = [];
  for (let burst = random.between(1, 4); burst > 0; burst--) {
    const key = drawnKey(random);
    const pause = random.chance(0.3) ? 0 : random.between(1, 900);
    for (let i = random.between(1, 4); i > 0; i--)
      jobs.push({
        id: `${name}-${jobs.length}`,
        kind: random.pick(KINDS),
        key: random.chance(0.8) ? key : drawnKey(random),
        priority: isRanked ? random.between(-1, 1) : 0,
        length: random.between(1, 120),
        pause: i === 1 ? pause : 0,
        delay: random.chance(0.1) ? random.between(1, 500) : undefined,
        after: random.chance(0.12) ? jobs[random.between(0, jobs.length - 1)]?.id : undefined,
        cancelAfter: random.chance(0.1) ? random.between(0, 600) : undefined,
        target: jobs[random.between(0, jobs.length - 1)]?.id,
        parentClose: random.pick(["cancel", "abandon", "terminate"] as const),
        isDeleted: random.chance(0.05),
      });
  }
  return jobs;
}
function drawnKey(random: Random): string | undefined {
  return random.chance(0.8) ? random.pick(KEYS) : undefined;
}

// ── what clients do ──

async function start(clients: Clients, name: string, job: Job): Promise<void> {
  const { id, key, priority, delay, after } = job;
  const given = { ...(key !== undefined && { key }), ...(delay !== undefined && { delay }), ...(after !== undefined && { after }) };
  await clients.start(name, job, { id, queue: name, priority, ...given });
}
async function end(clients: Clients, job: Job, isCanceled: boolean): Promise<void> {
  const { id, kind, cancelAfter } = job;
  if (cancelAfter !== undefined) {
    await clients.sleep(cancelAfter);
    await clients.cancel(id);
  }
  if (kind === "signal") await clients.signal(id, "go", 1, "go");
  const told = await clients.end(id);
  const got = "value" in told ? told.value : told.error.name;
  if (got !== "done" && !(isCanceled && got === "CanceledError")) clients.violate("queues", "Q7", `${id} (${kind}) gave ${String(got)}`);
}
async function remove(clients: Clients, id: string): Promise<void> {
  const deleted = await clients.told(`delete ${id}`, (engine) => engine.run(id).delete());
  if ("error" in deleted && !(deleted.error instanceof RunNotFoundError))
    clients.violate("queues", "B4", `the deletion of ${id} was answered ${deleted.error.name}`);
}
const isTarget = (jobs: readonly Job[], { id, cancelAfter }: Job): boolean =>
  cancelAfter !== undefined || jobs.some(({ kind, target }) => kind === "cancel" && target === id);

async function act(clients: Clients, name: string, deed: Deed, set: (spec: QueueSpec) => Promise<void>): Promise<void> {
  await clients.sleep(deed.after);
  const { key, for: length } = deed;
  const given = { ...(key !== undefined && { key }), ...(length !== undefined && { for: length }) };
  if (deed.do === "set") await set(deed.spec);
  else if (deed.do === "delete") await clients.ask(`delete queue ${name}`, (engine) => engine.queues.delete(name));
  else if (deed.do === "pause") await clients.ask(`pause queue ${name}`, (engine) => engine.queues.pause(name, given));
  else await resume(clients, name, key);
}
async function resume(clients: Clients, name: string, key: string | undefined): Promise<void> {
  await clients.ask(`resume queue ${name}`, (engine) => engine.queues.resume(name, key === undefined ? {} : { key }));
}
/** B4: the runs go, and then their ids are free. */
async function outlive(clients: Clients, name: string, jobs: readonly Job[]): Promise<void> {
  await clients.sleep(RETENTION + GONE_WITHIN);
  for (const { id } of jobs)
    if ((await clients.row(id)) !== undefined) clients.violate("queues", "B4", `${id} is still there a minute after its time`);
  const [again] = jobs;
  if (again === undefined) return;
  await start(clients, name, { ...again, kind: "nothing", after: undefined, delay: undefined });
  const told = await clients.end(again.id);
  if (!("value" in told) || told.value !== "done") clients.violate("queues", "B4", `${again.id} could not be started again`);
}

/** Q10: none began before its time, nor before the run that it waited for had closed. */
async function verifyTimes(clients: Clients, jobs: readonly Job[]): Promise<void> {
  const rows = new Map(await Promise.all(jobs.map(async ({ id }) => [id, await clients.row(id)] as const)));
  for (const { id, delay = 0, after } of jobs) {
    const row = rows.get(id);
    if (row?.startedAt === undefined) continue;
    if (row.startedAt < row.createdAt + delay) clients.violate("queues", "Q10", `${id} began before its delay of ${delay} ms`);
    for (let other = after; other !== undefined; ) {
      const before = rows.get(other);
      if (before?.finishedAt !== undefined && before.finishedAt > row.startedAt)
        clients.violate("queues", "Q10", `${id} began ${before.finishedAt - row.startedAt} ms before ${other} had closed`);
      // One that closes while it waits itself hands its place on to those that wait for it then.
      const isHandedOn = before?.startedAt === undefined && (before?.finishedAt ?? 0) > row.createdAt;
      const next: string | undefined = isHandedOn ? jobs.find((job) => job.id === other)?.after : undefined;
      other = next;
    }
  }
}

// ── code ──

const errand = (bodies: StepBodies, name: string) =>
  activity<number, number>(`${name}-errand`, (n, info) => bodies.activity(info, n, { takes: 20 }), { retry: RETRY });

function code(bodies: StepBodies, name: string, isKept: boolean) {
  const options = { name, signals: { go: signal<number>() }, ...(!isKept && { retention: RETENTION }) };
  const own = workflow(options, async (ctx, job: Job): Promise<string> => {
    const { kind, length, target, parentClose } = job;
    const work = () => ctx.step("work", (info) => bodies.step(info, 1, { takes: length }), { retry: RETRY });
    switch (kind) {
      case "nothing":
        break;
      case "step":
        await work();
        break;
      case "nap":
        await ctx.sleep(length * 3);
        await work();
        break;
      case "errand":
        for (const n of [1, 2]) if ((await ctx.activity(errand(bodies, name), n)) !== n) throw new FatalError("WRONG");
        break;
      case "parent": {
        const child = { ...job, kind: "nap" as const };
        // One that is not waited for may outlive this run, and needs a slot of its own.
        if (parentClose === "abandon") await ctx.startChild(own, child, { id: `${job.id}.0`, parentClose });
        else if ((await ctx.child(own, child, { id: `${job.id}.0`, parentClose })) !== "done") throw new FatalError("WRONG");
        break;
      }
      case "again":
        await work();
        return ctx.continueAsNew({ ...job, kind: "step" }) as never;
      case "signal":
        await ctx.waitForSignal("go");
        break;
      case "cancel":
        if (target === undefined) break;
        try {
          await ctx.cancelRun(target);
        } catch (error) {
          if (!(error instanceof RunClosedError || error instanceof RunNotFoundError)) throw error;
        }
        break;
    }
    return "done";
  });
  return own;
}
