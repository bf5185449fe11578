import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { CanceledError, FatalError, RetryLaterError } from "holdfast";
import { testEngine } from "holdfast/testing";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { build, runDemo } from "../support/runDemo.ts";
import { agent, askModel } from "./agent.ts";
import { HttpModel } from "./httpModel.ts";
import type { Message, Reply, ToolCall } from "./model.ts";

const call = (id: string, name: string, given: unknown = {}): ToolCall => ({ id, name, arguments: given });
const uses = (...toolCalls: ToolCall[]): Reply => ({ content: "", toolCalls, tokens: 100 });
const answers = (content: string): Reply => ({ content, toolCalls: [], tokens: 100 });

let close: (() => Promise<void>) | undefined;
afterEach(() => close?.()); // replays every history, too

/** An agent with a model that gives these replies, and tools that note that they ran. `asked`: the conversations that the model was given. */
async function start(
  replies: readonly Reply[],
  { tools = [], maxTokens = 10_000 }: { tools?: readonly string[]; maxTokens?: number } = {},
) {
  const asked: (readonly Message[])[] = [];
  const ran: string[] = [];
  const tool = (name: string) => () => {
    ran.push(name);
    return `${name} has run`;
  };
  const engine = await testEngine({
    workflows: [agent],
    activities: [askModel],
    replace: {
      activities: {
        "ask-model": ({ messages }: { messages: readonly Message[] }) => {
          const turn = messages.filter(({ role }) => role === "assistant").length;
          asked.push(messages);
          return replies[turn];
        },
      },
      steps: Object.fromEntries(tools.map((name) => [name, tool(name)])),
    },
  });
  close = () => engine.close();
  const run = await engine.start(agent, { request: "Where is A-1?", maxTokens });
  const pending = () => expect.poll(() => run.query("pending")).not.toEqual([]);
  return { engine, run, asked, ran, pending };
}
const toldBy = (messages: readonly Message[] | undefined) => messages?.flatMap((one) => (one.role === "tool" ? [one.content] : []));

