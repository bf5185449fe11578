// Job: the activities that the example workflows call.
// Owns: nothing; each is small enough to be read where it is used.
import { activity } from "@holdfast/core";

export type Item = { sku: string; quantity: number };
export const createAccount = activity("accounts.create", async (userId: string) => ({ id: `acct-${userId}` }));
export const sendWelcome = activity("email.welcome", async (_account: { id: string }) => {});
export const lookupPrice = activity("pricing.current", async (sku: string) => sku.length * 100);
export const charge = activity("payment.charge", async (items: Item[]) => items.length * 100, {
  startToClose: "30s",
  retry: { maxAttempts: 3 },
});
export const refund = activity("payment.refund", async (_total: number) => {});
export const sendReceipt = activity("email.receipt", async (_total: number) => {});
export const batchInsert = activity("events.insert", async (_events: string[]) => {});

export const ACTIVITIES = [createAccount, sendWelcome, lookupPrice, charge, refund, sendReceipt, batchInsert];
