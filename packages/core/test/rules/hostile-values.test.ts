// Values that fight back when they are looked at, thrown and listened to wherever user code may do so.
// Owns: thrown values that can't be read; listeners of signals that throw.
// Invariants: X11 D7 (nothing of it ends the process, or leaves a turn open), Y4 (the failure is recorded, and replays).

import {
  FatalError,
  isDeliveredError,
  isError,
  isRetryable,
  jsonCodec,
  Loop,
  messageOf,
  quietController,
  Receive,
  serializeError,
  toError,
  UnserializableValueError,
  workflow,
} from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

function revoked(target: object = {}): unknown {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}
function trap(): never {
  throw new Error("trap");
}
const ALL_TRAPS: ProxyHandler<object> = { get: trap, has: trap, ownKeys: trap, getPrototypeOf: trap, getOwnPropertyDescriptor: trap };
function throwingGetters(error: Error): Error {
  for (const key of ["stack", "name", "message", "cause", "errors", "code", "data", "constructor"]) {
    Object.defineProperty(error, key, { get: trap, enumerable: true });
  }
  return error;
}

const HOSTILE: Readonly<Record<string, () => unknown>> = {
  "a revoked Proxy": () => revoked(),
  "a revoked Proxy of an Error": () => revoked(new Error("x")),
  "a revoked Proxy of a function": () => revoked(() => {}),
  "a Proxy whose traps throw": () => new Proxy({}, ALL_TRAPS),
  "a Proxy of an Error whose getters throw": () => new Proxy(new Error("x"), { get: trap }),
  "an Error whose getters throw": () => throwingGetters(new Error("x")),
  "a FatalError whose getters throw": () => throwingGetters(new FatalError("x")),
  "an Error with a revoked cause": () => new Error("x", { cause: revoked() }),
  "an Error with revoked errors": () => Object.assign(new Error("x"), { errors: revoked() }),
  "an Error with a revoked message": () => Object.defineProperty(new Error("x"), "message", { value: revoked() }),
  "an Error without prototype": () => Object.setPrototypeOf(new Error("x"), null),
  "an Error whose constructor is text": () => Object.assign(new FatalError("x"), { constructor: "text" }),
  "an Error that causes itself": () => {
    const error = new Error("x");
    error.cause = error;
    return error;
  },
  "an object without prototype": () => Object.create(null),
  "a symbol": () => Symbol("s"),
  "a bigint": () => 7n,
  nothing: () => undefined,
  null: () => null,
};
const EACH = Object.entries(HOSTILE);

describe("X11 functions that take a thrown value are total", () => {
  it.each(EACH)("X11 %s", (_name, make) => {
    const policies = [undefined, { nonRetryable: ["TypeError"] }, { nonRetryable: () => false }];
    expect(typeof messageOf(make())).toBe("string");
    expect(typeof isError(make())).toBe("boolean");
    expect(isDeliveredError(make())).toBe(false);
    for (const policy of policies) expect(typeof isRetryable(make(), policy)).toBe("boolean");
    expect(toError(make())).toBeTypeOf("object");
    const stored = serializeError(make());
    expect(JSON.parse(JSON.stringify(stored))).toStrictEqual(stored);
    expect(() => toError(new Error("outer", { cause: make() }))).not.toThrow();
  });

  it("X11 what can't be read is refused by the codec with an error of ours", () => {
    for (const value of [
      revoked(),
      { deep: [revoked()] },
      new Proxy({}, ALL_TRAPS),
      {
        get x(): never {
          throw revoked() as Error;
        },
      },
    ]) {
      expect(() => jsonCodec.encode(value)).toThrow(UnserializableValueError);
    }
  });

  it("P8 an Error with a cause that can't be read keeps its own name and message", () => {
    for (const cause of [revoked(), new Proxy({}, ALL_TRAPS), throwingGetters(new Error("inner"))]) {
      const stored = serializeError(new TypeError("the outer one", { cause }));
      expect([stored.name, stored.message]).toEqual(["TypeError", "the outer one"]);
    }
    const getter = Object.defineProperty(new TypeError("the outer one"), "cause", { get: trap });
    expect(serializeError(getter).message).toBe("the outer one");
  });

  it("X11 D8 a nonRetryable that answers with a promise has not said so, and its rejection reaches no listener", async () => {
    const answers = [async () => true, async () => Promise.reject(new Error("async"))];
    for (const nonRetryable of answers) expect(isRetryable(new Error("x"), { nonRetryable: nonRetryable as never })).toBe(true);
    await macrotask();
    expect(escaped).toEqual([]);
  });
});

// What would have ended the process.
let escaped: unknown[] = [];
const note = (error: unknown) => void escaped.push(error);
beforeEach(() => {
  escaped = [];
  process.on("uncaughtException", note);
  process.on("unhandledRejection", note);
});
afterEach(() => {
  process.off("uncaughtException", note);
  process.off("unhandledRejection", note);
});
const macrotask = () => new Promise((resolve) => setImmediate(resolve));
const FRESH = { beforeTurn: macrotask };

