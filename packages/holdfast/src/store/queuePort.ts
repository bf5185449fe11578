// The part of the store's port that is about queues: limits, pauses, and what waits (Q).
// Owns: the words of queues as stores keep them. Durations are milliseconds, moments are by the store's clock.
// Invariants: Q2 (never more held than the limits allow), Q4 (rates hold in every window), Q8 (pauses and limits are durable).

/** At most `limit` first claims in any window of `per` milliseconds (Q4). */
export interface QueueRate {
  /** How many starts of runs, or attempts of activities. */
  readonly limit: number;
  /** The length of the window, in milliseconds. */
  readonly per: number;
}
/** Limits of a queue or a key. */
export interface QueueLimit {
  /** The most at once. */
  readonly concurrency?: number | undefined;
  /** The most in a window of time. */
  readonly rate?: QueueRate | undefined;
}
/** The limits of a queue. What an entry of `keys` leaves out is as in `perKey` (Q1). */
export interface StoredQueueSpec extends QueueLimit {
  /** The limits of each key. */
  readonly perKey?: QueueLimit | undefined;
  /** The limits of single keys. */
  readonly keys?:
    | Readonly<
        Record<
          string,
          QueueLimit & {
            /** The key's share among keys. */
            readonly weight?: number | undefined;
          }
        >
      >
    | undefined;
  /**
   * When a run counts (Q2).
   * @defaultValue `"running"`
   */
  readonly counts?: "running" | "open" | undefined;
}
/** How much work a queue has. Counts stop at `MOST_COUNTED`. */
export interface StoredQueueLoad {
  /** What is available and not held. */
  readonly waiting: number;
  /** How many are counted by the limits. */
  readonly held: number;
  /** Since when the first of those that wait has been available. */
  readonly oldest: number | undefined;
}
/** The number at which counts of a queue's work stop. */
export const MOST_COUNTED = 10_000;

/** A queue: its limits, its pause, and how much work it has. */
export interface QueueRow {
  /** The name of the queue. */
  readonly name: string;
  /** Its limits. */
  readonly spec: StoredQueueSpec;
  /** A pause whose time is over does not count. */
  readonly paused: boolean;
  /** When the pause ends, in milliseconds since 1970. */
  readonly pausedUntil: number | undefined;
  /** In the order of their bytes. */
  readonly pausedKeys: readonly string[];
  /** How many runs it has. */
  readonly runs: StoredQueueLoad;
  /** How many activities it has. */
  readonly activities: StoredQueueLoad;
}

/** Work that waits, and that limits may hold back. */
export type LimitedWork =
  | {
      readonly of: "runs";
      /** The run. */
      readonly runId: string;
    }
  | {
      readonly of: "activities";
      /** The queue of the activities. */
      readonly queue: string;
      /** Whose work it is. */
      readonly key: string | undefined;
    };
/** What the limits of a queue, or of one of its keys, leave at one moment. */
export interface LimitUse {
  /** Whether it is paused. */
  readonly paused: boolean;
  /** When the pause ends, in milliseconds since 1970. */
  readonly pausedUntil: number | undefined;
  /** Undefined: there is no limit. */
  readonly slots:
    | {
        /** How many slots are taken. */
        readonly held: number;
        /** How many there are. */
        readonly limit: number;
      }
    | undefined;
  /** `roomAt`: when there is room for another start; undefined: now. */
  readonly starts:
    | (QueueRate & {
        /** When there is room again, in milliseconds since 1970. */
        readonly roomAt: number | undefined;
      })
    | undefined;
}
/** The limits that work has to pass. */
export interface LimitsFor {
  /** Those of its queue. */
  readonly queue: LimitUse;
  /** Those of its key. For work without a key: nothing is limited. */
  readonly key: LimitUse;
  /** What a claim of this work takes (Q2 Q3 Q4). */
  readonly needs: {
    /** Whether it needs a slot of the queue. */
    readonly queueSlot: boolean;
    /** Whether it needs a slot of the key. */
    readonly keySlot: boolean;
    /** Whether it counts as a start. */
    readonly start: boolean;
  };
}

/** Limits and pauses of queues. */
export interface QueueStore {
  /** Creates or replaces the limits. They count from the next claim on; runs and activities that are held keep what they hold (Q8). */
  setQueue(name: string, spec: StoredQueueSpec): Promise<void>;
  /** Removes the limits. Pauses and the work in the queue stay. */
  deleteQueue(name: string): Promise<void>;
  /** Stops the claims of the queue, or of its `key`; with `for` it ends by itself after that long. A second pause replaces the first. */
  pauseQueue(name: string, pause: { readonly key?: string | undefined; readonly for?: number | undefined }): Promise<void>;
  /** Ends a pause of the queue, or of the key. */
  resumeQueue(name: string, key?: string): Promise<void>;
  /** The queue of that name. One that does not exist has no limits and no work. */
  getQueue(name: string): Promise<QueueRow>;
  /** What the limits leave for this work now. Undefined: there is no such run. */
  limitsFor(work: LimitedWork): Promise<LimitsFor | undefined>;
  /** Queues with limits, a pause or work, in the order of the bytes of their names. */
  listQueues(): Promise<QueueRow[]>;
}
