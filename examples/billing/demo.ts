// npm run example -- billing: a month of subscriptions in seconds, over HTTP. The process is killed while it collects the monthly invoices.

import assert from "node:assert/strict";
import { join } from "node:path";
import { Holdfast } from "holdfast";
import { demo, until } from "../support/demo.ts";
import { Program } from "../support/program.ts";
import { dim, say, title } from "../support/terminal.ts";
import { type ProviderEvent, sign } from "./api.ts";
import { invoice } from "./invoice.ts";
import type { Plan, Terms } from "./plans.ts";
import { deeds } from "./provider.ts";
import { type Event, subscription } from "./subscription.ts";

const SECRET = "a secret";
/** Days are seconds here. */
const terms: Terms = { remindAfter: "1s", trialEndsAfter: "1s", dunning: ["1s", "60s"] };
/** 2 tenants; Ada's card is declined. */
const customers = ["ada", "bob", "cleo", "dan", "eve", "finn", "gina", "hugo"].map((name, i) => ({
  id: `sub-${name}`,
  tenant: i < 5 ? "acme" : "apex",
  email: `${name}@example.com`,
  card: name === "ada" ? "4000-0000" : `4000-000${i}`,
  plan: "starter" as Plan,
  seats: 2,
}));

await demo(async (folder) => {
  process.env["DATABASE_URL"] = `file:${join(folder, "billing.db")}`;
  process.env["PROVIDER_LOG"] = join(folder, "provider.jsonl");
  const env = { BILLING_TERMS: JSON.stringify(terms), WEBHOOK_SECRET: SECRET };
  let url = "";
  const startServer = async () => {
    const server = await Program.start(join(import.meta.dirname, "server.js"), { env, name: "server" });
    url = (await server.line(/ready on/)).replace(/.*ready on /, "");
    return server;
  };
  const call = async <T = { error: string }>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(`${url}${path}`, { method, headers, ...(body !== undefined && { body: text }) });
    return { status: response.status, body: (await response.json()) as T };
  };
  const statusOf = async (id: string): Promise<string> => (await call<{ status: string }>("GET", `/subscriptions/${id}`)).body.status;

  title(`${customers.length} customers sign up`);
  const first = await startServer();
  const engine = await Holdfast.open(process.env["DATABASE_URL"]);
  for (const { id, ...signUp } of customers) assert.equal((await call("POST", `/subscriptions/${id}`, signUp)).status, 201);

  title("A change of plan is checked before it is accepted");
  const tooMany = await call("POST", "/subscriptions/sub-bob/plan", { plan: "starter", seats: 12 });
  assert.equal(tooMany.status, 409);
  say(`  12 seats of starter: ${tooMany.body.error.split("\n")[0]}`);
  const changed = await call<{ monthlyCents: number }>("POST", "/subscriptions/sub-bob/plan", { plan: "team", seats: 12 });
  assert.deepEqual(changed, { status: 200, body: { monthlyCents: 22_800 } });
  say(`  12 seats of team: accepted, ${changed.body.monthlyCents} cents a month`);

  title("The trials end: a reminder, then the first invoice");
  const paid = () => deeds().filter(({ what, answer }) => what === "charge" && answer !== "declined").length;
  await until("the first invoices", () => paid() >= customers.length - 1);
  await until("Ada's subscription to be past due", async () => (await statusOf("sub-ada")) === "past due");
  say("  Ada's card is declined: her subscription is past due, and the invoice tries again on the days that the terms name");

  title("The provider reports her new card, twice");
  const event: ProviderEvent = { id: "evt-1", type: "card.updated", subscription: "sub-ada", card: "4000-0009" };
  const body = JSON.stringify(event);
  assert.equal((await call("POST", "/webhooks/provider", body, { "x-signature": "forged" })).status, 401);
  for (let i = 0; i < 2; i++)
    assert.equal((await call("POST", "/webhooks/provider", body, { "x-signature": sign(body, SECRET) })).status, 200);
  await until("Ada's subscription to be active", async () => (await statusOf("sub-ada")) === "active");
  const { body: history } = await call<Event[]>("GET", "/subscriptions/sub-ada/history");
  for (const { at, what } of history) say(`  ${dim(new Date(at).toISOString().slice(11, 23))}  ${what}`);
  assert.equal(history.filter(({ what }) => what === "card updated").length, 1);

  title("The first of the month: the server is killed while it collects the invoices");
  const before = paid();
  await engine.schedules.trigger("monthly-invoices");
  await until("two monthly payments", () => paid() >= before + 2);
  await first.kill();
  say(dim(`  ${paid() - before} of ${customers.length} monthly payments were made`));
  const second = await startServer();
  await until(
    "all monthly invoices to be paid",
    async () => (await engine.count({ workflow: "invoice" })).completed === 2 * customers.length,
  );
  const charged = deeds().filter(({ what, answer }) => what === "charge" && answer !== "declined");
  const perInvoice = new Set(charged.map(({ about }) => about));
  assert.equal(charged.length, 2 * customers.length);
  assert.equal(perInvoice.size, charged.length);
  say(`  ${charged.length - before} invoices, each of them paid once`);

  title("A refund needs a second person");
  const collected = await engine.run("sub-bob/first-invoice", invoice).result();
  assert.equal(collected.status, "paid");
  const wanted = { subscription: "sub-bob", payment: collected.payment, cents: 22_800, requestedBy: "Eve" };
  await call("POST", "/refunds/refund-1", wanted);
  const own = await call("POST", "/refunds/refund-1/decision", { by: "Eve", approve: true });
  assert.equal(own.status, 409);
  say(`  Eve: ${own.body.error.split("\n")[0]}`);
  const other = await call<{ answer: string }>("POST", "/refunds/refund-1/decision", { by: "Grace", approve: true });
  assert.deepEqual(other.body, { answer: "approved" });
  say("  Grace: approved");
  assert.deepEqual(await engine.run("refund-1").result(), { status: "refunded", by: "Grace" });
  assert.equal(deeds().filter(({ what }) => what === "refund").length, 1);

  title("Bob's subscription");
  await until("the news of the refund", async () =>
    (await engine.run("sub-bob", subscription).query("history")).at(-1)?.what.includes("refunded"),
  );
  for (const { at, what } of await engine.run("sub-bob", subscription).query("history"))
    say(`  ${dim(at.toISOString().slice(11, 23))}  ${what}`);

  await second.stop();
  await engine.close();
});
