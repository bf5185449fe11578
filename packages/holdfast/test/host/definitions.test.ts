// What a worker is given to serve. It claims only what it has code for, so it must not be without any by mistake.

import { activity, Holdfast, InvalidInputError, type WorkerOptions, workflow } from "holdfast";
import { testEngine } from "holdfast/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { errorOf } from "../engine/engines.ts";

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
    [
      "a workflow without a list",
      { workflows: order },
      'worker.workflows: Give a list, not workflow "order" by itself: put it in brackets.',
    ],
    ["an activity without a list", { workflows: [], activities: mail }, 'worker.activities: Give a list, not activity "mail" by itself'],
    ["an activity for a list of workflows", { workflows: mail }, "worker.workflows: No workflow is in the object: give a list"],
    ["an object without workflows", { workflows: { mail, limit: 5 } }, "worker.workflows: No workflow is in the object"],
    ["an object of nothing", { workflows: {} }, "For none, give []."],
    ["an object without activities", { workflows: [order], activities: { order } }, "worker.activities: No activity is in the object"],
    ["nothing", {}, "Give a list, or the exports of a module, not undefined."],
    ["a name", { workflows: "order" }, 'Give a list, or the exports of a module, not "order".'],
    ["a bare function", { workflows: [order.run] }, "a function is no workflow: make one with workflow(name, fn)."],
    ["a name in a list", { workflows: [order, "order"] }, '"order" is no workflow: make one with workflow(name, fn).'],
    ["an activity among workflows", { workflows: [mail] }, 'activity "mail" is no workflow: make one with workflow(name, fn).'],
    ["a list in a list", { workflows: [[order]] }, "a list is no workflow"],
    ["what can't be printed", { workflows: [bare] }, "an object is no workflow"],
    [
      "a workflow among activities",
      { workflows: [], activities: [order] },
      'workflow "order" is no activity: make one with activity(name, fn).',
    ],
    [
      "two of a name without versions",
      { workflows: [order, workflow("order", async () => {})] },
      'There are two of the name "order" without a version. Give each a version of its own, or leave one out.',
    ],
    [
      "two of a name and version",
      { workflows: [versioned("1"), versioned("2"), versioned("2")] },
      'There are two of the name "order" of version "2". Give each a version of its own, or leave one out.',
    ],
    [
      "two that serve a version which has no definition of its own",
      { workflows: [versioned("2", ["1"]), versioned("3", ["1"])] },
      'Two of the name "order" serve version "1": the one of version "2" and the one of version "3". Leave it in the serves of one of them.',
    ],
    [
      "two that serve all others",
      { workflows: [versioned("2", "*"), order, versioned("3", "*")] },
      'Two of the name "order" serve all other versions: the one of version "2" and the one of version "3". Leave serves: "*" to one of them.',
    ],
    [
      "two activities of a name",
      { workflows: [], activities: [mail, activity("mail", () => {})] },
      'worker.activities: There are two of the name "mail".',
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
