// `replay(workflow, history)`, for histories of Holdfast and of Temporal.
// Owns: which of the two a value is.
// Invariants: Y5 (needs only the code and the history); the package for Temporal is loaded only for a history of Temporal.

import { type AnyWorkflow, type History, type ReplayOptions, replay as replayTurns } from "@holdfast/core";
import { optionalPackage } from "../store/optionalPackage.ts";

/** A history as Temporal's own tools download it. */
export interface TemporalEvents {
  /** The events, as in the JSON of `temporal workflow show --output json`. */
  readonly events: readonly unknown[];
}
interface ReplayPackage {
  replayHistory(workflow: AnyWorkflow, history: TemporalEvents, options?: ReplayOptions): Promise<void>;
}

/**
 * Runs the code against a history, without effects and without a store: one of `run.history()`, or one that Temporal's tools downloaded.
 * For tests and CI: it finds changes of the code that open runs can't follow.
 * @throws `NondeterminismError` where code and history diverge.
 * @throws `InvalidInputError` if the history is malformed or of another workflow.
 * @example
 * ```ts
 * const order = workflow("order", (ctx) => ctx.step("charge", () => "charged"));
 * const engine = await testEngine({ workflows: [order] });
 * const run = await engine.start(order);
 * await run.result();
 * const history = await run.history(); // in CI: read from a file
 * await replay(order, history);
 * console.log(history.run.workflow); // "order"
 * await engine.close();
 * ```
 */
export async function replay(workflow: AnyWorkflow, history: History | TemporalEvents, options?: ReplayOptions): Promise<void> {
  const events = temporalEvents(history);
  if (events === undefined) return replayTurns(workflow, history as History, options);
  const temporal = await optionalPackage<ReplayPackage>("@holdfast/temporal", "Histories of Temporal", "replay");
  return temporal.replayHistory(workflow, { events }, options);
}
function temporalEvents(history: unknown): readonly unknown[] | undefined {
  if (typeof history !== "object" || history === null) return undefined;
  if ("events" in history && !("format" in history)) return (history as TemporalEvents).events;
  return "format" in history && history.format === "temporal-history/1" ? (history as History).turns : undefined;
}
