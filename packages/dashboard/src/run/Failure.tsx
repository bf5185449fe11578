// An error with its stack, its data and its causes.

import type { SerializedError } from "../api/types.ts";
import { isRedacted } from "../base/values.ts";
import { Text, Value } from "../ui/parts.tsx";

export function Failure({ error, title }: { error: SerializedError; title: string }) {
  const { name, message, stack, data } = error;
  // A cause has the same shape, or is hidden.
  const cause = error.cause as SerializedError | { readonly $redacted: number } | null;
  return (
    <section class="failure">
      <h4>{title}</h4>
      <p class="message">
        <b>{name}</b>: <Text text={message} />
      </p>
      {typeof stack === "string" && stack !== "" && (
        <details>
          <summary>Stack</summary>
          <pre class="value">
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
