// Replies: JSON, problem documents, text, with the headers that all of them have.
// Owns: those headers.
// Invariants: nothing of the API is cached; nothing that it sends can be run, framed or sniffed by a browser.

import type { ConsoleError } from "../api/problem.ts";

export const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

export const SAFE: Readonly<Record<string, string>> = {
  "content-security-policy": CSP,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
};
const API = { ...SAFE, "cache-control": "no-store" };

/** Undefined: an empty body. */
export function json(body: unknown, status: number): Response {
  if (body === undefined) return new Response(null, { status, headers: API });
  return new Response(JSON.stringify(body), { status, headers: { ...API, "content-type": "application/json; charset=utf-8" } });
}
export function text(body: string, media: string): Response {
  return new Response(body, { headers: { ...API, "content-type": media } });
}
export function stream(body: ReadableStream<Uint8Array>): Response {
  // Proxies must pass each event on at once.
  return new Response(body, { headers: { ...API, "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no" } });
}
export function problem(error: ConsoleError, more: Readonly<Record<string, string>> = {}): Response {
  const headers = { ...API, ...more, "content-type": "application/problem+json; charset=utf-8" };
  return new Response(JSON.stringify(error.toProblem()), { status: error.status, headers });
}
