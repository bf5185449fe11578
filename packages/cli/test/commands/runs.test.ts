// `holdfast runs …` on a file, on Postgres, and over HTTP: JSON, exit codes, and what people see.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { jsonCodec } from "holdfast";
import { describe, expect, test } from "vitest";
import { ROUTES } from "../../src/api/routes.ts";
import { PLACES, placeOf } from "./places.ts";

const runInfo = ROUTES["runs.get"].returns;

describe.each(PLACES)("on %s", (name) => {
  const place = placeOf(name);
  const { call, callWith } = place;

  test("start, show, signal, result", async () => {
    const started = await call(
      "runs",
      "start",
      "order",
      '{"amount":30}',
      "--id",
      "order-1",
      "--attr",
      "tenant=42",
      "--attr",
      "name=acme",
      "--json",
    );
    expect([started.code, started.err]).toEqual([0, ""]);
    expect(started.json).toEqual({ id: "order-1", execution: 1 });
    await expect.poll(async () => (await call("runs", "show", "order-1", "--json")).json.run.waitingFor).toEqual(["signal approve"]);
    const shown = (await call("runs", "show", "order-1", "--json")).json;
    expect(Object.keys(shown)).toEqual(["run", "operations"]);
    expect(runInfo.parse(shown.run)).toMatchObject({
      workflow: "order",
      version: "2",
      input: { amount: 30 },
      attributes: { tenant: 42, name: "acme" },
      output: null,
    });
    ROUTES["runs.operations"].returns.parse(shown);
    expect(shown.operations).toMatchObject([
      { location: expect.stringContaining("charge"), kind: "step", status: "completed", output: "charged 30" },
      { kind: "signal", status: "waiting", endedAt: null },
    ]);
    expect((await call("runs", "why", "order-1", "--json")).json).toMatchObject({
      status: expect.any(String),
      reasons: [{ kind: "signal" }],
    });
    expect((await call("runs", "state", "order-1")).json).toEqual({ total: 30 });
    // The schema of the signal is checked before it is sent.
    const refused = await call("runs", "signal", "order-1", "approve", '{"by":7}', "--json");
    expect([refused.code, refused.out, refused.problem.code]).toEqual([4, "", "HF_INVALID_INPUT"]);
    expect((await call("runs", "signal", "order-1", "approve", '{"by":"ann"}', "--json")).code).toBe(0);
    const result = await call("runs", "result", "order-1", "--json");
    expect([result.code, result.json]).toEqual([0, { by: "ann", amount: 30 }]);
    expect((await call("runs", "signal", "order-1", "approve", '{"by":"ann"}', "--json")).problem).toMatchObject({
      code: "HF_RUN_CLOSED",
      status: 409,
    });
    expect((await call("runs", "start", "order", '{"amount":1}', "--id", "order-1")).code).toBe(4);
  });

  test("an input that the registered schema refuses: 4, with issues", async () => {
    const { code, out, problem } = await call("runs", "start", "order", '{"amount":"much"}', "--json");
    expect([code, out, problem.code, problem.status]).toEqual([4, "", "HF_INVALID_INPUT", 400]);
    expect(problem.issues).toEqual([{ message: expect.any(String), path: ["amount"] }]);
  });

  test("what does not exist: 3", async () => {
    for (const verb of ["show", "why", "state", "result", "cancel", "resume", "delete"]) {
      const { code, out, problem } = await call("runs", verb, "no-such-run", "--json");
      expect({ verb, code, out, problem: problem.code }).toEqual({ verb, code: 3, out: "", problem: "HF_RUN_NOT_FOUND" });
    }
    expect((await call("runs", "signal", "no-such-run", "go")).code).toBe(3);
    expect((await call("runs", "watch", "no-such-run", "--json")).code).toBe(3);
    expect((await call("runs", "fork", "no-such-run", "--from-failure")).code).toBe(3);
  });

  test("values come from files, standard input and tags", async () => {
    writeFileSync(join(place.cwd, "input.json"), '{"from":"file"}');
    const echoed = async (input: string, ...more: string[]): Promise<unknown> =>
      (await callWith({ stdin: '"typed"' }, "runs", "start", "echo", input, "--wait", "--json", ...more)).json.output;
    expect(await echoed("@input.json")).toEqual({ from: "file" });
    expect(await echoed("-")).toBe("typed");
    expect(await echoed("null")).toBe(null);
    // A date, as the default codec tags it; without --tagged it is an object like any other.
    const tagged = jsonCodec.encode(new Date(0));
    const stored = async (...more: string[]): Promise<unknown> => {
      const { id } = (await call("runs", "start", "echo", tagged, "--wait", "--json", ...more)).json;
      return place.engine().run(id).result();
    };
    expect(await stored("--tagged")).toEqual(new Date(0));
    expect(await stored()).toEqual(JSON.parse(tagged));
  });

  test("--wait prints the end; a failed one is 5", async () => {
    const done = await call("runs", "start", "echo", '["a"]', "--wait", "--json");
    expect([done.code, done.json]).toEqual([0, { id: expect.any(String), execution: 1, status: "completed", output: ["a"], error: null }]);
    const failed = await call("runs", "start", "fails", "--id", "fails-1", "--wait", "--json");
    expect(failed.code).toBe(5);
    expect(failed.json).toMatchObject({
      id: "fails-1",
      status: "failed",
      output: null,
      error: { message: expect.stringContaining("luck") },
    });
    expect(failed.problem.code).toBe("HF_RUN_FAILED");
    const result = await call("runs", "result", "fails-1", "--json");
    expect([result.code, result.out, result.problem.code]).toEqual([5, "", "HF_RUN_FAILED"]);
  });

  test("a wait that is over is 7", async () => {
    await call("runs", "start", "waits", "--id", "waits-1");
    for (const args of [
      ["runs", "result", "waits-1"],
      ["runs", "start", "waits", "--wait"],
    ]) {
      const { code, problem } = await call(...args, "--timeout", "20ms", "--json");
      expect([code, problem.code, problem.status]).toEqual([7, "HF_WAIT_TIMEOUT", 504]);
    }
    expect((await call("runs", "cancel", "waits-1")).code).toBe(0);
    expect((await call("runs", "result", "waits-1", "--json")).problem.code).toBe("HF_CANCELED");
  });

  test("updates print their answer; a rejected one is 4", async () => {
    await call("runs", "start", "cart", "--id", "cart-1");
    const answer = await call("runs", "update", "cart-1", "add", '{"n":2}', "--accept-within", "10s");
    expect([answer.code, answer.json]).toEqual([0, 2]);
    const rejected = await call("runs", "update", "cart-1", "add", '{"n":-1}', "--json");
    expect([rejected.code, rejected.out, rejected.problem.code, rejected.problem.status]).toEqual([4, "", "HF_UPDATE_REJECTED", 422]);
    await call("runs", "signal", "cart-1", "close");
    expect((await call("runs", "result", "cart-1")).json).toBe(2);
  });

  test("the same idempotency key starts once", async () => {
    const start = async (): Promise<string> => (await call("runs", "start", "echo", "1", "--idempotency-key", "k-1", "-o", "id")).out;
    expect(await start()).toBe(await start());
  });

  test("--like takes over what is not given", async () => {
    const like = ["runs", "start", "echo", '{"a":1}', "--id", "model", "--key", "acme", "--priority", "3", "--attr", "tenant=7"];
    expect((await call(...like, "--wait")).code).toBe(0);
    const copy = (await call("runs", "start", "--like", "model", "--attr", "tenant=8", "--wait", "--json")).json;
    expect(copy.output).toEqual({ a: 1 });
    expect((await call("runs", "show", copy.id, "--json")).json.run).toMatchObject({
      workflow: "echo",
      key: "acme",
      priority: 3,
      attributes: { tenant: 8 },
    });
    expect((await call("runs", "start", "--like", "no-such-run")).code).toBe(3);
  });

  test("lists: filters, formats, pages, counts", async () => {
    for (let i = 0; i < 7; i += 1) await call("runs", "start", "echo", String(i), "--id", `list-${i}`, "--attr", `n=${i % 2}`, "--wait");
    const list = async (...args: string[]) => call("runs", "list", "--id-prefix", "list-", ...args);
    const all = (await list("--json")).json;
    expect(all.cursor).toBe(null);
    expect(all.runs.map(({ id }: { id: string }) => id)).toEqual([6, 5, 4, 3, 2, 1, 0].map((i) => `list-${i}`));
    for (const run of all.runs) expect(runInfo.parse(run)).toMatchObject({ input: null, output: null });
    expect((await list("--attr", "n=1", "-o", "id")).out).toBe("list-5\nlist-3\nlist-1\n");
    expect((await list("--attr", 'n="1"', "--json")).json).toEqual({ runs: [], cursor: null });
    expect((await list("--limit", "2", "-o", "jsonl")).lines.map(({ id }) => id)).toEqual(["list-6", "list-5"]);
    const page = (await list("--limit", "3", "--json")).json;
    expect((await list("--limit", "2", "--cursor", page.cursor, "-o", "id")).out).toBe("list-3\nlist-2\n");
    expect((await list("--values", "--limit", "1", "--json")).json.runs[0]).toMatchObject({ input: 6, output: 6 });
    expect((await list("--status", "failed,blocked", "--json")).json.runs).toEqual([]);
    expect((await list("--open", "-o", "id")).out).toBe("");
    expect((await list("--closed", "--workflow", "echo", "--since", "1h", "-o", "id")).out.split("\n")).toHaveLength(8);
    expect((await list("--until", "1h", "--json")).json.runs).toEqual([]);
    expect((await list("--finished-since", "1h", "--finished-until", "2020-01-01T00:00:00Z", "--json")).json.runs).toEqual([]);
    const { counts } = (await list("--count", "--json")).json;
    expect(counts.completed).toEqual({ n: 7, capped: false });
    ROUTES["runs.count"].returns.parse({ counts });
    expect((await list("--cursor", "nonsense", "--json")).code).toBe(4);
  });

  test("tables fit the terminal, and hostile text is escaped", async () => {
    await call("runs", "start", "fails", "--id", "fails-2", "--attr", "x=\u001b[2J世界", "--wait");
    for (const args of [
      ["runs", "list", "--id-prefix", "fails-2"],
      ["runs", "list", "--id-prefix", "fails-2", "-o", "wide"],
      ["runs", "show", "fails-2"],
      ["runs", "show", "fails-2", "--timeline"],
      ["runs", "show", "fails-2", "--history"],
      ["runs", "why", "fails-2"],
    ]) {
      const { code, out } = await callWith({ columns: 60, env: { NO_COLOR: "1" } }, ...args);
      expect(code).toBe(0);
      expect(out).toContain("fails-2");
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they must not be there
      expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
      if (args.includes("list")) for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(60);
    }
    const failed = await callWith({ columns: 60, env: { NO_COLOR: "1" } }, "runs", "result", "fails-2");
    expect(failed.err).toContain("no \\x1b[31mluck\\u202e");
    expect(JSON.parse((await call("runs", "show", "fails-2", "--json")).out).run.error.message).toContain("no \u001b[31mluck\u202e");
  });

  test("the timeline is drawn: attempts, failures, workers", async () => {
    const { out } = await callWith({ columns: 80, env: { NO_COLOR: "1" } }, "runs", "show", "fails-1", "--timeline");
    const line = out.split("\n").find((one) => one.startsWith("breaks"));
    expect(line).toMatch(/x/);
    expect(out).toMatch(/^workers +a/m);
    const { json } = await call("runs", "show", "fails-1", "--timeline", "--json");
    ROUTES["runs.timeline"].returns.parse(json.timeline);
    expect(json.timeline.operations.find(({ name }: { name: string }) => name === "breaks").attempts).toHaveLength(2);
  });

  test("the history is a file for replay", async () => {
    const { json } = await call("runs", "show", "fails-1", "--history", "--json");
    expect(json).toMatchObject({ format: "holdfast-history/1", run: { id: "fails-1", workflow: "fails", status: "failed" } });
    expect(json.turns.length).toBeGreaterThan(0);
    expect(await place.engine().run("fails-1").history()).toMatchObject({ turns: json.turns });
    expect((await call("runs", "show", "fails-1", "--history", "--execution", "1", "-o", "jsonl")).lines).toEqual(json.turns);
  });

  test("watch prints each change until the end", async () => {
    await call("runs", "start", "waits", "--id", "watched");
    let seen = "";
    const watching = callWith({ onOutput: (text) => (seen += text) }, "runs", "watch", "watched", "-o", "jsonl");
    await expect.poll(() => seen).toContain("signal go");
    await call("runs", "signal", "watched", "go");
    const { code, lines } = await watching;
    expect(code).toBe(0);
    for (const line of lines) expect(line).toMatchObject({ time: expect.any(String), runId: "watched", status: expect.any(String) });
    expect(lines.at(-1).status).toBe("completed");
    expect(await call("runs", "watch", "fails-1", "-o", "jsonl")).toMatchObject({ code: 5, lines: [{ status: "failed" }] });
    expect((await call("runs", "watch", "watched", "--json")).json).toMatchObject({
      runId: "watched",
      status: "completed",
      changes: [{ status: "completed" }],
    });
    await call("runs", "start", "waits", "--id", "watched-2");
    const late = await call("runs", "watch", "watched-2", "--timeout", "10ms", "--json");
    expect(late).toMatchObject({ code: 7, out: "", problem: { code: "HF_WAIT_TIMEOUT", retryable: true } });
    await call("runs", "start", "waits", "--id", "~watched, too");
    await call("runs", "signal", "~watched, too", "go");
    expect(await call("runs", "watch", "~watched, too", "-o", "jsonl")).toMatchObject({ code: 0 });
  });

  test("fork from the last failure, or before a location", async () => {
    const forked = await call("runs", "fork", "fails-1", "--from-failure", "--id", "fork-1", "--json");
    expect([forked.code, forked.json]).toEqual([0, { id: "fork-1", execution: 1 }]);
    expect((await call("runs", "show", "fork-1", "--json")).json.run).toMatchObject({ forkedFrom: "fails-1", workflow: "fails" });
    expect((await call("runs", "fork", "model", "--from-failure")).code).toBe(4);
    expect((await call("runs", "fork", "fails-1", "--before", "nowhere", "--json")).code).toBe(4);
  });

  test("a query needs the code: 4 where there is none", async () => {
    const query = await call("runs", "query", "order-1", "total", "--json");
    // The process of the console has it: its worker.
    if (name === "http") expect([query.code, query.json]).toEqual([0, 30]);
    else expect([query.code, query.out, query.problem.code, query.problem.status]).toEqual([4, "", "HF_NO_CODE", 409]);
  });

  test("children are listed by their parent", async () => {
    await call("runs", "start", "parent", "--id", "parent-1", "--wait");
    const { runs } = (await call("runs", "list", "--parent", "parent-1", "--json")).json;
    expect(runs).toMatchObject([{ workflow: "echo", parentId: "parent-1" }]);
    // Its id has characters that paths can't have.
    expect((await call("runs", "show", runs[0].id, "--json")).json.run.id).toBe(runs[0].id);
  });
});
