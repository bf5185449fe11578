// Ids and locations as segments of URLs, and the addresses of pages.
// Owns: the encoding of ids in paths. Pure.
// Invariants: child ids contain `/` and `#`, which proxies change or refuse, so any id but a plain one is sent as `~` and base64url.

const PLAIN = /^[A-Za-z0-9._@!-]+$/;
const RESERVED: ReadonlySet<string> = new Set(["count", ".", ".."]);

export function encodeSegment(id: string): string {
  return PLAIN.test(id) && !RESERVED.has(id) ? encodeURIComponent(id) : `~${toBase64Url(id)}`;
}

/** Undefined if the segment can't be decoded: an address that was cut or typed by hand. */
export function decodeSegment(segment: string): string | undefined {
  try {
    return segment.startsWith("~") ? fromBase64Url(segment.slice(1)) : decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

function toBase64Url(text: string): string {
  const bytes = new TextEncoder().encode(text);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function fromBase64Url(text: string): string {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(binary, (char) => char.charCodeAt(0)));
}

/** The parts of the query string; absent values are left out. */
export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined | null>>;

export function queryText(query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    const text = Array.isArray(value) ? value.join(",") : String(value ?? "");
    if (text !== "") params.set(key, text);
  }
  // Colons and commas are legal in a query, and much easier to read: /runs?q=status:failed
  const text = params.toString().replaceAll("%3A", ":").replaceAll("%2C", ",");
  return text === "" ? "" : `?${text}`;
}

export type View =
  | { readonly page: "runs" | "start" | "schedules" | "queues" | "workers" | "health" | "none" }
  | { readonly page: "run"; readonly id: string };

const PAGES = ["runs", "start", "schedules", "queues", "workers", "health"] as const;

/** The view at a path below the base, which has no leading slash: `runs/ord-7`. */
export function viewAt(path: string): View {
  const [first = "", second, ...rest] = path.split("/");
  if (first === "" && second === undefined) return { page: "runs" };
  const page = PAGES.find((name) => name === first);
  if (page === undefined || rest.some((part) => part !== "")) return { page: "none" };
  if (second === undefined || second === "") return { page };
  const id = page === "runs" ? decodeSegment(second) : undefined;
  return id === undefined ? { page: "none" } : { page: "run", id };
}
