// Checks messages: what arrives in an inbox, what a turn consumes, and what is left when a run ends.
// Owns: nothing; the inboxes are recorded in `SeenRun`.
// Invariants: M7 (a message is consumed once, in the commit of the turn that contains it), D9 K1 (no run ends without an acknowledged
// message that would have changed its end).

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
  /** The store has delivered a message of the inbox to a worker. */
  saw(run: SeenRun, { id, job }: InboxMessage): void {
    const known = run.inbox.get(id);
    if (known === undefined) run.inbox.set(id, { job, isConsumed: false });
    else if (known.isConsumed)
      this.#broken("consumption", "M7", `${run.id} was given message ${id} (${job.type}) again after it had consumed it`);
  }
  /** M7: exactly the messages that a turn contains leave the inbox with its commit. */
  consumed(run: SeenRun, { consumed = [], turn, updates = [] }: TurnCommit): void {
    const taken = new Map<string, number>();
    for (const job of turn?.jobs ?? []) {
      const name = messageName(job);
      if (name !== undefined) taken.set(name, (taken.get(name) ?? 0) + 1);
    }
    for (const { id } of updates) if (!taken.has(`update ${id}`)) taken.set(`update ${id}`, 1); // rejected updates are in no turn
    for (const id of consumed) {
      const message = run.inbox.get(id);
      if (message === undefined) continue; // an answer that the store put there itself
      if (message.isConsumed) this.#broken("consumption", "M7", `${run.id} consumed message ${id} (${message.job.type}) twice`);
      message.isConsumed = true;
      for (const job of message.job.type === "fork" ? message.job.jobs : []) {
        const name = messageName(job);
        if (name !== undefined) taken.set(name, (taken.get(name) ?? 0) - 1);
      }
      const name = messageName(message.job);
      if (name === undefined || message.job.type === "resolve" || message.job.type === "childStarted") continue;
      const count = taken.get(name) ?? 0;
      if (count === 0) this.#broken("consumption", "M7", `message ${id} (${name}) left the inbox of ${run.id}, but no turn contains it`);
      taken.set(name, count - 1);
    }
    for (const [name, count] of taken) {
      if (count > 0 && (name.startsWith("signal ") || name === "cancel") && turn !== undefined)
        this.#broken("consumption", "M7", `a turn of ${run.id} contains ${name}, which is still in the inbox`);
    }
  }
  /** D9, K1: a run consumes every message that was acknowledged before its end and would have changed it. */
  ended(run: SeenRun, { turn, close, lateIf }: TurnCommit): void {
    if (turn === undefined || close === undefined || close.status === "continued" || close.status === "canceled") return;
    const end = turn.commands.at(-1);
    const isPast = end?.type === "fail" && (end.rolledBack === true || end.error.name === "DeadlineExceededError");
    for (const [id, { job, isConsumed }] of run.inbox) {
      if (isConsumed) continue;
      if (job.type === "cancel" && !run.isCanceled && !isPast)
        this.#broken("ends", "K1", `${run.id} ended ${close.status} although a cancellation had arrived before: message ${id}`);
      if (job.type === "signal" && lateIf?.signals.includes(job.name) === true)
        this.#broken(
          "ends",
          "D9",
          `${run.id} ended ${close.status} although the signal ${job.name} that it waited for had arrived before: message ${id}`,
        );
    }
  }
}

/** A name that is the same for a message in the inbox and for its job in a turn. */
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
