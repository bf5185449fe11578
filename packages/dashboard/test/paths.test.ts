import { expect, test } from "vitest";
import { decodeSegment, encodeSegment, queryText, viewAt } from "../src/base/paths.ts";

test("a plain id is readable in an address; any other is sent in base64url", () => {
  expect(encodeSegment("ord-7")).toBe("ord-7");
  expect(encodeSegment("order-7/ship#1")).toBe("~b3JkZXItNy9zaGlwIzE");
  expect(encodeSegment("a@b!c")).toBe("a%40b!c");
});

test.each(["count", ".", "..", "~x", "ü/ä", "100%", "a b", "", "漢字", "x".repeat(300)])(
  "the id %j comes back out of its address",
  (id) => {
    const segment = encodeSegment(id);
    expect(segment).toMatch(/^[A-Za-z0-9._!~%-]*$/);
    expect(segment).not.toMatch(/^(count|\.{1,2})$/);
    expect(decodeSegment(segment)).toBe(id);
  },
);

test("an address that was cut is not an id", () => {
  expect(decodeSegment("~/w")).toBeUndefined();
  expect(decodeSegment("%E0%A4%A")).toBeUndefined();
});

test("views by path", () => {
  expect(viewAt("")).toEqual({ page: "runs" });
  expect(viewAt("runs")).toEqual({ page: "runs" });
  expect(viewAt("runs/~b3JkZXItNy9zaGlwIzE")).toEqual({ page: "run", id: "order-7/ship#1" });
  expect(viewAt("schedules/")).toEqual({ page: "schedules" });
  expect(viewAt("schedules/x")).toEqual({ page: "none" });
  expect(viewAt("runs/a/b")).toEqual({ page: "none" });
  expect(viewAt("other")).toEqual({ page: "none" });
});

test("a query leaves out what is absent, and keeps colons and commas readable", () => {
  expect(queryText({ q: "status:failed,blocked", cursor: undefined, status: [], limit: 50 })).toBe("?q=status:failed,blocked&limit=50");
  expect(queryText({})).toBe("");
});
