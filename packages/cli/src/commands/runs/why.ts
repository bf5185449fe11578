// `holdfast runs why`
// Owns: how reasons are shown.
// Invariants: the nearest reason comes first.

import { statusText } from "../../terminal/colours.ts";
import { printable } from "../../terminal/escape.ts";
import { relative } from "../../terminal/times.ts";
import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";
import { textOf } from "./list.ts";

export async function explainRun(session: Session, [id]: readonly [string]): Promise<number> {
  const client = await session.reader();
  const found = await client.call("runs.why", { params: { id } });
  const { status, reasons } = found;
  session.show({
    json: found,
    lines: reasons,
    human: () => [
      `${printable(id)} is ${statusText(status, session.colours)}`,
      ...reasons.flatMap(({ kind, text, advice, since, location }) => [
        `  ${session.colours.bold(kind)}${location === null ? "" : ` at ${printable(location)}`}${since === null ? "" : `, since ${relative(since, session.now)}`}`,
        `    ${printable(textOf(text))}`,
        ...(advice === "" ? [] : [`    ${session.colours.dim(printable(advice))}`]),
      ]),
    ],
  });
  return EXIT.ok;
}
