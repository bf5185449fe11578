// TLS, client certificates and API keys, at an entrance to the server that demands them.
// Owns: the entrances; each test has its own.

import { type Line as Entrance, Line, type LineOptions } from "@holdfast/temporal-server";
import { Holdfast, type OpenOptions, workflow } from "holdfast";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Status } from "../../src/bridge.ts";
import { Authority } from "./certificates.ts";
import { engines, LONG, newQueue } from "./engines.ts";
import { SILENT } from "./support.ts";

const on = engines();
const authority = new Authority("authority of the tests");
const stranger = new Authority("another authority");
const server = authority.sign("server");
const TRUSTING = { serverRootCACertificate: authority.crt };

const greet = workflow<string, string>("greet", (ctx, name) => ctx.step("greeting", () => `hello ${name}`));

/** TLS with the server's certificate, and what else is asked of the client. */
async function entrance(tls: LineOptions["tls"] = {}, onCall?: LineOptions["onCall"]): Promise<Entrance> {
  const line = await Line.to(on.server.address, { tls: { cert: server.crt, key: server.key, ...tls }, ...(onCall && { onCall }) });
  onTestFinished(() => line.close());
  return line;
}
async function open({ address }: Entrance, temporal: OpenOptions["temporal"], scheme = "temporals"): Promise<Holdfast> {
  const url = `${scheme}://${address}/${on.server.namespace}?queue=${newQueue()}`;
  const holdfast = await Holdfast.open(url, { logger: SILENT, temporal: temporal ?? {} });
  onTestFinished(() => holdfast.close());
  return holdfast;
}
async function greeting(holdfast: Holdfast): Promise<string> {
  await holdfast.worker({ workflows: [greet] });
  return (await holdfast.start(greet, "lamp")).result();
}
/** The error of `open`, which must come soon: Core must not try again and again, which it does for 10 s. */
async function refusal(line: Entrance, temporal: OpenOptions["temporal"], scheme?: string): Promise<unknown> {
  const before = performance.now();
  const error = await open(line, temporal, scheme).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(performance.now() - before).toBeLessThan(9_000);
  return error;
}
const tlsError = (words: string) => ({ code: "HF_TEMPORAL_TLS", retryable: false, message: expect.stringContaining(words) });

describe("TLS", () => {
  test(
    "a run completes through temporals:// with the authority's certificate",
    async () => {
      expect(await greeting(await open(await entrance(), { tls: TRUSTING }))).toBe("hello lamp");
    },
    LONG,
  );
  test(
    "the name of the certificate can be given if it is not that of the host",
    async () => {
      const line = await entrance();
      expect(await greeting(await open(line, { tls: { ...TRUSTING, serverNameOverride: "localhost" } }))).toBe("hello lamp");
      const wrong = { tls: { ...TRUSTING, serverNameOverride: "elsewhere.example" } };
      expect(await refusal(line, wrong)).toMatchObject(tlsError("temporal.tls.serverNameOverride"));
    },
    LONG,
  );
  test("a server whose authority is not trusted is refused", async () => {
    const line = await entrance();
    const words = tlsError("temporal.tls.serverRootCACertificate");
    expect(await refusal(line, { tls: { serverRootCACertificate: stranger.crt } })).toMatchObject(words);
    expect(await refusal(line, {})).toMatchObject(words);
  });
  test("TLS on one side only is said to be so", async () => {
    expect(await refusal(await entrance(), {}, "temporal")).toMatchObject({
      code: "HF_TEMPORAL_UNAVAILABLE",
      message: expect.stringContaining("write temporals:// instead of temporal://"),
    });
    const plain = await Line.to(on.server.address);
    onTestFinished(() => plain.close());
    expect(await refusal(plain, { tls: TRUSTING })).toMatchObject(tlsError("write temporal:// instead of temporals://"));
  });
});

