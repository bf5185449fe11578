// How commands that run until they are asked to end do end.
// Owns: their exit codes.
// Invariants: SIGTERM is 0, SIGINT is 130. A second signal ends the process at once, before this gets to run.

import { isConsole } from "../../config/url.ts";
import { Interruption } from "../../terminal/io.ts";
import { EXIT, unsupported } from "../failures.ts";

/** Resolves with the exit code when the process is asked to end. */
export function asked(signal: AbortSignal): Promise<number> {
  const code = () => (signal.reason instanceof Interruption && signal.reason.signal === "SIGTERM" ? EXIT.ok : EXIT.interrupted);
  if (signal.aborted) return Promise.resolve(code());
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(code()), { once: true }));
}

/** Commands with a process for the code need a store that several processes can open. */
export function needsStore(command: string, url: string): void {
  if (isConsole(url))
    throw unsupported(
      `\`holdfast ${command}\` needs the url of a store, not the address of a dashboard.`,
      "Pass --url file:… or postgres://…",
    );
  if (url === "memory:")
    throw unsupported(
      `\`holdfast ${command}\` can't use "memory:": the code runs in another process, which would not see it.`,
      "Use a file: --url file:./app.db",
    );
}
