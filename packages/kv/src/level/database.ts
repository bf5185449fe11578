// The part of LevelDB's interface that is used here: bytes in, bytes out.
// Owns: nothing.
// Invariants: none.

import type { ClassicLevel } from "classic-level";

export type Database = ClassicLevel<Uint8Array, Uint8Array>;

interface Range {
  readonly gte: Uint8Array;
  readonly lt?: Uint8Array;
  readonly reverse?: boolean;
  readonly limit?: number;
}
/** The part of a sublevel's interface that is used here. */
export interface Sublevel {
  get(key: Uint8Array): Promise<Uint8Array | undefined>;
  iterator(range?: Range): { all(): Promise<[key: Uint8Array, value: Uint8Array][]> };
  keys(range: Range): { all(): Promise<Uint8Array[]> };
}

const BYTES = { keyEncoding: "view", valueEncoding: "view" } as const;

export function sublevelOf(database: Database, path: string[]): Sublevel {
  return database.sublevel<Uint8Array, Uint8Array>(path, BYTES);
}
