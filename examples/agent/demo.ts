// npm run example -- agent: an agent answers a customer. Its process is killed while a tool runs, and another one continues; a person allows
// the refund. A second agent is cancelled while it thinks.

import assert from "node:assert/strict";
import { join } from "node:path";
import { CanceledError, Holdfast, UpdateRejectedError } from "holdfast";
import { demo, until } from "../support/demo.ts";
import { Program } from "../support/program.ts";
import { dim, green, say, title } from "../support/terminal.ts";
import { agent } from "./agent.ts";
import type { Message, ToolCall } from "./model.ts";
import { readWorld } from "./tools.ts";

const isScripted = (process.env["AGENT_API_URL"] ?? "") === "";
const worker = join(import.meta.dirname, "worker.js");
const times = (what: string) => readWorld().filter(({ did }) => did.startsWith(what)).length;

await demo(async (folder) => {
  process.env["DATABASE_URL"] = `file:${join(folder, "agent.db")}`;
  process.env["AGENT_WORLD"] = join(folder, "world.jsonl");

  title(isScripted ? "An agent answers a customer (with a scripted model: no network needed)" : "An agent answers a customer");
  const engine = await Holdfast.open(process.env["DATABASE_URL"]);
  const first = await Program.start(worker, { env: { CARRIER_TAKES_MS: "60000" } }); // it will be killed while the carrier takes its time
  const request = "Order A-17 has not arrived. Where is it? If it is lost, I want my money back.";
  const run = await engine.start(agent, { request, maxTokens: 50_000 }, { id: "ticket-17" });

  // What the conversation adds is printed as it comes.
  let printed = 0;
  const follow = async (): Promise<void> => {
    const messages = await run.query("conversation");
    for (const message of messages.slice(printed)) say(`    ${inWords(message)}`);
    printed = messages.length;
  };
  await until("a tool call", async () => {
    await follow();
    return (await run.query("phase")) !== "thinking"; // a real model may want a dangerous tool first, or none at all
  });
  if (isScripted) {
    await first.line(/ask the carrier/);
    await until("the order to be found", async () => {
      const operations = await run.operations();
      return operations.some(({ name, status }) => name === "find_order" && status === "completed");
    });
  }
  const asked = times("ask the model");
  await first.kill();
  say(dim(`  Calls to the model until now: ${asked}. Another process continues when the lease is over.`));

  const second = await Program.start(worker);
  await until("the agent's answer", async () => {
    await follow();
    const [pending] = await run.query("pending");
    if (pending !== undefined) await decide(engine, run.id, pending);
    return (await run.describe()).finishedAt !== undefined;
  });
  const outcome = await run.result();
  await follow();
  say(`    ${green(outcome.status)}, ${outcome.tokens} tokens`);

  const turns = (await run.query("conversation")).filter(({ role }) => role === "assistant").length;
  say(`\n  ${turns} replies, ${times("ask the model")} calls to the model${isScripted ? ": the crash repeated none of them." : "."}`);
  if (isScripted) {
    assert.equal(outcome.status, "answered");
    assert.equal(times("ask the model"), turns, "the model is asked once for each of its replies");
    assert.equal(times("ask the carrier"), 2);
    assert.equal(times("look up order"), 1);
    assert.equal(times("refund"), 1);
    say("  The tool that was interrupted ran again. The one beside it, which had ended, did not. The refund was paid once.");
  }

  title("Another agent is cancelled while it thinks");
  const before = times("ask the model");
  const other = await engine.start(agent, { request: "Order B-2 is broken.", maxTokens: 50_000 }, { id: "ticket-18" });
  await until("the model to be asked", () => times("ask the model") > before);
  await other.cancel("the customer has called");
  await assert.rejects(other.result(), CanceledError);
  assert.equal(times("hand over"), 1);
  say(`    ${(await other.describe()).status}; the step that hands the work over has run`);

  await second.stop();
  await engine.close();
});

/** What the person does who is asked. The first attempt is a mistake, which the validator of the update rejects. */
async function decide(engine: Holdfast, id: string, { id: call, name, arguments: given }: ToolCall): Promise<void> {
  const run = engine.run(id, agent);
  title(`A person is asked: ${name} ${JSON.stringify(given)}`);
  const mistake = await run.update("decide", { call: "call-99", allow: true, by: "Ada" }).catch((error: unknown) => error);
  assert.ok(mistake instanceof UpdateRejectedError);
  say(`    a decision about another call is rejected: ${mistake.message.split("\n")[0]}`);
  const answer = await run.update("decide", { call, allow: true, by: "Ada" }, { acceptWithin: "10s" });
  say(`    Ada decides: ${answer}`);
}

function inWords(message: Message): string {
  if (message.role !== "assistant") return `${message.role.padEnd(9)} ${message.content}`;
  const calls = message.toolCalls.map(({ name, arguments: given }) => `${name} ${JSON.stringify(given)}`);
  return ["assistant ", message.content, ...calls.map((call) => `\n              → ${call}`)].join("");
}
