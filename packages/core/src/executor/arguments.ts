// Checks the arguments of calls on `ctx`, before an operation is opened or recorded.
// Owns: the error texts.
// Invariants: a wrong argument is an InvalidInputError that names the call and what it expects, also for code without types.

import { callName, preview } from "../base/text.ts";
import { InvalidInputError } from "../errors/index.ts";
import type { Activity, AnyWorkflow, ChildOptions, LoopOptions, Messages, ReceiveHandlers, StepOptions } from "../model/index.ts";
import { attributeProblem, checkedId, checkedKey, checkedPriority, checkedText, checkedWorkflowName } from "../model/startOptions.ts";
import { isOperationKind, OPERATION_KINDS, type OperationKind } from "../protocol/index.ts";
import { checkOptionNames, type OptionNames } from "../values/index.ts";

export function refused(call: string, message: string, key?: string): InvalidInputError {
  return new InvalidInputError({ what: callName(call), issues: [key === undefined ? { message } : { message, path: [key] }] });
}

export function named(call: string, name: unknown): string {
  if (typeof name === "string" && name !== "") return name;
  throw refused(call, `The name must be a non-empty string, not ${preview(name)}.`);
}
export function callable(call: string, value: unknown, key?: string): void {
  if (typeof value !== "function") throw refused(call, `Expected a function, got ${value === null ? "null" : typeof value}.`, key);
}
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
/** Options must be an object or absent. If `names` is given, other names are rejected. */
export function checkOptions(call: string, options: unknown, names?: Readonly<Record<string, true>>): void {
  if (options === undefined) return;
  if (!isRecord(options)) throw refused(call, `The options must be an object, not ${preview(options)}.`);
  if (names !== undefined) checkOptionNames(callName(call), options, names);
}

const TRANSACTION: OptionNames<Omit<StepOptions<unknown>, "timeout">> = { retry: true, rollback: true, local: true };
const STEP: OptionNames<StepOptions<unknown>> = { ...TRANSACTION, timeout: true };
const CHILD: OptionNames<ChildOptions> = {
  id: true,
  queue: true,
  key: true,
  priority: true,
  version: true,
  deadline: true,
  retry: true,
  parentClose: true,
  attributes: true,
  onConflict: true,
};
const LOOP: OptionNames<LoopOptions<unknown>> = { name: true, state: true, commitInterval: true, historyEvery: true, historyKeep: true };
const RECEIVE: OptionNames<ReceiveHandlers<unknown, Messages>> = { signals: true, updates: true, timeout: true, checkpointEvery: true };
export const WAIT: OptionNames<{ timeout: unknown }> = { timeout: true };
export const LISTEN: OptionNames<{ count: unknown; timeout: unknown }> = { count: true, timeout: true };
export const CONTINUE: OptionNames<{ version: unknown }> = { version: true };

export function checkStepOptions(call: "step" | "transaction", options: unknown): void {
  if (options === undefined) return;
  checkOptions(call, options, call === "step" ? STEP : TRANSACTION);
  const { rollback, local } = options as { readonly rollback?: unknown; readonly local?: unknown };
  if (local !== undefined && typeof local !== "boolean")
    throw refused(call, `local must be true or false, not ${preview(local)}.`, "local");
  if (rollback !== undefined && typeof rollback !== "function")
    throw refused(call, `rollback must be a function, (output, info) => …, not ${preview(rollback)}.`, "rollback");
}

/** Rejects unknown kinds, which would silently match no record (V3). */
export function checkedKind(call: string, kind: unknown): OperationKind {
  if (isOperationKind(kind)) return kind;
  throw refused(call, `kind must be one of ${OPERATION_KINDS.join(", ")}, not ${preview(kind)}.`, "kind");
}

// ── definitions ──

export function checkActivity(value: unknown): asserts value is Activity<unknown, unknown> {
  if (isRecord(value) && typeof value["name"] === "string" && isRecord(value["options"])) return;
  throw refused("activity", `Expected an activity made by activity(name, run), got ${preview(value)}.`);
}
export function checkWorkflow(call: string, value: unknown): asserts value is AnyWorkflow {
  if (isRecord(value) && typeof value["name"] === "string" && isRecord(value["options"]))
    return void checkedWorkflowName(callName(call), value["name"]);
  throw refused(call, `Expected a workflow made by workflow(name, run), got ${preview(value)}.`);
}

// ── attributes ──

