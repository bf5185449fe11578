// The handlers of `ctx.receive`, and the results that a handler may return.
// Owns: `Receive`, the shapes of results and their check at run time. The executor dispatches messages.
// Invariants: R4 (which handler may return what), A5 (async handlers have `updateState`); a result is a plain object with a field `result`.
import type { Duration } from "../values/index.ts";
import type { AsyncHandlerContext, HandlerContext } from "./context.ts";
import type { Messages, SignalPayload, UpdateInput, UpdateOutput } from "./messages.ts";

export interface ReceiveHandlers<St, M extends Messages> {
  signals?: { [K in keyof M["signals"]]?: SignalHandler<St, SignalPayload<M["signals"][K]>, M> };
  updates?: { [K in keyof M["updates"]]?: UpdateHandler<St, UpdateInput<M["updates"][K]>, UpdateOutput<M["updates"][K]>, M> };
  /** Closes the receive after this time; its result then has `timedOut: true`. Default: no timeout. */
  timeout?: Duration;
  /** Commits the state and trims the history after every n messages. Default: never. */
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
  // The number of arguments decides, not their values: `stop(undefined, state)` replies with undefined.
  return args.length < 2 ? { result: "stop", state: args[0] } : { result: "stopWith", value: args[0], state: args[1] };
}

function runAsync<St, O>(fn: (ctx: AsyncHandlerContext<St>) => Promise<O>, state: St): Async<St, O> {
  return { result: "async", fn, state };
}

/** The results that the handlers of `ctx.receive` may return. */
export const Receive: {
  /** From a signal handler: continues with this state. */
  noreply<St>(state: St): NoReply<St>;
  /** From an update handler: replies with the value and continues with this state. */
  reply<St, O>(value: O, state: St): Reply<St, O>;
  /** Stops the receive. From an update handler: `stop(value, state)` also replies with the value. */
  stop<St>(state: St): Stop<St>;
  stop<St, O>(value: O, state: St): StopWith<St, O>;
  /** Continues with this state and runs `fn` concurrently. For an update, its return value is the reply. */
  async<St, O>(fn: (ctx: AsyncHandlerContext<St>) => Promise<O>, state: St): Async<St, O>;
} = Object.freeze({ noreply, reply, stop, async: runAsync });

/** Whether the value is a result of `Receive`, or a plain object of the same shape. R4 says which handler may return which. */
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
