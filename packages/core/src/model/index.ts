// The entry point of model/: everything that users write definitions and workflow code with.
// Owns: nothing; it only re-exports.
// Invariants: N (what each context offers); names and shapes are those of the public surface.
export * from "./activity.ts";
export * from "./context.ts";
export * from "./loop.ts";
export * from "./messages.ts";
export * from "./receive.ts";
export * from "./run.ts";
export * from "./scopes.ts";
export * from "./startOptions.ts";
export * from "./unitContext.ts";
export * from "./workflow.ts";
