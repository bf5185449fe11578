// Job: prove how open operations are carried out: attempts, timers and rows, without a store.
// Owns: a clock that is set by hand, and bodies that end when the test says so.
// Invariants: D1 D6 D7 D8 D10 D12 K7 K8 W4.

import type { Job, Logger, OpeningCommand, Outcome, Turn } from "@holdfast/core";
import { beforeEach, describe, expect, test } from "vitest";
import { type Body, Recorded } from "../src/attempt.ts";
import { OpenOperations, type OpenOperationsOptions } from "../src/attempts/openOperations.ts";

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };
let now: number;
let timers: { at: number; callback: () => void }[];
beforeEach(() => {
  now = 1_000;
  timers = [];
});
const environment = {
  random: () => 0.5,
  after(ms: number, callback: () => void) {
    const timer = { at: now + ms, callback };
    timers.push(timer);
    const cancel = (): void => {
      timers = timers.filter((one) => one !== timer);
    };
    return { cancel };
  },
};
function passTo(time: number): void {
  now = time;
  for (const timer of timers.filter(({ at }) => at <= time)) {
    timers = timers.filter((one) => one !== timer);
    timer.callback();
  }
}

/** A body that the test ends. */
class Held {
  readonly infos: { attempt: number; idempotencyKey: string; signal: AbortSignal }[] = [];
  readonly #ends: { resolve: (value: unknown) => void; reject: (error: unknown) => void }[] = [];
  readonly body: Body;
  constructor(body: Partial<Body> = {}) {
    const run = (info: (typeof this.infos)[number]) =>
      new Promise((resolve, reject) => {
        this.infos.push({ ...info });
        this.#ends.push({ resolve, reject });
      });
    this.body = { name: "s", retry: { maxAttempts: 2, initialInterval: 100, backoff: 1, jitter: 0 } as never, run, ...body };
  }
  async resolve(value: unknown): Promise<void> {
    this.#ends.at(-1)?.resolve(value);
    await settle();
  }
  async reject(error: unknown): Promise<void> {
    this.#ends.at(-1)?.reject(error);
    await settle();
  }
}
const settle = () => new Promise((resolve) => setImmediate(resolve));

function operations(held: Held, options: Partial<OpenOperationsOptions> = {}) {
  const changes: number[] = [];
  const open = new OpenOperations({
    carries: new Set(["step", "transaction", "rollback", "child"]),
    environment,
    logger: silent,
    run: { runId: "r", workflow: { name: "w" } },
    workerId: "me",
    now: () => now,
    bodyOf: () => held.body,
    keyOf: ({ seq }) => `key-${seq}`,
    encode: (value) => JSON.stringify(value) ?? "null",
    deadlineAt: () => undefined,
    expires: false,
    onChange: () => changes.push(now),
    ...options,
  });
  return { open, changes };
}
const command = (seq: number, more: object = {}): OpeningCommand =>
  ({ type: "step", seq, unit: "", name: "s", n: 0, ...more }) as OpeningCommand;
const turn = (time: number, jobs: readonly Job[], commands: readonly object[]): Turn =>
  ({ index: 0, time, historyLength: 0, jobs, commands }) as Turn;
const resolved = (seq: number, outcome: Outcome): Job => ({ type: "resolve", seq, outcome });
const row = (number: number, status: "running" | "failed" | "completed" | "lost", startedAt: number, more: object = {}) => ({
  seq: 1,
  number,
  status,
  startedAt,
  ...more,
});

