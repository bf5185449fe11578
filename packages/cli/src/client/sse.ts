// Reads a stream of server-sent events.
// Owns: nothing.
// Invariants: an event is complete when a blank line has come; comments are beats, and are not shown.

import type { ClientEvent } from "./client.ts";

export async function* parseEvents(body: ReadableStream<Uint8Array>): AsyncIterable<ClientEvent> {
  const decoder = new TextDecoder();
  let text = "";
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const event = parse(text.slice(0, end));
        text = text.slice(end + 2);
        if (event !== undefined) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
function parse(block: string): ClientEvent | undefined {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const [, name, value = ""] = /^([a-z]+): ?(.*)$/s.exec(line) ?? [];
    if (name !== undefined) fields.set(name, value);
  }
  const data = fields.get("data");
  if (data === undefined) return undefined;
  return { id: fields.get("id") ?? "", event: fields.get("event") ?? "message", data: JSON.parse(data) as unknown };
}
