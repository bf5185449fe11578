// Starts a run: its workflow, its input, and what else it may have.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import type { WorkflowInfo } from "../api/types.ts";
import { Dialog, ErrorText } from "../ui/Dialog.tsx";
import { navigate, runPath } from "../ui/router.tsx";
import { InputForm } from "./InputForm.tsx";
import { NameField } from "./NameField.tsx";
import { parseInput } from "./schema.ts";
import { useSending } from "./send.ts";

/** Workflows of the engine itself are not started by hand. */
const isInternal = (name: string): boolean => name.startsWith("holdfast.");

export function useWorkflows() {
  return useResource<readonly WorkflowInfo[]>("workflows", async () => {
    const { workflows } = await call<{ workflows: WorkflowInfo[] }>("GET", "workflows");
    return workflows.filter(({ name }) => !isInternal(name));
  });
}

const OPTIONS = [
  ["id", "Run id"],
  ["queue", "Queue"],
  ["key", "Key"],
  ["version", "Version"],
] as const;

export function StartDialog({ onClose }: { onClose: () => void }) {
  const workflows = useWorkflows();
  const name = useSignal("");
  const text = useSignal("");
  const options = useSignal<Readonly<Record<string, string>>>({});
  const sending = useSending();
  const all = workflows.data.value ?? [];
  const names = [...new Set(all.map((one) => one.name))];
  const chosen = all.find((one) => one.name === name.value);
  useEffect(() => {
    if (name.value === "" && names[0] !== undefined) name.value = names[0];
  }, [names.length]);
  const submit = (event: Event): void => {
    event.preventDefault();
    const input = parseInput(text.value);
    if (!input.ok) return;
    sending.send(async () => {
      const given = Object.fromEntries(Object.entries(options.value).filter(([, value]) => value !== ""));
      const body = { workflow: name.value, ...(input.value !== undefined && { input: input.value }), ...given };
      const { id } = await call<{ id: string }>("POST", "runs", { body, idempotencyKey: sending.idempotencyKey });
      navigate(runPath(id));
    });
  };
  const isLoading = workflows.data.value === undefined && workflows.error.value === undefined;
  return (
    <Dialog title="Start run" onClose={onClose}>
      {isLoading ? (
        <p class="muted">Loading…</p>
      ) : (
        <form onSubmit={submit}>
          <NameField label="Workflow" known={names} name={name} canBeOther />
          {names.length === 0 && <p class="muted">No worker has registered a workflow. A run that you start waits for one.</p>}
          <InputForm schema={chosen?.input} schemaKey={name.value} text={text} />
          <details class="more">
            <summary>Options</summary>
            {OPTIONS.map(([option, label]) => (
              <label class="field" key={option}>
                <span>{label}</span>
                <input
                  type="text"
                  value={options.value[option] ?? ""}
                  onInput={({ currentTarget }) => {
                    options.value = { ...options.value, [option]: currentTarget.value };
                  }}
                />
              </label>
            ))}
          </details>
          <ErrorText error={sending.error.value} />
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
