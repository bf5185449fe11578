// The tokens of previews: a bulk action starts only with the token of a preview that a person has seen.
// Owns: the key, which lives as long as the process, and which tokens were used.
// Invariants: a token is valid for 10 minutes, serves once, and can't be made or changed by a client.

import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { refusal } from "./problem.ts";

const LIFETIME = 600_000;

export class BulkTokens {
  readonly #key = randomBytes(32);
  /** When it may be forgotten, by token. */
  readonly #used = new Map<string, number>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }
  issue(content: object): string {
    const time = this.#now();
    const body = Buffer.from(JSON.stringify({ content, time, nonce: randomBytes(9).toString("base64url") }), "utf8").toString("base64url");
    return `${body}.${this.#sign(body)}`;
  }
  /** What was issued, and when. Throws if the token is not valid, too old, or used before. */
  redeem(token: string): { readonly content: unknown; readonly time: number } {
    const [body = "", signature = ""] = token.split(".");
    const now = this.#now();
    if (!equal(signature, this.#sign(body))) throw invalid("The token is not one of a preview of this server.");
    const { content, time } = JSON.parse(Buffer.from(body, "base64url").toString("utf8")) as { content: unknown; time: number };
    if (now > time + LIFETIME) throw invalid("The preview is older than 10 minutes. Ask for another one.");
    for (const [used, until] of this.#used) if (until < now) this.#used.delete(used);
    if (this.#used.has(signature)) throw invalid("The token was used before. Ask for another preview.");
    this.#used.set(signature, time + LIFETIME);
    return { content, time };
  }
  #sign(body: string): string {
    return createHmac("sha256", this.#key).update(body).digest("base64url");
  }
}

function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
function invalid(message: string): Error {
  return refusal("HF_INVALID_INPUT", message, [{ message, path: ["token"] }]);
}
