// Job: random workflow programs as data: an abstract syntax tree and the fast-check arbitrary that generates it.
// Owns: the AST and the legality of what is generated (N): every program follows the rules, so that none may ever be blamed.
// Invariants: P1–P3, N, C1–C6, L1–L5, R1–R11, A1–A6, K2, S1 are all reachable; a program is JSON, and small when shrunk.
//
// A program is a block of statements for the root and a few options of the workflow. A unit (root, branch, iteration, handler, body)
// runs a block with variables of its own:
// - `trace`, a list of what it saw; it is what the unit returns, so that values reach the root by results alone and no outer variable
//   has to survive a commit (L3);
// - `held`, operations that were started and not awaited; `collect` awaits the oldest. What is never collected floats (P3);
// - `child`, the handle of the last child that it started.
// Three counters ("flags") and two ivars ("cells") are shared with the units beneath it. An iteration of a loop, and a handler of a
// receive with checkpoints, get fresh ones: nothing that a commit leaves behind may matter afterwards.
//
// `compile.ts` turns a program into a workflow on ctx, `reference.ts` interprets it without the executor, `schedule.ts` plays its host.

import fc from "fast-check";

export type Block = readonly Statement[];

/** A call on ctx that gives a promise. */
export type Operation =
  | { readonly op: "step" | "transaction"; readonly name: string; readonly rollback?: true }
  | { readonly op: "activity" | "child" | "startChild"; readonly name: string; readonly input: number }
  /** Of the child that this unit started last; null if there is none. */
  | { readonly op: "childResult" | "childCancel" | "childSignal" }
  | { readonly op: "cancelRun"; readonly run: string }
  | { readonly op: "sleep"; readonly name?: string; readonly ms: number }
  | { readonly op: "sleepUntil"; readonly ms: number }
  | { readonly op: "wait"; readonly signal: SignalName; readonly timeout?: number }
  | { readonly op: "listen"; readonly signals: readonly SignalName[]; readonly count: number; readonly timeout?: number }
  /** Until the flag is at least so much; then the predicate holds, or throws. */
  | { readonly op: "condition"; readonly flag: number; readonly least: number; readonly timeout?: number; readonly throws?: true }
  | { readonly op: "ivar"; readonly cell: number }
  | { readonly op: "sideEffect"; readonly value: number; readonly throws?: true }
  | { readonly op: "yield" }
  /** Async handlers only (A5): adds to the reducer state, gives its length. */
  | { readonly op: "updateState"; readonly value: number; readonly throws?: true }
  | { readonly op: "parallel"; readonly branches: readonly Block[] }
  | { readonly op: "join" | "race"; readonly name: string; readonly branches: readonly Block[] }
  | { readonly op: "try"; readonly name: string; readonly body: Block }
  | { readonly op: "shield"; readonly body: Block }
  | Loop
  | Receive;

/** Runs `times` iterations; its state is their number and the traces of the last two. */
export interface Loop {
  readonly op: "loop";
  readonly name: string;
  readonly times: number;
  readonly commitInterval?: number;
  readonly historyEvery?: number;
  readonly historyKeep?: number;
  readonly body: Block;
}
/** The root's only (N). The reducer state is the list of what handlers added. */
export interface Receive {
  readonly op: "receive";
  readonly signals: { readonly [K in HandledSignal]?: Handler };
  readonly updates: { readonly [K in UpdateName]?: Handler };
  readonly timeout?: number;
  readonly checkpointEvery?: number;
}
/** Runs `body`, adds its trace to the state, and then stops, goes on, or goes on in `async`. */
export interface Handler {
  readonly body: Block;
  /** Stops the receive once its state is as long as this. */
  readonly stopAt?: number;
  readonly async?: Block;
  /** Updates only: refuses inputs that this number divides. */
  readonly refuses?: number;
}

export type Statement =
  | { readonly do: "await"; readonly operation: Operation /** Microtasks between call and await. */; readonly late?: number }
  | { readonly do: "all"; readonly mode: "all" | "allSettled" | "race" | "any"; readonly operations: readonly Operation[] }
  | { readonly do: "start"; readonly operation: Operation }
  | { readonly do: "collect" }
  | { readonly do: "publish" | "random" | "uuid" | "now" | "historyLength" | "aborted" | "return" }
  | { readonly do: "attributes"; readonly value: number }
  | { readonly do: "checkpoint"; readonly name: string }
  | { readonly do: "patched" | "deprecatePatch"; readonly id: string }
  | { readonly do: "bump"; readonly flag: number }
  | { readonly do: "put" | "tryRead"; readonly cell: number }
  | { readonly do: "micro"; readonly count: number; readonly nested: boolean }
  | { readonly do: "throw"; readonly kind: ThrownKind; readonly message: string }
  | { readonly do: "catch"; readonly body: Block; readonly handler?: Block; readonly cleanup?: Block };

