// A model behind an HTTP endpoint of the form POST <url>/chat/completions, which many providers and local servers offer.

import { FatalError, RetryLaterError } from "holdfast";
import type { Message, Model, Reply, ToolDescription } from "./model.ts";

export interface HttpModelOptions {
  /** "https://api.example.com/v1" */
  readonly url: string;
  readonly apiKey: string | undefined;
  readonly model: string;
}

export class HttpModel implements Model {
  readonly #options: HttpModelOptions;

  constructor(options: HttpModelOptions) {
    this.#options = options;
  }
  async reply(messages: readonly Message[], tools: readonly ToolDescription[], signal: AbortSignal): Promise<Reply> {
    const { url, apiKey, model } = this.#options;
    const response = await fetch(`${url}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) },
      body: JSON.stringify({
        model,
        messages: messages.map(toWire),
        tools: tools.map((tool) => ({ type: "function", function: tool })),
      }),
      signal, // the run was cancelled, or the attempt took too long
    });
    if (!response.ok) throw await refusal(response);
    return fromWire((await response.json()) as WireReply);
  }
}

/** Decides what the engine does next: wait as long as the server asks, give up, or try again with backoff. */
async function refusal(response: Response): Promise<Error> {
  const message = `The model answered ${response.status}: ${(await response.text()).slice(0, 500)}`;
  const seconds = Number(response.headers.get("retry-after"));
  if ((response.status === 429 || response.status === 503) && seconds > 0) return new RetryLaterError(message, { after: `${seconds}s` });
  const isOurFault = response.status >= 400 && response.status < 500 && response.status !== 408 && response.status !== 429;
  return isOurFault ? new FatalError(message) : new Error(message);
}

// ── the form on the wire ──

interface WireReply {
  readonly choices: readonly {
    readonly message: {
      readonly content: string | null;
      readonly tool_calls?: readonly { readonly id: string; readonly function: { readonly name: string; readonly arguments: string } }[];
    };
  }[];
  readonly usage?: { readonly total_tokens: number };
}

function toWire(message: Message): object {
  switch (message.role) {
    case "system":
    case "user":
      return message;
    case "tool":
      return { role: "tool", tool_call_id: message.toolCallId, content: message.content };
    case "assistant": {
      const calls = message.toolCalls.map(({ id, name, arguments: given }) => ({
        id,
        type: "function",
        function: { name, arguments: JSON.stringify(given) },
      }));
      return { role: "assistant", content: message.content, ...(calls.length > 0 && { tool_calls: calls }) };
    }
  }
}
function fromWire({ choices, usage }: WireReply): Reply {
  const message = choices[0]?.message;
  if (message === undefined) throw new Error("The model answered without a message.");
  const toolCalls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: text } }) => ({ id, name, arguments: parse(text) }));
  return { content: message.content ?? "", toolCalls, tokens: usage?.total_tokens ?? 0 };
}
/** Models sometimes write arguments that are not JSON. The tool then says so, and the model can correct itself. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
