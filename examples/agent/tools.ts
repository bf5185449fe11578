// What the agent can do. A tool with `needsApproval` runs only after a person has agreed to this very call.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { FatalError, type StepInfo } from "holdfast";
import type { ToolCall, ToolDescription } from "./model.ts";

interface Tool extends ToolDescription {
  readonly needsApproval: boolean;
  run(given: Readonly<Record<string, unknown>>, info: StepInfo): Promise<string>;
}

const order = { type: "string", description: "The number of the order, such as A-17" };

const tools: readonly Tool[] = [
  {
    name: "find_order",
    description: "Finds an order: what was bought, when, and what was paid.",
    parameters: { type: "object", properties: { order }, required: ["order"] },
    needsApproval: false,
    run: (given) => serve(`look up order ${given["order"]}`, 100, `${given["order"]}: a lamp, 99.00 €, paid by card`),
  },
  {
    name: "track_parcel",
    description: "Asks the carrier where the parcel of an order is.",
    parameters: { type: "object", properties: { order }, required: ["order"] },
    needsApproval: false,
    run: (given) =>
      serve(`ask the carrier about ${given["order"]}`, Number(process.env["CARRIER_TAKES_MS"] ?? 500), "Lost: last seen 14 days ago."),
  },
  {
    name: "refund_payment",
    description: "Pays money back to the customer.",
    parameters: { type: "object", properties: { order, cents: { type: "integer" } }, required: ["order", "cents"] },
    needsApproval: true,
    async run(given, { idempotencyKey }) {
      const cents = Number(given["cents"]);
      if (!Number.isInteger(cents) || cents <= 0) throw new FatalError(`cents must be a positive integer, but is ${given["cents"]}`);
      // A real payment service takes the key too, and pays once however often it is asked.
      if (!readWorld().some(({ key }) => key === idempotencyKey))
        write({ did: `refund ${cents} cents of ${given["order"]}`, key: idempotencyKey });
      return `Refunded ${cents} cents.`;
    },
  },
  {
    name: "send_mail",
    description: "Sends a mail to the customer of an order.",
    parameters: { type: "object", properties: { order, text: { type: "string" } }, required: ["order", "text"] },
    needsApproval: false,
    run: (given) => serve(`mail the customer of ${given["order"]}`, 100, "Sent."),
  },
];

export const toolDescriptions: readonly ToolDescription[] = tools.map(({ name, description, parameters }) => ({
  name,
  description,
  parameters,
}));

/** A tool that does not exist can't be approved either: the model gets an error, and can choose another. */
export const needsApproval = ({ name }: ToolCall): boolean => tools.find((tool) => tool.name === name)?.needsApproval ?? false;

/** What the model is told is the result. An error that no attempt can fix is a `FatalError`: the model is told what was wrong. */
export async function runTool(call: ToolCall, info: StepInfo): Promise<string> {
  const tool = tools.find(({ name }) => name === call.name);
  if (tool === undefined) throw new FatalError(`There is no tool ${call.name}.`);
  if (typeof call.arguments !== "object" || call.arguments === null)
    throw new FatalError(`The arguments of ${call.name} must be an object.`);
  return tool.run({ ...call.arguments }, info);
}

// ── the world: a file with a line for everything that was done ──

interface Deed {
  readonly did: string;
  readonly key?: string;
}
const path = (): string => process.env["AGENT_WORLD"] ?? "agent-world.jsonl";

export function readWorld(): Deed[] {
  if (!existsSync(path())) return [];
  const lines = readFileSync(path(), "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line): Deed => JSON.parse(line));
}
export function write(deed: Deed): void {
  appendFileSync(path(), `${JSON.stringify(deed)}\n`);
  console.log(deed.did);
}
async function serve(what: string, ms: number, answer: string): Promise<string> {
  write({ did: what });
  await delay(ms);
  return answer;
}
