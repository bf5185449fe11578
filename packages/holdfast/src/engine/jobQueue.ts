// Jobs that wait for the next turns of one run.
// Owns: their order, and which of them are messages: these leave the inbox with the turn that takes them.
// Invariants: M2 (messages in order of arrival), M7 (the commit of a turn consumes the messages that the turn took; later ones wait for a
// later turn), X9 (the number of messages per turn is limited), D9 (after a turn was undone: messages first, in a separate turn, then timers
// and outcomes), M8 (an update that may wait is offered to every turn until one accepts it).

import type { Job, UpdateJob } from "@holdfast/core";

/** A message of the inbox. */
export interface QueuedMessage {
  readonly id: number;
  /** Undefined for a resume: recovery makes the job for it, which names the outcomes that it voids. */
  readonly job: Job | undefined;
  /** F1: the first turn of a fork has the jobs of this message and no others. */
  readonly endsTurn?: true;
}
/** The jobs of one turn, and the messages among them. */
export interface TurnJobs {
  readonly jobs: readonly Job[];
  readonly messages: readonly QueuedMessage[];
}

/** The most messages that a turn takes. The others go into the next turns. */
const MESSAGES_PER_TURN = 200;
const NO_MESSAGES: readonly QueuedMessage[] = [];
/** Jobs that come first in a turn. */
const FIRST: ReadonlySet<string> = new Set(["start", "resume", "fork"]);

interface Queued extends QueuedMessage {
  /** The number of jobs in the queue up to and including its own. */
  readonly jobs: number;
}

interface HeldJob {
  readonly job: Job;
  /** The id of its message, if it is in the inbox. */
  readonly id: number | undefined;
}

export class JobQueue {
  #jobs: Job[] = [];
  #messages: Queued[] = [];
  /** M8: updates that no receive has accepted yet. They go with the next turn, but cause none. */
  #kept: readonly QueuedMessage[] = [];
  /** D9: timers and outcomes that wait until a turn has taken all messages up to this one. */
  #held: { readonly jobs: readonly HeldJob[]; readonly until: number } | undefined;

