// `replay(workflow, history)`: does this code still do what history says it did?
// Owns: nothing between calls.
// Invariants: Y1 (no effect), Y5 (anywhere the code is).

import { type Codec, jsonCodec } from "../codec/index.ts";
import { InvalidInputError } from "../errors/index.ts";
import { Executor } from "../executor/executor.ts";
import type { AnyWorkflow, History } from "../model/index.ts";
import { fromHistory } from "./portable.ts";
import { replayView } from "./replayView.ts";
import { opened } from "./sealing.ts";

export interface ReplayOptions {
  codec?: Codec;
  /** Changed options of operations count too (Y2). */
  strict?: boolean;
}

/** Runs the code against the history; throws `NondeterminismError` where they part. No effect, no store. */
export async function replay(workflow: AnyWorkflow, history: History, options?: ReplayOptions): Promise<void> {
  const turns = fromHistory(history);
  if (history.run.workflow !== workflow.name) {
    throw new InvalidInputError({
      what: "replay",
      issues: [
        { message: `The history is of workflow "${history.run.workflow}", the code of "${workflow.name}".`, path: ["run", "workflow"] },
      ],
    });
  }
  const { codec = jsonCodec, strict = false } = options ?? {};
  const executor = new Executor({ workflow, codec, strictReplay: strict });
  const completion = await executor.replay(replayView(opened(turns, codec)));
  if (completion.status === "failed") throw completion.error;
  await executor.activate({ time: 0, jobs: [{ type: "evict", reason: "replay is over" }] });
}
