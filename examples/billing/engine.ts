// The engine of this process, opened when it is first used.

import { Holdfast } from "holdfast";

let opened: Promise<Holdfast> | undefined;

export function billingEngine(): Promise<Holdfast> {
  opened ??= Holdfast.open(process.env["DATABASE_URL"] ?? "file:billing.db");
  return opened;
}
