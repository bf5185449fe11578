// The port between the key-value host and whatever keeps the bytes of one run.
// Owns: `EngineDriver`, and the words of storage: key, value, prefix, range, batch, alarm.
// Invariants: one namespace a driver, one run a namespace; keys are bytes in byte order; a batch is all or nothing (D2); an alarm carries the
// run's id (H3) and stays until it is set anew or cleared.
//
// For implementers. A driver is a view of one isolated namespace: two drivers of different runs never see each other's keys, whatever those
// are. Keys are any bytes, mostly a dozen, at most 2,000, 0x00 and 0xff among them; values are any bytes, empty ones too. What a method has
// resolved is durable, as far as your storage promises anything: `runWorkflow` begins effects on the strength of it (D1). Arrays that are
// handed to you are yours to keep, and those you hand out are the caller's. `driverConformance` from "@holdfast/conformance" holds all of
// this against an implementation.

export interface KvEntry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

export type KvWrite =
  | { readonly type: "set"; readonly key: Uint8Array; readonly value: Uint8Array }
  | { readonly type: "delete"; readonly key: Uint8Array }
  /** All keys that begin with these bytes; with none of them, all keys. */
  | { readonly type: "deletePrefix"; readonly prefix: Uint8Array }
  /** All keys from `start` on, up to and without `end`. */
  | { readonly type: "deleteRange"; readonly start: Uint8Array; readonly end: Uint8Array };

export interface EngineDriver {
  /** Undefined if there is no such key. */
  get(key: Uint8Array): Promise<Uint8Array | undefined>;
  set(key: Uint8Array, value: Uint8Array): Promise<void>;
  /** A key that is not there is no error. */
  delete(key: Uint8Array): Promise<void>;
  deletePrefix(prefix: Uint8Array): Promise<void>;
  /** From `start` on, without `end`. */
  deleteRange(start: Uint8Array, end: Uint8Array): Promise<void>;
  /** Every entry whose key begins with the prefix, in byte order, as of one moment. */
  list(prefix: Uint8Array): Promise<KvEntry[]>;
  /**
   * The greatest key that begins with the prefix; undefined if there is none. Senders ask for it, to append behind what is there. You may
   * leave it out: they `list` then, which reads all messages that wait.
   */
  last?(prefix: Uint8Array): Promise<Uint8Array | undefined>;

  /**
   * All writes or none, also when the process is killed meanwhile. They count in order: a key that is set after its prefix was deleted is
   * there. One that is refused or fails has written nothing. It is never called with parts of a turn: don't split it either.
   */
  batch(writes: readonly KvWrite[]): Promise<void>;
  /** The most bytes of keys and values that `batch` takes, if there is a bound. A turn that needs more blocks its run. */
  readonly maxBatchBytes?: number | undefined;
  /** The most writes that `batch` takes, if there is a bound. */
  readonly maxBatchWrites?: number | undefined;

  /**
   * Wake this run at `at` (milliseconds since 1970), or soon after; at once if that has passed. There is one alarm a run: a later call
   * replaces it. It outlives the process, and firing does not end it: the run sets it anew or clears it when it has dealt with it, so that
   * a host that was killed in between finds it again. An alarm too many costs time, a lost one the run.
   */
  setAlarm(runId: string, at: number): Promise<void>;
  clearAlarm(runId: string): Promise<void>;

  /**
   * Calls back whenever messages may have been appended to this namespace: after `announce`, here or (if you can tell) elsewhere. A hint:
   * late, doubled or lost ones cost time. Returns how to stop it.
   */
  watch(onMessage: () => void): () => void;
  /** Somebody has appended a message to this namespace: tell whoever watches it. */
  announce(): void;
}
