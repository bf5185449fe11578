// Lists and counts, held against the store in memory: the same runs with the same pasts, and questions of every kind.

import { jsonCodec, type RunStatus, type SerializedError, type Turn } from "@holdfast/core";
import { type ClaimedRun, MemoryStore, type NewRun, type RunQuery, type TurnCommit } from "holdfast/store";
import { expect, test } from "vitest";
import { claim, draft, type Held, heldOf, newRun, range, type SettledStore, signal, turnOf, useDatabase } from "./support.ts";

const database = useDatabase();

const LEASE = 10_000;
const STATUSES: readonly RunStatus[] = [
  "pending", "running", "sleeping", "blocked", "rolling_back", "completed", "failed", "canceled", "terminated", "continued",
]; // biome-ignore format: one line reads best
const WORKFLOWS = ["order", "refund", 'o"dd\\ \u2028\u007f😀'];
const QUEUES = ["default", "other"];
const ATTRIBUTES = [{}, { tier: "1" }, { tier: 1 }, { tier: true, 'a\n"b\\': "x\u001ay" }, { tier: 1, region: "eu" }] as const;
const ERROR: SerializedError = { name: "Error", message: "no" };

/** Numbers that are the same each time. */
class Dice {
  #state: number;
  constructor(seed: number) {
    this.#state = seed;
  }
  below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * limit);
  }
  of<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }
  maybe<T>(item: () => T): T | undefined {
    return this.below(2) === 0 ? undefined : item();
  }
}

/** What happens to a run that is claimed, by name: chosen once, done in both stores. */
const FATES = {
  runsOn: {},
  counts: { rollbacks: 2 },
  rollsBack: { status: "rolling_back", rollbacks: 1 },
  says: { waitingFor: ["step a"] },
  parks: { lease: "park", status: "sleeping", waitingFor: ["a signal"] },
  sleeps: { lease: "park", status: "sleeping", wakeAt: 50_000 },
  blocks: { lease: "park", status: "blocked", blocked: { error: ERROR, code: "c1" }, wakeAt: 60_000 },
  completes: { status: "completed", close: { status: "completed", output: jsonCodec.encode("done") } },
  fails: { status: "failed", close: { status: "failed", error: ERROR } },
  failsForGood: { status: "failed", close: { status: "failed", error: ERROR, resumable: false } },
  cancels: { status: "canceled", close: { status: "canceled" } },
  continues: {
    status: "continued",
    close: { status: "continued", next: { input: jsonCodec.encode("again"), version: undefined, seed: "seed", carried: [] } },
  },
} satisfies Record<string, Partial<TurnCommit>>;
type Fate = keyof typeof FATES;
const FATE_NAMES = Object.keys(FATES) as Fate[];
/** These may come without a turn. */
const TURNLESS: ReadonlySet<Fate> = new Set<Fate>(["says", "parks", "sleeps", "blocks"]);

/** A claim, and the messages that came with it. */
interface Kept extends Held {
  readonly inbox: readonly number[];
}
/** A turn of several records, with what it published. */
const SAID: Partial<Turn> = {
  jobs: [{ type: "resolve", seq: 1, outcome: { status: "completed", value: jsonCodec.encode(1) } }],
  state: jsonCodec.encode("said"),
};
interface Lot {
  readonly fate: Fate;
  readonly hasTurn: boolean;
  /** Under a claim that is over. */
  readonly isStale: boolean;
  /** After another turn, in the same batch. */
  readonly isSecond: boolean;
  /** It was given all the messages that there are, or none. */
  readonly hasSeen: boolean;
  readonly consumes: boolean;
  readonly publishes: boolean;
}
type Deed =
  | { readonly do: "create"; readonly runs: readonly NewRun[] }
  | { readonly do: "work"; readonly queue: string; readonly lot: (id: string) => Lot }
  | { readonly do: "poke" | "cancel" | "terminate" | "resume"; readonly ids: readonly string[] }
  | { readonly do: "wait"; readonly ms: number }; // biome-ignore format: one per line

