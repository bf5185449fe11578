// Messages: what arrives in an inbox, what a turn takes out of it, and what an end leaves in it.
// Owns: nothing; the inboxes are part of what was seen of a run.
// Invariants: M7 (a message is consumed once, with the turn that has it), D9 K1 (no end passes over a message that was acknowledged).

import type { Job } from "@holdfast/core";
import type { InboxMessage, NewMessage, TurnCommit } from "holdfast/store";
import type { World } from "../world.ts";
import type { SeenRun } from "./seenRuns.ts";

export class MessageChecks {
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }
  #broken(oracle: string, rule: string, message: string): void {
    this.#world.violate(oracle, rule, message);
  }
  arrived(run: SeenRun, id: number, message: NewMessage): void {
    const key = message.job.type === "update" ? message.job.id : message.idempotencyKey;
    if (key !== undefined) run.keys.set(key, id);
    if (message.job.type === "cancel") run.isAskedToCancel = true;
    this.saw(run, { id, job: message.job });
  }
  /** A message that is in the inbox, as somebody was given it. */
  saw(run: SeenRun, { id, job }: InboxMessage): void {
    const known = run.inbox.get(id);
    if (known === undefined) run.inbox.set(id, { job, isConsumed: false });
    else if (known.isConsumed)
      this.#broken("consumption", "M7", `${run.id} was given message ${id} (${job.type}) again, after it had taken it`);
  }
  /** M7: what a turn takes leaves the inbox with its commit, and nothing else does. */
  consumed(run: SeenRun, { consumed = [], turn, updates = [] }: TurnCommit): void {
    const taken = new Map<string, number>();
    for (const job of turn?.jobs ?? []) {
      const name = messageName(job);
      if (name !== undefined) taken.set(name, (taken.get(name) ?? 0) + 1);
    }
    for (const { id } of updates) if (!taken.has(`update ${id}`)) taken.set(`update ${id}`, 1); // rejected ones leave no job
    for (const id of consumed) {
      const message = run.inbox.get(id);
      if (message === undefined) continue; // an answer that came from elsewhere in the store
      if (message.isConsumed) this.#broken("consumption", "M7", `${run.id} took message ${id} (${message.job.type}) twice`);
      message.isConsumed = true;
      const name = messageName(message.job);
      if (name === undefined || message.job.type === "resolve" || message.job.type === "childStarted") continue;
      const count = taken.get(name) ?? 0;
      if (count === 0) this.#broken("consumption", "M7", `message ${id} (${name}) left the inbox of ${run.id}, and no turn has it`);
      taken.set(name, count - 1);
    }
    for (const [name, count] of taken) {
      if (count > 0 && (name.startsWith("signal ") || name === "cancel") && turn !== undefined)
        this.#broken("consumption", "M7", `a turn of ${run.id} has ${name}, which is still in its inbox`);
    }
  }
  /** D9, K1: an end comes after every message that was acknowledged before it and would have changed it. */
  ended(run: SeenRun, { turn, close, lateIf }: TurnCommit): void {
    if (turn === undefined || close === undefined || close.status === "continued" || close.status === "canceled") return;
    const end = turn.commands.at(-1);
    const isPast = end?.type === "fail" && (end.rolledBack === true || end.error.name === "DeadlineExceededError");
    for (const [id, { job, isConsumed }] of run.inbox) {
      if (isConsumed) continue;
      if (job.type === "cancel" && !run.isCanceled && !isPast)
        this.#broken("ends", "K1", `${run.id} ended ${close.status}, and was asked to cancel before: message ${id}`);
      if (job.type === "signal" && lateIf?.signals.includes(job.name) === true)
        this.#broken("ends", "D9", `${run.id} ended ${close.status}, and had asked for ${job.name}: message ${id} came before`);
    }
  }
}

/** What tells a message that was taken from others. */
function messageName(job: Job): string | undefined {
  switch (job.type) {
    case "signal":
    case "update":
      return `${job.type} ${job.id}`;
    case "cancel":
      return "cancel";
    case "resolve":
    case "childStarted":
      return `${job.type} ${job.seq}`;
    default:
      return undefined;
  }
}
