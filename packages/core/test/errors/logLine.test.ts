// Log records as lines: what an attacker may put into an error is shown, and does nothing.

import { expect, test } from "vitest";
import { logLine } from "../../src/errors/index.ts";

test("one record is one line, whatever an error says", () => {
  const forged = "no\n[holdfast] all is well\r\u001b[2J\u009b31m\u2028\u202eevil\u0000";
  const line = logLine("Run x failed.\tIt", { error: new Error(forged), runId: forged, nested: { a: forged } });
  expect(line).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\u202e]/u);
  expect(line).toContain(
    "[holdfast] Run x failed.\\tIt error=Error: no\\n[holdfast] all is well\\r\\u001b[2J\\u009b31m\\u2028\\u202eevil\\u0000 runId=no",
  );
});

test("ordinary text of any language stays as it is", () => {
  expect(logLine("Überraschung 日本語 🎉 العربية", { n: 1, none: undefined })).toBe("[holdfast] Überraschung 日本語 🎉 العربية n=1");
});

test("a field that can't be shown costs no record", () => {
  const cyclic: { self?: unknown } = {};
  cyclic.self = cyclic;
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const line = logLine("x", { cyclic, big: 1n, fn: () => 1, proxy });
  expect(line).toContain("cyclic=(a value that can't be shown) big=(a value that can't be shown)");
  expect(line).toContain("proxy=(a value that can't be shown)");
});
