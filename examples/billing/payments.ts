// The calls to services outside. They are activities, so that tests can replace them by name, with their arguments.

import { activity } from "holdfast";
import { provider } from "./provider.ts";

export interface Charge {
  readonly invoice: string;
  readonly card: string;
  readonly cents: number;
}
/** A declined card is an answer, and no error: trying again at once is pointless. Errors (no network, a 503) are retried. */
export type Charged = { readonly status: "paid"; readonly payment: string } | { readonly status: "declined" };

export const charge = activity("charge", async ({ invoice, card, cents }: Charge, { idempotencyKey }): Promise<Charged> => {
  const answer = await provider.charge(invoice, card, cents, idempotencyKey);
  return answer === "declined" ? { status: "declined" } : { status: "paid", payment: answer };
});

export const refundPayment = activity(
  "refund-payment",
  async ({ payment, cents }: { payment: string; cents: number }, { idempotencyKey }) => {
    await provider.refund(payment, cents, idempotencyKey);
  },
);

export const sendMail = activity("send-mail", async ({ to, subject }: { to: string; subject: string }, { idempotencyKey }) => {
  await provider.mail(to, subject, idempotencyKey);
});
