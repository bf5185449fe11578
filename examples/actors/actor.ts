// One actor: the loyalty card of one customer. It lives as long as the customer, and costs nothing between visits. There may be any number
// of them: each is a run with its own namespace.

import { Receive, signal, update, workflow } from "@holdfast/kv";
import { ledger } from "./ledger.ts";

export interface Card {
  readonly stamps: number;
}

/** Stamps that make a card full. */
export const FULL = 3;

export const card = workflow(
  {
    name: "card",
    signals: { visit: signal<{ shop: string }>() },
    updates: { stamps: update<void, number>() },
    queries: { stamps: (state: Card | undefined) => state?.stamps ?? 0 },
  },
  async (ctx, customer: string) => {
    await ctx.step("welcome", (info) => ledger.write(`welcome ${customer}`, info));

    const { state } = await ctx.receive({ stamps: 0 } satisfies Card as Card, {
      signals: {
        async visit({ shop }, { stamps }, handler) {
          await handler.step("stamp", (info) => ledger.write(`stamp ${customer} at ${shop}`, info));
          const next = { stamps: stamps + 1 };
          handler.publishState(next);
          return next.stamps === FULL ? Receive.stop(next) : Receive.noreply(next);
        },
      },
      updates: { stamps: (_, held) => Receive.reply(held.stamps, held) },
      checkpointEvery: 10,
    });

    await ctx.sleep("50ms"); // preparing the reward takes a moment
    await ctx.step("reward", (info) => ledger.write(`reward ${customer}`, info));
    return state.stamps;
  },
);
