// `ctx.transaction`: the user's function inside a transaction of the store (D6).
// Owns: how often one attempt is retried, and after which errors of the store it may have committed.
// Invariants: D6 (the outcome is in the inbox if and only if the transaction committed), D8 (attempts are those of the user's function:
// a store that is busy or full for a while costs none).

import {
  HoldfastError,
  IllegalReturnError,
  isError,
  isInstance,
  type Logger,
  type Payload,
  type StepBody,
  type StepInfo,
} from "@holdfast/core";
import { type Body, Recorded } from "@holdfast/host";
import { StoreError } from "../store/errors.ts";
import type { InboxMessage, Store } from "../store/port.ts";
import type { DriverHost } from "./driverHost.ts";
import type { RunInbox } from "./runInbox.ts";

/** The pause before the transaction is retried grows up to this, in milliseconds. */
const LONGEST_PAUSE = 5_000;

type Claim = Parameters<NonNullable<Store["transact"]>>[0];

export interface TransactionsOptions {
  readonly store: Store;
  readonly logger: Logger;
  encode(value: unknown, what: string): Payload;
  /** Resolves after so many milliseconds. */
  delay(ms: number): Promise<void>;
  /** It is not known whether the transaction has committed. */
  outcomeUnknown(claim: Claim, error: unknown): void;
}

export class Transactions {
  readonly #options: TransactionsOptions;
  constructor(options: TransactionsOptions) {
    this.#options = options;
  }

  async run(claim: Claim, body: StepBody, info: StepInfo): Promise<InboxMessage | "stale"> {
    const { store, logger, encode, delay, outcomeUnknown } = this.#options;
    if (store.transact === undefined) {
      throw new HoldfastError("This store does not support transactions. Use ctx.step instead.", { code: "HF_NO_TRANSACTIONS" });
    }
    const run = body.run as (tx: unknown, info: StepInfo) => unknown;
    const encoded = (value: unknown): Payload => encode(value, `the result of transaction ${body.name}`);
    let hasThrown = false;
    let thrownByUser: unknown;
    const thrown = (error: unknown): never => {
      hasThrown = true;
      thrownByUser = error;
      throw error;
    };
    const attempted = (tx: unknown): Payload | Promise<Payload> => {
      hasThrown = false;
      try {
        const result = run(tx, info);
        const waits = typeof (result as { then?: unknown } | null | undefined)?.then === "function";
        return waits ? Promise.resolve(result).then(encoded).catch(thrown) : encoded(result);
      } catch (error) {
        return thrown(error);
      }
    };
    for (let pause = 100; ; pause = Math.min(pause * 2, LONGEST_PAUSE)) {
      try {
        return await store.transact(claim, attempted);
      } catch (error) {
        if (hasThrown && error === thrownByUser) throw error;
        // D6: it may have committed in spite of the error. The next claim finds out from the inbox.
        if (!hasThrown && isUncertain(error)) outcomeUnknown(claim, error);
        if (!isRolledBack(error)) throw error;
        // D8: attempts are those of the user's function. The store may have room again later, or get the lock.
        logger.warn(`The store could not carry out transaction ${body.name}; trying again.`, { runId: claim.runId, error });
        await delay(pause);
        if (info.signal.aborted) throw error;
      }
    }
  }
}

/** The body that a driver runs. When it ends, its outcome is in the inbox (D6), so it is not reported a second time. */
export function transactionBody(
  body: StepBody,
  seq: number,
  driven: { readonly runId: string; readonly epoch: number; readonly inbox: RunInbox },
  host: Pick<DriverHost, "transact">,
): Body {
  const run = async (info: StepInfo): Promise<Recorded> => {
    const { runId, epoch, inbox } = driven;
    const message = await host.transact({ runId, epoch, seq }, body, info);
    if (message === "stale") throw new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" });
    return new Recorded(() => inbox.takeAhead(message));
  };
  return { ...body, run, isFinal: isMisuse };
}

/** D6: a body that has ended its transaction itself, or tried to, would do so again, and may have written something. */
function isMisuse(error: unknown): boolean {
  const seen = new Set<unknown>(); // libraries wrap what `tx` has thrown
  for (let at = error; isError(at) && !seen.has(at); at = causeOf(at)) {
    if (isInstance(at, HoldfastError) && at.code === "HF_STORE_TRANSACTION") return true;
    seen.add(at);
  }
  return false;
}
/** Code can throw any value: even reading it may throw. */
function causeOf(error: Error): unknown {
  try {
    return error.cause;
  } catch {
    return undefined;
  }
}

/** A temporary fault of the store that has rolled the transaction back: a full disk, a lock of another process. */
function isRolledBack(error: unknown): boolean {
  return error instanceof StoreError && error.retryable && error.code !== "HF_STORE_UNAVAILABLE";
}

/** Whether the transaction may have committed. A store that says what was wrong with it has rolled it back. */
function isUncertain(error: unknown): boolean {
  if (error instanceof IllegalReturnError) return false;
  if (error instanceof StoreError) return error.code === "HF_STORE_UNAVAILABLE";
  const { code } = error as { code?: unknown };
  return !(typeof code === "string" && SQL_STATE.test(code));
}
/** Errors by which a database refuses a commit: a deferred constraint, a conflict of transactions. */
const SQL_STATE = /^(?:23|25|40)[0-9A-Z]{3}$/;