describe.each(EACH)("X11 Y4 a workflow that throws %s", (_name, make) => {
  it("X11 from its root, a branch, a body, an iteration or a handler fails there, and replays", async () => {
    const wf = workflow("thrower", async (ctx, place: string) => {
      const fail = async (): Promise<never> => {
        throw make();
      };
      switch (place) {
        case "parallel":
          return (await ctx.parallel([fail])).map((one) => one.status);
        case "join":
          return ctx.join("j", { a: fail }).then(
            () => "no",
            (error: Error) => error.name,
          );
        case "race":
          return ctx.race("r", { a: fail }).then(
            () => "no",
            (error: Error) => error.name,
          );
        case "try":
          return (await ctx.try("t", fail)).ok;
        case "shield":
          return ctx.shield(fail).then(
            () => "no",
            () => "failed",
          );
        case "loop":
          return ctx
            .loop({ name: "l", state: 0 }, async () => Loop.continue(await fail()))
            .then(
              () => "no",
              () => "failed",
            );
        case "condition":
          return ctx
            .condition(() => {
              throw make();
            })
            .then(
              () => "no",
              () => "failed",
            );
        case "sideEffect":
          return ctx
            .sideEffect(() => {
              throw make();
            })
            .then(
              () => "no",
              () => "failed",
            );
        case "receive":
          return (
            await ctx.receive(0, {
              signals: { end: (_payload, state) => Receive.stop(state), async: (_payload, state) => Receive.async(fail, state) },
              updates: {
                handled: fail,
                validated: {
                  validate: () => {
                    throw make();
                  },
                  handle: (_input, state) => Receive.reply(0, state),
                },
              },
            })
          ).timedOut;
        default:
          return fail();
      }
    });
    for (const place of ["parallel", "join", "race", "try", "shield", "loop", "condition", "sideEffect"]) {
      const h = await Harness.start(wf, place, FRESH);
      expect([place, h.status]).toEqual([place, "completed"]);
      await crashAnywhere(h);
    }
    const failed = await Harness.start(wf, "root", {
      ...FRESH,
      retry: { maxAttempts: 3, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 },
    });
    expect(failed.status).toBe("failed");
    const receiving = await Harness.start(wf, "receive", FRESH);
    await receiving.update("handled", 0, "u1");
    await receiving.update("validated", 0, "u2");
    await receiving.signal("async");
    expect(receiving.updateResult("u1")).toHaveProperty("error");
    expect(receiving.updateResult("u2")).toHaveProperty("error");
    await receiving.signal("end");
    expect(receiving.status).toBe("completed");
    await crashAnywhere(receiving);
    expect(escaped).toEqual([]);
  });
});

describe("X11 listeners of signals", () => {
  const listening = (listen: (signal: AbortSignal) => void) =>
    workflow("listens", async (ctx) => {
      listen(ctx.signal);
      await ctx.sleep("1h");
    });
  const fail = (): never => {
    throw new Error("listener");
  };
  const WAYS: Readonly<Record<string, (signal: AbortSignal) => void>> = {
    addEventListener: (signal) => signal.addEventListener("abort", fail),
    "an object": (signal) => signal.addEventListener("abort", { handleEvent: fail }, { once: true }),
    onabort: (signal) => {
      signal.onabort = fail;
    },
    "an async function": (signal) => signal.addEventListener("abort", async () => fail()),
    "a revoked Proxy": (signal) =>
      signal.addEventListener("abort", () => {
        throw revoked();
      }),
  };
  it.each(Object.entries(WAYS))("X11 K1 one of ctx.signal that throws (%s) ends no process, and the log tells", async (_name, listen) => {
    const lines: string[] = [];
    const say = (message: string) => void lines.push(message);
    const h = await Harness.start(listening(listen), undefined, { ...FRESH, logger: { debug: say, info: say, warn: say, error: say } });
    await h.cancel();
    await macrotask();
    expect(h.status).toBe("canceled");
    expect(escaped).toEqual([]);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("A listener of ctx.signal failed");
    await h.recover();
    await macrotask();
    expect(lines).toHaveLength(1);
    expect(escaped).toEqual([]);
  });

  it("X11 the signal is a signal like others: once, removed, added twice, onabort read back", () => {
    const reported: unknown[] = [];
    const controller = quietController((error) => reported.push(error));
    const { signal } = controller;
    const calls: string[] = [];
    const twice = () => void calls.push("twice");
    const gone = () => void calls.push("gone");
    const on = function (this: unknown) {
      calls.push(this === signal ? "on" : "another this");
    };
    signal.addEventListener("abort", twice);
    signal.addEventListener("abort", twice);
    signal.addEventListener("abort", gone);
    signal.removeEventListener("abort", gone);
    signal.onabort = () => void calls.push("replaced");
    signal.onabort = on;
    expect(signal.onabort).toBe(on);
    expect(signal).toBeInstanceOf(AbortSignal);
    expect(AbortSignal.any([signal]).aborted).toBe(false);
    controller.abort("why");
    expect(signal.reason).toBe("why");
    expect(calls).toEqual(["twice", "on"]);
    expect(reported).toEqual([]);
  });
});
