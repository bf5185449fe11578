// Messages on a real server, while runs close, continue as new, or go on in a new execution because their history is long.
// Owns: none.
// Invariants: M1 D9 (a signal that was acknowledged was seen), M10 (an update that was answered was applied once, and one that was not
// answered was not applied), M3 (keys), M8 M9 (what is rejected leaves no event), R11 L3 P10 (executions).

import { setTimeout as pause } from "node:timers/promises";
import { Loop, Receive, type Run, RunClosedError, signal, UpdateRejectedError, update, workflow } from "holdfast";
import { describe, expect, test, vi } from "vitest";
import { engines, LONG } from "./engines.ts";

interface Seen {
  readonly ticks: readonly number[];
  readonly adds: readonly number[];
  /** The executions that handled something. */
  readonly keys: readonly string[];
}
const EMPTY: Seen = { ticks: [], adds: [], keys: [] };
const MESSAGES = {
  signals: { tick: signal<number>(), end: signal(), later: signal<string>() },
  updates: { add: update<number, number>() },
};
type Entity = Run<Seen, typeof MESSAGES.signals, typeof MESSAGES.updates, Record<never, never>>;

/** Receives until its time is over, then ends. */
const closing = workflow({ name: "closing", ...MESSAGES }, async (ctx) => {
  const { state } = await ctx.receive(EMPTY, {
    signals: { tick: (n, seen) => Receive.noreply({ ...seen, ticks: [...seen.ticks, n] }) },
    updates: { add: (n, seen) => Receive.reply(n, { ...seen, adds: [...seen.adds, n] }) },
    timeout: "4s",
  });
  return state;
});
/** Ends in the handler of a message. */
const stopping = workflow({ name: "stopping", ...MESSAGES }, async (ctx) => {
  const { state } = await ctx.receive(EMPTY, {
    signals: { tick: (n, seen) => Receive.noreply({ ...seen, ticks: [...seen.ticks, n] }), end: (_, seen) => Receive.stop(seen) },
    updates: {
      add: async (n, seen, handler) => {
        await handler.step("add", () => n);
        return Receive.reply(n, { ...seen, adds: [...seen.adds, n] });
      },
    },
  });
  return state;
});
/** Every 15 messages a new execution. */
const renewed = workflow<Seen, Seen, typeof MESSAGES.signals, typeof MESSAGES.updates>(
  { name: "renewed", ...MESSAGES },
  async (ctx, before) => {
    const count = before.ticks.length + before.adds.length + 15;
    let isOver = false;
    const { state } = await ctx.receive(before, {
      signals: {
        tick: (n, seen) => {
          const next = { ...seen, ticks: [...seen.ticks, n] };
          return next.ticks.length + next.adds.length >= count ? Receive.stop(next) : Receive.noreply(next);
        },
        end: (_, seen) => {
          isOver = true;
          return Receive.stop(seen);
        },
      },
      updates: {
        add: (n, seen) => {
          const next = { ...seen, adds: [...seen.adds, n] };
          return next.ticks.length + next.adds.length >= count ? Receive.stop(n, next) : Receive.reply(n, next);
        },
      },
    });
    return isOver ? state : ctx.continueAsNew(state);
  },
);
/** Commits every 5 messages, with a step for each update. */
const lasting = workflow({ name: "lasting", ...MESSAGES }, async (ctx) => {
  const { state } = await ctx.receive(EMPTY, {
    signals: {
      tick: (n, seen, handler) => {
        handler.publishState(seen.ticks.length + 1);
        return Receive.noreply({ ...seen, ticks: [...seen.ticks, n] });
      },
      end: (_, seen) => Receive.stop(seen),
    },
    updates: {
      add: async (n, seen, handler) => {
        const key = await handler.step("add", ({ idempotencyKey }) => idempotencyKey);
        return Receive.reply(n, { ...seen, adds: [...seen.adds, n], keys: [...seen.keys, key] });
      },
    },
    checkpointEvery: 5,
  });
  return { ...state, later: await ctx.waitForSignal("later"), execution: ctx.run.attempt };
});

