// What a worker is given to serve. It claims only what it has code for, so it must not be without any by mistake.

import { activity, Holdfast, InvalidInputError, type WorkerOptions, workflow } from "holdfast";
import { testEngine } from "holdfast/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { errorOf } from "./engines.ts";

const order = workflow("order", async (_ctx, item: string) => `${item} shipped`);
const versioned = (version: string, serves: readonly string[] | "*" = []) => workflow({ name: "order", version, serves }, async () => {});
const mail = activity("mail", async (to: string) => to);
const bare = Object.create(null) as object;

describe("definitions of a worker", () => {
  let engine: Holdfast;
  beforeAll(async () => {
    engine = await Holdfast.open("memory:");
  });
  afterAll(() => engine.close());

  test.each<[string, Record<string, unknown>, string]>([
    ["a workflow without a list", { workflows: order }, 'worker.workflows: Expected a list, got workflow "order": put it in brackets.'],
    ["an activity without a list", { workflows: [], activities: mail }, 'worker.activities: Expected a list, got activity "mail"'],
    ["an activity for a list of workflows", { workflows: mail }, "worker.workflows: The object contains no workflow. Pass a list"],
    ["an object without workflows", { workflows: { mail, limit: 5 } }, "worker.workflows: The object contains no workflow"],
    ["an object of nothing", { workflows: {} }, "To serve none, pass []."],
    ["an object without activities", { workflows: [order], activities: { order } }, "worker.activities: The object contains no activity"],
    ["nothing", {}, "Expected a list, or the exports of a module, got undefined."],
    ["a name", { workflows: "order" }, 'Expected a list, or the exports of a module, got "order".'],
    ["a bare function", { workflows: [order.run] }, "Expected a workflow made by workflow(name, run), got a function."],
    ["a name in a list", { workflows: [order, "order"] }, 'Expected a workflow made by workflow(name, run), got "order".'],
    ["an activity among workflows", { workflows: [mail] }, 'Expected a workflow made by workflow(name, run), got activity "mail".'],
    ["a list in a list", { workflows: [[order]] }, "Expected a workflow made by workflow(name, run), got a list."],
    ["what can't be printed", { workflows: [bare] }, "Expected a workflow made by workflow(name, run), got an object."],
    [
      "a workflow among activities",
      { workflows: [], activities: [order] },
      'Expected an activity made by activity(name, run), got workflow "order".',
    ],
    [
      "two of a name without versions",
      { workflows: [order, workflow("order", async () => {})] },
      'There are two workflows "order" without a version. Give each its own version, or remove one.',
    ],
    [
      "two of a name and version",
      { workflows: [versioned("1"), versioned("2"), versioned("2")] },
      'There are two workflows "order" of version "2". Give each its own version, or remove one.',
    ],
    [
      "two that serve a version which has no definition of its own",
      { workflows: [versioned("2", ["1"]), versioned("3", ["1"])] },
      'Two workflows "order" serve version "1": the one of version "2" and the one of version "3". Keep it in the serves of only one of them.',
    ],
    [
      "two that serve all others",
      { workflows: [versioned("2", "*"), order, versioned("3", "*")] },
      'Two workflows "order" serve all other versions: the one of version "2" and the one of version "3". Keep serves: "*" in only one of them.',
    ],
    [
      "two activities of a name",
      { workflows: [], activities: [mail, activity("mail", () => {})] },
      'worker.activities: Duplicate name "mail".',
    ],
  ])("%s is refused, and the message says what to do", async (_, options, message) => {
    const error = await errorOf(engine.worker(options as unknown as WorkerOptions));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error).toMatchObject({ code: "HF_INVALID_INPUT" });
    expect(error.message).toContain(message);
  });

  test("a test engine refuses a workflow without a list", async () => {
    const error = await errorOf(testEngine({ workflows: order as never }));
    expect(error).toBeInstanceOf(InvalidInputError);
  });

  test("lists, empty ones too, and exports among other exports are served", async () => {
    const idle = await engine.worker({ workflows: [], activities: [mail] });
    await engine.worker({ workflows: { order, limit: 5, mail }, activities: { order, mail } });
    await idle.stop();
    expect(await (await engine.start(order, "lamp")).result()).toBe("lamp shipped");
  });
});
