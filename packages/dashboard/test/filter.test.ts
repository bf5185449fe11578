import { expect, test } from "vitest";
import { OPEN_STATUSES } from "../src/base/statuses.ts";
import { attributeWord, bulkFilter, filterOf, textOf, toggleStatus, wordsOf } from "../src/runs/filter.ts";

const NOW = Date.parse("2026-01-02T00:00:00.000Z");

test("words become parameters of the API", () => {
  const { query, statuses, problems } = filterOf(
    'status:failed,blocked workflow:"send mail" attr.tenant:42 queue:slow since:24h ord-',
    NOW,
  );
  expect(statuses).toEqual(["failed", "blocked"]);
  expect(query).toEqual({ workflow: "send mail", "attr.tenant": "42", queue: "slow", since: "24h", idPrefix: "ord-" });
  expect(problems).toEqual([]);
});

test("open and closed stand for several statuses", () => {
  expect(filterOf("status:open", NOW).statuses).toEqual(OPEN_STATUSES);
  expect(filterOf("status:open,failed", NOW).statuses).toEqual([...OPEN_STATUSES, "failed"]);
  expect(filterOf("status:closed", NOW).statuses).toContain("completed");
});

test("what can't be understood is said", () => {
  expect(filterOf("status:broken", NOW).problems[0]).toContain('"broken" is not a status');
  expect(filterOf("since:yesterday", NOW).problems[0]).toContain('"yesterday" is not a time');
  expect(filterOf("colour:red", NOW).problems[0]).toContain('"colour:" is unknown');
});

test.each([
  "status:failed workflow:order",
  'workflow:"send mail" ord-',
  "attr.a.b:x:y",
  "id:~x",
  'attr.zip:"10115"',
  'key:"a \\"b\\""',
  'key:""',
])("%j survives reading and writing", (text) => {
  expect(textOf(wordsOf(text))).toBe(text);
});

test("an attribute that is a text and looks like a number is found by its text", () => {
  expect(filterOf("attr.zip:10115", NOW).query).toEqual({ "attr.zip": "10115" });
  expect(filterOf('attr.zip:"10115"', NOW).query).toEqual({ "attr.zip": '"10115"' });
  expect(bulkFilter(filterOf('attr.zip:"10115"', NOW), OPEN_STATUSES, NOW)["attributes"]).toEqual({ zip: "10115" });
});

test.each([42, "42", true, "true", "New York", 'say "hi"', "a\\b", "plain", ""])("the link of the attribute %j finds it", (value) => {
  const text = textOf([attributeWord("x", value)]);
  expect(bulkFilter(filterOf(text, NOW), OPEN_STATUSES, NOW)["attributes"]).toEqual({ x: value });
});

test("a toggle adds its status, and takes it out again", () => {
  const failed = toggleStatus("workflow:order", "failed");
  expect(failed).toBe("status:failed workflow:order");
  expect(toggleStatus(failed, "blocked")).toBe("status:failed,blocked workflow:order");
  expect(toggleStatus(failed, "failed")).toBe("workflow:order");
});

test("a bulk action is limited to the runs that it applies to, and is never without a filter", () => {
  expect(bulkFilter(filterOf("", NOW), OPEN_STATUSES, NOW)).toEqual({ status: OPEN_STATUSES });
  expect(bulkFilter(filterOf("status:running,completed attr.tenant:42 attr.name:x since:1h", NOW), OPEN_STATUSES, NOW)).toEqual({
    status: ["running"],
    attributes: { tenant: 42, name: "x" },
    since: "2026-01-01T23:00:00.000Z",
  });
});
