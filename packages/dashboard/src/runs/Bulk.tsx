// Bulk actions: the menu, the preview that asks, the progress.
// Invariants: nothing is done before the user has seen how many runs it concerns; runs that the action can't apply to are not counted.

import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, now } from "../api/call.ts";
import type { BulkPreview } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";
import { nameOfStatus, OPEN_STATUSES, type RunStatus } from "../base/statuses.ts";
import { plural } from "../base/times.ts";
import { Dialog, ErrorText } from "../ui/Dialog.tsx";
import { Menu } from "../ui/Menu.tsx";
import { Status, Text } from "../ui/parts.tsx";
import { RunLink } from "../ui/router.tsx";
import { bulkFilter, type Filter } from "./filter.ts";

export type Selection = { readonly kind: "ids"; readonly ids: readonly string[] } | { readonly kind: "all" };
type Action = "cancel" | "terminate" | "resume";

const WORDS: Readonly<Record<Action, string>> = { cancel: "Cancel", terminate: "Terminate", resume: "Resume" };
/** The runs that each action applies to. */
const APPLIES: Readonly<Record<Action, readonly RunStatus[]>> = {
  cancel: OPEN_STATUSES,
  terminate: OPEN_STATUSES,
  resume: ["failed", "blocked", "sleeping"],
};

export function BulkMenu({ selection, filter, onDone }: { selection: Signal<Selection>; filter: Filter; onDone: () => void }) {
  const action = useSignal<Action | undefined>(undefined);
  const isEmpty = selection.value.kind === "ids" && selection.value.ids.length === 0;
  const item = (what: Action) => ({
    label: WORDS[what],
    isDanger: what === "terminate",
    act: () => {
      action.value = what;
    },
  });
  return (
    <>
      <Menu label="Bulk actions" items={[item("cancel"), item("terminate"), item("resume")]} disabled={isEmpty} />
      {action.value !== undefined && (
        <BulkDialog
          action={action.value}
          selection={selection.value}
          filter={filter}
          onClose={() => {
            action.value = undefined;
            onDone();
          }}
          onStarted={() => {
            selection.value = { kind: "ids", ids: [] };
          }}
        />
      )}
    </>
  );
}

interface BulkResult {
  readonly matched: number;
  readonly done: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly failures: readonly { readonly id: string; readonly message: unknown }[];
  readonly status?: string;
}
interface BulkDialogProps {
  readonly action: Action;
  readonly selection: Selection;
  readonly filter: Filter;
  readonly onClose: () => void;
  readonly onStarted: () => void;
}

/** The selection is that of the moment at which the dialog opened. */
function BulkDialog({ action, selection, filter, onClose, onStarted }: BulkDialogProps) {
  const preview = useSignal<BulkPreview | undefined>(undefined);
  const result = useSignal<BulkResult | undefined>(undefined);
  const error = useSignal<Error | undefined>(undefined);
  const isBusy = useSignal(false);
  const reason = useSignal("");
  useEffect(() => {
    let isGone = false;
    const which = selection.kind === "ids" ? { ids: selection.ids } : { filter: bulkFilter(filter, APPLIES[action], now()) };
    call<BulkPreview>("POST", "bulk/preview", { body: { action: { do: action }, ...which } }).then(
      (found) => {
        if (!isGone) preview.value = found;
      },
      (thrown: Error) => {
        error.value = thrown;
      },
    );
    return () => {
      isGone = true;
    };
  }, []);
  const start = async (token: string): Promise<void> => {
    isBusy.value = true;
    error.value = undefined;
    try {
      const body = reason.value === "" ? { token } : { token, reason: reason.value };
      const answer = await call<{ id: string } | BulkResult>("POST", "bulk", { body });
      onStarted();
      if ("id" in answer) await progress(answer.id, result);
      else result.value = answer;
    } catch (thrown) {
      error.value = thrown as Error;
    }
    isBusy.value = false;
  };
  const found = preview.value;
  const count = found === undefined ? 0 : applicable(found, action);
  return (
    <Dialog title="Confirm bulk action" onClose={onClose}>
      {found === undefined && error.value === undefined && <p class="muted">Counting the runs…</p>}
      {found !== undefined && result.value === undefined && <Preview preview={found} action={action} count={count} />}
      {found !== undefined && result.value === undefined && action !== "resume" && (
        <label class="field">
          <span>Reason</span>
          <input
            type="text"
            value={reason.value}
            onInput={({ currentTarget }) => {
              reason.value = currentTarget.value;
            }}
          />
        </label>
      )}
      {result.value !== undefined && <Progress result={result.value} isBusy={isBusy.value} />}
      <ErrorText error={error.value} />
      <footer class="dialog-foot">
        {result.value === undefined && found !== undefined && (
          <button
            type="button"
            class={action === "resume" ? "primary" : "primary danger"}
            disabled={isBusy.value || count === 0}
            onClick={() => void start(found.token)}
          >
            {`${WORDS[action]} ${count.toLocaleString("en-US")}${found.capped ? "+" : ""} ${count === 1 ? "run" : "runs"}`}
          </button>
        )}
      </footer>
    </Dialog>
  );
}

/** Closed runs can't be canceled, terminated or woken: the server skips them, and they are not counted. */
function applicable({ byStatus }: BulkPreview, action: Action): number {
  return APPLIES[action].reduce((sum, status) => sum + (byStatus[status] ?? 0), 0);
}

function Preview({ preview, action, count }: { preview: BulkPreview; action: Action; count: number }) {
  const applies: ReadonlySet<string> = new Set(APPLIES[action]);
  const skipped = Object.entries(preview.byStatus).filter(([status, n]) => n > 0 && !applies.has(status));
  return (
    <>
      <ul class="counts">
        {Object.entries(preview.byWorkflow).map(([workflow, n]) => (
          <li key={workflow}>
            {workflow}: {n.toLocaleString("en-US")}
          </li>
        ))}
      </ul>
      {skipped.length > 0 && (
        <p class="muted">
          Left as they are: {skipped.map(([status, n]) => `${n.toLocaleString("en-US")} ${nameOfStatus(status)}`).join(", ")}.
        </p>
      )}
      {count > 0 && (
        <ul class="sample" aria-label="Examples">
          {preview.sample
            .filter(({ status }) => applies.has(status))
            .map(({ id, status }) => (
              <li key={id}>
                <Status status={status} /> <RunLink id={id} />
              </li>
            ))}
        </ul>
      )}
      {count === 0 && <p>There is no run that this applies to.</p>}
    </>
  );
}

const POLL_MS = 300;
async function progress(id: string, result: Signal<BulkResult | undefined>): Promise<void> {
  for (;;) {
    const found = await call<BulkResult>("GET", `bulk/${encodeSegment(id)}`);
    result.value = found;
    if (found.status === "completed" || found.status === "failed" || found.status === "canceled" || found.status === "terminated") return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function Progress({ result, isBusy }: { result: BulkResult; isBusy: boolean }) {
  const { matched, done, succeeded, failed, failures } = result;
  return (
    <>
      <p role="status">
        {isBusy ? `${done.toLocaleString("en-US")} of ${plural(matched, "run")}` : `Done: ${plural(succeeded, "run")}`}
        {failed > 0 && `, ${failed.toLocaleString("en-US")} failed`}
      </p>
      <progress max={Math.max(1, matched)} value={done} aria-label="Progress" />
      {failures.length > 0 && (
        <ul class="sample" aria-label="Failures">
          {failures.slice(0, 10).map(({ id, message }) => (
            <li key={id}>
              <RunLink id={id} /> <Text text={message} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
