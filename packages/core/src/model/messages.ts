// The messages that a workflow declares (signals, updates, queries), and the types inferred from them.
// Owns: signal(), update() and their specs. It neither sends nor delivers; hosts validate payloads with `schema`.
// Invariants: M1 and M13 (a declared schema is a valid Standard Schema); a spec is frozen.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { checkSchema, Findings } from "./issues.ts";

// biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; `any` is the only argument that a spec of every payload type is assignable to

/** `T` is the type that handlers get, `In` the type that senders pass: they differ if the schema transforms or adds defaults. */
export interface SignalSpec<T, In = T> {
  readonly kind: "signal";
  readonly schema?: StandardSchemaV1<In, T>;
  readonly _payload?: T;
  readonly _input?: In;
}
/** `I` is the type that handlers get, `O` the type of their reply, `In` the type that senders pass. */
export interface UpdateSpec<I, O, In = I> {
  readonly kind: "update";
  readonly schema?: StandardSchemaV1<In, I>;
  readonly _io?: [I, O];
  readonly _input?: In;
}

/** Declares a signal of a workflow. Payloads are validated by the schema, if there is one. */
export function signal<T = void, In = T>(schema?: StandardSchemaV1<In, T>): SignalSpec<T, In> {
  return makeSpec("signal", schema);
}

/** Declares an update of a workflow. Inputs are validated by the schema, if there is one. */
export function update<I = void, O = void, In = I>(schema?: StandardSchemaV1<In, I>): UpdateSpec<I, O, In> {
  return makeSpec("update", schema);
}

export type Signals = Record<string, SignalSpec<any, any>>;
export type Updates = Record<string, UpdateSpec<any, any, any>>;
export type Queries = Record<string, (state: any, args?: any) => unknown>;
/** The messages of a workflow. A workflow that declares none accepts any message, untyped. */
export interface Messages {
  signals: Signals;
  updates: Updates;
  queries: Queries;
}

export type SignalPayload<X> = X extends SignalSpec<infer T, any> ? T : unknown;
export type SignalInput<X> = X extends SignalSpec<any, infer In> ? In : unknown;
export type UpdateInput<X> = X extends UpdateSpec<infer I, any, any> ? I : unknown;
export type UpdateSent<X> = X extends UpdateSpec<any, any, infer In> ? In : unknown;
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
    ? { name: K; payload?: SignalInput<S[K]> }
    : { name: K; payload: SignalInput<S[K]> };
}[keyof S & string];

function makeSpec<K extends "signal" | "update", T, In>(kind: K, schema: StandardSchemaV1<In, T> | undefined) {
  const findings = new Findings();
  checkSchema(findings, ["schema"], schema);
  findings.throwIfAny(kind);
  return Object.freeze(schema === undefined ? { kind } : { kind, schema });
}

// biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers
