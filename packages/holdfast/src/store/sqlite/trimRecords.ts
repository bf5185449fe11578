// Deletes what a loop or a receive has left behind.
// Owns: which rows go, by the core's own rule; nothing about loops is known here.
// Invariants: L4 R11 (in the commit of the state that it led to); what belongs to a turn as a whole outlives its first row.

import { type CommitCommand, type Turn, trimmed } from "@holdfast/core";
import { readOptionalNumber } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { type KeptRecord, keptTurns, SELECT_RECORDS } from "./records.ts";

/** Carries out the trims of a turn that was just appended. Returns how many records are gone. */
export function trimRecords(db: Connection, run: number, execution: number, turn: Turn): number {
  const commits = turn.commands.filter((command): command is CommitCommand => command.type === "commit" && command.trim !== undefined);
  if (commits.length === 0) return 0;
  const from = Math.min(...commits.map(({ seq }) => openingTurn(db, run, execution, seq)));
  // All that a scope leaves behind came after it was opened, except for earlier messages that it consumed.
  const rows = db.all(
    `${SELECT_RECORDS} WHERE run = ? AND execution = ? AND (turn >= ? OR (direction = 'job' AND type IN ('signal', 'update'))) ORDER BY turn, id`,
    [run, execution, from],
  );
  const before = keptTurns(rows);
  const kept = new Set<unknown>();
  for (const { jobs, commands } of trimmed(before.map((one) => one.turn))) {
    for (const record of jobs) kept.add(record);
    for (const record of commands) kept.add(record);
  }
  const gone = before.map((one) => ({ index: one.turn.index, records: one.records.filter(({ record }) => !kept.has(record)) }));
  deleteRecords(
    db,
    gone.flatMap(({ records }) => records),
  );
  for (const { index, records } of gone) {
    const first = records.find(({ facts }) => facts[0] !== null);
    if (first !== undefined) moveFacts(db, run, execution, index, first);
  }
  deleteAttempts(
    db,
    run,
    execution,
    gone.flatMap(({ records }) => records),
  );
  return gone.reduce((sum, { records }) => sum + records.filter(({ record }) => record !== undefined).length, 0);
}

function openingTurn(db: Connection, run: number, execution: number, seq: number): number {
  const found = db.get(
    "SELECT turn FROM holdfast_records WHERE run = ? AND execution = ? AND seq = ? AND n IS NOT NULL ORDER BY turn LIMIT 1",
    [run, execution, seq],
  );
  return readOptionalNumber(found?.[0]) ?? 0;
}

function deleteRecords(db: Connection, records: readonly KeptRecord[]): void {
  db.run("DELETE FROM holdfast_records WHERE id IN (SELECT value FROM json_each(?))", [JSON.stringify(records.map(({ id }) => id))]);
}

function moveFacts(db: Connection, run: number, execution: number, turn: number, { facts }: KeptRecord): void {
  db.run(
    `UPDATE holdfast_records SET history_length = ?, worker = ?, state = ?
     WHERE id = (SELECT min(id) FROM holdfast_records WHERE run = ? AND execution = ? AND turn = ?)`,
    [...facts, run, execution, turn],
  );
}

/** Attempts of operations that history no longer knows. */
function deleteAttempts(db: Connection, run: number, execution: number, records: readonly KeptRecord[]): void {
  const seqs = records.flatMap(({ record }) => (record !== undefined && "n" in record ? [record.seq] : []));
  if (seqs.length === 0) return;
  db.run("DELETE FROM holdfast_attempts WHERE run = ? AND execution = ? AND seq IN (SELECT value FROM json_each(?))", [
    run,
    execution,
    JSON.stringify(seqs),
  ]);
}
