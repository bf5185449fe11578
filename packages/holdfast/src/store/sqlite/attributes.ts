// The attributes of runs as rows, by which lists find them.
// Owns: the table `holdfast_attributes`, and how names and values are written there.
// Invariants: B1: its rows are those of the column `attributes` of their run, from the same transaction on; a run without attributes has
// none. A trigger deletes them with the run. Values compare as B1 says: texts by code point, as bytes.

import type { Scalar } from "../searchPort.ts";
import { text } from "./columns.ts";
import type { Value } from "./library.ts";

type Attributes = Readonly<Record<string, Scalar | null>>;

/** Where statements are run. */
interface Statements {
  run(sql: string, parameters: readonly Value[]): void;
}

const PUT = `INSERT INTO holdfast_attributes (run, name, type, value, created_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (run, name) DO UPDATE SET type = excluded.type, value = excluded.value`;
const DELETE = "DELETE FROM holdfast_attributes WHERE run = ? AND name = ?";
const DELETE_ALL = "DELETE FROM holdfast_attributes WHERE run = ?";

/** Those that change; null removes one. */
export function indexAttributes(db: Statements, run: number, createdAt: number, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) db.run(DELETE, [run, text(name)]);
    else db.run(PUT, [run, text(name), typeof value, indexed(value), createdAt]);
  }
}
/** Of a run that begins again, with other attributes. */
export function reindexAttributes(db: Statements, run: number, createdAt: number, attributes: Attributes): void {
  db.run(DELETE_ALL, [run]);
  indexAttributes(db, run, createdAt, attributes);
}

/** Texts as bytes: SQLite compares these alike in every file, and numbers exactly. */
export function indexed(value: Scalar): Value {
  if (typeof value === "string") return bytesOf(value);
  return Number(value) + 0; // no -0
}
/** What no text begins with that is not below it, of texts that begin with this one. Undefined: every text begins with it. */
export function endOfPrefix(prefix: string): Value | undefined {
  const bytes = bytesOf(prefix);
  const last = bytes.at(-1);
  if (last === undefined) return undefined;
  bytes[bytes.length - 1] = last + 1; // UTF-8 has no byte 255
  return bytes;
}
/** UTF-8, also of halves of surrogate pairs, which are three bytes like their neighbours: bytes have the order of code points. */
function bytesOf(value: string): Buffer {
  if (!HALF_PAIR.test(value)) return Buffer.from(value);
  return Buffer.concat(
    Array.from(value, (char) => {
      const code = char.charCodeAt(0);
      const isHalf = char.length === 1 && code >= 0xd800 && code < 0xe000;
      return isHalf ? Buffer.from([0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)]) : Buffer.from(char);
    }),
  );
}
const HALF_PAIR = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
