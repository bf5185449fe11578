// Words for error messages: short, safe renderings of names, values and causes.
// Owns nothing; every function is total, since an error about an error helps nobody.
// Invariants: never throws, whatever the value does when it is looked at; the text is bounded.

const LONGEST_PREVIEW = 200;

export function shorten(text: string, longest: number = LONGEST_PREVIEW): string {
  return text.length <= longest ? text : `${text.slice(0, longest - 1)}…`;
}

/** A value as a person would write it down, cut to a line. */
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

/** For JSON.stringify: of a value of any size no more is looked at than a preview shows. */
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
/** One letter more than is shown, so that it is seen to be cut. */
function excerpt(text: string): string {
  return text.length > LONGEST_PREVIEW ? text.slice(0, LONGEST_PREVIEW + 1) : text;
}

/** `instanceof` for values from outside: a revoked Proxy, or one with traps that throw, is an instance of nothing. */
export function isInstance<T>(value: unknown, type: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof type;
  } catch {
    return false;
  }
}

/** A property of any value; undefined where reading it throws. */
export function read(from: unknown, key: string): unknown {
  try {
    return (from as Record<string, unknown> | null | undefined)?.[key];
  } catch {
    return undefined;
  }
}

/** "Date", "Promise", "Object": the built-in kind of a value. */
export function tagOf(value: unknown): string {
  try {
    return Object.prototype.toString.call(value).slice(8, -1);
  } catch {
    return typeof value;
  }
}

/** ": TypeError: x is undefined", to follow what failed; nothing where there is no cause. The advice of a nested message is left out. */
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

/** The root has the empty id. */
export function unitName(unit: string): string {
  return unit === "" ? "the root unit" : `unit ${unit}`;
}

/** `receive` → `ctx.receive`; what already reads as a call stays. */
export function callName(call: string): string {
  return /^\w+$/.test(call) ? `ctx.${call}` : call;
}
