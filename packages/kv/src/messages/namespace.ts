// The state of a namespace in this process: the session that runs it, the callers that wait for it, and how to append messages to it.
// Owns: for each driver the one live session (H1), the callers that wait for updates, and the order of messages.
// Invariants: H1 (one live executor per namespace), H2 H5 (outside writers only append messages, and withdraw their own), M1 (a send is
// acknowledged when it is durable and the run will be woken for it), M2 H4 (the key of a message sorts after all messages that were
// acknowledged before it was sent).

import { type Codec, RunClosedError, RunNotFoundError } from "@holdfast/core";
import type { EngineDriver } from "../driver.ts";
import type { Environment, Timer } from "../environment.ts";
import { RunClosingError } from "../errors.ts";
import { isClosed } from "../results.ts";
import { decode } from "../storage/binary.ts";
import type { Head, InboxMessage, Message, Status, UpdateOutcome } from "../storage/contents.ts";
import { KEY, messageKey, PREFIX, placeOf, updateKey } from "../storage/layout.ts";
import { read, write } from "../storage/sealing.ts";
import { assertFits } from "../storage/storage.ts";

/** What a sender needs from a live run. */
export interface LiveRun {
  /** Resolves once the run is in storage. */
  readonly begun: Promise<void>;
  /** `behind`: the key of the last message stored before it. */
  receive(message: InboxMessage, behind: Uint8Array | undefined): void;
  /** Makes sure that there is an alarm that is due. */
  arm(): Promise<void>;
  /** H5: undefined while the run reads arriving messages. Otherwise it is about to end, and this resolves when the result is known. */
  readonly decided: Promise<void> | undefined;
}

/** What sending a message needs. */
export interface Sender {
  readonly environment: Environment;
  readonly codec: Codec;
}

/** A message that is stored and not acknowledged yet. */
interface Sent {
  readonly runId: string;
  readonly at: Uint8Array;
  readonly sender: Sender;
  readonly job: Message["job"]["type"];
}

/** Milliseconds that a sender waits for a run that is about to end. */
const PATIENCE = 2_000;
const LONGEST_LOOK = 50;

export type UpdateWaiter = (outcome: UpdateOutcome) => void;

const namespaces = new WeakMap<EngineDriver, Namespace>();

export class Namespace {
  readonly driver: EngineDriver;
  live: LiveRun | undefined;
  /** Set while a run is created or started here: its alarm may be set before the run exists. Never rejects. */
  #opening: Promise<void> | undefined;
  readonly #waiters = new Map<string, Set<UpdateWaiter>>();
  /** The place of the last message key that this process has created. */
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

  /** Runs one opening at a time; everything else that concerns the run waits for it. */
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
  /** Resolves when no creation or start is in progress. */
  async opened(): Promise<void> {
    while (this.#opening !== undefined) await this.#opening;
  }

  // ── reading ──

  async head(runId: string): Promise<Head> {
    const head = await this.driver.get(KEY.head);
    if (head === undefined) throw new RunNotFoundError({ runId });
    return decode(head) as Head;
  }
  async status(codec: Codec): Promise<Status | undefined> {
    const status = await this.driver.get(KEY.status);
    return status === undefined ? undefined : (read(status, codec) as Status);
  }
  async updateOutcome(id: string, codec: Codec): Promise<UpdateOutcome | undefined> {
    const outcome = await this.driver.get(updateKey(id));
    return outcome === undefined ? undefined : (read(outcome, codec) as UpdateOutcome);
  }

  // ── appending ──

  /** M12: appends to an open run; a message that can make a closed run continue is appended to a closed run, too. */
  async append(runId: string, message: Message, sender: Sender): Promise<void> {
    const { environment, codec } = sender;
    await this.opened();
    await this.live?.begun;
    const status = (await this.status(codec))?.status; // written with the head: it shows that the run exists, and its state
    if (status === undefined) throw new RunNotFoundError({ runId });
    if (message.job.type !== "recover" && isClosed(status)) throw new RunClosedError({ runId, status });
    const last = await this.#lastKey();
    const at = this.newKey(last, environment);
    const value = write(message, codec);
    assertFits(this.driver, 1, at.length + value.length, `a ${message.job.type}`);
    await this.driver.batch([{ type: "set", key: at, value }]);
    const sent: Sent = { runId, at, sender, job: message.job.type };
    const { live } = this;
    if (live === undefined) return this.#acknowledge(sent);
    // H5: the session reads the messages that it has received before it ends the run. Once it has decided to end, the result is stored.
    const { decided } = live;
    live.receive({ ...message, at }, last);
    await live.arm();
    if (decided === undefined) return;
    await this.#withinPatience(environment, decided);
    await this.#acknowledge(sent);
  }
  /** H5: the message is stored. The status of the run after that shows whether a turn will get the message. */
  async #acknowledge(sent: Sent): Promise<void> {
    const { runId, at, sender, job } = sent;
    const { environment, codec } = sender;
    const patience = environment.elapsed() + PATIENCE;
    let isWoken = false;
    for (let wait = 1; ; wait = Math.min(wait * 2, LONGEST_LOOK)) {
      const status = await this.status(codec);
      if (status === undefined) throw new RunNotFoundError({ runId });
      if (isClosed(status.status) && job !== "recover") return this.#refuseAfterEnd(sent, status);
      // V4: messages don't wake a blocked run. It finds them once it is unblocked.
      const wakes = status.status !== "blocked" || job === "terminate" || job === "recover";
      if (!isWoken && wakes) {
        // The alarm comes after the message: a run that is woken in between finds the message, and a run that parks in between is woken
        // again.
        await this.driver.setAlarm(runId, environment.now());
        this.driver.announce(); // for a live run in another process
        isWoken = true;
      }
      if (status.closing !== true) return;
      if (environment.elapsed() > patience) break;
      await this.#pause(environment, wait);
    }
    await this.driver.batch([{ type: "delete", key: at }]);
    throw new RunClosingError({ runId });
  }
  /** If the run has ended, a message that no turn got is still stored under its key. */
  async #refuseAfterEnd({ runId, at }: Sent, { status }: Status): Promise<void> {
    if ((await this.driver.get(at)) === undefined) return;
    await this.driver.batch([{ type: "delete", key: at }]);
    throw new RunClosedError({ runId, status });
  }
  #pause(environment: Environment, ms: number): Promise<void> {
    return new Promise((resolve) => void environment.after(ms, resolve));
  }
  async #withinPatience(environment: Environment, awaited: Promise<void>): Promise<void> {
    let timer: Timer | undefined;
    const over = new Promise<void>((resolve) => {
      timer = environment.after(PATIENCE, resolve);
    });
    await Promise.race([awaited, over]);
    timer?.cancel();
  }
  /** H4: the key of the last stored message, whatever clocks say. */
  async #lastKey(): Promise<Uint8Array | undefined> {
    const { driver } = this;
    return driver.last === undefined ? (await driver.list(PREFIX.messages)).at(-1)?.key : driver.last(PREFIX.messages);
  }
  /** A key after `last`, and after all messages that this process has sent. */
  newKey(last: Uint8Array | undefined, environment: Environment): Uint8Array {
    this.#place = Math.max(this.#place, last === undefined ? 0 : placeOf(last)) + 1;
    return messageKey(this.#place, 0, environment.uuid().slice(0, 8));
  }

  // ── updates ──

  /** Calls back with the outcome once it is durable. Returns a function that stops waiting. */
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
