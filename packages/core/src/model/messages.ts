// Job: what a workflow declares about the messages it takes: signals, updates, queries, and the types inferred from them.
// Owns: signal(), update() and their specs. It neither sends nor delivers; hosts validate payloads with `schema`.
// Invariants: M1 and M13 a declared schema is a usable Standard Schema; a spec never changes once made.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { checkSchema, Findings } from "./issues.ts";

// biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; `any` is the only argument that a spec of every payload type is assignable to

/** `T` is what handlers get; `In` is what senders give: they differ where the schema transforms or fills in defaults. */
export interface SignalSpec<T, In = T> {
  readonly kind: "signal";
  readonly schema?: StandardSchemaV1<In, T>;
  readonly _payload?: T;
  readonly _input?: In;
}
/** `I` is what handlers get, `O` what they reply; `In` is what senders give. */
export interface UpdateSpec<I, O, In = I> {
  readonly kind: "update";
  readonly schema?: StandardSchemaV1<In, I>;
  readonly _io?: [I, O];
  readonly _input?: In;
}

export function signal<T = void, In = T>(schema?: StandardSchemaV1<In, T>): SignalSpec<T, In> {
  return makeSpec("signal", schema);
}

export function update<I = void, O = void, In = I>(schema?: StandardSchemaV1<In, I>): UpdateSpec<I, O, In> {
  return makeSpec("update", schema);
}

export type Signals = Record<string, SignalSpec<any, any>>;
export type Updates = Record<string, UpdateSpec<any, any, any>>;
export type Queries = Record<string, (state: any, args?: any) => unknown>;
/** A workflow that declares no messages accepts any, untyped. */
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

/** What a caller gives: left out where it may be undefined. */
export type InputArgs<In, Options> = 0 extends 1 & In
  ? [input?: any, options?: Options]
  : undefined extends In
    ? [input?: In, options?: Options]
    : [input: In, options?: Options];

/** A signal that goes with a start, by its name. */
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
