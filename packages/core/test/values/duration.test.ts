// Job: prove how durations are read and written.
// Owns: parseDuration, formatDuration.
// Invariants: whole milliseconds from 0 to 10,000 years, or InvalidInputError that names the value.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidInputError } from "../../src/errors/index.ts";
import { formatDuration, parseDuration } from "../../src/values/index.ts";

const TEN_THOUSAND_YEARS = 10_000 * 365.25 * 86_400_000;

describe("parseDuration", () => {
  it.each([
    [0, 0],
    [1500, 1500],
    [TEN_THOUSAND_YEARS, TEN_THOUSAND_YEARS],
    ["0ms", 0],
    ["250ms", 250],
    ["30s", 30_000],
    ["5m", 300_000],
    ["1h30m", 5_400_000],
    ["7d", 604_800_000],
    ["2w", 1_209_600_000],
    ["1.5s", 1_500],
    ["1.1s", 1_100],
    ["0.1s", 100],
    ["1d2h3m", 93_780_000],
    ["1w1d1h1m1s1ms", 694_861_001],
  ])("reads %j as %d ms", (duration, ms) => {
    expect(parseDuration(duration)).toBe(ms);
  });

  it("K8 a part of a millisecond counts as a whole one, so that no timer is early", () => {
    expect(parseDuration(0.4)).toBe(1);
    expect(parseDuration("0.4ms")).toBe(1);
    expect(parseDuration(12.000_001)).toBe(13);
  });

  it("the longest from now is a time that a Date can say", () => {
    expect(Number.isNaN(new Date(Date.now() + parseDuration(TEN_THOUSAND_YEARS)).getTime())).toBe(false);
  });

  it("-0 is 0", () => {
    expect(parseDuration(-0)).toBe(0);
  });

  it.each([
    [-1],
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [TEN_THOUSAND_YEARS + 1],
    [8.64e15],
    ["530000w"],
    [""],
    ["5"],
    ["s"],
    ["-5s"],
    ["+5s"],
    ["5 minutes"],
    ["5min"],
    ["5S"],
    [" 5s"],
    ["5s "],
    ["5s\n"],
    ["1h 30m"],
    [".5s"],
    ["5.s"],
    ["1e3s"],
    ["0x10s"],
    ["30m1h"],
    ["1s1s"],
    ["1ms1s"],
    ["99999999999999999w"],
    [null],
    [undefined],
    [true],
    [{}],
    [["1s"]],
  ])("refuses %j, and names it", (duration) => {
    const refusal = (): number => parseDuration(duration);
    expect(refusal).toThrow(InvalidInputError);
    expect(refusal).toThrow(/invalid duration: .+ is not a duration/);
    if (typeof duration === "string") expect(refusal).toThrow(JSON.stringify(duration));
  });
});

describe("formatDuration", () => {
  it.each([
    [0, "0ms"],
    [250, "250ms"],
    [5_400_000, "1h30m"],
    [604_800_000, "7d"],
    [1_209_600_001, "14d1ms"],
    [93_784_005, "1d2h3m4s5ms"],
    [0.4, "0ms"],
    [-1_500, "-1s500ms"],
    [Number.NaN, "NaNms"],
  ])("writes %d ms as %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  it("is read back by parseDuration, to the millisecond", () => {
    fc.assert(
      fc.property(fc.nat({ max: TEN_THOUSAND_YEARS }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toBe(ms);
      }),
    );
  });
});
