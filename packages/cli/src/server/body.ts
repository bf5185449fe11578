// Reads the JSON body of a request.
// Owns: the limit of 4 MiB.
// Invariants: a body over the limit is refused before it is read whole; no body is undefined.

import { refusal } from "../api/problem.ts";

export const MOST_BYTES = 4 * 1_024 * 1_024;

export async function readBody(request: Request): Promise<unknown> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > MOST_BYTES) throw tooLarge();
  const text = await readText(request.body);
  if (text === "") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw refusal("HF_INVALID_INPUT", "The body is not JSON.", [{ message: "It is not JSON.", path: [] }], cause);
  }
}
async function readText(body: ReadableStream<Uint8Array> | null): Promise<string> {
  if (body === null) return "";
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.byteLength;
    if (bytes > MOST_BYTES) {
      void reader.cancel().catch(() => undefined);
      throw tooLarge();
    }
    parts.push(value);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
  } catch (cause) {
    throw refusal("HF_INVALID_INPUT", "The body is not UTF-8 text.", [{ message: "It is not UTF-8.", path: [] }], cause);
  }
}
function tooLarge(): Error {
  return refusal("HF_LIMIT_EXCEEDED", "The body has more than 4 MiB.");
}
