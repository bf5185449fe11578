// The workflow definitions that this process has passed to an engine.
// Owns: which definition a start by name and a query without a definition use.
// Invariants: V2 (a run is read with the definition that would drive it), M11 (a process without a worker can evaluate queries).

import type { AnyWorkflow } from "@holdfast/core";
import type { RunSnapshot, ServedWorkflows } from "../backend/port.ts";

export class Definitions {
  /** The definitions of running workers. */
  readonly #tables = new Set<ServedWorkflows>();
  /** By name: the last one in the list of a worker, even after that worker has stopped. */
  readonly #served = new Map<string, AnyWorkflow>();
  /** By name: the last one started here, for processes without a worker. */
  readonly #started = new Map<string, AnyWorkflow>();

  /** Registers the workflows of a worker. Returns a function to call once the worker has stopped. */
  serve(workflows: ServedWorkflows): () => void {
    this.#tables.add(workflows);
    for (const workflow of workflows.all) this.#served.set(workflow.name, workflow);
    return () => void this.#tables.delete(workflows);
  }
  started(workflow: AnyWorkflow): void {
    this.#started.set(workflow.name, workflow);
  }
  /** The definition that a start by name uses. */
  servedAs(name: string): AnyWorkflow | undefined {
    return this.#served.get(name);
  }
  /** The definition that evaluates queries of this run, if the caller passed none. */
  of({ workflow, version }: Pick<RunSnapshot, "workflow" | "version">): AnyWorkflow | undefined {
    for (const table of this.#tables) {
      const found = table.find(workflow, version);
      if (found !== undefined) return found;
    }
    return this.#served.get(workflow) ?? this.#started.get(workflow);
  }
}
