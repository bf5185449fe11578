// The workflow definitions that this process has shown to an engine.
// Owns: which definition a start by name and a query without a definition use.
// Invariants: V2 (a run is read with the definition that would drive it), M11 (a process without a worker can answer queries).

import type { AnyWorkflow } from "@holdfast/core";
import type { RunSnapshot, ServedWorkflows } from "../backend/port.ts";

export class Definitions {
  /** Of the workers that run. */
  readonly #tables = new Set<ServedWorkflows>();
  /** By name the last in the list of a worker, also after that worker has stopped. */
  readonly #served = new Map<string, AnyWorkflow>();
  /** By name the last that was started here, for processes that have no worker. */
  readonly #started = new Map<string, AnyWorkflow>();

  /** A worker serves these. Returns what to call once it has stopped. */
  serve(workflows: ServedWorkflows): () => void {
    this.#tables.add(workflows);
    for (const workflow of workflows.all) this.#served.set(workflow.name, workflow);
    return () => void this.#tables.delete(workflows);
  }
  started(workflow: AnyWorkflow): void {
    this.#started.set(workflow.name, workflow);
  }
  /** What a start by name uses. */
  servedAs(name: string): AnyWorkflow | undefined {
    return this.#served.get(name);
  }
  /** What a query of this run is evaluated with, where the caller has given no definition. */
  of({ workflow, version }: Pick<RunSnapshot, "workflow" | "version">): AnyWorkflow | undefined {
    for (const table of this.#tables) {
      const found = table.find(workflow, version);
      if (found !== undefined) return found;
    }
    return this.#served.get(workflow) ?? this.#started.get(workflow);
  }
}
