// Checks which run a start under an idempotency key returns: the oracle "keys".
// Owns: the workflow of each run, and the run of each key, as the store has acknowledged them.
// Invariants: M3 (keys belong to a workflow, and a run may have several; a start or send never reaches a run of another workflow).

import type { AddressedMessage, CreateResult, NewRun, SendResult } from "holdfast/store";
import type { World } from "../world.ts";

export class StartKeys {
  readonly #world: World;
  /** By run id. */
  readonly #workflows = new Map<string, string>();
  /** Run ids by workflow and key. */
  readonly #runs = new Map<string, string>();

  constructor(world: World) {
    this.#world = world;
  }
  /** Whether a start under the key of this one was acknowledged before. */
  isRepeated({ workflow, idempotencyKey }: NewRun): boolean {
    return idempotencyKey !== undefined && this.#runs.has(JSON.stringify([workflow, idempotencyKey]));
  }
  /** B4: the run is gone, and its keys are free. */
  forget(runId: string): void {
    this.#workflows.delete(runId);
    for (const [key, id] of this.#runs) if (id === runId) this.#runs.delete(key);
  }
  started({ workflow, idempotencyKey }: NewRun, result: CreateResult): void {
    const { id, status } = result;
    const known = this.#workflows.get(id);
    if (status === "conflict") {
      if (known !== undefined && known !== result.workflow)
        this.#broken(`${id} is a run of ${known}, but the store answered that it is one of ${result.workflow}`);
      return;
    }
    if (known !== undefined && known !== workflow) this.#broken(`a start of ${workflow} returned ${id}, a run of ${known}`);
    this.#workflows.set(id, workflow);
    if (idempotencyKey === undefined) return;
    const key = JSON.stringify([workflow, idempotencyKey]);
    const before = this.#runs.get(key);
    if (before !== undefined && before !== id) this.#broken(`key ${key} started ${before}, and then ${id}`);
    if (before !== undefined && status === "created") this.#broken(`key ${key} started ${id} a second time`);
    this.#runs.set(key, id);
  }
  sent({ runId, workflow }: AddressedMessage, { status }: SendResult): void {
    const known = this.#workflows.get(runId);
    if (workflow === undefined || known === undefined) return;
    if ((known === workflow) === (status === "other-workflow"))
      this.#broken(`${runId} is a run of ${known}, but a message for a run of ${workflow} was answered ${status}`);
  }
  #broken(message: string): void {
    this.#world.violate("keys", "M3", message);
  }
}
