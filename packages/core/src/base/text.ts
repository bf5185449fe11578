// Text for error messages: short, safe renderings of names, values and causes.
// Owns nothing.
// Invariants: never throws, even if reading the value does: a second error would hide the first one; the text is bounded.

const LONGEST_PREVIEW = 200;

export function shorten(text: string, longest: number = LONGEST_PREVIEW): string {
  return text.length <= longest ? text : `${text.slice(0, longest - 1)}…`;
}

/** A readable form of any value, shortened to one line. */
export function preview(value: unknown): string {
  try {
    switch (typeof value) {
      case "string":
        return shorten(JSON.stringify(excerpt(value)));
      case "bigint":
        return shorten(`${value}n`);
      case "function":
        return value.name === "" ? "a function" : `function ${shorten(value.name)}`;
      case "object": {
        if (value === null) return "null";
        if (value instanceof Date && Number.isNaN(value.getTime())) return "Invalid Date";
        if (value instanceof Error) return shorten(`${value.name}: ${firstLine(value.message)}`);
        return shorten(JSON.stringify(value, excerpts()) ?? tagOf(value));
      }
      default:
        return Object.is(value, -0) ? "-0" : String(value);
    }
  } catch {
    return tagOf(value);
  }
}

/** A replacer for JSON.stringify that visits no more of a value than the preview shows, however large the value is. */
function excerpts(): (key: string, item: unknown) => unknown {
  let left = LONGEST_PREVIEW;
  return (_key, item) => {
    if (typeof item === "bigint") return `${item}n`;
    if (typeof item === "string") return excerpt(item);
    if (typeof item !== "object" || item === null) return item;
    if (left-- <= 0) return null;
    if (Array.isArray(item)) return item.length > LONGEST_PREVIEW ? item.slice(0, LONGEST_PREVIEW) : item;
    if (ArrayBuffer.isView(item)) return "subarray" in item ? (item as Uint8Array).subarray(0, LONGEST_PREVIEW) : item;
    const keys = Object.keys(item);
    if (keys.length <= LONGEST_PREVIEW) return item;
    return Object.fromEntries(keys.slice(0, LONGEST_PREVIEW).map((key) => [key, (item as Record<string, unknown>)[key]]));
  };
}
/** Keeps one character more than is shown, so that `shorten` still adds its ellipsis. */
function excerpt(text: string): string {
  return text.length > LONGEST_PREVIEW ? text.slice(0, LONGEST_PREVIEW + 1) : text;
}

/** `instanceof` that never throws: a revoked Proxy, or one with throwing traps, is not an instance of anything. */
export function isInstance<T>(value: unknown, type: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof type;
  } catch {
    return false;
  }
}

/** Reads a property of any value; undefined if reading it throws. */
export function read(from: unknown, key: string): unknown {
  try {
    return (from as Record<string, unknown> | null | undefined)?.[key];
  } catch {
    return undefined;
  }
}

/** The built-in tag of a value: "Date", "Promise", "Object". */
export function tagOf(value: unknown): string {
  try {
    return Object.prototype.toString.call(value).slice(8, -1);
  } catch {
    return typeof value;
  }
}

/** ": TypeError: x is undefined", to append to a message; empty without a cause. Only the first line of the cause's message is used. */
export function because(cause: unknown): string {
  return cause === undefined ? "" : `: ${preview(cause)}`;
}

export function firstLine(text: string): string {
  const end = text.indexOf("\n");
  return end < 0 ? text : text.slice(0, end);
}

export function count(n: number, noun: string, plural = `${noun}s`): string {
  return `${n} ${n === 1 ? noun : plural}`;
}

/** A unit in words. The root unit has the empty id. */
export function unitName(unit: string): string {
  return unit === "" ? "the root unit" : `unit ${unit}`;
}

/** `receive` → `ctx.receive`; text that already reads as a call is kept. */
export function callName(call: string): string {
  return /^\w+$/.test(call) ? `ctx.${call}` : call;
}
