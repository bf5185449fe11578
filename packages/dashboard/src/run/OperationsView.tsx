// All operations of a run in one table, with a search.

import { useSignal } from "@preact/signals";
import { useKeys } from "../ui/keys.ts";
import { Details } from "./Details.tsx";
import type { ViewProps } from "./HistoryViews.tsx";
import type { RunModel } from "./model.ts";
import { OperationSearch } from "./OperationSearch.tsx";
import { OperationsGrid } from "./OperationsGrid.tsx";
import { operationKey } from "./operationKeys.ts";

const COLUMNS = ["Operation", "", "Status", "Began", "Took", "Worker", "Error"] as const;

export function OperationsView({ run, execution, model }: ViewProps & { model: RunModel }) {
  const search = useSignal("");
  useKeys(({ key }) => operationKey(key, model));
  const selected = model.selectedOperation.value;
  return (
    <section>
      <div class="view-head">
        <h2>Operations</h2>
        <OperationSearch search={search} />
      </div>
      <div class={model.isDetailsOpen.value && selected !== undefined ? "split with-details" : "split"}>
        <div>
          <div class="grid-head" aria-hidden="true">
            {COLUMNS.map((name) => (
              <span key={name}>{name}</span>
            ))}
          </div>
          <OperationsGrid model={model} isWide search={search.value} />
        </div>
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
