// What waits in one queue for one claimer, in SQLite: what `choose` asks for.
// Owns: the statements behind the shelf, for runs and for activities.
// Invariants: Q2 Q3 (what is held is counted from the rows themselves), Q4 (starts are kept as long as a window reaches), Q6 (a lane is found
// by its pass, whatever is in it). A shelf that only looks writes nothing: `isNeeded` says whether a claim would.

import type { Head, KeyState, Lane, Shelf } from "../filing/choose.ts";
import { KEY_SLOT, longestWindow, needsOf, QUEUE_SLOT, type Share, START, TASK_NEEDS } from "../filing/rules.ts";
import type { StoredQueueSpec } from "../queuePort.ts";
import { LAST_MOMENT, readNumber, readOptionalText, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { ABOVE, coveredAt } from "./coveredSlots.ts";
import { type Kind, keyName, keyOf, type Place, readTime, readyLane, SHARED_BY } from "./filedLanes.ts";
import type { Row, Value } from "./library.ts";

type Of = "queue" | { readonly key: string };
export interface ShelfHead extends Head {
  /** The key of a run, or the id of a task. */
  readonly id: number;
}
export interface NumberedPlace extends Place {
  readonly lane: number;
}
/** Work without a key in a queue without limits. */
export interface PlainLanes {
  /** The highest priority below this one that has something due. */
  nextPriority(below: number): number | undefined;
  head(priority: number): (ShelfHead & { readonly isLeased: boolean }) | undefined;
}
export interface ShelfOptions {
  readonly queue: string;
  readonly kind: Kind;
  /** All of the queue. */
  readonly places: readonly NumberedPlace[];
  readonly isServed: (place: Place) => boolean;
  readonly spec: StoredQueueSpec | undefined;
  readonly plain: PlainLanes | undefined;
  readonly now: number;
  /** Only these are claimed. */
  readonly isOne?: ((id: number) => boolean) | undefined;
  /** Claims it. False: it could not be, and is no longer due here. Absent: the shelf only looks. */
  readonly take?: ((id: number) => boolean) | undefined;
  /** Q3: ends the lease of a run that its worker has lost. */
  readonly endLease?: ((id: number) => void) | undefined;
  /** Q2: a run holds slots from now on that it keeps until it ends. */
  readonly tookSlots?: ((id: number) => void) | undefined;
}

const HEADS: Readonly<Record<Kind, string>> = {
  run: `SELECT key, available_at, worker_id IS NOT NULL, started_at IS NOT NULL, held, ${ABOVE}, work_key, priority FROM holdfast_runs`,
  task: `SELECT id, available_at, 0, 0, 0, NULL, work_key, priority FROM holdfast_tasks`,
};
const TABLES: Readonly<Record<Kind, { readonly table: string; readonly id: string }>> = {
  run: { table: "holdfast_runs", id: "key" },
  task: { table: "holdfast_tasks", id: "id" },
};
/** Arrivals that are sorted at once, and lanes that are read at once. */
const SOME = 500;
const SOME_LANES = 20;
const ALL_PRIORITIES = Number.MAX_SAFE_INTEGER;

export class SqliteShelf implements Shelf<ShelfHead> {
  readonly #db: Connection;
  readonly #options: ShelfOptions;
  readonly #served: ReadonlyMap<number, NumberedPlace>;
  readonly #key: readonly [Value, Kind];
  /** Of a queue that counts running ones: by key. They are as many as workers have. */
  #heldByKey: Map<string, number> | undefined;
  /** Looking: there is something that a claim would change. */
  isNeeded = false;

  constructor(db: Connection, options: ShelfOptions) {
    this.#db = db;
    this.#options = options;
    this.#served = new Map(options.places.filter(options.isServed).map((place) => [place.lane, place]));
    this.#key = [text(options.queue), options.kind];
  }
  get #isLooking(): boolean {
    return this.#options.take === undefined;
  }

  // ── arrivals ──

  /** Sorts what has become due. Returns those whose time is not a moment. */
  ripen(): number[] {
    const { kind, now, isOne = () => true } = this.#options;
    const { id: column, table } = TABLES[kind];
    const damaged: number[] = [];
    for (const place of this.#served.values()) {
      const broken = `SELECT ${column} FROM ${table} WHERE lane = ? AND available_at > ${LAST_MOMENT}`;
      damaged.push(...this.#db.all(broken, [-place.lane]).map(([id]) => readNumber(id)));
      for (let after: readonly [number, number] = [Number.MIN_SAFE_INTEGER, 0]; ; ) {
        const sql = `${HEADS[kind]} WHERE lane = ? AND available_at <= ? AND (available_at, ${column}) > (?, ?) ORDER BY available_at, ${column} LIMIT ?`;
        const rows = this.#db.all(sql, [-place.lane, now, ...after, this.#isLooking ? 1 : SOME]);
        if (this.#isLooking) {
          this.isNeeded ||= rows.length > 0;
          break;
        }
        for (const row of rows) if (isOne(readNumber(row[0]))) this.#sort(place, row);
        const last = rows.at(-1);
        if (last === undefined || rows.length < SOME) break;
        after = [readNumber(last[1]), readNumber(last[0])];
      }
    }
    this.isNeeded ||= damaged.length > 0;
    return damaged;
  }
  #sort(place: NumberedPlace, row: Row): void {
    const { kind } = this.#options;
    const { id: column, table } = TABLES[kind];
    const [id, , , , , , key = null, priority] = row;
    const waiter = { priority: readNumber(priority), key: key === null ? undefined : readText(key), needs: this.#needs(row) };
    const lane = readyLane(this.#db, place.lane, place, waiter);
    this.#db.run(`UPDATE ${table} SET lane = ? WHERE ${column} = ?`, [-lane, readNumber(id)]);
  }
  #needs([, , isLeased, isBegun, held, above = null, key]: Row): number {
    const { kind, queue, spec } = this.#options;
    if (kind === "task") return TASK_NEEDS;
    const covered = spec?.counts === "open" ? coveredAt(this.#db, { queue, key: readOptionalText(key), above }) : 0;
    return needsOf({ isLeased: isLeased === 1, isBegun: isBegun === 1, held: readNumber(held), covered }, spec);
  }
  /** When the next is due that is not yet. */
  nextArrival(): number | undefined {
    const { kind, now } = this.#options;
    let next: number | undefined;
    for (const { lane } of this.#served.values()) {
      const sql = `SELECT min(available_at) FROM ${TABLES[kind].table} WHERE lane = ? AND available_at > ? AND available_at <= ${LAST_MOMENT}`;
      const [at = null] = this.#db.get(sql, [-lane, now]) ?? [];
      if (at !== null && (next === undefined || readNumber(at) < next)) next = readNumber(at);
    }
    return next;
  }
  /** Whatever may be claimed here, in no order: for finding out which of them can't be written. */
  candidates(limit: number): number[] {
    const { kind, queue, now } = this.#options;
    const { id: column, table } = TABLES[kind];
    const sql = `SELECT w.${column} FROM holdfast_filed_lanes f JOIN ${table} w ON w.lane = -f.lane AND w.available_at <= ?1
      WHERE f.queue = ?2 AND f.kind = ?3 AND coalesce(f.place, f.lane) = ?4 LIMIT ?5`;
    return [...this.#served.keys()].flatMap((place) =>
      this.#db.all(sql, [now, text(queue), kind, place, limit]).map(([id]) => readNumber(id)),
    );
  }

  // ── lanes ──

  nextPriority(below: number): number | undefined {
    const limit = Math.min(below, ALL_PRIORITIES);
    let next = this.#options.plain?.nextPriority(limit);
    if (this.#options.plain !== undefined && next === undefined && limit === ALL_PRIORITIES) this.#idle("");
    for (const place of this.#served.keys()) {
      const [found = null] =
        this.#db.get("SELECT max(priority) FROM holdfast_filed_lanes WHERE place = ? AND priority < ?", [place, limit]) ?? [];
      if (found !== null && (next === undefined || readNumber(found) > next)) next = readNumber(found);
    }
    return next;
  }
  *lanes(priority: number, admits: (needs: number) => boolean): Iterator<Lane> {
    const cursors = this.#cursors(priority);
    const plain = this.#plainLane(priority);
    let isPlainLeft = plain !== undefined;
    for (;;) {
      let best: Cursor | undefined;
      for (const cursor of cursors) {
        if (!admits(cursor.needs)) continue;
        const top = cursor.top();
        const rival = best?.top();
        if (top !== undefined && (rival === undefined || top.pass < rival.pass || (top.pass === rival.pass && top.lane < rival.lane)))
          best = cursor;
      }
      const top = best?.top();
      if (plain !== undefined && isPlainLeft && admits(plain.needs) && (top === undefined || plain.pass <= top.pass)) {
        isPlainLeft = false;
        yield plain;
      } else if (best === undefined || top === undefined) return;
      else {
        best.pop();
        yield top;
      }
    }
  }
  #cursors(priority: number): Cursor[] {
    const cursors: Cursor[] = [];
    for (const place of this.#served.keys()) {
      const sql = "SELECT max(needs) FROM holdfast_filed_lanes WHERE place = ? AND priority = ? AND needs < ?";
      for (let needs = Number.MAX_SAFE_INTEGER; ; ) {
        const [next = null] = this.#db.get(sql, [place, priority, needs]) ?? [];
        if (next === null) break;
        needs = readNumber(next);
        cursors.push(new Cursor(this.#db, place, priority, needs));
      }
    }
    return cursors;
  }
  lanesOf(key: string | undefined, priority: number): readonly Lane[] {
    const sql =
      "SELECT lane, place, needs, pass FROM holdfast_filed_lanes WHERE queue = ? AND kind = ? AND key = ? AND priority = ? AND place IS NOT NULL";
    const lanes: Lane[] = [];
    for (const [lane, place, needs, pass] of this.#db.all(sql, [...this.#key, text(keyName(key)), priority]))
      if (this.#served.has(readNumber(place)))
        lanes.push({ lane: readNumber(lane), key, priority, needs: readNumber(needs), pass: readNumber(pass) });
    const plain = key === undefined ? this.#plainLane(priority) : undefined;
    return plain === undefined ? lanes : [...lanes, plain];
  }
  /** Q1: they are one key, with the number 0. Those that a worker has lost need no slot. */
  #plainLane(priority: number): Lane | undefined {
    const head = this.#options.plain?.head(priority);
    if (head === undefined) return undefined;
    const pass = this.keyState(undefined, "claims")?.pass ?? this.time(priority, "claims");
    return { lane: 0, key: undefined, priority, needs: head.isLeased ? 0 : QUEUE_SLOT | KEY_SLOT, pass };
  }
  head({ lane, needs, priority }: Lane): ShelfHead | undefined {
    if (lane === 0) return this.#options.plain?.head(priority);
    const { kind, now, isOne } = this.#options;
    const { id: column, table } = TABLES[kind];
    const sql = `${HEADS[kind]} WHERE lane = ? AND available_at IS NOT NULL ORDER BY available_at, ${column} LIMIT ?`;
    // Usually the first. With `isOne` those that can't be written are passed over, and stay.
    for (let tries = 0; tries < SOME; tries++) {
      const rows = this.#db.all(sql, [-lane, isOne === undefined ? 1 : SOME]);
      const row = isOne === undefined ? rows[0] : rows.find(([id]) => isOne(readNumber(id)));
      if (row === undefined) {
        if (rows.length === 0) this.#drop(lane);
        return undefined;
      }
      const [id, availableAt] = row;
      const at = typeof availableAt === "number" ? availableAt : Number.POSITIVE_INFINITY;
      if (at <= now && this.#needs(row) === needs) return { id: readNumber(id), availableAt: at, order: readNumber(id) };
      this.isNeeded = true;
      if (this.#isLooking) return undefined;
      // It has changed since it was sorted, or the clock was set back: it waits to be found due again.
      const back = `UPDATE ${table} SET lane = (SELECT -place FROM holdfast_filed_lanes WHERE lane = ?) WHERE ${column} = ?`;
      this.#db.run(back, [lane, readNumber(id)]);
    }
    return undefined;
  }
  #drop(lane: number): void {
    if (this.#isLooking) this.isNeeded = true;
    else this.#db.run("DELETE FROM holdfast_filed_lanes WHERE lane = ? AND place IS NOT NULL", [lane]);
  }

  take({ id }: ShelfHead, lane: Lane): boolean {
    const { take, kind, spec, now } = this.#options;
    if (take === undefined) return true;
    if (!take(id)) return false;
    if (lane.lane === 0) return true;
    this.claimed(id, lane, lane.lane);
    const { table } = TABLES[kind];
    const isLeft = this.#db.get(`SELECT 1 FROM ${table} WHERE lane = ? AND available_at IS NOT NULL LIMIT 1`, [-lane.lane]);
    if (isLeft === undefined) this.#drop(lane.lane);
    const window = longestWindow(spec);
    if (window > 0)
      this.#db.run("DELETE FROM holdfast_queue_starts WHERE queue = ? AND kind = ? AND at <= ?", [...this.#key, now - window]);
    return true;
  }
  /** It waits with the arrivals from now on, and holds what it needed. */
  claimed(id: number, { key, needs }: Pick<Lane, "key" | "needs">, lane?: number): void {
    const { kind, spec, now } = this.#options;
    const { id: column, table } = TABLES[kind];
    if (lane !== undefined)
      this.#db.run(`UPDATE ${table} SET lane = (SELECT -place FROM holdfast_filed_lanes WHERE lane = ?) WHERE ${column} = ?`, [lane, id]);
    const slots = needs & (QUEUE_SLOT | KEY_SLOT);
    if (kind === "run" && spec?.counts === "open" && slots !== 0) {
      this.#db.run("UPDATE holdfast_runs SET held = held | ? WHERE key = ?", [slots, id]);
      this.#options.tookSlots?.(id);
    }
    if ((needs & START) !== 0 && longestWindow(spec) > 0)
      this.#db.run("INSERT INTO holdfast_queue_starts (queue, kind, key, at) VALUES (?, ?, ?, ?)", [...this.#key, text(keyName(key)), now]);
    if (slots !== 0 && key !== undefined) this.#heldByKey?.set(key, (this.#heldByKey.get(key) ?? 0) + 1);
  }

  // ── limits ──

  held(of: Of): number {
    const { kind, spec, queue } = this.#options;
    const name = text(queue);
    if (kind === "run" && spec?.counts === "open") {
      const slot = of === "queue" ? QUEUE_SLOT : KEY_SLOT;
      const sql = `SELECT count(*) FROM holdfast_runs WHERE held > 0 AND queue = ?1 AND held & ?2 <> 0${of === "queue" ? "" : " AND work_key = ?3"}`;
      return readNumber(this.#db.get(sql, of === "queue" ? [name, slot] : [name, slot, text(of.key)])?.[0]);
    }
    const claimed = kind === "run" ? "holdfast_runs WHERE lane < 0" : "holdfast_tasks WHERE lane IS NOT NULL";
    if (of === "queue")
      return readNumber(this.#db.get(`SELECT count(*) FROM ${claimed} AND worker_id IS NOT NULL AND queue = ?`, [name])?.[0]);
    if (this.#heldByKey === undefined) {
      this.#heldByKey = new Map();
      const sql = `SELECT work_key, count(*) FROM ${claimed} AND worker_id IS NOT NULL AND queue = ? AND work_key IS NOT NULL GROUP BY work_key`;
      for (const [key, count] of this.#db.all(sql, [name])) this.#heldByKey.set(readText(key), readNumber(count));
    }
    return this.#heldByKey.get(of.key) ?? 0;
  }
  startsAfter(moment: number, of: Of): readonly number[] {
    const sql = `SELECT at FROM holdfast_queue_starts WHERE queue = ? AND kind = ? ${of === "queue" ? "" : "AND key = ? "}AND at > ? ORDER BY at`;
    const key = of === "queue" ? [] : [text(keyName(of.key))];
    return this.#db.all(sql, [...this.#key, ...key, moment]).map(([at]) => readNumber(at));
  }
  endExpired(of: Of): boolean {
    const { kind, spec, queue, now, endLease } = this.#options;
    if (kind === "task" || spec?.counts === "open") return false; // activities end before a claim; of open runs nothing becomes free
    const sql = `SELECT r.key, -r.lane, f.place FROM holdfast_runs r LEFT JOIN holdfast_filed_lanes f ON f.lane = -r.lane
      WHERE r.lane < 0 AND r.worker_id IS NOT NULL AND r.queue = ?1 AND r.available_at <= ?2${of === "queue" ? "" : " AND r.work_key = ?3"}`;
    const rows = this.#db.all(sql, [text(queue), now, ...(of === "queue" ? [] : [text(of.key)])]);
    const lost = rows.filter(([, lane, place]) => !this.#served.has(Number(place ?? lane)));
    if (lost.length === 0) return false;
    this.isNeeded = true;
    if (endLease === undefined) return false;
    for (const [id] of lost) endLease(readNumber(id));
    this.#heldByKey = undefined;
    return true;
  }

  // ── shares ──

  keyState(key: string | undefined, share: Share): KeyState | undefined {
    const sql = "SELECT pass, idle FROM holdfast_queue_keys WHERE queue = ? AND kind = ? AND key = ? AND share = ?";
    const row = this.#db.get(sql, [...this.#key, text(keyName(key)), share]);
    return row === undefined ? undefined : { pass: readNumber(row[0]), isIdle: row[1] === 1 };
  }
  saveKey(key: string | undefined, share: Share, { pass, isIdle }: KeyState): void {
    if (this.#isLooking) return;
    const name = text(keyName(key));
    const sql = `INSERT INTO holdfast_queue_keys (queue, kind, key, share, pass, idle) VALUES (?, ?, ?, ?, ?, ?)
      ON CONFLICT (queue, kind, key, share) DO UPDATE SET pass = excluded.pass, idle = excluded.idle`;
    const { plain } = this.#options;
    // Plain work has no lane whose end would show that it is idle from now on.
    const isLast = key === undefined && plain !== undefined && plain.nextPriority(ALL_PRIORITIES) === undefined;
    this.#db.run(sql, [...this.#key, name, share, pass, isIdle || isLast ? 1 : 0]);
    const lanes = `UPDATE holdfast_filed_lanes SET pass = ? WHERE queue = ? AND kind = ? AND key = ? AND place IS NOT NULL AND pass <> ?
      AND ${SHARED_BY[share]}`;
    this.#db.run(lanes, [pass, ...this.#key, name, pass]);
  }
  #idle(name: string): void {
    if (this.#isLooking) return;
    this.#db.run("UPDATE holdfast_queue_keys SET idle = 1 WHERE queue = ? AND kind = ? AND key = ? AND idle = 0", [...this.#key, name]);
  }
  time(priority: number, share: Share): number {
    return readTime(this.#db, this.#options.queue, this.#options.kind, priority, share);
  }
  saveTime(priority: number, share: Share, time: number): void {
    if (this.#isLooking) return;
    const sql = `INSERT INTO holdfast_queue_times (queue, kind, share, priority, time) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT (queue, kind, share, priority) DO UPDATE SET time = excluded.time`;
    this.#db.run(sql, [...this.#key, share, priority, time]);
  }
  /** Deletes passes that are no longer ahead of what will be served, some at a time. */
  forgetKeys(): void {
    const sql = (
      share: Share,
    ) => `DELETE FROM holdfast_queue_keys WHERE rowid IN (SELECT k.rowid FROM holdfast_queue_keys k WHERE k.queue = ?1 AND k.kind = ?2 AND k.share = ?3
      AND k.pass <= (SELECT max(time) FROM holdfast_queue_times WHERE queue = ?1 AND kind = ?2 AND share = ?3)
      AND NOT EXISTS (SELECT 1 FROM holdfast_filed_lanes f WHERE f.queue = ?1 AND f.kind = ?2 AND f.key = k.key AND f.place IS NOT NULL AND f.${SHARED_BY[share]})
      ORDER BY k.pass LIMIT 10)`;
    const shares: readonly Share[] = this.#options.spec?.rate === undefined ? ["claims"] : ["claims", "starts"];
    for (const share of shares) this.#db.run(sql(share), [...this.#key, share]);
  }
}

/** Lanes of one place, priority and needs, by pass. */
class Cursor {
  readonly needs: number;
  readonly #db: Connection;
  readonly #place: number;
  readonly #priority: number;
  #lanes: Lane[] = [];
  #after: readonly [number, number] = [Number.NEGATIVE_INFINITY, 0];
  #isOver = false;

  constructor(db: Connection, place: number, priority: number, needs: number) {
    this.#db = db;
    this.#place = place;
    this.#priority = priority;
    this.needs = needs;
  }
  top(): Lane | undefined {
    if (this.#lanes.length === 0 && !this.#isOver) this.#read();
    return this.#lanes[0];
  }
  pop(): void {
    this.#lanes.shift();
  }
  #read(): void {
    const sql = `SELECT lane, key, pass FROM holdfast_filed_lanes WHERE place = ? AND priority = ? AND needs = ? AND (pass, lane) > (?, ?)
      ORDER BY pass, lane LIMIT ?`;
    const [pass, lane] = this.#after;
    const rows = this.#db.all(sql, [this.#place, this.#priority, this.needs, Number.isFinite(pass) ? pass : -1, lane, SOME_LANES]);
    this.#lanes = rows.map(([number, key, at]) => ({
      lane: readNumber(number),
      key: keyOf(readText(key)),
      priority: this.#priority,
      needs: this.needs,
      pass: readNumber(at),
    }));
    const last = this.#lanes.at(-1);
    this.#isOver = this.#lanes.length < SOME_LANES;
    if (last !== undefined) this.#after = [last.pass, last.lane];
  }
}
