// Job: prove what a filter of rejections withholds, and what it leaves as it was.
// Owns: an emitter that stands for the process.
// Invariants: X11.

import { EventEmitter } from "node:events";
import { withholdRejections } from "@holdfast/core";
import { expect, it } from "vitest";

function listening() {
  const emitter = new EventEmitter();
  const heard: unknown[] = [];
  for (const event of ["unhandledRejection", "rejectionHandled", "uncaughtException", "uncaughtExceptionMonitor"])
    emitter.on(event, (what) => heard.push(what));
  return { emitter, heard };
}
const isOurs = (reason: unknown) => reason === "ours";
const promise = Promise.resolve();

it("X11 what is a workflow's reaches no listener, also where Node takes it for an uncaught exception first; the rest does", () => {
  const { emitter, heard } = listening();
  const stop = withholdRejections(emitter, { isOurs });
  expect(emitter.emit("unhandledRejection", "ours", promise)).toBe(true);
  expect(emitter.emit("rejectionHandled", promise)).toBe(true);
  for (const event of ["uncaughtExceptionMonitor", "uncaughtException"]) {
    expect(emitter.emit(event, "ours", "unhandledRejection")).toBe(true);
    emitter.emit(event, "ours", "uncaughtException");
  }
  emitter.emit("unhandledRejection", "theirs", Promise.resolve());
  expect(heard).toEqual(["ours", "ours", "theirs"]);
  stop();
});

it("X11 a filter is notified when a promise that was withheld is handled after all", () => {
  const { emitter } = listening();
  const handled: unknown[] = [];
  const stop = withholdRejections(emitter, { isOurs, onHandled: (one) => handled.push(one) });
  emitter.emit("unhandledRejection", "ours", promise);
  emitter.emit("rejectionHandled", promise);
  emitter.emit("rejectionHandled", Promise.resolve());
  expect(handled).toEqual([promise]);
  stop();
});

it("X11 nothing is patched any more once the last filter is gone", () => {
  const { emitter, heard } = listening();
  const stops = [withholdRejections(emitter, { isOurs }), withholdRejections(emitter, { isOurs })];
  for (const stop of stops) {
    expect(Object.hasOwn(emitter, "emit")).toBe(true);
    stop();
  }
  expect(Object.hasOwn(emitter, "emit")).toBe(false);
  emitter.emit("unhandledRejection", "ours", promise);
  expect(heard).toEqual(["ours"]);
});

it("X11 others may wrap emit as well, or put back what they knew: each filter is in force, and wrappers don't pile up", () => {
  const { emitter, heard } = listening();
  const known = emitter.emit;
  let stop = withholdRejections(emitter, { isOurs });
  emitter.emit = known;
  const again = withholdRejections(emitter, { isOurs });
  emitter.emit("unhandledRejection", "ours", promise);
  stop();
  again();
  let depth = 0;
  for (let i = 0; i < 10; i++) {
    stop = withholdRejections(emitter, { isOurs });
    if (i === 0) {
      const beneath = emitter.emit;
      emitter.emit = (event: string, ...args: unknown[]) => {
        depth++;
        return beneath.call(emitter, event, ...args);
      };
    }
    depth = 0;
    emitter.emit("unhandledRejection", "ours", promise);
    stop();
  }
  expect([heard, depth]).toEqual([[], 1]);
  emitter.emit("unhandledRejection", "ours", promise);
  expect(heard).toEqual(["ours"]);
});
