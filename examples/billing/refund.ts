// A refund: small ones are paid at once, larger ones after another person has approved them, within three days.

import { type Duration, Receive, update, workflow } from "holdfast";
import { refundPayment } from "./payments.ts";

export interface RefundRequest {
  readonly subscription: string;
  readonly payment: string;
  readonly cents: number;
  readonly requestedBy: string;
  /** Default three days. */
  readonly decideWithin?: Duration;
}
export interface Decision {
  readonly by: string;
  readonly approve: boolean;
}
export type RefundResult = { readonly status: "refunded" | "refused"; readonly by: string } | { readonly status: "expired" };

/** Up to this amount no approval is needed. */
export const AUTOMATIC_UP_TO = 2_000;

export const refund = workflow(
  {
    name: "refund",
    updates: { decide: update<Decision, string>() },
    queries: { status: (status: string | undefined) => status ?? "new" },
  },
  async (ctx, { subscription, payment, cents, requestedBy, decideWithin = "3d" }: RefundRequest): Promise<RefundResult> => {
    let by = "the rules";
    if (cents > AUTOMATIC_UP_TO) {
      ctx.publishState("waiting for approval");
      const { state: decision } = await ctx.receive<Decision | undefined>(undefined, {
        timeout: decideWithin,
        updates: {
          decide: {
            validate: (given) => {
              if (given.by === requestedBy) throw new Error(`${given.by} has requested this refund: another person must decide.`);
            },
            handle: (given) => Receive.stop(given.approve ? "approved" : "refused", given),
          },
        },
      });
      ctx.publishState(decision === undefined ? "expired" : decision.approve ? "approved" : "refused");
      if (decision === undefined) return { status: "expired" };
      if (!decision.approve) return { status: "refused", by: decision.by };
      by = decision.by;
    }
    await ctx.activity(refundPayment, { payment, cents });
    ctx.publishState("refunded");
    // The subscription may have ended: the money is paid back all the same.
    await ctx.try("tell", (ctx) => ctx.signalRun(subscription, "refunded", { cents, by }));
    return { status: "refunded", by };
  },
);
