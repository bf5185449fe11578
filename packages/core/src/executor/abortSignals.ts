// Abort signals for user code, whose listeners can't end the process by throwing.
// Owns: the wrapper around each listener, which the runtime calls instead of the listener.
// Invariants: X11 (a listener that throws, or whose promise rejects, is reported; without the wrapper it would be an uncaught exception,
// which ends the process and every run in it).

import { isInstance } from "../errors/index.ts";
import { reportTicks } from "./barrier.ts";

type Call = (this: unknown, event: Event) => unknown;
type Listener = Call | { handleEvent(event: Event): unknown };

/** A controller whose signal may be given to user code. `report` is called with the error that a listener threw. */
export function quietController(report: (error: unknown) => void): AbortController {
  const controller = new AbortController();
  const { signal } = controller;
  const quiet = new WeakMap<object, Call>();
  /** One wrapper per listener, so that adding a listener twice adds it once, and removing it works. */
  const quieted = (listener: unknown): unknown => {
    if ((typeof listener !== "object" && typeof listener !== "function") || listener === null) return listener;
    let call = quiet.get(listener);
    if (call === undefined) {
      call = function (this: unknown, event: Event): void {
        callQuietly(this, listener as Listener, event, report);
      };
      quiet.set(listener, call);
    }
    return call;
  };
  const add = signal.addEventListener as (...args: unknown[]) => void;
  const remove = signal.removeEventListener as (...args: unknown[]) => void;
  define(signal, "addEventListener", (type: unknown, listener: unknown, ...rest: unknown[]) =>
    add.call(signal, type, quieted(listener), ...rest),
  );
  define(signal, "removeEventListener", (type: unknown, listener: unknown, ...rest: unknown[]) =>
    remove.call(signal, type, quieted(listener), ...rest),
  );
  // Listeners of dependent signals (AbortSignal.any) are not wrapped; Node throws their errors in a tick.
  const abort = controller.abort.bind(controller);
  define(controller, "abort", (reason?: unknown) => reportTicks(() => abort(reason), report));
  const native = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "onabort");
  let onabort: unknown = null;
  Object.defineProperty(signal, "onabort", {
    configurable: true,
    get: () => onabort,
    set: (listener: unknown) => {
      onabort = typeof listener === "function" ? listener : null;
      native?.set?.call(signal, quieted(onabort));
    },
  });
  return controller;
}

function callQuietly(self: unknown, listener: Listener, event: Event, report: (error: unknown) => void): void {
  try {
    const result = typeof listener === "function" ? listener.call(self, event) : listener.handleEvent(event);
    if (isInstance(result, Promise)) result.catch(report);
  } catch (error) {
    report(error);
  }
}

function define(target: object, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, writable: true, configurable: true });
}
