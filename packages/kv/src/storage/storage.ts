// The namespace of a run in memory: what was read, what has changed since, and the one batch that makes a turn durable.
// Owns: the copy of the namespace, and the pending writes.
// Invariants: D2 H2 (one atomic batch per turn, rejected if it is too large and never split); an unchanged value is not written again; L4
// R11 (records are trimmed in the batch that stores their state, by range if the whole range is deleted).

import {
  type Codec,
  type CommitCommand,
  LimitExceededError,
  type OpeningCommand,
  opened,
  type Payload,
  recordCount,
  sealed,
  type Turn,
  trimmed,
} from "@holdfast/core";
import type { EngineDriver, KvEntry, KvWrite } from "../driver.ts";
import { KvFormatError } from "../errors.ts";
import { decode, encode } from "./binary.ts";
import type { Attempt, ChildLink, End, Head, InboxMessage, Letter, Message, Status, UpdateOutcome } from "./contents.ts";
import {
  ATTEMPTS,
  attemptKey,
  CHILDREN,
  childKey,
  KEY,
  type KeyRange,
  Locations,
  MESSAGES,
  NAMES,
  nameKey,
  OUTBOX,
  OUTCOME_HOURS,
  outboxKey,
  PREFIX,
  pathRecordKey,
  RECORDS,
  RUN,
  RUN_RECORDS,
  runRecordKey,
  updateKey,
  usedKey,
  WAKE,
} from "./layout.ts";
import { Outcomes } from "./outcomes.ts";
import { decodeRecord, encodeRecord, type HistoryRecord, isOpening, isPlacedByUnit, type TurnFacts } from "./records.ts";
import { read, write } from "./sealing.ts";
import { compareBytes, type Element, unpack } from "./tuple.ts";

interface LoadedRecord {
  readonly turn: number;
  readonly position: number;
  readonly record: HistoryRecord;
  readonly isCommand: boolean;
  readonly facts: TurnFacts;
}

const RUN_KEYS = { head: 1, status: 2, end: 3, state: 4, attributes: 5 } as const;
type RunKey = keyof typeof RUN_KEYS;

export type Attributes = Readonly<Record<string, string | number | boolean>>;

export class Storage {
  readonly #driver: EngineDriver;
  /** For errors and reasons (E1): payloads are already encoded. */
  readonly #codec: Codec;
  #locations = new Locations();
  #turns: Turn[] = [];
  #turnCount = 0;
  #historyLength = 0;
  /** The opening command of each operation, by number: its records are stored at its location. */
  readonly #operations = new Map<number, OpeningCommand>();
  /** Positions of the records of turns that have lost some; in all other turns they are 0, 1, 2 … */
  readonly #positions = new Map<number, readonly number[]>();
  readonly #attempts = new Map<number, Attempt[]>();
  readonly #children = new Map<string, ChildLink & { readonly execution: number; readonly seq: number }>();
  readonly #outbox = new Map<number, Letter>();
  #lastLetter = 0;
  readonly #outcomes = new Outcomes();
  #isStored = false;
  #head: Head | undefined;
  #status: Status | undefined;
  #end: End | undefined;
  #state: Payload | undefined;
  #attributes: Attributes = {};
  /** Encoded values as stored: a value with the same bytes is not written again. */
  readonly #stored = new Map<RunKey, Uint8Array>();
  readonly #inbox: InboxMessage[] = [];
  #writes: KvWrite[] = [];
  #bytes = 0;

  constructor(driver: EngineDriver, codec: Codec) {
    this.#driver = driver;
    this.#codec = codec;
  }

  // ── reading ──

  /** Reads everything that a wake-up needs, in one pass. */
  static async load(driver: EngineDriver, codec: Codec): Promise<Storage> {
    const storage = new Storage(driver, codec);
    storage.#read(await driver.list(WAKE));
    return storage;
  }

