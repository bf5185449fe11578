// A name out of those that are known, or another one.

import type { Signal } from "@preact/signals";
import { useSignal } from "@preact/signals";
import { useId, useLayoutEffect } from "preact/hooks";

const OTHER = "\u0000other";

export function NameField({
  label,
  known,
  name,
  canBeOther,
}: {
  label: string;
  known: readonly string[];
  name: Signal<string>;
  canBeOther: boolean;
}) {
  const id = useId();
  // The first field of its dialog, which is not there while the dialog loads the names.
  useLayoutEffect(() => document.getElementById(id)?.focus(), [id]);
  const isOther = useSignal(false);
  if (known.length === 0) {
    return (
      <div class="field">
        <label htmlFor={id}>{label}</label>
        <input
          id={id}
          type="text"
          role="combobox"
          aria-expanded="false"
          aria-controls={id}
          required
          value={name.value}
          onInput={({ currentTarget }) => {
            name.value = currentTarget.value;
          }}
        />
      </div>
    );
  }
  return (
    <>
      <div class="field">
        <label htmlFor={id}>{label}</label>
        <select
          id={id}
          required
          value={isOther.value ? OTHER : name.value}
          onChange={({ currentTarget }) => {
            isOther.value = currentTarget.value === OTHER;
            name.value = isOther.value ? "" : currentTarget.value;
          }}
        >
          {known.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
          {canBeOther && <option value={OTHER}>Another…</option>}
        </select>
      </div>
      {isOther.value && (
        <div class="field">
          <label htmlFor={`${id}other`}>Another name</label>
          <input
            id={`${id}other`}
            type="text"
            required
            value={name.value}
            onInput={({ currentTarget }) => {
              name.value = currentTarget.value;
            }}
          />
        </div>
      )}
    </>
  );
}
