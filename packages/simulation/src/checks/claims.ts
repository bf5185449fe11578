// Checks claims: which worker the store gives a run to, for how long, and that stopped workers release their runs.
// Owns: nothing; the holder of a run is recorded in `SeenRun`.
// Invariants: D4 (each claim has a higher epoch), K5 (no closed run is claimed), V2 (workers get only what they serve), W3 (no claim before
// the lease has expired; it begins at the last commit), W4 (a worker that has stopped holds no lease).

import type { ClaimedRun, ClaimRequest, InboxMessage, Store } from "holdfast/store";
import type { SimProcess } from "../process.ts";
import type { World } from "../world.ts";
import type { CommitChecks } from "./commits.ts";
import type { Deadlines } from "./deadlines.ts";
import type { MessageChecks } from "./messages.ts";
import { beginAnew, CLOSED, type SeenRun, type SeenRuns } from "./seenRuns.ts";
import type { TurnChecks } from "./turns.ts";

type Claim = Parameters<Store["renew"]>[2][number];
/** The other checks that a claim is passed on to. */
interface Beside {
  readonly seen: SeenRuns;
  readonly messages: MessageChecks;
  readonly commits: CommitChecks;
  readonly turns: TurnChecks;
  readonly deadlines: Deadlines;
}

export class ClaimChecks {
  readonly #world: World;
  readonly #inner: Store;
  readonly #checks: Beside;

  constructor(world: World, inner: Store, checks: Beside) {
    this.#world = world;
    this.#inner = inner;
    this.#checks = checks;
  }
  #broken(oracle: string, rule: string, message: string): void {
    this.#world.violate(oracle, rule, message);
  }
  claimed(claim: ClaimedRun, request: ClaimRequest): void {
    const { run: row, recovered } = claim;
    const run = this.#checks.seen.get(row.id);
    const how = recovered ? ", its lease had expired" : "";
    this.#world.note(
      "db",
      `claim ${row.id} by ${request.workerId}, epoch ${row.epoch}, turn ${row.turns}, ${claim.inbox.length} messages${how}`,
    );
    if (row.epoch <= run.epoch) this.#broken("epoch", "D4", `${row.id} was claimed at epoch ${row.epoch}, after ${run.epoch}`);
    if (run.isClosed) this.#broken("closed", "K5", `${row.id} was claimed after it had closed`);
    if (run.holder !== undefined && run.leasedUntil > this.#world.now && run.epoch > 0)
      this.#broken(
        "lease",
        "W3",
        `${row.id} was claimed by ${request.workerId} while ${run.holder} still had a lease for ${run.leasedUntil - this.#world.now} ms`,
      );
    const served = request.serves.find(({ workflow }) => workflow === row.workflow);
    if (row.queue !== request.queue || served === undefined || (served.versions !== "*" && !served.versions.includes(row.version)))
      this.#broken("served", "V2", `${request.workerId} was given ${row.workflow}@${row.version}, which it does not serve`);
    if (row.execution !== run.execution) beginAnew(run, row.execution);
    if (row.turns !== run.turns.length)
      this.#broken("last commit", "W3", `${row.id} was claimed at turn ${row.turns}, but ${run.turns.length} turns were committed`);
    this.#checks.commits.claimed(claim, run.isCanceled);
    this.#checks.deadlines.claimed(claim);
    for (const turn of claim.turns ?? []) this.#checks.turns.compare(run, turn);
    for (const message of claim.inbox) this.#checks.messages.saw(run, message);
    if (recovered) run.losses++;
    run.epoch = row.epoch;
    run.holder = request.workerId;
    run.leasedUntil = this.#world.now + request.lease;
  }
  /** The store has renewed a lease. */
  renewed(workerId: string, lease: number, { runId, epoch }: Claim, inbox: readonly InboxMessage[]): void {
    const run = this.#checks.seen.get(runId);
    if (run.epoch !== epoch || run.holder !== workerId || run.isClosed)
      this.#broken(
        "renewal",
        "D4",
        `${workerId} renewed ${runId} at epoch ${epoch}, but ${run.holder ?? "no worker"} holds it at epoch ${run.epoch}`,
      );
    // The store may leave a lease unchanged if nearly all of it is left.
    run.leasedUntil = Math.max(run.leasedUntil, this.#world.now + lease * 0.9);
    for (const message of inbox) this.#checks.messages.saw(run, message);
  }
  /** W4: a worker that has stopped has released every run that it knew it held when it was asked to stop. */
  async checkReleased({ workerId, told }: SimProcess, askedAt: number): Promise<void> {
    const wasIts = ({ id, epoch }: SeenRun): boolean => (told.claimedAt(id, epoch) ?? Number.POSITIVE_INFINITY) < askedAt;
    const held = [...this.#checks.seen.all.values()].filter(
      (run) => run.holder === workerId && run.leasedUntil > this.#world.now && wasIts(run),
    );
    // Some may have been terminated with their parents.
    for (const row of held.length === 0 ? [] : await this.#inner.get(held.map(({ id }) => id))) {
      if (row === undefined || row.workerId !== workerId || CLOSED.has(row.status)) continue;
      this.#broken(
        "lease",
        "W4",
        `${workerId} has stopped and still has a lease on ${row.id} for ${(row.availableAt ?? 0) - this.#world.now} ms`,
      );
    }
  }
}
