// The texts of errors that functions of the database store: a run that has ended, an id that is taken, a parent that is gone.
// Owns: one text for each kind that `001/errors.sql` knows, and the function that holds them in the database.
// Invariants: the texts are not part of a migration: they may change from release to release, and are installed with every migration.

import {
  CanceledError,
  type HoldfastError,
  jsonCodec,
  RunAlreadyExistsError,
  RunClosedError,
  RunNotFoundError,
  RunTerminatedError,
  serializeError,
} from "@holdfast/core";
import { literal } from "./fragments.ts";

/** Stand for what an error is about, inside its text. */
const RUN = "%RUN%";
const DETAIL = "%DETAIL%";

/** An error as it is stored. Where it was made says nothing. */
function encoded(error: HoldfastError | Error): string {
  const { stack: _stack, ...serialized } = serializeError(error);
  return jsonCodec.encode(serialized);
}

const TEXTS = {
  canceled: encoded(new CanceledError(DETAIL)),
  closed: encoded(new RunClosedError({ runId: RUN, status: DETAIL })),
  "not-found": encoded(new RunNotFoundError({ runId: RUN })),
  exists: encoded(new RunAlreadyExistsError({ runId: RUN })),
  "exists-other": encoded(new RunAlreadyExistsError({ runId: RUN, workflow: DETAIL })),
  terminated: encoded(new RunTerminatedError({ runId: RUN, reason: DETAIL })),
  "child-ended": encoded(new Error(`The child ${RUN} ended as ${DETAIL}.`)),
  // Reasons of cancellations and terminations, inside other texts.
  "parent-ended": `its parent ${RUN} has ended`,
  "given-up": `its parent ${RUN} canceled it`,
} as const;
export const ERROR_KINDS: readonly string[] = Object.keys(TEXTS);

/** `s` is the schema, quoted. Installed before the functions that call it. */
export const errorTexts = (s: string): string => `
CREATE OR REPLACE FUNCTION ${s}.error_text_1(p_kind text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_kind
${Object.entries(TEXTS)
  .map(([kind, text]) => `    WHEN '${kind}' THEN ${literal(text)}`)
  .join("\n")}
  END
$$;
`;
