// The documentation comments of everything that users import: an editor shows them before any page is opened.
// A name has a comment, an option its default as @defaultValue, a call its errors as @throws, and what most users call an @example, which
// snippets.test.mjs compiles and runs.

import { describe, expect, test } from "vitest";
import { documented, examplesOf } from "./tsdoc.mjs";

/** What users call: these interfaces and classes with all their methods, */
const main = ["Holdfast", "Run", "Worker", "Schedules", "Queues", "UnitContext", "WorkflowContext", "AsyncHandlerContext"];
/** every function, class and constant of these entry points, */
const mainDoors = ["holdfast", "holdfast/testing"];
/** and these names, most of them options that users write. */
const names = [
  ...["OpenOptions", "WorkerOptions", "StartOptions", "WorkflowOptions", "ActivityOptions", "StepOptions", "ChildOptions", "LoopOptions"],
  ...["QueueSpec", "RetryPolicy", "Duration", "Codec", "TestEngineOptions", "TestEngine.now", "TestEngine.advance"],
];
/** Members of `main` that need none, and why. */
const withoutExample = new Map([
  ["Holdfast.with", "for stores and backends of your own, which are pages of code"],
  ["Holdfast.schedules", "its methods have one each"],
  ["Holdfast.queues", "its methods have one each"],
  ["Run.id", "a string"],
  ["Worker.id", "a string"],
  ["Worker.active", "a number; the example of Worker reads it"],
  ["UnitContext.signal", "steps have their own, in `info.signal`"],
]);

const doors = documented();
const all = [...doors].flatMap(([door, list]) => list.map((one) => ({ ...one, door })));
/** @param {typeof all} list */
const places = (list) => list.map(({ file, line, name }) => `${file}:${line} ${name}`);

describe("every name that users import, and every member of it,", () => {
  test("has a comment", () => {
    expect(places(all.filter(({ comment }) => comment === undefined))).toEqual([]);
  });
  test("has its default in @defaultValue, not in a sentence", () => {
    const inSentence = /(?<!the |no |a |The )\b[Dd]efault(:| "| \d| `|s to)/;
    expect(places(all.filter(({ comment = "" }) => inSentence.test(comment.split(/@(?:defaultValue|example)/)[0] ?? "")))).toEqual([]);
  });
  test("has its errors in @throws, not in a sentence", () => {
    const inSentence = /(?:\* |[.;] )[Tt]hrows (?:an? )?`?[A-Z]\w+Error\b/;
    expect(places(all.filter(({ comment = "" }) => inSentence.test(comment)))).toEqual([]);
  });
  test("names no rule of the contract: its readers have not read that", () => {
    // What hosts and stores are built from is for readers of the contract.
    const forAuthors = /^(@holdfast\/(core|host(\/.*)?|conformance(\/.*)?)|holdfast\/(store|backend))$/;
    const ruleId = /\b[A-Z]\d{1,2}\b/;
    const named = all.filter(({ door, comment = "" }) => !forAuthors.test(door) && ruleId.test(comment.split("@example")[0] ?? ""));
    expect(places(named)).toEqual([]);
  });
  test("says something that its own name does not", () => {
    const empty = all.filter(({ name, comment = "" }) => {
      const said = comment.replaceAll(/[^a-z]/gi, "").toLowerCase();
      return said === name.split(".").at(-1)?.toLowerCase() || said === "";
    });
    expect(places(empty)).toEqual([]);
  });
});

describe("what users call", () => {
  const isAccessor = (/** @type {string} */ name) => /^\w+\.\[/.test(name);
  const wanted = all.filter(({ name, door, isType }) => {
    const [owner = "", member, ...deeper] = name.split(".");
    if (names.includes(name) || (mainDoors.includes(door) && !isType && member === undefined)) return true;
    return main.includes(owner) && member !== undefined && deeper.length === 0 && !isAccessor(name) && !withoutExample.has(name);
  });
  test("has an example, which a test runs", () => {
    // The second overload of a call may leave the example to the first.
    const shown = new Set(wanted.filter((one) => examplesOf(one).length > 0).map(({ name }) => name));
    expect(places(wanted.filter(({ name }) => !shown.has(name)))).toEqual([]);
  });
  test("is what this file lists", () => {
    const known = new Set(all.map(({ name }) => name));
    expect([...main, ...names, ...withoutExample.keys()].filter((name) => !known.has(name))).toEqual([]);
  });
});
