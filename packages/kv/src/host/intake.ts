// Turns messages into jobs.
// Owns: the inbox of a live run, messages that were taken but not deleted yet, updates that wait to be accepted, and the keys that these
// use.
// Invariants: M8 (an update that may wait is offered to each turn until one accepts it, or its time is over by the run's clock), M3 (one
// delivery per key), M7 (a message is deleted in the batch of the turn that consumes its job, not before), M13, P10 (an outcome for an
// execution that has ended is dropped).

import type { Job, UpdateJob } from "@holdfast/core";
import { checkedSignal, checkedUpdate } from "@holdfast/host";
import { Inbox } from "../messages/inbox.ts";
import type { Namespace } from "../messages/namespace.ts";
import type { InboxMessage, Message, MessageJob } from "../storage/contents.ts";
import { PREFIX, usedKey } from "../storage/layout.ts";
import { read } from "../storage/sealing.ts";
import type { Storage } from "../storage/storage.ts";
import type { Execution } from "./execution.ts";
import type { Settings } from "./settings.ts";

interface Taken {
  readonly message: InboxMessage;
  /** Undefined if the message has no job for a turn. */
  readonly job: Job | undefined;
  /** Counts as used from now on. */
  readonly key: string | undefined;
}

export class Intake {
  readonly #settings: Settings;
  readonly #namespace: Namespace;
  readonly #inbox = new Inbox();
  #taken: Taken[] = [];
  /** M8: updates that a turn was offered and did not accept, oldest first. */
  #patient: Taken[] = [];
  readonly #used = new Set<string>();
  #hinted = false;
  #terminated: Extract<MessageJob, { type: "terminate" }> | undefined;

  constructor(settings: Settings, namespace: Namespace) {
    this.#settings = settings;
    this.#namespace = namespace;
  }

  // ── arriving ──

  add(messages: readonly InboxMessage[]): void {
    this.#inbox.add(messages);
  }
  knows(key: Uint8Array): boolean {
    return this.#inbox.knows(key);
  }
  /** Other senders may have appended messages. */
  hint(): void {
    this.#hinted = true;
  }
  get isHinted(): boolean {
    return this.#hinted;
  }
  async look(): Promise<void> {
    this.#hinted = false;
    const { driver, codec } = this.#settings;
    const entries = await driver.list(PREFIX.messages);
    this.add(entries.map(({ key, value }) => ({ ...(read(value, codec) as Message), at: key })));
  }
  /** Number of messages that were not taken yet. */
  get waiting(): number {
    return this.#inbox.size;
  }
  /** Whether a waiting message matches. */
  has(isWanted: (job: MessageJob) => boolean): boolean {
    return this.#inbox.peek().some(({ job }) => isWanted(job));
  }
  /** The oldest waiting message of a kind. */
  find<T extends MessageJob["type"]>(type: T): Extract<MessageJob, { type: T }> | undefined {
    const found = this.#inbox.peek().find(({ job }) => job.type === type)?.job;
    return found as Extract<MessageJob, { type: T }> | undefined;
  }

  // ── taking ──