/** Attributes, by which runs are found. `null`, which removes an attribute, is allowed only in `setAttributes`, not as an option. */
export function checkAttributes(call: string, attributes: unknown, option?: "attributes"): void {
  if (!isRecord(attributes)) throw refused(call, `Expected an object of attributes, got ${preview(attributes)}.`, option);
  for (const [key, value] of Object.entries(attributes)) {
    const problem = attributeProblem(key, value === null && option === undefined ? true : value);
    if (problem !== undefined) throw refused(call, `${problem}.`, option ?? key);
  }
}

// ── children ──

const PARENT_CLOSE: ReadonlySet<unknown> = new Set(["cancel", "abandon", "terminate"]);
/** Options that only clients have. They get a separate error text. */
const OF_CLIENTS = ["delay", "maxDelay", "startAt", "after", "signals", "idempotencyKey", "tx"];

export function checkChildOptions(call: string, options: ChildOptions): void {
  checkOptions(call, options);
  const other = OF_CLIENTS.find((key) => (options as Readonly<Record<string, unknown>>)[key] !== undefined);
  if (other !== undefined) throw refused(call, `A child has no option ${other}: only start() has it.`, other);
  const what = callName(call);
  checkOptionNames(what, options, CHILD);
  checkedId(what, options.id);
  checkedText(what, "queue", options.queue);
  checkedText(what, "version", options.version);
  if (typeof options.retry?.nonRetryable === "function")
    throw refused(
      call,
      "nonRetryable must be a list of names here, because a run is stored. Pass a function in the retry policy of the workflow instead.",
      "retry",
    );
  checkedKey(what, options.key);
  checkedPriority(what, options.priority);
  if (options.attributes !== undefined) checkAttributes(call, options.attributes, "attributes");
  const { parentClose, onConflict } = options;
  if (onConflict !== undefined && onConflict !== "reject" && onConflict !== "restart-if-closed")
    throw refused(call, `onConflict of a child must be "reject" or "restart-if-closed", not ${preview(onConflict)}.`, "onConflict");
  if (parentClose !== undefined && !PARENT_CLOSE.has(parentClose))
    throw refused(call, `parentClose must be "cancel", "abandon" or "terminate", not ${preview(parentClose)}.`, "parentClose");
}

// ── branches, loops and handlers ──

export function checkLoop(options: unknown): asserts options is LoopOptions<unknown> {
  if (!isRecord(options)) throw refused("loop", `Expected a name, or { name, state }, and a function, got ${preview(options)}.`);
  checkOptionNames("ctx.loop", options, LOOP);
  named("loop", options["name"]);
}

export function checkBranchList(call: string, branches: unknown): void {
  if (!Array.isArray(branches)) throw refused(call, `Expected a list of functions, [(ctx) => …], got ${preview(branches)}.`);
  for (const branch of branches) callable(call, branch);
}
export function checkBranches(call: string, branches: unknown): void {
  if (!isRecord(branches)) throw refused(call, `Expected functions by name, { name: (ctx) => … }, got ${preview(branches)}.`);
  for (const branch of Object.values(branches)) callable(call, branch);
}
export function checkSignalNames(call: string, names: unknown): void {
  if (!Array.isArray(names)) throw refused(call, `Expected a list of names, ["paid", "shipped"], got ${preview(names)}.`);
  for (const name of names) named(call, name);
}
export function checkHandlers(handlers: unknown): void {
  if (!isRecord(handlers)) throw refused("receive", `Expected (state, { signals, updates }), got ${preview(handlers)}.`);
  checkOptionNames("ctx.receive", handlers, RECEIVE);
  for (const kind of ["signals", "updates"] as const) {
    const given = handlers[kind];
    if (given === undefined) continue;
    if (!isRecord(given)) throw refused("receive", `${kind} must be an object of handlers by name, not ${preview(given)}.`, kind);
    for (const [name, handler] of Object.entries(given)) checkHandler(kind, name, handler);
  }
}
/** A handler may be undefined, so that code can write `cond ? handler : undefined`. */
function checkHandler(kind: "signals" | "updates", name: string, handler: unknown): void {
  if (handler === undefined || typeof handler === "function") return;
  const isPair = isRecord(handler) && typeof handler["validate"] === "function" && typeof handler["handle"] === "function";
  if (kind === "updates" && isPair) return;
  const form = kind === "signals" ? "a function" : "a function, or { validate, handle }";
  throw refused("receive", `The handler of "${name}" must be ${form}, not ${preview(handler)}.`, kind);
}
