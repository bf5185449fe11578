// Claims of runs and of activities.
// Owns: which transactions a claim takes, and what the log says of rows that can't be claimed; what a claim does is in `claimRuns.ts` and
// `claimTasks.ts`.
// Invariants: W1 W2; D3 (a row that can't be read or written stops no other); a claim that finds nothing only reads.

import type { Logger } from "@holdfast/core";
import { isRefusal, StoreCorruptError } from "../errors.ts";
import { isolate } from "../isolate.ts";
import type { ClaimedRun, ClaimedTask, ClaimRequest, ClaimResult, Store, TaskClaimRequest } from "../port.ts";
import { admitBlocked, claimFiled, type FiledClaim, filedCandidates, plainRuns, plainTasks, servesPlace } from "./claimFiled.ts";
import {
  type Claim,
  type ClaimPart,
  claimedRun,
  claimRun,
  findBlocked,
  findDamaged,
  findDue,
  findLanes,
  type Lane,
  partsOf,
} from "./claimRuns.ts";
import { claimTask, findLost, findTasks, setAsideLate } from "./claimTasks.ts";
import { readText } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { blockDamaged } from "./damage.ts";
import { isDamage } from "./failures.ts";
import type { Session } from "./session.ts";
import { findDueTasks } from "./tasks.ts";

type TaskClaims = Awaited<ReturnType<Store["claimTasks"]>>;

interface BlockedRun {
  readonly id: string;
  readonly isOpen: boolean;
  readonly error: StoreCorruptError;
}
type Write = <T>(weight: number, work: (session: Session, now: number) => T) => Promise<T>;
interface Ports {
  readonly path: string;
  readonly logger: Logger | undefined;
  readonly now: () => number;
  readonly read: <T>(work: (db: Connection) => T) => Promise<T>;
  readonly write: Write;
  /** D11: in a transaction that ends attempts first whose time is up. */
  readonly writeSwept: Write;
}

/** Rows that are refused and passed over for others. */
const MOST_REFUSED = 100;

export class Claims {
  readonly #ports: Ports;
  readonly #toldLanes = new Set<number>();
  #toldRefusal: string | undefined;

  constructor(ports: Ports) {
    this.#ports = ports;
  }

  // ── runs ──