describe("attempts", () => {
  test("D12 a first attempt that completes leaves no row; its outcome is a job", async () => {
    const held = new Held();
    const { open, changes } = operations(held);
    open.opened(command(1), now);
    open.begin(1, 1);
    expect([open.inFlight, open.prepare([]).rows]).toEqual([1, []]);
    await held.resolve("yes");
    expect([changes.length, open.inFlight]).toEqual([1, 0]);
    expect(open.takeJobs()).toEqual([resolved(1, { status: "completed", value: '"yes"' })]);
    expect(open.prepare([]).rows).toEqual([]);
  });

  test("D8 D12 a failure is a row with the time of the next attempt, which is announced, begun, and completed with its turn", async () => {
    const held = new Held();
    const { open } = operations(held);
    open.opened(command(1), now);
    open.begin(1, 1);
    await held.reject(new Error("no"));
    const { rows } = open.prepare([]);
    expect(rows).toMatchObject([{ number: 1, status: "failed", error: { message: "no" }, retryAt: 1_100, workerId: "me" }]);
    expect([open.takeJobs(), open.nextDue]).toEqual([[], 1_100]);

    now = 1_100;
    open.takeJobs();
    const announced = open.prepare([]);
    expect(announced.starting).toEqual([{ seq: 1, number: 2 }]);
    expect(announced.rows).toMatchObject([{ number: 2, status: "running", startedAt: 1_100 }]);
    open.begin(1, 2);
    await held.resolve("late");
    const jobs = open.takeJobs();
    expect(open.prepare([]).rows).toEqual([]); // D6: not before the turn that has its outcome
    expect(open.prepare(jobs).rows).toMatchObject([{ number: 2, status: "completed" }]);
  });

  test("D9 rows of a write that was not made are said again, the outcome's with its turn", async () => {
    const held = new Held();
    const { open } = operations(held);
    open.opened(command(1), now);
    open.restore({ openOperations: [1] }, { turns: [turn(900, [], [command(1)])], attempts: [] });
    open.takeJobs();
    const { starting, rows: first } = open.prepare([]);
    for (const { seq, number } of starting) open.begin(seq, number);
    await held.resolve(1);
    const jobs = open.takeJobs();
    const { rows } = open.prepare(jobs);
    open.takeBack([...first, ...rows], jobs);
    expect(open.prepare([]).rows).toMatchObject([{ status: "lost" }, { number: 2, status: "running" }]);
    expect(open.prepare(jobs).rows).toMatchObject([{ number: 2, status: "completed" }]);
  });

  test("a copy of the info that a body gets has all of it", async () => {
    const held = new Held();
    const { open } = operations(held);
    open.opened(command(7), now);
    open.begin(7, 1);
    expect(held.infos[0]).toEqual({ attempt: 1, idempotencyKey: "key-7", signal: expect.any(AbortSignal) });
    open.cancel(7, false);
    expect(held.infos[0]?.signal.aborted).toBe(true);
    await held.resolve("too late");
    expect([open.takeJobs(), open.inFlight]).toEqual([[], 0]);
  });

  test("D6 an outcome that comes another way makes the attempt in flight count for nothing", async () => {
    const held = new Held();
    const { open } = operations(held);
    open.opened(command(1), now);
    open.begin(1, 1);
    open.answered(1);
    open.settled(1);
    await held.resolve("twice");
    expect([open.takeJobs(), open.prepare([]).rows]).toEqual([[], []]);
  });

  test("D6 an outcome that is durable already is delivered by its body, and is not a job", async () => {
    let delivered = 0;
    const held = new Held();
    const { open } = operations(held);
    open.opened(command(1, { type: "transaction" }), now);
    open.begin(1, 1);
    await held.resolve(new Recorded(() => delivered++));
    expect([delivered, open.takeJobs()]).toEqual([1, []]);
  });

  test("W4 what is left to another host is not announced, and stays due", async () => {
    const held = new Held();
    const { open } = operations(held);
    open.restore(
      { openOperations: [1] },
      { turns: [turn(900, [], [command(1)])], attempts: [row(1, "failed", 900, { endedAt: 950, retryAt: 960 })] },
    );
    open.takeJobs();
    expect(open.prepare([], "leave").starting).toEqual([]);
    expect(open.hasRetriesDue).toBe(true);
    expect(open.prepare([]).starting).toEqual([{ seq: 1, number: 2 }]);
  });
});

