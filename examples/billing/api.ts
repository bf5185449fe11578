// The HTTP side: a function from Request to Response, as Hono, Next, Bun and Deno take it. server.ts puts it behind node:http.

import { createHmac, timingSafeEqual } from "node:crypto";
import { type Holdfast, RunAlreadyExistsError, RunClosedError, RunNotFoundError, UpdateRejectedError } from "holdfast";
import { isPlan, seatsProblem, TERMS, type Terms } from "./plans.ts";
import { type Decision, type RefundRequest, refund } from "./refund.ts";
import { type PlanChange, type SignUp, subscription } from "./subscription.ts";

export interface ApiOptions {
  readonly engine: Holdfast;
  /** The secret that the payment provider signs its webhooks with. */
  readonly secret: string;
  /** Of new subscriptions. */
  readonly terms?: Terms;
}
/** What the provider sends. It repeats an event until it gets a 2xx, and sometimes after that, too. */
export interface ProviderEvent {
  readonly id: string;
  readonly type: string;
  readonly subscription: string;
  readonly card?: string;
}

export function createApi({ engine, secret, terms = TERMS }: ApiOptions): (request: Request) => Promise<Response> {
  return async (request) => {
    const [, kind, id = "", action] = new URL(request.url).pathname.split("/");
    const body = await request.text();
    try {
      switch (`${request.method} ${kind}${action === undefined ? "" : `/${action}`}`) {
        case "POST subscriptions": {
          const signUp = parseSignUp(body);
          await engine.start(subscription, { ...signUp, terms }, { id, attributes: { tenant: signUp.tenant } });
          return Response.json({ id }, { status: 201 });
        }
        case "GET subscriptions":
          return Response.json(await engine.run(id, subscription).query("summary"));
        case "GET subscriptions/history":
          return Response.json(await engine.run(id, subscription).query("history"));
        case "POST subscriptions/plan": {
          const change: PlanChange = JSON.parse(body);
          // The run may be in the middle of something, such as a mail: the update waits until it is accepted.
          return Response.json(await engine.run(id, subscription).update("changePlan", change, { acceptWithin: "10s" }));
        }
        case "POST refunds": {
          const wanted: RefundRequest = JSON.parse(body);
          await engine.start(refund, wanted, { id });
          return Response.json({ id }, { status: 201 });
        }
        case "POST refunds/decision": {
          const decision: Decision = JSON.parse(body);
          return Response.json({ answer: await engine.run(id, refund).update("decide", decision, { acceptWithin: "10s" }) });
        }
        case "POST webhooks":
          return await receiveEvent(body, request.headers.get("x-signature") ?? "");
        default:
          return Response.json({ error: "There is nothing here." }, { status: 404 });
      }
    } catch (error) {
      const status = statusOf(error);
      if (status === undefined) throw error;
      return Response.json({ error: (error as Error).message }, { status });
    }
  };

  async function receiveEvent(body: string, signature: string): Promise<Response> {
    if (!isEqual(signature, sign(body, secret))) return Response.json({ error: "The signature is wrong." }, { status: 401 });
    const event: ProviderEvent = JSON.parse(body);
    if (event.type !== "card.updated" || event.card === undefined) return Response.json({ ignored: event.type });
    // When this has returned, the event is durable, and the provider may forget it. The same event again is no second signal.
    await engine.run(event.subscription, subscription).signal("cardUpdated", { card: event.card }, { idempotencyKey: event.id });
    return Response.json({ received: event.id });
  }
}

class BadRequest extends Error {}

/** Checked by hand, to need no library. With one, its schema can be the `input` of the workflow: then `start` checks it for every caller. */
function parseSignUp(body: string): Omit<SignUp, "terms"> {
  const { tenant, email, card, plan, seats }: Partial<Record<keyof SignUp, unknown>> = JSON.parse(body);
  if (typeof tenant !== "string" || typeof email !== "string" || typeof card !== "string") {
    throw new BadRequest("tenant, email and card must be texts.");
  }
  if (typeof plan !== "string" || !isPlan(plan)) throw new BadRequest(`There is no plan ${plan}.`);
  const problem = seatsProblem(plan, seats);
  if (problem !== undefined || typeof seats !== "number") throw new BadRequest(problem ?? "seats must be a number.");
  return { tenant, email, card, plan, seats };
}

/** What is wrong with the request, and not with the server. */
function statusOf(error: unknown): number | undefined {
  if (error instanceof SyntaxError || error instanceof BadRequest) return 400;
  if (error instanceof RunNotFoundError) return 404;
  if (error instanceof UpdateRejectedError || error instanceof RunAlreadyExistsError) return 409;
  return error instanceof RunClosedError ? 410 : undefined;
}

export const sign = (body: string, secret: string): string => createHmac("sha256", secret).update(body).digest("hex");
const isEqual = (a: string, b: string): boolean => a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