  async runs(request: ClaimRequest): Promise<ClaimResult> {
    const now = this.#ports.now();
    if (request.blockedAfter !== undefined) return this.#claimBlocked(request, request.blockedAfter);
    const looks = await this.#ports.read((db) => partsOf(request).map((part) => look(db, part, request.limit, now)));
    for (const { lanes } of looks) for (const lane of lanes) if (lane.priority === undefined) this.#tellOfLane(lane);
    if (!looks.some(({ isNeeded }) => isNeeded) || request.limit <= 0) return { now, runs: [], nextAt: earliest(looks) };
    return this.#claimFound(request);
  }
  /** V4. */
  async #claimBlocked(request: ClaimRequest, after: number): Promise<ClaimResult> {
    const some = request.limit <= 0 ? [] : await this.#ports.read((db) => findBlocked(db, request, after, 1));
    return some.length === 0 ? { now: this.#ports.now(), runs: [], nextAt: undefined } : this.#claimFound(request);
  }
  async #claimFound(request: ClaimRequest): Promise<ClaimResult> {
    try {
      return await this.#claimSome(request);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return this.#claimIsolated(request);
    }
  }
  /** The database refuses the claim of one of them. The others are claimed. */
  async #claimIsolated(request: ClaimRequest): Promise<ClaimResult> {
    const { limit, blockedAfter } = request;
    const now = this.#ports.now();
    const { keys, lastBlocked } = await this.#ports.read((db) => {
      if (blockedAfter !== undefined) return blockedKeys(findBlocked(db, request, blockedAfter, limit + 1), limit);
      const keys = partsOf(request).flatMap((part) => {
        const { lanes, isFiled } = findLanes(db, part);
        const filed = isFiled ? filedCandidates(db, { ...filedRuns(part, lanes, db, now), limit: limit + MOST_REFUSED }) : [];
        return [...findDamaged(db, lanes), ...findDue(db, lanes, limit + MOST_REFUSED, now).due, ...filed];
      });
      return { keys, lastBlocked: undefined };
    });
    const runs: ClaimedRun[] = [];
    let nextAt: number | undefined;
    const refused = await isolate(keys, async (some) => {
      if (runs.length >= limit) return;
      const claimed = await this.#claimSome({ ...request, limit: limit - runs.length }, new Set(some));
      runs.push(...claimed.runs);
      ({ nextAt } = claimed);
    });
    for (const { error } of refused) this.#tellOfRefusal("A run", error);
    // The runs that were refused stay due: the worker looks again after a while.
    return { now, runs, nextAt: nextAt !== undefined && nextAt > now ? nextAt : undefined, lastBlocked };
  }
  /** In one transaction. `only`: of these runs, by key. */
  async #claimSome(request: ClaimRequest, only?: ReadonlySet<number>): Promise<ClaimResult> {
    const { workerId: id, lease, limit, blockedAfter } = request;
    const isOne = (key: number): boolean => only?.has(key) !== false;
    const block = (session: Session, key: number, cause: unknown): BlockedRun => {
      const error = new StoreCorruptError({ where: this.#ports.path, cause });
      return { ...blockDamaged(session, key, error), error };
    };
    const { now, claims, nextAt, blocked, lastBlocked, heldBack } = await this.#ports.write(limit, (session, now) => {
      const { db } = session;
      const blocked: BlockedRun[] = [];
      const claims: Claim[] = [];
      let late = 0;
      const claimOne = (key: number): boolean => {
        if (claims.length >= limit || !isOne(key)) return false;
        const claimed = readable(
          () => claimRun(session, key, { id, lease }, request, now),
          (error) => blocked.push(block(session, key, error)),
        );
        for (const claim of claimed) {
          if (claim === undefined) late++;
          else claims.push(claim);
        }
        return claimed[0] !== undefined;
      };
      // In this transaction: in the next, another process may have fixed and claimed them.
      const blockAll = (keys: readonly number[]): void => {
        for (const key of keys.filter(isOne)) blocked.push(block(session, key, new TypeError("Its available_at is not a moment.")));
      };
      if (blockedAfter !== undefined) {
        const found = findBlocked(db, request, blockedAfter, only === undefined ? limit + 1 : Number.POSITIVE_INFINITY);
        const { keys, lastBlocked } = blockedKeys(found, limit);
        for (const key of only === undefined ? keys : found) claimBlocked(session, key, now, claimOne);
        const left = new Set(findBlocked(db, request, blockedAfter, Number.POSITIVE_INFINITY));
        return { now, claims, nextAt: undefined, blocked, lastBlocked, heldBack: keys.filter((key) => left.has(key) && isOne(key)) };
      }
      const nexts: { nextAt: number | undefined }[] = [];
      for (const part of partsOf(request)) {
        const { lanes, isFiled } = findLanes(db, part);
        blockAll(findDamaged(db, lanes));
        const room = (): number => limit - claims.length;
        if (isFiled) {
          const filed = {
            ...filedRuns(part, lanes, db, now),
            limit: room(),
            take: claimOne,
            isOne: only === undefined ? undefined : isOne,
          };
          const { nextAt, damaged } = claimFiled(db, session, filed);
          blockAll(damaged);
          nexts.push({ nextAt });
          continue;
        }
        let { due, nextAt } = findDue(db, lanes, only === undefined ? room() : limit + MOST_REFUSED, now);
        due.forEach(claimOne);
        // K7: those past their deadline leave room for others. Each is late once.
        for (let before = 0; only === undefined && late > before; due.forEach(claimOne)) {
          before = late;
          ({ due, nextAt } = findDue(db, lanes, room(), now));
        }
        nexts.push({ nextAt });
      }
      return { now, claims, nextAt: earliest(nexts), blocked, lastBlocked: undefined, heldBack: undefined };
    });
    const damaged: { readonly key: number; readonly error: unknown }[] = [];
    const runs = claims.flatMap((claim) =>
      readable(
        () => claimedRun(claim),
        (error) => damaged.push({ key: claim.key, error }),
      ),
    );
    const refused = await isolate(damaged, async (some) => {
      blocked.push(...(await this.#ports.write(some.length, (session) => some.map(({ key, error }) => block(session, key, error)))));
    });
    for (const { error } of refused) this.#tellOfRefusal("A run", error);
    for (const run of blocked) this.#tellOfRun(run);
    return { now, runs, nextAt, lastBlocked, heldBack };
  }
  #tellOfRun({ id, isOpen, error }: BlockedRun): void {
    const what = isOpen
      ? "is blocked: rows of it can't be read"
      : "has ended, and something else had made it available: it stays as it ended";
    this.#ports.logger?.error(`Run ${id} ${what}.`, { runId: id, error });
  }
  /** Once: every claim has it refused. */
  #tellOfRefusal(what: string, error: unknown): void {
    if (this.#toldRefusal === String(error)) return;
    this.#toldRefusal = String(error);
    this.#ports.logger?.error(`${what} can't be claimed; others are.`, { error });
  }
  /** Once: it is found by every claim. */
  #tellOfLane({ lane }: Lane): void {
    if (this.#toldLanes.has(lane)) return;
    this.#toldLanes.add(lane);
    const message = `The lane ${lane} of ${this.#ports.path} has a priority that is not a number: its runs are claimed with priority 0.`;
    this.#ports.logger?.error(`${message} Fix its row in holdfast_lanes.`, { lane });
  }

  // ── activities ──

  async tasks(request: TaskClaimRequest): Promise<TaskClaims> {
    const now = this.#ports.now();
    const look = await this.#ports.read((db) => {
      const found = findTasks(db, request, now);
      const others = { overdue: findDueTasks(db, now, 1), lost: findLost(db, request) };
      if (!found.isFiled) return { ...others, nextAt: found.nextAt, isDue: found.due.length > 0 };
      const { isNeeded, nextAt } = claimFiled(db, undefined, filedTasks(request, db, now));
      return { ...others, nextAt: earliest([{ nextAt }, afterNow(found.nextAt, now)]), isDue: isNeeded };
    });
    const isNeeded = look.overdue.length > 0 || (request.limit > 0 && (look.isDue || look.lost.length > 0));
    if (!isNeeded) return { now, tasks: [], nextAt: look.nextAt };
    try {
      return await this.#claimSomeTasks(request);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return this.#claimTasksIsolated(request);
    }
  }
  /** As of runs. */
  async #claimTasksIsolated(request: TaskClaimRequest): Promise<TaskClaims> {
    const { limit } = request;
    const now = this.#ports.now();
    const more = { ...request, limit: limit + MOST_REFUSED };
    const ids = await this.#ports.read((db) => [
      ...findLost(db, more),
      ...findTasks(db, more, now).due.map(({ id }) => id),
      ...filedCandidates(db, filedTasks(more, db, now)),
    ]);
    const tasks: ClaimedTask[] = [];
    let nextAt: number | undefined;
    const refused = await isolate(ids, async (some) => {
      if (tasks.length >= limit) return;
      const claimed = await this.#claimSomeTasks({ ...request, limit: limit - tasks.length }, new Set(some));
      tasks.push(...claimed.tasks);
      ({ nextAt } = claimed);
    });
    for (const { error } of refused) this.#tellOfRefusal("An activity", error);
    return { now, tasks, nextAt: nextAt !== undefined && nextAt > now ? nextAt : undefined };
  }
  /** In one transaction. `only`: of these tasks, by id. */
  #claimSomeTasks(request: TaskClaimRequest, only?: ReadonlySet<number>): Promise<TaskClaims> {
    const { limit } = request;
    const some = only === undefined ? request : { ...request, limit: limit + MOST_REFUSED };
    const isOne = (id: number): boolean => only?.has(id) !== false;
    return this.#ports.writeSwept(limit, (session, now) => {
      const tasks: ClaimedTask[] = [];
      const claim = (id: number, how: "new" | "again"): boolean => {
        if (tasks.length >= limit || !isOne(id)) return false;
        const task = claimTask(session, id, request, now, how);
        if (task !== undefined) tasks.push(task);
        return task !== undefined;
      };
      const { db } = session;
      for (const id of findLost(db, some)) claim(id, "again");
      const { due, nextAt, isFiled } = findTasks(db, { ...some, limit: some.limit - tasks.length }, now);
      if (!isFiled) {
        for (const { id } of due) claim(id, "new");
        return { now, tasks, nextAt };
      }
      const take = (id: number): boolean => !setAsideLate(db, id, now) && claim(id, "new");
      const filed = {
        ...filedTasks({ ...request, limit: limit - tasks.length }, db, now),
        take,
        isOne: only === undefined ? undefined : isOne,
      };
      const claimed = claimFiled(db, session, filed);
      return { now, tasks, nextAt: earliest([claimed, afterNow(nextAt, now)]) };
    });
  }
}

