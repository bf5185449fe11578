// The input of a run or a message: fields made from a schema, and the same value as JSON.
// Invariants: the JSON is what is sent; fields change it, and it changes the fields.

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useId } from "preact/hooks";
import { type Field, fieldsOf, initialValue, type JsonSchema, parseInput, setAt, valueAt } from "./schema.ts";

/** `text` is the JSON. It begins anew when `schemaKey` changes. */
export function InputForm({ schema, schemaKey, text }: { schema: JsonSchema | null | undefined; schemaKey: string; text: Signal<string> }) {
  const fields = fieldsOf(schema);
  const id = useId();
  useEffect(() => {
    text.value =
      fields === undefined || schema === null || schema === undefined ? "" : JSON.stringify(initialValue(fields, schema), null, 2);
  }, [schemaKey]);
  const parsed = parseInput(text.value);
  const value = parsed.ok ? parsed.value : undefined;
  const change = (path: readonly string[], part: unknown): void => {
    text.value = JSON.stringify(setAt(value, path, part), null, 2);
  };
  return (
    <>
      {fields?.map((field) => (
        <FieldInput key={`${schemaKey} ${field.path.join("/")}`} field={field} value={value} change={change} />
      ))}
      <div class="field">
        <label htmlFor={id}>Input (JSON)</label>
        <textarea
          id={id}
          class="mono"
          rows={fields === undefined ? 8 : 4}
          spellcheck={false}
          value={text.value}
          aria-invalid={!parsed.ok}
          onInput={({ currentTarget }) => {
            text.value = currentTarget.value;
          }}
        />
      </div>
      {!parsed.ok && (
        <p class="problem" role="status">
          {parsed.problem}
        </p>
      )}
    </>
  );
}

interface FieldProps {
  readonly field: Field;
  readonly value: unknown;
  readonly change: (path: readonly string[], part: unknown) => void;
}

function FieldInput({ field, value, change }: FieldProps) {
  const id = useId();
  const { path, label, description, isRequired } = field;
  const own = valueAt(value, path);
  if (field.kind === "group") {
    return (
      <fieldset class="field-group">
        <legend>{label}</legend>
        {field.fields.map((inner) => (
          <FieldInput key={inner.path.join("/")} field={inner} value={value} change={change} />
        ))}
      </fieldset>
    );
  }
  if (field.kind === "boolean") {
    return (
      <div class="field check-field">
        <input id={id} type="checkbox" checked={own === true} onChange={({ currentTarget }) => change(path, currentTarget.checked)} />
        <label htmlFor={id}>{label}</label>
        {description !== undefined && <small>{description}</small>}
      </div>
    );
  }
  return (
    <div class="field">
      <label htmlFor={id}>{label}</label>
      {field.kind === "choice" && (
        <select
          id={id}
          required={isRequired}
          value={own === undefined ? "" : JSON.stringify(own)}
          onChange={({ currentTarget }) => change(path, currentTarget.value === "" ? undefined : JSON.parse(currentTarget.value))}
        >
          <option value="">{isRequired ? "Choose…" : "—"}</option>
          {field.choices.map((choice) => (
            <option key={String(choice)} value={JSON.stringify(choice)}>
              {String(choice)}
            </option>
          ))}
        </select>
      )}
      {field.kind === "text" && (
        <input
          id={id}
          type="text"
          required={isRequired}
          value={typeof own === "string" ? own : ""}
          onInput={({ currentTarget }) => change(path, currentTarget.value === "" && !isRequired ? undefined : currentTarget.value)}
        />
      )}
      {field.kind === "number" && (
        <input
          id={id}
          type="number"
          step="any"
          required={isRequired}
          value={typeof own === "number" ? own : ""}
          onInput={({ currentTarget }) => change(path, currentTarget.value === "" ? undefined : currentTarget.valueAsNumber)}
        />
      )}
      {field.kind === "json" && <JsonField id={id} value={own} isRequired={isRequired} change={(part) => change(path, part)} />}
      {description !== undefined && <small>{description}</small>}
    </div>
  );
}

/** Keeps what is typed while it is not JSON yet. */
function JsonField({
  id,
  value,
  isRequired,
  change,
}: {
  id: string;
  value: unknown;
  isRequired: boolean;
  change: (part: unknown) => void;
}) {
  const typed = useSignal(value === undefined ? "" : JSON.stringify(value));
  const parsed = parseInput(typed.value);
  useEffect(() => {
    if (parsed.ok && JSON.stringify(parsed.value) !== JSON.stringify(value)) typed.value = value === undefined ? "" : JSON.stringify(value);
  }, [JSON.stringify(value)]);
  return (
    <textarea
      id={id}
      class="mono"
      rows={2}
      required={isRequired}
      placeholder="JSON"
      spellcheck={false}
      aria-invalid={!parsed.ok}
      value={typed.value}
      onInput={({ currentTarget }) => {
        typed.value = currentTarget.value;
        const next = parseInput(currentTarget.value);
        if (next.ok) change(next.value);
      }}
    />
  );
}
