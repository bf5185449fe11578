// Job: what a workflow declares about the messages it takes: signals, updates, queries, and the types inferred from them.
// Owns: signal(), update() and their specs. It neither sends nor delivers; hosts validate payloads with `schema`.
// Invariants: M1 and M13 a declared schema is a usable Standard Schema; a spec never changes once made.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { checkSchema, Findings } from "./findings.ts";

// biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; `any` is the only argument that a spec of every payload type is assignable to

export interface SignalSpec<T> {
  readonly kind: "signal";
  readonly schema?: StandardSchemaV1<any, T>;
  readonly _payload?: T;
}
export interface UpdateSpec<I, O> {
  readonly kind: "update";
  readonly schema?: StandardSchemaV1<any, I>;
  readonly _io?: [I, O];
}

export function signal<T = void>(schema?: StandardSchemaV1<any, T>): SignalSpec<T> {
  return makeSpec("signal", schema);
}

export function update<I = void, O = void>(schema?: StandardSchemaV1<any, I>): UpdateSpec<I, O> {
  return makeSpec("update", schema);
}

export type Signals = Record<string, SignalSpec<any>>;
export type Updates = Record<string, UpdateSpec<any, any>>;
export type Queries = Record<string, (state: any, args: any) => unknown>;
/** A workflow that declares no messages accepts any, untyped. */
export interface Messages {
  signals: Signals;
  updates: Updates;
  queries: Queries;
}

export type SignalPayload<X> = X extends SignalSpec<infer T> ? T : unknown;
export type UpdateInput<X> = X extends UpdateSpec<infer I, any> ? I : unknown;
export type UpdateOutput<X> = X extends UpdateSpec<any, infer O> ? O : unknown;

function makeSpec<K extends "signal" | "update", T>(kind: K, schema: StandardSchemaV1<any, T> | undefined) {
  const findings = new Findings();
  checkSchema(findings, ["schema"], schema);
  findings.throwIfAny(kind);
  return Object.freeze(schema === undefined ? { kind } : { kind, schema });
}

// biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers
