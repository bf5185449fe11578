// Packages that are installed only where they are needed.
// Owns: what people are told when one is missing.
// Invariants: the error names the install command; any other failure to load is passed on as it is.

import { InvalidInputError } from "@holdfast/core";

/** `what` needs it: "Engines on PostgreSQL". */
export async function optionalPackage<T>(name: string, what: string): Promise<T> {
  try {
    return (await import(name)) as T; // by a variable: neither a bundler nor the compiler should look for it
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    // A package that it needs in turn may be missing, too: then the error says so by itself.
    if (code !== "ERR_MODULE_NOT_FOUND" || !message.includes(`'${name}'`)) throw cause;
    const advice = `${what} need a package that is not installed: run "npm install ${name}".`;
    // biome-ignore lint/style/useErrorCause: the message says all that the cause does
    throw new InvalidInputError({ what: "Holdfast.open", issues: [{ message: advice }] });
  }
}
