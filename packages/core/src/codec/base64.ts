// Base64 (RFC 4648, with padding), for bytes inside JSON.
// Owns its tables. The runtimes' own functions go through binary strings (btoa) or exist in one of them only (Buffer).
// Invariants: fromBase64(toBase64(bytes)) equals bytes; text that toBase64 can't have written is refused.

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/** Two characters for each 12 bits: half as many steps as one for 6. */
const pairs: readonly string[] = Array.from({ length: 4096 }, (_, bits) => alphabet.charAt(bits >> 6) + alphabet.charAt(bits & 63));
const INVALID = 255;
const sextets = new Uint8Array(128).fill(INVALID);
for (let i = 0; i < alphabet.length; i++) sextets[alphabet.charCodeAt(i)] = i;

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  const whole = bytes.length - (bytes.length % 3);
  for (let i = 0; i < whole; i += 3) {
    const bits = (byte(bytes, i) << 16) | (byte(bytes, i + 1) << 8) | byte(bytes, i + 2);
    text += `${pairs[bits >> 12]}${pairs[bits & 4095]}`;
  }
  if (bytes.length - whole === 1) text += `${pairs[byte(bytes, whole) << 4]}==`;
  if (bytes.length - whole === 2) {
    const bits = (byte(bytes, whole) << 10) | (byte(bytes, whole + 1) << 2);
    text += `${pairs[bits >> 6]}${alphabet.charAt(bits & 63)}=`;
  }
  return text;
}

function byte(bytes: Uint8Array, index: number): number {
  return bytes[index] ?? 0;
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
    // Writes past the end, where the padding stands, are ignored.
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