interface Look {
  readonly lanes: readonly Lane[];
  readonly nextAt: number | undefined;
  readonly isNeeded: boolean;
}
/** Reads only: most claims find nothing. */
function look(db: Connection, part: ClaimPart, limit: number, now: number): Look {
  const { lanes, isFiled } = findLanes(db, part);
  const isDamaged = lanes.some((lane) => lane.isDamaged);
  if (isFiled) {
    const { nextAt, isNeeded } = claimFiled(db, undefined, { ...filedRuns(part, lanes, db, now), limit });
    return { lanes, nextAt: earliest([{ nextAt }, ...lanes.map(({ head }) => afterNow(head, now))]), isNeeded: isNeeded || isDamaged };
  }
  const { due, nextAt } = findDue(db, lanes, limit, now);
  return { lanes, nextAt, isNeeded: due.length > 0 || isDamaged };
}
function filedRuns({ queue, serves }: ClaimPart, lanes: readonly Lane[], db: Connection, now: number): FiledClaim {
  return { queue, kind: "run", isServed: servesPlace(serves), plain: plainRuns(db, lanes, now), now, limit: 0 };
}
function filedTasks({ queue, activities, limit }: TaskClaimRequest, db: Connection, now: number): FiledClaim {
  const plain = plainTasks(db, { queue, activities }, now);
  return { queue, kind: "task", isServed: ({ name }) => activities.includes(name), plain, now, limit };
}
/** V4, Q2: one that is filed, or in a queue that is paused, is claimed within the limits. */
function claimBlocked(session: Session, key: number, now: number, claim: (key: number) => boolean): void {
  const [queue] = session.db.get("SELECT queue FROM holdfast_runs WHERE key = ?", [key]) ?? [];
  const admitted = admitBlocked(session, readText(queue), key, now);
  if (admitted !== undefined && claim(key)) admitted.claimed();
}
const earliest = (all: readonly { readonly nextAt: number | undefined }[]): number | undefined => {
  const moments = all.flatMap(({ nextAt }) => nextAt ?? []);
  return moments.length === 0 ? undefined : Math.min(...moments);
};
const afterNow = (nextAt: number | undefined, now: number): { nextAt: number | undefined } => ({
  nextAt: nextAt !== undefined && nextAt > now ? nextAt : undefined,
});

/** Empty if something else has written to the rows that are read. */
function readable<T>(read: () => T, damaged: (error: unknown) => void): T[] {
  try {
    return [read()];
  } catch (error) {
    if (!isDamage(error)) throw error;
    damaged(error);
    return [];
  }
}

/** The runs that a claim of blocked ones may have, and up to which one it went. Undefined: there are no more. */
function blockedKeys(found: readonly number[], limit: number): { keys: readonly number[]; lastBlocked: number | undefined } {
  return { keys: found.slice(0, limit), lastBlocked: found.length > limit ? found[limit - 1] : undefined };
}
