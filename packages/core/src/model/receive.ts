// Job: how a workflow answers messages: the handlers of `ctx.receive`, and the results that a handler may return.
// Owns: `Receive`, the result shapes and their recognition at run time. The dispatch loop is the executor's.
// Invariants: R4 (which handler may return what), A5 (an async handler gets `updateState`); a result is a plain object, told by `result`.
import type { Duration } from "../values/index.ts";
import type { AsyncHandlerContext, HandlerContext } from "./context.ts";
import type { Messages, SignalPayload, UpdateInput, UpdateOutput } from "./messages.ts";

export interface ReceiveHandlers<St, M extends Messages> {
  signals?: { [K in keyof M["signals"]]?: SignalHandler<St, SignalPayload<M["signals"][K]>, M> };
  updates?: { [K in keyof M["updates"]]?: UpdateHandler<St, UpdateInput<M["updates"][K]>, UpdateOutput<M["updates"][K]>, M> };
  timeout?: Duration;
  /** Commit the state and trim handled messages every n of them. */
  checkpointEvery?: number;
}
export type SignalHandler<St, P, M extends Messages> = (
  payload: P,
  state: St,
  ctx: HandlerContext<M>,
) => SignalResult<St> | Promise<SignalResult<St>>;
export type UpdateHandler<St, I, O, M extends Messages> =
  | ((input: I, state: St, ctx: HandlerContext<M>) => UpdateResult<St, O> | Promise<UpdateResult<St, O>>)
  | {
      validate: (input: I, state: St) => void;
      handle: (input: I, state: St, ctx: HandlerContext<M>) => UpdateResult<St, O> | Promise<UpdateResult<St, O>>;
    };

export interface NoReply<St> {
  readonly result: "noreply";
  readonly state: St;
}
export interface Reply<St, O> {
  readonly result: "reply";
  readonly value: O;
  readonly state: St;
}
export interface Stop<St> {
  readonly result: "stop";
  readonly state: St;
}
export interface StopWith<St, O> {
  readonly result: "stopWith";
  readonly value: O;
  readonly state: St;
}
export interface Async<St, O> {
  readonly result: "async";
  readonly fn: (ctx: AsyncHandlerContext<St>) => Promise<O>;
  readonly state: St;
}
export type SignalResult<St> = NoReply<St> | Stop<St> | Async<St, unknown>;
export type UpdateResult<St, O> = Reply<St, O> | StopWith<St, O> | Async<St, O>;

function noreply<St>(state: St): NoReply<St> {
  return { result: "noreply", state };
}

function reply<St, O>(value: O, state: St): Reply<St, O> {
  return { result: "reply", value, state };
}

function stop<St>(state: St): Stop<St>;
function stop<St, O>(value: O, state: St): StopWith<St, O>;
function stop(...args: readonly unknown[]): Stop<unknown> | StopWith<unknown, unknown> {
  // Told apart by the number of arguments, not by their values: `stop(undefined, state)` replies with undefined.
  return args.length < 2 ? { result: "stop", state: args[0] } : { result: "stopWith", value: args[0], state: args[1] };
}

function runAsync<St, O>(fn: (ctx: AsyncHandlerContext<St>) => Promise<O>, state: St): Async<St, O> {
  return { result: "async", fn, state };
}

export const Receive: {
  noreply<St>(state: St): NoReply<St>;
  reply<St, O>(value: O, state: St): Reply<St, O>;
  stop<St>(state: St): Stop<St>;
  stop<St, O>(value: O, state: St): StopWith<St, O>;
  async<St, O>(fn: (ctx: AsyncHandlerContext<St>) => Promise<O>, state: St): Async<St, O>;
} = Object.freeze({ noreply, reply, stop, async: runAsync });

/** Whether a handler returned one of the results of `Receive`, made by it or by hand. Which of them it may return is R4. */
export function isReceiveResult(x: unknown): x is SignalResult<unknown> | UpdateResult<unknown, unknown> {
  try {
    if (typeof x !== "object" || x === null || !("result" in x && "state" in x)) return false;
    switch (x.result) {
      case "noreply":
      case "stop":
        return true;
      case "reply":
      case "stopWith":
        return "value" in x;
      case "async":
        return "fn" in x && typeof x.fn === "function";
      default:
        return false;
    }
  } catch {
    return false; // a Proxy whose traps throw
  }
}
