// What a handler is, and what several of them need.
// Owns: nothing.
// Invariants: a handler knows nothing of HTTP; its answer is JSON.

import { RunNotFoundError } from "@holdfast/core";
import type { RunFilter } from "holdfast";
import type { InspectedRun } from "holdfast/inspect";
import type { Caller, ConsoleContext } from "../context.ts";
import { Show } from "../json.ts";
import { refusal } from "../problem.ts";
import type { CheckedRequest, ResponseOf, RouteId } from "../routes.ts";

export type HandledRoute = Exclude<RouteId, "events">;
export type Handler<R extends HandledRoute> = (
  request: CheckedRequest<R>,
  context: ConsoleContext,
  caller: Caller,
) => Promise<ResponseOf<R>>;
export type Handlers<R extends HandledRoute> = { readonly [K in R]: Handler<K> };

export async function foundRun(context: ConsoleContext, id: string): Promise<InspectedRun> {
  const run = await (await context.inspection()).get(id);
  if (run === undefined) throw new RunNotFoundError({ runId: id });
  return run;
}
/** For reads that answer `undefined` for a run and for an execution that does not exist. */
export async function missing(context: ConsoleContext, id: string, execution: number | undefined): Promise<Error> {
  await foundRun(context, id);
  return refusal("HF_NOT_FOUND", `Run "${id}" has no execution ${execution ?? ""} that is kept.`);
}

/** Small values only. */
export function briefly(caller: Caller): Show {
  return new Show({ values: caller.values });
}
export function fully(caller: Caller, full: boolean | undefined = true): Show {
  return new Show({ values: caller.values, full });
}

/** The object without the fields that are undefined: options of the engine are absent or set. */
export function present<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}
/** The query parameters of a list as a filter of the engine. */
export function filterOf<A>({ attr, ...filter }: { readonly attr?: A | undefined } & object): RunFilter {
  return present({ ...filter, attributes: attr }) as RunFilter;
}
