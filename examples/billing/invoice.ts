// An invoice: collects one amount. If the card is declined it tries again over days (dunning), and at once when the card has changed.

import { type Duration, signal, workflow } from "holdfast";
import { charge, sendMail } from "./payments.ts";

export interface Invoice {
  /** The run of the subscription, which is told how it goes. */
  readonly subscription: string;
  readonly email: string;
  readonly card: string;
  readonly cents: number;
  readonly dunning: readonly Duration[];
}
export interface InvoiceNews {
  readonly invoice: string;
  readonly status: "paid" | "declined" | "uncollectible";
  readonly cents: number;
}
export type InvoiceResult =
  | { readonly status: "paid"; readonly payment: string; readonly attempts: number }
  | { readonly status: "uncollectible" };

export const invoice = workflow(
  {
    name: "invoice",
    signals: { cardUpdated: signal<{ card: string }>() },
    queries: { status: (status: string | undefined) => status ?? "new" },
  },
  async (ctx, { subscription, email, cents, dunning, ...input }: Invoice): Promise<InvoiceResult> => {
    // The subscription may have ended in the meantime: then it needs no news.
    const tell = (status: InvoiceNews["status"]) =>
      ctx.try(`tell-${status}`, (ctx) => {
        const news: InvoiceNews = { invoice: ctx.run.id, status, cents };
        return ctx.signalRun(subscription, "invoice", news);
      });

    let card = input.card;
    for (let attempt = 1; ; attempt++) {
      ctx.publishState(`attempt ${attempt}`);
      const charged = await ctx.activity(charge, { invoice: ctx.run.id, card, cents });
      if (charged.status === "paid") {
        ctx.publishState("paid");
        await tell("paid");
        await ctx.activity(sendMail, { to: email, subject: `Your receipt for ${inEuros(cents)}` });
        return { status: "paid", payment: charged.payment, attempts: attempt };
      }

      const wait = dunning[attempt - 1];
      if (wait === undefined) break;
      ctx.publishState(`declined ${attempt} times, next attempt in ${wait}`);
      await tell("declined");
      await ctx.activity(sendMail, { to: email, subject: `We could not charge ${inEuros(cents)}. Is your card still valid?` });
      const update = await ctx.waitForSignal("cardUpdated", { timeout: wait });
      if (!update.timedOut) card = update.payload.card;
    }
    ctx.publishState("uncollectible");
    await tell("uncollectible");
    return { status: "uncollectible" };
  },
);

export const inEuros = (cents: number): string => `${(cents / 100).toFixed(2)} €`;
