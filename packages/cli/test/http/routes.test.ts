// The table of routes, ids in paths, and errors as problem documents.

import {
  InvalidInputError,
  LimitExceededError,
  QueryFailedError,
  RunAlreadyExistsError,
  RunClosedError,
  RunNotFoundError,
  RunOpenError,
  ScheduleNotFoundError,
  UnserializableValueError,
  UnsupportedError,
  UpdateFailedError,
  UpdateRejectedError,
} from "@holdfast/core";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { idOf, pathSegment } from "../../src/api/ids.ts";
import { ConsoleError, consoleError, exitCodeOf, problemOf, refusal } from "../../src/api/problem.ts";
import { type CheckedRequest, ROUTE_IDS, routeOf } from "../../src/api/routes.ts";

describe("the table of routes", () => {
  test("has one route for each method and path, and each can be written as JSON Schema", () => {
    const seen = new Set<string>();
    for (const id of ROUTE_IDS) {
      const { method, path, params, query, body, returns } = routeOf(id);
      expect(seen).not.toContain(`${method} ${path}`);
      seen.add(`${method} ${path}`);
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      expect(Object.keys((params as z.ZodObject | undefined)?.shape ?? {})).toEqual(names);
      for (const schema of [query, body]) if (schema !== undefined) z.toJSONSchema(schema, { io: "input" });
      if (id !== "runs.signal") z.toJSONSchema(returns);
    }
    expect(seen.size).toBe(ROUTE_IDS.length);
  });

  test("a role is needed for everything that changes something", () => {
    const reads = ROUTE_IDS.filter((id) => routeOf(id).role === "read");
    expect(reads.filter((id) => routeOf(id).method !== "GET")).toEqual(["runs.query"]);
  });

  test("query parameters are text outside, typed inside, and unknown ones are refused", () => {
    const query = routeOf("runs.list").query as z.ZodType<CheckedRequest<"runs.list">["query"], Record<string, unknown>>;
    const typed = {
      status: ["failed" as const, "blocked" as const],
      workflow: ["a", "b"],
      attr: { tenant: 42, code: "42", name: "x y", is: true },
      since: new Date(1_700_000_000_000),
      limit: 20,
      values: true,
    };
    const text = z.encode(query, typed);
    expect(text).toEqual({
      status: "failed,blocked",
      workflow: ["a", "b"],
      attr: { tenant: "42", code: '"42"', name: "x y", is: "true" },
      since: "2023-11-14T22:13:20.000Z",
      limit: "20",
      values: "true",
    });
    expect(query.parse(text)).toEqual(typed);
    expect(query.parse({ since: "24h" }).since).toBeInstanceOf(Date);
    expect(query.parse({ status: ["failed", "blocked,pending"] }).status).toEqual(["failed", "blocked", "pending"]);
    for (const bad of [
      { limit: "0" },
      { limit: "201" },
      { limit: "x" },
      { nonsense: "1" },
      { status: "odd" },
      { since: "soon" },
      { values: "yes" },
    ])
      expect(query.safeParse(bad).success, JSON.stringify(bad)).toBe(false);
  });
});

describe("ids in paths", () => {
  test.each(["ord-7", "a.b_c@1!x", "parent/child#2", "count", ".", "..", "ü/☃", "~x", "a%2Fb", " ", "%", "\u0000"])(
    "%j comes back",
    (id) => {
      const segment = pathSegment(id);
      expect(segment).toMatch(/^[A-Za-z0-9._@!~-]+|%40$/);
      expect(segment).not.toContain("/");
      expect(["count", ".", ".."]).not.toContain(segment);
      expect(idOf(segment)).toBe(id);
    },
  );
  test("the server accepts base64url for any id, and refuses what is not text", () => {
    expect(idOf(`~${Buffer.from("ord-7").toString("base64url")}`)).toBe("ord-7");
    expect(idOf("~%41")).toBeUndefined();
    expect(idOf("%E0%A4%A")).toBeUndefined();
    expect(idOf(`~${Buffer.from([0xff, 0xfe]).toString("base64url")}`)).toBeUndefined();
  });
});

describe("problem documents", () => {
  const runId = "ord-7";
  test.each([
    [new InvalidInputError({ what: "start", issues: [{ message: "no", path: ["a"] }] }), 400, 4],
    [new UnserializableValueError({ path: "a", kind: "function" } as never), 400, 4],
    [refusal("HF_UNAUTHORIZED", "no"), 401, 4],
    [refusal("HF_FORBIDDEN", "no"), 403, 4],
    [new RunNotFoundError({ runId }), 404, 3],
    [new ScheduleNotFoundError({ schedule: "s" }), 404, 3],
    [new RunClosedError({ runId, status: "failed" }), 409, 4],
    [new RunOpenError({ runId }), 409, 4],
    [new RunAlreadyExistsError({ runId }), 409, 4],
    [refusal("HF_NO_CODE", "no"), 409, 4],
    [new UnsupportedError({ feature: "fork", host: "Temporal" }), 501, 4],
    [new LimitExceededError({ what: "a", limit: "payloadBytes", max: 1 } as never), 413, 4],
    [new UpdateRejectedError({ update: "u", reason: "no" }), 422, 4],
    [new UpdateFailedError({ update: "u" }), 422, 4],
    [new QueryFailedError({ query: "q", reason: "no" }), 422, 4],
    [Object.assign(new Error("gone"), { code: "HF_STORE_UNAVAILABLE" }), 503, 1],
    [Object.assign(new Error("slow"), { code: "HF_WAIT_TIMEOUT" }), 504, 7],
    [new TypeError("a bug"), 500, 1],
  ])("%s", (error, status, exit) => {
    const shown = consoleError(error);
    expect(shown).toBeInstanceOf(ConsoleError);
    expect([shown.status, shown.exitCode]).toEqual([status, exit]);
    const problem = shown.toProblem();
    expect(problem.type).toBe(`urn:holdfast:${problem.code}`);
    expect(problemOf(JSON.parse(JSON.stringify(problem)))).toEqual(problem);
  });
  test("the issues of a refused value come along, and a message has its advice apart", () => {
    const shown = consoleError(new InvalidInputError({ what: "start", issues: [{ message: "is odd", path: ["a", 0] }] }));
    expect(shown.issues).toEqual([{ message: "is odd", path: ["a", 0] }]);
    expect(shown.detail).not.toContain("\n");
    expect(shown.advice).toBe("Fix the value and retry.");
  });
  test("an error that is not from Holdfast has no advice", () => {
    expect(consoleError(new TypeError("a bug"))).toMatchObject({ code: "HF_ERROR", detail: "a bug", advice: null });
  });
  test("a caller without values gets no text of user code", () => {
    const secret = new UpdateFailedError({ update: "u", cause: new Error("secret") });
    expect(JSON.stringify(consoleError(secret, true).toProblem())).not.toContain("secret");
    expect(JSON.stringify(consoleError(new Error("secret"), true).toProblem())).not.toContain("secret");
    expect(consoleError(new RunNotFoundError({ runId }), true).detail).toContain(runId);
  });
  test("what is not a problem document is not taken for one", () => {
    expect(problemOf("<html>")).toBeUndefined();
    expect(problemOf({ status: 502 })).toBeUndefined();
    expect(exitCodeOf(502)).toBe(1);
  });
});
