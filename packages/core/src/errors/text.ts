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
        return shorten(JSON.stringify(value));
      case "bigint":
        return shorten(`${value}n`);
      case "function":
        return value.name === "" ? "a function" : `function ${shorten(value.name)}`;
      case "object": {
        if (value === null) return "null";
        if (value instanceof Error) return shorten(`${value.name}: ${firstLine(value.message)}`);
        return shorten(JSON.stringify(value, (_key, item: unknown) => (typeof item === "bigint" ? `${item}n` : item)) ?? tagOf(value));
      }
      default:
        return Object.is(value, -0) ? "-0" : String(value);
    }
  } catch {
    return tagOf(value);
  }
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
