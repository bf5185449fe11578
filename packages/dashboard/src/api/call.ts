// Calls of the HTTP API.
// Owns: `call`, the errors that it throws, and whether the server can be reached.
// Invariants: a request goes to this page's own server only, with the token in a header and never in the address.

import { signal } from "@preact/signals";
import { type Query, queryText } from "../base/paths.ts";
import { apiBase } from "./page.ts";
import { forgetToken, token } from "./token.ts";

/** The server answered with an error. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly advice: string | undefined;
  readonly issues: readonly { readonly message: string; readonly path?: readonly (string | number)[] }[];
  constructor(status: number, body: Record<string, unknown>) {
    const title = typeof body["title"] === "string" ? body["title"] : `The server answered ${status}.`;
    super(typeof body["detail"] === "string" && body["detail"] !== "" ? body["detail"] : title);
    this.status = status;
    this.code = typeof body["code"] === "string" ? body["code"] : `HTTP_${status}`;
    this.advice = typeof body["advice"] === "string" ? body["advice"] : undefined;
    this.issues = Array.isArray(body["issues"]) ? (body["issues"] as Problem["issues"]) : [];
  }
}
/** No answer: the server is down, or the network is. */
export class Unreachable extends Error {}

/** False after a call without an answer, until one is answered. */
export const isReachable = signal(true);
/** The server asked for a token that this tab does not have, or refused the one that it has. */
export const needsToken = signal<"no" | "missing" | "refused">("no");

/** The token that each response is an answer to. */
const sentWith = new WeakMap<Response, string | undefined>();

/** The server's clock minus the browser's, if they differ by more than the header can tell. */
let clockOffset = 0;
export const now = (): number => Date.now() + clockOffset;

export interface CallOptions {
  readonly query?: Query;
  /** Sent as JSON. Undefined: no body. */
  readonly body?: unknown;
  readonly idempotencyKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}
type Method = "GET" | "POST" | "PUT" | "DELETE";

/** `path` is below /api/v1, its segments encoded. */
export async function call<T>(method: Method, path: string, options: CallOptions = {}): Promise<T> {
  const response = await open(method, path, options);
  if (!response.ok) throw await problemOf(response);
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

/** The response itself, for streams. Its status is not checked. */
export async function open(method: Method, path: string, options: CallOptions): Promise<Response> {
  const { query, body, idempotencyKey, signal } = options;
  const headers = new Headers(options.headers);
  const sent = token.value;
  if (sent !== undefined) headers.set("authorization", `Bearer ${sent}`);
  if (body !== undefined) headers.set("content-type", "application/json");
  if (idempotencyKey !== undefined) headers.set("idempotency-key", idempotencyKey);
  let response: Response;
  try {
    response = await fetch(`${apiBase}${path}${queryText(query)}`, {
      method,
      headers,
      cache: "no-store",
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal !== undefined && { signal }),
    });
  } catch (cause) {
    if (signal?.aborted === true) throw cause;
    isReachable.value = false;
    throw new Unreachable("The server can't be reached.", { cause });
  }
  isReachable.value = true;
  sentWith.set(response, sent);
  noteClock(response);
  return response;
}

export async function problemOf(response: Response): Promise<Problem> {
  const body: unknown = await response.json().catch(() => ({}));
  const problem = new Problem(response.status, typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {});
  const sent = sentWith.get(response);
  // A late answer to a request with another token says nothing about the present one.
  if (response.status === 401 && sent === token.value) {
    if (sent === undefined) needsToken.value = needsToken.value === "no" ? "missing" : needsToken.value;
    else {
      needsToken.value = "refused";
      forgetToken();
    }
  }
  return problem;
}

function noteClock(response: Response): void {
  const server = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(server)) return;
  const offset = server - Date.now();
  if (Math.abs(offset) > 2_000) clockOffset = offset;
}
