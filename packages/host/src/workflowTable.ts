// The workflows of a worker, possibly in several versions: which definition drives which run.
// Owns: the precedence of definitions: the exact version, then `serves`, then "*".
// Invariants: V2 (a run is driven by exactly one definition, which serves its version; ambiguous definitions are rejected).

import { type AnyWorkflow, InvalidInputError } from "@holdfast/core";

/** The versions of a workflow that a worker serves (undefined for runs without a version), or all of them. */
export interface Served {
  /** The name of the workflow. */
  readonly workflow: string;
  /** The versions; "*" means all, and undefined among them stands for runs without a version. */
  readonly versions: "*" | readonly (string | undefined)[];
  /** Where its runs are claimed from, if not from the worker's queue. */
  readonly queue?: string | undefined;
}

/** The definitions of one name. */
interface Versions {
  readonly exact: Map<string | undefined, AnyWorkflow>;
  readonly served: Map<string, AnyWorkflow>;
  others: AnyWorkflow | undefined;
  last: AnyWorkflow;
}

/** The workflows of a worker, by name and version. */
export class WorkflowTable {
  /** In the order given, without duplicates. */
  readonly all: readonly AnyWorkflow[];
  /** What the worker asks for when it claims runs. */
  readonly serves: readonly Served[];
  readonly #byName = new Map<string, Versions>();

  /**
   * `what`: the option that contains them.
   * @throws `InvalidInputError` if two of them would drive runs of the same name and version.
   */
  constructor(what: string, workflows: readonly AnyWorkflow[]) {
    this.all = [...new Set(workflows)];
    for (const workflow of this.all) this.#add(what, workflow);
    for (const workflow of this.all) this.#addServed(what, workflow);
    this.serves = [...this.#byName].map(([workflow, { exact, served, others }]) => ({
      workflow,
      versions: others === undefined ? [...new Set([...exact.keys(), ...served.keys()])] : "*",
    }));
  }
  /** The definition that drives runs of this version; undefined if this worker has none. */
  find(name: string, version: string | undefined): AnyWorkflow | undefined {
    const versions = this.#byName.get(name);
    if (versions === undefined) return undefined;
    return versions.exact.get(version) ?? (version === undefined ? undefined : versions.served.get(version)) ?? versions.others;
  }
  /** The last definition of that name in the list, which a start by name uses. */
  lastOf(name: string): AnyWorkflow | undefined {
    return this.#byName.get(name)?.last;
  }

  #add(what: string, workflow: AnyWorkflow): void {
    const { name, version } = workflow;
    const versions = this.#byName.get(name);
    if (versions === undefined) {
      this.#byName.set(name, { exact: new Map([[version, workflow]]), served: new Map(), others: undefined, last: workflow });
      return;
    }
    if (versions.exact.has(version))
      throw refused(what, `There are two workflows "${name}" ${versionText(version)}. Give each its own version, or remove one.`);
    versions.exact.set(version, workflow);
    versions.last = workflow;
  }
  /** Called once all exact versions are known: they take precedence. */
  #addServed(what: string, workflow: AnyWorkflow): void {
    const { name, options } = workflow;
    const versions = this.#byName.get(name);
    if (versions === undefined || options.serves === undefined) return;
    if (options.serves === "*") {
      if (versions.others !== undefined)
        throw refused(
          what,
          `Two workflows "${name}" serve all other versions: the one ${versionText(versions.others.version)} and the one ${versionText(workflow.version)}. Keep serves: "*" in only one of them.`,
        );
      versions.others = workflow;
      return;
    }
    for (const version of options.serves) {
      if (versions.exact.has(version)) continue;
      const other = versions.served.get(version);
      if (other !== undefined && other !== workflow)
        throw refused(
          what,
          `Two workflows "${name}" serve version "${version}": the one ${versionText(other.version)} and the one ${versionText(workflow.version)}. Keep it in the serves of only one of them.`,
        );
      versions.served.set(version, workflow);
    }
  }
}

function versionText(version: string | undefined): string {
  return version === undefined ? "without a version" : `of version "${version}"`;
}
function refused(what: string, message: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [{ message }] });
}
