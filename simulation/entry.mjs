// The entry point of the simulation's bundle.

export * from "@holdfast/simulation";
