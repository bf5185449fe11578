// Checks the value that a configuration file exports.
// Owns: which keys there are, and what each may hold.
// Invariants: an unknown key or a wrong value is an error that names the key by its path ("server.tokens[0].hash"), never its value.

import { UsageError } from "./errors.ts";
import type { HoldfastConfig } from "./index.ts";

type Check = (value: unknown, path: string) => string | undefined;

const text: Check = (value) => (typeof value === "string" && value !== "" ? undefined : "must be text");
const flag: Check = (value) => (typeof value === "boolean" ? undefined : "must be true or false");
const whole =
  (least: number, most: number): Check =>
  (value) =>
    Number.isInteger(value) && (value as number) >= least && (value as number) <= most
      ? undefined
      : `must be a whole number from ${least.toLocaleString("en")} to ${most.toLocaleString("en")}`;
const listOf =
  (item: Check): Check =>
  (value, path) => {
    if (!Array.isArray(value)) return "must be a list";
    for (const [i, one] of value.entries()) required(item, one, `${path}[${i}]`);
    return undefined;
  };
const objectOf =
  (keys: Readonly<Record<string, Check>>, needed: readonly string[] = []): Check =>
  (value, path) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return "must be an object";
    const at = (key: string) => (path === "" ? key : `${path}.${key}`);
    for (const [key, one] of Object.entries(value)) {
      const check = Object.hasOwn(keys, key) ? keys[key] : undefined;
      if (check === undefined) throw new Problem(at(key), `is not a known key. Known keys: ${Object.keys(keys).join(", ")}`);
      if (one !== undefined) required(check, one, at(key));
    }
    for (const key of needed) if ((value as Record<string, unknown>)[key] === undefined) throw new Problem(at(key), "is missing");
    return undefined;
  };

const entry: Check = (value, path) => {
  if (typeof value === "string") return text(value, path);
  return listOf(text)(value, path) ?? ((value as unknown[]).length === 0 ? "must name at least one file" : undefined);
};
const codec: Check = (value) => {
  const { encode, decode } = (typeof value === "object" && value !== null ? value : {}) as { encode?: unknown; decode?: unknown };
  return typeof encode === "function" && typeof decode === "function" ? undefined : "must have the functions encode and decode";
};
const hash: Check = (value) =>
  typeof value === "string" && /^sha256:[0-9a-f]{64}$/i.test(value)
    ? undefined
    : 'must be "sha256:" and 64 hexadecimal digits, as `holdfast token` prints it';
const role: Check = (value) =>
  value === "read" || value === "operate" || value === "admin" ? undefined : 'must be "read", "operate" or "admin"';
const namespace: Check = (value) =>
  typeof value === "string" && /^[A-Za-z0-9_-]{1,50}$/.test(value) ? undefined : 'must have 1 to 50 letters (A to Z), digits, "_" and "-"';

const CONFIG = objectOf({
  url: text,
  namespace,
  codec,
  entry,
  workers: listOf(objectOf({ queue: text, concurrency: whole(1, 1_000_000), activityConcurrency: whole(1, 1_000_000) })),
  server: objectOf({
    port: whole(0, 65_535),
    host: text,
    allowedHosts: listOf(text),
    readOnly: flag,
    tokens: listOf(objectOf({ name: text, hash, role, values: flag }, ["name", "hash", "role"])),
  }),
});

class Problem extends Error {
  readonly path: string;
  constructor(path: string, message: string) {
    super(message);
    this.path = path;
  }
}
function required(check: Check, value: unknown, path: string): void {
  const problem = check(value, path);
  if (problem !== undefined) throw new Problem(path, problem);
}

/** `file` is named in the error. */
export function checkedConfig(value: unknown, file: string): HoldfastConfig {
  try {
    required(CONFIG, value, "");
    return value as HoldfastConfig;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const what = error.path === "" ? "the default export" : `"${error.path}"`;
    // biome-ignore lint/style/useErrorCause: the message says all that the cause does
    throw new UsageError(`${file}: ${what} ${error.message}.`, { code: "HF_CONFIG" });
  }
}
export function checkedNamespace(value: string, source: string): string {
  const problem = namespace(value, "");
  if (problem !== undefined) throw new UsageError(`${source} ${problem}.`);
  return value;
}
