// The world around a command: where it writes, what it reads, and when it is interrupted.
// Owns: the type, so that tests call commands in their own process.
// Invariants: commands reach the process only through this.

export interface Io {
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
  readonly stdin: AsyncIterable<string | Uint8Array>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly isTTY: { readonly stdin: boolean; readonly stdout: boolean; readonly stderr: boolean };
  /** The width of the terminal. Undefined: lines may be of any length. */
  readonly columns: number | undefined;
  /** Aborts when the process is asked to end; its reason is an `Interruption`. */
  readonly signal: AbortSignal;
}

/** The process was asked to end. */
export class Interruption extends Error {
  readonly signal: "SIGINT" | "SIGTERM";
  constructor(signal: "SIGINT" | "SIGTERM") {
    super(`Interrupted by ${signal}.`);
    this.name = "Interruption";
    this.signal = signal;
  }
}
