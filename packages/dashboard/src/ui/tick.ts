// A signal that changes once a second while the page is visible, for times like "2m ago".

import { signal } from "@preact/signals";

export const tick = signal(0);

setInterval(() => {
  if (document.visibilityState === "visible") tick.value++;
}, 1_000);
