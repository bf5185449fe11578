// An agent: it asks a model, runs the tools that the model asks for, and goes on until the model has an answer. Every reply of the model and
// every result of a tool is recorded. If the process dies, another one continues the conversation where it was: the model is not asked again
// for what it has already said, and a tool that has run does not run again.

import { activity, CanceledError, type Duration, Receive, update, workflow } from "holdfast";
import { HttpModel } from "./httpModel.ts";
import type { Message, Model, Reply, ToolCall } from "./model.ts";
import { ScriptedModel } from "./scriptedModel.ts";
import { needsApproval, runTool, toolDescriptions, write } from "./tools.ts";

export interface Task {
  readonly request: string;
  /** The agent stops before the call to the model that would come after this many tokens. */
  readonly maxTokens: number;
  /** How long a person may take to decide. Default one day; then the call counts as refused. */
  readonly approvalWithin?: Duration;
}
export interface Outcome {
  readonly status: "answered" | "out of budget";
  readonly answer: string;
  readonly tokens: number;
}
export interface Decision {
  /** The id of the tool call. */
  readonly call: string;
  readonly allow: boolean;
  readonly by: string;
}
/** What readers see while the agent works. */
export interface Conversation {
  readonly phase: "thinking" | "waiting for approval" | "using tools" | "done";
  readonly messages: readonly Message[];
  readonly tokens: number;
  /** Tool calls that wait for a decision. */
  readonly pending: readonly ToolCall[];
}

const SYSTEM = "You are a clerk of a web shop. Use the tools to find out what happened, and help the customer.";

/**
 * A call to the model is an activity: activities have a queue of their own, which limits how many calls all processes together make in a
 * minute. worker.ts sets that limit.
 */
export const askModel = activity(
  "ask-model",
  async ({ messages }: { messages: readonly Message[] }, { signal }): Promise<Reply> => {
    write({ did: "ask the model" });
    return chooseModel().reply(messages, toolDescriptions, signal);
  },
  { queue: "models", startToClose: "2m", retry: { maxAttempts: 6, initialInterval: "2s" } },
);

function chooseModel(): Model {
  const { AGENT_API_URL: url, AGENT_API_KEY: apiKey, AGENT_MODEL: model = "default" } = process.env;
  return url === undefined || url === "" ? new ScriptedModel() : new HttpModel({ url, apiKey, model });
}

export const agent = workflow(
  {
    name: "agent",
    deadline: "2d", // whatever happens, no agent goes on after that
    updates: { decide: update<Decision, string>() },
    queries: {
      conversation: (seen: Conversation | undefined): readonly Message[] => seen?.messages ?? [],
      pending: (seen: Conversation | undefined): readonly ToolCall[] => seen?.pending ?? [],
      phase: (seen: Conversation | undefined) => seen?.phase ?? "thinking",
    },
  },
  async (ctx, task: Task): Promise<Outcome> => {
    let tokens = 0;
    let messages: readonly Message[] = [
      { role: "system", content: SYSTEM },
      { role: "user", content: task.request },
    ];
    const show = (phase: Conversation["phase"], pending: readonly ToolCall[] = []) =>
      ctx.publishState({ phase, messages, tokens, pending } satisfies Conversation);

    try {
      while (tokens < task.maxTokens) {
        show("thinking");
        const reply = await ctx.activity(askModel, { messages });
        tokens += reply.tokens;
        messages = [...messages, { role: "assistant", content: reply.content, toolCalls: reply.toolCalls }];
        if (reply.toolCalls.length === 0) {
          show("done");
          return { status: "answered", answer: reply.content, tokens };
        }

        // A person decides about each dangerous call. Calls that are not decided in time are refused.
        const dangerous = reply.toolCalls.filter(needsApproval);
        let decisions: Readonly<Record<string, Decision>> = {};
        if (dangerous.length > 0) {
          show("waiting for approval", dangerous);
          const decided = await ctx.receive(decisions, {
            timeout: task.approvalWithin ?? "1d",
            updates: {
              decide: {
                validate: ({ call }, before) => {
                  if (!dangerous.some(({ id }) => id === call)) throw new Error(`No tool call ${call} waits for a decision.`);
                  if (before[call] !== undefined) throw new Error(`${before[call].by} has already decided about ${call}.`);
                },
                handle: (decision, before, ctx) => {
                  const after = { ...before, [decision.call]: decision };
                  const pending = dangerous.filter(({ id }) => after[id] === undefined);
                  ctx.publishState({ phase: "waiting for approval", messages, tokens, pending } satisfies Conversation);
                  const answer = decision.allow ? "allowed" : "refused";
                  return pending.length === 0 ? Receive.stop(answer, after) : Receive.reply(answer, after);
                },
              },
            },
          });
          decisions = decided.state;
        }

        show("using tools");
        const results = await ctx.parallel(
          reply.toolCalls.map((call) => async (ctx) => {
            const decision = decisions[call.id];
            if (needsApproval(call) && decision?.allow !== true) {
              return decision === undefined ? "Refused: no decision was made in time." : `Refused by ${decision.by}.`;
            }
            return ctx.step(call.name, (info) => runTool(call, info), { timeout: "1m", retry: { maxAttempts: 3 } });
          }),
        );
        // A tool that failed does not end the agent: the model is told, and may find another way.
        const told = reply.toolCalls.map(({ id }, i): Message => {
          const result = results[i];
          const content = result?.status === "fulfilled" ? result.value : `The tool failed: ${messageOf(result?.reason)}`;
          return { role: "tool", toolCallId: id, content };
        });
        messages = [...messages, ...told];
      }
      show("done");
      return { status: "out of budget", answer: "The budget is used up.", tokens };
    } catch (error) {
      // A cancelled agent hands its work over. `shield` lets this step run although the run is cancelled.
      if (error instanceof CanceledError) {
        await ctx.shield((ctx) => ctx.step("hand-over", () => write({ did: `hand over: ${task.request}` })));
      }
      throw error;
    }
  },
);

/** The cause of a failed step says what went wrong; the error itself says how often it was tried. */
function messageOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}