async function work(store: SettledStore, queue: string, lot: (id: string) => Lot, held: Map<string, Kept>): Promise<unknown> {
  const serves = WORKFLOWS.map((workflow) => ({ workflow, versions: "*" as const }));
  const claimed = await claim(store, { queue, serves, limit: 1_000, lease: LEASE });
  for (const one of claimed) held.set(one.run.id, { ...heldOf(one), inbox: one.inbox.map(({ id }) => id) });
  const rows = await store.get([...held.keys()]);
  const lengths = new Map(rows.map((row) => [row?.id ?? "", row?.historyLength ?? 0]));
  const commits: TurnCommit[] = [];
  for (const [id, one] of [...held].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const { fate, hasTurn, isStale, isSecond, hasSeen, consumes, publishes } = lot(id);
    const named = isStale ? { ...one, epoch: one.epoch - 1 } : one;
    const length = lengths.get(id) ?? 0;
    if (isSecond) commits.push(draft(named, { turn: turnOf(one, { historyLength: length }) }));
    commits.push(
      draft(named, {
        ...FATES[fate],
        seen: hasSeen ? Number.MAX_SAFE_INTEGER : 0,
        ...(hasTurn && { turn: turnOf(one, { historyLength: length + (isSecond ? 1 : 0), ...(publishes && SAID) }) }),
        ...(consumes && { consumed: one.inbox }),
        ...(publishes && { state: jsonCodec.encode(`state of ${id}`) }),
      }),
    );
  }
  const results = await store.commit(commits);
  const told = results.map((result, i) => {
    const { runId, lease, close } = commits[i] as TurnCommit;
    const keeps = lease === "keep" && close === undefined;
    if (result.status === "stale" || !keeps) held.delete(runId); // one that is lost so comes back when its lease is over
    return {
      runId,
      status: result.status,
      news: result.status === "committed" && keeps ? result.inbox.map(({ job }) => bare(job)) : undefined,
    };
  });
  return { claimed: claimed.toSorted((a, b) => (a.run.id < b.run.id ? -1 : 1)).map(seen), told };
}
async function carryOut(store: SettledStore, deed: Deed, held: Map<string, Kept>): Promise<unknown> {
  switch (deed.do) {
    case "create":
      return (await store.create(deed.runs)).map(({ status, id }) => ({ status, id }));
    case "work":
      return work(store, deed.queue, deed.lot, held);
    case "poke":
      return (await store.send(deed.ids.map((runId, i) => ({ runId, message: { job: signal(`${runId} ${i}`) } })))).map(
        ({ status }) => status,
      );
    case "cancel":
      return (await store.send(deed.ids.map((runId) => ({ runId, message: { job: { type: "cancel" } } })))).map(({ status }) => status);
    case "terminate":
      for (const id of deed.ids) held.delete(id);
      return (await store.terminate(deed.ids.map((runId) => ({ runId, reason: "enough" })))).map(({ status }) => status);
    case "resume":
      return store.resume(deed.ids);
    case "wait":
      return (await store.expire()).expired;
  }
}
const seen = ({ run, turns, inbox, recovered }: ClaimedRun): unknown => ({
  run: bare(run),
  turns: turns?.length,
  inbox: inbox.map(({ job }) => bare(job)),
  recovered,
});
/** Fields that are undefined are not there, and where an error was made does not matter. */
const bare = (it: object | undefined): unknown =>
  it === undefined ? undefined : JSON.parse(JSON.stringify(it, (key, value: unknown) => (key === "stack" ? undefined : value)));

