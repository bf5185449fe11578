// `replay(workflow, history)`: checks that the code still does what the history recorded.
// Owns: nothing between calls.
// Invariants: Y1 (no effects), Y5 (needs only the code and the history, no store).

import { type Codec, jsonCodec } from "../codec/index.ts";
import { InvalidInputError } from "../errors/index.ts";
import { Executor } from "../executor/executor.ts";
import type { AnyWorkflow, History } from "../model/index.ts";
import { fromHistory } from "./portable.ts";
import { replayView } from "./replayView.ts";
import { opened } from "./sealing.ts";

export interface ReplayOptions {
  /** The codec that the run was recorded with. Default: `jsonCodec`. */
  codec?: Codec;
  /** Also report changed options of operations, such as `retry` and `timeout` (Y2). Default false. */
  strict?: boolean;
}

/**
 * Runs the code against the history, without effects and without a store.
 * Throws `NondeterminismError` where code and history diverge, `InvalidInputError` if the history is malformed or of another workflow.
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
  const { codec = jsonCodec, strict = false } = options ?? {};
  const executor = new Executor({ workflow, codec, strictReplay: strict });
  const completion = await executor.replay(replayView(opened(turns, codec)));
  if (completion.status === "failed") throw completion.error;
  await executor.activate({ time: 0, jobs: [{ type: "evict", reason: "replay is over" }] });
}