export const THROWN_KINDS = ["Error", "FatalError", "RollbackError", "CanceledError"] as const;
export type ThrownKind = (typeof THROWN_KINDS)[number];

/** Signals; only the first two are ever handled by a receive, so that a handler may wait for the third (N). */
export const SIGNALS = ["a", "b", "c"] as const;
export type SignalName = (typeof SIGNALS)[number];
export type HandledSignal = "a" | "b";
export const UPDATES = ["u", "v"] as const;
export type UpdateName = (typeof UPDATES)[number];
export const FLAGS = 3;
export const CELLS = 2;
/** Keys of the branches of a join or race, in this order. */
export const BRANCH_KEYS = ["x", "y", "z"] as const;

export interface Program {
  readonly body: Block;
  readonly cancellation: "enforced" | "cooperative";
  readonly rollbackOnCancel: boolean;
  /** How the root ends: it returns its trace, or continues as new with it. */
  readonly end: "return" | "continue";
}

// ── the generator ──

/** What a unit may do (N): `root` receives, `async` updates the state, `handler` and `async` wait only for what no receive handles. */
type Role = "root" | "plain" | "handler" | "async";
/** What the branches of a unit may do. */
const BRANCH_OF: Readonly<Record<Role, Role>> = { root: "plain", plain: "plain", handler: "handler", async: "handler" };
/** What bodies that run beside their unit's other operations may do: not receive, since one is open at a time (R1). */
const BESIDE: Readonly<Record<Role, Role>> = { root: "plain", plain: "plain", handler: "handler", async: "async" };

const name = fc.constantFrom("s", "t", "o/d~d#1%");
const small = fc.nat({ max: 9 });
const ms = fc.constantFrom(1, 5, 10, 10, 50);
const yes = fc.constant(true as const);

/** Leaves out keys whose value is undefined, so that programs are plain JSON. */
function record<T>(required: { [K in keyof T]: fc.Arbitrary<T[K]> }, optional: (keyof T)[] = []): fc.Arbitrary<T> {
  const requiredKeys = (Object.keys(required) as (keyof T)[]).filter((key) => !optional.includes(key));
  return fc.record(required, { requiredKeys, noNullPrototype: true } as never) as fc.Arbitrary<T>;
}
type Of<K extends Operation["op"]> = Operation extends infer One
  ? One extends { readonly op: infer Ops }
    ? K extends Ops
      ? One
      : never
    : never
  : never;
type Do<K extends Statement["do"]> = Statement extends infer One
  ? One extends { readonly do: infer Dos }
    ? K extends Dos
      ? One
      : never
    : never
  : never;

function simpleOperations(role: Role): fc.WeightedArbitrary<Operation>[] {
  const signal = role === "root" || role === "plain" ? fc.constantFrom(...SIGNALS) : fc.constant("c" as const);
  const weighted: fc.WeightedArbitrary<Operation>[] = [
    {
      weight: 8,
      arbitrary: record<Required<Of<"step">>>({ op: fc.constantFrom("step", "step", "transaction"), name, rollback: yes }, ["rollback"]),
    },
    { weight: 2, arbitrary: record<Of<"activity">>({ op: fc.constantFrom("activity", "child", "startChild"), name, input: small }) },
    {
      weight: 1,
      arbitrary: record<Of<"childResult">>({ op: fc.constantFrom("childResult", "childResult", "childCancel", "childSignal") }),
    },
    { weight: 1, arbitrary: record<Of<"cancelRun">>({ op: fc.constant("cancelRun"), run: fc.constantFrom("other", "else") }) },
    { weight: 3, arbitrary: record<Required<Of<"sleep">>>({ op: fc.constant("sleep"), name, ms }, ["name"]) },
    { weight: 1, arbitrary: record<Of<"sleepUntil">>({ op: fc.constant("sleepUntil"), ms }) },
    { weight: 4, arbitrary: record<Required<Of<"wait">>>({ op: fc.constant("wait"), signal, timeout: ms }, ["timeout"]) },
    {
      weight: 2,
      arbitrary: record<Required<Of<"listen">>>(
        {
          op: fc.constant("listen"),
          signals: fc.uniqueArray(signal, { minLength: 1, maxLength: 2 }),
          count: fc.integer({ min: 1, max: 3 }),
          timeout: ms,
        },
        ["timeout"],
      ),
    },
    {
      weight: 3,
      arbitrary: record<Required<Of<"condition">>>(
        { op: fc.constant("condition"), flag: fc.nat({ max: FLAGS - 1 }), least: fc.nat({ max: 3 }), timeout: ms, throws: yes },
        ["timeout", "throws"],
      ),
    },
    { weight: 2, arbitrary: record<Of<"ivar">>({ op: fc.constant("ivar"), cell: fc.nat({ max: CELLS - 1 }) }) },
    {
      weight: 2,
      arbitrary: record<Required<Of<"sideEffect">>>({ op: fc.constant("sideEffect"), value: small, throws: yes }, ["throws"]),
    },
    { weight: 2, arbitrary: fc.constant({ op: "yield" }) },
  ];
  if (role === "async") {
    weighted.push({
      weight: 12,
      arbitrary: record<Required<Of<"updateState">>>({ op: fc.constant("updateState"), value: small, throws: yes }, ["throws"]),
    });
  }
  return weighted;
}