  /** Whether the run is visible to others. */
  get isStored(): boolean {
    return this.#isStored;
  }
  get head(): Head | undefined {
    return this.#head;
  }
  get status(): Status | undefined {
    return this.#status;
  }
  get end(): End | undefined {
    return this.#end;
  }
  get state(): Payload | undefined {
    return this.#state;
  }
  get attributes(): Attributes {
    return this.#attributes;
  }
  get turns(): readonly Turn[] {
    return this.#turns;
  }
  /** Number of turns of this execution, including trimmed ones. */
  get turnCount(): number {
    return this.#turnCount;
  }
  /** Number of records that are kept. */
  get historyLength(): number {
    return this.#historyLength;
  }
  /** Messages that were stored when it was loaded. */
  get inbox(): readonly InboxMessage[] {
    return this.#inbox;
  }
  get outbox(): ReadonlyMap<number, Letter> {
    return this.#outbox;
  }
  get children(): readonly (ChildLink & { readonly execution: number; readonly seq: number })[] {
    return [...this.#children.values()];
  }
  attemptsOf(seq: number): readonly Attempt[] {
    return this.#attempts.get(seq) ?? [];
  }
  get attempts(): readonly Attempt[] {
    return [...this.#attempts.values()].flat();
  }

  #read(entries: readonly KvEntry[]): void {
    const names: string[] = [];
    const records: LoadedRecord[] = [];
    let named = false;
    for (const { key, value } of entries) {
      const elements = elementsOf(key);
      const [group, first, second] = elements;
      if (group === NAMES) {
        names.push(decode(value) as string);
        continue;
      }
      if (!named) {
        this.#locations = new Locations(names); // in byte order all names come first
        named = true;
      }
      switch (group) {
        case RECORDS:
          records.push(this.#readRecord(elements.slice(1, -2), elements.at(-2), elements.at(-1), value));
          break;
        case RUN_RECORDS:
          records.push(this.#readRecord(undefined, first, second, value));
          break;
        case MESSAGES:
          this.#inbox.push({ ...(read(value, this.#codec) as Message), at: key });
          break;
        case RUN:
          this.#readRun(first as number, value);
          break;
        case ATTEMPTS: {
          const attempt = {
            ...(read(value, this.#codec) as Omit<Attempt, "seq" | "number">),
            seq: first as number,
            number: second as number,
          };
          this.#rowsOf(attempt.seq).push(attempt);
          break;
        }
        case CHILDREN: {
          const [execution, seq] = [first as number, second as number];
          this.#children.set(`${execution}/${seq}`, { ...(decode(value) as ChildLink), execution, seq });
          break;
        }
        case OUTBOX:
          this.#lastLetter = first as number;
          this.#outbox.set(this.#lastLetter, read(value, this.#codec) as Letter);
          break;
        case OUTCOME_HOURS:
          this.#outcomes.found(first as number);
          break;
        default:
          break; // written by a later version; not needed here
      }
    }
    this.#assemble(records);
  }
  #readRecord(parts: readonly Element[] | undefined, turn: unknown, position: unknown, value: Uint8Array): LoadedRecord {
    const { record, isCommand, facts } = decodeRecord(value, parts, this.#locations);
    return { turn: turn as number, position: position as number, record: opened(record, this.#codec), isCommand, facts };
  }
  #readRun(which: number, value: Uint8Array): void {
    const content = read(value, this.#codec);
    for (const [name, index] of Object.entries(RUN_KEYS)) if (index === which) this.#stored.set(name as RunKey, value);
    if (which === RUN_KEYS.head) {
      this.#head = content as Head;
      this.#isStored = true;
    } else if (which === RUN_KEYS.status) {
      const { closing: _, ...status } = content as Status; // left by a process that was killed before it ended the run; removed with the next batch
      this.#status = status;
    } else if (which === RUN_KEYS.end) this.#end = content as End;
    else if (which === RUN_KEYS.state) this.#state = content as Payload;
    else if (which === RUN_KEYS.attributes) this.#attributes = content as Attributes;
  }
  #rowsOf(seq: number): Attempt[] {
    let rows = this.#attempts.get(seq);
    if (rows === undefined) {
      rows = [];
      this.#attempts.set(seq, rows);
    }
    return rows;
  }
  /** Builds turns from the records, which are sorted by location. */
  #assemble(records: LoadedRecord[]): void {
    records.sort((a, b) => a.turn - b.turn || a.position - b.position);
    let current: { index: number; time: number; historyLength: number; jobs: HistoryRecord[]; commands: HistoryRecord[] } | undefined;
    let positions: number[] = [];
    for (const { turn, position, record, isCommand, facts } of records) {
      if (current?.index !== turn) {
        current = { index: turn, ...facts, jobs: [], commands: [] };
        this.#turns.push(current as Turn);
        positions = [];
      }
      (isCommand ? current.commands : current.jobs).push(record);
      if (positions.push(position) - 1 !== position) this.#positions.set(turn, positions);
      if (isOpening(record)) this.#operations.set(record.seq, record);
    }
    this.#turnCount = current === undefined ? 0 : current.index + 1;
    this.#historyLength = records.length;
  }

  // ── changing ──

  setHead(head: Head): void {
    this.#head = head;
    this.#putRun("head", head);
  }
  setStatus(status: Status): void {
    if (status === this.#status) return;
    this.#status = status;
    this.#putRun("status", status);
  }
  /** H5: a separate write, because the pending writes belong to the turn that ends the run. */
  markClosing(): Promise<void> {
    return this.#putStatus({ ...(this.#status ?? { status: "running" }), closing: true });
  }
  unmarkClosing(): Promise<void> {
    return this.#putStatus(this.#status ?? { status: "running" });
  }
  #putStatus(status: Status): Promise<void> {
    const value = write(status, this.#codec);
    this.#stored.set("status", value);
    return this.#driver.batch([{ type: "set", key: KEY.status, value }]);
  }
  setEnd(end: End): void {
    this.#end = end;
    this.#putRun("end", end);
  }
  /** D10: the run continues. */
  clearEnd(): void {
    if (this.#end === undefined) return;
    this.#end = undefined;
    this.#stored.delete("end");
    this.#delete(KEY.end);
  }
  setState(state: Payload): void {
    this.#state = state;
    this.#putRun("state", state);
  }
  mergeAttributes(changes: Readonly<Record<string, string | number | boolean | null>>): void {
    const merged: Record<string, string | number | boolean> = { ...this.#attributes };
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) delete merged[name];
      else merged[name] = value;
    }
    this.#attributes = merged;
    this.#putRun("attributes", merged);
  }
  #putRun(key: RunKey, content: unknown): void {
    const bytes = write(content, this.#codec);
    const before = this.#stored.get(key);
    if (before !== undefined && compareBytes(before, bytes) === 0) return;
    this.#stored.set(key, bytes);
    this.#set(KEY[key], bytes);
  }

  putAttempt(attempt: Attempt): void {
    const rows = this.#rowsOf(attempt.seq);
    const at = rows.findIndex(({ number }) => number === attempt.number);
    if (at < 0) rows.push(attempt);
    else rows[at] = attempt;
    const { seq, number, ...content } = attempt;
    this.#set(attemptKey(seq, number), write(content, this.#codec));
  }
  /** M7: with the turn that consumes it. */
  consume(message: InboxMessage): void {
    this.#delete(message.at);
  }
  markUsed(key: string): void {
    this.#set(usedKey(key), encode(true));
  }
  /** `time`: now; it is kept from then on (M10). */
  setUpdate(id: string, outcome: UpdateOutcome, time: number): void {
    this.#set(updateKey(id), write(outcome, this.#codec));
    for (const beside of this.#outcomes.recorded(id, time)) this.#write(beside);
  }
  /** M10: deletes expired outcomes, with a batch that records an outcome. */
  async dropOutcomes(now: number): Promise<void> {
    for (const gone of await this.#outcomes.over(this.#driver, now)) this.#write(gone);
  }
  putChild(seq: number, link: ChildLink): void {
    const execution = this.#head?.execution ?? 1;
    this.#children.set(`${execution}/${seq}`, { ...link, execution, seq });
    this.#set(childKey(execution, seq), encode(link));
  }
  removeChild(execution: number, seq: number): void {
    if (this.#children.delete(`${execution}/${seq}`)) this.#delete(childKey(execution, seq));
  }
  putLetter(letter: Letter): void {
    this.#outbox.set(++this.#lastLetter, letter);
    this.#set(outboxKey(this.#lastLetter), write(letter, this.#codec));
  }
  removeLetter(n: number): void {
    if (this.#outbox.delete(n)) this.#delete(outboxKey(n));
  }

  appendTurn(turn: Turn): void {
    const { index, time, historyLength, jobs, commands } = turn;
    const facts = { time, historyLength };
    let position = 0;
    for (const job of jobs) this.#appendRecord(job, false, index, position++, facts);
    for (const command of commands) this.#appendRecord(command, true, index, position++, facts);
    this.#turns.push(turn);
    this.#turnCount = index + 1;
    this.#historyLength += recordCount(turn);
    this.#trim(turn);
  }
  #appendRecord(record: HistoryRecord, isCommand: boolean, turn: number, position: number, facts: TurnFacts): void {
    if (isOpening(record)) this.#operations.set(record.seq, record);
    this.#set(this.#keyOf(record, turn, position), encodeRecord(sealed(record, this.#codec), isCommand, facts));
  }
  #keyOf(record: HistoryRecord, turn: number, position: number): Uint8Array {
    if (isPlacedByUnit(record)) return pathRecordKey(this.#locations.prefixOf(record.unit), turn, position);
    const opening = isOpening(record) ? record : "seq" in record ? this.#operations.get(record.seq) : undefined;
    if (opening === undefined) return runRecordKey(turn, position); // it belongs to the run itself
    return this.#locations.recordKey(opening.unit, opening.name, opening.n, turn, position);
  }

  // ── trimming ──

  /** L4: the core decides which records are deleted; this finds their keys. */
  #trim(turn: Turn): void {
    const commits = turn.commands.filter((command): command is CommitCommand => command.type === "commit" && command.trim !== undefined);
    if (commits.length === 0) return;
    const before = this.#turns;
    this.#turns = trimmed(before);
    const { gone, kept } = this.#compare(before, this.#turns);
    const ranges = commits.flatMap((commit) => this.#ranges(commit, gone, kept));
    for (const range of ranges) this.#write({ type: "deleteRange", ...range });
    for (const { key } of gone) if (!ranges.some((range) => isWithin(key, range))) this.#delete(key);
    for (const { record } of gone) if (isOpening(record)) this.#forgetOperation(record.seq);
    this.#historyLength = kept.length;
  }
  /** The keys that are deleted and the keys that stay. Remembers positions that are no longer 0, 1, 2 … */
  #compare(before: readonly Turn[], after: readonly Turn[]) {
    const staying = new Set<HistoryRecord>();
    for (const { jobs, commands } of after) {
      for (const record of jobs) staying.add(record);
      for (const record of commands) staying.add(record);
    }
    const gone: { readonly record: HistoryRecord; readonly key: Uint8Array }[] = [];
    const kept: Uint8Array[] = [];
    for (const { index, jobs, commands } of before) {
      const positions = this.#positions.get(index);
      const left: number[] = [];
      for (const [i, record] of [...jobs, ...commands].entries()) {
        const position = positions?.[i] ?? i;
        const key = this.#keyOf(record, index, position);
        if (staying.has(record)) {
          kept.push(key);
          left.push(position);
        } else gone.push({ record, key });
      }
      if (left.length === 0) this.#positions.delete(index);
      else if (left.length < jobs.length + commands.length) this.#positions.set(index, left);
    }
    return { gone, kept };
  }
  /** The deleted iterations as ranges of keys. Not if records in a range stay (D10): then they are deleted one by one. */
  #ranges(commit: CommitCommand, gone: readonly { readonly key: Uint8Array }[], kept: readonly Uint8Array[]): KeyRange[] {
    return (["iteration", "dispatch"] as const).flatMap((kind) => {
      const range = this.#locations.iterations(commit.unit, kind, commit.trim ?? 0);
      const isWhole = gone.some(({ key }) => isWithin(key, range)) && !kept.some((key) => isWithin(key, range));
      return isWhole ? [range] : [];
    });
  }
  #forgetOperation(seq: number): void {
    this.#operations.delete(seq);
    for (const { number } of this.#attempts.get(seq) ?? []) this.#delete(attemptKey(seq, number));
    this.#attempts.delete(seq);
  }

  /** P10: the next execution begins with an empty history, in the batch that ends the previous one. */
  continue(head: Head): void {
    for (const prefix of [PREFIX.names, PREFIX.records, PREFIX.runRecords, PREFIX.attempts]) this.#write({ type: "deletePrefix", prefix });
    this.#locations = new Locations();
    this.#turns = [];
    this.#turnCount = 0;
    this.#historyLength = 0;
    this.#positions.clear();
    this.#operations.clear();
    this.#attempts.clear();
    this.clearEnd();
    this.setHead(head);
  }
  /** A message that the run stores itself: a signal that the previous execution did not consume. */
  putMessage(at: Uint8Array, message: Message): void {
    this.#set(at, write(message, this.#codec));
  }

  // ── writing ──

  #set(key: Uint8Array, value: Uint8Array): void {
    this.#write({ type: "set", key, value });
  }
  #delete(key: Uint8Array): void {
    this.#write({ type: "delete", key });
  }
  #write(write: KvWrite): void {
    this.#writes.push(write);
    if ("key" in write) this.#bytes += write.key.length + (write.type === "set" ? write.value.length : 0);
  }

  /** Whether a flush would write anything. */
  get dirty(): boolean {
    return this.#writes.length > 0;
  }
  /** Writes one batch. Throws LimitExceededError, and writes nothing, if it is too large for the driver. */
  async flush(): Promise<void> {
    for (const [index, name] of this.#locations.takeNew()) this.#set(nameKey(index), encode(name));
    this.assertFits();
    const writes = this.#writes;
    this.#writes = [];
    this.#bytes = 0;
    await this.#driver.batch(writes);
    this.#isStored = true;
  }
  /** Throws LimitExceededError if the pending writes already exceed the driver's limits. */
  assertFits(): void {
    assertFits(this.#driver, this.#writes.length, this.#bytes, "the batch of one turn, which can't be split,");
  }
}

export function assertFits({ maxBatchBytes, maxBatchWrites }: EngineDriver, writes: number, bytes: number, what: string): void {
  if (maxBatchBytes !== undefined && bytes > maxBatchBytes)
    throw new LimitExceededError({ limit: "maxBatchBytes", actual: bytes, max: maxBatchBytes, what });
  if (maxBatchWrites !== undefined && writes > maxBatchWrites)
    throw new LimitExceededError({ limit: "maxBatchWrites", actual: writes, max: maxBatchWrites, what });
}
function elementsOf(key: Uint8Array): Element[] {
  try {
    return unpack(key);
  } catch (cause) {
    throw new KvFormatError(`${(cause as Error).message} Does something else write to this namespace?`, { cause });
  }
}
function isWithin(key: Uint8Array, { start, end }: KeyRange): boolean {
  return compareBytes(key, start) >= 0 && compareBytes(key, end) < 0;
}
