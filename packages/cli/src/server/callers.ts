// Who calls: tokens, and an `authorize` of the user.
// Owns: the form of tokens and their hashes.
// Invariants: closed by default: neither tokens nor `authorize` is 401 for everything; tokens are compared in constant time, and all of them;
// a token appears in no message.

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { InvalidInputError } from "@holdfast/core";
import * as z from "zod";
import type { Caller } from "../api/context.ts";
import { refusal } from "../api/problem.ts";
import { role } from "../api/schemas.ts";

/** A token that may call the API. */
export interface ConsoleToken {
  /** The name under which its calls are known. */
  readonly name: string;
  /** "sha256:" and the hash in hexadecimal digits. */
  readonly hash: string;
  /** What it may do. */
  readonly role: Caller["role"];
  /**
   * Whether it may see user values.
   * @defaultValue `false`
   */
  readonly values?: boolean | undefined;
}
/** Says who calls, by your application's own session; null: not known. May be asynchronous. */
export type Authorize = (request: Request) => Caller | null | Promise<Caller | null>;

const token = z.strictObject({
  name: z.string().min(1),
  hash: z.string().regex(/^sha256:[0-9a-fA-F]{64}$/, 'It must be "sha256:" and 64 hexadecimal digits.'),
  role,
  values: z.boolean().optional(),
});
const caller = z.object({ name: z.string(), role, values: z.boolean().default(false) });

/**
 * Checks a list of tokens, for example from a file.
 * @throws `InvalidInputError` that names the entry.
 */
export function checkedTokens(tokens: unknown): readonly ConsoleToken[] {
  const parsed = z.array(token).safeParse(tokens);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(({ message, path }) => ({ message, path: ["tokens", ...path] }));
  throw new InvalidInputError({ what: "createConsole", issues });
}
/** The hash of a token, in the form that `tokens` take. */
export function hashToken(text: string): string {
  return `sha256:${createHash("sha256").update(text, "utf8").digest("hex")}`;
}
/** A new token: 256 random bits. */
export function newToken(): string {
  return randomBytes(32).toString("base64url");
}

export interface Identity {
  readonly caller: Caller;
  /** Of the token, or of the user: two tokens may have one name while one replaces the other. */
  readonly key: string;
}

export class Callers {
  readonly #tokens: readonly { readonly hash: Buffer; readonly identity: Identity }[];
  readonly #authorize: Authorize | undefined;

  constructor(tokens: readonly ConsoleToken[], authorize: Authorize | undefined) {
    this.#tokens = tokens.map(({ name, hash, role: has, values = false }) => ({
      hash: Buffer.from(hash.slice("sha256:".length), "hex"),
      identity: { caller: { name, role: has, values }, key: hash.toLowerCase() },
    }));
    this.#authorize = authorize;
  }
  /** Throws HF_UNAUTHORIZED. */
  async identify(request: Request): Promise<Identity> {
    const found = this.#byToken(request.headers.get("authorization")) ?? (await this.#byUser(request));
    if (found !== undefined) return found;
    throw refusal("HF_UNAUTHORIZED", "The request has no token, or one that is not known.");
  }
  #byToken(header: string | null): Identity | undefined {
    const [, given] = /^Bearer +([^\s]+) *$/i.exec(header ?? "") ?? [];
    if (given === undefined) return undefined;
    const hash = createHash("sha256").update(given, "utf8").digest();
    let found: Identity | undefined;
    for (const one of this.#tokens) if (timingSafeEqual(one.hash, hash)) found = one.identity;
    return found;
  }
  async #byUser(request: Request): Promise<Identity | undefined> {
    const answer = await this.#authorize?.(request);
    if (answer === undefined || answer === null) return undefined;
    // What is not a caller may do nothing.
    const parsed = caller.safeParse(answer);
    return parsed.success ? { caller: parsed.data, key: `user:${parsed.data.name}` } : undefined;
  }
}
