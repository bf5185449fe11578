// Tells when the microtasks of a step have run out.
// Owns: the batch of steps that wait for the same barrier, whatever run they belong to.
// Invariants: X8 (a barrier fires after any chain of awaits and before any timer, I/O or immediate).

/**
 * Calls `done` once every microtask that is queued now, and all that those queue, has run. Hosts begin activations from a fresh
 * macrotask: in a drain that foreign code has begun, a foreign continuation would pass as in turn.
 */
export type Barrier = (done: () => void) => void;

interface TickingRuntime {
  readonly process?: { nextTick?: (callback: () => void) => void };
  readonly MessageChannel?: new () => { port1: { onmessage: (() => void) | null }; port2: { postMessage(data: unknown): void } };
}

/**
 * One barrier for many runs. What is armed before the microtask `collect` runs shares its tick; what comes later arms another, so
 * that no step is cut short by the tick of an earlier one.
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

/** `process.nextTick` where there is one (Node, Bun, Deno): it runs when the microtask queue is empty. Else a macrotask. */
export function createBarrier(runtime: TickingRuntime = globalThis as TickingRuntime): Barrier {
  const nextTick = runtime.process?.nextTick;
  if (nextTick !== undefined) {
    const process = runtime.process;
    return batched((fire) => nextTick.call(process, fire));
  }
  const Channel = runtime.MessageChannel;
  if (Channel === undefined)
    throw new TypeError("This runtime has neither process.nextTick nor MessageChannel: pass a `barrier` of your own.");
  const fires: (() => void)[] = [];
  const channel = new Channel();
  channel.port1.onmessage = () => fires.shift()?.();
  return batched((fire) => {
    fires.push(fire);
    channel.port2.postMessage(0);
  });
}

/**
 * Calls `act`. What callbacks throw that it gives to `process.nextTick` goes to `report`: that is how Node makes an uncaught exception of
 * what a listener of an event has thrown.
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
/** The barrier that executors share unless they are given another. */
export function sharedBarrier(): Barrier {
  shared ??= createBarrier();
  return shared;
}
