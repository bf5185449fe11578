// Which run a start under an idempotency key belongs to: the oracle of starts.
// Owns: the workflow of each run, and the run of each key, as the store has acknowledged them.
// Invariants: M3 (keys are kept by workflow, several a run; a run of another workflow is never started, found or written to).

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
  started({ workflow, idempotencyKey }: NewRun, result: CreateResult): void {
    const { id, status } = result;
    const known = this.#workflows.get(id);
    if (status === "conflict") {
      if (known !== undefined && known !== result.workflow) this.#broken(`${id} is of ${known}, and was said to be of ${result.workflow}`);
      return;
    }
    if (known !== undefined && known !== workflow) this.#broken(`a start of ${workflow} was given ${id}, a run of ${known}`);
    this.#workflows.set(id, workflow);
    if (idempotencyKey === undefined) return;
    const key = JSON.stringify([workflow, idempotencyKey]);
    const before = this.#runs.get(key);
    if (before !== undefined && before !== id) this.#broken(`key ${key} started ${before}, and now ${id}`);
    if (before !== undefined && status === "created") this.#broken(`key ${key} started ${id} a second time`);
    this.#runs.set(key, id);
  }
  sent({ runId, workflow }: AddressedMessage, { status }: SendResult): void {
    const known = this.#workflows.get(runId);
    if (workflow === undefined || known === undefined) return;
    if ((known === workflow) === (status === "other-workflow"))
      this.#broken(`${runId} is of ${known}, and a message for one of ${workflow} was answered ${status}`);
  }
  #broken(message: string): void {
    this.#world.violate("keys", "M3", message);
  }
}
