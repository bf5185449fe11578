// The buttons of a run, and the dialogs behind them.

import { useSignal } from "@preact/signals";
import { call } from "../api/call.ts";
import { may } from "../api/session.ts";
import type { RunInfo } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";
import { isOpen } from "../base/statuses.ts";
import { MessageDialog, type MessageKind } from "../forms/MessageDialog.tsx";
import { useSending } from "../forms/send.ts";
import { Dialog, ErrorText } from "../ui/Dialog.tsx";
import { Copy } from "../ui/parts.tsx";
import { navigate, runPath } from "../ui/router.tsx";

type Asked = "cancel" | "terminate" | "delete";
type Shown = MessageKind | Asked | "fork";

export function Actions({ run, forkBefore, onChanged }: { run: RunInfo; forkBefore: string; onChanged: () => void }) {
  const shown = useSignal<Shown | undefined>(undefined);
  const said = useSignal("");
  const resuming = useSending();
  const close = (): void => {
    shown.value = undefined;
  };
  const done = (text: string): void => {
    close();
    said.value = text;
    onChanged();
  };
  const open = isOpen(run.status);
  const button = (label: string, what: Shown, isEnabled: boolean, name = "") => (
    <button
      type="button"
      class={name}
      disabled={!isEnabled}
      onClick={() => {
        said.value = "";
        shown.value = what;
      }}
    >
      {label}
    </button>
  );
  const resume = (): void =>
    resuming.send(async () => {
      await call("POST", `runs/${encodeSegment(run.id)}/resume`);
      done("The run was resumed.");
    });
  const isResumable = run.status === "failed" || run.status === "blocked" || run.status === "sleeping";
  return (
    <>
      <div class="actions">
        {button("Signal", "signal", open && may("operate"))}
        {button("Update", "update", open && may("operate"))}
        {button("Query", "query", may("read"))}
        {button("Cancel", "cancel", open && may("operate"))}
        {button("Terminate", "terminate", open && may("admin"), "danger")}
        <button type="button" disabled={!isResumable || !may("operate") || resuming.isBusy.value} onClick={resume}>
          Resume
        </button>
        {button("Fork", "fork", may("admin"))}
        {!open && button("Delete", "delete", may("admin"), "danger")}
        <Copy label="Copy" text={run.id} />
      </div>
      {said.value !== "" && (
        <p class="said" role="status">
          {said.value}
        </p>
      )}
      <ErrorText error={resuming.error.value} />
      {(shown.value === "signal" || shown.value === "update" || shown.value === "query") && (
        <MessageDialog kind={shown.value} run={run} onClose={close} onSent={done} />
      )}
      {(shown.value === "cancel" || shown.value === "terminate" || shown.value === "delete") && (
        <AskDialog what={shown.value} run={run} onClose={close} onDone={done} />
      )}
      {shown.value === "fork" && <ForkDialog run={run} before={forkBefore} onClose={close} />}
    </>
  );
}

const ASKED = {
  cancel: { title: "Cancel run", text: "The workflow is told to stop, and can still clean up.", done: "Cancellation was requested." },
  terminate: {
    title: "Terminate run",
    text: "The run ends at once: no code of it runs, nothing is rolled back.",
    done: "The run was terminated.",
  },
  delete: { title: "Delete run", text: "The run and its history are removed.", done: "" },
} as const;

function AskDialog({ what, run, onClose, onDone }: { what: Asked; run: RunInfo; onClose: () => void; onDone: (text: string) => void }) {
  const reason = useSignal("");
  const sending = useSending();
  const { title, text, done } = ASKED[what];
  const submit = (event: Event): void => {
    event.preventDefault();
    sending.send(async () => {
      const path = `runs/${encodeSegment(run.id)}`;
      if (what === "delete") {
        await call("DELETE", path);
        navigate("runs");
        return;
      }
      await call("POST", `${path}/${what}`, reason.value === "" ? {} : { body: { reason: reason.value } });
      onDone(done);
    });
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit}>
        <p>
          <b>{run.id}</b>: {text}
        </p>
        {what !== "delete" && (
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
        <ErrorText error={sending.error.value} />
        <footer class="dialog-foot">
          <button type="submit" class="primary danger" disabled={sending.isBusy.value}>
            {title}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function ForkDialog({ run, before, onClose }: { run: RunInfo; before: string; onClose: () => void }) {
  const location = useSignal(before);
  const id = useSignal("");
  const sending = useSending();
  const submit = (event: Event): void => {
    event.preventDefault();
    sending.send(async () => {
      const body = { before: location.value, ...(id.value !== "" && { id: id.value }) };
      const started = await call<{ id: string }>("POST", `runs/${encodeSegment(run.id)}/fork`, { body });
      onClose();
      navigate(runPath(started.id));
    });
  };
  return (
    <Dialog title="Fork run" onClose={onClose}>
      <form onSubmit={submit}>
        <p>A new run with the history of this one up to an operation. From there on it runs the present code.</p>
        <label class="field">
          <span>Before</span>
          <input
            type="text"
            required
            class="mono"
            value={location.value}
            onInput={({ currentTarget }) => {
              location.value = currentTarget.value;
            }}
          />
        </label>
        <label class="field">
          <span>Run id</span>
          <input
            type="text"
            placeholder="Made up by the server"
            value={id.value}
            onInput={({ currentTarget }) => {
              id.value = currentTarget.value;
            }}
          />
        </label>
        <ErrorText error={sending.error.value} />
        <footer class="dialog-foot">
          <button type="submit" class="primary" disabled={sending.isBusy.value}>
            Fork run
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
