// Errors in how a command was called or configured.
// Owns: their exit code.
// Invariants: the message says which key, file or flag, and what to do; it has no secrets in it.

export class UsageError extends Error {
  readonly code: string;
  readonly exitCode = 2;
  constructor(message: string, options: { code?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "UsageError";
    this.code = options.code ?? "HF_USAGE";
  }
}
