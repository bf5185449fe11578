// `holdfast runs state`
// Owns: nothing.
// Invariants: it prints the value itself; null if there is none.

import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";

export async function printState(session: Session, [id]: readonly [string]): Promise<number> {
  const client = await session.reader();
  session.value(await client.call("runs.state", { params: { id } }));
  return EXIT.ok;
}
