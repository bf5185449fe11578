import { activity, RunClosedError, UpdateRejectedError } from "holdfast";
import { type TestEngine, testEngine } from "holdfast/testing";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { build, runDemo } from "../support/runDemo.ts";
import { createApi, sign } from "./api.ts";
import { invoice } from "./invoice.ts";
import { activeSubscriptions, monthlyInvoices } from "./invoicing.ts";
import type { Charge, Charged } from "./payments.ts";
import { TERMS } from "./plans.ts";
import { refund } from "./refund.ts";
import { type SignUp, subscription } from "./subscription.ts";

const DAY = 24 * 3_600_000;
const START = new Date("2026-03-01T00:00:00Z");

let engine: TestEngine;
/** Cards that are declined. */
let declined: Set<string>;
let charges: (Charge & { day: number })[];
let mails: string[];
/** How many charges of a tenant were in progress at once, at most. */
let most: Record<string, number>;

const day = () => (engine.now().getTime() - START.getTime()) / DAY;

beforeEach(async () => {
  declined = new Set();
  charges = [];
  mails = [];
  most = {};
  const running: Record<string, number> = {};
  // Activities are found by their names: these take the place of those in payments.ts and invoicing.ts.
  const services = [
    activity("charge", async (given: Charge): Promise<Charged> => {
      charges.push({ ...given, day: day() });
      const [tenant = ""] = given.invoice.split("-");
      running[tenant] = (running[tenant] ?? 0) + 1;
      most[tenant] = Math.max(most[tenant] ?? 0, running[tenant]);
      await new Promise((resolve) => setImmediate(resolve));
      running[tenant]--;
      return declined.has(given.card) ? { status: "declined" } : { status: "paid", payment: `payment of ${given.invoice}` };
    }),
    activity("refund-payment", () => {}),
    activity("send-mail", ({ to, subject }: { to: string; subject: string }) => void mails.push(`${day()} ${to}: ${subject}`)),
    activity("find-subscriptions", ({ cursor }: { cursor: string | undefined }) => activeSubscriptions(engine, cursor)),
  ];
  engine = await testEngine({
    workflows: [subscription, invoice, monthlyInvoices, refund],
    activities: services,
    startTime: START,
    skipTime: false,
  });
});
afterEach(() => engine.close());

const signUp = (given: Partial<SignUp> = {}): SignUp => ({
  ...{ tenant: "acme", email: "ada@example.com", card: "good", plan: "starter", seats: 2, terms: TERMS },
  ...given,
});

describe("a subscription", () => {
  it("is reminded before its trial ends, and charged when it has ended", async () => {
    const run = await engine.start(subscription, signUp(), { id: "s" });
    await engine.advance("10d");
    expect(mails).toEqual([]);
    await engine.advance("3d");
    expect(mails).toEqual(["11 ada@example.com: Your trial ends in 3d"]);
    expect(charges).toEqual([]);
    await engine.advance("2d");
    expect(charges).toEqual([{ invoice: "s/first-invoice", card: "good", cents: 1_800, day: 14 }]);
    expect(await run.query("summary")).toEqual({ status: "active", plan: "starter", seats: 2, monthlyCents: 1_800 });
    expect((await run.query("history", { last: 2 })).map(({ what }) => what)).toEqual(["trial ended", "invoice over 18.00 € paid"]);
  });

  it("changes its plan, unless the plan does not exist, has too few seats, or is the same", async () => {
    const run = await engine.start(subscription, signUp());
    await engine.advance("1d");
    const rejected = (plan: string, seats: number) => expect(run.update("changePlan", { plan, seats })).rejects;
    await rejected("gold", 1).toThrow("There is no plan gold. Choose one of starter, team, company.");
    await rejected("starter", 4).toThrow("The plan starter has at most 3 seats, not 4.");
    await rejected("team", 0.5).toThrow("seats must be a positive integer, not 0.5.");
    await rejected("starter", 2).toThrow(UpdateRejectedError);
    expect(await run.update("changePlan", { plan: "team", seats: 10 })).toEqual({ monthlyCents: 19_000 });
    await engine.advance("13d");
    expect(charges).toMatchObject([{ cents: 19_000, day: 14 }]);
  });

  it("ends when the customer cancels, and accepts nothing more", async () => {
    const run = await engine.start(subscription, signUp());
    await engine.advance("1d");
    expect(await run.update("cancel", { reason: "too expensive" })).toBe("canceled");
    expect(await run.result()).toMatchObject({ status: "canceled" });
    expect(mails).toEqual(["1 ada@example.com: Your subscription has ended"]);
    await expect(run.signal("cardUpdated", { card: "new" })).rejects.toThrow(RunClosedError);
  });
});

describe("dunning", () => {
  it("tries again over days, and then ends the subscription", async () => {
    declined.add("bad");
    const run = await engine.start(subscription, signUp({ card: "bad" }));
    await engine.advance("14d");
    expect((await run.query("summary"))?.status).toBe("past due");
    await engine.advance("10d");
    expect(charges.map((one) => one.day)).toEqual([14, 15, 18, 23]);
    expect(await run.result()).toMatchObject({ status: "canceled" });
    expect(mails.filter((mail) => mail.includes("Is your card still valid?"))).toHaveLength(3);
  });

  it("collects at once when the provider reports a new card, however often it does", async () => {
    declined.add("bad");
    const run = await engine.start(subscription, signUp({ card: "bad" }), { id: "s" });
    await engine.advance("16d"); // the second attempt was on day 15, the third would be on day 18
    const api = createApi({ engine, secret: "secret" });
    const body = JSON.stringify({ id: "evt-1", type: "card.updated", subscription: "s", card: "good" });
    const post = (signature: string) =>
      api(new Request("http://localhost/webhooks/provider", { method: "POST", body, headers: { "x-signature": signature } }));

    expect((await post("forged")).status).toBe(401);
    for (let i = 0; i < 3; i++) expect((await post(sign(body, "secret"))).status).toBe(200);
    await engine.advance("1h");
    expect(charges.map((one) => [one.card, one.day])).toEqual([["bad", 14], ["bad", 15], ["good", 16]]); // biome-ignore format: one line
    const events = (await run.query("history")).map(({ what }) => what);
    expect(events.filter((what) => what === "card updated")).toHaveLength(1);
    expect((await run.query("summary"))?.status).toBe("active");
  });
});

