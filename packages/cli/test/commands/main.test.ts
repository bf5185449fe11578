// The command line as a whole: help, versions, mistakes, and where results and errors go.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { holdfast } from "./run.ts";

test("help is a result: on standard output, with 0", async () => {
  for (const args of [[], ["--help"], ["help"]]) {
    const { code, out, err } = await holdfast(args);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toContain("Usage: holdfast <command>");
    for (const name of ["init", "runs", "schedules", "queues", "workers", "token", "doctor", "migrate", "completion"]) {
      expect(out).toMatch(new RegExp(`^  ${name}\\b`, "m"));
    }
  }
});

test("the help of a command has its options, the global ones and examples", async () => {
  const { code, out } = await holdfast(["runs", "start", "--help"]);
  expect(code).toBe(0);
  expect(out).toContain("--idempotency-key");
  expect(out).toContain("--namespace");
  expect(out).toContain("Examples:\n  holdfast runs start order");
});

test("the version is that of the package", async () => {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  expect(await holdfast(["--version"])).toMatchObject({ code: 0, out: `${version}\n`, err: "" });
});

test("mistakes are 2, on standard error, with what was meant", async () => {
  const typo = await holdfast(["run", "list"]);
  expect(typo).toMatchObject({ code: 2, out: "" });
  expect(typo.err).toContain("Did you mean runs?");
  expect(await holdfast(["runs", "lst"])).toMatchObject({ code: 2, err: expect.stringContaining("Did you mean list?") });
  expect(await holdfast(["runs", "list", "--statsu", "failed"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("Did you mean --status?"),
  });
  expect(await holdfast(["runs"])).toMatchObject({ code: 2, out: "", err: expect.stringContaining("needs a command") });
  expect(await holdfast(["runs", "show"])).toMatchObject({ code: 2, err: expect.stringContaining("missing required argument 'id'") });
  expect(await holdfast(["runs", "list", "-o", "xml"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("Allowed choices are table, wide"),
  });
  expect(await holdfast(["runs", "show", "a", "b"])).toMatchObject({ code: 2 });
});

test("with JSON a mistake is one line: a problem document", async () => {
  for (const args of [
    ["--json", "runs", "lst"],
    ["runs", "lst", "-o", "jsonl"],
    ["runs", "lst", "-ojson"],
    ["runs", "lst", "--output=json"],
  ]) {
    const { code, out, err, problem } = await holdfast(args);
    expect([code, out, err.split("\n").length]).toEqual([2, "", 2]);
    expect(problem).toEqual({
      type: "urn:holdfast:HF_USAGE",
      title: "Wrong usage",
      status: 400,
      detail: "unknown command 'lst'.",
      code: "HF_USAGE",
      retryable: false,
      advice: "(Did you mean list?)",
      issues: [],
    });
  }
});

test("an option that can't be read is 2, and names the option", async () => {
  const cases: [args: string[], says: string][] = [
    [["runs", "list", "--since", "yesterday"], "--since"],
    [["runs", "list", "--status", "fialed"], "--status"],
    [["runs", "list", "--open", "--closed"], "--open"],
    [["runs", "list", "--limit", "0"], "--limit"],
    [["runs", "list", "--attr", "tenant"], "--attr"],
    [["runs", "start", "order", "{bad"], "not JSON"],
    [["runs", "start", "order", ""], "empty"],
    [["runs", "start", "order", "@missing.json"], "missing.json"],
    [["runs", "start", "order", "-"], "empty"],
    [["runs", "start"], "--like"],
    [["runs", "start", "order", "--priority", "high"], "--priority"],
    [["runs", "start", "order", "--at", "tomorrow"], "--at"],
    [["runs", "start", "order", "--signal", "go={"], "--signal go"],
    [["runs", "signal", "a", "go", "text"], "not JSON"],
    [["runs", "fork", "a"], "--before"],
    [["runs", "fork", "a", "--before", "x", "--from-failure"], "--before"],
    [["runs", "show", "a", "--execution", "-1"], "--execution"],
    [["runs", "cancel"], "ids, or filters"],
    [["runs", "cancel", "a", "--open"], "not both"],
    [["runs", "terminate", "a"], "--yes"],
    [["schedules", "set", "s", "--workflow", "w"], "--cron"],
    [["schedules", "set", "s", "--workflow", "w", "--every", "often"], "--every"],
    [["schedules", "set", "s", "--cron", "* * * * *"], "--workflow"],
    [["queues", "set", "q"], "--concurrency"],
    [["queues", "set", "q", "--rate", "often"], "--rate"],
    [["queues", "set", "q", "--concurrency", "none"], "--concurrency"],
    [["token"], "--role"],
    [["token", "--role", "god"], "--role"],
    [["completion", "tcsh"], "bash, zsh, fish"],
    [["migrate", "--check", "--print"], "--print"],
    [["runs", "list", "--timeout", "soon"], "--timeout"],
    [["runs", "list", "--url", "ftp://x"], "scheme"],
    [["runs", "list", "--config", "missing.ts"], "missing.ts"],
    [["runs", "list", "--namespace", "two", "--url", "http://127.0.0.1:1/"], "its server decides"],
    [["runs", "list", "--token", "t"], "is a store"],
    [["runs", "list", "--url", ""], "--url is empty"],
    [["runs", "list", "--url", "http://"], "is not an address"],
    [["runs", "list", "--status", ""], "--status is empty"],
    [["runs", "list", "--status", "failed,"], "--status"],
    [["runs", "list", "--workflow", "order", "--workflow", ""], "--workflow is empty"],
    [["runs", "list", "--id-prefix", ""], "--id-prefix is empty"],
    [["runs", "cancel", "--workflow", "", "--yes"], "--workflow is empty"],
    [["runs", "list", "--namespace", ""], "--namespace is empty"],
    [["token", "--role", "read", "--url", "file:x.db"], "--url has no effect"],
    [["completion", "bash", "--namespace", "two"], "--namespace has no effect"],
    [["init", "--config", "x.ts"], "--config has no effect"],
    [["dev", "--timeout", "1s"], "--timeout has no effect"],
    [["worker", "--timeout", "1s"], "--timeout has no effect"],
    [["dashboard", "--timeout", "1s"], "--timeout has no effect"],
  ];
  for (const [args, says] of cases) {
    const { code, out, err } = await holdfast(args);
    expect({ args, code, out }).toEqual({ args, code: 2, out: "" });
    expect(err).toContain(says);
  }
});

test("variables of the environment that are for other commands are not a mistake", async () => {
  const env = { HOLDFAST_TOKEN: "t", HOLDFAST_URL: "file:x.db" };
  for (const args of [
    ["runs", "list"],
    ["token", "--role", "read"],
    ["completion", "fish"],
  ])
    expect({ args, code: (await holdfast(args, { env })).code }).toEqual({ args, code: 0 });
});

test("what a mistake quotes is escaped", async () => {
  const { err } = await holdfast(["runs", "start", "order", "\u001b[31m\u202e{"]);
  expect(err).toContain("\\x1b[31m\\u202e{");
  expect([err.includes("\u001b"), err.includes("\u202e")]).toEqual([false, false]);
});

test("a token is made from random bytes, and its hash is that of the token", async () => {
  const { createHash } = await import("node:crypto");
  const first = await holdfast(["token", "--role", "read", "--values", "--json"]);
  const second = await holdfast(["token", "--role", "admin", "--json"]);
  expect([first.code, first.err]).toEqual([0, ""]);
  expect(Object.keys(first.json)).toEqual(["token", "hash"]);
  expect(first.json.hash).toBe(`sha256:${createHash("sha256").update(first.json.token).digest("hex")}`);
  expect(second.json.token).not.toBe(first.json.token);
  const human = await holdfast(["token", "--role", "operate"], { columns: 80 });
  expect(human.err).toContain('role: "operate"');
});

test("a token that can't be sent is refused, and not shown; a line break at its end is none of it", async () => {
  for (const token of ["se\u0001cret", "se\ncret", "se cret", "secret€"]) {
    const args = ["runs", "list", "--url", "http://127.0.0.1:1/", "--json"];
    for (const done of [await holdfast([...args, "--token", token]), await holdfast(args, { env: { HOLDFAST_TOKEN: token } })]) {
      expect([done.code, done.problem.code]).toEqual([2, "HF_USAGE"]);
      expect(done.err).not.toMatch(/cret/);
    }
  }
  const sent = await holdfast(["runs", "list", "--url", "http://127.0.0.1:1/", "--json"], { env: { HOLDFAST_TOKEN: "secret\n" } });
  expect([sent.code, sent.problem.code]).toEqual([1, "HF_UNREACHABLE"]);
});

test("an interruption is 130", async () => {
  const stop = new AbortController();
  stop.abort();
  expect(await holdfast(["runs", "list", "--json"], { signal: stop.signal })).toMatchObject({ code: 130, out: "" });
});
