// Keeps the rejections of workflow code from the process around it.
// Owns: the wrapper of an emitter's `emit`, and which promises were withheld. The emitter is the caller's: `process`, where there is one.
// Invariants: X11 (a rejection that is a workflow's ends nothing and reaches no listener, whoever listened first and whatever
// `--unhandled-rejections` says of ending the process; all others go on unchanged, and nothing is patched once the last filter is gone).
//
// A listener can't do this: it can't stop those beside it, and its presence alone changes what Node does with everybody's rejections.
// So a host filters what the process emits. It decides by `isDeliveredError`, and by when a rejection comes, if it gives turns a
// macrotask of their own:
//
//   const stop = withholdRejections(process, { isOurs: (reason) => isTurn || isDeliveredError(reason) });
//
// and calls `stop` some milliseconds after its last run has ended: Node reports rejections that were handled late only when it is idle.

export interface RejectionFilter {
  /** Is it a workflow's? `promise` is absent where Node asks before it says which (`--unhandled-rejections=strict`). */
  isOurs(reason: unknown, promise: Promise<unknown> | undefined): boolean;
  /** A promise that was withheld is awaited after all. */
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
  /** Put in place last: others may have wrapped it since. */
  wrapper: Emit | undefined;
  original: PropertyDescriptor | undefined;
}

const links = new WeakMap<object, Link>();

/** Until the function that it returns is called, `emitter` emits no rejection that the filter says is a workflow's. */
export function withholdRejections(emitter: object, filter: RejectionFilter): () => void {
  const link = links.get(emitter) ?? createLink();
  links.set(emitter, link);
  const own: RejectionFilter = { isOurs: (...args) => filter.isOurs(...args), onHandled: (promise) => filter.onHandled?.(promise) };
  link.filters.add(own);
  // Asked of `emit` itself: others may have wrapped it, or put back what was there before.
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
/** Only what is still ours is taken back; beneath the wrapper of others it stays, and withholds nothing. */
function unwrap(emitter: Emitter, link: Link): void {
  if (emitter.emit !== link.wrapper) return;
  if (link.original === undefined) Reflect.deleteProperty(emitter, "emit");
  else Object.defineProperty(emitter, "emit", link.original);
}

function isWithheld(link: Link, event: string | symbol, [first, second]: readonly unknown[]): boolean {
  if (event === "unhandledRejection") return withhold(link, first, second as Promise<unknown>);
  if (event === "rejectionHandled") return tellHandled(link, first as Promise<unknown>);
  // In strict mode Node asks these first.
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