  get isEmpty(): boolean {
    return this.#jobs.length === 0;
  }
  get jobs(): readonly Job[] {
    return this.#jobs;
  }
  /** Whether there are outcomes of steps that exist only in memory. */
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
  /** F1: the jobs of a fork's first turn, which are one message. */
  pushFork(id: number, jobs: readonly Job[]): void {
    this.#jobs.push(...jobs);
    this.#messages.push({ id, job: undefined, jobs: this.#jobs.length, endsTurn: true });
  }
  /** The operation is settled: removes its timer, if it has fired and waits here. */
  dropFire(seq: number): void {
    const held = this.#held;
    if (held !== undefined) this.#held = { ...held, jobs: held.jobs.filter(({ job }) => job.type !== "fire" || job.seq !== seq) };
    const at = this.#jobs.findIndex((job) => job.type === "fire" && job.seq === seq);
    if (at < 0) return;
    this.#jobs.splice(at, 1);
    this.#messages = this.#messages.map((message) => ({ ...message, jobs: message.jobs > at ? message.jobs - 1 : message.jobs }));
  }
  /** A new claim reads the inbox again. K8: a timer that has fired is not set again; without a replay only this queue knows of it. */
  clear(fires: "keep fires" | "drop fires"): void {
    const jobs = [...this.#jobs, ...(this.#held?.jobs ?? []).map(({ job }) => job)];
    this.#jobs = fires === "keep fires" ? jobs.filter(({ type }) => type === "fire") : [];
    this.#messages = [];
    this.#kept = [];
    this.#held = undefined;
  }
  /** M8: the turn did not accept these updates: they are offered to the next one. */
  keep(messages: readonly QueuedMessage[]): void {
    this.#kept = messages;
  }

  /** Everything that is ready shares the turn: steps that end together cost one commit. The number of messages is limited, so that a turn ends in time (X9). */
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
    const messages = this.#messages; // M7: messages that arrive during the turn are consumed by the next one
    // K7: messages that came before a deadline are recorded with it, and run no code.
    const fork = messages.findIndex(({ endsTurn }) => endsTurn === true);
    const most = fork < 0 ? MESSAGES_PER_TURN : fork + 1;
    const isLast = (messages.length > most || fork >= 0) && jobs.some(({ type }) => type === "expire");
    const count = isLast ? jobs.length : (messages[most - 1]?.jobs ?? jobs.length);
    this.#jobs = count === jobs.length ? [] : jobs.splice(count);
    if (messages.length === 0) return { jobs, messages: NO_MESSAGES };
    this.#messages = messages.splice(isLast ? messages.length : most).map((message) => ({ ...message, jobs: message.jobs - count }));
    this.#release();
    return { jobs, messages };
  }
  /** This turn takes the messages that they waited for: they go into the next one. */
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
   * D9: the turn is undone. Its messages and those that have come since get a separate turn, in order of arrival. Timers and outcomes,
   * including answers in the inbox, go into the turn after it: otherwise they would end the same waits again.
   */
  takeBack(turn: TurnJobs): void {
    this.#kept = []; // they are in turn.messages
    const fork = turn.messages.find(({ endsTurn }) => endsTurn === true);
    if (fork !== undefined) return this.#takeBackFork(turn, fork);
    const queued = [...turn.messages, ...this.#messages];
    const jobs = [...heldJobs(turn.jobs, queued), ...(this.#held?.jobs ?? []), ...heldJobs(this.#jobs, queued)];
    const messages = queued.filter(({ job }) => job === undefined || !isOutcome(job)).sort((a, b) => a.id - b.id);
    this.#jobs = jobs.flatMap(({ job }) => (FIRST.has(job.type) ? [job] : []));
    this.#messages = [];
    for (const { id, job } of messages) this.pushMessage(id, job);
    const held = jobs.filter(({ job, id }) => isOutcome(job) || (id === undefined && !FIRST.has(job.type)));
    this.#held = held.length === 0 ? undefined : { jobs: held, until: messages.at(-1)?.id ?? 0 };
  }
  /** F1: the jobs of a fork's first turn are one message: they stay in one turn. The messages that it was late for come before its outcomes. */
  #takeBackFork(turn: TurnJobs, fork: QueuedMessage): void {
    const first = turn.jobs.filter((job) => !isOutcome(job));
    const jobs = [...first, ...this.#jobs, ...turn.jobs.filter(isOutcome)];
    const others = turn.messages.filter((message) => message !== fork).map((message) => ({ ...message, jobs: first.length }));
    const queued = this.#messages.map((message) => ({ ...message, jobs: message.jobs + first.length }));
    this.#jobs = jobs;
    this.#messages = [...others, ...queued, { ...fork, jobs: jobs.length }];
  }
}

/** Each job with the id of its message, if it has one. */
function heldJobs(jobs: readonly Job[], messages: readonly QueuedMessage[]): HeldJob[] {
  const ids = new Map(messages.map(({ id, job }) => [job, id]));
  return jobs.map((job) => ({ job, id: ids.get(job) }));
}
/** The outcome of an operation, as opposed to a message that was sent. */
function isOutcome({ type }: Job): boolean {
  return type === "fire" || type === "resolve" || type === "childStarted";
}
/** M8: an update that may wait to be accepted. */
export function isWaitingUpdate(message: QueuedMessage): message is QueuedMessage & { readonly job: UpdateJob } {
  return message.job?.type === "update" && message.job.acceptUntil !== undefined;
}
/** Does the turn have both messages and timers or outcomes? */
export function isMixed({ jobs, messages }: TurnJobs): boolean {
  if (messages.some(({ endsTurn }) => endsTurn === true)) return false;
  const isSent = (message: QueuedMessage): boolean => message.job !== undefined && !isOutcome(message.job) && !isWaitingUpdate(message);
  return messages.some(isSent) && jobs.some(isOutcome);
}
