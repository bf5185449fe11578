// Job: judge a transcript without knowing the program: what opens, settles and ends, and in which order.
// Owns: nothing between calls.
// Invariants: P3 (no unit lives after its scope), X2 Y3 (numbers given out once, operations settled once), C4 K3 (one end, nothing after
// it), M8 M10 (an update is rejected, or accepted and answered once).

import { type Command, formatLocation, type Job, type OpeningCommand } from "@holdfast/core";
import type { Harness } from "@holdfast/core/testing";

const SCOPES: ReadonlySet<string> = new Set(["parallel", "join", "race", "try", "shield", "loop", "receive"]);
const NEVER_OPEN: ReadonlySet<string> = new Set(["sideEffect", "patch", "attributes", "rollbackCheckpoint", "refuse"]);
const TERMINAL: ReadonlySet<string> = new Set(["complete", "fail", "canceled", "continueAsNew"]);

/** Throws at the first thing that is out of order. */
export function checkLifecycle(harness: Harness): void {
  const lifecycle = new Lifecycle();
  for (const { activation, completion } of harness.transcript) {
    if (completion.status === "failed") throw completion.error;
    const rejected = completion.replies.flatMap((reply) => (reply.type === "rejectUpdate" ? [reply.id] : []));
    for (const job of activation.jobs) lifecycle.job(job);
    for (const command of completion.commands) lifecycle.command(command);
    lifecycle.endTurn(rejected);
  }
  lifecycle.end(harness.executor.openOperations);
}

class Lifecycle {
  readonly #open = new Map<number, OpeningCommand>();
  /** By a job of this turn. An earlier job may have caused it to be abandoned: then its result was late (C7). */
  readonly #answered = new Set<number>();
  /** Scopes that have returned. */
  readonly #left = new Set<string>();
  readonly #updates = new Map<string, "sent" | "accepted" | "answered" | "rejected">();
  #lastSeq = 0;
  #terminal: string | undefined;
  #expired = false;

  job(job: Job): void {
    if (job.type === "resolve" || job.type === "childStarted" || (job.type === "fire" && this.#open.get(job.seq)?.type === "sleep")) {
      this.#open.delete(job.seq);
      this.#answered.add(job.seq);
    } else if (job.type === "update") this.#updates.set(job.id, "sent");
    else if (job.type === "expire") this.#expired = true;
  }

  command(command: Command): void {
    if (this.#terminal !== undefined) fail(`a ${command.type} after the ${this.#terminal}`);
    if ("unit" in command && this.#isLeft(command.unit)) fail(`a ${command.type} of unit ${command.unit}, whose scope has returned (P3)`);
    if ("n" in command) this.#opened(command);
    else if (command.type === "settle" || (command.type === "cancel" && command.join !== true)) this.#settled(command.seq);
    else if (command.type === "acceptUpdate") this.#update(command.id, "sent", "accepted");
    else if (command.type === "completeUpdate") this.#update(command.id, "accepted", "answered");
    else if (TERMINAL.has(command.type)) this.#ended(command);
  }
  #opened(command: OpeningCommand): void {
    if (command.seq <= this.#lastSeq) fail(`number ${command.seq} after ${this.#lastSeq} (X2)`);
    this.#lastSeq = command.seq;
    if (!NEVER_OPEN.has(command.type)) this.#open.set(command.seq, command);
  }
  #settled(seq: number): void {
    const operation = this.#open.get(seq);
    if (this.#answered.delete(seq)) return;
    if (operation === undefined) return fail(`the end of ${seq}, which is not open (Y3)`);
    this.#open.delete(seq);
    if (!SCOPES.has(operation.type) || this.#expired) return;
    const location = formatLocation(operation.unit, operation.name, operation.n);
    for (const { unit, name } of this.#open.values()) {
      if (unit === location || unit.startsWith(`${location}/`)) fail(`the end of ${location} while ${name} in ${unit} is open (P3)`);
    }
    this.#left.add(location);
  }
  #isLeft(unit: string): boolean {
    for (let path = unit; path !== ""; path = path.slice(0, Math.max(0, path.lastIndexOf("/")))) if (this.#left.has(path)) return true;
    return false;
  }
  #update(id: string, from: "sent" | "accepted", to: "accepted" | "answered"): void {
    if (this.#updates.get(id) !== from) fail(`update ${id} is ${to} though it was ${this.#updates.get(id)} (M10)`);
    this.#updates.set(id, to);
  }
  #ended(command: Command): void {
    this.#terminal = command.type;
    const left = [...this.#open.values()].map(({ unit, name }) => formatLocation(unit, name, 0));
    if (left.length > 0) fail(`the ${command.type} while ${left.join(", ")} is open (P3)`);
    for (const [id, state] of this.#updates)
      if (state === "accepted" && !this.#expired) fail(`the ${command.type} though update ${id} was not answered (R6)`);
  }

  /** M8: no update is left undecided. */
  endTurn(rejected: readonly string[]): void {
    this.#answered.clear();
    for (const id of rejected) {
      if (this.#updates.get(id) !== "sent") fail(`update ${id} is rejected though it was ${this.#updates.get(id)} (M8)`);
      this.#updates.set(id, "rejected");
    }
    for (const [id, state] of this.#updates) if (state === "sent") fail(`update ${id} was neither accepted nor rejected (M8)`);
  }
  end(open: readonly number[]): void {
    const expected = [...this.#open.keys()].sort((a, b) => a - b).join();
    const actual = [...open].sort((a, b) => a - b).join();
    if (expected !== actual) fail(`the executor holds ${actual || "nothing"} open, its commands say ${expected || "nothing"}`);
  }
}

function fail(what: string): never {
  throw new Error(`The transcript has ${what}.`);
}
