// Locations as text, and back.

import { expect, test } from "vitest";
import { formatLocation, parseLocation } from "../../src/index.ts";

test("X3: a location names its unit, its name and its occurrence, whatever characters the name has", () => {
  for (const unit of ["", "checkout", "checkout/~3", "loop#2/~h1"])
    for (const name of ["charge", "a/b", "a#1", "~3", "%2F", "100% #/~", "é 😀"])
      for (const n of [0, 1, 12]) expect(parseLocation(formatLocation(unit, name, n))).toEqual({ unit, name, n });
});
