// What the bundle of the simulation has in it.

export * from "@holdfast/simulation";
