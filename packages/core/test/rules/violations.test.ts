// Job: prove that code which breaks the rules of turns is caught every time, harms only its own turn, and ends no process.
// Owns: the foreign things that workflows wait for here: timers, files, a local server, a worker thread.
// Invariants: X7, X8, X10, X11, V4 (a broken rule never fails or completes the run).
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import {
  type AnyWorkflow,
  activity,
  CanceledError,
  type ChildHandle,
  type Codec,
  createBarrier,
  ForeignAwaitError,
  IllegalCallError,
  type IVar,
  isDeliveredError,
  jsonCodec,
  Loop,
  OutOfTurnError,
  Receive,
  replay,
  type UnitContext,
  type WorkflowContext,
  workflow,
} from "@holdfast/core";
import { crashAnywhere, drive, Harness, type HarnessOptions } from "@holdfast/core/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const macrotask = () => new Promise<void>((resolve) => setImmediate(resolve));
/** Each turn begins in a macrotask of its own, as hosts do it. */
/** What has to be caught is caught so many times of so many. */
const TIMES = (process.env["HOLDFAST_NIGHTLY"] ?? "") === "" ? 200 : 2_000;
const FRESH: HarnessOptions = { beforeTurn: macrotask };

/** What a turn failed with; undefined if it did not. */
const failure = (turn: Promise<unknown>): Promise<unknown> =>
  turn.then(
    () => undefined,
    (error: unknown) => error,
  );

/** Reasons of the `unhandledRejection` events of the process while `run` runs. */
async function unhandledDuring(run: () => Promise<unknown>): Promise<unknown[]> {
  const others = process.listeners("unhandledRejection");
  const reasons: unknown[] = [];
  const listener = (reason: unknown) => void reasons.push(reason);
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", listener);
  try {
    await run();
    await macrotask();
    await macrotask();
  } finally {
    process.off("unhandledRejection", listener);
    for (const other of others) process.on("unhandledRejection", other);
  }
  return reasons;
}

