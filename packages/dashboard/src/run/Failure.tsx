// An error with its stack, its data and its causes.

import type { SerializedError } from "../api/types.ts";
import { isRedacted, visible } from "../base/values.ts";
import { Text, Value } from "../ui/parts.tsx";

/** Of an error of Holdfast the lines after the first say what to do. */
function partsOf({ code, message }: SerializedError): { readonly what: unknown; readonly advice: string } {
  const at = typeof message === "string" && code?.startsWith("HF_") === true ? message.indexOf("\n") : -1;
  return typeof message === "string" && at >= 0
    ? { what: message.slice(0, at), advice: message.slice(at + 1) }
    : { what: message, advice: "" };
}

export function Failure({ error, title }: { error: SerializedError; title: string }) {
  const { name, stack, data } = error;
  const { what, advice } = partsOf(error);
  // A cause has the same shape, or is hidden.
  const cause = error.cause as SerializedError | { readonly $redacted: number } | null;
  return (
    <section class="failure">
      <h4>{title}</h4>
      <p class="message">
        <b>{visible(name)}</b>: <Text text={what} />
      </p>
      {advice !== "" && (
        <p class="advice">
          <Text text={advice} />
        </p>
      )}
      {typeof stack === "string" && stack !== "" && (
        <details>
          <summary>Stack</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
          <pre class="value" tabIndex={0} role="region" aria-label={`Stack of ${title}`}>
            <Text text={stack} />
          </pre>
        </details>
      )}
      {data !== null && data !== undefined && !isRedacted(data) && (
        <details>
          <summary>Data</summary>
          <Value value={data} label="Data" />
        </details>
      )}
      {cause !== null && cause !== undefined && "name" in cause && <Failure error={cause} title="Cause" />}
    </section>
  );
}
