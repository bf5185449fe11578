// Creates runs.
// Owns: the data of a start, and the first batch of a run that is created without being run.
// Invariants: M8 (signals of a start are available in the first turn), K7 (a deadline counts from the creation), P7 (the seed).

import { type AnyWorkflow, type Payload, RunAlreadyExistsError } from "@holdfast/core";
import type { Environment } from "../environment.ts";
import type { Namespace, Sender } from "../messages/namespace.ts";
import type { Head } from "../storage/contents.ts";
import { Storage } from "../storage/storage.ts";

/** The data that a run is created with. */
export interface NewRun {
  readonly head: Pick<Head, "input" | "version" | "retry" | "parent">;
  readonly deadline: number | undefined;
  readonly deadlineAt: number | undefined;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** Delivered with the start. */
  readonly signals: readonly { readonly name: string; readonly payload: Payload }[];
}

/** The head of the new run. */
export function headOf(id: string, workflow: AnyWorkflow, newRun: NewRun, environment: Environment): Head {
  const createdAt = environment.now();
  const deadlineAt = newRun.deadlineAt ?? (newRun.deadline === undefined ? undefined : createdAt + newRun.deadline);
  const facts = { id, workflow: workflow.name, execution: 1, attempt: 1, seed: environment.uuid(), createdAt, deadlineAt };
  return { ...facts, ...newRun.head };
}
/**
 * Adds a new run to its storage; the caller writes it. The caller also handles its signals: the first turn consumes them, or `putSignals`
 * stores them.
 */
export function storeNewRun(storage: Storage, head: Head, newRun: NewRun): void {
  storage.setHead(head);
  if (Object.keys(newRun.attributes).length > 0) storage.mergeAttributes(newRun.attributes);
}
/** M8: stores the signals of a run whose first turn comes later. */
export function putSignals(storage: Storage, namespace: Namespace, newRun: NewRun, environment: Environment): void {
  for (const { name, payload } of newRun.signals) {
    const job = { type: "signal", id: environment.uuid(), name, payload } as const;
    storage.putMessage(namespace.newKey(storage.inbox.at(-1)?.at, environment), { job });
  }
}

/** Creates a run that its alarm will wake. The run and the alarm are durable when this resolves. */
export function create(namespace: Namespace, id: string, workflow: AnyWorkflow, newRun: NewRun, creator: Sender): Promise<void> {
  return namespace.open(async () => {
    await namespace.live?.begun;
    await write(namespace, id, workflow, newRun, creator);
  });
}
async function write(
  namespace: Namespace,
  id: string,
  workflow: AnyWorkflow,
  newRun: NewRun,
  { environment, codec }: Sender,
): Promise<void> {
  const { driver } = namespace;
  const storage = await Storage.load(driver, codec);
  if (storage.head !== undefined) throw new RunAlreadyExistsError({ runId: storage.head.id });
  const head = headOf(id, workflow, newRun, environment);
  storeNewRun(storage, head, newRun);
  storage.setStatus({ status: "pending", wakeAt: head.createdAt });
  putSignals(storage, namespace, newRun, environment);
  storage.assertFits();
  // The alarm comes before the run, because a run without an alarm would never be woken. An alarm without a run is cleared at the next
  // wake-up.
  await driver.setAlarm(id, head.createdAt);
  await storage.flush();
}
