// Packages that are installed only where they are needed.
// Owns: the error for a missing one.
// Invariants: the error names the install command; any other failure to load is passed on as it is.

import { InvalidInputError } from "@holdfast/core";

/** `what` needs it: "Engines on PostgreSQL". `call`: the function that the user has called. */
export async function optionalPackage<T>(name: string, what: string, call = "Holdfast.open"): Promise<T> {
  try {
    return (await import(name)) as T; // by a variable: neither a bundler nor the compiler should look for it
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    // A package that it needs may be missing: then the error says so.
    if (code !== "ERR_MODULE_NOT_FOUND" || !message.includes(`'${name}'`)) throw cause;
    const advice = `${what} need a package that is not installed: run "npm install ${name}".`;
    // biome-ignore lint/style/useErrorCause: the message says all that the cause does
    throw new InvalidInputError({ what: call, issues: [{ message: advice }] });
  }
}
