// The payment provider and the mail server: stand-ins that write down what they did. Like real ones they accept an idempotency key, and a
// request that is repeated under its key gets the first answer.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

export interface Deed {
  readonly what: "charge" | "refund" | "mail";
  readonly about: string;
  readonly key: string;
  readonly answer: string;
}
const path = (): string => process.env["PROVIDER_LOG"] ?? "provider.jsonl";

export const provider = {
  /** A card whose number ends with 0 is declined. */
  charge: (invoice: string, card: string, cents: number, key: string): Promise<string> =>
    serve({ what: "charge", about: `${invoice}: ${cents} cents`, key, answer: card.endsWith("0") ? "declined" : `payment-${key}` }),
  refund: (payment: string, cents: number, key: string): Promise<string> =>
    serve({ what: "refund", about: `${payment}: ${cents} cents`, key, answer: "refunded" }),
  mail: (to: string, subject: string, key: string): Promise<string> =>
    serve({ what: "mail", about: `${to}: ${subject}`, key, answer: "sent" }),
};

export function deeds(): Deed[] {
  if (!existsSync(path())) return [];
  const lines = readFileSync(path(), "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line): Deed => JSON.parse(line));
}
async function serve(deed: Deed): Promise<string> {
  const known = deeds().find(({ key }) => key === deed.key);
  if (known === undefined) {
    appendFileSync(path(), `${JSON.stringify(deed)}\n`);
    console.log(
      `${deed.what.padEnd(6)} ${deed.about}  ${deed.what === "charge" && deed.answer === "declined" ? "declined" : ""}`.trimEnd(),
    );
  }
  await delay(50);
  return known?.answer ?? deed.answer;
}
