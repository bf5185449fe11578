// Why a run is blocked, with code and history side by side.

import type { RunInfo, SerializedError } from "../api/types.ts";
import { Copy, Text } from "../ui/parts.tsx";
import { blockedTitle, differenceOf, placeInStack, placeText, remediesOf } from "./blocked.ts";
import { useSource } from "./source.ts";

export function Blocked({ run }: { run: RunInfo }) {
  const { error } = run;
  if (run.status !== "blocked" || error === null) return null;
  const difference = differenceOf(error);
  return (
    <section class="blocked" role="alert">
      <h2>{blockedTitle(error)}</h2>
      {difference === undefined ? (
        <p class="message">
          <Text text={error.message} />
        </p>
      ) : (
        <>
          <table class="difference" aria-label="Difference">
            <thead>
              <tr>
                <td />
                <th scope="col">History</th>
                <th scope="col">Code</th>
              </tr>
            </thead>
            <tbody>
              <tr>
                <th scope="row">{difference.field}</th>
                <td class="removed">{difference.history}</td>
                <td class="added">{difference.code}</td>
              </tr>
              <Source run={run} stack={error.stack} />
            </tbody>
          </table>
          <div class="remedies">
            {remediesOf(difference).map(({ label, explanation, text }) => (
              <div key={label} class="remedy">
                <p>{explanation}</p>
                <pre>{text}</pre>
                <Copy label={`Copy ${label}`} text={text} />
              </div>
            ))}
          </div>
        </>
      )}
      <Advice error={error} />
    </section>
  );
}

/** Where the code differs: asked of the code of this server, otherwise as the worker that met it has said. */
function Source({ run, stack }: { run: RunInfo; stack: unknown }) {
  const asked = useSource(run.id, run.execution, undefined);
  const source = asked === null ? placeInStack(stack) : asked;
  if (source === undefined) return null;
  return (
    <tr>
      <th scope="row">source</th>
      <td />
      <td class="added">{placeText(source)}</td>
    </tr>
  );
}

/** The last lines of the message say what to do. */
function Advice({ error: { message } }: { error: SerializedError }) {
  if (typeof message !== "string") return null;
  const lines = message.split("\n").filter((line, i) => i > 0 && !/^[-+] (expected|actual)/.test(line));
  return lines.length === 0 ? null : (
    <p class="muted">
      <Text text={lines.join(" ")} />
    </p>
  );
}
