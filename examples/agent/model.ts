// What the agent knows of a language model: a conversation and tools go in, a reply comes out.

/** In the form that most chat APIs use. */
export type Message =
  | { readonly role: "system" | "user"; readonly content: string }
  | { readonly role: "assistant"; readonly content: string; readonly toolCalls: readonly ToolCall[] }
  | { readonly role: "tool"; readonly toolCallId: string; readonly content: string };

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: unknown;
}
export interface ToolDescription {
  readonly name: string;
  readonly description: string;
  /** JSON Schema. */
  readonly parameters: object;
}
export interface Reply {
  readonly content: string;
  /** Empty: the content is the answer. */
  readonly toolCalls: readonly ToolCall[];
  /** What the call has cost, of question and reply together. */
  readonly tokens: number;
}
export interface Model {
  reply(messages: readonly Message[], tools: readonly ToolDescription[], signal: AbortSignal): Promise<Reply>;
}
