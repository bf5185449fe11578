// The handlers of `ctx.receive`, and the results that a handler may return.
// Owns: `Receive`, the shapes of results and their check at run time. The executor dispatches messages.
// Invariants: R4 (which handler may return what), A5 (async handlers have `updateState`); a result is a plain object with a field `result`.
import type { Duration } from "../values/index.ts";
import type { AsyncHandlerContext, HandlerContext } from "./context.ts";
import type { Messages, SignalPayload, UpdateInput, UpdateOutput } from "./messages.ts";

/** The handlers of a `ctx.receive`, and when it ends. */
export interface ReceiveHandlers<St, M extends Messages> {
  /** Handlers by the name of the signal. Signals without a handler stay buffered. */
  signals?: { [K in keyof M["signals"]]?: SignalHandler<St, SignalPayload<M["signals"][K]>, M> };
  /** Handlers by the name of the update. Updates without a handler are rejected. */
  updates?: { [K in keyof M["updates"]]?: UpdateHandler<St, UpdateInput<M["updates"][K]>, UpdateOutput<M["updates"][K]>, M> };
  /**
   * Closes the receive after this time; its result then has `timedOut: true`. Messages that arrived before go first.
   * @defaultValue no limit
   */
  timeout?: Duration;
  /**
   * Commits the state and trims the history after every so many messages, for runs that receive for long.
   * @defaultValue never
   */
  checkpointEvery?: number;
}
/**
 * Handles a signal: gets the payload and the state, and returns the next state with `Receive.noreply`, `Receive.stop` or `Receive.async`.
 * An error that it throws is thrown from `ctx.receive`.
 */
export type SignalHandler<St, P, M extends Messages> = (
  payload: P,
  state: St,
  ctx: HandlerContext<M>,
) => SignalResult<St> | Promise<SignalResult<St>>;
/**
 * Handles an update: gets the input and the state, and returns a reply and the next state with `Receive.reply`, `Receive.stop` or
 * `Receive.async`. An error that it throws fails the update for its sender; the state is unchanged and the receive goes on.
 */
export type UpdateHandler<St, I, O, M extends Messages> =
  | ((input: I, state: St, ctx: HandlerContext<M>) => UpdateResult<St, O> | Promise<UpdateResult<St, O>>)
  | {
      /**
       * Runs before the update is accepted, on a copy of the state. If it throws, the update is rejected and leaves no trace in the
       * history. It must be synchronous and must not use `ctx`.
       */
      validate: (input: I, state: St) => void;
      /** The handler itself. */
      handle: (input: I, state: St, ctx: HandlerContext<M>) => UpdateResult<St, O> | Promise<UpdateResult<St, O>>;
    };

/** A result of `Receive.noreply`. */
export interface NoReply<St> {
  readonly result: "noreply";
  /** The next state. */
  readonly state: St;
}
/** A result of `Receive.reply`. */
export interface Reply<St, O> {
  readonly result: "reply";
  /** The reply. */
  readonly value: O;
  /** The next state. */
  readonly state: St;
}
/** A result of `Receive.stop(state)`. */
export interface Stop<St> {
  readonly result: "stop";
  /** The last state. */
  readonly state: St;
}
/** A result of `Receive.stop(value, state)`. */
export interface StopWith<St, O> {
  readonly result: "stopWith";
  /** The reply. */
  readonly value: O;
  /** The last state. */
  readonly state: St;
}
/** A result of `Receive.async`. */
export interface Async<St, O> {
  readonly result: "async";
  /** The function that runs concurrently with the receive. */
  readonly fn: (ctx: AsyncHandlerContext<St>) => Promise<O>;
  /** The next state. */
  readonly state: St;
}
/** What a signal handler may return. */
export type SignalResult<St> = NoReply<St> | Stop<St> | Async<St, unknown>;
/** What an update handler may return. */
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

/**
 * The results that the handlers of `ctx.receive` may return.
 * @example
 * ```ts
 * const cart = workflow({ name: "cart", signals: { pay: signal() }, updates: { add: update<string, number>() } }, async (ctx) => {
 *   const empty: readonly string[] = [];
 *   const { state } = await ctx.receive(empty, {
 *     updates: { add: (item, items) => Receive.reply(items.length + 1, [...items, item]) },
 *     signals: { pay: (_, items) => Receive.stop(items) },
 *   });
 *   return state;
 * });
 * const engine = await testEngine({ workflows: [cart] });
 * const run = await engine.start(cart);
 * await run.update("add", "book");
 * await run.signal("pay");
 * console.log(await run.result()); // ["book"]
 * await engine.close();
 * ```
 */
export const Receive: {
  /** From a signal handler: continues with this state. */
  noreply<St>(state: St): NoReply<St>;
  /** From an update handler: replies with the value and continues with this state. */
  reply<St, O>(value: O, state: St): Reply<St, O>;
  /** Stops the receive, which returns this state once its async handlers have ended. */
  stop<St>(state: St): Stop<St>;
  /** From an update handler: replies with the value and stops the receive. */
  stop<St, O>(value: O, state: St): StopWith<St, O>;
  /**
   * Continues with this state and runs `fn` concurrently with the receive. For an update, its return value is the reply. `fn` changes the
   * state with `ctx.updateState`.
   */
  async<St, O>(fn: (ctx: AsyncHandlerContext<St>) => Promise<O>, state: St): Async<St, O>;
} = Object.freeze({
  noreply,
  reply,
  stop,
  /**
   * Continues with this state and runs `fn` concurrently with the receive. For an update, its return value is the reply. `fn` changes the
   * state with `ctx.updateState`.
   */
  async: runAsync,
});

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
