// Checks every claim in a queue with limits, a pause or keys: the oracles "slots", "rates", "pauses", "queue order", "shares", "idle",
// "hints" and "load".
// Owns: what is known of each queue.
// Invariants: Q2 Q3 (held never over a limit), Q4 (in every window), Q5 (order and shares), Q6 Q7 (nothing that could be claimed is left,
// a claim says when a rate or a pause has room again, a freed slot is hinted at), Q8 (a pause stops every claim), Q1 (the load of a queue).

import type { ClaimRequest, ClaimResult, QueueLimit, RunRow, StoredQueueSpec, Wakeup } from "holdfast/store";
import type { FreeStore } from "../stores.ts";
import type { World } from "../world.ts";
import { type Needs, QueueClaim, SHARES, type Share } from "./queueClaim.ts";
import { QueueShares, type Ready } from "./queueShares.ts";
import { BOTH_SLOTS, QueueState } from "./queueState.ts";
import { TaskSlots } from "./taskSlots.ts";

interface Known {
  readonly state: QueueState;
  /** What keys share: claims and, where the queue has a rate, the starts that it lets through. */
  readonly shares: { readonly claims: QueueShares; readonly starts: QueueShares };
  /** Where open runs count: the slots that each has taken since it was opened, as bits. */
  held: Map<string, number>;
}

export class QueueChecks {
  readonly #world: World;
  readonly #inner: FreeStore;
  readonly #known = new Map<string, Known>();
  /** Runs that are open again after their end, and that no worker has claimed since. */
  readonly #reopened = new Set<string>();
  readonly #hints = { work: 0, tasks: 0 };
  readonly tasks: TaskSlots;

  constructor(world: World, inner: FreeStore) {
    this.#world = world;
    this.#inner = inner;
    this.tasks = new TaskSlots(world, inner, (name) => this.#known.get(name)?.state);
  }
  #broken(oracle: string, rule: string, message: string): void {
    this.#world.violate(oracle, rule, message);
  }
  #of(name: string): Known {
    const known = this.#known.get(name) ?? {
      state: new QueueState(name),
      shares: { claims: new QueueShares(this.#world, `claims in ${name}`), starts: new QueueShares(this.#world, `starts in ${name}`) },
      held: new Map<string, number>(),
    };
    this.#known.set(name, known);
    return known;
  }

  // ── calls about queues ──

