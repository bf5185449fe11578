// Sends a signal, an update or a query to a run.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call } from "../api/call.ts";
import type { RunInfo, WorkflowInfo } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";
import { preview } from "../base/values.ts";
import { Dialog, ErrorText } from "../ui/Dialog.tsx";
import { Value } from "../ui/parts.tsx";
import { InputForm } from "./InputForm.tsx";
import { NameField } from "./NameField.tsx";
import { useWorkflows } from "./StartDialog.tsx";
import { type JsonSchema, parseInput } from "./schema.ts";
import { useSending } from "./send.ts";

export type MessageKind = "signal" | "update" | "query";
const KINDS = {
  signal: { title: "Send signal", path: "signals" },
  update: { title: "Send update", path: "updates" },
  query: { title: "Run query", path: "queries" },
} as const;

export function MessageDialog({
  kind,
  run,
  onClose,
  onSent,
}: {
  kind: MessageKind;
  run: RunInfo;
  onClose: () => void;
  onSent: (text: string) => void;
}) {
  const workflows = useWorkflows();
  const name = useSignal("");
  const text = useSignal("");
  const answer = useSignal<{ value: unknown } | undefined>(undefined);
  const sending = useSending();
  const schemas = messagesOf(definitionOf(workflows.data.value ?? [], run), kind);
  const names = Object.keys(schemas);
  useEffect(() => {
    if (name.value === "" && names[0] !== undefined) name.value = names[0];
  }, [names.length]);
  const submit = (event: Event): void => {
    event.preventDefault();
    const input = parseInput(text.value);
    if (!input.ok || name.value === "") return;
    sending.send(async () => {
      answer.value = undefined;
      const path = `runs/${encodeSegment(run.id)}/${KINDS[kind].path}/${encodeSegment(name.value)}`;
      const key = kind === "query" ? {} : { idempotencyKey: sending.idempotencyKey };
      const value = await call<unknown>("POST", path, { body: input.value, ...key });
      if (kind === "query") answer.value = { value };
      else onSent(kind === "signal" ? `Signal ${name.value} was sent.` : `Update ${name.value} returned ${preview(value) || "nothing"}.`);
    });
  };
  const isLoading = workflows.data.value === undefined && workflows.error.value === undefined;
  return (
    <Dialog title={KINDS[kind].title} onClose={onClose}>
      {isLoading ? (
        <p class="muted">Loading…</p>
      ) : (
        <form onSubmit={submit}>
          <NameField label="Name" known={names} name={name} canBeOther={kind !== "query"} />
          <InputForm schema={schemas[name.value]} schemaKey={name.value} text={text} />
          <ErrorText error={sending.error.value} />
          {answer.value !== undefined && <Value value={answer.value.value} label="Result" />}
          <footer class="dialog-foot">
            <button type="submit" class="primary" disabled={sending.isBusy.value}>
              Send
            </button>
          </footer>
        </form>
      )}
    </Dialog>
  );
}

/** Of several versions of a workflow the one that serves the run. */
function definitionOf(all: readonly WorkflowInfo[], { workflow, version }: RunInfo): WorkflowInfo | undefined {
  const named = all.filter(({ name }) => name === workflow);
  return named.find(({ versions }) => versions === "*" || versions.includes(version)) ?? named[0];
}
function messagesOf(definition: WorkflowInfo | undefined, kind: MessageKind): Readonly<Record<string, JsonSchema>> {
  switch (kind) {
    case "signal":
      return definition?.signals ?? {};
    case "update":
      return definition?.updates ?? {};
    case "query":
      return Object.fromEntries((definition?.queries ?? []).map((name) => [name, {}]));
  }
}