describe("timers", () => {
  test("K8 fire once, not before they are due, and not if their operation is settled first", () => {
    const { open } = operations(new Held());
    open.opened(command(1, { type: "sleep", duration: 50 }), now);
    open.opened(command(2, { type: "signal", timeout: 60 }), now);
    open.opened(command(3, { type: "condition", timeout: 60 }), now);
    now = 1_049;
    expect(open.takeJobs()).toEqual([]);
    now = 1_070;
    open.settled(3);
    expect(open.takeJobs()).toEqual([
      { type: "fire", seq: 1 },
      { type: "fire", seq: 2 },
    ]);
    expect([open.takeJobs(), open.nextDue, open.latestFired]).toEqual([[], undefined, 1_060]);
  });

  test("K8 a timer that has fired and waits for its turn is none any more when its operation is settled", () => {
    const { open } = operations(new Held());
    open.opened(command(1, { type: "signal", timeout: 60 }), now);
    open.arm();
    passTo(1_060);
    open.settled(1);
    expect(open.takeJobs()).toEqual([]);
  });

  test("K8 R8 one that has fired in history does not fire again after a replay, though its operation is open", () => {
    const { open } = operations(new Held());
    const wait = command(1, { type: "receive", timeout: 50 });
    open.restore({ openOperations: [1] }, { turns: [turn(900, [], [wait]), turn(960, [{ type: "fire", seq: 1 }], [])], attempts: [] });
    expect([open.takeJobs(), open.nextDue]).toEqual([[], undefined]);
  });

  test("D8 once armed, a change is announced when the first is due, also of a retry that was set later", async () => {
    const held = new Held();
    const { open, changes } = operations(held);
    open.opened(command(1), now);
    open.opened(command(2, { type: "sleep", duration: 500 }), now);
    open.arm();
    open.begin(1, 1);
    await held.reject(new Error("no"));
    expect(changes).toEqual([1_000]);
    passTo(1_100);
    expect([changes, open.hasRetriesDue]).toEqual([[1_000, 1_100], true]);
    open.disarm();
    expect(timers).toEqual([]);
  });
});

