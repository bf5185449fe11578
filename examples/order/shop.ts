// The services that an order calls: stand-ins that take a moment, sometimes fail, and log what they were asked to do and what they did.
// The log is a file, because services outlive the workers that call them. Like real services they accept an idempotency key: a request
// that is repeated under its key gets the first answer, and nothing is done twice.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { FatalError, type StepInfo } from "holdfast";
import type { Order } from "./order.ts";

export const warehouse = {
  reserve: (order: Order, info: StepInfo) => serve("reserve", order.id, info, { ms: 400, gives: "shelf" }),
  release: (shelf: string, info: StepInfo) => undo("release", shelf, info),
};

export const bank = {
  charge: (order: Order, info: StepInfo) =>
    serve("charge", `${order.amount} €`, info, {
      ms: 300,
      gives: "receipt",
      check: (times) => {
        if (order.card === "unreliable" && times <= 2) throw new Error("503, the bank is busy");
      },
    }),
  refund: (receipt: string, info: StepInfo) => undo("refund", receipt, info),
};

export const carrier = {
  ship: (order: Order, parcel: "books" | "lamp", info: StepInfo) =>
    serve("ship", parcel, info, {
      ms: parcel === "books" ? 300 : 1_500,
      gives: "parcel",
      check: () => {
        if (parcel === "lamp" && order.address === "nowhere") throw new FatalError("there is no such address");
      },
    }),
  recall: (parcel: string, info: StepInfo) => undo("recall", parcel, info),
};

// ── how they serve ──

/** A line of the log: a request that arrived, or one that was carried out. */
export interface Entry {
  readonly event: "asked" | "done";
  readonly request: string;
  readonly key: string;
  readonly answer?: string;
}

const path = process.env["SHOP_BOOK"] ?? "shop.jsonl";

export function readBook(): Entry[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Entry => JSON.parse(line));
}

interface Service {
  readonly ms?: number;
  /** The kind of thing that the answer numbers, such as "receipt". */
  readonly gives?: string;
  /** Throws if the request can't be carried out. `times`: how often it was made. */
  readonly check?: (times: number) => void;
}

/** Carries out a request once per key, and logs it. */
async function serve(action: string, subject: string, info: StepInfo, { ms = 200, gives = action, check }: Service = {}): Promise<string> {
  const request = `${action} ${subject}`;
  const say = (text: string) => console.log(`${request.padEnd(17)} attempt ${info.attempt}  ${text}`);
  const write = (entry: Pick<Entry, "event" | "answer">) =>
    appendFileSync(path, `${JSON.stringify({ ...entry, request, key: info.idempotencyKey })}\n`);

  say("…");
  write({ event: "asked" });
  await delay(ms, undefined, { signal: info.signal });

  const before = readBook().filter(({ key }) => key === info.idempotencyKey);
  try {
    check?.(before.filter(({ event }) => event === "asked").length);
  } catch (error) {
    say(`failed: ${(error as Error).message}`);
    throw error;
  }
  const known = before.find(({ event }) => event === "done")?.answer;
  const answer = known ?? `${gives}-${readBook().length}`;
  if (known === undefined) write({ event: "done", answer });
  say(`ok, ${answer}`);
  return answer;
}
async function undo(action: string, subject: string, info: StepInfo): Promise<void> {
  await serve(action, subject, info);
}
