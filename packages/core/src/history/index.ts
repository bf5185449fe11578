// History: recorded turns, their portable form, and replay.
// Owns: nothing; it is the door to the files beside it.
// Invariants: Y1, Y5.

export { checkCommand, checkJob } from "./needed.ts";
export { fromHistory, HISTORY_FORMAT, type HistoryOf, toHistory } from "./portable.ts";
export { VALUE_FIELDS } from "./recordFields.ts";
export { recordCount, recordTurn, trimmed } from "./recording.ts";
export { type ReplayOptions, replay } from "./replay.ts";
export { opened, sealed } from "./sealing.ts";
export { type ReplayTurn, replayView, type Voided } from "./view.ts";
