// Defines a workflow: a name, options, and the one async function that is its code.
// Owns: workflow() and the checks of its definition. It runs nothing; the executor calls `run`.
// Invariants: P1 (one function), V2 (`version` and `serves` name exact versions), M11 (queries are functions); a definition is frozen.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { preview } from "../base/text.ts";
import { checkOptionNames, type Duration, type OptionNames, type RetryPolicy } from "../values/index.ts";
import type { ContinueAsNew, WorkflowContext } from "./context.ts";
import {
  checkChoice,
  checkFunction,
  checkName,
  checkRetry,
  checkSchema,
  checkTimeLimit,
  Findings,
  freezeCopy,
  freezeRetry,
  isObject,
} from "./issues.ts";
import type { Messages, Queries, Signals, Updates } from "./messages.ts";

/**
 * Options of a workflow. `I` is the input type of the workflow, `In` the type that callers pass: they differ if the schema transforms or
 * adds defaults.
 * @example
 * ```ts
 * const options = { name: "order", deadline: "30d", retention: "1w", signals: { paid: signal<number>() } } as const;
 * const order = workflow(options, (ctx) => ctx.waitForSignal("paid"));
 * const engine = await testEngine({ workflows: [order] });
 * const run = await engine.start(order);
 * await run.signal("paid", 42);
 * console.log(await run.result()); // 42
 * await engine.close();
 * ```
 */
export interface WorkflowOptions<I, O, S extends Signals, U extends Updates, Q extends Queries, In = I> {
  /** Names the workflow. It is stored with each run: renaming a workflow orphans its runs. */
  name: string;
  /**
   * Recorded with each run. A worker claims only runs of versions that it serves.
   * @defaultValue no version
   */
  version?: string;
  /**
   * Versions besides `version` whose runs this code can replay; "*" means all.
   * @defaultValue none
   */
  serves?: readonly string[] | "*";
  /**
   * Validates the input when a run is started (any Standard Schema: Zod, Valibot, ArkType).
   * @defaultValue any input is accepted
   */
  input?: StandardSchemaV1<In, I>;
  /**
   * Validates the value that the workflow returns.
   * @defaultValue any output is accepted
   */
  // biome-ignore lint/suspicious/noExplicitAny: inference helper; only the output type of the schema matters
  output?: StandardSchemaV1<any, O>;
  /**
   * Retry of the run as a whole: completed steps are not repeated. Set its `maxAttempts`, which is 1 for runs if it is left out.
   * @defaultValue a failed run is not retried
   */
  retry?: RetryPolicy;
  /**
   * Longest duration of a run, from start to end.
   * @defaultValue no limit
   */
  deadline?: Duration;
  /**
   * "cooperative": a run that catches the cancellation and returns is completed, not canceled.
   * @defaultValue `"enforced"`
   */
  cancellation?: "enforced" | "cooperative";
  /**
   * Whether cancellation also rolls back completed steps.
   * @defaultValue `false`
   */
  rollbackOnCancel?: boolean;
  /**
   * How long a closed run is kept.
   * @defaultValue the `retention` of the engine
   */
  retention?: Duration | "forever";
  /**
   * The signals that it accepts, made by `signal()`.
   * @defaultValue none; a workflow that is defined by its name alone accepts any, untyped
   */
  signals?: S;
  /**
   * The updates that it accepts, made by `update()`.
   * @defaultValue none; a workflow that is defined by its name alone accepts any, untyped
   */
  updates?: U;
  /**
   * Synchronous, pure functions of the published state.
   * @defaultValue none
   */
  queries?: Q;
}

/** A workflow definition, made by `workflow(name, run)`. */
export interface Workflow<I, O, S extends Signals = Signals, U extends Updates = Updates, Q extends Queries = Queries, In = I> {
  /** Stored with each run. */
  readonly name: string;
  /** Recorded with each run that is started with this definition. */
  readonly version: string | undefined;
  /** Its options, frozen. */
  readonly options: WorkflowOptions<I, O, S, U, Q, In>;
  /** Carries the type only; it is never set. */
  readonly _input?: In;
  /** The function that is the workflow. */
  readonly run: (ctx: WorkflowContext<{ signals: S; updates: U; queries: Q }, I>, input: I) => Promise<O | ContinueAsNew>;
}
/** A workflow of any types. */
// biome-ignore lint/suspicious/noExplicitAny: the only arguments that every workflow is assignable to
export type AnyWorkflow = Workflow<any, any, any, any, any, any>;

/**
 * Defines a workflow: a durable async function. What it does on `ctx` is recorded, so that after a crash or a deploy it continues where it
 * was. Its own code must be deterministic: effects, time and randomness go through `ctx`.
 * @throws `InvalidInputError` if the name is invalid.
 * @example
 * ```ts
 * const order = workflow("order", async (ctx, id: string) => {
 *   const receipt = await ctx.step("charge", () => `receipt for ${id}`);
 *   await ctx.sleep("3d");
 *   return ctx.step("mail", () => `mailed ${receipt}`);
 * });
 * const engine = await testEngine({ workflows: [order] });
 * console.log(await (await engine.start(order, "o-1")).result()); // "mailed receipt for o-1"
 * await engine.close();
 * ```
 */
