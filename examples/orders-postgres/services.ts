// The bank and the carrier: services outside of the database, so no transaction covers them. Like real ones they accept an idempotency key,
// and do once what they are asked repeatedly under one key. They write down what they were asked.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { FatalError } from "holdfast";
import type { Order } from "./schema.ts";

export interface Request {
  readonly what: "charge" | "refund" | "ship";
  readonly order: string;
  readonly key: string;
}
const path = (): string => process.env["SERVICES_LOG"] ?? "services.jsonl";

export const bank = {
  async charge(order: Order, key: string): Promise<{ payment: string }> {
    await serve({ what: "charge", order: order.id, key });
    return { payment: `payment of ${order.id}` };
  },
  refund: (order: Order, key: string): Promise<void> => serve({ what: "refund", order: order.id, key }),
};

export const carrier = {
  async ship(order: Order, key: string): Promise<void> {
    if (order.address === "nowhere") throw new FatalError(`There is no address "${order.address}".`);
    await serve({ what: "ship", order: order.id, key });
  },
};

/** What was done: of requests under one key, the first. */
export function deeds(): Request[] {
  const all = requests();
  return all.filter(({ key }, i) => all.findIndex((other) => other.key === key) === i);
}
export function requests(): Request[] {
  if (!existsSync(path())) return [];
  const lines = readFileSync(path(), "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line): Request => JSON.parse(line));
}
async function serve(request: Request): Promise<void> {
  appendFileSync(path(), `${JSON.stringify(request)}\n`);
  await delay(60);
}
