// `holdfast runs cancel|terminate|resume|delete`: by id and by filter, with previews and questions.

import { describe, expect, test } from "vitest";
import { ROUTES } from "../../src/api/routes.ts";
import { clientOf } from "../../src/client/index.ts";
import { PLACES, placeOf } from "./places.ts";

const OUTCOME = ROUTES["bulk.get"].returns;

describe.each(PLACES)("on %s", (name) => {
  const { call, callWith } = placeOf(name);
  const start = async (prefix: string, n: number, workflow = "waits"): Promise<string[]> => {
    const ids = Array.from({ length: n }, (_, i) => `${prefix}-${i}`);
    for (const id of ids) await call("runs", "start", workflow, "--id", id, "--attr", `set=${prefix}`);
    return ids;
  };
  const statuses = async (prefix: string): Promise<string[]> =>
    (await call("runs", "list", "--id-prefix", `${prefix}-`, "--json")).json.runs.map(({ status }: { status: string }) => status);

  test("by id: one, several, and some that fail", async () => {
    const [a = "", b = "", c = ""] = await start("ids", 3);
    const one = await call("runs", "cancel", a, "--reason", "enough", "--json");
    expect([one.code, OUTCOME.parse(one.json)]).toEqual([
      0,
      { status: "completed", matched: 1, done: 1, succeeded: 1, failed: 0, failures: [] },
    ]);
    expect((await call("runs", "result", a)).code).toBe(5);
    const closed = await call("runs", "terminate", a, "--yes", "--json");
    expect([closed.code, closed.out, closed.problem.code]).toEqual([4, "", "HF_RUN_CLOSED"]);
    expect((await call("runs", "resume", a, "--json")).problem).toMatchObject({ code: "HF_NOT_RESUMABLE", status: 409 });
    await call("runs", "start", "echo", "1", "--id", "ended", "--wait");
    expect((await call("runs", "cancel", "ended", "--json")).problem).toMatchObject({ code: "HF_RUN_CLOSED", status: 409 });
    const some = await call("runs", "cancel", b, "no-such-run", c, "--json");
    expect(some.code).toBe(1);
    expect(OUTCOME.parse(some.json)).toMatchObject({
      matched: 3,
      done: 3,
      succeeded: 2,
      failed: 1,
      failures: [{ id: "no-such-run", code: "HF_RUN_NOT_FOUND" }],
    });
  });

  test("terminate asks; without a terminal it needs --yes", async () => {
    const [a = "", b = ""] = await start("terminate", 2);
    expect((await call("runs", "terminate", a)).code).toBe(2);
    expect((await callWith({ columns: 80, stdin: "n\n" }, "runs", "terminate", a)).code).toBe(1);
    expect(await statuses("terminate")).not.toContain("terminated");
    const asked = await callWith({ columns: 80, stdin: "y\n" }, "runs", "terminate", a);
    expect([asked.code, asked.err]).toEqual([0, expect.stringContaining("Terminate 1 run? [y/N]")]);
    expect((await call("runs", "terminate", b, "--yes", "-o", "id")).out).toBe(`${b}\n`);
    expect(await statuses("terminate")).toEqual(["terminated", "terminated"]);
  });

  test("--dry-run prints the preview, and does nothing", async () => {
    const ids = await start("dry", 6);
    for (const args of [["--attr", "set=dry"], ids]) {
      const { code, json } = await call("runs", "cancel", ...args, "--dry-run", "--json");
      expect(code).toBe(0);
      expect(json).toMatchObject({ matched: 6, capped: false, byWorkflow: { waits: 6 } });
      expect(json.sample).toHaveLength(5);
      expect(json).not.toHaveProperty("token");
    }
    expect((await callWith({ columns: 80 }, "runs", "cancel", "--attr", "set=dry", "--dry-run")).out).toContain("Would cancel 6 runs");
    expect(await statuses("dry")).not.toContain("canceled");
  });

  test("by filter: preview, question, progress, result", async () => {
    await start("filter", 6);
    const unasked = await call("runs", "cancel", "--attr", "set=filter", "--json");
    expect([unasked.code, unasked.out, JSON.parse(unasked.err)]).toEqual([2, "", expect.objectContaining({ code: "HF_USAGE" })]);
    const no = await callWith({ columns: 80, stdin: "\n" }, "runs", "cancel", "--attr", "set=filter");
    expect(no.code).toBe(1);
    expect(no.err).toContain("Cancel 6 runs? [y/N]");
    expect(no.err).toContain("by workflow: waits 6");
    const yes = await callWith({ columns: 80, stdin: "yes\n" }, "runs", "cancel", "--attr", "set=filter");
    expect([yes.code, yes.out]).toEqual([0, "Cancelled 6 runs\n"]);
    await expect.poll(() => statuses("filter")).toEqual(Array.from({ length: 6 }, () => "canceled"));
    const none = await call("runs", "cancel", "--attr", "set=filter", "--yes", "--json");
    expect([none.code, OUTCOME.parse(none.json)]).toMatchObject([0, { matched: 0, done: 0 }]);
    const gone = await call("runs", "delete", "--attr", "set=filter", "--yes", "--json");
    expect([gone.code, OUTCOME.parse(gone.json)]).toMatchObject([0, { status: "completed", matched: 6, succeeded: 6, failed: 0 }]);
    expect(await statuses("filter")).toEqual([]);
  });

  test("resume, and delete of an open run", async () => {
    await call("runs", "start", "fails", "--id", "resume-0", "--wait");
    expect((await call("runs", "resume", "resume-0")).code).toBe(0);
    expect((await call("runs", "result", "resume-0")).code).toBe(5);
    await start("open", 1);
    expect((await call("runs", "delete", "open-0", "--json")).problem).toMatchObject({ code: "HF_RUN_OPEN", status: 409 });
    expect((await call("runs", "delete", "resume-0")).code).toBe(0);
    expect((await call("runs", "show", "resume-0")).code).toBe(3);
  });
});

describe("on a store without a worker", () => {
  const { call, engine } = placeOf("sqlite", { worker: false });
  test("the command itself carries out an action by filter", async () => {
    for (let i = 0; i < 3; i += 1) await engine().start("waits", undefined, { id: `alone-${i}` });
    const { code, out, err } = await call("runs", "terminate", "--workflow", "waits", "--yes", "--json");
    expect([code, err, JSON.parse(out)]).toMatchObject([0, "", { matched: 3, succeeded: 3 }]);
    // Its worker serves nothing that a form or a shell should offer.
    expect((await clientOf(engine()).call("workflows.list")).workflows).toEqual([]);
  });
});
