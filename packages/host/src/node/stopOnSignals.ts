// `stopOn`: process signals that stop workers gracefully and then end the process.
// Owns: the signal listeners of this process, and which workers each signal stops.
// Invariants: W4 (the process exits with 0 once all these workers have stopped; a second signal of either kind exits at once).

import type { Logger } from "@holdfast/core";

type StopSignal = "SIGTERM" | "SIGINT";
const EXIT_CODES: Readonly<Record<StopSignal, number>> = { SIGINT: 130, SIGTERM: 143 };

interface Stoppable {
  stop(): Promise<void>;
}
/** Closed once its workers have stopped. */
interface Closable {
  readonly logger: Logger;
  close(): Promise<void>;
}

const listening = new Map<StopSignal, Map<Stoppable, Closable>>();
let stopping = false;

/**
 * On these signals stops the worker gracefully, closes its engine, and exits the process: with 0, or with 1 if that failed. A second signal
 * exits at once.
 */
export function stopOnSignals(signals: readonly StopSignal[], worker: Stoppable, engine: Closable): void {
  for (const signal of signals) {
    let workers = listening.get(signal);
    if (workers === undefined) {
      workers = new Map();
      listening.set(signal, workers);
      process.on(signal, onSignal);
    }
    workers.set(worker, engine);
  }
}

/** Forgets a worker that has stopped by itself. The listeners are removed with the last worker. */
export function forgetSignals(worker: Stoppable): void {
  if (stopping) return;
  for (const [signal, workers] of listening) {
    if (!workers.delete(worker) || workers.size > 0) continue;
    listening.delete(signal);
    process.removeListener(signal, onSignal);
  }
}

function onSignal(signal: NodeJS.Signals): void {
  const asked = signal as StopSignal;
  if (stopping) process.exit(EXIT_CODES[asked]);
  stopping = true;
  void stopAll(listening.get(asked) ?? new Map()).then((isClean) => process.exit(isClean ? 0 : 1));
}

async function stopAll(workers: ReadonlyMap<Stoppable, Closable>): Promise<boolean> {
  const ends = await Promise.allSettled([...workers.keys()].map((worker) => worker.stop()));
  const closed = await Promise.allSettled([...new Set(workers.values())].map((engine) => engine.close()));
  const failures = [...ends, ...closed].filter((end) => end.status === "rejected");
  const [logger] = [...workers.values()].map((engine) => engine.logger);
  for (const { reason } of failures) logger?.error("The worker could not stop cleanly.", { error: reason });
  return failures.length === 0;
}
