// Workers that are alive (B6).
// Owns: nothing; the server keeps the rows.
// Invariants: a beat is one small write that does not wait for the disk.

import { type WorkerBeat, type WorkerRow, type WorkflowRow, workerInfoOf } from "holdfast/store";
import { optionalText, readText, text } from "./columns.ts";
import type { Context } from "./context.ts";

type Columns = readonly [id: string, info: string, startedAt: number, seenAt: number];

export class LiveWorkers {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }
  async beat({ id, aliveFor, ...info }: WorkerBeat): Promise<void> {
    const { functions, now } = this.#context;
    await functions.ask("beat_1", [now(), text(id), JSON.stringify(info), Math.ceil(aliveFor)]);
  }
  async leave(id: string): Promise<void> {
    await this.#context.functions.ask("leave_worker_1", [text(id)]);
  }
  async register(workflows: readonly WorkflowRow[]): Promise<void> {
    const rows = workflows.map(({ workflow, version, info }) => {
      return { key: text(JSON.stringify([workflow, version])), workflow: text(workflow), version: optionalText(version), info: text(info) };
    });
    await this.#context.functions.ask("register_workflows_1", [JSON.stringify(rows)]);
  }
  async list(): Promise<WorkerRow[]> {
    const { functions, now } = this.#context;
    const rows = JSON.parse(await functions.ask("live_workers_1", [now()])) as readonly Columns[];
    return rows.map(([id, info, startedAt, seenAt]) => ({ ...workerInfoOf(info), id: readText(id), startedAt, seenAt }));
  }
}
