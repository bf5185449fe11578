// Notices code of the user that ends the process: a workflow while it is replayed, a configuration while it is loaded.
// Owns: `process.exit` and `process.abort`, while `endsDuring` runs.
// Invariants: the process goes on, and what was called is reported; both functions are put back afterwards.

export interface Ended<T> {
  readonly value: T | undefined;
  /** "process.exit(3)". */
  readonly ended: string | undefined;
  readonly thrown: unknown;
}

export async function endsDuring<T>(work: () => Promise<T>): Promise<Ended<T>> {
  let ended: string | undefined;
  const { exit, abort } = process;
  const note = (call: string): never => {
    ended ??= call;
    throw new Error(`The code calls ${call}.`);
  };
  process.exit = (code?: unknown) => note(`process.exit(${code === undefined ? "" : String(code)})`);
  process.abort = () => note("process.abort()");
  try {
    return { value: await work(), ended, thrown: undefined };
  } catch (thrown) {
    return { value: undefined, ended, thrown };
  } finally {
    process.exit = exit;
    process.abort = abort;
  }
}
