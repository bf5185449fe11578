// All operations of a run in one table, with a search.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { useKeys } from "../ui/keys.ts";
import { Details } from "./Details.tsx";
import type { ViewProps } from "./HistoryViews.tsx";
import type { RunModel } from "./model.ts";
import { OperationsGrid } from "./OperationsGrid.tsx";
import { operationKey } from "./operationKeys.ts";

export function OperationsView({ run, execution, model }: ViewProps & { model: RunModel }) {
  const search = useSignal("");
  const input = useRef<HTMLInputElement>(null);
  useKeys((event) => {
    if (event.key === "/") input.current?.focus();
    else return operationKey(event.key, model);
    return true;
  });
  const selected = model.selectedOperation.value;
  return (
    <section>
      <div class="view-head">
        <h2>Operations</h2>
        <input
          ref={input}
          type="search"
          aria-label="Filter operations"
          placeholder="charge, failed …"
          value={search.value}
          onInput={({ currentTarget }) => {
            search.value = currentTarget.value;
          }}
        />
      </div>
      <div class={model.isDetailsOpen.value && selected !== undefined ? "split with-details" : "split"}>
        <OperationsGrid model={model} isWide search={search.value} />
        {model.isDetailsOpen.value && selected !== undefined && (
          <Details
            run={run}
            execution={execution}
            operation={selected}
            onClose={() => {
              model.isDetailsOpen.value = false;
            }}
          />
        )}
      </div>
    </section>
  );
}