/** What was acknowledged, and what was answered. */
interface Pressed {
  readonly ticks: number[];
  readonly adds: number[];
  readonly errors: string[];
}
/** Errors that only a fault of the host explains are listed with their text. */
const EXPECTED = new Set(["RunClosedError", "UpdateFailedError", "ReceiveClosedError"]);
const nameOf = ({ name, message }: Error): string => (EXPECTED.has(name) ? name : `${name}: ${message}`);
const nothing = (): Pressed => ({ ticks: [], adds: [], errors: [] });
/**
 * Between two signals, in milliseconds. The server refuses the end of a run for which a message has arrived meanwhile, so that a machine that
 * is slower than the senders would never get to it: the pressure falls after 8 s, when every run of these tests has tried to end.
 */
function interval(since: number): number {
  const seconds = (performance.now() - since) / 1_000;
  return seconds < 8 ? 5 : Math.min(5 * 2 ** (seconds - 8), 2_000);
}
/** Sends ticks every 5 ms and updates from five callers until `isOver`, or until the run is closed. */
async function press(run: Entity, isOver: () => boolean, pressed: Pressed = nothing()): Promise<Pressed> {
  const { ticks, adds, errors } = pressed;
  const since = performance.now();
  let next = 0;
  const ticking = async (): Promise<void> => {
    const sent: Promise<void>[] = [];
    for (let n = 0, isClosed = false; !isOver() && !isClosed; n++) {
      const sending = run.signal("tick", n).then(
        () => void ticks.push(n),
        (error: Error) => {
          errors.push(nameOf(error));
          if (error instanceof RunClosedError) isClosed = true;
        },
      );
      sent.push(sending);
      await pause(interval(since));
    }
    await Promise.all(sent);
  };
  const updating = async (): Promise<void> => {
    while (!isOver()) {
      const n = next++;
      try {
        expect(await run.update("add", n, { acceptWithin: "20s" })).toBe(n);
        adds.push(n);
      } catch (error) {
        errors.push(nameOf(error as Error));
        if (error instanceof RunClosedError) return;
      }
    }
  };
  await Promise.all([ticking(), updating(), updating(), updating(), updating(), updating()]);
  return pressed;
}
const SOON = { timeout: 60_000 };
/** For 6 s, and until `isEnough` passes: a busy machine needs longer for as much. */
async function pressUntil(run: Entity, isEnough: () => Promise<void>): Promise<Pressed> {
  let isOver = false;
  const pressing = press(run, () => isOver);
  try {
    await Promise.all([pause(6_000), vi.waitFor(isEnough, SOON)]);
  } finally {
    isOver = true;
  }
  return pressing;
}
const untilClosed = (): boolean => false;
const sorted = (numbers: readonly number[]): number[] => numbers.toSorted((a, b) => a - b);

