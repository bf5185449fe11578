// Hides the unhandled rejections of workflow code from the process.
// Owns: the wrapper around an emitter's `emit`, and the set of withheld promises. The caller passes the emitter (usually `process`).
// Invariants: X11 (a rejection of workflow code neither ends the process nor reaches a listener, whatever the order of listeners and the
// value of `--unhandled-rejections`; all other rejections pass unchanged; nothing stays patched once the last filter is removed).
//
// A listener can't do this: it can't stop other listeners, and its presence alone changes how Node treats all rejections. So a host
// filters what the process emits. It decides by `isDeliveredError`, and by the time of the rejection if it runs each turn in a separate
// macrotask:
//
//   const stop = withholdRejections(process, { isOurs: (reason) => isTurn || isDeliveredError(reason) });
//
// and calls `stop` some milliseconds after its last run has ended, because Node reports late-handled rejections only when it is idle.

/** Which unhandled rejections of the process are withheld. */
export interface RejectionFilter {
  /** Whether the rejection belongs to workflow code. `promise` is absent in Node's first event under `--unhandled-rejections=strict`. */
  isOurs(reason: unknown, promise: Promise<unknown> | undefined): boolean;
  /** Called when code handles a withheld promise after all. */
  onHandled?(promise: Promise<unknown>): void;
}

type Emit = (this: unknown, event: string | symbol, ...args: unknown[]) => boolean;
interface Emitter {
  emit: Emit;
}
interface Link {
  readonly filters: Set<RejectionFilter>;
  readonly withheld: WeakMap<Promise<unknown>, RejectionFilter>;
  readonly probe: symbol;
  /** The last installed wrapper. Other code may have wrapped it since. */
  wrapper: Emit | undefined;
  original: PropertyDescriptor | undefined;
}

const links = new WeakMap<object, Link>();

/** Stops `emitter` from emitting rejections for which the filter returns true, until the returned function is called. */
export function withholdRejections(emitter: object, filter: RejectionFilter): () => void {
  const link = links.get(emitter) ?? createLink();
  links.set(emitter, link);
  const own: RejectionFilter = { isOurs: (...args) => filter.isOurs(...args), onHandled: (promise) => filter.onHandled?.(promise) };
  link.filters.add(own);
  // Probes `emit` itself, because other code may have wrapped it or restored an older version.
  if (!(emitter as Emitter).emit(link.probe)) wrap(emitter as Emitter, link);
  return () => {
    link.filters.delete(own);
    if (link.filters.size === 0) unwrap(emitter as Emitter, link);
  };
}

function createLink(): Link {
  return { filters: new Set(), withheld: new WeakMap(), probe: Symbol("holdfast"), wrapper: undefined, original: undefined };
}

function wrap(emitter: Emitter, link: Link): void {
  const { emit } = emitter;
  const wrapper: Emit = function (event, ...args) {
    if (event === link.probe) return true;
    return isWithheld(link, event, args) || Reflect.apply(emit, this, [event, ...args]);
  };
  link.original = Object.getOwnPropertyDescriptor(emitter, "emit");
  link.wrapper = wrapper;
  Object.defineProperty(emitter, "emit", { value: wrapper, configurable: true, writable: true, enumerable: false });
}
/** Restores `emit` only if it is still our wrapper. Under another wrapper ours stays, without filters. */
function unwrap(emitter: Emitter, link: Link): void {
  if (emitter.emit !== link.wrapper) return;
  if (link.original === undefined) Reflect.deleteProperty(emitter, "emit");
  else Object.defineProperty(emitter, "emit", link.original);
}

function isWithheld(link: Link, event: string | symbol, [first, second]: readonly unknown[]): boolean {
  if (event === "unhandledRejection") return withhold(link, first, second as Promise<unknown>);
  if (event === "rejectionHandled") return tellHandled(link, first as Promise<unknown>);
  // In strict mode Node emits these events first.
  const isException = event === "uncaughtException" || event === "uncaughtExceptionMonitor";
  return isException && second === "unhandledRejection" && withhold(link, first, undefined);
}
function withhold(link: Link, reason: unknown, promise: Promise<unknown> | undefined): boolean {
  for (const filter of link.filters) {
    if (!filter.isOurs(reason, promise)) continue;
    if (promise !== undefined) link.withheld.set(promise, filter);
    return true;
  }
  return false;
}
function tellHandled({ withheld }: Link, promise: Promise<unknown>): boolean {
  const filter = withheld.get(promise);
  filter?.onHandled?.(promise);
  return filter !== undefined;
}
