// The messages of one execution: what Core brings becomes jobs of the executor, and what the executor says of updates becomes Core's answers.
// Owns: updates that are not answered yet, and the keys of messages that were handled.
// Invariants: M3 (a repeated message is handled once, also across executions), M10 (an update that an earlier execution has handled gets the
// same answer), M13 (payloads are transformed by the schema of this worker's code).

import { type AnyWorkflow, type Job, opened, type Payload, type SerializedError, sealed, type UpdateJob } from "@holdfast/core";
import { checkedMessage } from "@holdfast/host";
import type { ActivationJob, CoreCommand } from "../bridge.ts";
import { toFailure } from "../failures.ts";
import { messageHeader, type StartHeader } from "../headers.ts";
import { HandledKeys } from "./carryOver.ts";
import { patchOf } from "./patches.ts";
import type { RunWorker } from "./runWorker.ts";

interface Answer {
  readonly value?: Payload | undefined;
  readonly error?: SerializedError | undefined;
}

export interface MessagesOptions {
  readonly worker: RunWorker;
  readonly workflow: AnyWorkflow;
  /** Temporal's. */
  readonly runId: string;
  readonly header: StartHeader;
  readonly push: (command: CoreCommand) => void;
}

export class Messages {
  readonly #options: MessagesOptions;
  readonly #keys: HandledKeys;
  /** Core's name of each update that is not answered yet, by our id. */
  readonly #updates = new Map<string, string>();
  /** Updates that the execution before has accepted, and whose callers have not come back yet. */
  readonly #unclaimed: Set<string>;
  /** Those of the open updates whose id their senders gave as a key. */
  readonly #keyed = new Set<string>();
  #updateCount = 0;

  constructor(options: MessagesOptions) {
    this.#options = options;
    this.#keys = new HandledKeys(opened(options.header.keys, options.worker.codec));
    this.#unclaimed = new Set(options.header.openUpdates);
  }
  /** How many updates this execution has got. */
  get updateCount(): number {
    return this.#updateCount;
  }
  /** Updates that are not answered. */
  get openUpdates(): string[] {
    return [...this.#updates.keys(), ...this.#unclaimed];
  }
  /** For the header of the next execution. */
  carriedKeys(time: number): NonNullable<StartHeader["keys"]> {
    return sealed(this.#keys.carried(time), this.#options.worker.codec);
  }

  /** Patches, seeds and messages, in the order in which Core gives them. */
  async jobsOf(jobs: readonly ActivationJob[], time: number): Promise<Job[]> {
    const { payloads, codec } = this.#options.worker;
    const found: Job[] = [];
    for (const job of jobs) {
      if (job.notifyHasPatch) found.push({ type: "patch", ...patchOf(job.notifyHasPatch.patchId ?? "") });
      else if (job.updateRandomSeed) found.push({ type: "seed", seed: String(job.updateRandomSeed.randomnessSeed ?? 0) });
      else if (job.cancelWorkflow) {
        const reason = job.cancelWorkflow.reason || undefined;
        found.push(opened({ type: "cancel", ...(reason !== undefined && { reason }) }, codec));
      } else if (job.signalWorkflow) {
        const { signalName, input, headers, originatingEventId } = job.signalWorkflow;
        const { key } = messageHeader(headers);
        if (key !== undefined && this.#isRepeated(key, time)) continue;
        const id = `${this.#options.runId}/${originatingEventId}`;
        found.push({ type: "signal", id, name: signalName ?? "", payload: payloads.first(input) });
      } else if (job.doUpdate) {
        const update = this.#updateOf(job.doUpdate);
        if (update !== undefined) found.push(update);
      }
    }
    return this.checked(found);
  }
  #isRepeated(sent: string, at: number): boolean {
    const key = `signal:${sent}`; // updates have keys of their own
    const isKnown = this.#keys.get(key) !== undefined;
    if (!isKnown) this.#keys.add({ key, at });
    return isKnown;
  }
  /** Undefined if an earlier execution has handled it: then it is answered at once (M3). */
  #updateOf({ id, protocolInstanceId, name, input, headers, runValidator }: NonNullable<ActivationJob["doUpdate"]>): UpdateJob | undefined {
    const own = id ?? "";
    const instance = protocolInstanceId ?? "";
    const handled = this.#keys.get(`update:${own}`);
    if (handled?.outcome !== undefined) {
      this.#options.push({ updateResponse: { protocolInstanceId: instance, accepted: {} } });
      this.#answer(instance, handled.outcome);
      return undefined;
    }
    this.#updates.set(own, instance);
    this.#updateCount++;
    if (messageHeader(headers).key !== undefined) this.#keyed.add(own);
    if (this.#unclaimed.delete(own)) {
      this.accept(own);
      return undefined;
    }
    const { payloads } = this.#options.worker;
    return { type: "update", id: own, name: name ?? "", input: payloads.first(input), validate: runValidator === true };
  }
  /** M13. An update that was accepted before is never refused. */
  async checked<J extends Job>(jobs: readonly J[]): Promise<Job[]> {
    const { worker, workflow } = this.#options;
    const checked: Job[] = [];
    for (const job of jobs) {
      const done = await checkedMessage(workflow, job, worker.codec, worker.environment);
      checked.push(done.type === "update" && done.refused !== undefined && done.validate === false ? job : done);
    }
    return checked;
  }

  // ── answers ──

  accept(id: string): void {
    this.#options.push({ updateResponse: { protocolInstanceId: this.#updates.get(id) ?? id, accepted: {} } });
  }
  reject(id: string, error: SerializedError): void {
    this.#close(id, { error });
  }
  complete({ id, value, error }: Answer & { readonly id: string }, at: number): void {
    const outcome = error === undefined ? { ...(value !== undefined && { value }) } : { error };
    this.#keys.add({ key: `update:${id}`, at, outcome, ...(this.#keyed.delete(id) && { isGiven: true }) });
    this.#close(id, outcome);
  }
  #close(id: string, outcome: Answer): void {
    const instance = this.#updates.get(id);
    this.#updates.delete(id);
    this.#keyed.delete(id);
    this.#unclaimed.delete(id);
    if (instance !== undefined) this.#answer(instance, outcome);
  }
  #answer(protocolInstanceId: string, { value, error }: Answer): void {
    const { payloads, codec } = this.#options.worker;
    if (error !== undefined) this.#options.push({ updateResponse: { protocolInstanceId, rejected: toFailure(error, codec) } });
    else this.#options.push({ updateResponse: { protocolInstanceId, completed: payloads.toTemporal(value as string) } });
  }
}