  /** The waiting messages, as jobs of the execution. */
  async take(execution: Execution): Promise<Job[]> {
    const jobs: Job[] = [];
    for (const message of this.#inbox.take()) {
      const { key } = message;
      if (key !== undefined && (await this.#wasUsed(key))) {
        await this.#sentBefore(message);
        this.#taken.push({ message, job: undefined, key: undefined });
      } else {
        const job = await this.#jobOf(message, execution);
        if (job !== undefined) jobs.push(job);
        this.#taken.push({ message, job, key });
      }
    }
    return jobs;
  }
  /** Takes all waiting messages of a kind. No turn gets them, and the next batch deletes them. */
  takeAll(type: MessageJob["type"]): void {
    const waiting = this.#inbox.take();
    this.#inbox.putBack(waiting.filter(({ job }) => job.type !== type));
    for (const message of waiting) if (message.job.type === type) this.#taken.push({ message, job: undefined, key: undefined });
  }
  /** The request to terminate the run, if there is one. */
  get terminated(): Extract<MessageJob, { type: "terminate" }> | undefined {
    return this.#terminated;
  }
  async #wasUsed(key: string): Promise<boolean> {
    if (this.#used.has(key)) return true;
    if ((await this.#settings.driver.get(usedKey(key))) !== undefined) return true;
    this.#used.add(key);
    return false;
  }
  /** M3, M10: a message sent again is not delivered again; its sender gets the outcome of the first, if it is known. */
  async #sentBefore({ job }: InboxMessage): Promise<void> {
    const outcome = job.type === "update" ? await this.#namespace.updateOutcome(job.id, this.#settings.codec) : undefined;
    if (job.type === "update" && outcome !== undefined) this.#namespace.tellUpdate(job.id, outcome);
  }
  async #jobOf({ job }: InboxMessage, { storage, head, operations, lastTime }: Execution): Promise<Job | undefined> {
    const { workflow, codec, environment } = this.#settings;
    switch (job.type) {
      case "signal":
        return checkedSignal(workflow, job, codec, environment);
      case "update":
        return checkedUpdate(workflow, this.#patientJob(job, lastTime), codec, environment);
      case "cancel":
        return job;
      case "resolve": {
        const { type, seq, outcome, execution } = job;
        storage.removeChild(execution, seq);
        return execution === head.execution ? { type, seq, outcome } : undefined; // P10
      }
      case "terminate":
        this.#terminated ??= job;
        return undefined;
      case "recover":
        operations.hurry();
        return undefined;
    }
  }

  // ── waiting to be accepted ──

  /** M8: its time counts from when the run first sees it, by the run's clock, which never goes back (P7). */
  #patientJob({ acceptWithin, ...job }: Extract<MessageJob, { type: "update" }>, lastTime: number): UpdateJob {
    if (acceptWithin === undefined || job.acceptUntil !== undefined) return job;
    return { ...job, acceptUntil: Math.ceil(Math.max(lastTime, this.#settings.environment.now()) + acceptWithin) };
  }
  /** When the first waiting update is rejected; undefined if none waits. */
  get acceptUntil(): number | undefined {
    let first: number | undefined;
    for (const { job } of this.#patient) {
      const until = job?.type === "update" ? job.acceptUntil : undefined;
      if (until !== undefined && (first === undefined || until < first)) first = until;
    }
    return first;
  }
  /** For the next turn, before messages that arrived since. */
  offer(): Job[] {
    if (this.#patient.length === 0) return [];
    const offered = this.#patient;
    this.#patient = [];
    this.#taken = [...offered, ...this.#taken];
    return offered.flatMap(({ job }) => job ?? []);
  }
  /** The turn did not accept these. Until when they may wait is stored with the first turn that did not accept them. */
  keep(storage: Storage, ids: ReadonlySet<string>): void {
    if (ids.size === 0) return;
    const isKept = ({ job }: Taken): boolean => job?.type === "update" && ids.has(job.id);
    for (const taken of this.#taken.filter(isKept)) this.#patient.push(this.#noted(storage, taken));
    this.#taken = this.#taken.filter((taken) => !isKept(taken));
  }
  #noted(storage: Storage, { message, job, key }: Taken): Taken {
    const sent = message.job;
    if (sent.type !== "update" || job?.type !== "update" || sent.acceptUntil !== undefined) return { message, job, key };
    const noted: Message = { ...(message.key !== undefined && { key: message.key }), job: { ...sent, acceptUntil: job.acceptUntil } };
    storage.putMessage(message.at, noted);
    return { message: { ...noted, at: message.at }, job, key };
  }

  // ── deleting ──

  /** Whether there are taken messages that no batch has deleted. */
  get hasTaken(): boolean {
    return this.#taken.length > 0;
  }
  /** M7: adds deletions to the batch. A message whose job is left for a later turn stays until then. */
  consume(storage: Storage, later: readonly Job[]): InboxMessage[] {
    if (this.#taken.length === 0) return [];
    const left = new Set(later);
    const now = this.#taken.filter(({ job }) => job === undefined || !left.has(job));
    this.#taken = this.#taken.filter(({ job }) => job !== undefined && left.has(job));
    for (const { message, key } of now) {
      storage.consume(message);
      if (key !== undefined) storage.markUsed(key);
    }
    return now.map(({ message }) => message);
  }
  /** The batch that deletes them is written. */
  consumed(messages: readonly InboxMessage[]): void {
    for (const message of messages) {
      this.#inbox.forget(message);
      if (message.key !== undefined) this.#used.delete(message.key); // the storage has it now
    }
  }
  /** Messages that the previous execution took but that no turn of it got: they are still stored, and are taken again. */
  putBack(): void {
    for (const { message, key } of [...this.#patient, ...this.#taken]) {
      this.#inbox.forget(message);
      if (key !== undefined) this.#used.delete(key);
    }
    this.#taken = [];
    this.#patient = [];
  }
  /**
   * For a run that has ended: its updates, which need an answer. Its other messages stay stored: that shows each sender that no turn got
   * its message (H5), and a failed run that is resumed consumes them (D10).
   */
  takeLeftovers(isResumable: boolean): InboxMessage[] {
    const waiting = this.#inbox.take();
    this.#inbox.putBack(waiting.filter(({ job }) => isResumable && job.type === "recover"));
    const left = [...[...this.#patient.splice(0), ...this.#taken.splice(0)].map(({ message }) => message), ...waiting];
    return left.filter(({ job }) => job.type === "update");
  }
}
