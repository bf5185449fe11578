// Job: what compiles and what does not, call by call, as in the tests of `holdfast`. Nothing here runs: the type check compiles it.
// Owns: nothing.
// Invariants: callers give what a schema takes; a line under @ts-expect-error does not compile.

import { type EngineDriver, runWorkflow, signal, type WorkflowHandle, workflow } from "@holdfast/kv";
import { z } from "zod";

declare const driver: EngineDriver;

const pay = workflow("pay", async (_ctx, input: { currency: "eur" | "usd"; range: [number, number] }) => input.currency);
const nothing = workflow("nothing", async () => 1);
const order = workflow(
  {
    name: "order",
    input: z.object({ amount: z.coerce.number<string>(), note: z.string().default("") }),
    signals: { price: signal(z.coerce.number<string>()), close: signal() },
    queries: { above: (total: number | undefined, limit: number) => (total ?? 0) > limit },
  },
  async (_ctx, input) => input.amount,
);

export async function starts(): Promise<void> {
  const paid = await runWorkflow({ driver, workflow: pay, id: "p", input: { currency: "eur", range: [1, 2] } });
  if (paid.status === "completed") paid.output satisfies "eur" | "usd";
  await runWorkflow({ driver, workflow: nothing, id: "n" });
  const handle = runWorkflow({ driver, workflow: order, id: "o", mode: "live", input: { amount: "1" }, signals: [{ name: "close" }] });
  handle satisfies Pick<WorkflowHandle<number>, "id">;
  await handle.signal("price", "1");
  await handle.signal("close");
  (await handle.query("above", 1)) satisfies boolean;
  // @ts-expect-error not a currency
  await runWorkflow({ driver, workflow: pay, id: "p", input: { currency: "gbp", range: [1, 2] } });
  // @ts-expect-error the input is missing
  await runWorkflow({ driver, workflow: pay, id: "p" });
  // @ts-expect-error the schema takes text
  await runWorkflow({ driver, workflow: order, id: "o", input: { amount: 1 } });
  // @ts-expect-error no such signal
  await runWorkflow({ driver, workflow: order, id: "o", input: { amount: "1" }, signals: [{ name: "prise", payload: "1" }] });
  // @ts-expect-error no such signal
  await handle.signal("prise", "1");
  // @ts-expect-error the schema takes text
  await handle.signal("price", 1);
  // @ts-expect-error it needs its argument
  await handle.query("above");
}
