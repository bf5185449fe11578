// Base64 (RFC 4648, with padding), for bytes inside JSON.
// Owns its tables. The built-in alternatives need binary strings (btoa) or exist in one runtime only (Buffer).
// Invariants: fromBase64(toBase64(bytes)) equals bytes; text that toBase64 can't have written is rejected.

const PADDING = 61;
const letters = new TextEncoder().encode("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
const INVALID = 255;
const sextets = new Uint8Array(128).fill(INVALID);
for (const [sextet, letter] of letters.entries()) sextets[letter] = sextet;

const ascii = new TextDecoder();

export function toBase64(bytes: Uint8Array): string {
  // Builds the text as bytes and decodes it once, which creates less garbage than joining strings.
  const text = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
  for (let i = 0, at = 0; i < bytes.length; i += 3, at += 4) {
    const bits = (byte(bytes, i) << 16) | (byte(bytes, i + 1) << 8) | byte(bytes, i + 2);
    text[at] = byte(letters, bits >> 18);
    text[at + 1] = byte(letters, (bits >> 12) & 63);
    text[at + 2] = byte(letters, (bits >> 6) & 63);
    text[at + 3] = byte(letters, bits & 63);
  }
  const missing = (3 - (bytes.length % 3)) % 3;
  text.fill(PADDING, text.length - missing);
  return ascii.decode(text);
}

/** The byte at the index, or 0 past the end. */
function byte(bytes: Uint8Array, index: number): number {
  return index < bytes.length ? (bytes[index] ?? 0) : 0;
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  if (text.length % 4 !== 0) throw new TypeError("base64 text must have a multiple of 4 characters");
  const padding = text.endsWith("==") ? 2 : Number(text.endsWith("="));
  const bytes = new Uint8Array((text.length / 4) * 3 - padding);
  for (let i = 0, at = 0; i < text.length; i += 4, at += 3) {
    const last = i + 4 === text.length ? padding : 0;
    const bits =
      (sextet(text, i) << 18) |
      (sextet(text, i + 1) << 12) |
      (last > 1 ? 0 : sextet(text, i + 2) << 6) |
      (last > 0 ? 0 : sextet(text, i + 3));
    // A typed array ignores writes past its end, which is where the padding would go.
    bytes[at] = bits >> 16;
    bytes[at + 1] = bits >> 8;
    bytes[at + 2] = bits;
  }
  return bytes;
}

function sextet(text: string, index: number): number {
  const value = sextets[text.charCodeAt(index)] ?? INVALID;
  if (value === INVALID) throw new TypeError(`base64 text has ${JSON.stringify(text.charAt(index))} at ${index}`);
  return value;
}