describe("the agent", () => {
  it("gives the results of tools to the model, and answers", async () => {
    const { run, asked } = await start([uses(call("1", "find_order", { order: "A-1" })), answers("On its way.")], {
      tools: ["find_order"],
    });
    expect(await run.result()).toEqual({ status: "answered", answer: "On its way.", tokens: 200 });
    expect(asked).toHaveLength(2);
    expect(toldBy(asked[1])).toEqual(["find_order has run"]);
    expect((await run.query("conversation")).map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool", "assistant"]);
  });

  it("tells the model about tools that don't exist or get no arguments", async () => {
    const { run, asked } = await start([uses(call("1", "fly"), call("2", "track_parcel", "not JSON")), answers("Sorry.")]);
    expect(await run.result()).toMatchObject({ status: "answered" });
    expect(toldBy(asked[1])).toEqual([
      "The tool failed: There is no tool fly.",
      "The tool failed: The arguments of track_parcel must be an object.",
    ]);
  });

  it("stops when the budget is used up", async () => {
    const again = uses(call("1", "find_order", { order: "A-1" }));
    const { run, asked } = await start([again, again, again, again], { tools: ["find_order"], maxTokens: 250 });
    expect(await run.result()).toMatchObject({ status: "out of budget", tokens: 300 });
    expect(asked).toHaveLength(3);
  });

  it("hands its work over when it is cancelled", async () => {
    const { run, ran, pending } = await start([uses(call("1", "refund_payment"))], { tools: ["hand-over"] });
    await pending();
    await run.cancel("enough");
    await expect(run.result()).rejects.toThrow(CanceledError);
    expect(ran).toEqual(["hand-over"]);
  });
});

describe("approval of dangerous tools", () => {
  const refund = call("1", "refund_payment");
  const another = call("2", "refund_payment");

  it("runs the tool after a person has allowed it", async () => {
    const { run, ran, pending } = await start([uses(refund, call("2", "find_order")), answers("Done.")], {
      tools: ["refund_payment", "find_order"],
    });
    await pending();
    expect(ran).toEqual([]);
    expect(await run.update("decide", { call: "1", allow: true, by: "Ada" })).toBe("allowed");
    expect(await run.result()).toMatchObject({ status: "answered" });
    expect(ran.toSorted()).toEqual(["find_order", "refund_payment"]);
  });

  it("tells the model that a person has refused", async () => {
    const { run, asked, pending } = await start([uses(refund, another), answers("Done.")], { tools: ["refund_payment"] });
    await pending();
    expect(await run.update("decide", { call: "1", allow: false, by: "Ada" })).toBe("refused");
    expect(await run.query("pending")).toEqual([another]);
    expect(await run.update("decide", { call: "2", allow: true, by: "Bob" })).toBe("allowed");
    await run.result();
    expect(toldBy(asked[1])).toEqual(["Refused by Ada.", "refund_payment has run"]);
  });

  it("counts as refused after a day without a decision", async () => {
    const { engine, run, asked } = await start([uses(refund), answers("Done.")]);
    const started = engine.now().getTime();
    await run.result();
    expect(engine.now().getTime() - started).toBe(24 * 3_600_000);
    expect(toldBy(asked[1])).toEqual(["Refused: no decision was made in time."]);
  });

  it("rejects a decision about a call that does not wait for one, and a second decision", async () => {
    const { run, pending } = await start([uses(refund, another), answers("Done.")], { tools: ["refund_payment"] });
    await pending();
    await expect(run.update("decide", { call: "7", allow: true, by: "Ada" })).rejects.toThrow("No tool call 7 waits for a decision.");
    await run.update("decide", { call: "1", allow: false, by: "Ada" });
    await expect(run.update("decide", { call: "1", allow: true, by: "Bob" })).rejects.toThrow("Ada has already decided about 1.");
    await run.update("decide", { call: "2", allow: true, by: "Bob" });
    await run.result();
  });
});

describe("the model behind HTTP", () => {
  /** Asks a server that gives this answer. `sent`: the body that it got. */
  async function ask(status: number, body: unknown, headers: Record<string, string> = {}) {
    let sent: unknown;
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      sent = { path: request.url, key: request.headers.authorization, ...JSON.parse(Buffer.concat(chunks).toString()) };
      response.writeHead(status, headers).end(JSON.stringify(body));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    try {
      const model = new HttpModel({ url, apiKey: "k", model: "m" });
      const messages: Message[] = [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "", toolCalls: [call("1", "find_order", { order: "A-1" })] },
        { role: "tool", toolCallId: "1", content: "found" },
      ];
      const reply = await model.reply(messages, [{ name: "find_order", description: "", parameters: {} }], AbortSignal.timeout(10_000));
      return { reply, sent };
    } finally {
      server.close();
    }
  }

  it("translates the conversation and the reply", async () => {
    const message = { content: null, tool_calls: [{ id: "2", function: { name: "find_order", arguments: '{"order":"A-2"}' } }] };
    const { reply, sent } = await ask(200, { choices: [{ message }], usage: { total_tokens: 7 } });
    expect(reply).toEqual({ content: "", toolCalls: [call("2", "find_order", { order: "A-2" })], tokens: 7 });
    expect(sent).toMatchObject({
      path: "/v1/chat/completions",
      key: "Bearer k",
      model: "m",
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "find_order", arguments: '{"order":"A-1"}' } }] },
        { role: "tool", tool_call_id: "1", content: "found" },
      ],
      tools: [{ type: "function", function: { name: "find_order" } }],
    });
  });

  it("waits as long as the server asks, gives up what can't succeed, and retries the rest", async () => {
    await expect(ask(429, {}, { "retry-after": "20" })).rejects.toThrow(RetryLaterError);
    await expect(ask(401, { error: "bad key" })).rejects.toThrow(FatalError);
    await expect(ask(500, {})).rejects.not.toThrow(FatalError);
  });
});

describe("npm run example -- agent", () => {
  beforeAll(build, 60_000);

  it("continues after a kill without asking the model again", { timeout: 120_000 }, async () => {
    const { code, stdout, stderr, left } = await runDemo("agent");
    expect({ code, stderr, left }).toEqual({ code: 0, stderr: "", left: [] });
    expect(stdout).toMatch(/✗ worker \d+ was killed/);
    expect(stdout).toContain("3 replies, 3 calls to the model");
  });
});
