// Sending: from a message for a run id to the inbox, once.
// Owns: idempotency keys, and what a sender is answered.
// Invariants: M3 (a repeated key is one delivery), M10 (an update's key is its id), M12 (closed, unknown, of another workflow: M3), K9.

import type { AddressedMessage, NewMessage, SendResult } from "../port.ts";
import { arrivingJob } from "../updates.ts";
import { cancelRun } from "./closeRun.ts";
import { numberOrNull, readOptionalNumber, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { RunHead } from "./findRun.ts";
import { insertMessage, putMessage } from "./inbox.ts";
import { dropNext } from "./nextStarts.ts";
import type { Session } from "./session.ts";

export function deliverMessage(session: Session, { runId, message, workflow }: AddressedMessage, now: number): SendResult {
  const run = session.find(runId);
  if (run === undefined) return { status: "not-found" };
  if (workflow !== undefined && run.workflow !== workflow) return { status: "other-workflow", workflow: run.workflow };
  const known = earlierDelivery(session.db, run.key, message);
  if (known !== undefined) return { status: "duplicate", inboxId: known };
  if (message.job.type === "cancel" && run.status === "canceled") return { status: "duplicate", inboxId: 0 };
  if (!run.isOpen) return { status: "closed", runStatus: run.status };
  const isCancel = message.job.type === "cancel";
  return { status: "sent", inboxId: acceptMessage(session, isCancel ? dropNext(session, run, "canceled") : run, message, now) };
}
/** Q9: waits with the next start of the run. */
export function putAside({ db }: Session, run: number, message: NewMessage, now: number): number {
  const known = earlierDelivery(db, run, message);
  if (known !== undefined) return known;
  const job = arrivingJob(message, now);
  const inboxId = insertMessage(db, -run, job, now);
  rememberDelivery(db, run, { ...message, job }, inboxId);
  return inboxId;
}

function acceptMessage(session: Session, run: RunHead, message: NewMessage, now: number): number {
  const job = arrivingJob(message, now);
  const inboxId = job.type === "cancel" ? cancelRun(session, run, job.reason, now) : putMessage(session, run.key, job, now);
  rememberDelivery(session.db, run.key, { ...message, job }, inboxId);
  return inboxId;
}

function earlierDelivery(db: Connection, run: number, { job, idempotencyKey }: NewMessage): number | undefined {
  if (job.type === "update")
    return readOptionalNumber(db.get("SELECT inbox_id FROM holdfast_updates WHERE run = ? AND id = ?", [run, text(job.id)])?.[0]);
  if (idempotencyKey === undefined) return undefined;
  const sql = "SELECT inbox_id FROM holdfast_message_keys WHERE run = ? AND key = ?";
  return readOptionalNumber(db.get(sql, [run, text(idempotencyKey)])?.[0]);
}

function rememberDelivery(db: Connection, run: number, { job, idempotencyKey }: NewMessage, inboxId: number): void {
  if (job.type === "update") {
    const sql = "INSERT INTO holdfast_updates (run, id, inbox_id, keyless, accept_until) VALUES (?, ?, ?, ?, ?)";
    db.run(sql, [run, text(job.id), inboxId, idempotencyKey === undefined ? 1 : 0, numberOrNull(job.acceptUntil)]);
  } else if (idempotencyKey !== undefined) {
    db.run("INSERT INTO holdfast_message_keys (run, key, inbox_id) VALUES (?, ?, ?)", [run, text(idempotencyKey), inboxId]);
  }
}
