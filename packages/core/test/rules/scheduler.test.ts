// Job: prove the scheduler and the order of things within an activation: ids, rounds, steps, the one completion, the barrier.
// Owns: the workflows and the hand-made runtimes in it. Code that breaks the rules is in violations.test.ts.
// Invariants: X1 to X6, X9, and of replay Y2, Y3, Y6 as far as the scheduler decides them.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type AnyWorkflow,
  type Command,
  createBarrier,
  createTurnClock,
  Executor,
  formatLocation,
  Loop,
  NameRegistry,
  NondeterminismError,
  Receive,
  signal,
  TurnTimeoutError,
  type UnitContext,
  workflow,
} from "@holdfast/core";
import { crashAnywhere, drive, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const locations = (commands: readonly Command[]) =>
  commands.flatMap((command) => ("n" in command ? [formatLocation(command.unit, command.name, command.n)] : []));
const types = (commands: readonly Command[]) => commands.map((command) => command.type);
const macrotask = () => new Promise((resolve) => setImmediate(resolve));

describe("X1 the same transcript gives the same commands", () => {
  const busy = workflow("busy", async (ctx, n: number) => {
    const results = await ctx.parallel(
      Array.from({ length: n }, (_, i) => async (c: UnitContext) => {
        const value = await c.step(`s${i}`, () => i);
        await c.yield();
        await c.sleep(c.random() * 1000);
        return `${value} ${c.uuid()}`;
      }),
    );
    ctx.publishState(results.length);
    return results.map((result) => result.status === "fulfilled" && result.value);
  });

  it("X1 two executors that are given one transcript emit equal commands in equal order", async () => {
    const h = await drive(await Harness.start(busy, 5));
    const other = h.createExecutor();
    for (const { activation, completion } of h.transcript) expect(await other.activate(activation)).toEqual(completion);
    await crashAnywhere(h);
  });

  it("X1 a transcript that the code does not fit fails with nondeterminism", async () => {
    const h = await drive(await Harness.start(busy, 3));
    const changed = workflow("busy", async (ctx) => ctx.step("something else", () => 0));
    await expect(h.recover(changed)).rejects.toBeInstanceOf(NondeterminismError);
  });

  it("X1 the core imports no Node module, and nothing of it uses a clock, a timer, I/O or chance", async () => {
    const src = fileURLToPath(new URL("../../src", import.meta.url));
    const files = (await readdir(src, { recursive: true })).filter((file) => file.endsWith(".ts"));
    expect(files.length).toBeGreaterThan(20);
    const forbidden =
      /\b(Date\.now|new Date\(\)|performance\.now|Math\.random|setTimeout|setInterval|setImmediate|fetch|crypto\.(randomUUID|getRandomValues))\b(?=\(|$)/;
    for (const file of files) {
      const text = await readFile(join(src, file), "utf8");
      const imports = [...text.matchAll(/^(?:import|export)[^;]*?\sfrom\s+"([^"]+)"/gm)].map((match) => match[1] ?? "");
      const foreign = imports.filter((specifier) => !specifier.startsWith(".") && specifier !== "@standard-schema/spec");
      expect({ file, foreign }).toEqual({ file, foreign: [] });
      const code = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$|`[^`]*`|"[^"\n]*"/gm, "");
      expect({ file, use: forbidden.exec(code)?.[0] }).toEqual({ file, use: undefined });
    }
  });
});

describe("X2 one unit at a time", () => {
  it("X2 no other unit of the run runs between a unit's pauses, however many awaits it makes in between", async () => {
    let running = 0;
    let most = 0;
    const wf = workflow("exclusive", async (ctx) =>
      ctx.parallel(
        Array.from({ length: 5 }, () => async (c: UnitContext) => {
          for (let i = 0; i < 3; i++) {
            most = Math.max(most, ++running);
            for (let j = 0; j < 20; j++) await Promise.resolve();
            running--;
            await c.yield();
          }
        }),
      ),
    );
    expect((await Harness.start(wf)).status).toBe("completed");
    expect(most).toBe(1);
  });

  it("X2 operations are numbered in the order of emission, from 1, without gaps", async () => {
    const wf = workflow("numbers", async (ctx) => {
      await ctx.parallel([(c) => c.step("a", () => 0), (c) => Promise.all([c.step("b", () => 0), c.sleep(1)])]);
      await ctx.step("last", () => 0);
    });
    const h = await drive(await Harness.start(wf));
    const seqs = h.commands.flatMap((command) => ("n" in command ? [command.seq] : []));
    expect(seqs).toEqual([1, 2, 3, 4, 5]);
  });

  it("X2 an activation while another is under way is refused and disturbs nothing", async () => {
    const h = new Harness(workflow("one", async (ctx) => ctx.step("a", () => 0)));
    const first = h.start();
    await Promise.resolve();
    const second = await h.executor.activate({ time: 0, jobs: [] });
    expect(second.status).toBe("failed");
    await first;
    await h.resolve("a", 1);
    expect(h.output).toBe(1);
  });
});

describe("X3 ids", () => {
  it("X3 branch 10 comes after branch 2", async () => {
    const wf = workflow("dozen", async (ctx) =>
      ctx.parallel(
        Array.from({ length: 12 }, (_, i) => async (c: UnitContext) => {
          await c.step("first", () => i);
          await c.step("second", () => i);
        }),
      ),
    );
    const h = await Harness.start(wf);
    const order = Array.from({ length: 12 }, (_, i) => `parallel/~${i}/second`);
    const jobs = h.openLocations.map((location) => h.resolved(location)).reverse();
    expect(locations(await h.turn(...jobs))).toEqual(order);
    await crashAnywhere(h);
  });

  it("X3 units of join and race are named by key and ordered as declared", async () => {
    const wf = workflow("keys", async (ctx) =>
      ctx.join("j", {
        zebra: async (c) => {
          await c.step("one", () => 0);
          await c.step("two", () => 0);
        },
        ant: async (c) => {
          await c.step("one", () => 0);
          await c.step("two", () => 0);
        },
      }),
    );
    const h = await Harness.start(wf);
    expect(locations(await h.turn(h.resolved("j/ant/one"), h.resolved("j/zebra/one")))).toEqual(["j/zebra/two", "j/ant/two"]);
    await crashAnywhere(h);
  });

  it.each(["join", "race"] as const)("X3 integer-like keys of a %s are refused, JavaScript reorders them", async (kind) => {
    const wf = workflow("integers", async (ctx) =>
      ctx[kind]("j", { b: async () => 0, 1: async () => 0 }).catch((error: Error) => `${error.name}: ${error.message}`),
    );
    const h = await Harness.start(wf);
    expect(h.output).toMatch(/^InvalidInputError: .*"1"/);
    await crashAnywhere(h);
  });

  it.each(["01", "1.5", "-1", "1e3", "", "constructor", "__proto__x"])("X3 the key %j is not an integer and is taken", async (key) => {
    const wf = workflow("odd keys", async (ctx) => ctx.join("j", { [key]: (c) => c.step("s", () => 0) }));
    const h = await Harness.start(wf);
    await h.resolve("s", "value");
    expect(h.output).toEqual({ [key]: "value" });
    await crashAnywhere(h);
  });

  it("X3 each scope and body has its own path: branches, iterations, dispatches, try and shield", async () => {
    const wf = workflow("paths", async (ctx) => {
      await ctx.parallel([async (c) => c.parallel([(d) => d.step("s", () => 0)])]);
      await ctx.join("j", { k: (c) => c.step("s", () => 0) });
      await ctx.loop({ name: "l", state: 0 }, async (c, i: number) => {
        await c.step("s", () => 0);
        return i === 1 ? Loop.break(0) : Loop.continue(i + 1);
      });
      await ctx.try("t", (c) => c.step("s", () => 0));
      await ctx.shield((c) => c.step("s", () => 0));
      await ctx.receive(0, {
        signals: {
          m: async (_payload, state, c) => {
            await c.step("s", () => 0);
            return Receive.async(async (d) => void (await d.step("s", () => 0)), state);
          },
          end: (_payload, state) => Receive.stop(state),
        },
      });
    });
    const h = new Harness(wf);
    await h.start(undefined, h.signalJob("m"), h.signalJob("m"), h.signalJob("end"));
    await drive(h);
    expect(h.status).toBe("completed");
    const steps = h.commands.flatMap((command) => (command.type === "step" ? [formatLocation(command.unit, command.name, command.n)] : []));
    expect(steps).toEqual([
      "parallel/~0/parallel/~0/s",
      "j/k/s",
      "l/~0/s",
      "l/~1/s",
      "t/s",
      "shield/s",
      "receive/~h0/s",
      "receive/~h0/~async/s",
      "receive/~h1/s",
      "receive/~h1/~async/s",
    ]);
    await crashAnywhere(h);
  });

  it("X3 occurrences count by name within a unit", async () => {
    const wf = workflow("counts", async (ctx) => {
      await Promise.all([
        ctx.step("a", () => 0),
        ctx.step("b", () => 0),
        ctx.step("a", () => 0),
        ctx.sleep("a", 1),
        ctx.step("b", () => 0),
      ]);
      await ctx.parallel([(c) => c.step("a", () => 0), (c) => c.step("a", () => 0)]);
      await ctx.parallel([(c) => c.step("a", () => 0)]);
    });
    const h = await drive(await Harness.start(wf));
    expect(locations(h.commands)).toEqual([
      "a",
      "b",
      "a#1",
      "a#2",
      "b#1",
      "parallel",
      "parallel/~0/a",
      "parallel/~1/a",
      "parallel#1",
      "parallel#1/~0/a",
    ]);
    await crashAnywhere(h);
  });

  const awkward = [
    "a",
    "b",
    "a/b",
    "a#1",
    "~0",
    "~h1",
    "~async",
    "~rollback",
    "50%",
    "%2F",
    "a%2Fb",
    "#",
    "/",
    "~",
    "%",
    "a/~0/b#2",
    "é✓",
    " ",
  ];
  it("X3 names that look like parts of paths do not collide, in any place", async () => {
    const wf = workflow("awkward", async (ctx) => {
      for (const name of [...awkward, ...awkward]) await ctx.step(name, () => name);
      for (const name of awkward) {
        await ctx.join(name, Object.fromEntries(awkward.map((key) => [key, (c: UnitContext) => c.step(name, () => key)])));
      }
      await ctx.loop({ name: "a/b", state: 0 }, async (c, i: number) => {
        await c.step("a#1", () => i);
        return i === 2 ? Loop.break(i) : Loop.continue(i + 1);
      });
      return awkward.length;
    });
    const h = await drive(await Harness.start(wf));
    expect(h.output).toBe(awkward.length);
    const all = locations(h.commands);
    expect(new Set(all).size).toBe(all.length);
    await crashAnywhere(h);
  });

  it("X3 the compact form of a location expands to the same location", () => {
    const registry = new NameRegistry();
    for (const unit of ["", "l/~3", "receive/~h2/~async", "~rollback"]) {
      for (const name of awkward) {
        for (const n of [0, 1, 12]) {
          const location = formatLocation(unit, name, n);
          expect(registry.expand(registry.compact(location))).toBe(location);
        }
      }
    }
    expect(registry.names).toEqual(expect.arrayContaining(awkward));
  });

  it("X3 a loop whose name looks like another's iteration is not trimmed with it", async () => {
    const wf = workflow("prefix", async (ctx) => {
      await ctx.step("l", () => "before");
      await ctx.step("l/~0", () => "looks like an iteration");
      await ctx.loop({ name: "l", state: 0, commitInterval: 1, historyEvery: 1, historyKeep: 0 }, async (c, i: number) => {
        await c.step("s", () => i);
        return i === 3 ? Loop.break(i) : Loop.continue(i + 1);
      });
      await ctx.step("after", () => 0);
    });
    const h = await drive(await Harness.start(wf));
    const kept = locations(h.turns.flatMap((turn) => turn.commands));
    expect(kept).toEqual(["l", "l%2F%7E0", "l#1", "l#1/~3/s", "after"]);
    await crashAnywhere(h);
  });
});

describe("X4 rounds", () => {
  const two = workflow("two", async (ctx) =>
    ctx.parallel([
      async (c) => {
        await c.step("A", () => 0);
        await c.step("C", () => 0);
      },
      async (c) => {
        await c.step("B", () => 0);
        await c.step("D", () => 0);
      },
    ]),
  );

  it("X4 C4 parallel schedules the first operations in branch order", async () => {
    const h = await Harness.start(two);
    expect(locations(h.commands)).toEqual(["parallel", "parallel/~0/A", "parallel/~1/B"]);
  });

  it("X4 if only A resolves, its branch goes on without waiting for B", async () => {
    const h = await Harness.start(two);
    expect(locations(await h.resolve("A"))).toEqual(["parallel/~0/C"]);
    expect(h.openLocations).toEqual(["parallel/~1/B", "parallel/~0/C"]);
    await crashAnywhere(h);
  });

  it.each([
    ["A", "B"],
    ["B", "A"],
  ])("X4 if %s and %s resolve in one activation, the next commands come in stable order", async (first, second) => {
    const h = await Harness.start(two);
    expect(locations(await h.turn(h.resolved(first), h.resolved(second)))).toEqual(["parallel/~0/C", "parallel/~1/D"]);
    await crashAnywhere(h);
  });

  it("X4 who becomes runnable during a round waits for the next", async () => {
    const order: string[] = [];
    const wf = workflow("rounds", async (ctx) => {
      const cell = ctx.ivar<void>();
      await ctx.parallel([
        async (c) => {
          await c.waitForSignal("go");
          order.push("0 fills the cell");
          cell.put();
          await c.yield();
          order.push("0 again");
        },
        async () => {
          await cell.wait();
          order.push("1 has the cell");
        },
        async (c) => {
          await c.step("s", () => 0);
          order.push("2 has its step");
          await c.yield();
          order.push("2 again");
        },
      ]);
    });
    const h = await Harness.start(wf);
    await h.signal("go", undefined);
    expect(order).toEqual(["0 fills the cell", "0 again", "1 has the cell"]);
    order.length = 0;

    const again = await Harness.start(wf);
    // Round 1: branch 2 alone (the signal is taken only when rounds are over). Then branch 0, and after it 0 and 1 together.
    await again.turn(again.resolved("s"), again.signalJob("go"));
    expect(order).toEqual(["2 has its step", "2 again", "0 fills the cell", "0 again", "1 has the cell"]);
    await crashAnywhere(again);
  });

  it("X4 a unit that an earlier unit of the round made runnable does not run in that round, though its place is still to come", async () => {
    const order: string[] = [];
    const wf = workflow("precise", async (ctx) => {
      const cell = ctx.ivar<void>();
      await ctx.parallel([
        async (c) => {
          await c.step("a", () => 0);
          cell.put();
          order.push("a");
        },
        async () => {
          await cell.wait();
          order.push("b");
        },
        async (c) => {
          await c.step("c", () => 0);
          order.push("c");
        },
      ]);
    });
    const h = await Harness.start(wf);
    await h.turn(h.resolved("a"), h.resolved("c"));
    expect(order).toEqual(["a", "c", "b"]);
    await crashAnywhere(h);
  });

  it("X4 branches that a unit starts run in the next round", async () => {
    const order: string[] = [];
    const wf = workflow("started", async (ctx) => {
      await ctx.parallel([
        async (c) => {
          order.push("outer 0");
          await c.parallel([async () => order.push("inner of 0")]);
        },
        async () => order.push("outer 1"),
      ]);
    });
    await Harness.start(wf);
    expect(order).toEqual(["outer 0", "outer 1", "inner of 0"]);
  });

  it("X4 the order of a round is root, branches by id, handlers by dispatch", async () => {
    const order: string[] = [];
    const wf = workflow("order", async (ctx) => {
      const note = async (c: UnitContext, name: string) => {
        await c.step(name, () => 0);
        order.push(name);
      };
      await Promise.all([
        ctx.receive(0, {
          signals: {
            m: (payload, state) => Receive.async((c) => note(c, `handler ${String(payload)}`), state),
            end: (_payload, state) => Receive.stop(state),
          },
        }),
        ctx.parallel([(c) => note(c, "branch 0"), (c) => note(c, "branch 1")]),
        note(ctx, "root"),
      ]);
    });
    const h = new Harness(wf);
    await h.start(undefined, h.signalJob("m", 0), h.signalJob("m", 1));
    const names = ["handler 1", "branch 1", "handler 0", "root", "branch 0"];
    await h.turn(...names.map((name) => h.resolved(name)));
    expect(order).toEqual(["root", "branch 0", "branch 1", "handler 0", "handler 1"]);
    await crashAnywhere(h);
  });

  it("X4 each unit gets one step a round: two that yield take turns", async () => {
    const order: string[] = [];
    const turns = (name: string) => async (c: UnitContext) => {
      for (let i = 0; i < 3; i++) {
        order.push(`${name}${i}`);
        await c.yield();
      }
    };
    await Harness.start(workflow("turns", async (ctx) => ctx.parallel([turns("a"), turns("b")])));
    expect(order).toEqual(["a0", "b0", "a1", "b1", "a2", "b2"]);
  });
});

describe("X5 steps of a unit", () => {
  /** What branch 0 does before branch 1 gets the turn. */
  async function beforeTheOther(
    body: (ctx: UnitContext, note: (what: string) => void) => Promise<void>,
  ): Promise<Harness & { seen: string[] }> {
    const seen: string[] = [];
    const wf = workflow("beside", async (ctx) => {
      await ctx.parallel([(c) => body(c, (what) => seen.push(what)), async () => seen.push("other")]);
    });
    const h = new Harness(wf);
    await h.start(undefined, h.signalJob("buffered", 1));
    return Object.assign(h, { seen });
  }

  it("X5 calls that do not pause keep the turn", async () => {
    const h = await beforeTheOther(async (c, note) => {
      c.now();
      c.random();
      c.uuid();
      c.historyLength();
      c.publishState(1);
      await Promise.resolve();
      const cell = c.ivar<number>();
      cell.put(1);
      await cell.wait();
      note("still here");
      await c.yield();
      note("after the yield");
    });
    expect(h.seen).toEqual(["still here", "other", "after the yield"]);
    await crashAnywhere(h);
  });

  it("X5 calls that emit commands without pausing keep the turn too", async () => {
    const h = await beforeTheOther(async (c, note) => {
      c.setAttributes({ a: 1 });
      c.patched("p");
      c.deprecatePatch("q");
      c.rollbackCheckpoint("r");
      await c.sideEffect(() => 1);
      await c.waitForSignal("buffered");
      await c.parallel([]);
      await c.join("none", {});
      note("still here");
      await c.step("pause", () => 0);
    });
    expect(h.seen).toEqual(["still here", "other"]);
    const emitted = types(h.commands.filter((command) => !("unit" in command) || command.unit === "parallel/~0"));
    expect(emitted).toEqual([
      "attributes",
      "patch",
      "patch",
      "rollbackCheckpoint",
      "sideEffect",
      "signal",
      "settle",
      "parallel",
      "settle",
      "join",
      "settle",
      "step",
    ]);
    await crashAnywhere(h);
  });

  it("X5 a yield leaves no record", async () => {
    const h = await Harness.start(
      workflow("yields", async (ctx) => {
        for (let i = 0; i < 10; i++) await ctx.yield();
      }),
    );
    expect(types(h.commands)).toEqual(["complete"]);
    await crashAnywhere(h);
  });

  it("X5 several yields at once all come back", async () => {
    const h = await Harness.start(
      workflow("yields", async (ctx) => {
        await Promise.all([ctx.yield(), ctx.yield(), ctx.yield()]);
        return "back";
      }),
    );
    expect(h.output).toBe("back");
    await crashAnywhere(h);
  });

  it("X5 a yield beside an operation takes neither's place", async () => {
    const wf = workflow("beside", async (ctx) => Promise.all([ctx.step("s", () => ""), ctx.yield().then(() => "yielded")]));
    const h = await Harness.start(wf);
    await h.resolve("s", "step");
    expect(h.output).toEqual(["step", "yielded"]);
    await crashAnywhere(h);
  });

  it("X5 a unit that fails ends its step, and its scope hears of it in a later round", async () => {
    const order: string[] = [];
    const wf = workflow("fails", async (ctx) => {
      await ctx.parallel([
        async () => {
          order.push("fails");
          throw new Error("no");
        },
        async () => order.push("runs"),
      ]);
      order.push("scope over");
    });
    await Harness.start(wf);
    expect(order).toEqual(["fails", "runs", "scope over"]);
  });
});

describe("X6 the order of an activation", () => {
  it("X6 jobs are applied in order, rounds first, then messages, then conditions", async () => {
    const order: string[] = [];
    const wf = workflow("order", async (ctx) => {
      let done = false;
      await Promise.all([
        ctx.condition(() => done).then(() => order.push("condition")),
        ctx.waitForSignal("a").then(() => order.push("signal a")),
        ctx.waitForSignal("b").then(() => order.push("signal b")),
        ctx
          .step("s", () => 0)
          .then(() => {
            done = true;
            order.push("step");
          }),
      ]);
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("b"), h.signalJob("a"), h.resolved("s"));
    expect(order).toEqual(["step", "signal b", "signal a", "condition"]);
    await crashAnywhere(h);
  });

  it("X6 after each message everything is drained before the next is taken", async () => {
    const order: string[] = [];
    const wf = workflow("drains", async (ctx) => {
      const follow = async (c: UnitContext, name: string) => {
        await c.waitForSignal(name);
        order.push(name);
        await c.yield();
        await c.yield();
        order.push(`${name} drained`);
      };
      await ctx.parallel([(c) => follow(c, "a"), (c) => follow(c, "b")]);
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("b"), h.signalJob("a"));
    expect(order).toEqual(["b", "b drained", "a", "a drained"]);
    await crashAnywhere(h);
  });

  it("X6 signals, updates and timeouts are taken in arrival order alike", async () => {
    const wf = workflow("alike", async (ctx) => {
      const order: string[] = [];
      const timed = ctx.waitForSignal("never", { timeout: "1m" }).then(() => void order.push("timeout"));
      await ctx.receive(0, {
        signals: {
          s: (_payload, state) => {
            order.push("signal");
            return Receive.noreply(state);
          },
        },
        updates: {
          u: (_input, state) => {
            order.push("update");
            return Receive.reply(0, state);
          },
          end: (_input, state) => Receive.stop(0, state),
        },
      });
      await timed;
      return order;
    });
    const orders = [];
    for (const kinds of [
      ["signal", "timeout", "update"],
      ["timeout", "update", "signal"],
      ["update", "signal", "timeout"],
    ]) {
      const h = await Harness.start(wf);
      const seq = h.nextTimer as number;
      const jobs = { signal: h.signalJob("s"), update: h.updateJob("u"), timeout: { type: "fire", seq } as const };
      h.time += 60_000;
      await h.turn(...kinds.map((kind) => jobs[kind as keyof typeof jobs]), h.updateJob("end"));
      orders.push(h.output);
      await crashAnywhere(h);
    }
    expect(orders).toEqual([
      ["signal", "timeout", "update"],
      ["timeout", "update", "signal"],
      ["update", "signal", "timeout"],
    ]);
  });

  it("X6 conditions end one at a time in waiting order, draining after each", async () => {
    const order: string[] = [];
    const wf = workflow("conditions", async (ctx) => {
      let tokens = 0;
      const take = (name: string) => async (c: UnitContext) => {
        await c.condition(() => tokens > 0);
        tokens--;
        order.push(name);
      };
      const first = ctx.parallel([take("a"), take("b"), take("c")]);
      for (;;) {
        await ctx.waitForSignal("token");
        tokens++;
        if (order.length === 2) break;
      }
      await first;
    });
    const h = await Harness.start(wf);
    await h.signal("token");
    expect(order).toEqual(["a"]);
    await h.turn(h.signalJob("token"), h.signalJob("token"));
    expect(order).toEqual(["a", "b", "c"]);
    await crashAnywhere(h);
  });

  it("X6 what a condition lets happen may feed messages and further conditions in the same activation", async () => {
    const wf = workflow("feeds", async (ctx) => {
      let stage = 0;
      const [, , third] = await Promise.all([
        ctx.condition(() => stage === 1).then(() => ++stage),
        ctx.waitForSignal("go").then(() => ++stage),
        ctx.condition(() => stage === 2).then(() => ctx.waitForSignal("last")),
      ]);
      return third;
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("last", "in one activation"), h.signalJob("go"));
    expect(h.output).toBe("in one activation");
    await crashAnywhere(h);
  });

  it("X6 accepted handlers run in the same activation, and their outcome is in its completion", async () => {
    const wf = workflow("handlers", async (ctx) =>
      ctx.receive(1, { updates: { double: (_input, state: number) => Receive.reply(state * 2, state * 2) } }),
    );
    const h = await Harness.start(wf);
    expect(types(await h.update("double", undefined, "u"))).toEqual(["acceptUpdate", "dispatch", "completeUpdate"]);
    expect(h.updateResult("u")).toEqual({ value: 2 });
    await crashAnywhere(h);
  });

  const asked = workflow(
    { name: "asked", signals: { set: signal<number>() }, queries: { double: (state: number) => state * 2, fails: () => Promise.reject } },
    async (ctx) => {
      ctx.publishState(1);
      for (;;) {
        ctx.publishState(await ctx.waitForSignal("set"));
        await ctx.step("s", () => 0);
      }
    },
  );

  it("X6 M11 a query-only activation answers and advances no unit", async () => {
    const h = await Harness.start(asked);
    await h.signal("set", 4);
    const before = h.turns;
    const completion = await h.activate(h.queryJob("double", undefined, "q1"), h.queryJob("unknown", undefined, "q2"));
    expect(completion).toMatchObject({
      status: "ok",
      commands: [],
      replies: [
        { type: "answerQuery", id: "q1" },
        { type: "failQuery", id: "q2" },
      ],
    });
    expect(h.turns).toEqual(before);
    await h.resolve("s");
    await crashAnywhere(h);
  });

  it("X6 a query-only activation leaves a unit that could run where it is", async () => {
    const ran: string[] = [];
    const wf = workflow({ name: "idle", signals: { go: signal() }, queries: { q: () => 1 } }, async (ctx) => {
      let open = false;
      void ctx.condition(() => {
        ran.push("predicate");
        return open;
      });
      await ctx.waitForSignal("go");
      open = true;
      ran.push("code");
    });
    const h = await Harness.start(wf);
    ran.length = 0;
    await h.turn(h.queryJob("q"));
    expect(ran).toEqual([]);
  });

  it("X6 queries beside other jobs are answered after everything, from what was published by then", async () => {
    const h = await Harness.start(asked);
    await h.turn(h.queryJob("double", undefined, "q"), h.signalJob("set", 21));
    expect(h.answers).toEqual([{ type: "answerQuery", id: "q", value: h.codec.encode(42) }]);
    await crashAnywhere(h);
  });

  it("X6 leftover updates are rejected at the end, and leave no trace", async () => {
    const h = await Harness.start(workflow("deaf", async (ctx) => ctx.waitForSignal("go")));
    expect(await h.update("u", 1, "u1")).toEqual([]);
    expect(h.updateResult("u1")).toMatchObject({ error: { name: "UpdateRejectedError" } });
    expect(h.turns).toHaveLength(1);
  });

  it("X6 an update that comes before the signal that opens its receive is accepted in that activation", async () => {
    const wf = workflow("opens", async (ctx) => {
      await ctx.waitForSignal("open");
      return ctx.receive(0, { updates: { u: (_input, state) => Receive.stop("done", state) } });
    });
    const h = await Harness.start(wf);
    await h.turn(h.updateJob("u", undefined, "u1"), h.signalJob("open"));
    expect(h.updateResult("u1")).toEqual({ value: "done" });
    await crashAnywhere(h);
  });

  it("X6 X10 an eviction-only activation runs no workflow code and completes with nothing", async () => {
    const ran: string[] = [];
    const wf = workflow("evicted", async (ctx) => {
      try {
        await ctx.condition(() => void ran.push("predicate"));
      } finally {
        ran.push("finally");
      }
    });
    const h = await Harness.start(wf);
    ran.length = 0;
    expect(await h.activate({ type: "evict" })).toEqual({ status: "ok", commands: [], replies: [] });
    await macrotask();
    expect(ran).toEqual([]);
    expect(h.turns).toHaveLength(1);
  });

  it("X6 an eviction-only activation succeeds after a failed turn too", async () => {
    const h = new Harness(workflow("foreign", async () => new Promise<void>((resolve) => setImmediate(resolve))));
    await expect(h.start()).rejects.toMatchObject({ name: "ForeignAwaitError" });
    expect(await h.activate({ type: "evict" })).toMatchObject({ status: "ok", commands: [] });
  });

  it("X6 an activation without jobs completes with nothing", async () => {
    const h = await Harness.start(workflow("idle", async (ctx) => ctx.waitForSignal("go")));
    expect(await h.turn()).toEqual([]);
  });

  it("X6 there is one completion even when a logger throws, and the workflow does not see it", async () => {
    const broken = () => {
      throw new Error("the disk is full");
    };
    const wf = workflow("logs", async (ctx) => {
      ctx.log.info("hello");
      void ctx.step("beside", () => 0);
      return ctx.loop({ name: "l", state: 0, commitInterval: 1 }, async (_c, i: number) =>
        i === 3 ? Loop.break(i) : Loop.continue(i + 1),
      );
    });
    const h = await Harness.start(wf, undefined, { logger: { debug: broken, info: broken, warn: broken, error: broken } });
    await h.resolve("beside");
    expect(h.output).toBe(3);
  });
});

describe("Y2 Y3 Y6 replay as the scheduler sees it", () => {
  const original = workflow("order", async (ctx) => {
    await ctx.step("a", () => 0);
    await Promise.all([ctx.step("b", () => 0), ctx.sleep("c", 100)]);
  });
  const same = (run: AnyWorkflow["run"]) => workflow("order", run as (ctx: UnitContext) => Promise<void>);
  const changed: readonly (readonly [string, AnyWorkflow, object])[] = [
    [
      "missing",
      same(async (ctx) => {
        await ctx.step("a", () => 0);
        await ctx.step("b", () => 0);
      }),
      { location: "c", actual: undefined },
    ],
    [
      "extra",
      same(async (ctx) => {
        await ctx.step("a", () => 0);
        await Promise.all([ctx.step("b", () => 0), ctx.sleep("c", 100), ctx.step("d", () => 0)]);
      }),
      { location: "d", expected: undefined },
    ],
    [
      "reordered",
      same(async (ctx) => {
        await ctx.step("a", () => 0);
        await Promise.all([ctx.sleep("c", 100), ctx.step("b", () => 0)]);
      }),
      { name: "NondeterminismError" },
    ],
    [
      "changed",
      same(async (ctx) => {
        await ctx.step("a", () => 0);
        await Promise.all([ctx.step("b", () => 0), ctx.sleep("c", 200)]);
      }),
      { location: "c", field: "duration", expected: 100, actual: 200 },
    ],
  ];
  it.each(changed)("Y2 Y6 a %s command is nondeterminism", async (_how, wf, details) => {
    const h = await Harness.start(original);
    await h.resolve("a");
    const error: unknown = await h.recover(wf).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(NondeterminismError);
    expect(error).toMatchObject(details);
  });

  it("Y6 the branches of a scope in another order are nondeterminism", async () => {
    const make = (...names: string[]) =>
      workflow("branches", async (ctx) => ctx.parallel(names.map((name) => (c) => c.step(name, () => 0))));
    const h = await Harness.start(make("a", "b"));
    await expect(h.recover(make("b", "a"))).rejects.toBeInstanceOf(NondeterminismError);
  });

  it("Y3 a resolution wakes only the caller of its own number", async () => {
    const woken: string[] = [];
    const wf = workflow("wakes", async (ctx) =>
      ctx.parallel(
        ["a", "b", "c"].map((name) => async (c: UnitContext) => {
          await c.step("same name", () => 0);
          woken.push(name);
        }),
      ),
    );
    const h = await Harness.start(wf);
    await h.resolve("parallel/~1/same%20name".replace("%20", " "));
    expect(woken).toEqual(["b"]);
    await h.turn({ type: "resolve", seq: 999, outcome: { status: "completed", value: h.codec.encode(0) } });
    expect(woken).toEqual(["b"]);
    await crashAnywhere(h);
  });

  it("Y3 a second resolution of one operation is dropped", async () => {
    const wf = workflow("once", async (ctx) => {
      const first = await ctx.step("s", () => "");
      return [first, await ctx.step("t", () => "")];
    });
    const h = await Harness.start(wf);
    const again = h.resolved("s", "second");
    await h.turn(h.resolved("s", "first"), again);
    await h.turn(again);
    await h.resolve("t", "t");
    expect(h.output).toEqual(["first", "t"]);
    await crashAnywhere(h);
  });
});

describe("X9 the turn timeout", () => {
  /** A clock that workflow code moves. */
  class Clock {
    now = 0;
    readonly elapsed = () => this.now;
    take(ms: number): void {
      this.now += ms;
    }
  }

  it("X9 a turn over the timeout fails when it returns, and says where and how long", async () => {
    const clock = new Clock();
    const wf = workflow("slow", async (ctx) => {
      await ctx.step("quick", () => 0);
      clock.take(2_001);
      await ctx.step("next", () => 0);
    });
    const h = await Harness.start(wf, undefined, { elapsed: clock.elapsed });
    const error: unknown = await h.resolve("quick").catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(TurnTimeoutError);
    expect(error).toMatchObject({ elapsed: 2_001, limit: 2_000, location: "next" });
    expect(h.turns).toHaveLength(1);
    expect(h.terminal).toBeUndefined();
  });

  it("X9 two seconds are not over the default, and the clock restarts with each turn", async () => {
    const clock = new Clock();
    const wf = workflow("steady", async (ctx) => {
      for (let i = 0; i < 5; i++) {
        clock.take(2_000);
        await ctx.step("s", () => 0);
      }
    });
    const h = await Harness.start(wf, undefined, { elapsed: clock.elapsed });
    for (let i = 0; i < 5; i++) await h.resolve("s");
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("X9 the steps of all units of a turn count together", async () => {
    const clock = new Clock();
    const wf = workflow("many", async (ctx) => ctx.parallel(Array.from({ length: 4 }, () => async () => clock.take(300))));
    await expect(Harness.start(wf, undefined, { elapsed: clock.elapsed, turnTimeout: 1_000 })).rejects.toBeInstanceOf(TurnTimeoutError);
    expect((await Harness.start(wf, undefined, { elapsed: clock.elapsed, turnTimeout: 1_200 })).status).toBe("completed");
  });

  it("X9 a turn that ends the run is not accepted either if it took too long", async () => {
    const clock = new Clock();
    const h = new Harness(
      workflow("ends", async () => clock.take(5_000)),
      { elapsed: clock.elapsed },
    );
    await expect(h.start()).rejects.toBeInstanceOf(TurnTimeoutError);
    expect(h.terminal).toBeUndefined();
  });

  it("X9 what a predicate or a validator takes counts too", async () => {
    const clock = new Clock();
    const predicate = workflow("predicate", async (ctx) => ctx.condition(() => clock.take(3_000)));
    await expect(Harness.start(predicate, undefined, { elapsed: clock.elapsed })).rejects.toBeInstanceOf(TurnTimeoutError);
    const validator = workflow("validator", async (ctx) =>
      ctx.receive(0, { updates: { u: { validate: () => clock.take(3_000), handle: (_input, state) => Receive.reply(0, state) } } }),
    );
    const h = await Harness.start(validator, undefined, { elapsed: clock.elapsed });
    await expect(h.update("u")).rejects.toBeInstanceOf(TurnTimeoutError);
  });

  it("X9 user code can't swallow it", async () => {
    const clock = new Clock();
    const wf = workflow("swallows", async (ctx) => {
      try {
        clock.take(3_000);
        await ctx.step("s", () => 0);
      } catch {
        return "swallowed";
      }
      return "unreached";
    });
    await expect(Harness.start(wf, undefined, { elapsed: clock.elapsed })).rejects.toBeInstanceOf(TurnTimeoutError);
  });

  it("X9 a timeout of 0 is none", async () => {
    const clock = new Clock();
    const wf = workflow("free", async (ctx) => {
      clock.take(60_000);
      await ctx.step("s", () => 0);
      clock.take(60_000);
    });
    const h = await Harness.start(wf, undefined, { elapsed: clock.elapsed, turnTimeout: 0 });
    await h.resolve("s");
    expect(h.status).toBe("completed");
  });

  it("X9 time in which the process was frozen, or had no processor, is not the turn's", async () => {
    const clock = new Clock();
    const processor = new Clock();
    const work = (ms: number, share = 1) => {
      clock.take(ms);
      processor.take(ms * share);
    };
    const run = async (turn: () => void) => {
      const wf = workflow("frozen", async (ctx) => {
        for (let i = 0; i < 10; i++) await ctx.sideEffect(() => work(15));
        turn();
        await ctx.step("s", () => 0);
      });
      return Harness.start(wf, undefined, { elapsed: createTurnClock(clock.elapsed, processor.elapsed) });
    };
    await run(() => work(60_000, 0)); // frozen
    await run(() => work(3_000, 0.5)); // others have half of the processor
    await run(() => work(1_500, 4)); // beside busy threads of the process: never more than has elapsed
    await expect(run(() => work(2_001))).rejects.toBeInstanceOf(TurnTimeoutError);
    await expect(run(() => work(5_000, 0.5))).rejects.toBeInstanceOf(TurnTimeoutError);
  });

  it("X9 without a clock there is no timeout", async () => {
    const h = await Harness.start(
      workflow("free", async () => "done"),
      undefined,
      { turnTimeout: 0 },
    );
    expect(h.output).toBe("done");
  });
});

describe("X8 the barrier", () => {
  const chain = async (awaits: number) => {
    for (let i = 0; i < awaits; i++) await Promise.resolve();
  };

  it("X8 it fires after any chain of awaits, and before timers, immediates and I/O", async () => {
    const barrier = createBarrier();
    const order: string[] = [];
    await macrotask();
    await new Promise<void>((resolve) => {
      const arrive = (what: string) => {
        if (order.push(what) === 4) resolve();
      };
      setTimeout(() => arrive("timer"), 0);
      setImmediate(() => arrive("immediate"));
      const until = performance.now() + 3;
      while (performance.now() < until);
      barrier(() => arrive("barrier"));
      void chain(500).then(() => arrive("chain"));
    });
    expect(order.slice(0, 2)).toEqual(["chain", "barrier"]);
  });

  it("X8 steps that are armed together share one tick", async () => {
    let ticks = 0;
    const barrier = createBarrier({
      process: {
        nextTick: (callback) => {
          ticks++;
          process.nextTick(callback);
        },
      },
    });
    await macrotask();
    let fired = 0;
    await new Promise<void>((resolve) => {
      for (let i = 0; i < 100; i++) barrier(() => ++fired === 100 && resolve());
    });
    expect([fired, ticks]).toEqual([100, 1]);
  });

  it("X8 nextTick is called as a method of its process", async () => {
    class Runtime {
      calls = 0;
      nextTick(callback: () => void): void {
        this.calls++;
        process.nextTick(callback);
      }
    }
    const runtime = new Runtime();
    await new Promise<void>((resolve) => createBarrier({ process: runtime })(resolve));
    expect(runtime.calls).toBe(1);
  });

  it("X8 a step armed from a nextTick callback while another is pending is not cut short by the other's tick", async () => {
    const barrier = createBarrier();
    await macrotask();
    const cutShort = await new Promise<boolean>((resolve) => {
      // The tick of the first is queued by its microtask; the callback below runs just before it, from the same queue.
      queueMicrotask(() => {
        process.nextTick(() => {
          let over = false;
          void chain(50).then(() => {
            over = true;
          });
          barrier(() => resolve(!over));
        });
      });
      barrier(() => {});
    });
    expect(cutShort).toBe(false);
  });

  it("X8 nor one armed in the microtasks of another's step", async () => {
    const barrier = createBarrier();
    await macrotask();
    const over: boolean[] = [];
    await new Promise<void>((resolve) => {
      barrier(() => over.push(true));
      void chain(3).then(() => {
        let done = false;
        void chain(50).then(() => {
          done = true;
        });
        barrier(() => {
          over.push(done);
          resolve();
        });
      });
    });
    expect(over).toEqual([true, true]);
  });

  it("X8 each is called once, and steps that arm again from within get another tick", async () => {
    const barrier = createBarrier();
    const calls: number[] = [];
    await new Promise<void>((resolve) => {
      const next = (n: number) => () => {
        calls.push(n);
        if (n === 50) resolve();
        else barrier(next(n + 1));
      };
      barrier(next(0));
    });
    await macrotask();
    expect(calls).toEqual(Array.from({ length: 51 }, (_, n) => n));
  });

  describe("where there is no process.nextTick", () => {
    type Runtime = NonNullable<Parameters<typeof createBarrier>[0]>;
    const channels: Closable[] = [];
    class Closable extends MessageChannel {
      constructor() {
        super();
        channels.push(this);
      }
    }
    // Node's types leave out `onmessage`, which its ports have.
    const runtime = { MessageChannel: Closable } as unknown as Runtime;
    const close = () => {
      for (const channel of channels.splice(0)) channel.port1.close();
    };

    it("X8 a MessageChannel serves: it fires after any chain of awaits, for each step its own", async () => {
      const barrier = createBarrier(runtime);
      const over: boolean[] = [];
      await new Promise<void>((resolve) => {
        for (let i = 0; i < 3; i++) {
          let done = false;
          void chain(100 * (i + 1)).then(() => {
            done = true;
          });
          barrier(() => over.push(done) === 3 && resolve());
        }
      });
      expect(over).toEqual([true, true, true]);
      close();
    });

    it("X8 a run works with it, replay included", async () => {
      const barrier = createBarrier(runtime);
      const wf = workflow("elsewhere", async (ctx) => {
        await chain(50);
        const results = await ctx.parallel([(c) => c.step("a", () => 0), (c) => c.step("b", () => 0)]);
        return results.length;
      });
      const h = await Harness.start(wf, undefined, { barrier });
      await h.turn(h.resolved("a"), h.resolved("b"));
      expect(h.output).toBe(2);
      await crashAnywhere(h);
      const foreign = workflow("foreign", async () => new Promise<void>((resolve) => setTimeout(resolve, 50)));
      await expect(Harness.start(foreign, undefined, { barrier })).rejects.toMatchObject({ name: "ForeignAwaitError" });
      close();
    });

    it("X8 with neither it says what to pass", () => {
      expect(() => createBarrier({})).toThrow(/barrier/);
    });
  });

  it("X8 a barrier of the host's own is used", async () => {
    let calls = 0;
    const barrier = createBarrier();
    const wf = workflow("own", async (ctx) => ctx.step("s", () => 0));
    const executor = new Executor({
      workflow: wf,
      barrier: (done) => {
        calls++;
        barrier(done);
      },
    });
    const completion = await executor.activate({
      time: 0,
      jobs: [{ type: "start", runId: "r", workflow: "own", input: "null", seed: "s", startedAt: 0 }],
    });
    expect(completion.status).toBe("ok");
    expect(calls).toBe(1);
  });
});
