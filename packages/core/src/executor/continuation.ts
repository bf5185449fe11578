// The token that `ctx.continueAsNew(input)` returns; it has an effect only if the root returns it.
// Owns: the token.
// Invariants: P10 (a token that is not returned is an IllegalReturnError).

import type { ContinueAsNew } from "../model/index.ts";

export class ContinueAsNewToken implements ContinueAsNew {
  readonly continueAsNew: unknown;
  readonly version: string | undefined;
  constructor(input: unknown, version: string | undefined) {
    this.continueAsNew = input;
    this.version = version;
  }
}