describe("five callers of updates and a signal every 5 ms", () => {
  const on = engines(
    { settings: { "limit.historyCount.suggestContinueAsNew": 80, "history.workflowIdReuseMinimalInterval": "0s" } },
    { shortestExecution: 0 },
  );
  const opened = async () => {
    const holdfast = await on.open();
    await holdfast.worker({ workflows: [closing, stopping, renewed, lasting, looping, keyed, patient] });
    return holdfast;
  };

  test(
    "D9 M1 M10 while the run closes by a timeout",
    async () => {
      const holdfast = await opened();
      const run = await holdfast.start(closing);
      const { ticks, adds, errors } = await press(run, untilClosed);
      const output = await run.result();
      expect(sorted(output.ticks)).toEqual(sorted([...new Set(output.ticks)]));
      expect(sorted(output.ticks)).toEqual(sorted(ticks));
      expect(sorted(output.adds)).toEqual(sorted(adds));
      expect(ticks.length).toBeGreaterThan(20);
      expect(adds.length).toBeGreaterThan(5);
      expect(new Set(errors)).toEqual(new Set(["RunClosedError"]));
    },
    LONG,
  );

  test(
    "M10 R6 while the run closes in a handler",
    async () => {
      const holdfast = await opened();
      const run = await holdfast.start(stopping);
      const pressed = nothing();
      const pressing = press(run, untilClosed, pressed);
      await vi.waitFor(() => expect(pressed.adds.length).toBeGreaterThan(20), SOON);
      await run.signal("end");
      const { ticks, adds, errors } = await pressing;
      const output = await run.result();
      expect(sorted(output.adds)).toEqual(sorted(adds));
      expect(ticks).toEqual(expect.arrayContaining([...output.ticks]));
      expect(new Set(output.ticks).size).toBe(output.ticks.length);
      expect(adds.length).toBeGreaterThan(5);
      for (const error of errors) expect(["RunClosedError", "UpdateFailedError", "ReceiveClosedError"]).toContain(error);
    },
    LONG,
  );

  test(
    "P10 M1 M10 while it continues as new",
    async () => {
      const holdfast = await opened();
      const run = await holdfast.start(renewed, EMPTY);
      const { ticks, adds, errors } = await pressUntil(run, async () => expect((await run.describe()).execution).toBeGreaterThan(5));
      await run.signal("end");
      const output = await run.result();
      expect(output.ticks).toHaveLength(new Set(output.ticks).size);
      expect(sorted(output.ticks)).toEqual(sorted(ticks));
      expect(sorted(output.adds)).toEqual(sorted(adds));
      for (const error of errors) expect(["UpdateFailedError", "ReceiveClosedError"]).toContain(error);
    },
    LONG,
  );

  test(
    "R11 P10 M1 M10 while a receive commits: the same execution to users, in several of Temporal's",
    async () => {
      const holdfast = await opened();
      const run = await holdfast.start(lasting);
      await run.signal("later", "kept");
      await run.update("add", -1, { idempotencyKey: "first" });
      await run.signal("tick", -1, { idempotencyKey: "first tick" });
      const { ticks, adds, errors } = await pressUntil(run, async () => expect(await executionsOf(run.id)).toBeGreaterThan(2));
      // Its history stays short, though there was always an update that was accepted and not answered.
      expect((await on.events(run.id)).length).toBeLessThan(600);
      // M3: both are known, though other executions have handled them.
      expect(await run.update("add", -1, { idempotencyKey: "first" })).toBe(-1);
      await run.signal("tick", -1, { idempotencyKey: "first tick" });
      const { execution, createdAt, startedAt } = await run.describe();
      expect(execution).toBe(1);
      expect(createdAt.getTime()).toBeLessThanOrEqual(startedAt?.getTime() ?? 0);
      expect(await run.state()).toBe(ticks.length + 1);
      await run.signal("end");
      const output = await run.result();
      expect(sorted(output.ticks)).toEqual([-1, ...sorted(ticks)]);
      expect(sorted(output.adds)).toEqual([-1, ...sorted(adds)]);
      expect(output.later).toBe("kept");
      expect(errors).toEqual([]);
      // D3: the key of a step is its own, and has not changed with Temporal's execution.
      expect(new Set(output.keys).size).toBe(output.adds.length);
      for (const key of output.keys) expect(key.startsWith(`${run.id}/receive`), key).toBe(true);
    },
    LONG,
  );

  /** How many of Temporal's executions the run has had. */
  async function executionsOf(id: string): Promise<number> {
    const { service, namespace } = on.raw;
    let count = 0;
    let runId = "";
    do {
      const { workflowExecutionInfo: info } = await service.describeWorkflowExecution({ namespace, execution: { workflowId: id, runId } });
      count++;
      if (info?.firstRunId === info?.execution?.runId) return count;
      const [started] = await on.events(id, info?.execution?.runId ?? "");
      runId = started?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? "";
    } while (runId !== "");
    return count;
  }
  /** Commits its state every 3 iterations; each has a step and a timer. */
  const looping = workflow({ name: "looping", signals: { later: signal<string>() } }, async (ctx) => {
    const before = await ctx.step("before", () => "before the loop");
    const total = await ctx.loop(
      { name: "rounds", state: { n: 0, keys: [] as string[] }, commitInterval: 3 },
      async (round, { n, keys }) => {
        const key = await round.step("round", ({ idempotencyKey }) => idempotencyKey);
        round.publishState(n + 1);
        return n === 59 ? Loop.break([...keys, key]) : Loop.continue({ n: n + 1, keys: [...keys, key] });
      },
    );
    return { before, total, later: await ctx.waitForSignal("later") };
  });
  test(
    "L3 P10 a loop that commits goes on in several of Temporal's executions",
    async () => {
      const holdfast = await opened();
      const run = await holdfast.start(looping, undefined, { signals: [{ name: "later", payload: "kept" }], attributes: { team: "red" } });
      const { before, total, later } = await run.result();
      expect(before).toBe("before the loop");
      expect(later).toBe("kept");
      expect(new Set(total).size).toBe(60);
      expect(await run.state()).toBe(60);
      expect(await run.describe()).toMatchObject({ execution: 1, attributes: { team: "red" }, status: "completed" });
      expect(await executionsOf(run.id)).toBeGreaterThan(2);
    },
    LONG,
  );

  /** Continues as new once, with a signal that it has not consumed. */
  const keyed = workflow<number, unknown, typeof MESSAGES.signals, typeof MESSAGES.updates>(
    { name: "keyed", ...MESSAGES },
    async (ctx, before) => {
      const { state } = await ctx.receive(before, {
        signals: { tick: (_, n) => Receive.noreply(n + 1), end: (_, n) => Receive.stop(n) },
        updates: { add: (by, n) => Receive.reply(n + by, n + by) },
      });
      if (before === 0) return ctx.continueAsNew(state);
      return [state, await ctx.waitForSignal("later")];
    },
  );
  test(
    "P10 M3 keys and signals that were not consumed move to the next execution",
    async () => {
      const holdfast = await opened();
      const run = await holdfast.start(keyed, 0);
      await run.signal("later", "kept", { idempotencyKey: "l" });
      expect(await run.update("add", 10, { idempotencyKey: "u" })).toBe(10);
      await run.signal("tick", 1, { idempotencyKey: "t" });
      await run.signal("end");
      await vi.waitFor(async () => expect(await run.describe()).toMatchObject({ execution: 2, status: "sleeping" }), SOON);
      expect(await run.update("add", 10, { idempotencyKey: "u" })).toBe(10);
      await run.signal("tick", 1, { idempotencyKey: "t" });
      await run.signal("later", "twice", { idempotencyKey: "l" });
      expect(await run.update("add", 100, { idempotencyKey: "v" })).toBe(111);
      await run.signal("end");
      expect(await run.result()).toEqual([111, "kept"]);
    },
    LONG,
  );

  /** Receives only between two signals. */
  const patient = workflow({ name: "patient", ...MESSAGES }, async (ctx) => {
    await ctx.waitForSignal("later");
    const { state } = await ctx.receive(0, {
      signals: { end: (_, n) => Receive.stop(n) },
      updates: {
        add: {
          validate: (by, n) => {
            if (by < n) throw new RangeError(`${by} is less than ${n}`);
          },
          handle: (by, n) => Receive.reply(n + by, n + by),
        },
      },
    });
    await ctx.waitForSignal("later");
    return state;
  });
  const updateEvents = async (id: string) => (await on.kinds(id)).filter((kind) => kind.includes("UPDATE"));
  test(
    "M8 M9 what is rejected leaves no event: outside of a receive, and by a validator",
    async () => {
      const holdfast = await opened();
      const run = await holdfast.start(patient);
      await vi.waitFor(async () => expect(await run.describe()).toMatchObject({ status: "sleeping" }), SOON);
      await expect(run.update("add", 1)).rejects.toBeInstanceOf(UpdateRejectedError);
      expect(await updateEvents(run.id)).toEqual([]);
      const early = run.update("add", 1, { acceptWithin: "1m" });
      await run.signal("later", "");
      expect(await early).toBe(1);
      expect(await run.update("add", 5)).toBe(6);
      await expect(run.update("add", 2)).rejects.toThrow("2 is less than 6");
      expect(await updateEvents(run.id)).toHaveLength(4);
      await run.signal("end");
      await expect(run.update("add", 7)).rejects.toBeInstanceOf(UpdateRejectedError);
      expect(await updateEvents(run.id)).toHaveLength(4);
      await run.signal("later", "");
      expect(await run.result()).toBe(6);
    },
    LONG,
  );

  test(
    "M8 an update with the start: of a new run, of an open one, and again under its key",
    async () => {
      const holdfast = await opened();
      const id = `with-start-${Date.now()}`;
      const add = (n: number, key?: string) =>
        holdfast.updateWithStart(
          stopping,
          undefined,
          { name: "add", input: n, ...(key !== undefined && { idempotencyKey: key }) },
          { id, onConflict: "use-existing" },
        );
      const { run, result } = await add(1, "one");
      expect(result).toBe(1);
      expect((await add(2)).result).toBe(2);
      expect((await add(1, "one")).result).toBe(1);
      await run.signal("end");
      expect((await run.result()).adds).toEqual([1, 2]);
      const refused = holdfast.updateWithStart(patient, undefined, { name: "add", input: 1 }, { id: `${id}-refused` });
      await expect(refused).rejects.toBeInstanceOf(UpdateRejectedError);
      expect(await updateEvents(`${id}-refused`)).toEqual([]);
      await holdfast.run(`${id}-refused`).terminate();
    },
    LONG,
  );
});
