// A namespace in memory: for tests, and as the shortest driver to read.
// Owns: the bytes and their order.
// Invariants: those of the port. Each method works synchronously, so each is atomic.

import type { EngineDriver, KvEntry, KvWrite } from "../driver.ts";
import { afterPrefix, compareBytes } from "../storage/tuple.ts";

/** The alarms of many runs, for a host with one scheduler for all of them. */
export class MemoryAlarms {
  readonly #alarms = new Map<string, number>();

  /** Sets the alarm of a run; it replaces the one before. */
  set(runId: string, at: number): void {
    this.#alarms.set(runId, at);
  }
  /** Removes the alarm of a run. */
  clear(runId: string): void {
    this.#alarms.delete(runId);
  }
  /** When the alarm of a run is due, in milliseconds since 1970. */
  get(runId: string): number | undefined {
    return this.#alarms.get(runId);
  }
  /** Runs whose alarm is due, the most overdue first. */
  due(now: number): string[] {
    const due = [...this.#alarms].filter(([, at]) => at <= now);
    return due.sort((a, b) => a[1] - b[1]).map(([runId]) => runId);
  }
  /** When the next alarm is due. */
  get next(): number | undefined {
    let next: number | undefined;
    for (const at of this.#alarms.values()) if (next === undefined || at < next) next = at;
    return next;
  }
}

/** The data, which survives the driver: opening another driver on it simulates a crash and a restart. */
export class MemoryNamespace {
  /** By key, as text with one character per byte: such texts sort like the bytes. */
  readonly entries = new Map<string, Uint8Array>();
  /** Sorted keys, computed on demand; undefined after a key was added. */
  sorted: string[] | undefined = [];
  /** Called when a message was appended. */
  readonly watchers = new Set<() => void>();
}

/** Options of `MemoryDriver`. */
export interface MemoryDriverOptions {
  /**
   * The data of another driver, to go on with it.
   * @defaultValue empty
   */
  readonly namespace?: MemoryNamespace;
  /**
   * Where alarms are kept.
   * @defaultValue its own
   */
  readonly alarms?: MemoryAlarms;
  /**
   * Maximum bytes of a batch, to test a storage with a limit.
   * @defaultValue no limit
   */
  readonly maxBatchBytes?: number;
  /**
   * Maximum number of writes in a batch, to test a storage with a limit.
   * @defaultValue no limit
   */
  readonly maxBatchWrites?: number;
}

/** A namespace in memory: for tests, and as the shortest driver to read. */
export class MemoryDriver implements EngineDriver {
  /** The data, which survives the driver. */
  readonly namespace: MemoryNamespace;
  /** Where its alarm is. */
  readonly alarms: MemoryAlarms;
  readonly maxBatchBytes: number | undefined;
  readonly maxBatchWrites: number | undefined;

  constructor(options: MemoryDriverOptions = {}) {
    this.namespace = options.namespace ?? new MemoryNamespace();
    this.alarms = options.alarms ?? new MemoryAlarms();
    this.maxBatchBytes = options.maxBatchBytes;
    this.maxBatchWrites = options.maxBatchWrites;
  }

  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    return this.namespace.entries.get(textOf(key))?.slice();
  }
  async set(key: Uint8Array, value: Uint8Array): Promise<void> {
    this.#apply({ type: "set", key, value });
  }
  async delete(key: Uint8Array): Promise<void> {
    this.#apply({ type: "delete", key });
  }
  async deletePrefix(prefix: Uint8Array): Promise<void> {
    this.#apply({ type: "deletePrefix", prefix });
  }
  async deleteRange(start: Uint8Array, end: Uint8Array): Promise<void> {
    this.#apply({ type: "deleteRange", start, end });
  }
  async batch(writes: readonly KvWrite[]): Promise<void> {
    for (const write of writes) this.#apply(write);
  }
  async list(prefix: Uint8Array): Promise<KvEntry[]> {
    const { entries } = this.namespace;
    return this.#between(prefix, afterPrefix(prefix)).map((text) => ({
      key: bytesOf(text),
      value: (entries.get(text) as Uint8Array).slice(),
    }));
  }
  async last(prefix: Uint8Array): Promise<Uint8Array | undefined> {
    const start = textOf(prefix);
    let last: string | undefined; // a scan: sorting all keys for each new message would cost more
    for (const text of this.namespace.entries.keys()) if (text.startsWith(start) && (last === undefined || text > last)) last = text;
    return last === undefined ? undefined : bytesOf(last);
  }

  #apply(write: KvWrite): void {
    const { entries } = this.namespace;
    switch (write.type) {
      case "set": {
        const { size } = entries;
        entries.set(textOf(write.key), write.value);
        if (entries.size !== size) this.namespace.sorted = undefined;
        break;
      }
      case "delete":
        this.#remove([textOf(write.key)]);
        break;
      case "deletePrefix":
        this.#remove(this.#between(write.prefix, afterPrefix(write.prefix)));
        break;
      case "deleteRange":
        if (compareBytes(write.start, write.end) < 0) this.#remove(this.#between(write.start, write.end));
        break;
    }
  }
  #remove(texts: readonly string[]): void {
    for (const text of texts) if (this.namespace.entries.delete(text)) this.namespace.sorted = undefined;
  }
  /** Keys from `start` (inclusive) to `end` (exclusive). */
  #between(start: Uint8Array, end: Uint8Array | undefined): string[] {
    this.namespace.sorted ??= [...this.namespace.entries.keys()].sort(); // by code unit: each is one byte
    const { sorted } = this.namespace;
    const to = end === undefined ? sorted.length : firstAt(sorted, textOf(end));
    return sorted.slice(firstAt(sorted, textOf(start)), to);
  }

  async setAlarm(runId: string, at: number): Promise<void> {
    this.alarms.set(runId, at);
  }
  async clearAlarm(runId: string): Promise<void> {
    this.alarms.clear(runId);
  }
  watch(onMessage: () => void): () => void {
    const watcher = (): void => onMessage();
    this.namespace.watchers.add(watcher);
    return () => void this.namespace.watchers.delete(watcher);
  }
  announce(): void {
    for (const watcher of [...this.namespace.watchers]) watcher();
  }
}

function textOf(bytes: Uint8Array): string {
  if (bytes.length < 1_000) return String.fromCharCode.apply(undefined, bytes as unknown as number[]);
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}
function bytesOf(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}
/** The index of the first text that is not less than `text`. */
function firstAt(sorted: readonly string[], text: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as string) < text) low = middle + 1;
    else high = middle;
  }
  return low;
}
