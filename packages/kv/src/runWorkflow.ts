// `runWorkflow`, `createWorkflow`, `createChild` and `openWorkflow`: what users of the key-value host call.
// Owns: their signatures.
// Invariants: H1 (a second start is rejected), K6 (a child that is requested again is found).

import { type Queries, RunAlreadyExistsError, type Signals, type Updates } from "@holdfast/core";
import { invalid } from "./checkedOptions.ts";
import { Handle } from "./handle.ts";
import type { WorkflowHandle } from "./handleTypes.ts";
import type { AnyOpenOptions, AnyRunOptions, OpenOptions, RunOptions, StartOptions } from "./options.ts";
import type { RunResult } from "./results.ts";
import type { ChildStart } from "./router.ts";

/**
 * Starts the run if the namespace is empty, otherwise continues it, and keeps it in this process until it ends or is evicted.
 * @throws `InvalidInputError` for invalid options.
 * @throws `RunLiveError` from the handle's calls if the run is already live on this driver.
 */
export function runWorkflow<In, O, S extends Signals, U extends Updates, Q extends Queries>(
  options: RunOptions<In, O, S, U, Q> & { readonly mode: "live" },
): WorkflowHandle<O, S, U, Q>;
/**
 * Runs a workflow on the namespace of a driver: starts it if the namespace is empty, otherwise continues it, until nothing can advance, and
 * resolves with the result.
 * @throws `InvalidInputError` for invalid options.
 * @throws `RunLiveError` if the run is already live on this driver.
 * @example
 * ```ts
 * import { MemoryDriver, runWorkflow } from "@holdfast/kv";
 *
 * const order = workflow("order", (ctx, item: string) => ctx.step("reserve", () => `reserved ${item}`));
 * console.log(await runWorkflow({ driver: new MemoryDriver(), workflow: order, id: "order-7", input: "lamp" })); // { status: "completed", output: "reserved lamp" }
 * ```
 */
export function runWorkflow<In, O, S extends Signals, U extends Updates, Q extends Queries>(
  options: RunOptions<In, O, S, U, Q> & { readonly mode?: "yield" },
): Promise<RunResult<O>>;
export function runWorkflow(options: AnyRunOptions & { readonly mode?: "yield" | "live" }): unknown {
  const mode = options?.mode ?? "yield";
  if (mode !== "yield" && mode !== "live") throw invalid("runWorkflow", `mode must be "yield" or "live", not ${String(mode)}.`, "mode");
  const handle = new Handle(options, mode);
  if (mode === "yield") return handle.start(options);
  handle.startLive(options);
  return handle;
}

/**
 * Creates a run without running it: when this resolves, the run is durable and has an alarm that is due. For hosts that run what their
 * alarms demand.
 * @throws `RunAlreadyExistsError` if the namespace has a run.
 * @throws `InvalidInputError` if an option or the input is invalid.
 */
export async function createWorkflow<In, O, S extends Signals, U extends Updates, Q extends Queries>(
  options: RunOptions<In, O, S, U, Q>,
): Promise<WorkflowHandle<O, S, U, Q>> {
  const handle = new Handle(options as AnyOpenOptions, "yield");
  await handle.create(options as AnyRunOptions);
  return handle as never;
}

/** For routers: creates the requested child on the driver of its own namespace. If it is requested again, the existing child is found. */
export async function createChild(child: ChildStart, options: Omit<AnyOpenOptions, "id">): Promise<"started" | "conflict"> {
  const { id, input, parent, version, deadline, deadlineAt, retry } = child;
  const handle = new Handle({ ...options, id }, "yield");
  const limit = deadlineAt === undefined ? deadline : new Date(deadlineAt);
  const start: StartOptions = {
    parent,
    ...(version !== undefined && { version }),
    ...(limit !== undefined && { deadline: limit }),
    ...(retry !== undefined && { retry }),
  };
  try {
    await handle.create({ ...options, id, ...start }, input);
    return "started";
  } catch (error) {
    if (!(error instanceof RunAlreadyExistsError)) throw error;
  }
  const { parent: found } = await handle.describe();
  const isSame = found?.runId === parent.runId && found.execution === parent.execution && found.seq === parent.seq;
  return isSame ? "started" : "conflict";
}

/**
 * A handle on a run that need not be live: to send to it, to read it, to wake it. Starts nothing.
 * @throws `InvalidInputError` for invalid options.
 * @example
 * ```ts
 * import { MemoryDriver, openWorkflow, runWorkflow } from "@holdfast/kv";
 *
 * const order = workflow({ name: "order", signals: { paid: signal<number>() } }, (ctx) => ctx.waitForSignal("paid"));
 * const options = { driver: new MemoryDriver(), workflow: order, id: "order-7" };
 * await runWorkflow(options); // until it waits
 * await openWorkflow(options).signal("paid", 20);
 * console.log(await openWorkflow(options).wake()); // { status: "completed", output: 20 }
 * ```
 */
export function openWorkflow<In, O, S extends Signals, U extends Updates, Q extends Queries>(
  options: OpenOptions<In, O, S, U, Q>,
): WorkflowHandle<O, S, U, Q> {
  return new Handle(options as AnyOpenOptions, "yield") as never;
}
