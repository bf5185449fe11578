// Detects when the microtask queue is empty after a step.
// Owns: the batches of steps that wait for the same barrier, across runs.
// Invariants: X8 (a barrier fires after any chain of awaits and before any timer, I/O or immediate).

/**
 * Calls `done` once every microtask that is queued now, and all microtasks that those queue, have run. Hosts must start activations from a
 * new macrotask: if foreign code is still in the microtask queue, its continuations would look like code of the unit that has the turn.
 */
export type Barrier = (done: () => void) => void;

interface TickingRuntime {
  readonly process?: { nextTick?: (callback: () => void) => void };
  readonly MessageChannel?: new () => { port1: { onmessage: (() => void) | null }; port2: { postMessage(data: unknown): void } };
}

/**
 * One barrier for many runs. Steps that arm it before the microtask `collect` runs share a tick; later ones arm another tick, so that
 * no step ends too early by the tick of a previous one.
 */
function batched(afterMicrotasks: (fire: () => void) => void): Barrier {
  let waiting: (() => void)[] = [];
  const batches: (() => void)[][] = [];
  const fire = () => {
    const batch = batches.shift();
    if (batch !== undefined) for (const done of batch) done();
  };
  const collect = () => {
    batches.push(waiting);
    waiting = [];
    afterMicrotasks(fire);
  };
  return (done) => {
    if (waiting.push(done) === 1) queueMicrotask(collect);
  };
}

/** Uses `process.nextTick` if it exists (Node, Bun, Deno): it runs when the microtask queue is empty. Otherwise a macrotask. */
export function createBarrier(runtime: TickingRuntime = globalThis as TickingRuntime): Barrier {
  const nextTick = runtime.process?.nextTick;
  if (nextTick !== undefined) {
    const process = runtime.process;
    return batched((fire) => nextTick.call(process, fire));
  }
  const Channel = runtime.MessageChannel;
  if (Channel === undefined) throw new TypeError("This runtime has neither process.nextTick nor MessageChannel: pass your own `barrier`.");
  const fires: (() => void)[] = [];
  const channel = new Channel();
  channel.port1.onmessage = () => fires.shift()?.();
  return batched((fire) => {
    fires.push(fire);
    channel.port2.postMessage(0);
  });
}

/**
 * Calls `act` and reports the errors of callbacks that it passes to `process.nextTick`: Node rethrows the error of an event listener in
 * such a callback, which makes it an uncaught exception.
 */
export function reportTicks(act: () => void, report: (error: unknown) => void): void {
  const { process } = globalThis as { process?: { nextTick?: (callback: (...args: unknown[]) => void, ...args: unknown[]) => void } };
  const nextTick = process?.nextTick;
  if (process === undefined || nextTick === undefined) return act();
  process.nextTick = (callback, ...args) =>
    nextTick.call(process, () => {
      try {
        callback(...args);
      } catch (error) {
        report(error);
      }
    });
  try {
    act();
  } finally {
    process.nextTick = nextTick;
  }
}

let shared: Barrier | undefined;
/** The default barrier, which all executors share. */
export function sharedBarrier(): Barrier {
  shared ??= createBarrier();
  return shared;
}
