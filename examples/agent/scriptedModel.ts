// A model that needs no network: it plays a clerk who handles one kind of request. It answers from the conversation alone, as a real model
// does, so it may be asked by any process.

import { setTimeout as delay } from "node:timers/promises";
import type { Message, Model, Reply, ToolDescription } from "./model.ts";

type Line = (order: string) => Omit<Reply, "tokens">;

const SCRIPT: readonly Line[] = [
  (order) => ({
    content: "I look at the order and at its parcel.",
    toolCalls: [
      { id: "call-1", name: "find_order", arguments: { order } },
      { id: "call-2", name: "track_parcel", arguments: { order } },
    ],
  }),
  (order) => ({
    content: "The parcel is lost, so I refund the order and write to the customer.",
    toolCalls: [
      { id: "call-3", name: "refund_payment", arguments: { order, cents: 9_900 } },
      { id: "call-4", name: "send_mail", arguments: { order, text: "Your parcel was lost. We are sorry, and refund you." } },
    ],
  }),
  () => ({ content: "The parcel was lost on its way. I have done what I was allowed to do, and told the customer.", toolCalls: [] }),
];

export class ScriptedModel implements Model {
  readonly #thinkMs: number;

  constructor(thinkMs = 300) {
    this.#thinkMs = thinkMs;
  }
  async reply(messages: readonly Message[], _tools: readonly ToolDescription[], signal: AbortSignal): Promise<Reply> {
    await delay(this.#thinkMs, undefined, { signal });
    const turn = messages.filter(({ role }) => role === "assistant").length;
    const request = messages.find(({ role }) => role === "user")?.content ?? "";
    const line = SCRIPT[Math.min(turn, SCRIPT.length - 1)];
    if (line === undefined) throw new Error("The script is empty.");
    const [order = "unknown"] = /[A-Z]-\d+/.exec(request) ?? [];
    return { ...line(order), tokens: 400 + 150 * turn };
  }
}
