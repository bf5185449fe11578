// What this process knows of a namespace: who runs it, who waits for it, and how to append to it.
// Owns: for each driver the one live session (H1), callers that wait for updates, and the order of messages.
// Invariants: H1 (one live executor a namespace), H2 (outside writers only append messages), M1 (a send is acknowledged when it is durable,
// and the run will be woken for it), M2 H4 (the key of a message is behind those of all that were acknowledged before it was sent).

import { RunClosedError, RunNotFoundError } from "@holdfast/core";
import type { EngineDriver } from "../driver.ts";
import { decode, encode } from "../storage/binary.ts";
import type { Head, InboxMessage, Message, Status, UpdateOutcome } from "../storage/contents.ts";
import { KEY, messageKey, PREFIX, placeOf, updateKey } from "../storage/layout.ts";
import { assertFits } from "../storage/storage.ts";
import type { Environment } from "./environment.ts";
import { isClosed } from "./results.ts";

/** What a sender needs of a run that is live. */
export interface LiveRun {
  /** Resolves once the run is in storage. */
  readonly begun: Promise<void>;
  /** `behind`: the key of the last message that was stored before it. */
  receive(message: InboxMessage, behind: Uint8Array | undefined): void;
  /** Sees to an alarm that is due. */
  arm(): Promise<void>;
}

export type UpdateWaiter = (outcome: UpdateOutcome) => void;

const namespaces = new WeakMap<EngineDriver, Namespace>();

export class Namespace {
  readonly driver: EngineDriver;
  live: LiveRun | undefined;
  /** While a run is being created or started here: its alarm may stand before it does. Never rejects. */
  #opening: Promise<void> | undefined;
  readonly #waiters = new Map<string, Set<UpdateWaiter>>();
  /** Of the last message that this process has made a key for. */
  #place = 0;

  static of(driver: EngineDriver): Namespace {
    let namespace = namespaces.get(driver);
    if (namespace === undefined) {
      namespace = new Namespace(driver);
      namespaces.set(driver, namespace);
    }
    return namespace;
  }
  private constructor(driver: EngineDriver) {
    this.driver = driver;
  }

  /** One after the other; everything else that concerns the run waits for it. */
  open<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#opening;
    const opened = before === undefined ? work() : before.then(work);
    const settled = opened.then(
      () => {},
      () => {},
    );
    this.#opening = settled;
    void settled.then(() => {
      if (this.#opening === settled) this.#opening = undefined;
    });
    return opened;
  }
  /** Nobody is creating or starting it. */
  async opened(): Promise<void> {
    while (this.#opening !== undefined) await this.#opening;
  }

  // ── reading ──

  async head(runId: string): Promise<Head> {
    const head = await this.driver.get(KEY.head);
    if (head === undefined) throw new RunNotFoundError({ runId });
    return decode(head) as Head;
  }
  async status(): Promise<Status | undefined> {
    const status = await this.driver.get(KEY.status);
    return status === undefined ? undefined : (decode(status) as Status);
  }
  async updateOutcome(id: string): Promise<UpdateOutcome | undefined> {
    const outcome = await this.driver.get(updateKey(id));
    return outcome === undefined ? undefined : (decode(outcome) as UpdateOutcome);
  }

  // ── appending ──

  /** M12: to an open run; `alsoClosed` for what makes a closed one go on. */
  async append(runId: string, message: Message, environment: Environment, alsoClosed = false): Promise<void> {
    await this.opened();
    await this.live?.begun;
    const status = (await this.status())?.status; // written with the head: it tells both that there is a run and how it stands
    if (status === undefined) throw new RunNotFoundError({ runId });
    if (!alsoClosed && isClosed(status)) throw new RunClosedError({ runId, status });
    const now = environment.now();
    const last = await this.#lastKey();
    const at = this.newKey(last, environment);
    const value = encode(message);
    assertFits(this.driver, 1, at.length + value.length, `a ${message.job.type}`);
    await this.driver.batch([{ type: "set", key: at, value }]);
    // The alarm after the message: a run that is woken in between finds it, and one that parks in between is woken again.
    if (this.live === undefined) {
      await this.driver.setAlarm(runId, now);
      this.driver.announce(); // whoever runs it may be in another process
    } else {
      this.live.receive({ ...message, at }, last);
      await this.live.arm();
    }
  }
  /** H4: behind the last message that is stored, whatever clocks say. */
  async #lastKey(): Promise<Uint8Array | undefined> {
    const { driver } = this;
    return driver.last === undefined ? (await driver.list(PREFIX.messages)).at(-1)?.key : driver.last(PREFIX.messages);
  }
  /** Behind that of `last`, and of all that this process has sent. */
  newKey(last: Uint8Array | undefined, environment: Environment): Uint8Array {
    this.#place = Math.max(this.#place, last === undefined ? 0 : placeOf(last)) + 1;
    return messageKey(this.#place, 0, environment.uuid().slice(0, 8));
  }

  // ── updates ──

  /** Calls back with the outcome once it is durable; returns how to stop waiting. */
  onUpdate(id: string, waiter: UpdateWaiter): () => void {
    const waiters = this.#waiters.get(id) ?? new Set();
    this.#waiters.set(id, waiters);
    waiters.add(waiter);
    return () => {
      waiters.delete(waiter);
      if (waiters.size === 0 && this.#waiters.get(id) === waiters) this.#waiters.delete(id);
    };
  }
  tellUpdate(id: string, outcome: UpdateOutcome): void {
    for (const waiter of this.#waiters.get(id) ?? []) waiter(outcome);
  }
}
