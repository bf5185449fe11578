// The inbox of one run, as far as its driver has read it.
// Owns: up to which message the driver has seen it, batches that are being delivered, and which messages a turn's commit consumes.
// Invariants: M2 (messages in order, one batch after the other), M7 (a message leaves the inbox with the turn that takes it), M8 (an update
// that may wait stays until a turn takes it), D6 (the outcome of a transaction is taken once), D9 (a run parks, and ends, with what it has
// seen).

import type { AnyWorkflow, Completion } from "@holdfast/core";
import { isPatient, type JobQueue, type TurnJobs } from "../host/jobs.ts";
import type { Draft } from "../host/journal.ts";
import type { InboxMessage, LateIf } from "../store/port.ts";
import type { DriverHost } from "./driverHost.ts";

/** D9, K1: most ends look for nothing but a cancellation. */
const LATE_IF_CANCELED: LateIf = { cancel: true, signals: [] };

export class RunInbox {
  readonly #workflow: AnyWorkflow;
  readonly #host: Pick<DriverHost, "checked">;
  readonly #queue: JobQueue;
  /** Counts the claims: each reads the inbox anew. */
  #claim = 0;
  #seen = 0;
  /** Messages above `#seen` that were delivered before those between: outcomes of transactions, known without reading the inbox. */
  readonly #ahead = new Set<number>();
  #deliveries: Promise<void> = Promise.resolve();
  #delivering = 0;

  /** Messages go into this queue. */
  constructor(workflow: AnyWorkflow, host: Pick<DriverHost, "checked">, queue: JobQueue) {
    this.#workflow = workflow;
    this.#host = host;
    this.#queue = queue;
  }

  /** The last message that was read. */
  get seen(): number {
    return this.#seen;
  }
  get isDelivering(): boolean {
    return this.#delivering > 0;
  }

  /** M7: what came too late for the claim before, as it parked, is in the inbox of this one, unless another worker has consumed it. */
  beginClaim(isReplayed: boolean): void {
    this.#queue.clear(isReplayed ? "drop fires" : "keep fires");
    this.#claim++;
    this.#seen = 0;
    this.#ahead.clear();
  }
  /** These messages stay in the inbox, and do not wake the run. */
  passOver(messages: readonly InboxMessage[]): void {
    this.#seen = messages.at(-1)?.id ?? 0;
  }
  /** What has come is for the next claim. */
  leaveAll(): void {
    this.#seen = 0;
  }

  /** Messages from the inbox, in order; what was delivered before is passed over. */
  deliver(messages: readonly InboxMessage[]): Promise<void> {
    this.#delivering++;
    // One batch after the other: a message whose schema takes its time is not overtaken (M2), and no turn or parking begins meanwhile (D9).
    const claim = this.#claim;
    this.#deliveries = this.#deliveries.then(() => this.#deliver(messages, claim)).finally(() => this.#delivering--);
    return this.#deliveries;
  }
  async #deliver(messages: readonly InboxMessage[], claim: number): Promise<void> {
    for (const message of messages) {
      if (claim !== this.#claim) return; // of a claim that is over: the next has its own inbox
      if (message.id <= this.#seen) continue;
      this.#seen = message.id;
      if (this.#ahead.delete(message.id)) continue;
      const job = message.job.type === "resume" ? undefined : await this.#host.checked(this.#workflow, message.job);
      if (claim !== this.#claim) return;
      this.#queue.pushMessage(message.id, job); // of a resume the host has its own, with what it voids
    }
  }
  /** A message that is known without reading the inbox. M2: earlier messages may not have been read yet. */
  takeAhead({ id, job }: InboxMessage): void {
    if (id <= this.#seen) return; // the inbox was read meanwhile
    this.#ahead.add(id);
    this.#queue.pushMessage(id, job);
  }

  /** M7: what the turn has taken leaves the inbox. M8: what it has given back stays there, and is offered to the next one. */
  consume(draft: Draft, turn: TurnJobs, { replies }: Completion & { status: "ok" }): void {
    const patient = turn.messages.filter(isPatient);
    if (patient.length === 0) {
      draft.consumed = turn.messages.map(({ id }) => id);
      return;
    }
    const replyTo = new Map(replies.map((reply) => [reply.id, reply.type]));
    const accepts = patient.flatMap(({ job }) => (replyTo.has(job.id) ? [] : [job.id]));
    if (accepts.length > 0) draft.accepts = accepts;
    const left = patient.filter(({ job }) => replyTo.get(job.id) === "keepUpdate");
    if (left.length > 0) this.#queue.keep(left);
    const kept = new Set(left.map(({ id }) => id));
    draft.consumed = turn.messages.flatMap(({ id }) => (kept.has(id) ? [] : [id]));
  }
}

/** D9: which messages make this end late. Undefined: none. */
export function lateIfOf({ heedsCancel, stillWanted }: Completion & { status: "ok" }): LateIf | undefined {
  if (stillWanted === undefined) return heedsCancel === true ? LATE_IF_CANCELED : undefined;
  return { cancel: heedsCancel === true, signals: stillWanted };
}
