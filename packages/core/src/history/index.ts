// The entry point of history/: recorded turns, their portable form, and replay.
// Owns: nothing; it only re-exports.
// Invariants: Y1, Y5.

export { type ForkedHistory, forkHistory } from "./fork.ts";
export { fromHistory, HISTORY_FORMAT, type HistoryOf, toHistory } from "./portable.ts";
export { VALUE_FIELDS } from "./recordFields.ts";
export { recordCount, recordTurn, trimmed } from "./recording.ts";
export { type ReplayOptions, replay } from "./replay.ts";
export { replayView } from "./replayView.ts";
export { checkCommand, checkJob } from "./requiredFields.ts";
export { opened, sealed } from "./sealing.ts";
