// Jobs that wait for the next turns of one run.
// Owns: their order; which of them are messages of the inbox, and so leave it with the turn that takes them.
// Invariants: M2 (messages in order of arrival), M7 (what a turn takes is consumed by its commit, what comes during it by a later one),
// X9 (a turn takes no more than so many), D9 (a turn that is taken back: messages first, in a turn of their own, then timers and outcomes),
// M8 (an update that may wait goes with every turn until one takes it).

import type { Job, UpdateJob } from "@holdfast/core";

/** A message of the inbox. */
export interface QueuedMessage {
  readonly id: number;
  /** Of a resume the host has a job of its own, with what it voids. */
  readonly job: Job | undefined;
}
/** What a turn takes. */
export interface TurnJobs {
  readonly jobs: readonly Job[];
  readonly messages: readonly QueuedMessage[];
}

/** A turn takes no more messages than this; what a run has more goes into the next ones. */
const MESSAGES_A_TURN = 200;
const NO_MESSAGES: readonly QueuedMessage[] = [];
/** Jobs that a turn begins with, whatever else it takes. */
const FIRST: ReadonlySet<string> = new Set(["start", "resume"]);

interface Queued extends QueuedMessage {
  /** How many jobs there are up to its own. */
  readonly jobs: number;
}

interface HeldJob {
  readonly job: Job;
  /** Of an answer in the inbox. */
  readonly id: number | undefined;
}

export class JobQueue {
  #jobs: Job[] = [];
  #messages: Queued[] = [];
  /** M8: updates that no receive has taken up yet. They go with the next turn, and are no reason for one. */
  #kept: readonly QueuedMessage[] = [];
  /** D9: timers and outcomes that wait until all messages up to this one have had their turn. Answers of others are in the inbox. */
  #held: { readonly jobs: readonly HeldJob[]; readonly until: number } | undefined;

