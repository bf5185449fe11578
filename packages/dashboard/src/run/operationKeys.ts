// Keys that move among operations and turns. Whether the key was one of them.

import type { RunModel } from "./model.ts";

export function operationKey(key: string, model: RunModel): boolean {
  switch (key) {
    case "j":
      model.step(1);
      return true;
    case "k":
      model.step(-1);
      return true;
    case "f":
      model.nextFailure();
      return true;
    case "[":
      model.stepTurn(-1);
      return true;
    case "]":
      model.stepTurn(1);
      return true;
    case "Enter":
      // A button or a link that has the focus acts instead.
      if (document.activeElement?.matches("button, a, summary") === true) return false;
      model.openDetails();
      return true;
    case "Escape":
      model.isDetailsOpen.value = false;
      return true;
    default:
      return false;
  }
}
