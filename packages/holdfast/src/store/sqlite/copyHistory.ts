// The history that a fork begins with, written with its run.
// Owns: nothing.
// Invariants: F1 (in the transaction that creates the run), D12 (attempts and workers of the copied turns are kept), M3 (so are the keys of
// the signals in them).

import { recordCount } from "@holdfast/core";
import type { NewRun } from "../port.ts";
import { writeAttempt } from "./attempts.ts";
import { payload, text } from "./columns.ts";
import { appendTurn } from "./records.ts";
import type { Session } from "./session.ts";

const CONTINUE = "UPDATE holdfast_runs SET status = ?, turns = ?, history_length = ?, attempt = ?, rollbacks = ? WHERE key = ?";

export function copyHistory(session: Session, key: number, copied: NonNullable<NewRun["copied"]>): void {
  const { db } = session;
  const { turns, attempts, workers, attempt, rollbacks, state, keys } = copied;
  for (const turn of turns) {
    const worker = workers.get(turn.index);
    appendTurn(db, key, 1, worker === undefined ? null : session.workerKey(worker), turn, undefined);
  }
  for (const { task, ...row } of attempts) writeAttempt(db, key, 1, row, task === true ? "task" : "step");
  for (const id of keys) db.run("INSERT INTO holdfast_message_keys (run, key, inbox_id) VALUES (?, ?, 0)", [key, text(id)]);
  if (state !== undefined) db.run("INSERT INTO holdfast_states (run, state) VALUES (?, ?)", [key, payload(state)]);
  const records = turns.reduce((sum, turn) => sum + recordCount(turn), 0);
  const status = turns.length === 0 ? "pending" : "sleeping";
  db.run(CONTINUE, [status, (turns.at(-1)?.index ?? -1) + 1, records, attempt, rollbacks, key]);
}