describe("after a replay", () => {
  const opened = turn(900, [], [command(1)]);
  const stored = (attempts: ReturnType<typeof row>[], turns: readonly Turn[] = [opened], voids?: readonly number[]) => ({
    turns,
    attempts,
    voids,
  });

  test("D7 an attempt that did not end counts, with a row or without", () => {
    for (const attempts of [[], [row(1, "running", 900)]]) {
      const { open } = operations(new Held());
      open.restore({ openOperations: [1] }, stored(attempts));
      open.takeJobs();
      const { rows, starting } = open.prepare([]);
      expect(rows).toMatchObject([
        { number: 1, status: "lost", startedAt: 900, endedAt: 1_000 },
        { number: 2, status: "running" },
      ]);
      expect(starting).toEqual([{ seq: 1, number: 2 }]);
    }
  });

  test("D7 D8 where none is left, the operation fails", () => {
    const { open } = operations(new Held());
    open.restore({ openOperations: [1] }, stored([row(1, "failed", 900, { endedAt: 901, retryAt: 902 }), row(2, "running", 910)]));
    open.takeJobs();
    expect(open.prepare([]).starting).toEqual([]);
    expect(open.takeJobs()).toMatchObject([
      { type: "resolve", seq: 1, outcome: { status: "failed", attempts: 2, error: { data: { code: "HF_WORKER_LOST" } } } },
    ]);
  });

  test("D10 attempts before a resume are forgiven; one that was announced with it, and is lost, counts", () => {
    const resume: Job = { type: "resume", attempt: 2, voids: [1] };
    const before = [row(1, "failed", 900, { endedAt: 901, retryAt: 902 }), row(2, "failed", 910, { endedAt: 911 })];
    const first = operations(new Held()).open;
    first.restore({ openOperations: [1] }, stored(before, [opened], [1]));
    first.takeJobs();
    expect(first.prepare([]).starting).toEqual([{ seq: 1, number: 3 }]);

    // Attempt 3 was announced with the turn of the resume, and 4 after it was lost: two of two are used.
    const turns = [opened, turn(950, [resume], [])];
    const second = operations(new Held()).open;
    second.restore({ openOperations: [1] }, stored([...before, row(3, "lost", 950, { endedAt: 960 }), row(4, "running", 961)], turns));
    second.takeJobs();
    expect(second.prepare([]).starting).toEqual([]);
    const third = operations(new Held()).open;
    third.restore({ openOperations: [1] }, stored([...before, row(3, "running", 950)], turns));
    third.takeJobs();
    expect(third.prepare([]).starting).toEqual([{ seq: 1, number: 4 }]);
    const fourth = operations(new Held({ retry: { maxAttempts: 1 } })).open;
    fourth.restore({ openOperations: [1] }, stored([...before, row(3, "running", 950)], turns));
    fourth.takeJobs();
    expect(fourth.prepare([]).starting).toEqual([]);
  });

  test("D7 what this host announced and did not begin is begun with the same number", () => {
    const { open } = operations(new Held());
    open.restore({ openOperations: [1] }, stored([]), { isAnswered: () => false, isNotBegun: (seq, number) => seq === 1 && number === 1 });
    open.takeJobs();
    expect(open.prepare([]).starting).toEqual([{ seq: 1, number: 1 }]);
  });

  test("D6 what was recorded and not delivered is not begun again", () => {
    const { open } = operations(new Held());
    open.restore({ openOperations: [1] }, stored([row(1, "failed", 900, { endedAt: 901 }), row(2, "running", 910)]), {
      isAnswered: () => true,
      isNotBegun: () => false,
    });
    open.takeJobs();
    expect(open.prepare([])).toMatchObject({ rows: [{ number: 2, status: "completed" }], starting: [] });
  });

  test("K6 a child that was started is not started again, and the code that waits for its start hears of it", () => {
    const job = { type: "childStarted", seq: 1, runId: "c" } as const;
    const child = turn(900, [], [command(1, { type: "child" })]);
    for (const announced of [undefined, job]) {
      const { open } = operations(new Held({ announces: { job: announced } }));
      open.restore({ openOperations: [1] }, stored([row(1, "completed", 900, { endedAt: 910 })], [child]));
      expect(open.takeJobs()).toEqual(announced === undefined ? [] : [job]);
      expect(open.prepare([])).toEqual({ rows: [], starting: [] });
    }
  });
});

describe("the deadline", () => {
  test("K7 a retry that would come after it is none: the run expires, on either kind of host", async () => {
    for (const expires of [true, false]) {
      const held = new Held();
      const { open } = operations(held, { deadlineAt: () => 1_050, expires });
      open.opened(command(1), now);
      open.begin(1, 1);
      await held.reject(new Error("no"));
      expect(open.takeJobs()).toMatchObject([{ type: "expire", error: { name: "DeadlineExceededError" } }]);
      expect(open.prepare([]).rows).toMatchObject([{ status: "failed" }]);
      expect(open.retries).toEqual([]);
    }
  });

  test("K7 a rollback is exempt", async () => {
    const held = new Held();
    const { open } = operations(held, { deadlineAt: () => 1_050, expires: true });
    open.opened(command(1, { type: "rollback" }), now);
    open.begin(1, 1);
    await held.reject(new Error("no"));
    expect([open.takeJobs(), open.nextDue]).toEqual([[], 1_050]);
    expect(open.retries).toMatchObject([{ attempt: 2, at: 1_100 }]);
  });

  test("K7 a host whose clock counts ends the run at it, once, and begins nothing after", () => {
    const held = new Held();
    const { open } = operations(held, { deadlineAt: () => 1_050, expires: true });
    expect(open.nextDue).toBe(1_050);
    now = 1_050;
    expect(open.isExpiring).toBe(true);
    expect(open.takeJobs()).toMatchObject([{ type: "expire" }]);
    open.opened(command(1), now);
    open.begin(1, 1);
    expect([held.infos.length, open.takeJobs(), open.nextDue]).toEqual([0, [], undefined]);
  });
});
