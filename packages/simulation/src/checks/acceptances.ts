// Checks updates that wait to be accepted: the oracle "acceptance".
// Owns: which updates runs have accepted, and which updates their senders have rejected.
// Invariants: M8 (an update is accepted at most once, and never both accepted and rejected).

import type { Store, TurnCommit } from "holdfast/store";
import type { World } from "../world.ts";

type RejectedUpdate = Parameters<Store["rejectUpdates"]>[0][number];
type Rejection = Awaited<ReturnType<Store["rejectUpdates"]>>[number];

export class Acceptances {
  readonly #world: World;
  readonly #accepted = new Set<string>();
  readonly #rejected = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }
  /** A turn was committed: the updates that it accepted are in the store. */
  committed({ runId, turn }: TurnCommit): void {
    for (const command of turn?.commands ?? []) {
      if (command.type !== "acceptUpdate") continue;
      const key = keyOf(runId, command.id);
      if (this.#accepted.has(key)) this.#broken(`update ${command.id} of ${runId} was accepted twice`);
      if (this.#rejected.has(key)) this.#broken(`update ${command.id} of ${runId} was accepted after it had been rejected`);
      this.#accepted.add(key);
    }
  }
  /** Whether the sender has already rejected the update. A turn that rejects it too changes nothing. */
  isRejected(runId: string, id: string): boolean {
    return this.#rejected.has(keyOf(runId, id));
  }
  rejected({ runId, id }: RejectedUpdate, result: Rejection): void {
    if (result === undefined || result === "waiting" || result.status !== "rejected") return;
    const key = keyOf(runId, id);
    if (this.#accepted.has(key)) this.#broken(`update ${id} of ${runId} was rejected after it had been accepted`);
    this.#rejected.add(key);
    this.#world.note("db", `update ${id} of ${runId} is rejected by its sender`);
  }
  #broken(message: string): void {
    this.#world.violate("acceptance", "M8", message);
  }
}

function keyOf(runId: string, id: string): string {
  return JSON.stringify([runId, id]);
}
