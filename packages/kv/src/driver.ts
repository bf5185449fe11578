// The port between the key-value host and the storage of one run.
// Owns: `EngineDriver`, and the terms of storage: key, value, prefix, range, batch, alarm.
// Invariants: one namespace per driver, one run per namespace; keys are bytes in byte order; a batch is all or nothing (D2); an alarm
// carries the run's id (H3) and stays until it is set again or cleared.
//
// For implementers: a driver is a view of one isolated namespace. Drivers of different runs never see each other's keys. Keys are any
// bytes, mostly a dozen, at most 2,000, including 0x00 and 0xff; values are any bytes, including none. When a method resolves, its effect
// is durable, as far as your storage guarantees it: `runWorkflow` relies on that before it begins effects (D1). You may keep the arrays
// that are passed to you; the caller may keep those that you return. `driverConformance` from "@holdfast/conformance" tests an
// implementation for all of this.

/** A key and its value. */
export interface KvEntry {
  /** The key. Keys are ordered byte by byte. */
  readonly key: Uint8Array;
  /** The value. */
  readonly value: Uint8Array;
}

/** One write of a batch. */
export type KvWrite =
  | {
      readonly type: "set";
      /** The key to set or delete. */
      readonly key: Uint8Array;
      /** The value to set. */
      readonly value: Uint8Array;
    }
  | {
      readonly type: "delete";
      /** The key to set or delete. */
      readonly key: Uint8Array;
    }
  /** All keys that begin with these bytes; with an empty prefix, all keys. */
  | {
      readonly type: "deletePrefix";
      /** All keys that begin with these bytes are deleted. */
      readonly prefix: Uint8Array;
    }
  /** All keys from `start` (inclusive) to `end` (exclusive). */
  | {
      readonly type: "deleteRange";
      /** The first key to delete. */
      readonly start: Uint8Array;
      /** The first key behind `start` that stays. */
      readonly end: Uint8Array;
    };

/**
 * The storage of one run: an isolated namespace of ordered keys, and an alarm. Implement it for your storage; `driverConformance` of
 * `@holdfast/conformance` tests it.
 */
export interface EngineDriver {
  /** The value of a key. Undefined if there is no such key. */
  get(key: Uint8Array): Promise<Uint8Array | undefined>;
  /** Writes one key. */
  set(key: Uint8Array, value: Uint8Array): Promise<void>;
  /** Deletes a key. A missing key is not an error. */
  delete(key: Uint8Array): Promise<void>;
  /** Deletes all keys that begin with these bytes; with an empty prefix, all keys. */
  deletePrefix(prefix: Uint8Array): Promise<void>;
  /** Deletes the keys from `start` (inclusive) to `end` (exclusive). */
  deleteRange(start: Uint8Array, end: Uint8Array): Promise<void>;
  /** Every entry whose key begins with the prefix, in byte order, as of one moment. */
  list(prefix: Uint8Array): Promise<KvEntry[]>;
  /**
   * The greatest key that begins with the prefix; undefined if there is none. Senders use it to append after existing messages. Optional:
   * without it they use `list`, which reads all waiting messages.
   */
  last?(prefix: Uint8Array): Promise<Uint8Array | undefined>;

  /**
   * Writes everything or nothing, even if the process is killed meanwhile. Writes apply in order: a key that is set after its prefix was
   * deleted exists. A batch that rejects has written nothing. Every call is one complete turn: don't split it.
   */
  batch(writes: readonly KvWrite[]): Promise<void>;
  /** Maximum bytes of keys and values in one `batch`, if there is a limit. A turn that needs more blocks its run. */
  readonly maxBatchBytes?: number | undefined;
  /** Maximum number of writes in one `batch`, if there is a limit. */
  readonly maxBatchWrites?: number | undefined;

  /**
   * Wakes this run at `at` (milliseconds since 1970) or soon after; at once if that has passed. A run has one alarm: a later call replaces
   * it. It survives the process, and firing does not clear it: the run sets it again or clears it when it is done, so that the alarm of a
   * killed host fires again. A superfluous alarm costs time; a lost alarm loses the run.
   */
  setAlarm(runId: string, at: number): Promise<void>;
  /** Removes the alarm. No error if there is none. */
  clearAlarm(runId: string): Promise<void>;

  /**
   * Calls back whenever messages may have been appended to this namespace: after `announce`, in this process or (if you can tell) in
   * another one. It is a hint: late, duplicate or lost calls cost only time. Returns a function that stops it.
   */
  watch(onMessage: () => void): () => void;
  /** A message was appended to this namespace: calls back all watchers. */
  announce(): void;
}
