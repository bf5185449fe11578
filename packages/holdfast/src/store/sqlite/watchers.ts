// Watchers: callbacks for changes of this process and of others.
// Owns: the watchers, and the look at other processes' writes while there are any.
// Invariants: D9 (hints may be late or doubled: they cost time, never progress); without watchers it costs nothing; a watcher does not keep
// the process alive.

import type { Wakeup } from "../port.ts";
import type { Connection } from "./connection.ts";

/**
 * A look reads shared memory and takes microseconds; it is waking up that costs: two hundred times a second took 2 to 3% of a core of
 * a loaded machine, fifty times 1%. So: often while others write, less often once they have not for a second.
 */
const LOOK_EVERY_MS = 5;
const LOOK_SELDOM_MS = 20;
const QUIET_AFTER_LOOKS = 200;
const ANYTHING: Wakeup = { work: true, messages: true, tasks: true, results: true };

export class Watchers {
  readonly #connection: () => Connection | undefined;
  readonly #watchers = new Set<(wakeup: Wakeup) => void>();
  #timer: NodeJS.Timeout | undefined;
  #version: unknown;
  #quietLooks = 0;

  /** The connection may come and go. */
  constructor(connection: () => Connection | undefined) {
    this.#connection = connection;
  }

  add(watcher: (wakeup: Wakeup) => void): () => void {
    // A new function each time: the same callback given twice is two watchers.
    const own = (wakeup: Wakeup): void => watcher(wakeup);
    this.#watchers.add(own);
    this.start();
    return () => {
      this.#watchers.delete(own);
      if (this.#watchers.size === 0) this.stop();
    };
  }
  tell(changes: Wakeup): void {
    for (const watcher of [...this.#watchers]) {
      try {
        watcher(changes);
      } catch (error) {
        // The watcher failed, not the write that it is called for.
        setImmediate(() => {
          throw error;
        });
      }
    }
  }
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Also after the connection was closed and opened again. */
  start(): void {
    if (this.#timer !== undefined || this.#watchers.size === 0) return;
    this.#version = this.#look();
    this.#quietLooks = 0;
    this.#lookAgain();
  }
  #lookAgain(): void {
    const wait = this.#quietLooks < QUIET_AFTER_LOOKS ? LOOK_EVERY_MS : LOOK_SELDOM_MS;
    this.#timer = setTimeout(() => {
      this.#lookAgain();
      const version = this.#look();
      this.#quietLooks++;
      if (version === undefined || version === this.#version) return;
      this.#version = version;
      this.#quietLooks = 0;
      this.tell(ANYTHING);
    }, wait);
    this.#timer.unref();
  }
  /** The number changes when another connection has written, never by our own writes. */
  #look(): unknown {
    try {
      return this.#connection()?.get("PRAGMA data_version", [])?.[0];
    } catch {
      return undefined; // locked for a moment: the next look tells
    }
  }
}