const simpleStatements: fc.Arbitrary<Statement> = fc.oneof<fc.WeightedArbitrary<Statement>[]>(
  { weight: 12, arbitrary: record<Do<"publish">>({ do: fc.constantFrom("publish", "random", "uuid", "now", "historyLength", "aborted") }) },
  { weight: 1, arbitrary: fc.constant({ do: "return" }) },
  { weight: 9, arbitrary: fc.constant({ do: "collect" }) },
  { weight: 3, arbitrary: record<Do<"attributes">>({ do: fc.constant("attributes"), value: small }) },
  { weight: 2, arbitrary: record<Do<"checkpoint">>({ do: fc.constant("checkpoint"), name }) },
  { weight: 3, arbitrary: record<Do<"patched">>({ do: fc.constantFrom("patched", "deprecatePatch"), id: fc.constantFrom("p", "q") }) },
  { weight: 12, arbitrary: record<Do<"bump">>({ do: fc.constant("bump"), flag: fc.nat({ max: FLAGS - 1 }) }) },
  { weight: 9, arbitrary: record<Do<"put">>({ do: fc.constantFrom("put", "put", "tryRead"), cell: fc.nat({ max: CELLS - 1 }) }) },
  { weight: 6, arbitrary: record<Do<"micro">>({ do: fc.constant("micro"), count: fc.integer({ min: 1, max: 4 }), nested: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: record<Do<"throw">>({
      do: fc.constant("throw"),
      kind: fc.constantFrom("Error", "Error", ...THROWN_KINDS),
      message: fc.constantFrom("m1", "m2"),
    }),
  },
);

/** Blocks within blocks, at most. */
const DEPTH = 3;

/** Arbitraries of one role at one depth; those of the next depth are made when they are needed. */
class Grammar {
  readonly #role: Role;
  readonly #depth: number;

  constructor(role: Role, depth: number) {
    this.#role = role;
    this.#depth = depth;
  }
  static readonly #known = new Map<string, Grammar>();
  static of(role: Role, depth: number): Grammar {
    const key = `${role} ${depth}`;
    const known = Grammar.#known.get(key) ?? new Grammar(role, depth);
    Grammar.#known.set(key, known);
    return known;
  }
  #block: fc.Arbitrary<Block> | undefined;
  get block(): fc.Arbitrary<Block> {
    const maxLength = this.#depth === 0 ? 6 : 3;
    this.#block ??= fc.oneof(
      { withCrossShrink: true },
      { weight: 1, arbitrary: fc.constant<Block>([]) },
      { weight: 12, arbitrary: fc.array(this.#chunk(), { minLength: 1, maxLength, size: "max" }).map((chunks): Block => chunks.flat()) },
    );
    return this.#block;
  }

  /** Mostly one statement; a child is useful only if a later statement asks for it. */
  #chunk(): fc.Arbitrary<Statement[]> {
    const one = this.#statement();
    const start = record<Of<"startChild">>({ op: fc.constant("startChild"), name, input: small });
    const family = fc
      .tuple(start, fc.option(one), fc.constantFrom("childResult", "childResult", "childCancel", "childSignal"))
      .map(([operation, between, op]): Statement[] => [
        { do: "await", operation },
        ...(between === null ? [] : [between]),
        { do: "await", operation: { op } },
      ]);
    return fc.oneof(
      { withCrossShrink: true },
      { weight: 30, arbitrary: one.map((statement) => [statement]) },
      { weight: 1, arbitrary: family },
    );
  }

  #statement(): fc.Arbitrary<Statement> {
    const beside = Grammar.of(BESIDE[this.#role], this.#depth).operation;
    const weighted: fc.WeightedArbitrary<Statement>[] = [
      { weight: 7, arbitrary: simpleStatements },
      {
        weight: 9,
        arbitrary: record<Required<Do<"await">>>(
          { do: fc.constant("await"), operation: fc.oneof(...simpleOperations(this.#role)), late: fc.integer({ min: 1, max: 3 }) },
          ["late"],
        ),
      },
      { weight: 3, arbitrary: record<Do<"start">>({ do: fc.constant("start"), operation: beside }) },
      {
        weight: 3,
        arbitrary: record<Do<"all">>({
          do: fc.constant("all"),
          mode: fc.constantFrom("all", "allSettled", "race", "any"),
          operations: fc.array(beside, { minLength: 1, maxLength: 3, size: "max" }),
        }),
      },
    ];
    if (this.#depth < DEPTH) {
      const { block } = Grammar.of(this.#role, this.#depth + 1);
      weighted.push({ weight: 9, arbitrary: record<Do<"await">>({ do: fc.constant("await"), operation: fc.oneof(...this.#scopes()) }) });
      weighted.push({
        weight: 3,
        arbitrary: record<Required<Do<"catch">>>({ do: fc.constant("catch"), body: block, handler: block, cleanup: block }, [
          "handler",
          "cleanup",
        ]),
      });
    }
    if (this.#role === "root" && this.#depth < DEPTH) {
      weighted.push({ weight: 4, arbitrary: record<Do<"await">>({ do: fc.constant("await"), operation: this.#receive() }) });
    }
    return fc.oneof({ withCrossShrink: true }, ...weighted);
  }

  #operation: fc.Arbitrary<Operation> | undefined;
  /** Anything that may run beside other operations of its unit. */
  get operation(): fc.Arbitrary<Operation> {
    const simple = simpleOperations(this.#role);
    const scopes = this.#depth < DEPTH ? [{ weight: 10, arbitrary: fc.oneof(...this.#scopes()) }] : [];
    this.#operation ??= fc.oneof({ withCrossShrink: true }, ...simple, ...scopes);
    return this.#operation;
  }

  #scopes(): fc.WeightedArbitrary<Operation>[] {
    const body = Grammar.of(this.#role, this.#depth + 1).block;
    const branch = Grammar.of(BRANCH_OF[this.#role], this.#depth + 1).block;
    const interval = fc.integer({ min: 1, max: 3 });
    const branches = (minLength: number) => fc.array(branch, { minLength, maxLength: BRANCH_KEYS.length, size: "max" });
    return [
      { weight: 2, arbitrary: record<Of<"parallel">>({ op: fc.constant("parallel"), branches: branches(0) }) },
      { weight: 4, arbitrary: record<Of<"join">>({ op: fc.constantFrom("join", "race", "race"), name, branches: branches(1) }) },
      { weight: 1, arbitrary: record<Of<"try">>({ op: fc.constant("try"), name, body }) },
      { weight: 2, arbitrary: record<Of<"shield">>({ op: fc.constant("shield"), body }) },
      {
        weight: 4,
        arbitrary: record<Required<Loop>>(
          {
            op: fc.constant("loop"),
            name,
            times: fc.integer({ min: 1, max: 7 }),
            commitInterval: interval,
            historyEvery: interval,
            historyKeep: fc.nat({ max: 2 }),
            body,
          },
          ["commitInterval", "historyEvery", "historyKeep"],
        ),
      },
    ];
  }

  #receive(): fc.Arbitrary<Receive> {
    const parts = {
      body: Grammar.of("handler", this.#depth + 1).block,
      stopAt: fc.integer({ min: 1, max: 5 }),
      async: Grammar.of("async", this.#depth + 1).block,
    };
    const signalHandler = record<Handler>(parts as never, ["stopAt", "async"]);
    const updateHandler = record<Handler>({ ...parts, refuses: fc.integer({ min: 2, max: 3 }) } as never, ["stopAt", "async", "refuses"]);
    return record<Required<Receive>>(
      {
        op: fc.constant("receive"),
        signals: record<Receive["signals"]>({ a: signalHandler, b: signalHandler } as never, ["a", "b"]),
        updates: record<Receive["updates"]>({ u: updateHandler, v: updateHandler } as never, ["u", "v"]),
        timeout: ms,
        checkpointEvery: fc.integer({ min: 1, max: 3 }),
      },
      ["timeout", "checkpointEvery"],
    );
  }
}

/** Legal programs: nothing that they do may ever be reported as a violation. */
export const programs: fc.Arbitrary<Program> = record<Program>({
  body: Grammar.of("root", 0).block,
  cancellation: fc.constantFrom("enforced", "enforced", "cooperative"),
  rollbackOnCancel: fc.boolean(),
  end: fc.constantFrom("return", "return", "return", "continue"),
});
