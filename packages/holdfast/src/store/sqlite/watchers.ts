// Who wants to know that something may have changed.
// Owns: the watchers, and the look at other processes' writes while there are any.
// Invariants: D9 (hints may be late or doubled: they cost time, never progress); nobody watching costs nothing; a watcher does not keep
// the process alive.

import type { Wakeup } from "../port.ts";
import type { Connection } from "./connection.ts";

/** A look is a read of shared memory, 3 to 10 µs: two hundred a second are a thousandth of a core. */
const LOOK_EVERY_MS = 5;
const ANYTHING: Wakeup = { work: true, tasks: true, results: true };

export class Watchers {
  readonly #connection: () => Connection | undefined;
  readonly #watchers = new Set<(wakeup: Wakeup) => void>();
  #timer: NodeJS.Timeout | undefined;
  #version: unknown;

  /** The connection may come and go. */
  constructor(connection: () => Connection | undefined) {
    this.#connection = connection;
  }

  add(watcher: (wakeup: Wakeup) => void): () => void {
    // A function of its own: the same callback given twice is two watchers.
    const own = (wakeup: Wakeup): void => watcher(wakeup);
    this.#watchers.add(own);
    this.#start();
    return () => {
      this.#watchers.delete(own);
      if (this.#watchers.size === 0) this.stop();
    };
  }
  tell(changes: Wakeup): void {
    for (const watcher of [...this.#watchers]) watcher(changes);
  }
  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #start(): void {
    if (this.#timer !== undefined) return;
    this.#version = this.#look();
    this.#timer = setInterval(() => {
      const version = this.#look();
      if (version === undefined || version === this.#version) return;
      this.#version = version;
      this.tell(ANYTHING);
    }, LOOK_EVERY_MS);
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
