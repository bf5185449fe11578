// The determinism guard: reports workflow code that reads a clock, randomness, the environment or a file.
// Owns: the patches of the functions that do so, installed while at least one guarded worker lives.
// Invariants: only code that has the turn is reported (never step bodies, side effects, loggers or the rest of the process); "off" patches
// nothing; V4 ("error" blocks the run, even if user code swallows the error); stopping the last guard restores everything.

import crypto from "node:crypto";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers";
import timersPromises from "node:timers/promises";
import { type Codec, HoldfastError, jsonCodec, type Logger, type RunningTurn, type TurnWatch } from "@holdfast/core";
import { framesOf, pathOf } from "./stackFrames.ts";

/** What happens when workflow code calls Date.now, Math.random, setTimeout or fetch. */
export type Determinism = "off" | "warn" | "error";

/** A call that workflow code should not make. */
interface Call {
  /** Includes the verb: "calls Date.now()". */
  readonly what: string;
  readonly instead: string;
}

/** Stacks captured within one step of a unit: a loop that calls Math.random a million times must not take minutes. */
const MOST_LOOKS = 20;

/** Turns in which user code may be running right now, with the guards of their workers. */
const entered = new Map<RunningTurn, DeterminismGuard>();
const errors = new WeakMap<RunningTurn, Error>();
let muted = false;
let looks = 0;

/** Watches turns for calls of Date.now, Math.random, setTimeout and fetch. */
export class DeterminismGuard implements TurnWatch {
  /** Whether such a call is a warning or an error. */
  readonly mode: "warn" | "error";
  /** Where warnings go. */
  readonly logger: Logger;
  /** Call sites that a warning was logged for. */
  readonly warned = new Set<string>();
  #stopped = false;

