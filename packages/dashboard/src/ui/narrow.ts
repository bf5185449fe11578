// Whether the window has room for few columns only, as on a phone. Then what a column has is below the name of its row instead.

import { signal } from "@preact/signals";

/** As in parts.css. */
const query = matchMedia("(max-width: 760px)");

export const isNarrow = signal(query.matches);

query.addEventListener("change", () => {
  isNarrow.value = query.matches;
});