  get isEmpty(): boolean {
    return this.#jobs.length === 0;
  }
  get jobs(): readonly Job[] {
    return this.#jobs;
  }
  /** Outcomes of steps among them that are in memory alone. */
  get hasOutcomes(): boolean {
    const isOwn = ({ job, id }: HeldJob): boolean => job.type === "resolve" && id === undefined;
    return heldJobs(this.#jobs, this.#messages).some(isOwn) || this.#held?.jobs.some(isOwn) === true;
  }
  push(job: Job): void {
    this.#jobs.push(job);
  }
  pushMessage(id: number, job: Job | undefined): void {
    if (job !== undefined) this.#jobs.push(job);
    this.#messages.push({ id, job, jobs: this.#jobs.length });
  }
  /** The operation is settled: a timer of it that has fired and waits here is none any more. */
  dropFire(seq: number): void {
    const held = this.#held;
    if (held !== undefined) this.#held = { ...held, jobs: held.jobs.filter(({ job }) => job.type !== "fire" || job.seq !== seq) };
    const at = this.#jobs.findIndex((job) => job.type === "fire" && job.seq === seq);
    if (at < 0) return;
    this.#jobs.splice(at, 1);
    this.#messages = this.#messages.map(({ id, job, jobs }) => ({ id, job, jobs: jobs > at ? jobs - 1 : jobs }));
  }
  /** A claim begins with an inbox of its own. K8: a timer that fired is set no more; without a replay only this queue knows of it. */
  clear(fires: "keep fires" | "drop fires"): void {
    const jobs = [...this.#jobs, ...(this.#held?.jobs ?? []).map(({ job }) => job)];
    this.#jobs = fires === "keep fires" ? jobs.filter(({ type }) => type === "fire") : [];
    this.#messages = [];
    this.#kept = [];
    this.#held = undefined;
  }
  /** M8: the turn that had these messages has left them for the next. */
  keep(messages: readonly QueuedMessage[]): void {
    this.#kept = messages;
  }

  /** What has become ready by now shares the turn: steps that end together cost one commit. But a turn ends in time (X9), however many write. */
  take(): TurnJobs {
    const turn = this.#takeNew();
    if (this.#kept.length === 0) return turn;
    const kept = this.#kept;
    this.#kept = [];
    const first = turn.jobs.filter(({ type }) => FIRST.has(type));
    const others = turn.jobs.filter(({ type }) => !FIRST.has(type));
    return { jobs: [...first, ...kept.flatMap(({ job }) => job ?? []), ...others], messages: [...kept, ...turn.messages] };
  }
  #takeNew(): TurnJobs {
    const jobs = this.#jobs;
    const messages = this.#messages; // M7: what arrives during the turn is consumed by the next
    // K7: what came before a deadline is recorded with it, and moves no code.
    const isLast = messages.length > MESSAGES_A_TURN && jobs.some(({ type }) => type === "expire");
    const count = isLast ? jobs.length : (messages[MESSAGES_A_TURN - 1]?.jobs ?? jobs.length);
    this.#jobs = count === jobs.length ? [] : jobs.splice(count);
    if (messages.length === 0) return { jobs, messages: NO_MESSAGES };
    this.#messages = messages
      .splice(isLast ? messages.length : MESSAGES_A_TURN)
      .map(({ id, job, jobs }) => ({ id, job, jobs: jobs - count }));
    this.#release();
    return { jobs, messages };
  }
  /** The messages that they waited for have their turn: they are in the turn after. */
  #release(): void {
    const held = this.#held;
    if (held === undefined || this.#messages.some(({ id }) => id <= held.until)) return;
    const [jobs, messages] = [this.#jobs, this.#messages];
    this.#held = undefined;
    this.#jobs = [];
    this.#messages = [];
    for (const { job, id } of held.jobs) {
      if (id === undefined) this.push(job);
      else this.pushMessage(id, job);
    }
    const before = this.#jobs.length;
    this.#jobs.push(...jobs);
    for (const { id, job, jobs } of messages) this.#messages.push({ id, job, jobs: jobs + before });
  }

  /**
   * D9: a turn that counts for nothing. Its messages and those that have come since, in order of arrival, have a turn of their own; timers
   * and outcomes come in the turn after, with what others have answered: they would end the same waits again.
   */
  takeBack(turn: TurnJobs): void {
    this.#kept = []; // they are among its messages
    const queued = [...turn.messages, ...this.#messages];
    const jobs = [...heldJobs(turn.jobs, queued), ...(this.#held?.jobs ?? []), ...heldJobs(this.#jobs, queued)];
    const messages = queued.filter(({ job }) => job === undefined || !isOutcome(job)).sort((a, b) => a.id - b.id);
    this.#jobs = jobs.flatMap(({ job }) => (FIRST.has(job.type) ? [job] : []));
    this.#messages = [];
    for (const { id, job } of messages) this.pushMessage(id, job);
    const held = jobs.filter(({ job, id }) => isOutcome(job) || (id === undefined && !FIRST.has(job.type)));
    this.#held = held.length === 0 ? undefined : { jobs: held, until: messages.at(-1)?.id ?? 0 };
  }
}

/** Each with its id, if it is a message's. */
function heldJobs(jobs: readonly Job[], messages: readonly QueuedMessage[]): HeldJob[] {
  const ids = new Map(messages.map(({ id, job }) => [job, id]));
  return jobs.map((job) => ({ job, id: ids.get(job) }));
}
/** What an operation resulted in, not a message that was sent. */
function isOutcome({ type }: Job): boolean {
  return type === "fire" || type === "resolve" || type === "childStarted";
}
/** M8: an update that may wait to be accepted. */
export function isPatient(message: QueuedMessage): message is QueuedMessage & { readonly job: UpdateJob } {
  return message.job?.type === "update" && message.job.acceptUntil !== undefined;
}
/** Does the turn have messages beside timers and outcomes? */
export function isMixed({ jobs, messages }: TurnJobs): boolean {
  const isSent = (message: QueuedMessage): boolean => message.job !== undefined && !isOutcome(message.job) && !isPatient(message);
  return messages.some(isSent) && jobs.some(isOutcome);
}
