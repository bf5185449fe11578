// Job: prove that every error says who it is, what happened, where, and what to do.
// Owns: the classes and the catalog.
// Invariants: name is the class name; code and retryable come from the catalog; fields are those of the public surface.
import { describe, expect, it } from "vitest";
import * as errors from "../../src/errors/index.ts";

const cause = new TypeError("card is undefined");

/** One of each, with what its message must say. */
const samples: readonly [errors.HoldfastError, fields: object, ...says: (string | RegExp)[]][] = [
  [new errors.HoldfastError("disk full"), {}, /^disk full$/],
  [new errors.RetryLaterError("busy", { after: "2s", cause }), { after: 2_000, cause }, /^busy$/],
  [new errors.FatalError("no such card", { cause, data: { card: 7 } }), { data: { card: 7 }, cause }, /^no such card$/],
  [new errors.RollbackError("nobody approved", { cause }), { cause }, /^nobody approved$/],
  [
    new errors.StepFailedError({ step: "charge", attempts: 3, cause }),
    { step: "charge", attempts: 3, cause },
    'step "charge" failed after 3 attempts: TypeError: card is undefined\n',
    "run.resume()",
  ],
  [new errors.StepFailedError({ step: "charge", attempts: 1 }), {}, 'step "charge" failed after 1 attempt\n'],
  [
    new errors.StepTimeoutError({ step: "charge", timeout: 90_000, attempt: 2 }),
    { step: "charge", timeout: 90_000, attempt: 2 },
    "attempt 2",
    "1m30s",
  ],
  [
    new errors.StepTimeoutError({ step: "render", timeout: 90_000, attempt: 2, limit: "startToClose" }),
    { step: "render", timeout: 90_000, attempt: 2, limit: "startToClose" },
    'attempt 2 of activity "render" took longer than its startToClose of 1m30s\nRaise `startToClose`',
  ],
  [
    new errors.StepTimeoutError({ step: "render", timeout: 90_000, attempt: 2, limit: "heartbeat" }),
    { limit: "heartbeat" },
    'attempt 2 of activity "render" sent no heartbeat for 1m30s',
    "\nCall info.heartbeat() more often",
  ],
  [
    new errors.StepTimeoutError({ step: "render", timeout: 90_000, attempt: 1, limit: "scheduleToStart" }),
    { limit: "scheduleToStart" },
    'no worker started activity "render" within its scheduleToStart of 1m30s\nStart more workers',
  ],
  [
    new errors.StepTimeoutError({ step: "render", timeout: 90_000, attempt: 3, limit: "scheduleToClose" }),
    { limit: "scheduleToClose" },
    'activity "render" did not end within its scheduleToClose of 1m30s (attempt 3)\nRaise `scheduleToClose`',
  ],
  [new errors.ActivityFailedError({ activity: "mail", attempts: 10, cause }), { activity: "mail", attempts: 10 }, '"mail"', "10 attempts"],
  [new errors.ChildFailedError({ childId: "c1", workflow: "ship", cause }), { childId: "c1", workflow: "ship" }, '"c1" of workflow "ship"'],
  [new errors.RunFailedError({ runId: "r1", cause }), { runId: "r1", cause }, 'run "r1" failed: TypeError: card is undefined\n'],
  [
    new errors.RunFailedError({ runId: "r1", cause, resumable: false }),
    { runId: "r1", cause },
    /^run "r1" failed: TypeError: card is undefined\nSee `cause`.* The run can.t be resumed/,
  ],
  [new errors.CanceledError("closed shop"), { reason: "closed shop" }, /^canceled: closed shop\n/],
  [new errors.CanceledError(), { reason: undefined }, /^canceled\n/],
  [new errors.RunTerminatedError({ runId: "r1", reason: "stuck" }), { runId: "r1", reason: "stuck" }, 'run "r1" was terminated: stuck'],
  [new errors.DeadlineExceededError({ runId: "r1", deadline: 0 }), { runId: "r1", deadline: 0 }, "1970-01-01T00:00:00.000Z"],
  [
    new errors.JoinError({ name: "all", errors: { a: cause } }),
    { errors: { a: cause } },
    'join "all" failed in 1 branch: a (TypeError: card is undefined)',
  ],
  [
    new errors.RaceError({ name: "any", errors: { a: cause, b: cause } }),
    { errors: { a: cause, b: cause } },
    'race "any"',
    "a (Type",
    "b (Type",
  ],
  [
    new errors.UpdateRejectedError({ update: "add", reason: "invalid SKU", cause }),
    { update: "add", cause },
    'update "add" was rejected: invalid SKU',
  ],
  [new errors.UpdateFailedError({ update: "add", cause }), { update: "add" }, 'update "add" failed: TypeError'],
  [new errors.QueryFailedError({ query: "total", reason: "not declared" }), { query: "total" }, 'query "total" failed: not declared'],
  [new errors.ReceiveClosedError({ update: "add" }), { update: "add" }, 'update "add"', "new id"],
  [new errors.RunNotFoundError({ runId: "r1" }), { runId: "r1" }, 'no run "r1"', "namespace"],
  [new errors.RunAlreadyExistsError({ runId: "r1" }), { runId: "r1" }, 'run "r1" already exists', "onConflict"],
  [
    new errors.RunAlreadyExistsError({ runId: "r1", runIds: ["r1", "r2"] }),
    { runId: "r1", runIds: ["r1", "r2"] },
    'runs "r1", "r2" already exist',
  ],
  [new errors.RunClosedError({ runId: "r1", status: "failed" }), { runId: "r1", status: "failed" }, '"r1" is closed (failed)'],
  [new errors.RunOpenError({ runId: "r1" }), { runId: "r1" }, 'run "r1" is open'],
  [new errors.ScheduleNotFoundError({ schedule: "daily" }), { schedule: "daily" }, 'there is no schedule "daily"'],
  [
    new errors.RunBlockedError({ runId: "r1", reason: "nondeterminism", cause }),
    { runId: "r1", cause },
    'run "r1" is blocked: nondeterminism',
  ],
  [
    new errors.UnsupportedError({ feature: "fork", host: "Temporal", instead: "Use `temporal workflow reset`." }),
    { feature: "fork", host: "Temporal", code: "HF_UNSUPPORTED" },
    "fork is not supported on Temporal",
    "Use `temporal workflow reset`.",
  ],
  [new errors.UnsupportedError({ feature: "tx", host: "Temporal" }), {}, "tx is not supported on Temporal", "Open an engine that has it"],
  [
    new errors.NondeterminismError({
      location: "checkout/~3/charge#1",
      field: "kind",
      expected: "step",
      actual: "sleep",
      hint: "new in this version?",
    }),
    { location: "checkout/~3/charge#1", field: "kind", expected: "step", actual: "sleep" },
    "at checkout/~3/charge#1, in kind",
    /^- expected .*step$/m,
    /^\+ actual .*sleep$/m,
    "new in this version?",
    "ctx.patched",
    "ctx.removed",
    "new version",
  ],
  [
    new errors.NondeterminismError({ location: "charge#1", field: "input", expected: { a: [1] }, actual: undefined }),
    {},
    /^- expected .*\{"a":\[1\]\}$/m,
    /^\+ actual .*nothing$/m,
  ],
  [
    new errors.IllegalCallError({ call: "receive", unit: "fan/a", reason: "only the root may receive" }),
    { call: "receive", unit: "fan/a", reason: "only the root may receive" },
    "ctx.receive can't be called in unit fan/a: only the root may receive",
  ],
  [new errors.IllegalReturnError("return Receive.noreply(state)"), {}, "Receive.noreply"],
  [
    new errors.OutOfTurnError({ unit: "", call: 'ctx.step("a")', pausedOn: 'join "fan"', turnOf: "fan/a" }),
    { unit: "", call: 'ctx.step("a")', pausedOn: 'join "fan"', turnOf: "fan/a" },
    'ctx.step("a") was called on the ctx of the root unit, which is paused on join "fan"',
    "unit fan/a has the turn: use the ctx that its function was given",
  ],
  [new errors.OutOfTurnError({ unit: "fan/a", call: "step" }), {}, "ctx.step was called on the ctx of unit fan/a", "no unit has the turn"],
  [new errors.ForeignAwaitError({ unit: "", call: "sleep" }), { unit: "", call: "sleep" }, "the root unit", "wrap it in ctx.step"],
  [
    new errors.TurnTimeoutError({ elapsed: 2_500, limit: 2_000, location: "a/b" }),
    { elapsed: 2_500, limit: 2_000, location: "a/b" },
    "2s500ms at a/b",
    "2s",
  ],
  [
    new errors.UnserializableValueError({ path: "value.items[3].socket", type: "Socket" }),
    { path: "value.items[3].socket" },
    "value.items[3].socket can't be stored: it is a Socket",
  ],
  [new errors.UnserializableValueError({ path: "value", type: "Promise" }), {}, "is an await missing?"],
  [
    new errors.InvalidInputError({
      what: "input of order",
      issues: [{ message: "too small", path: ["items", 0, "n"] }, { message: "no user" }],
    }),
    { issues: [{ message: "too small", path: ["items", 0, "n"] }, { message: "no user" }] },
    "invalid input of order: items.0.n: too small; no user",
  ],
  [
    new errors.LimitExceededError({ limit: "payloadBytes", actual: 3, max: 2, what: 'the result of step "a"' }),
    { limit: "payloadBytes", actual: 3, max: 2 },
    'the result of step "a" is over the limit: payloadBytes allows 2, and this is 3',
  ],
];

