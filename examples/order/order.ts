// An order, from the shelf to the door: one async function that reads from top to bottom.
// Each step is recorded when it ends, so the function survives the process that runs it: another worker continues from the last record.
// If the run fails, the completed steps are rolled back, last first.

import { RollbackError, signal, workflow } from "holdfast";
import { bank, carrier, warehouse } from "./shop.ts";

export interface Order {
  readonly id: string;
  readonly card: string;
  readonly amount: number;
  readonly address: string;
}

export const order = workflow(
  {
    name: "order",
    signals: { approve: signal<{ by: string }>() },
    queries: { status: (status: string | undefined) => status ?? "new" },
  },
  async (ctx, order: Order) => {
    ctx.publishState("reserving");
    const shelf = await ctx.step("reserve", (info) => warehouse.reserve(order, info), { rollback: warehouse.release });

    ctx.publishState("charging");
    const receipt = await ctx.step("charge", (info) => bank.charge(order, info), {
      retry: { maxAttempts: 5, initialInterval: "300ms" },
      rollback: bank.refund,
    });

    ctx.publishState("waiting for approval");
    const approval = await ctx.waitForSignal("approve", { timeout: "1d" });
    if (approval.timedOut) throw new RollbackError("The order was not approved within a day.");

    ctx.publishState("shipping");
    const parcels = await ctx.join("ship", {
      books: (ctx) => ctx.step("parcel", (info) => carrier.ship(order, "books", info), { rollback: carrier.recall }),
      lamp: (ctx) => ctx.step("parcel", (info) => carrier.ship(order, "lamp", info), { rollback: carrier.recall }),
    });

    ctx.publishState("done");
    return { shelf, receipt, approvedBy: approval.payload.by, parcels };
  },
);
