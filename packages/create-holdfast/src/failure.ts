// Errors of this command.
// Owns: their codes and exit codes, which are those of the command `holdfast`.
// Invariants: the message says what is wrong and what to do.

export const EXIT = { ok: 0, failed: 1, usage: 2, refused: 4, interrupted: 130 } as const;

export class CreateFailure extends Error {
  readonly code: "HF_USAGE" | "HF_FILE_EXISTS" | "HF_INTERRUPTED";
  readonly exitCode: number;
  constructor(message: string, { code, cause }: { readonly code: CreateFailure["code"]; readonly cause?: unknown }) {
    super(message, { cause });
    this.name = "CreateFailure";
    this.code = code;
    this.exitCode = code === "HF_USAGE" ? EXIT.usage : code === "HF_FILE_EXISTS" ? EXIT.refused : EXIT.interrupted;
  }
}
