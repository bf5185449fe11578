import { expect, test } from "vitest";
import { define } from "./body.mjs";

define(
  (name, work) => test(name, { timeout: 120_000 }, work),
  (actual, expected) => expect(actual).toBe(expected),
);