describe("the monthly invoices", () => {
  it("are started by the schedule, once per subscription and month, with at most two at once per tenant", async () => {
    await engine.queues.set("invoices", { concurrency: 20, perKey: { concurrency: 2 } });
    await engine.schedules.set("monthly-invoices", { workflow: monthlyInvoices, cron: "0 6 1 * *" });
    const tenants = ["acme", "apex", "atlas"];
    const ids = Array.from({ length: 104 }, (_, i) => ({ id: `${tenants[i % 3]}-${i}`, tenant: tenants[i % 3] ?? "" }));
    await engine.startMany(subscription, ids.map(({ id, tenant }) => ({ id, input: signUp({ tenant }) }))); // biome-ignore format: one line
    await engine.advance("15d");
    expect(charges).toHaveLength(104);

    charges = [];
    await engine.advance("17d"); // April 1 is day 31
    expect(charges.map((one) => one.invoice).toSorted()).toEqual(ids.map(({ id }) => `${id}/2026-04`).toSorted());
    expect(new Set(charges.map((one) => one.day))).toEqual(new Set([31.25]));
    expect(Math.max(...Object.values(most))).toBeLessThanOrEqual(2);
    expect(await engine.run("monthly-invoices@2026-04-01T06:00:00Z").result()).toEqual({ month: "2026-04", invoices: 104 });

    const again = await engine.schedules.trigger("monthly-invoices"); // in the same month, by mistake
    expect(await engine.run(again).result()).toEqual({ month: "2026-04", invoices: 0 });
    expect(charges).toHaveLength(104);
  });
});

describe("a refund", () => {
  const request = { subscription: "s", payment: "payment-1", requestedBy: "Eve" };

  it("is paid at once if it is small", async () => {
    const run = await engine.start(refund, { ...request, cents: 2_000 });
    expect(await run.result()).toEqual({ status: "refunded", by: "the rules" });
  });

  it("is decided by another person", async () => {
    const run = await engine.start(refund, { ...request, cents: 2_001 });
    await engine.advance("1d");
    expect(await run.query("status")).toBe("waiting for approval");
    await expect(run.update("decide", { by: "Eve", approve: true })).rejects.toThrow("another person must decide");
    expect(await run.update("decide", { by: "Grace", approve: false })).toBe("refused");
    expect(await run.result()).toEqual({ status: "refused", by: "Grace" });
  });

  it("is reported to the subscription", async () => {
    const customer = await engine.start(subscription, signUp(), { id: "s" });
    const run = await engine.start(refund, { ...request, cents: 5_000 });
    await engine.advance("1d");
    await run.update("decide", { by: "Grace", approve: true });
    await run.result();
    await engine.advance("1h");
    expect((await customer.query("history")).at(-1)?.what).toBe("50.00 € refunded, approved by Grace");
  });

  it("expires after three days", async () => {
    const run = await engine.start(refund, { ...request, cents: 5_000 });
    await engine.advance("4d");
    expect(await run.result()).toEqual({ status: "expired" });
  });
});

describe("the API", () => {
  it("answers with the status that fits", async () => {
    const api = createApi({ engine, secret: "secret" });
    const call = async (method: string, path: string, body?: unknown) => {
      const response = await api(
        new Request(`http://localhost${path}`, { method, ...(body !== undefined && { body: JSON.stringify(body) }) }),
      );
      return response.status;
    };
    const { terms: _, ...given } = signUp();
    expect(await call("POST", "/subscriptions/s", { ...given, plan: "gold" })).toBe(400);
    expect(await call("POST", "/subscriptions/s", { ...given, seats: 4 })).toBe(400);
    expect(await call("POST", "/subscriptions/s", { ...given, card: 7 })).toBe(400);
    expect(await call("POST", "/subscriptions/s", given)).toBe(201);
    expect(await call("POST", "/subscriptions/s", given)).toBe(409);
    await engine.advance("1d");
    expect(await call("GET", "/subscriptions/s")).toBe(200);
    expect(await call("GET", "/subscriptions/s/history")).toBe(200);
    expect(await call("GET", "/subscriptions/unknown")).toBe(404);
    expect(await call("POST", "/subscriptions/s/plan", { plan: "gold", seats: 1 })).toBe(409);
    expect(await call("POST", "/subscriptions/s/plan", { plan: "team", seats: 1 })).toBe(200);
    expect(await call("GET", "/")).toBe(404);
  });
});

describe("npm run example -- billing", () => {
  beforeAll(build, 60_000);

  it("collects every invoice once, although the server is killed", { timeout: 120_000 }, async () => {
    const { code, stdout, stderr, left } = await runDemo("billing");
    expect({ code, stderr, left }).toEqual({ code: 0, stderr: "", left: [] });
    expect(stdout).toMatch(/✗ server \d+ was killed/);
    expect(stdout).toContain("8 invoices, each of them paid once");
  });
});