export function workflow<I = void, O = void>(
  name: string,
  run: (ctx: WorkflowContext<Messages, I>, input: I) => Promise<O | ContinueAsNew>,
): Workflow<I, Exclude<O, ContinueAsNew>>;
/**
 * Defines a workflow with options: version, schemas, messages, retry, deadline.
 * @throws `InvalidInputError` if an option is invalid.
 * @example
 * ```ts
 * const order = workflow(
 *   { name: "order", version: "2", deadline: "30d", signals: { paid: signal<number>() }, queries: { phase: (state: string) => state } },
 *   async (ctx, id: string) => {
 *     ctx.publishState("waiting for payment");
 *     const amount = await ctx.waitForSignal("paid");
 *     return `${id}: ${amount}`;
 *   },
 * );
 * const engine = await testEngine({ workflows: [order] });
 * const run = await engine.start(order, "o-1");
 * await run.signal("paid", 42);
 * console.log(await run.result()); // "o-1: 42"
 * console.log(await run.query("phase")); // "waiting for payment"
 * await engine.close();
 * ```
 */
// biome-ignore lint/complexity/noBannedTypes: `{}` is the record without keys: an undeclared message can't be sent
export function workflow<I = void, O = void, S extends Signals = {}, U extends Updates = {}, Q extends Queries = {}, In = I>(
  options: WorkflowOptions<I, O, S, U, Q, In>,
  run: (ctx: WorkflowContext<{ signals: S; updates: U; queries: Q }, I>, input: I) => Promise<O | ContinueAsNew>,
): Workflow<I, Exclude<O, ContinueAsNew>, S, U, Q, In>;
export function workflow(definition: string | AnyWorkflow["options"], run: AnyWorkflow["run"]): AnyWorkflow {
  const options = typeof definition === "string" ? { name: definition } : definition;
  const findings = new Findings();
  if (isObject(options)) checkWorkflowOptions(findings, options);
  else findings.add([], `must be given a name or an object of options, not ${preview(definition)}`);
  checkFunction(findings, ["run"], run);
  findings.throwIfAny(`workflow ${preview(options?.name)}`);

  return Object.freeze({ name: options.name, version: options.version, options: frozenOptions(options), run });
}

const OPTIONS: OptionNames<AnyWorkflow["options"]> = {
  name: true,
  version: true,
  serves: true,
  input: true,
  output: true,
  retry: true,
  deadline: true,
  cancellation: true,
  rollbackOnCancel: true,
  retention: true,
  signals: true,
  updates: true,
  queries: true,
};

function checkWorkflowOptions(findings: Findings, options: AnyWorkflow["options"]): void {
  findings.gather([], () => checkOptionNames("workflow", options, OPTIONS));
  checkName(findings, ["name"], options.name);
  if (options.version !== undefined) checkVersion(findings, ["version"], options.version);
  checkServes(findings, options.serves);
  checkSchema(findings, ["input"], options.input);
  checkSchema(findings, ["output"], options.output);
  checkRetry(findings, ["retry"], options.retry);
  checkTimeLimit(findings, ["deadline"], options.deadline);
  if (options.retention !== "forever") checkTimeLimit(findings, ["retention"], options.retention);
  checkChoice(findings, ["cancellation"], options.cancellation, ["enforced", "cooperative"]);
  checkChoice(findings, ["rollbackOnCancel"], options.rollbackOnCancel, [true, false]);
  for (const [name, spec] of namesIn(findings, "signals", options.signals)) checkSpec(findings, ["signals", name], "signal", spec);
  for (const [name, spec] of namesIn(findings, "updates", options.updates)) checkSpec(findings, ["updates", name], "update", spec);
  for (const [name, query] of namesIn(findings, "queries", options.queries)) checkFunction(findings, ["queries", name], query);
}

function checkVersion(findings: Findings, path: readonly PropertyKey[], version: unknown): void {
  if (version === "*") findings.add(path, 'must be one version; to serve all versions, write serves: "*"');
  else checkName(findings, path, version);
}

function checkServes(findings: Findings, serves: unknown): void {
  if (serves === undefined || serves === "*") return;
  if (!Array.isArray(serves)) findings.add(["serves"], `must be a list of versions or "*", not ${preview(serves)}`);
  else for (const [i, version] of serves.entries()) checkVersion(findings, ["serves", i], version);
}

/** The messages declared under `kind`. Adds an issue for each invalid name. */
function namesIn(findings: Findings, kind: "signals" | "updates" | "queries", messages: unknown): [name: string, message: unknown][] {
  if (messages === undefined) return [];
  if (!isObject(messages)) {
    findings.add([kind], `must be an object, not ${preview(messages)}`);
    return [];
  }
  const entries = Object.entries(messages);
  for (const [name] of entries) checkName(findings, [kind, name], name);
  return entries;
}

function checkSpec(findings: Findings, path: readonly PropertyKey[], kind: "signal" | "update", spec: unknown): void {
  if (!isObject(spec) || !("kind" in spec) || spec.kind !== kind) findings.add(path, `must be made by ${kind}(), not ${preview(spec)}`);
  else if ("schema" in spec) checkSchema(findings, [...path, "schema"], spec.schema);
}

/** A frozen copy, so that later changes to the caller's objects don't change the definition. */
function frozenOptions(options: AnyWorkflow["options"]): AnyWorkflow["options"] {
  const { serves, retry, signals, updates, queries } = options;
  return freezeCopy({
    ...options,
    ...(serves !== undefined && { serves: serves === "*" ? serves : Object.freeze([...serves]) }),
    ...(retry !== undefined && { retry: freezeRetry(retry) }),
    ...(signals !== undefined && { signals: freezeCopy(signals) }),
    ...(updates !== undefined && { updates: freezeCopy(updates) }),
    ...(queries !== undefined && { queries: freezeCopy(queries) }),
  });
}
