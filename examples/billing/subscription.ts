// A subscription: one run for as long as the customer stays. It is an entity: messages change its state one after the other, so that no two
// changes ever race, and its timers are part of it.

import { Receive, signal, type UnitContext, update, workflow } from "holdfast";
import { type InvoiceNews, inEuros, invoice } from "./invoice.ts";
import { sendMail } from "./payments.ts";
import { isPlan, monthlyCents, type Plan, plans, seatsProblem, type Terms } from "./plans.ts";

export interface SignUp {
  readonly tenant: string;
  readonly email: string;
  readonly card: string;
  readonly plan: Plan;
  readonly seats: number;
  readonly terms: Terms;
}
export interface Subscription extends SignUp {
  readonly status: "trialing" | "active" | "past due" | "canceled";
  readonly isReminded: boolean;
  /** The invoice that could not be collected until now. */
  readonly openInvoice: string | undefined;
  readonly events: readonly Event[];
}
export interface Event {
  readonly at: Date;
  readonly what: string;
}
export interface PlanChange {
  readonly plan: string;
  readonly seats: number;
}

/** The published state has the newest events. All of them are in the history of the run. */
const EVENTS_KEPT = 50;

/** The next state, which readers see from now on. The attribute is what the monthly invoices find active subscriptions by. */
function change(
  ctx: Pick<UnitContext, "now" | "publishState" | "setAttributes">,
  before: Subscription,
  what: string,
  changes: Partial<Subscription> = {},
): Subscription {
  const events = [...before.events, { at: ctx.now(), what }].slice(-EVENTS_KEPT);
  const after = { ...before, ...changes, events };
  ctx.publishState(after);
  ctx.setAttributes({ status: after.status });
  return after;
}

export const subscription = workflow(
  {
    name: "subscription",
    updates: { changePlan: update<PlanChange, { monthlyCents: number }>(), cancel: update<{ reason: string }, string>() },
    signals: {
      invoice: signal<InvoiceNews>(),
      cardUpdated: signal<{ card: string }>(),
      refunded: signal<{ cents: number; by: string }>(),
    },
    queries: {
      summary: (now: Subscription | undefined) =>
        now && { status: now.status, plan: now.plan, seats: now.seats, monthlyCents: monthlyCents(now.plan, now.seats) },
      history: (now: Subscription | undefined, { last = EVENTS_KEPT }: { last?: number } = {}) => now?.events.slice(-last) ?? [],
    },
  },
  async (ctx, signUp: SignUp) => {
    const { terms, tenant, email } = signUp;
    const fresh: Subscription = { ...signUp, status: "trialing", isReminded: false, openInvoice: undefined, events: [] };
    let state = change(ctx, fresh, `trial of ${signUp.plan} begins`);

    while (state.status !== "canceled") {
      const wait = state.status !== "trialing" ? undefined : state.isReminded ? terms.trialEndsAfter : terms.remindAfter;
      const received = await ctx.receive(state, {
        ...(wait !== undefined && { timeout: wait }),
        checkpointEvery: 100, // keeps the history short, however many years the customer stays
        updates: {
          changePlan: {
            validate: ({ plan, seats }, now) => {
              if (!isPlan(plan)) throw new Error(`There is no plan ${plan}. Choose one of ${Object.keys(plans).join(", ")}.`);
              if (plan === now.plan && seats === now.seats) throw new Error(`The subscription has ${seats} seats of ${plan} already.`);
              const problem = seatsProblem(plan, seats);
              if (problem !== undefined) throw new Error(problem);
            },
            handle: ({ plan, seats }, now, ctx) => {
              if (!isPlan(plan)) throw new Error(`There is no plan ${plan}.`);
              const after = change(ctx, now, `plan changed to ${seats} seats of ${plan}`, { plan, seats });
              return Receive.reply({ monthlyCents: monthlyCents(plan, seats) }, after);
            },
          },
          cancel: ({ reason }, now, ctx) => Receive.stop("canceled", change(ctx, now, `canceled: ${reason}`, { status: "canceled" })),
        },
        signals: {
          invoice: (news, now, ctx) => {
            const what = `invoice over ${inEuros(news.cents)} ${news.status}`;
            if (news.status === "uncollectible") return Receive.stop(change(ctx, now, what, { status: "canceled" }));
            const isPaid = news.status === "paid";
            const changes = { status: isPaid ? "active" : "past due", openInvoice: isPaid ? undefined : news.invoice } as const;
            return Receive.noreply(change(ctx, now, what, changes));
          },
          cardUpdated: async ({ card }, now, ctx) => {
            // The invoice may have been paid at this very moment: then it needs no other card.
            const { openInvoice } = now;
            if (openInvoice !== undefined) await ctx.try("tell-invoice", (ctx) => ctx.signalRun(openInvoice, "cardUpdated", { card }));
            return Receive.noreply(change(ctx, now, "card updated", { card }));
          },
          refunded: ({ cents, by }, now, ctx) => Receive.noreply(change(ctx, now, `${inEuros(cents)} refunded, approved by ${by}`)),
        },
      });
      state = received.state;
      if (!received.timedOut) continue;

      if (!state.isReminded) {
        await ctx.activity(sendMail, { to: email, subject: `Your trial ends in ${terms.trialEndsAfter}` });
        state = change(ctx, state, "reminded that the trial ends", { isReminded: true });
      } else {
        const { plan, seats, card } = state;
        const first = { subscription: ctx.run.id, email, card, cents: monthlyCents(plan, seats), dunning: terms.dunning };
        await ctx.startChild(invoice, first, { id: `${ctx.run.id}/first-invoice`, queue: "invoices", key: tenant, parentClose: "abandon" });
        state = change(ctx, state, "trial ended", { status: "active" });
      }
    }
    await ctx.activity(sendMail, { to: email, subject: "Your subscription has ended" });
    return { status: state.status, events: state.events.length };
  },
);
