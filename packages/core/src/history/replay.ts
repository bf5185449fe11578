// `replay(workflow, history)`: checks that the code still does what the history recorded.
// Owns: nothing between calls.
// Invariants: Y1 (no effects), Y5 (needs only the code and the history, no store).

import { type Codec, jsonCodec } from "../codec/index.ts";
import { InvalidInputError } from "../errors/index.ts";
import { Executor } from "../executor/executor.ts";
import type { ExecutionObserver } from "../executor/observer.ts";
import type { AnyWorkflow, History } from "../model/index.ts";
import { fromHistory } from "./portable.ts";
import { replayView } from "./replayView.ts";
import { opened } from "./sealing.ts";

/** Options of `replay`. */
export interface ReplayOptions {
  /**
   * The codec that the run was recorded with.
   * @defaultValue `jsonCodec`
   */
  codec?: Codec;
  /**
   * Also report changed options of operations, such as `retry` and `timeout` (Y2).
   * @defaultValue `false`
   */
  strict?: boolean;
  /** Sees each command as the code emits it. */
  observer?: ExecutionObserver;
  /**
   * States are frozen, as under the determinism guard of the worker that recorded the history (R9): code that changes one in place throws.
   * @defaultValue `false`
   */
  freezeStates?: boolean;
}

/**
 * Runs the code against the history, without effects and without a store.
 * @throws `NondeterminismError` where code and history diverge.
 * @throws `InvalidInputError` if the history is malformed or of another workflow.
 */
export async function replay(workflow: AnyWorkflow, history: History, options?: ReplayOptions): Promise<void> {
  const turns = fromHistory(history);
  if (history.run.workflow !== workflow.name) {
    throw new InvalidInputError({
      what: "replay",
      issues: [
        {
          message: `The history belongs to workflow "${history.run.workflow}", the code to "${workflow.name}".`,
          path: ["run", "workflow"],
        },
      ],
    });
  }
  const { codec = jsonCodec, strict = false, observer, freezeStates = false } = options ?? {};
  const executor = new Executor({ workflow, codec, strictReplay: strict, observer, freezeStates });
  const completion = await executor.replay(replayView(opened(turns, codec)));
  if (completion.status === "failed") throw completion.error;
  await executor.activate({ time: 0, jobs: [{ type: "evict", reason: "replay is over" }] });
}
