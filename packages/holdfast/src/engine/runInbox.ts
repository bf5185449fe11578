// The inbox of one run, as far as its driver has read it.
// Owns: the last message that the driver has seen, batches that are being delivered, and which messages a turn's commit consumes.
// Invariants: M2 (messages in order, one batch after the other), M7 (a message leaves the inbox with the turn that takes it), M8 (an update
// that may wait stays until a turn accepts it), D6 (the outcome of a transaction is taken once), D9 (the commit that parks or ends a run says
// up to which message the run has seen).

import type { AnyWorkflow, Completion, Job } from "@holdfast/core";
import type { ForkMessage, InboxMessage, LateIf, RunRow } from "../store/port.ts";
import type { DriverHost } from "./driverHost.ts";
import { isWaitingUpdate, type JobQueue, type TurnJobs } from "./jobQueue.ts";
import type { Draft } from "./journal.ts";

/** D9, K1: for most ends only a cancellation matters. */
const LATE_IF_CANCELED: LateIf = { cancel: true, signals: [] };

export class RunInbox {
  readonly #workflow: AnyWorkflow;
  readonly #host: Pick<DriverHost, "checked">;
  readonly #queue: JobQueue;
  readonly #run: () => RunRow;
  /** The number of claims so far: each reads the inbox again. */
  #claim = 0;
  #seen = 0;
  /** Messages after `#seen` that were delivered early: outcomes of transactions, known without reading the inbox. */
  readonly #ahead = new Set<number>();
  #deliveries: Promise<void> = Promise.resolve();
  #delivering = 0;

  /** `queue`: where messages are delivered. `run`: the row of the run, as it was claimed. */
  constructor(workflow: AnyWorkflow, host: Pick<DriverHost, "checked">, queue: JobQueue, run: () => RunRow) {
    this.#workflow = workflow;
    this.#host = host;
    this.#queue = queue;
    this.#run = run;
  }

  /** The last message that was read. */
  get seen(): number {
    return this.#seen;
  }
  get isDelivering(): boolean {
    return this.#delivering > 0;
  }

  /** M7: messages that came too late for the previous claim are in the inbox of this one, unless another worker has consumed them. */
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
  /** All messages in the inbox are left to the next claim. */
  leaveAll(): void {
    this.#seen = 0;
  }

  /** Delivers messages from the inbox, in order. Those that were delivered before are skipped. */
  deliver(messages: readonly InboxMessage[]): Promise<void> {
    this.#delivering++;
    // One batch after the other: no message overtakes one with a slow schema (M2), and no turn or parking begins meanwhile (D9).
    const claim = this.#claim;
    this.#deliveries = this.#deliveries.then(() => this.#deliver(messages, claim)).finally(() => this.#delivering--);
    return this.#deliveries;
  }
  async #deliver(messages: readonly InboxMessage[], claim: number): Promise<void> {
    for (const message of messages) {
      if (claim !== this.#claim) return; // the claim has ended: the next one reads the inbox again
      if (message.id <= this.#seen) continue;
      this.#seen = message.id;
      if (this.#ahead.delete(message.id)) continue;
      if (message.job.type === "fork") {
        this.#queue.pushFork(message.id, firstJobsOf(message.job, this.#run()));
        continue;
      }
      const job = message.job.type === "resume" ? undefined : await this.#host.checked(this.#workflow, message.job);
      if (claim !== this.#claim) return;
      this.#queue.pushMessage(message.id, job); // for a resume, recovery has made the job
    }
  }
  /** A message that is known without reading the inbox. M2: earlier messages may not have been read yet. */
  takeAhead({ id, job }: InboxMessage): void {
    if (id <= this.#seen) return; // the inbox was read meanwhile
    this.#ahead.add(id);
    this.#queue.pushMessage(id, job);
  }

  /** M7: the messages of the turn leave the inbox. M8: updates that it did not accept stay there, and are offered to the next turn. */
  consume(draft: Draft, turn: TurnJobs, { replies }: Completion & { status: "ok" }): void {
    const waiting = turn.messages.filter(isWaitingUpdate);
    if (waiting.length === 0) {
      draft.consumed = turn.messages.map(({ id }) => id);
      return;
    }
    const replyTo = new Map(replies.map((reply) => [reply.id, reply.type]));
    const accepts = waiting.flatMap(({ job }) => (replyTo.has(job.id) ? [] : [job.id]));
    if (accepts.length > 0) draft.accepts = accepts;
    const left = waiting.filter(({ job }) => replyTo.get(job.id) === "keepUpdate");
    if (left.length > 0) this.#queue.keep(left);
    const kept = new Set(left.map(({ id }) => id));
    draft.consumed = turn.messages.flatMap(({ id }) => (kept.has(id) ? [] : [id]));
  }
}

/** F1: the jobs of a fork's first turn. One without copied turns has its own start, which says who it is. */
function firstJobsOf({ jobs, ...fork }: ForkMessage, { turns, createdAt }: RunRow): readonly Job[] {
  return turns === 0 ? jobs : [{ ...fork, startedAt: createdAt }, ...jobs];
}

/** D9: which messages prevent this end, if they arrived before it. Undefined: none. */
export function lateIfOf({ heedsCancel, stillWanted }: Completion & { status: "ok" }): LateIf | undefined {
  if (stillWanted === undefined) return heedsCancel === true ? LATE_IF_CANCELED : undefined;
  return { cancel: heedsCancel === true, signals: stillWanted };
}
