// Filters of lists and counts: what is refused, with which words, and what reaches the store.

import { Holdfast, InvalidInputError, type RunFilter, workflow } from "holdfast";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { errorOf } from "./engines.ts";

const echo = workflow("echo", async (_ctx, input: unknown) => input);

describe("B1 filters", () => {
  let engine: Holdfast;
  beforeEach(async () => {
    engine = await Holdfast.open("memory:");
  });
  afterEach(() => engine.close());

  test.each<[unknown, RegExp]>([
    [{ attributes: { a: {} } }, /attribute "a" has an empty test/],
    [{ attributes: { a: { gt: undefined } } }, /attribute "a" has an empty test/],
    [{ attributes: { a: { gt: true } } }, /a range of booleans has no meaning/],
    [{ attributes: { a: { gte: false, lt: true } } }, /a range of booleans has no meaning/],
    [{ attributes: { a: { gt: 1, lt: "2" } } }, /a range with a number and a text/],
    [{ attributes: { a: { gt: null } } }, /gt must be a number or text, not null/],
    [{ attributes: { a: { gt: Number.NaN } } }, /"a" must be a string, a finite number or a boolean/],
    [{ attributes: { a: { lte: Number.POSITIVE_INFINITY } } }, /finite number/],
    [{ attributes: { a: { like: "x" } } }, /has no test "like". Tests: a value, in, prefix, gt/],
    [{ attributes: { a: { in: "abc" } } }, /in must be a list of values/],
    [{ attributes: { a: { in: [1, null] } } }, /"a" must be a string, a finite number or a boolean/],
    [{ attributes: { a: { in: [[1]] } } }, /"a" must be/],
    [{ attributes: { a: { in: Array.from({ length: 1_001 }, (_, i) => i) } } }, /at most 1,000 entries; a\.in has 1001/],
    [{ attributes: { a: { in: [1], gt: 0 } } }, /has in and gt: in and prefix can't be combined/],
    [{ attributes: { a: { prefix: 5 } } }, /prefix must be text, not 5/],
    [{ attributes: { a: ["x", "y"] } }, /not a list: use \{ in: \[\.\.\.\] \}/],
    [{ attributes: { a: null } }, /not null/],
    [{ attributes: { a: undefined } }, /"a" must be/],
    [{ attributes: { a: new Date(0) } }, /attribute "a" has an empty test/],
    [{ attributes: { a: 10n } }, /"a" must be/],
    [{ attributes: { a: Number.NaN } }, /finite number/],
    [{ attributes: { a: "x".repeat(1_025) } }, /"a" must have at most 1024 characters, not 1025/],
    [{ attributes: { ["n".repeat(129)]: 1 } }, /a name of 129 characters: at most 128/],
    [{ attributes: [] }, /attributes must be an object/],
    [{ attributes: "a=1" }, /attributes must be an object/],
    [{ workflow: ["a", 5] }, /workflow must be a name or a list of names/],
    [{ workflow: ["a", ""] }, /workflow must be non-empty text/],
    [{ workflow: {} }, /workflow/],
    [{ version: "" }, /version must be non-empty text/],
    [{ key: 5 }, /key/],
    [{ schedule: "" }, /schedule/],
    [{ idPrefix: "" }, /idPrefix must be non-empty text/],
    [{ idPrefix: "x".repeat(600) }, /at most 512/],
    [{ finishedSince: "yesterday" }, /finishedSince is not a valid Date/],
    [{ finishedUntil: new Date(Number.NaN) }, /finishedUntil is not a valid Date/],
    [{ attribute: { a: 1 } }, /Did you mean attributes/],
  ])("a filter that makes no sense is refused (%#)", async (filter, message) => {
    for (const call of [() => engine.list(filter as RunFilter), () => engine.count(filter as RunFilter)]) {
      const error = await errorOf(call());
      expect(error).toBeInstanceOf(InvalidInputError);
      expect(error.message).toMatch(message);
    }
  });

  test("attributes that can't be found are refused where they are set", async () => {
    for (const attributes of [{ a: "x".repeat(1_025) }, { ["n".repeat(129)]: 1 }, { a: Number.NaN }, { a: null }])
      await expect(engine.start(echo, 1, { attributes: attributes as never })).rejects.toBeInstanceOf(InvalidInputError);
    expect((await engine.list()).runs).toEqual([]);
    const tag = workflow("tag", async (ctx) => ctx.setAttributes({ a: "x".repeat(1_025) }));
    await engine.worker({ workflows: [tag] });
    const error = await errorOf((await engine.start(tag)).result());
    expect(error.message).toMatch(/"a" must have at most 1024 characters/);
  });

  test("all filters reach the store", async () => {
    const started = new Date();
    await engine.start(echo, 1, { id: "a-1", key: "k", version: "2", attributes: { n: 5, text: "abc" } });
    await engine.start(echo, 1, { id: "b-1", attributes: { n: 6, text: "abd" } });
    await engine.run("b-1").terminate();
    const ids = async (filter: RunFilter): Promise<string[]> => (await engine.list(filter)).runs.map(({ id }) => id).toSorted();
    expect(await ids({ key: "k" })).toEqual(["a-1"]);
    expect(await ids({ version: "2", workflow: ["echo", "other"] })).toEqual(["a-1"]);
    expect(await ids({ idPrefix: "b" })).toEqual(["b-1"]);
    expect(await ids({ finishedSince: started })).toEqual(["b-1"]);
    expect(await ids({ finishedUntil: started })).toEqual([]);
    expect(await ids({ schedule: "none" })).toEqual([]);
    expect(await ids({ attributes: { n: { gte: 5, lt: 6 }, text: { prefix: "ab" } } })).toEqual(["a-1"]);
    expect(await ids({ attributes: { n: { in: [5, 6] } }, status: "terminated" })).toEqual(["b-1"]);
    expect(await engine.count({ attributes: { n: { gt: 0 } } })).toMatchObject({ pending: 1, terminated: 1, capped: [] });
  });

  test("B2 a count stops at its limit, and says so", async () => {
    await engine.startMany(
      echo,
      [1, 2, 3].map((input) => ({ input })),
    );
    await (await engine.start(echo, 4)).terminate();
    expect(await engine.count({ limit: 2 })).toMatchObject({ pending: 2, terminated: 1, completed: 0, capped: ["pending"] });
    expect(await engine.count({ limit: 3 })).toMatchObject({ pending: 3, terminated: 1, capped: [] });
    for (const filter of [{ limit: 0 }, { limit: 10_001 }, { limit: 1.5 }, { cursor: "x" }] as RunFilter[])
      expect(await errorOf(engine.count(filter)), JSON.stringify(filter)).toBeInstanceOf(InvalidInputError);
  });
});