function spin(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe("X7 out of turn", () => {
  it("X7 the parent's ctx in a branch: the error names the unit, what it is paused on, and whose ctx to use", async () => {
    const wf = workflow("parent", async (ctx) => ctx.join("j", { a: () => ctx.step("s", () => 0) }));
    const error = await failure(Harness.start(wf));
    expect(error).toBeInstanceOf(OutOfTurnError);
    expect(error).toMatchObject({ unit: "root", call: "step", pausedOn: "join j", turnOf: "j/a" });
    expect((error as Error).message).toMatch(/ctx\.step.*root.*join j.*j\/a/s);
  });

  const bodies: readonly (readonly [string, (ctx: WorkflowContext, use: () => Promise<unknown>) => Promise<unknown>])[] = [
    ["a parallel branch", (ctx, use) => ctx.parallel([use])],
    ["a race branch", (ctx, use) => ctx.race("r", { a: use })],
    [
      "a loop body",
      (ctx, use) =>
        ctx.loop("l", async () => {
          await use();
        }),
    ],
    ["a try body", (ctx, use) => ctx.try("t", use)],
    ["a shield body", (ctx, use) => ctx.shield(use)],
    [
      "a sync handler",
      (ctx, use) =>
        ctx.receive(0, {
          signals: {
            go: async (_payload, state) => {
              await use();
              return Receive.noreply(state);
            },
          },
        }),
    ],
    ["an async handler", (ctx, use) => ctx.receive(0, { signals: { go: (_payload, state) => Receive.async(use, state) } })],
  ];
  it.each(bodies)("X7 the outer ctx in %s", async (_name, around) => {
    const wf = workflow("outer", async (ctx) => around(ctx, () => ctx.step("s", () => 0)));
    const h = new Harness(wf);
    expect(await failure(h.start(undefined, h.signalJob("go")))).toMatchObject({ name: "OutOfTurnError", unit: "root" });
  });
  it.each(bodies)("X7 V4 the outer ctx in %s, swallowed, still fails the turn", async (_name, around) => {
    let caught: unknown;
    const wf = workflow("outer", async (ctx) =>
      around(ctx, async () => {
        try {
          await ctx.step("s", () => 0);
        } catch (error) {
          caught = error;
        }
      }).catch(() => "swallowed again"),
    );
    const h = new Harness(wf);
    const error = await failure(h.start(undefined, h.signalJob("go")));
    expect(error).toBeInstanceOf(OutOfTurnError);
    expect(caught).toBe(error);
    expect(h.turns).toEqual([]);
    expect(h.terminal).toBeUndefined();
  });

  const kid = workflow("kid", async () => 0);
  const act = activity("act", async () => 0);
  const CALLS: Readonly<Record<string, (ctx: WorkflowContext) => unknown>> = {
    step: (ctx) => ctx.step("s", () => 0),
    transaction: (ctx) => ctx.transaction("t", () => 0),
    activity: (ctx) => ctx.activity(act, undefined),
    child: (ctx) => ctx.child(kid, undefined),
    startChild: (ctx) => ctx.startChild(kid, undefined),
    signalRun: (ctx) => ctx.signalRun("r", "s"),
    cancelRun: (ctx) => ctx.cancelRun("r"),
    sleep: (ctx) => ctx.sleep(1),
    sleepUntil: (ctx) => ctx.sleepUntil(1),
    waitForSignal: (ctx) => ctx.waitForSignal("s"),
    listen: (ctx) => ctx.listen(["s"]),
    sideEffect: (ctx) => ctx.sideEffect(() => 0),
    publishState: (ctx) => ctx.publishState(0),
    now: (ctx) => ctx.now(),
    random: (ctx) => ctx.random(),
    uuid: (ctx) => ctx.uuid(),
    parallel: (ctx) => ctx.parallel([]),
    join: (ctx) => ctx.join("j", {}),
    race: (ctx) => ctx.race("r", { a: async () => 0 }),
    loop: (ctx) => ctx.loop("l", async () => Loop.break(0)),
    try: (ctx) => ctx.try("t", async () => 0),
    condition: (ctx) => ctx.condition(() => true),
    ivar: (ctx) => ctx.ivar(),
    shield: (ctx) => ctx.shield(async () => 0),
    yield: (ctx) => ctx.yield(),
    patched: (ctx) => ctx.patched("p"),
    deprecatePatch: (ctx) => ctx.deprecatePatch("p"),
    removed: (ctx) => ctx.removed("s", "step"),
    rollbackCheckpoint: (ctx) => ctx.rollbackCheckpoint("c"),
    setAttributes: (ctx) => ctx.setAttributes({}),
    historyLength: (ctx) => ctx.historyLength(),
    receive: (ctx) => ctx.receive(0, {}),
    continueAsNew: (ctx) => ctx.continueAsNew(undefined),
  };
  it.each(Object.keys(CALLS))("X7 ctx.%s outside the turn of its unit is caught", async (call) => {
    const wf = workflow("calls", async (ctx) => {
      await ctx.parallel([
        async () => {
          await CALLS[call]?.(ctx);
        },
      ]);
    });
    expect(await failure(Harness.start(wf))).toMatchObject({ name: "OutOfTurnError", call });
  });
  it.each(Object.keys(CALLS))("X7 ctx.%s between turns poisons the next", async (call) => {
    let held: WorkflowContext | undefined;
    const wf = workflow("calls", async (ctx) => {
      held = ctx;
      await ctx.step("s", () => 0);
    });
    const h = await Harness.start(wf, undefined, FRESH);
    expect(() => held !== undefined && CALLS[call]?.(held)).toThrow(OutOfTurnError);
    expect(h.executor.violation).toMatchObject({ name: "OutOfTurnError", call, pausedOn: "step s" });
    expect(await failure(h.resolve("s"))).toBe(h.executor.violation);
    expect(h.turns).toHaveLength(1);
    expect(h.terminal).toBeUndefined();
  });

  it("X7 ctx inside a step body poisons the turn that would take its result", async () => {
    const wf = workflow("in step", async (ctx) =>
      ctx.step("outer", async () => {
        try {
          await ctx.sleep(1);
        } catch {}
        return "swallowed";
      }),
    );
    const h = await Harness.start(wf, undefined, FRESH);
    expect(await failure(drive(h))).toMatchObject({ name: "OutOfTurnError", call: "sleep", unit: "root" });
    expect(h.terminal).toBeUndefined();
    expect(h.turns).toHaveLength(1);
  });

  it("X7 such a step is not tried again: more attempts fix nothing, and ctx answers no more", async () => {
    let attempts = 0;
    const wf = workflow("in step", async (ctx) =>
      ctx.step("outer", async () => {
        attempts++;
        await ctx.sleep(1);
      }),
    );
    expect(await failure(drive(await Harness.start(wf, undefined, FRESH)))).toBeInstanceOf(OutOfTurnError);
    expect(attempts).toBe(1);
  });

  it("X7 a floating promise that goes on after a foreign await is caught as soon as it calls", async () => {
    let foreign: Promise<void> = Promise.resolve();
    const wf = workflow("floats", async (ctx) => {
      foreign = macrotask();
      const float = async () => {
        await foreign;
        await ctx.step("floating", () => 0);
      };
      float().catch(() => {});
      await ctx.step("s", () => 0);
    });
    const h = await Harness.start(wf, undefined, FRESH);
    await foreign;
    await macrotask();
    expect(await failure(h.resolve("s"))).toMatchObject({ name: "OutOfTurnError", call: "step" });
  });

  it("X7 the ctx of a unit that is over can't be used by its parent", async () => {
    const wf = workflow("leaks", async (ctx) => {
      let leaked: UnitContext | undefined;
      await ctx.parallel([
        async (c) => {
          leaked = c;
        },
      ]);
      await leaked?.step("s", () => 0);
    });
    expect(await failure(Harness.start(wf))).toMatchObject({ name: "OutOfTurnError", unit: "parallel/~0", turnOf: "root" });
  });

  it("X7 cells and child handles are used by the unit that has the turn, and by none between turns", async () => {
    const held: { cell?: IVar<number>; handle?: ChildHandle<number> } = {};
    const wf = workflow("shared", async (ctx) => {
      held.cell = ctx.ivar<number>();
      held.handle = await ctx.startChild(kid, undefined);
      await ctx.step("s", () => 0);
    });
    for (const use of [() => held.cell?.put(1), () => held.cell?.wait(), () => held.handle?.result(), () => held.handle?.cancel()]) {
      const h = await Harness.start(wf, undefined, FRESH);
      await h.turn({ type: "childStarted", seq: h.find("kid").seq, runId: "kid-1" });
      expect(use).toThrow(OutOfTurnError);
      expect(await failure(h.resolve("s"))).toBeInstanceOf(OutOfTurnError);
    }
  });

  it("X7 V4 nothing that a poisoned turn emitted is accepted, before the violation or after", async () => {
    const wf = workflow("emits", async (ctx) => {
      await ctx.step("first", () => 0);
      ctx.publishState("never seen");
      void ctx.step("before", () => 0);
      await ctx.parallel([() => ctx.step("violation", () => 0).catch(() => 0)]);
      await ctx.step("after", () => 0);
    });
    const h = await Harness.start(wf);
    expect(await failure(h.resolve("first"))).toBeInstanceOf(OutOfTurnError);
    expect(h.commands.flatMap((command) => ("n" in command ? [command.name] : []))).toEqual(["first"]);
    expect(h.state).toBeUndefined();
    expect(h.turns).toHaveLength(1);
  });

  it("X7 V4 the executor stays dead, and the run goes on with fixed code from its history", async () => {
    const make = (ok: boolean) =>
      workflow("fixed", async (ctx) => {
        await ctx.step("first", () => 0);
        await ctx.parallel([(c) => (ok ? c : ctx).step("second", () => 0)]);
        return "done";
      });
    const h = await Harness.start(make(false));
    const error = await failure(h.resolve("first"));
    expect(await failure(h.resolve("first"))).toBe(error);
    expect(await failure(h.cancel())).toBe(error);

    await h.recover(make(true));
    await h.resolve("first");
    await h.resolve("second");
    expect(h.output).toBe("done");
    await replay(make(true), h.history());
  });

  it("X7 a violation in replay is found there too, and harms nothing", async () => {
    const make = (ok: boolean) => workflow("replayed", async (ctx) => ctx.parallel([(c) => (ok ? c : ctx).step("s", () => 0)]));
    const h = await Harness.start(make(true));
    expect(await failure(h.recover(make(false)))).toBeInstanceOf(OutOfTurnError);
    await h.recover(make(true));
    await h.resolve("s");
    expect(h.status).toBe("completed");
  });

  it("X7 the first violation of a turn is the one that is reported", async () => {
    const wf = workflow("first", async (ctx) => {
      await ctx.parallel([
        async () => {
          try {
            await ctx.step("one", () => 0);
          } catch {}
          await (ctx as unknown as { updateState(fn: unknown): Promise<unknown> }).updateState(() => 0);
        },
        () => ctx.step("two", () => 0),
      ]);
    });
    expect(await failure(Harness.start(wf))).toMatchObject({ name: "OutOfTurnError", call: "step" });
  });
});

describe("X8 foreign awaits", () => {
  let server: Server;
  let url: string;
  let worker: Worker;
  const waiting: ((value: unknown) => void)[] = [];
  beforeAll(async () => {
    server = createServer((_request, response) => response.end("x"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    worker = new Worker(
      "require('node:worker_threads').parentPort.on('message', (m) => require('node:worker_threads').parentPort.postMessage(m))",
      {
        eval: true,
      },
    );
    worker.on("message", (message) => waiting.shift()?.(message));
    await new Promise((resolve) => worker.once("online", resolve));
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await worker.terminate();
  });

  const file = fileURLToPath(import.meta.url);
  const FOREIGN: Readonly<Record<string, () => Promise<unknown>>> = {
    "setTimeout of 0 ms": () => new Promise((resolve) => setTimeout(resolve, 0)),
    "setTimeout of 1 ms": () => new Promise((resolve) => setTimeout(resolve, 1)),
    setImmediate: () => new Promise((resolve) => setImmediate(resolve)),
    "process.nextTick": () => new Promise((resolve) => process.nextTick(resolve)),
    "a file": () => readFile(file),
    "crypto.subtle.digest": () => crypto.subtle.digest("SHA-256", new Uint8Array(8)),
    "a MessageChannel": () =>
      new Promise((resolve) => {
        const { port1, port2 } = new MessageChannel();
        port1.once("message", () => {
          port1.close();
          resolve(undefined);
        });
        port2.postMessage(0);
      }),
    "a worker thread": () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        worker.postMessage(0);
      }),
    fetch: async () => (await fetch(url)).text(),
    "a timer that is due already": () => {
      const due = new Promise((resolve) => setTimeout(resolve, 1));
      spin(2);
      return due;
    },
  };

  /** Where in a run the foreign await may stand: how to get there, and the unit that is named. */
  interface Place {
    readonly unit: string;
    readonly make: (foreign: () => Promise<unknown>) => AnyWorkflow;
    /** The turn in which it is reached. */
    readonly reach: (h: Harness) => Promise<unknown>;
  }
  const start = (h: Harness) => h.start(undefined, h.signalJob("go"));
  const PLACES: readonly Place[] = [
    { unit: "root", make: (foreign) => workflow("root", async () => foreign()), reach: start },
    {
      unit: "root",
      make: (foreign) =>
        workflow("after a step", async (ctx) => {
          await ctx.step("s", () => 0);
          await foreign();
          await ctx.step("unreached", () => 0);
        }),
      reach: async (h) => {
        await start(h);
        return h.resolve("s");
      },
    },
    {
      unit: "j/b",
      make: (foreign) => workflow("branch", async (ctx) => ctx.join("j", { a: (c) => c.step("s", () => 0), b: () => foreign() })),
      reach: start,
    },
    {
      unit: "l/~0",
      make: (foreign) =>
        workflow("loop", async (ctx) =>
          ctx.loop("l", async () => {
            await foreign();
          }),
        ),
      reach: start,
    },
    {
      unit: "receive/~h0",
      make: (foreign) =>
        workflow("handler", async (ctx) =>
          ctx.receive(0, {
            signals: {
              go: async (_payload, state) => {
                await foreign();
                return Receive.noreply(state);
              },
            },
          }),
        ),
      reach: start,
    },
  ];

  it.each(Object.keys(FOREIGN))(
    "X8 an await on %s is caught every time, wherever it stands",
    async (kind) => {
      const begun: Promise<unknown>[] = [];
      const foreign = () => {
        const promise = (FOREIGN[kind] as () => Promise<unknown>)();
        begun.push(promise);
        return promise;
      };
      let caught = 0;
      const unhandled = await unhandledDuring(async () => {
        for (let i = 0; i < TIMES; i++) {
          const place = PLACES[i % PLACES.length] as Place;
          const h = new Harness(place.make(foreign), FRESH);
          const error = await failure(place.reach(h));
          if (error instanceof ForeignAwaitError && error.unit === place.unit && h.terminal === undefined) caught++;
        }
        await Promise.all(begun);
      });
      expect(caught).toBe(TIMES);
      expect(begun).toHaveLength(TIMES);
      expect(unhandled).toEqual([]);
    },
    60_000,
  );

  it("X8 nor does 2 ms of work before it or after its start let one slip, ever", async () => {
    const kinds = Object.values(FOREIGN);
    const begun: Promise<unknown>[] = [];
    let caught = 0;
    for (let i = 0; i < TIMES; i++) {
      const wf = workflow("spins", async () => {
        if (i % 2 === 0) spin(2);
        const promise = (kinds[i % kinds.length] as () => Promise<unknown>)();
        begun.push(promise);
        if (i % 2 === 1) spin(2);
        await promise;
      });
      if ((await failure(Harness.start(wf, undefined, FRESH))) instanceof ForeignAwaitError) caught++;
    }
    await Promise.all(begun);
    expect(caught).toBe(TIMES);
  }, 60_000);

  it("X8 many runs in one tick: only the guilty ones are caught, all of them, and the others go on", async () => {
    const kinds = Object.values(FOREIGN);
    const begun: Promise<unknown>[] = [];
    const guilty = (i: number) => i % 3 === 1;
    const wf = workflow("many", async (ctx, i: number) => {
      await ctx.step("first", () => 0);
      for (let k = 0; k < i % 7; k++) await Promise.resolve();
      if (guilty(i)) {
        const promise = (kinds[i % kinds.length] as () => Promise<unknown>)();
        begun.push(promise);
        await promise;
      }
      return ctx.step("second", () => 0);
    });
    let caught = 0;
    let completed = 0;
    for (let batch = 0; batch < 10; batch++) {
      const runs = await Promise.all(Array.from({ length: 300 }, (_, i) => Harness.start(wf, batch * 300 + i)));
      await macrotask();
      const errors = await Promise.all(runs.map((h) => failure(h.resolve("first"))));
      await macrotask();
      for (const i of runs.keys()) {
        const isGuilty = guilty(batch * 300 + i);
        expect(errors[i] instanceof ForeignAwaitError).toBe(isGuilty);
        if (isGuilty) caught++;
      }
      await macrotask();
      const innocent = runs.filter((_, i) => !guilty(batch * 300 + i));
      await Promise.all(innocent.map((h) => h.resolve("second", "done")));
      completed += innocent.filter((h) => h.output === "done").length;
    }
    await Promise.all(begun);
    expect([caught, completed]).toEqual([1_000, 2_000]);
  }, 60_000);

  it("X8 the same with runs that begin in the same tick", async () => {
    const kinds = Object.values(FOREIGN);
    const begun: Promise<unknown>[] = [];
    const wf = workflow("starts", async (ctx, i: number) => {
      if (i % 2 === 0) {
        const promise = (kinds[i % kinds.length] as () => Promise<unknown>)();
        begun.push(promise);
        await promise;
      }
      await Promise.all([1, 2, 3]);
      return ctx.sleep(1);
    });
    await macrotask();
    const results = await Promise.all(Array.from({ length: 500 }, (_, i) => failure(Harness.start(wf, i))));
    await Promise.all(begun);
    expect(results.map((error) => error instanceof ForeignAwaitError)).toEqual(Array.from({ length: 500 }, (_, i) => i % 2 === 0));
  });

  it("X8 says to wrap it in ctx.step", async () => {
    const error = await failure(Harness.start(workflow("says", async () => macrotask())));
    expect((error as Error).message).toContain("ctx.step");
  });

  it("X8 a promise that never settles is caught like one that does", async () => {
    expect(await failure(Harness.start(workflow("never", async () => new Promise<void>(() => {}))))).toBeInstanceOf(ForeignAwaitError);
  });

  it("X8 an operation of another unit is foreign to this one", async () => {
    const wf = workflow("others", async (ctx) => {
      let shared: Promise<unknown> = Promise.resolve();
      await ctx.parallel([(c) => (shared = c.step("s", () => 0)), async () => shared]);
    });
    expect(await failure(Harness.start(wf))).toMatchObject({ name: "ForeignAwaitError", unit: "parallel/~1" });
  });

  it("X8 an output schema that awaits is caught too", async () => {
    const output = {
      "~standard": { version: 1, vendor: "test", validate: (value: unknown) => macrotask().then(() => ({ value })) },
    } as const;
    const wf = workflow({ name: "schema", output }, async () => 1);
    expect(await failure(Harness.start(wf, undefined, FRESH))).toBeInstanceOf(ForeignAwaitError);
  });

  it("X8 V4 user code that swallows the error of a foreign await changes nothing", async () => {
    let foreign: Promise<unknown> = Promise.resolve();
    const wf = workflow("swallows", async (ctx) => {
      try {
        foreign = macrotask().then(() => Promise.reject(new Error("no network")));
        await foreign;
      } catch {}
      return ctx.step("unreached", () => 0);
    });
    const h = new Harness(wf, FRESH);
    const error = await failure(h.start());
    expect(error).toBeInstanceOf(ForeignAwaitError);
    await foreign.catch(() => {});
    await macrotask();
    expect(await failure(h.turn())).toBe(error);
  });

  describe("with an operation outstanding as well", () => {
    const acts: readonly (readonly [string, (ctx: UnitContext) => unknown, string])[] = [
      ["calling", (ctx) => ctx.step("more", () => 0), "OutOfTurnError"],
      ["calling what does not pause", (ctx) => ctx.publishState("acted"), "OutOfTurnError"],
      ["returning", () => "returned", "ForeignAwaitError"],
      [
        "throwing",
        () => {
          throw new Error("acted");
        },
        "ForeignAwaitError",
      ],
    ];
    it.each(acts)(
      "X8 Promise.race with a foreign promise is caught when it acts on it by %s, every time",
      async (_how, act, name) => {
        const kinds = Object.values(FOREIGN);
        let caught = 0;
        for (let i = 0; i < TIMES; i++) {
          let foreign: Promise<unknown> = Promise.resolve();
          const wf = workflow("race", async (ctx) => {
            foreign = (kinds[i % kinds.length] as () => Promise<unknown>)();
            const operation = ctx.step("s", () => "step");
            const first = await Promise.race([operation, foreign.then(() => "foreign")]);
            if (first === "foreign") return act(ctx);
            return operation;
          });
          const h = await Harness.start(wf, undefined, FRESH);
          await foreign;
          await macrotask();
          const { violation } = h.executor;
          const error = await failure(h.resolve("s", "step"));
          if (error instanceof Error && error.name === name && violation === error && h.terminal === undefined) caught++;
        }
        expect(caught).toBe(TIMES);
      },
      60_000,
    );

    it("X8 V4 what it swallows does not save it", async () => {
      let foreign: Promise<unknown> = Promise.resolve();
      const wf = workflow("race", async (ctx) => {
        foreign = macrotask();
        await Promise.race([ctx.step("s", () => 0), foreign]);
        try {
          await ctx.step("more", () => 0);
        } catch {
          return "swallowed";
        }
        return "more";
      });
      const h = await Harness.start(wf, undefined, FRESH);
      await foreign;
      await macrotask();
      expect(await failure(h.resolve("s"))).toBeInstanceOf(OutOfTurnError);
      expect(h.terminal).toBeUndefined();
    });

    it("X8 if the operation wins and the foreign one is left alone, nothing is wrong", async () => {
      const wf = workflow("wins", async (ctx) => {
        const first = await Promise.race([ctx.step("s", () => ""), new Promise<string>(() => {})]);
        return [first, await ctx.step("t", () => "")];
      });
      const h = await Harness.start(wf, undefined, FRESH);
      await h.resolve("s", "s");
      await h.resolve("t", "t");
      expect(h.output).toEqual(["s", "t"]);
      await crashAnywhere(h);
    });
  });
});

describe("X8 microtasks alone are fine", () => {
  const deep = async (n: number): Promise<number> => (n === 0 ? 0 : 1 + (await deep(n - 1)));
  async function* numbers(n: number) {
    for (let i = 0; i < n; i++) {
      await null;
      yield i;
    }
  }
  const FINE: Readonly<Record<string, () => Promise<unknown>>> = {
    "a long chain of async functions": () => deep(500),
    "a thousand awaits": async () => {
      for (let i = 0; i < 1_000; i++) await i;
    },
    "promises that are resolved already": () => Promise.resolve(Promise.resolve(1)),
    "promises that are rejected already": () => Promise.reject(new Error("no")).catch(() => 1),
    "Promise.all of values": () => Promise.all([1, Promise.resolve(2), deep(30)]),
    "Promise.race, any and allSettled": () =>
      Promise.allSettled([Promise.race([1, 2]), Promise.any([Promise.reject(new Error("no")), deep(9)]), Promise.reject(new Error("no"))]),
    "async generators": async () => {
      let sum = 0;
      for await (const n of numbers(50)) sum += n;
      return sum;
    },
    "for await over promises": async () => {
      for await (const n of [deep(3), Promise.resolve(4)]) await n;
    },
    queueMicrotask: () => new Promise((resolve) => queueMicrotask(() => queueMicrotask(() => resolve(undefined)))),
    // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tried here
    thenables: async () => await { then: (resolve: (value: unknown) => void) => void Promise.resolve().then(() => resolve(1)) },
    "then, catch and finally": () =>
      Promise.resolve()
        .then(() => deep(5))
        .finally(() => {})
        .then(() => Promise.reject(new Error("no")))
        .catch(() => deep(5)),
    "a promise that another part of the step settles": async () => {
      let settle: () => void = () => {};
      const gate = new Promise<void>((resolve) => {
        settle = resolve;
      });
      await Promise.all([gate, deep(20).then(settle)]);
    },
  };
  const wf = (kind: string) => {
    const fine = FINE[kind] as () => Promise<unknown>;
    return workflow("fine", async (ctx) => {
      await fine();
      await ctx.step("one", () => 0);
      await fine();
      await ctx.parallel([
        async (c) => {
          await fine();
          await c.step("two", () => 0);
          await fine();
        },
        fine,
      ]);
      await fine();
      return "done";
    });
  };
  it.each(Object.keys(FINE))("X8 %s are never flagged", async (kind) => {
    for (let i = 0; i < 100; i++) {
      const h = await Harness.start(wf(kind), undefined, FRESH);
      await h.resolve("one");
      await h.resolve("two");
      expect(h.output).toBe("done");
    }
    const h = await drive(await Harness.start(wf(kind)));
    await crashAnywhere(h);
  });

  it("X8 nor are they in hundreds of runs in one tick, of any length", async () => {
    const kinds = Object.keys(FINE);
    await macrotask();
    const runs = await Promise.all(Array.from({ length: 600 }, (_, i) => Harness.start(wf(kinds[i % kinds.length] as string))));
    await macrotask();
    await Promise.all(runs.map((h) => h.resolve("one")));
    await Promise.all(runs.map((h) => h.resolve("two")));
    expect(runs.every((h) => h.output === "done")).toBe(true);
  });
});

describe("X7 X8 one run's violation does not affect others", () => {
  const innocent = workflow("innocent", async (ctx) => {
    const results = await ctx.parallel([(c) => c.step("a", () => 0), (c) => c.waitForSignal("b")]);
    return results.length;
  });
  const GUILTY: Readonly<Record<string, AnyWorkflow>> = {
    "an illegal call": workflow("illegal", async (ctx) => {
      await ctx.step("a", () => 0);
      await ctx.parallel([(c) => (c as WorkflowContext).receive(0, {}).catch(() => 0)]);
    }),
    "a call out of turn": workflow("out of turn", async (ctx) => {
      await ctx.step("a", () => 0);
      await ctx.parallel([() => ctx.step("b", () => 0)]);
    }),
    "a foreign await": workflow("foreign", async (ctx) => {
      await ctx.step("a", () => 0);
      await macrotask();
    }),
    "an illegal return": workflow("return", async (ctx) => {
      await ctx.step("a", () => 0);
      await ctx.loop("l", (async () => "again") as unknown as () => Promise<void>);
    }),
  };

  it.each(Object.keys(GUILTY))("X7 X8 %s disturbs no run that shares its tick", async (kind) => {
    const wf = GUILTY[kind] as AnyWorkflow;
    const barrier = createBarrier();
    const unhandled = await unhandledDuring(async () => {
      for (const guiltyFirst of [true, false]) {
        const bad = await Harness.start(wf, undefined, { barrier });
        const good = await Harness.start(innocent, undefined, { barrier });
        await macrotask();
        const turns = [() => failure(bad.resolve("a")), () => good.turn(good.resolved("a", 1), good.signalJob("b"))];
        if (!guiltyFirst) turns.reverse();
        await Promise.all(turns.map((turn) => turn()));
        expect(bad.executor.violation).toBeDefined();
        expect(bad.terminal).toBeUndefined();
        expect(good.output).toBe(2);
        await crashAnywhere(good);
      }
    });
    expect(unhandled).toEqual([]);
  });

  it("X6 a codec that throws in the middle of a turn fails that turn, and no other run's", async () => {
    const broken: Codec = {
      encode: (value) => jsonCodec.encode(value),
      decode: (payload) => {
        const value = jsonCodec.decode(payload);
        if (value === "poison") throw new Error("no key to decrypt with");
        return value;
      },
    };
    const wf = workflow("reads", async (ctx) => Promise.all([ctx.step("a", () => 0), ctx.waitForSignal("b")]));
    const barrier = createBarrier();
    const bad = await Harness.start(wf, undefined, { codec: broken, barrier });
    const good = await Harness.start(innocent, undefined, { barrier });
    await macrotask();
    const [error] = await Promise.all([
      failure(bad.turn(bad.resolved("a"), bad.signalJob("b", "poison"))),
      good.turn(good.resolved("a"), good.signalJob("b")),
    ]);
    expect(error).toMatchObject({ message: "no key to decrypt with" });
    expect(bad.terminal).toBeUndefined();
    expect(good.output).toBe(2);
  });

  it("X9 a run that takes too long does not fail those that share its tick", async () => {
    let now = 0;
    const options = { elapsed: () => now, barrier: createBarrier() };
    const slow = workflow("slow", async (ctx) => {
      await ctx.step("a", () => 0);
      now += 3_000;
    });
    const bad = await Harness.start(slow, undefined, options);
    const good = await Harness.start(innocent, undefined, options);
    await macrotask();
    const [error, other] = await Promise.all([failure(bad.resolve("a")), failure(good.turn(good.resolved("a"), good.signalJob("b")))]);
    expect(error).toMatchObject({ name: "TurnTimeoutError" });
    expect(other).toBeUndefined();
    expect(good.output).toBe(2);
  });
});

describe("X10 suspension", () => {
  /** Every way to be suspended, with the jobs that would end it left out. */
  const SUSPENDED: Readonly<Record<string, (ctx: WorkflowContext) => Promise<unknown>>> = {
    step: (ctx) => ctx.step("s", () => 0),
    sleep: (ctx) => ctx.sleep("1d"),
    waitForSignal: (ctx) => ctx.waitForSignal("never"),
    listen: (ctx) => ctx.listen(["never"], { timeout: "1d" }),
    condition: (ctx) => ctx.condition(() => false),
    ivar: (ctx) => ctx.ivar().wait(),
    child: (ctx) =>
      ctx.child(
        workflow("kid", async () => 0),
        undefined,
      ),
    parallel: (ctx) => ctx.parallel([(c) => c.sleep("1d")]),
    join: (ctx) => ctx.join("j", { a: (c) => c.sleep("1d") }),
    race: (ctx) => ctx.race("r", { a: (c) => c.sleep("1d") }),
    loop: (ctx) => ctx.loop("l", async (c) => c.sleep("1d")),
    try: (ctx) => ctx.try("t", (c) => c.sleep("1d")),
    shield: (ctx) => ctx.shield((c) => c.sleep("1d")),
    receive: (ctx) => ctx.receive(0, {}),
    "Promise.all": (ctx) => Promise.all([ctx.sleep("1d"), ctx.step("s", () => 0)]),
  };

  it.each(Object.keys(SUSPENDED))("X10 catch and finally see nothing of parking or eviction in %s", async (kind) => {
    const seen: string[] = [];
    const suspend = SUSPENDED[kind] as (ctx: WorkflowContext) => Promise<unknown>;
    const wf = workflow("suspended", async (ctx) => {
      try {
        await suspend(ctx);
        seen.push("resumed");
      } catch {
        seen.push("catch");
      } finally {
        seen.push("finally");
      }
    });
    const unhandled = await unhandledDuring(async () => {
      const h = await Harness.start(wf, undefined, FRESH);
      await h.turn();
      expect(await h.activate({ type: "evict" })).toMatchObject({ status: "ok" });
      await h.recover();
      await h.activate({ type: "evict" });
    });
    expect(seen).toEqual([]);
    expect(unhandled).toEqual([]);
  });

  it("X10 nor do they of a turn that failed: what is pending never settles", async () => {
    const seen: string[] = [];
    const wf = workflow("poisoned", async (ctx) => {
      const guarded = async (promise: Promise<unknown>) => {
        try {
          await promise;
        } catch {
          seen.push("catch");
        } finally {
          seen.push("finally");
        }
      };
      await ctx.parallel([
        (c) => guarded(c.step("s", () => 0)),
        (c) => guarded(c.sleep("1d")),
        async (c) => {
          await c.waitForSignal("go");
          try {
            await ctx.step("violation", () => 0);
          } catch {}
          await guarded(c.step("after", () => 0));
        },
      ]);
    });
    const h = await Harness.start(wf, undefined, FRESH);
    expect(await failure(h.turn(h.signalJob("go")))).toBeInstanceOf(OutOfTurnError);
    await failure(h.resolve("s"));
    await h.activate({ type: "evict" });
    await macrotask();
    expect(seen).toEqual([]);
  });

  it("X10 code of an evicted run that wakes by a foreign promise does nothing, and hears of nothing", async () => {
    const seen: string[] = [];
    let foreign: Promise<void> = Promise.resolve();
    const wf = workflow("wakes", async (ctx) => {
      foreign = macrotask();
      await Promise.race([ctx.sleep("1d"), foreign]);
      try {
        ctx.publishState("from the grave");
        seen.push("called");
        await ctx.step("more", () => 0);
        seen.push("settled");
      } catch {
        seen.push("catch");
      } finally {
        seen.push("finally");
      }
    });
    const h = new Harness(wf);
    await h.start();
    await h.activate({ type: "evict" });
    await foreign;
    await macrotask();
    expect(seen).toEqual(["called"]);
    expect(h.executor.violation).toBeUndefined();
    expect(h.executor.state).toBeUndefined();
  });

  it("X10 an abort signal does not fire for an eviction", async () => {
    let aborted = false;
    const wf = workflow("signal", async (ctx) => {
      ctx.signal.addEventListener("abort", () => {
        aborted = true;
      });
      await ctx.sleep("1d");
    });
    const h = await Harness.start(wf);
    await h.activate({ type: "evict" });
    await macrotask();
    expect(aborted).toBe(false);
  });
});

describe("X11 rejections", () => {
  it("X11 an operation that fails while no code awaits it is delivered when awaited, without an unhandledRejection", async () => {
    const wf = workflow("later", async (ctx) => {
      const p = ctx.step("fails", () => 0);
      await ctx.sleep("1m");
      return p.catch((error: Error) => `delivered: ${error.name}`);
    });
    const unhandled = await unhandledDuring(async () => {
      const h = await Harness.start(wf, undefined, FRESH);
      await h.fail("fails", new Error("no"));
      await macrotask();
      await h.fire();
      expect(h.output).toBe("delivered: StepFailedError");
      await crashAnywhere(h);
    });
    expect(unhandled).toEqual([]);
  });

  it("X11 through a helper's own promise a host can recognise it, and it is still delivered", async () => {
    const wf = workflow("helper", async (ctx) => {
      const helper = async () => {
        const value = await ctx.step("fails", () => 0);
        return value + 1;
      };
      const p = helper();
      await ctx.sleep("1m");
      return p.catch((error: Error) => `delivered: ${error.name}`);
    });
    const unhandled = await unhandledDuring(async () => {
      const h = await Harness.start(wf, undefined, FRESH);
      await h.fail("fails", new Error("no"));
      await macrotask();
      await h.fire();
      expect(h.output).toBe("delivered: StepFailedError");
    });
    expect(unhandled).toHaveLength(1);
    expect(unhandled.every(isDeliveredError)).toBe(true);
  });

  it("X11 an error that the workflow wrapped is recognised by its cause", async () => {
    const wf = workflow("wraps", async (ctx) => {
      const p = ctx
        .step("fails", () => 0)
        .catch((cause: unknown) => {
          throw new Error("could not charge", { cause });
        });
      await ctx.sleep("1m");
      return p.catch((error: Error) => error.message);
    });
    const unhandled = await unhandledDuring(async () => {
      const h = await Harness.start(wf, undefined, FRESH);
      await h.fail("fails", new Error("no"));
      await macrotask();
      await h.fire();
      expect(h.output).toBe("could not charge");
    });
    expect(unhandled).toHaveLength(1);
    expect(unhandled.every(isDeliveredError)).toBe(true);
  });

  it("X11 errors of others are not taken for the workflow's", () => {
    const cyclic = new Error("cyclic");
    cyclic.cause = cyclic;
    for (const other of [new Error("x"), new CanceledError("x"), "text", undefined, null, 7, Symbol("s"), {}, cyclic]) {
      expect(isDeliveredError(other)).toBe(false);
    }
  });

  it("X11 failures that no code ever awaits, of every kind, end no process", async () => {
    const wf = workflow("ignores", async (ctx) => {
      void ctx.step("a", () => 0);
      void ctx.parallel([(c) => c.step("b", () => 0)]);
      void ctx.join("j", {
        c: async () => {
          throw new Error("join");
        },
      });
      void ctx.race("r", {
        d: async () => {
          throw new Error("race");
        },
      });
      void ctx.sideEffect(() => {
        throw new Error("side effect");
      });
      void ctx.condition(() => {
        throw new Error("condition");
      });
      void ctx.activity(
        activity("x", async () => 0),
        (() => {}) as never,
      );
      void ctx.sleep("not a duration" as never);
      void ctx.step("", () => 0);
      await ctx.waitForSignal("go");
      return "went on";
    });
    const unhandled = await unhandledDuring(async () => {
      const h = await Harness.start(wf, undefined, FRESH);
      await h.turn(h.failed("a", new Error("a")), h.failed("b", new Error("b")));
      await macrotask();
      await h.signal("go");
      expect(h.output).toBe("went on");
      await crashAnywhere(h);
    });
    expect(unhandled).toEqual([]);
  });

  it("X11 nor does a cancellation that reaches operations which no code awaits", async () => {
    const wf = workflow("cancelled", async (ctx) => {
      void ctx.step("a", () => 0);
      void ctx.sleep("1d");
      void ctx.parallel([(c) => c.sleep("1d")]);
      await ctx.waitForSignal("go").catch(() => {});
      void ctx.step("after", () => 0);
      void ctx.yield();
    });
    const unhandled = await unhandledDuring(async () => {
      const h = await Harness.start(wf, undefined, FRESH);
      await h.cancel();
      expect(h.status).toBe("canceled");
      await crashAnywhere(h);
    });
    expect(unhandled).toEqual([]);
  });

  it("X11 a violation thrown into a promise that no code awaits is recognised too", async () => {
    let foreign: Promise<void> = Promise.resolve();
    const floats = workflow("floats", async (ctx) => {
      foreign = macrotask();
      const float = async () => {
        await foreign;
        await ctx.step("out of turn", () => 0);
      };
      void float();
      const illegal = async () => (ctx as unknown as { updateState(fn: unknown): Promise<unknown> }).updateState(() => 0);
      await ctx.step("s", () => 0);
      void illegal();
      await ctx.step("t", () => 0);
    });
    const unhandled = await unhandledDuring(async () => {
      const first = await Harness.start(floats, undefined, FRESH);
      expect(await failure(first.resolve("s"))).toBeInstanceOf(OutOfTurnError);
      const second = await Harness.start(floats);
      expect(await failure(second.resolve("s"))).toBeInstanceOf(IllegalCallError);
      await foreign;
    });
    expect(unhandled.length).toBeGreaterThanOrEqual(2);
    expect(unhandled.filter((reason) => !isDeliveredError(reason))).toEqual([]);
  });

  it("X11 a second put to a cell, thrown into a promise that no code awaits, is recognised too", async () => {
    const wf = workflow("puts", async (ctx) => {
      const cell = ctx.ivar<number>();
      const put = async (n: number) => cell.put(n);
      void put(1);
      void put(2);
      await ctx.step("s", () => 0);
    });
    const unhandled = await unhandledDuring(async () => {
      const h = await Harness.start(wf, undefined, FRESH);
      await h.resolve("s");
      expect(h.status).toBe("completed");
    });
    expect(unhandled).toHaveLength(1);
    expect(unhandled.every(isDeliveredError)).toBe(true);
  });

  it("X11 bad arguments of calls that do not pause, thrown into a promise that no code awaits, are recognised too", async () => {
    const wf = workflow("arguments", async (ctx) => {
      const publish = async () => ctx.publishState(() => {});
      const attributes = async () => ctx.setAttributes({ bad: {} as never });
      void publish();
      void attributes();
      await ctx.step("s", () => 0);
    });
    const unhandled = await unhandledDuring(async () => {
      const h = await Harness.start(wf, undefined, FRESH);
      await h.resolve("s");
      expect(h.status).toBe("completed");
    });
    expect(unhandled).toHaveLength(2);
    expect(unhandled.every(isDeliveredError)).toBe(true);
  });

  it("X11 branches, handlers and iterations that fail are their scopes' affair, not the process's", async () => {
    const wf = workflow("scopes", async (ctx) => {
      await ctx.parallel([() => Promise.reject(new Error("branch"))]);
      await ctx.try("t", () => Promise.reject(new Error("body")));
      await ctx.loop("l", () => Promise.reject(new Error("iteration"))).catch(() => {});
      await ctx.receive(0, {
        signals: { go: (_payload, state) => Receive.async(() => Promise.reject(new Error("async handler")), state) },
        updates: { end: (_input, state) => Receive.stop(0, state), fails: () => Promise.reject(new Error("handler")) },
      });
      throw new Error("the run");
    });
    const unhandled = await unhandledDuring(async () => {
      const h = await Harness.start(wf, undefined, FRESH);
      await h.signal("go");
      await h.update("fails");
      await h.update("end");
      expect(h.status).toBe("failed");
    });
    expect(unhandled).toEqual([]);
  });
});