describe("error classes", () => {
  it.each(samples.map(([error, fields, ...says]) => ({ name: error.name, error, fields, says })))(
    "$name says what happened and what to do",
    ({ error, fields, says }) => {
      const entry = errors.errorCatalog.find(({ name }) => name === error.name);
      expect(error).toBeInstanceOf(errors.HoldfastError);
      expect(error).toBeInstanceOf(Error);
      expect(error.name).toBe(error.constructor.name);
      expect(error.stack?.startsWith(`${error.name}: `)).toBe(true);
      expect({ code: error.code, retryable: error.retryable }).toStrictEqual({ code: entry?.code, retryable: entry?.retryable });
      for (const [key, value] of Object.entries(fields)) expect(error[key as keyof typeof error]).toStrictEqual(value);
      for (const text of says) {
        if (typeof text === "string") expect(error.message).toContain(text);
        else expect(error.message).toMatch(text);
      }
    },
  );

  it("a message never breaks on a value that can't be shown", () => {
    const hostile = {
      get x(): never {
        throw new Error("no");
      },
    };
    const cyclic: Record<string, unknown> = {};
    cyclic["self"] = cyclic;
    for (const value of [
      hostile,
      cyclic,
      10n,
      Symbol("s"),
      () => {},
      "x".repeat(10_000),
      Object.create(null),
      new Proxy({}, { get: () => hostile.x }),
    ]) {
      const error = new errors.NondeterminismError({ location: "a", field: "input", expected: { value }, actual: value });
      expect(new errors.StepFailedError({ step: "s", attempts: 1, cause: value }).message.length).toBeLessThan(600);
      expect(error.message).toContain("- expected");
    }
  });

  it("the advice of a cause is not repeated in the message of what wraps it", () => {
    const step = new errors.StepFailedError({ step: "charge", attempts: 2, cause });
    const [headline, ...rest] = new errors.RunFailedError({ runId: "r", cause: step }).message.split("\n");
    expect(headline).toBe('run "r" failed: StepFailedError: step "charge" failed after 2 attempts: TypeError: card is undefined');
    expect(rest).toHaveLength(1);
  });

  it("a user's subclass goes by its own name and keeps the code", () => {
    class CardDeclined extends errors.FatalError {}
    const error = new CardDeclined("declined");
    expect(error).toMatchObject({ name: "CardDeclined", code: "HF_FATAL", retryable: false });
    expect(Object.keys(error)).not.toContain("name");
  });

  it("hosts may give an error without a class its own code", () => {
    expect(new errors.HoldfastError("no database", { code: "HF_NO_DATABASE", retryable: true, cause })).toMatchObject({
      code: "HF_NO_DATABASE",
      retryable: true,
      cause,
    });
  });
});

describe("errorCatalog", () => {
  it("has an entry for each class, and a class for each entry", () => {
    const classes = Object.entries(errors).filter(
      ([, value]) => value === errors.HoldfastError || Object.getPrototypeOf(value) === errors.HoldfastError,
    );
    expect(classes.map(([name]) => name).sort()).toStrictEqual(errors.errorCatalog.map(({ name }) => name).sort());
    expect(new Set(samples.map(([error]) => error.name))).toStrictEqual(new Set(errors.errorCatalog.map(({ name }) => name)));
  });

  it("has unique codes, and words for everything", () => {
    expect(new Set(errors.errorCatalog.map(({ code }) => code)).size).toBe(errors.errorCatalog.length);
    for (const { code, summary, whatToDo } of errors.errorCatalog) {
      expect(code).toMatch(/^HF_[A-Z_]+$/);
      expect(summary).toMatch(/\.$/);
      expect(whatToDo).toMatch(/\.$/);
    }
  });
});

it("D8 a RetryLaterError without a delay says which option is missing", () => {
  expect(() => new errors.RetryLaterError("busy", {} as never)).toThrow(/^invalid duration: after: undefined is not a duration/);
});