/** The same past in both. Ids in the order of creation. */
async function livedThrough(dice: Dice, stores: readonly SettledStore[], clock: { time: number }, deeds: number): Promise<string[]> {
  const ids: string[] = [];
  const held = stores.map(() => new Map<string, Kept>());
  const some = (): string[] => [...new Set(range(dice.below(12)).map(() => dice.of(ids)))];
  const doBoth = async (deed: Deed, name: string): Promise<void> => {
    const told = [];
    for (const [i, store] of stores.entries()) told.push(await carryOut(store, deed, held[i] as Map<string, Kept>));
    expect(told[1], `what ${name} answers`).toEqual(told[0]);
  };
  for (const at of range(deeds)) {
    const deed = at % 4 === 0 ? creation(dice, ids, at) : dice.of([working, working, others])(dice, some);
    if (deed.do === "wait") clock.time += deed.ms;
    await doBoth(deed, `${deed.do} (${at})`);
  }
  // At last one of each kind, so that there are runs of every status.
  const last = [...FATE_NAMES, "terminated", "pending"].map((name) =>
    newRun(`last ${name}`, { queue: name === "pending" ? "nobody's" : "default" }),
  );
  const lot = (id: string): Lot => ({ ...AS_IT_IS, fate: FATE_NAMES.find((name) => id === `last ${name}`) ?? "runsOn" });
  const end: Deed[] = [
    { do: "create", runs: last },
    { do: "work", queue: "default", lot },
    { do: "terminate", ids: ["last terminated"] },
  ];
  for (const deed of end) await doBoth(deed, deed.do);
  return [...ids, ...last.map(({ id }) => id)];
}
const AS_IT_IS = { hasTurn: true, isStale: false, isSecond: false, hasSeen: true, consumes: false, publishes: false } as const;
function creation(dice: Dice, ids: string[], at: number): Deed {
  // All of a batch are children, or none: what a store makes of the order of both in one is its own affair.
  const areChildren = ids.length > 0 && dice.below(3) === 0;
  const runs = range(1 + dice.below(24)).map((i) => {
    const id = `${dice.of(["r", "R", "é", '"\\', "\n", "😀"])}${at}-${i}`;
    // Independent runs: which end reaches which run first within a batch is not tested here.
    const parent = { runId: dice.of(ids), execution: 99, seq: i + 1, parentClose: "abandon", announce: false } as const;
    return newRun(id, {
      workflow: dice.of(WORKFLOWS),
      queue: dice.of(QUEUES),
      attributes: dice.of(ATTRIBUTES),
      ...(areChildren && { parent }),
      ...(dice.below(3) === 0 && { deadline: 10_000 + dice.below(60_000) }),
      ...(dice.below(8) === 0 && { delay: 5_000 }),
    });
  });
  ids.push(...runs.map(({ id }) => id));
  return { do: "create", runs };
}
function working(dice: Dice): Deed {
  const salt = dice.below(1_000_000);
  const lot = (id: string): Lot => {
    const own = new Dice(salt + [...id].reduce((sum, char) => sum * 31 + (char.codePointAt(0) ?? 0), 7));
    own.below(2);
    const fate = own.below(3) === 0 ? own.of(["runsOn", "counts"] as const) : own.of(FATE_NAMES);
    return {
      fate,
      hasTurn: !TURNLESS.has(fate) || own.below(2) === 0,
      isStale: own.below(15) === 0,
      isSecond: own.below(8) === 0,
      hasSeen: own.below(2) === 0,
      consumes: own.below(3) === 0,
      publishes: own.below(5) === 0,
    };
  };
  return { do: "work", queue: dice.of(QUEUES), lot };
}
function others(dice: Dice, some: () => string[]): Deed {
  const kind = dice.of(["poke", "cancel", "terminate", "resume", "wait", "wait", "wait"] as const);
  return kind === "wait" ? { do: "wait", ms: dice.of([0, 1, 1_000, 11_000, 11_000]) } : { do: kind, ids: some() };
}

function question(dice: Dice, ids: readonly string[], latest: number): Omit<RunQuery, "limit" | "cursor"> {
  const status = (): readonly RunStatus[] =>
    dice.of([[], [dice.of(STATUSES)], [dice.of(STATUSES), dice.of(STATUSES)], STATUSES.filter(() => dice.below(2) === 0), STATUSES]);
  return {
    status: dice.maybe(status),
    workflow: dice.maybe(() => dice.of([...WORKFLOWS, "nobody's"])),
    queue: dice.maybe(() => dice.of(QUEUES)),
    parentId: dice.below(4) === 0 ? dice.of(ids) : undefined,
    attributes: dice.maybe(() => dice.of(ATTRIBUTES)),
    since: dice.maybe(() => dice.below(latest)),
    until: dice.maybe(() => dice.below(latest + 2)),
  };
}
/** Page after page; a page and its cursor, as a reader sees them. */
async function pagesOf(store: SettledStore, query: Omit<RunQuery, "cursor">): Promise<{ ids: string[]; hasMore: boolean }[]> {
  const pages: { ids: string[]; hasMore: boolean }[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.list({ ...query, cursor });
    cursor = page.cursor;
    pages.push({ ids: page.runs.map(({ id }) => id), hasMore: cursor !== undefined });
  } while (cursor !== undefined && pages.length < 4);
  return pages;
}

test.each([1, 2])("D2 D4 D9 runs that lived through the same are listed and counted as in memory, whatever is asked (%i)", async (seed) => {
  const dice = new Dice(seed);
  const clock = { time: 1_000 };
  const memory = new MemoryStore({ clock: () => clock.time });
  const postgres = await database.open({ schema: database.newSchema(), clock: () => clock.time });
  const ids = await livedThrough(dice, [memory, postgres], clock, 50);
  const rows = await Promise.all([memory, postgres].map((store) => store.get(ids)));
  expect(rows[1]?.map(bare)).toEqual(rows[0]?.map(bare));
  for (const id of ids.filter((_, i) => i % 2 === 0)) {
    const [expected, found] = await Promise.all([memory, postgres].map((store) => store.history(id)));
    expect(found, id).toEqual(expected);
  }
  for (const _ of range(100)) {
    const query = question(dice, ids, clock.time);
    const limit = dice.of([0, 1, 2, 7, 50, 1_000]);
    const said = JSON.stringify({ ...query, limit });
    expect(await pagesOf(postgres, { ...query, limit }), said).toEqual(await pagesOf(memory, { ...query, limit }));
    expect(await postgres.count(query), said).toEqual(await memory.count(query));
  }
  const counts = await memory.count({});
  expect(STATUSES.filter((status) => counts[status] === 0)).toEqual(["continued"]); // of every other there is one to be found
});
