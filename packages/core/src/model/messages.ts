// The messages that a workflow declares (signals, updates, queries), and the types inferred from them.
// Owns: signal(), update() and their specs. It neither sends nor delivers; hosts validate payloads with `schema`.
// Invariants: M1 and M13 (a declared schema is a valid Standard Schema); a spec is frozen.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { checkSchema, Findings } from "./issues.ts";

// biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; `any` is the only argument that a spec of every payload type is assignable to

/**
 * A signal that a workflow declares, made by `signal()`. `T` is the type that handlers get, `In` the type that senders pass: they differ if
 * the schema transforms or adds defaults.
 */
export interface SignalSpec<T, In = T> {
  readonly kind: "signal";
  /** Validates payloads, at the sender and at the receiver. */
  readonly schema?: StandardSchemaV1<In, T>;
  /** Carries the type only; it is never set. */
  readonly _payload?: T;
  /** Carries the type only; it is never set. */
  readonly _input?: In;
}
/**
 * An update that a workflow declares, made by `update()`. `I` is the type that handlers get, `O` the type of their reply, `In` the type
 * that senders pass.
 */
export interface UpdateSpec<I, O, In = I> {
  readonly kind: "update";
  /** Validates inputs, at the sender and at the receiver. */
  readonly schema?: StandardSchemaV1<In, I>;
  /** Carries the types only; it is never set. */
  readonly _io?: [I, O];
  /** Carries the type only; it is never set. */
  readonly _input?: In;
}

/**
 * Declares a signal of a workflow: a message without a reply. Payloads are validated by the schema (any Standard Schema: Zod, Valibot,
 * ArkType), if there is one.
 * @throws `InvalidInputError` if the schema is not a Standard Schema.
 * @example
 * ```ts
 * const approval = workflow({ name: "approval", signals: { approve: signal<{ by: string }>() } }, async (ctx) => {
 *   const { by } = await ctx.waitForSignal("approve");
 *   return `approved by ${by}`;
 * });
 * const engine = await testEngine({ workflows: [approval] });
 * const run = await engine.start(approval);
 * await run.signal("approve", { by: "Ada" });
 * console.log(await run.result()); // "approved by Ada"
 * await engine.close();
 * ```
 */
export function signal<T = void, In = T>(schema?: StandardSchemaV1<In, T>): SignalSpec<T, In> {
  return makeSpec("signal", schema);
}

/**
 * Declares an update of a workflow: a message with a reply, handled in `ctx.receive`. Inputs are validated by the schema (any Standard
 * Schema), if there is one.
 * @throws `InvalidInputError` if the schema is not a Standard Schema.
 * @example
 * ```ts
 * const account = workflow({ name: "account", updates: { deposit: update<number, number>() } }, async (ctx) => {
 *   await ctx.receive(0, {
 *     updates: { deposit: (amount, balance) => Receive.reply(balance + amount, balance + amount) },
 *     timeout: "1d",
 *   });
 * });
 * const engine = await testEngine({ workflows: [account] });
 * const run = await engine.start(account);
 * await run.update("deposit", 10);
 * console.log(await run.update("deposit", 5)); // 15
 * await engine.close();
 * ```
 */
export function update<I = void, O = void, In = I>(schema?: StandardSchemaV1<In, I>): UpdateSpec<I, O, In> {
  return makeSpec("update", schema);
}

/** The signals of a workflow, by name. */
export type Signals = Record<string, SignalSpec<any, any>>;
/** The updates of a workflow, by name. */
export type Updates = Record<string, UpdateSpec<any, any, any>>;
/** The queries of a workflow, by name: synchronous, pure functions of the published state. */
export type Queries = Record<string, (state: any, args?: any) => unknown>;
/** The messages of a workflow. A workflow that declares none accepts any message, untyped. */
export interface Messages {
  /** The signals, by name. */
  signals: Signals;
  /** The updates, by name. */
  updates: Updates;
  /** The queries, by name. */
  queries: Queries;
}

/** The type that handlers of a signal get. */
export type SignalPayload<X> = X extends SignalSpec<infer T, any> ? T : unknown;
/** The type that senders of a signal pass. */
export type SignalInput<X> = X extends SignalSpec<any, infer In> ? In : unknown;
/** The type that handlers of an update get. */
export type UpdateInput<X> = X extends UpdateSpec<infer I, any, any> ? I : unknown;
/** The type that senders of an update pass. */
export type UpdateSent<X> = X extends UpdateSpec<any, any, infer In> ? In : unknown;
/** The type of an update's reply. */
export type UpdateOutput<X> = X extends UpdateSpec<any, infer O, any> ? O : unknown;

/** The arguments of a call with an input, which is optional if its type allows undefined. */
export type InputArgs<In, Options> = 0 extends 1 & In
  ? [input?: any, options?: Options]
  : undefined extends In
    ? [input?: In, options?: Options]
    : [input: In, options?: Options];

/** A signal that is sent together with a start. */
export type StartSignal<S extends Signals> = {
  [K in keyof S & string]: undefined extends SignalInput<S[K]>
    ? {
        /** The name of the signal. */
        name: K;
        /** The payload, as for `run.signal`. */
        payload?: SignalInput<S[K]>;
      }
    : {
        /** The name of the signal. */
        name: K;
        /** The payload, as for `run.signal`. */
        payload: SignalInput<S[K]>;
      };
}[keyof S & string];

function makeSpec<K extends "signal" | "update", T, In>(kind: K, schema: StandardSchemaV1<In, T> | undefined) {
  const findings = new Findings();
  checkSchema(findings, ["schema"], schema);
  findings.throwIfAny(kind);
  return Object.freeze(schema === undefined ? { kind } : { kind, schema });
}

// biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers
