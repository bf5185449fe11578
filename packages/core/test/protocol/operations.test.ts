import { describe, expect, it } from "vitest";
import {
  CLOCK_KINDS,
  COMMITTING_KINDS,
  dueOf,
  HAS_ATTEMPTS,
  HAS_PARTS,
  HOST_KINDS,
  HOST_OR_INLINE_KINDS,
  IS_LISTED,
  isAwaited,
  isOperationKind,
  kindOf,
  OPERATION_KINDS,
  OPERATIONS,
  type OpeningCommand,
} from "../../src/protocol/index.ts";

const all = Object.keys(OPERATIONS);
const lacking = (set: ReadonlySet<string>) => all.filter((type) => !set.has(type));
const at = { seq: 1, unit: "", name: "x", n: 0 };

describe("the table of operations", () => {
  it("Y7 says which operations a job settles", () => {
    const byJob = ["step", "transaction", "rollback", "activity", "child", "signalRun", "cancelRun", "sleep"];
    expect([...HOST_KINDS]).toEqual(byJob);
    expect([...HOST_OR_INLINE_KINDS]).toEqual([...byJob, "sideEffect"]);
    expect([...CLOCK_KINDS]).toEqual(["sleep"]);
  });
  it("D12 says what is listed, and what of it has attempts", () => {
    expect(lacking(IS_LISTED)).toEqual(["childResult", "updateState", "refuse", "reuse"]);
    expect([...HAS_ATTEMPTS]).toEqual(["step", "transaction", "rollback", "activity"]);
  });
  it("P11 says what a run can be said to wait for", () => {
    const awaited = new Set(all.filter((type) => isAwaited({ type, ...at } as unknown as OpeningCommand)));
    expect(lacking(awaited)).toEqual([...HAS_PARTS, ...["sideEffect", "patch", "rollbackCheckpoint", "attributes", "refuse", "reuse"]]);
    expect([...HAS_PARTS]).toEqual(["parallel", "join", "race", "loop", "try", "shield"]);
  });
  it("L3 R11 says what commits", () => {
    expect([...COMMITTING_KINDS]).toEqual(["loop", "receive"]);
  });
  it("V3 names each operation as its caller does", () => {
    expect(OPERATION_KINDS).toEqual(all.filter((type) => isOperationKind(type)));
    expect(all.filter((type) => !isOperationKind(type))).toEqual(["rollback", "childResult", "updateState", "refuse", "reuse"]);
    expect(kindOf({ type: "rollback", ...at, of: 1 })).toBe("step");
    expect(kindOf({ type: "childResult", ...at, child: 1 })).toBe("child");
    expect(kindOf({ type: "reuse", ...at, kind: "step" })).toBe("step");
    expect(isOperationKind("constructor")).toBe(false);
  });
  it("K8 says when a timer is due", () => {
    expect(dueOf({ type: "sleep", ...at, duration: 5 }, 100)).toBe(105);
    expect(dueOf({ type: "sleep", ...at, until: 7 }, 100)).toBe(7);
    expect(dueOf({ type: "signal", ...at, names: ["x"], timeout: 5 }, 100)).toBe(105);
    expect(dueOf({ type: "receive", ...at }, 100)).toBeUndefined();
    expect(dueOf({ type: "step", ...at, timeout: 5 }, 100)).toBeUndefined(); // its attempts time out, not it
  });
  it("a kind of a later version is in no set", () => {
    const later = { type: "toString", ...at } as unknown as OpeningCommand;
    expect([IS_LISTED.has(later.type), kindOf(later), dueOf(later, 0)]).toEqual([false, undefined, undefined]);
  });
});