  /** `rows`: the open runs. */
  async set(name: string, spec: StoredQueueSpec | undefined, rows: ReadonlyMap<string, RunRow>): Promise<void> {
    await (spec === undefined ? this.#inner.deleteQueue(name) : this.#inner.setQueue(name, spec));
    this.#world.note("db", `limits of ${name}: ${spec === undefined ? "none" : JSON.stringify(spec)}`);
    const known = this.#of(name);
    const before = known.state.spec;
    const isSame = before !== undefined && spec !== undefined && (before.counts ?? "running") === (spec.counts ?? "running");
    known.state.set(spec);
    reset(known);
    if (isSame) return;
    // Q1: those that have begun hold their slots from now on, if that is what counts.
    known.held = new Map();
    const empty = { queue: name, serves: [], workerId: "", limit: 0, lease: 0, cached: () => undefined };
    const look = new QueueClaim(known.state, rows, empty, this.#world.now, known.held);
    for (const row of rows.values())
      if (row.queue === name && row.startedAt !== undefined && !this.#reopened.has(row.id)) known.held.set(row.id, look.needs(row).slots);
  }
  async pause(name: string, pause: { readonly key?: string | undefined; readonly for?: number | undefined }): Promise<void> {
    await this.#inner.pauseQueue(name, pause);
    const until = pause.for === undefined ? Number.POSITIVE_INFINITY : this.#world.now + pause.for;
    this.#world.note("db", `pause ${name}${pause.key === undefined ? "" : ` for key ${pause.key}`}, ${pause.for ?? "unlimited"} ms`);
    const known = this.#of(name);
    known.state.pause(pause.key, until);
    reset(known);
  }
  async resume(name: string, key: string | undefined): Promise<void> {
    await this.#inner.resumeQueue(name, key);
    this.#world.note("db", `resume ${name}${key === undefined ? "" : ` for key ${key}`}`);
    const known = this.#of(name);
    known.state.resume(key);
    reset(known);
  }

  // ── claims of runs ──

  /** Whether a claim there goes by limits, pauses or keys, and not only by priority and time (W2). */
  isFiled(name: string, rows: ReadonlyMap<string, RunRow>): boolean {
    if (this.#known.has(name)) return true;
    const isKeyed = [...rows.values()].some(({ queue, key }) => queue === name && key !== undefined);
    if (isKeyed) this.#of(name);
    return isKeyed;
  }
  /** `rows`: the open runs before the claim. */
  async claimed(rows: ReadonlyMap<string, RunRow>, request: ClaimRequest, result: ClaimResult): Promise<void> {
    if (!this.isFiled(request.queue, rows)) return;
    const known = this.#of(request.queue);
    const { now, runs } = result;
    const claim = new QueueClaim(known.state, rows, request, now, known.held);
    for (const share of SHARES) known.shares[share].before(readyIn(claim, share));
    const taken: { readonly row: RunRow; readonly needs: Needs }[] = [];
    for (const { run } of runs) {
      const row = rows.get(run.id);
      if (row === undefined || row.queue !== request.queue) continue;
      const refusal = claim.refusal(row);
      if (refusal !== undefined)
        this.#broken(refusal.oracle, refusal.rule, `${shown(row)} was claimed in ${row.queue}, which ${refusal.why}`);
      if (request.blockedAfter === undefined) this.#served(known, claim, row);
      taken.push({ row, needs: claim.take(row) });
      this.#reopened.delete(row.id);
    }
    if (claim.isOpenCounted) known.held = new Map(claim.held);
    if (request.blockedAfter !== undefined) return reset(known);
    for (const share of SHARES) known.shares[share].after(readyIn(claim, share));
    this.#checkOrder(known, claim, taken);
    if (runs.length < request.limit) this.#checkLeft(claim, result, request.queue);
    if (runs.length > 0) await this.#checkLoad(known.state, rows, taken, now);
  }
  #served({ state, shares }: Known, claim: QueueClaim, row: RunRow): void {
    for (const share of SHARES) shares[share].weigh(row.key, state.weightOf(row.key));
    if (claim.isOpenCounted || claim.needs(row).slots === 0) return;
    const served = (share: Share, isRival: (one: RunRow) => boolean): void => {
      const rivals = claim.waiting().filter((one) => one.priority === row.priority && claim.isReadyFor(share, one) && isRival(one));
      shares[share].served(row.key, (key) => state.weightOf(key), row.priority, new Set([row.key, ...rivals.map(({ key }) => key)]));
    };
    served("claims", () => true);
    if (row.startedAt !== undefined) {
      if (!claim.isRateFull) shares.starts.interrupted(row.key);
      return;
    }
    // W2: a key with something that goes on gives that first.
    const goesOn = new Set(claim.waiting().flatMap((one) => (one.startedAt === undefined ? [] : [one.key])));
    if (state.spec?.rate !== undefined) served("starts", ({ key }) => !goesOn.has(key));
  }
  /** Q5: by priority; within a key, resumed before new, then by availability. */
  #checkOrder({ state }: Known, claim: QueueClaim, taken: readonly { readonly row: RunRow; readonly needs: Needs }[]): void {
    if (claim.isOpenCounted) return;
    const left = claim.waiting();
    for (const [i, { row, needs }] of taken.entries()) {
      const others = [...left, ...taken.slice(i + 1).map((one) => one.row)];
      for (const other of others) {
        const its = claim.needs(other);
        if (other.key !== row.key || other.priority !== row.priority || its.slots > needs.slots || (its.isStart && !needs.isStart))
          continue;
        // Work without a key in a queue without limits waits as in any other (Q1).
        const isPlain = state.spec === undefined && row.key === undefined;
        const isSooner = (other.availableAt ?? 0) < (row.availableAt ?? 0);
        if (isPlain || its.isStart === needs.isStart ? isSooner : needs.isStart)
          this.#broken("queue order", "Q5", `${shown(row)} was claimed before ${shown(other)}`);
      }
      if (needs.slots !== BOTH_SLOTS) continue;
      for (const other of left) {
        if (other.priority <= row.priority || (claim.needs(other).isStart && !needs.isStart)) continue;
        if (claim.admissibleAt(other, undefined, row) <= this.#world.now)
          this.#broken("queue order", "Q5", `${shown(row)} was claimed, and ${shown(other)} was left behind`);
      }
    }
  }
  /** Q6 Q7: the claim had room for more. */
  #checkLeft(claim: QueueClaim, { now, nextAt }: ClaimResult, queue: string): void {
    for (const row of claim.waiting()) {
      const at = claim.admissibleAt(row);
      if (at <= now) this.#broken("idle", "Q7", `${shown(row)} was not claimed in ${queue}, which has room for it`);
      else if (Number.isFinite(at) && (nextAt ?? Number.POSITIVE_INFINITY) > at)
        this.#broken(
          "idle",
          "Q7",
          `${shown(row)} has room in ${queue} in ${at - now} ms, but the claim said ${nextAt === undefined ? "nothing" : `${nextAt - now} ms`}`,
        );
    }
  }
  /** Q1: what the queue says of its load. */
  async #checkLoad(
    state: QueueState,
    rows: ReadonlyMap<string, RunRow>,
    taken: readonly { readonly row: RunRow }[],
    now: number,
  ): Promise<void> {
    if (state.spec?.counts === "open") return;
    const ids = new Set(taken.map(({ row }) => row.id));
    const own = [...rows.values()].filter(({ queue }) => queue === state.name);
    const { held, waiting } = (await this.#inner.getQueue(state.name)).runs;
    const leased = own.filter(({ id, workerId }) => ids.has(id) || workerId !== undefined).length;
    const due = own.filter((row) => !ids.has(row.id) && row.workerId === undefined && (row.availableAt ?? now + 1) <= now).length;
    // A claim may end expired leases, and runs past their deadline.
    const isSure = own.every(({ id, deadlineAt, workerId, availableAt = 0 }) => {
      return deadlineAt === undefined && (workerId === undefined || ids.has(id) || availableAt > now);
    });
    if (isSure && (held !== leased || waiting !== due))
      this.#broken("load", "Q1", `${state.name} says ${held} held and ${waiting} waiting instead of ${leased} and ${due}`);
  }

  // ── ends ──

  /** The run is open again, after its end. */
  reopened(id: string): void {
    this.#reopened.add(id);
    for (const { held } of this.#known.values()) held.delete(id);
  }
  hinted({ work, tasks }: Wakeup): void {
    if (work === true) this.#hints.work++;
    if (tasks === true) this.#hints.tasks++;
  }
  /** Q7: a call that frees a slot which something waits for hints at it. */
  async freeing<T>(call: () => Promise<T>): Promise<T> {
    const limited = [...this.#known.values()].map(({ state }) => state).filter(({ spec }) => spec?.concurrency !== undefined);
    if (limited.length === 0) return call();
    const before = await Promise.all(limited.map(({ name }) => this.#inner.getQueue(name)));
    const { work, tasks } = this.#hints;
    const result = await call();
    for (const [i, { name, spec }] of limited.entries()) {
      const { concurrency = 0 } = spec as QueueLimit;
      const is = await this.#inner.getQueue(name);
      const was = before[i] ?? is;
      if (is.paused) continue;
      if (this.#hints.work === work && was.runs.held >= concurrency && is.runs.held < concurrency && is.runs.waiting > 0)
        this.#broken("hints", "Q7", `a slot of ${name} became free for ${is.runs.waiting} runs that wait, and no worker was notified`);
      if (
        this.#hints.tasks === tasks &&
        was.activities.held >= concurrency &&
        is.activities.held < concurrency &&
        is.activities.waiting > 0
      )
        this.#broken(
          "hints",
          "Q7",
          `a slot of ${name} became free for ${is.activities.waiting} activities that wait, and no worker was notified`,
        );
    }
    return result;
  }
  /** Everything has ended: what is held are leases, and there are none. */
  async checkEnd(): Promise<void> {
    for (const name of this.#known.keys()) {
      const { runs, activities } = await this.#inner.getQueue(name);
      if (runs.held + runs.waiting + activities.held + activities.waiting > 0)
        this.#broken(
          "load",
          "Q2",
          `${name} has ended, and holds ${runs.held} runs and ${activities.held} activities; ${runs.waiting} and ${activities.waiting} wait`,
        );
    }
  }
}

function reset({ shares }: Known): void {
  for (const share of SHARES) shares[share].reset();
}
function readyIn(claim: QueueClaim, share: Share): Ready {
  const ready = new Map<string | undefined, Set<string>>();
  if (claim.isOpenCounted) return ready;
  for (const row of claim.waiting()) {
    if (!claim.isReadyFor(share, row)) continue;
    ready.set(row.key, (ready.get(row.key) ?? new Set()).add(row.id));
  }
  return ready;
}
function shown({ id, key, priority }: RunRow): string {
  return `${id} (${key === undefined ? "no key" : `key ${key}`}, priority ${priority})`;
}
