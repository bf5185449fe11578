// Ids, names and locations as one segment of a path.
// Owns: that form. Child ids contain "/" and "#", and proxies refuse "%2F", so anything unusual is written in base64url.
// Invariants: pathSegment and idOf are inverse; a segment is decoded once, after the path was split.

const PLAIN = /^[A-Za-z0-9._@!-]+$/;
/** They would be another route, or would be removed on the way. */
const RESERVED = new Set(["count", ".", ".."]);

/** An id as one segment of a path. */
export function pathSegment(id: string): string {
  if (PLAIN.test(id) && !RESERVED.has(id)) return encodeURIComponent(id);
  return `~${Buffer.from(id, "utf8").toString("base64url")}`;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Undefined: it is not a segment that `pathSegment` or `encodeURIComponent` writes. */
export function idOf(segment: string): string | undefined {
  try {
    if (!segment.startsWith("~")) return decodeURIComponent(segment);
    const text = segment.slice(1);
    if (!/^[A-Za-z0-9_-]*$/.test(text)) return undefined;
    return utf8.decode(Buffer.from(text, "base64url"));
  } catch {
    return undefined;
  }
}
