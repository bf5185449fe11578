import { define } from "./body.mjs";

define(
  (name, work) => test(name, work, 120_000),
  (actual, expected) => expect(actual).toBe(expected),
);