describe("client certificates", () => {
  const DEMANDED = { ca: authority.crt, requestCert: true, rejectUnauthorized: true };
  test(
    "a run completes with a certificate of the server's authority",
    async () => {
      const line = await entrance(DEMANDED);
      expect(await greeting(await open(line, { tls: { ...TRUSTING, clientCertPair: authority.sign("client") } }))).toBe("hello lamp");
    },
    LONG,
  );
  /** With TLS 1.3 the server checks it when the connection stands: whether its reason arrives before the end of the connection is luck. */
  test.each([
    ["without one the error says that one is demanded", undefined, /pass temporal\.tls\.clientCertPair/i],
    ["one of another authority is refused", stranger.sign("client"), /accepts? the client certificate of temporal\.tls\.clientCertPair/],
  ])("%s", async (_, clientCertPair, words) => {
    const error = await refusal(await entrance(DEMANDED), { tls: { ...TRUSTING, ...(clientCertPair && { clientCertPair }) } });
    expect(error).toMatchObject({
      code: expect.stringMatching(/^HF_TEMPORAL_(TLS|UNAVAILABLE)$/),
      message: expect.stringMatching(words),
    });
  });
});

describe("API keys", () => {
  /** Refuses every call that has not `key.now`, and keeps what it has seen. */
  function guarded(key: { now: string }): { seen: Set<string | undefined>; onCall: NonNullable<LineOptions["onCall"]> } {
    const seen = new Set<string | undefined>();
    const onCall: LineOptions["onCall"] = ({ authorization }) => {
      seen.add(authorization);
      return authorization === `Bearer ${key.now}` ? undefined : Status.UNAUTHENTICATED;
    };
    return { seen, onCall };
  }
  test.each([
    ["a text", "key-1"],
    ["a function", async () => "key-1"],
  ])(
    "%s: every call has the key",
    async (_, apiKey) => {
      const { seen, onCall } = guarded({ now: "key-1" });
      const holdfast = await open(await entrance({}, onCall), { tls: TRUSTING, apiKey });
      expect(await greeting(holdfast)).toBe("hello lamp");
      await holdfast.count();
      expect([...seen]).toEqual(["Bearer key-1"]);
    },
    LONG,
  );
  test("a server that does not know the key refuses the connection, which is not an unreachable server", async () => {
    const { onCall } = guarded({ now: "key-1" });
    const line = await entrance({}, onCall);
    const refused = { code: "HF_TEMPORAL_REFUSED", retryable: false };
    expect(await refusal(line, { tls: TRUSTING, apiKey: "key-2" })).toMatchObject(refused);
    expect(await refusal(line, { tls: TRUSTING })).toMatchObject(refused);
  });
  test("a key that is no longer valid is an error of the call", async () => {
    const key = { now: "key-1" };
    const { onCall } = guarded(key);
    const holdfast = await open(await entrance({}, onCall), { tls: TRUSTING, apiKey: "key-1" });
    key.now = "key-2";
    await expect(holdfast.start(greet, "lamp")).rejects.toMatchObject({ code: "HF_TEMPORAL_REFUSED", retryable: false });
  });
  test("a function is asked again every minute; if it fails, the last key stays in use and a warning says so", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    const key = { now: "key-1" };
    const { seen, onCall } = guarded(key);
    const warnings: string[] = [];
    let fails = false;
    const { address } = await entrance({}, onCall);
    const holdfast = await Holdfast.open(`temporals://${address}/${on.server.namespace}`, {
      logger: { ...SILENT, warn: (message) => void warnings.push(message) },
      temporal: {
        tls: TRUSTING,
        apiKey: async () => {
          if (fails) throw new Error("the vault is sealed");
          return key.now;
        },
      },
    });
    onTestFinished(() => holdfast.close());
    key.now = "key-2";
    await vi.advanceTimersByTimeAsync(60_000);
    await holdfast.count();
    fails = true;
    await vi.advanceTimersByTimeAsync(60_000);
    await holdfast.count();
    expect([...seen]).toEqual(["Bearer key-1", "Bearer key-2"]);
    expect(warnings).toEqual([expect.stringMatching(/could not be renewed.*the vault is sealed/)]);
  });
  test("a function that throws is reported as such, and the server is not asked", async () => {
    const { seen, onCall } = guarded({ now: "key-1" });
    const line = await entrance({}, onCall);
    const sealed = new Error("the vault is sealed");
    const failing = async () => {
      throw sealed;
    };
    const error = await refusal(line, { tls: TRUSTING, apiKey: failing });
    expect(error).toMatchObject({ code: "HF_TEMPORAL_API_KEY", message: expect.stringContaining("the vault is sealed"), cause: sealed });
    expect((error as Error).message).not.toContain("can't be reached");
    const nothing = async () => undefined as never;
    expect(await refusal(line, { tls: TRUSTING, apiKey: nothing })).toMatchObject({ code: "HF_TEMPORAL_API_KEY" });
    expect(seen.size).toBe(0);
  });
});
