// The process: API, webhooks, schedule and workers in one. Start several on one file if you like, or split them.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createApi } from "./api.ts";
import { billingEngine } from "./engine.ts";
import { invoice } from "./invoice.ts";
import { findSubscriptions, monthlyInvoices } from "./invoicing.ts";
import { charge, refundPayment, sendMail } from "./payments.ts";
import { TERMS, type Terms } from "./plans.ts";
import { refund } from "./refund.ts";
import { subscription } from "./subscription.ts";

const { BILLING_TERMS, WEBHOOK_SECRET = "for tests only", PORT = "0" } = process.env;
const terms: Terms = BILLING_TERMS === undefined ? TERMS : JSON.parse(BILLING_TERMS);
const engine = await billingEngine();

// Both calls may be repeated: an equal spec changes nothing.
await engine.queues.set("invoices", { concurrency: 20, perKey: { concurrency: 2 }, counts: "running" });
await engine.schedules.set("monthly-invoices", { workflow: monthlyInvoices, cron: "0 6 1 * *", timezone: "Europe/Berlin" });

const lease = "2s"; // how long other processes wait before they take over from a dead one; the default is 30s
const activities = [charge, refundPayment, sendMail, findSubscriptions];
await engine.worker({ workflows: [subscription, monthlyInvoices, refund], activities, lease, stopOn: ["SIGTERM", "SIGINT"] });
await engine.worker({ workflows: [invoice], activities, queue: "invoices", lease });

const api = createApi({ engine, secret: WEBHOOK_SECRET, terms });
const server = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const headers = new Headers(
    Object.entries(request.headers).flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : [])),
  );
  const url = `http://${request.headers.host}${request.url}`;
  const method = request.method ?? "GET";
  try {
    const answer = await api(new Request(url, { method, headers, ...(chunks.length > 0 && { body: Buffer.concat(chunks) }) }));
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  } catch (error) {
    console.error(error);
    response.writeHead(500).end();
  }
});
server.listen(Number(PORT), () => console.log(`ready on http://localhost:${(server.address() as AddressInfo).port}`));
