// The activities of the seed examples, by their names: the examples keep their own to themselves.
import { activity } from "holdfast";

export const createAccount = activity("accounts.create", async (userId: string) => ({ id: `acct-${userId}` }));
export const sendWelcome = activity("email.welcome", async (_account: { id: string }) => {});
export const lookupPrice = activity("pricing.current", async (sku: string) => sku.length * 100);
export const charge = activity("payment.charge", async (items: unknown[]) => items.length * 100);
export const refund = activity("payment.refund", async (_total: number) => {});
export const sendReceipt = activity("email.receipt", async (_total: number) => {});
export const batchInsert = activity("events.insert", async (_events: string[]) => {});