  /** `host`: a module of the package that runs the turns, with its path in the package's sources. */
  constructor(mode: "warn" | "error", logger: Logger, host?: { readonly url: string; readonly module: string }) {
    if (host !== undefined) addHome(host.url, host.module);
    this.mode = mode;
    this.logger = logger;
    if (guards++ === 0) install();
  }
  /** User code of this run is about to run: its calls are checked from now on. */
  enter(turn: RunningTurn): void {
    looks = 0;
    entered.set(turn, this);
  }
  /** It has run: calls are no longer checked. */
  leave(turn: RunningTurn): void {
    entered.delete(turn);
  }
  /** Ends its checks. The last guard of the process restores the globals that the first has replaced. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    if (--guards === 0) uninstall();
  }
}

/** A user's codec is called during turns but is not workflow code: it may encrypt with random bytes. */
export function unguardedCodec(codec: Codec): Codec {
  if (codec === jsonCodec) return codec;
  return { encode: (value) => unguarded(() => codec.encode(value)), decode: (data) => unguarded(() => codec.decode(data)) };
}
function unguarded<T>(run: () => T): T {
  const outer = muted;
  muted = true;
  try {
    return run();
  } finally {
    muted = outer;
  }
}

// ── reports ──

/** `trap` is the patched function that was called: the captured stack begins above it. */
function caught(call: Call, trap: (...args: never[]) => unknown): void {
  if (looks++ >= MOST_LOOKS && ![...entered.keys()].some((turn) => errors.has(turn))) return;
  const error = unguarded(() => report(call, trap));
  if (error !== undefined) throw error;
}

function report(call: Call, trap: (...args: never[]) => unknown): Error | undefined {
  const turns = [...entered];
  const before = turns.map(([turn]) => errors.get(turn)).find((error) => error !== undefined);
  if (before !== undefined) return before;
  const site = callSite(trap);
  if (site === undefined) return undefined;
  const message = `${callers(turns.map(([turn]) => turn))} ${call.what} at ${site}. Workflow code runs again in replay, where the result would differ. Use ${call.instead}.`;
  let error: Error | undefined;
  for (const [turn, guard] of turns) {
    if (guard.mode === "error") {
      error ??= new HoldfastError(message, { code: "HF_NONDETERMINISTIC_CALL" });
      errors.set(turn, error);
      turn.violate(error);
    } else if (!guard.warned.has(`${call.what} ${site}`)) {
      guard.warned.add(`${call.what} ${site}`);
      warn(guard.logger, message, turn);
    }
  }
  return error;
}
/** An error of the logger must not reach the workflow. */
function warn(logger: Logger, message: string, turn: RunningTurn): void {
  try {
    logger.warn(message, { runId: turn.runId, workflow: turn.workflow.name });
  } catch {
    // The logger has failed: there is no other place to report to.
  }
}

function callers(turns: readonly RunningTurn[]): string {
  const names = turns
    .slice(0, 5)
    .map(({ runId, workflow, current, closure }) => `"${workflow.name}" (run ${runId}, ${closure ?? current?.title ?? "root"})`);
  if (turns.length === 1) return `Workflow ${names[0]}`;
  return `One of the workflows ${names.join(", ")}${turns.length > names.length ? ` and ${turns.length - names.length} others` : ""}`;
}

const OUTSIDE_SOURCES = /^(?:node:|<anonymous>|native$)/;
/** Source folders of Holdfast's packages: calls from there are not the user's. */
const homes = new Set<string>();
addHome(import.meta.url, "node/determinismGuard");

/**
 * Adds the source folder of the package that contains the module, unless it was bundled with user code. `module`: its path in that folder.
 */
function addHome(url: string, module: string): void {
  const path = pathOf(url);
  const [, folder] = /^(.*[\\/](?:src|dist)[\\/])(.*)\.[jt]s$/.exec(path) ?? [];
  if (folder !== undefined && path.slice(folder.length, -3).replaceAll("\\", "/") === module) homes.add(folder);
}
function isOurs(frame: string): boolean {
  for (const home of homes) if (frame.startsWith(home)) return true;
  return false;
}

/** The user's file and line; undefined if the caller is not user code: Node's own modules read the environment too. */
function callSite(trap: (...args: never[]) => unknown): string | undefined {
  const frames = framesAbove(trap);
  const caller = frames.find((frame) => frame !== "<anonymous>");
  if (caller === undefined) return "an unknown location";
  if (OUTSIDE_SOURCES.test(caller) || isOurs(caller)) return undefined;
  const sources = frames.filter((frame) => !OUTSIDE_SOURCES.test(frame));
  return sources.find((frame) => !/[\\/]node_modules[\\/]/.test(frame)) ?? caller;
}
function framesAbove(trap: (...args: never[]) => unknown): string[] {
  const holder: { stack?: unknown } = {};
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 20;
  Error.captureStackTrace(holder, trap);
  const { stack } = holder;
  Error.stackTraceLimit = limit;
  return framesOf(stack);
}

// ── patches ──

interface Patch {
  readonly owner: object;
  readonly key: string;
  readonly original: PropertyDescriptor;
  readonly value: unknown;
}
type Callable = (...args: never[]) => unknown;

let guards = 0;
let patches: Patch[] = [];
/** One proxy per function, so that a function exported in two places stays the same function. */
const wrapped = new Map<object, object>();

const NOW = "ctx.now(), the time of the turn";
const FILE = "ctx.step, or read the file before the run starts and pass its content as input";

function install(): void {
  wrap(Date, "now", { what: "calls Date.now()", instead: NOW });
  wrapDate();
  wrap(globalThis.performance, "now", { what: "calls performance.now()", instead: `${NOW}; measure inside steps` });
  wrap(Math, "random", { what: "calls Math.random()", instead: "ctx.random()" });
  for (const owner of [globalThis.crypto, crypto]) {
    wrap(owner, "randomUUID", { what: "calls crypto.randomUUID()", instead: "ctx.uuid()" });
    wrap(owner, "getRandomValues", { what: "calls crypto.getRandomValues()", instead: "ctx.random(), or ctx.sideEffect for bytes" });
  }
  wrap(crypto, "randomBytes", { what: "calls crypto.randomBytes()", instead: "ctx.random(), or ctx.sideEffect for bytes" });
  for (const owner of [globalThis, timers, timersPromises]) {
    wrap(owner, "setTimeout", { what: "calls setTimeout()", instead: "ctx.sleep" });
    wrap(owner, "setInterval", { what: "calls setInterval()", instead: "ctx.loop with ctx.sleep in it" });
    wrap(owner, "setImmediate", { what: "calls setImmediate()", instead: "ctx.yield() to let other units go first" });
  }
  wrap(globalThis, "fetch", { what: "calls fetch()", instead: "ctx.step, with the call inside" });
  for (const key of ["readFileSync", "existsSync", "statSync", "readdirSync"]) wrap(fs, key, { what: `calls fs.${key}()`, instead: FILE });
  wrapEnvironment();
  syncBuiltinESMExports(); // so that `import { readFileSync } from "node:fs"` is the patched one
}

/** Removes only patches that are still in place: a function that other code has patched since stays as it is. */
function uninstall(): void {
  for (const { owner, key, original, value } of patches.reverse()) {
    if (Object.getOwnPropertyDescriptor(owner, key)?.value === value) Object.defineProperty(owner, key, original);
  }
  patches = [];
  wrapped.clear();
  syncBuiltinESMExports();
}

function patch(owner: object, key: string, make: (value: object) => unknown): void {
  const original = Object.getOwnPropertyDescriptor(owner, key);
  if (original?.configurable !== true || original.value === undefined || original.value === null) return; // frozen, or absent in this runtime
  const value = make(original.value);
  Object.defineProperty(owner, key, { ...original, value });
  patches.push({ owner, key, original, value });
}
/** A proxy changes only the call: name, length and util.promisify's symbol stay those of the original. */
function wrap(holder: object | undefined, key: string, call: Call): void {
  const owner = holder === undefined ? undefined : ownerOf(holder, key);
  if (owner === undefined) return;
  patch(owner, key, (original) => {
    const handler: ProxyHandler<Callable> = {
      apply: function guarded(target, self, args) {
        if (entered.size > 0 && !muted) caught(call, guarded);
        return Reflect.apply(target, self, args);
      },
    };
    const proxy = wrapped.get(original) ?? new Proxy(original as Callable, handler);
    wrapped.set(original, proxy);
    return proxy;
  });
}
/** The object that has the property: methods of `performance` and `crypto` are on their prototypes. */
function ownerOf(holder: object, key: string): object | undefined {
  for (let at: object | null = holder; at !== null; at = Object.getPrototypeOf(at)) if (Object.hasOwn(at, key)) return at;
  return undefined;
}

function wrapDate(): void {
  patch(globalThis, "Date", (original) => {
    const proxy: object = new Proxy(original as DateConstructor, {
      apply: function guarded(target, self, args) {
        if (entered.size > 0 && !muted) caught({ what: "calls Date()", instead: NOW }, guarded);
        return Reflect.apply(target, self, args);
      },
      construct: function guarded(target, args, newTarget) {
        if (args.length === 0 && entered.size > 0 && !muted) caught({ what: "calls new Date()", instead: NOW }, guarded);
        return Reflect.construct(target, args, newTarget === proxy ? target : newTarget);
      },
    });
    return proxy;
  });
  const { Date: guarded } = globalThis;
  patch(guarded.prototype, "constructor", () => guarded); // so that `date.constructor === Date` still holds
}

/** Libraries read it on every call, and its value is the same wherever a run is replayed. */
const HARMLESS_VARIABLES: ReadonlySet<string | symbol> = new Set(["NODE_ENV"]);

function wrapEnvironment(): void {
  patch(process, "env", (original) => {
    const check = (key: string | symbol | undefined, trap: (...args: never[]) => unknown): void => {
      if (entered.size === 0 || muted || (key !== undefined && (typeof key === "symbol" || HARMLESS_VARIABLES.has(key)))) return;
      const what = key === undefined ? "reads process.env" : `reads process.env.${String(key)}`;
      caught({ what, instead: "ctx.sideEffect(() => process.env…), or pass the value as input" }, trap);
    };
    return new Proxy(original, {
      get: function guarded(target, key) {
        check(key, guarded);
        return Reflect.get(target, key);
      },
      has: function guarded(target, key) {
        check(key, guarded);
        return Reflect.has(target, key);
      },
      ownKeys: function guarded(target) {
        check(undefined, guarded);
        return Reflect.ownKeys(target);
      },
      set: (target, key, value) => Reflect.set(target, key, value),
    });
  });
}
