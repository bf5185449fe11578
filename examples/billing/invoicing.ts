// The monthly invoices: a schedule starts this run, which starts an invoice for every active subscription. The invoices are in a queue with
// limits: so many at once for all tenants together, and so many for each, so that a large tenant delays no other.

import { activity, type Holdfast, Loop, workflow } from "holdfast";
import { billingEngine } from "./engine.ts";
import { invoice } from "./invoice.ts";
import { monthlyCents } from "./plans.ts";
import { type Subscription, subscription } from "./subscription.ts";

export interface Page {
  readonly subscriptions: readonly (Pick<Subscription, "tenant" | "email" | "card" | "plan" | "seats" | "terms"> & {
    readonly id: string;
  })[];
  readonly cursor: string | undefined;
}

/** Runs are found by their attributes. Their published state says the rest. */
export async function activeSubscriptions(engine: Holdfast, cursor: string | undefined): Promise<Page> {
  const filter = { workflow: subscription.name, attributes: { status: "active" }, limit: 100 };
  const page = await engine.list({ ...filter, ...(cursor !== undefined && { cursor }) });
  const found = await Promise.all(
    page.runs.map(async ({ id }) => {
      const state = await engine.run(id, subscription).state<Subscription>();
      if (state === undefined) return [];
      const { tenant, email, card, plan, seats, terms } = state;
      return [{ id, tenant, email, card, plan, seats, terms }];
    }),
  );
  return { subscriptions: found.flat(), cursor: page.cursor };
}
export const findSubscriptions = activity(
  "find-subscriptions",
  async ({ cursor }: { cursor: string | undefined }): Promise<Page> => activeSubscriptions(await billingEngine(), cursor),
);

export const monthlyInvoices = workflow("monthly-invoices", async (ctx) => {
  const month = (ctx.run.tick ?? ctx.run.startedAt).toISOString().slice(0, 7);
  const state: { cursor: string | undefined; started: number } = { cursor: undefined, started: 0 };
  return ctx.loop({ name: "pages", state }, async (ctx, { cursor, started }) => {
    const page = await ctx.activity(findSubscriptions, { cursor });
    const results = await ctx.parallel(
      page.subscriptions.map(({ id, tenant, plan, seats, email, card, terms }) => (ctx) => {
        const cents = monthlyCents(plan, seats);
        const input = { subscription: id, email, card, cents, dunning: terms.dunning };
        // The id says which invoice it is: a month that is started twice has each invoice once. The second start is refused.
        return ctx.startChild(invoice, input, { id: `${id}/${month}`, queue: "invoices", key: tenant, parentClose: "abandon" });
      }),
    );
    const sum = started + results.filter(({ status }) => status === "fulfilled").length;
    return page.cursor === undefined ? Loop.break({ month, invoices: sum }) : Loop.continue({ cursor: page.cursor, started: sum });
  });
});
