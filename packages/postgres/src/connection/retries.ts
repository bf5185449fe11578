// Repeats attempts while the server can't be reached or other transactions hold locks.
// Owns: how long an attempt is repeated, and the waits in between.
// Invariants: an error that another attempt would get again is thrown at once, as a typed error; after a failover the connections to
// the old primary are closed.

import type { QueryOptions } from "./connections.ts";
import type { Outage } from "./outage.ts";
import {
  isContended,
  isHeldUp,
  isLost,
  isNameLost,
  isNameless,
  isReadOnly,
  isSilence,
  isThere,
  storeError,
  unavailable,
} from "./serverErrors.ts";

const FIRST_WAIT_MS = 20;
const LONGEST_WAIT_MS = 1_000;
/** Other transactions on the same rows end within milliseconds. */
const CONTENDED_WAIT_MS = 2;
const LONGEST_CONTENDED_WAIT_MS = 100;

/** A call of the batch contract that waits for other transactions longer than this rejects as busy. */
const BUSY_AFTER_MS = 1_000;

/** The connections that the attempts use. */
interface Retried {
  readonly where: string;
  readonly outage: Outage;
  readonly isClosed: boolean;
  /** The server was reached before: a host name that can't be resolved now is an outage, not a wrong url. */
  readonly wasThere: boolean;
  areOwn: boolean;
  leaveAll(): void;
}
/** `most`: a server that answers that it is starting extends the patience, up to this. */
export interface Patience extends QueryOptions {
  readonly most?: number;
}

export class Retries {
  readonly #connections: Retried;
  readonly #patience: number;

  constructor(connections: Retried, patience: number) {
    this.#connections = connections;
    this.#patience = patience;
  }
  /** Tries again, with growing waits, as long as the patience lasts. */
  async run<T>(attempt: () => Promise<T>, how: Patience = {}): Promise<T> {
    const connections = this.#connections;
    const { where, outage } = connections;
    const { patience = this.#patience, most = patience, isBatch = false } = how;
    const busyAt = isBatch ? performance.now() + BUSY_AFTER_MS : Number.POSITIVE_INFINITY;
    const end = performance.now() + most;
    let until = performance.now() + patience;
    let wait = FIRST_WAIT_MS;
    let contendedWait = CONTENDED_WAIT_MS;
    let isForgiven = patience <= 0;
    for (;;) {
      const { areOwn } = connections;
      const began = performance.now();
      try {
        const result = await attempt();
        outage.reached();
        return result;
      } catch (error) {
        if (isNameLost(error) && areOwn) {
          connections.areOwn = false; // there is a pooler between
          continue;
        }
        const contended = isContended(error);
        if (isReadOnly(error)) connections.leaveAll();
        const isGone = isLost(error) || (connections.wasThere && isNameless(error));
        if (isGone) outage.failed(error, began);
        else outage.reached();
        if (isThere(error)) until = Math.min(performance.now() + patience, end);
        if (connections.isClosed || (!contended && !isGone)) throw storeError(error, where);
        if (contended && (performance.now() > busyAt || (isBatch && isHeldUp(error)))) throw storeError(error, where);
        // The wait for an answer may have used up the patience: the attempt is repeated once in any case.
        if (isSilence(error) && !isForgiven) isForgiven = true;
        else if (performance.now() > until) throw contended ? storeError(error, where) : unavailable(error, where);
        if (contended) {
          await sleep(contendedWait * (0.5 + Math.random()));
          contendedWait = Math.min(contendedWait * 2, LONGEST_CONTENDED_WAIT_MS);
        } else {
          await sleep(wait * (0.75 + Math.random() / 2));
          wait = Math.min(wait * 2, LONGEST_WAIT_MS);
        }
      }
    }
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
