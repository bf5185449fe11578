// One workflow. It does not know where it runs: on an SQLite file, on PostgreSQL or on a Temporal cluster.

import { appendFileSync } from "node:fs";
import { Receive, RollbackError, update, workflow } from "holdfast";

export interface Trip {
  readonly to: string;
  readonly travellers: number;
}
export interface Progress {
  readonly phase: "booking" | "waiting for confirmation" | "sending tickets" | "done";
}

export const trip = workflow(
  {
    name: "trip",
    updates: { confirm: update<{ by: string }, string>() },
    queries: { phase: (progress: Progress | undefined) => progress?.phase ?? "new" },
  },
  async (ctx, { to, travellers }: Trip) => {
    const show = (phase: Progress["phase"]) => ctx.publishState({ phase } satisfies Progress);

    show("booking");
    const { flight, hotel } = await ctx.join("book", {
      flight: (ctx) => ctx.step("flight", () => book(`a flight to ${to}`), { rollback: cancel }),
      hotel: (ctx) => ctx.step("hotel", () => book(`a hotel in ${to}`), { rollback: cancel }),
    });

    show("waiting for confirmation");
    const { state: by, timedOut } = await ctx.receive("", {
      timeout: "3d",
      updates: {
        confirm: {
          validate: (given) => {
            if (given.by === "") throw new Error("Say who confirms the trip.");
          },
          handle: (given) => Receive.stop(`confirmed by ${given.by}`, given.by),
        },
      },
    });
    if (timedOut) throw new RollbackError("The trip was not confirmed within three days.");

    show("sending tickets");
    await ctx.sleep("1s");
    const tickets = await ctx.parallel(
      Array.from({ length: travellers }, (_, i) => (ctx) => ctx.step("ticket", () => book(`ticket ${i + 1}`))),
    );
    show("done");
    return { flight, hotel, by, tickets: tickets.filter(({ status }) => status === "fulfilled").length };
  },
);

// ── the agency: a file with a line for everything that it did ──

const path = (): string => process.env["AGENCY_LOG"] ?? "agency.txt";

function book(what: string): string {
  appendFileSync(path(), `${what}\n`);
  return what;
}
function cancel(what: string): void {
  appendFileSync(path(), `no ${what}\n`);
}
