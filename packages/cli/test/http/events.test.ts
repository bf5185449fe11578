// Events: what changes arrives, an interrupted client misses nothing, and one client too many does not disturb the others.

import { inspect } from "holdfast/inspect";
import { describe, expect, test } from "vitest";
import { pathSegment } from "../../src/api/ids.ts";
import type { ClientEvent } from "../../src/client/client.ts";
import { clientOf, openHttp } from "../../src/client/index.ts";
import { parseEvents } from "../../src/client/sse.ts";
import { consoleOver, createConsole, hashToken } from "../../src/server/index.ts";
import { ask, STORES, TOKEN_ENTRIES, TOKENS, worldOn } from "./world.ts";

class Reader {
  readonly #events: AsyncIterator<ClientEvent>;
  readonly #ends: AbortController;
  readonly status: number;
  constructor(response: Response, ends: AbortController) {
    this.status = response.status;
    this.#ends = ends;
    this.#events = parseEvents(response.body as ReadableStream<Uint8Array>)[Symbol.asyncIterator]();
  }
  async next(): Promise<ClientEvent> {
    const { done, value } = await this.#events.next();
    if (done === true) throw new Error("The stream has ended.");
    return value;
  }
  /** Reads on until an event passes. */
  async until(passes: (event: ClientEvent) => boolean): Promise<ClientEvent> {
    for (;;) {
      const event = await this.next();
      if (passes(event)) return event;
    }
  }
  close(): void {
    this.#ends.abort();
  }
}
async function opened(
  fetch: (request: Request) => Promise<Response>,
  topics: string,
  { token = TOKENS.reader, lastEventId }: { token?: string; lastEventId?: string } = {},
): Promise<Reader> {
  const ends = new AbortController();
  const headers = { authorization: `Bearer ${token}`, ...(lastEventId !== undefined && { "last-event-id": lastEventId }) };
  const url = `http://localhost/api/v1/events?topics=${encodeURIComponent(topics)}`;
  return new Reader(await fetch(new Request(url, { headers, signal: ends.signal })), ends);
}
const statusOf = (event: ClientEvent): unknown => (event.data as { status?: unknown }).status;

describe.each(STORES)("on %s", (store) => {
  const world = worldOn(store);
  const start = (id: string, workflow = "waiting") => world.engine.start(workflow, { of: id }, { id });

  test("a run: its present state, then each change, with id, status and last turn", async () => {
    await start("e/1");
    const reader = await opened(world.console.fetch, "run:e/1");
    const asleep = await reader.until((event) => statusOf(event) === "sleeping");
    expect(asleep).toMatchObject({ event: "run", data: { id: "e/1", status: "sleeping", lastTurn: expect.any(Number) } });
    expect(asleep.id).not.toBe("");
    await world.engine.run("e/1").signal("go");
    const done = await reader.until((event) => statusOf(event) === "completed");
    expect((done.data as { lastTurn: number }).lastTurn).toBeGreaterThan((asleep.data as { lastTurn: number }).lastTurn);
    reader.close();
  });
  test("runs, counts and workers", async () => {
    const reader = await opened(world.console.fetch, "runs,counts,workers");
    const first = new Set([await reader.next(), await reader.next(), await reader.next()].map(({ event }) => event));
    expect(first).toEqual(new Set(["runs", "counts", "workers"]));
    await start("e-2");
    const changed = new Set<string>();
    await reader.until(({ event, data }) => {
      if (event !== "runs" || JSON.stringify(data).includes('"e-2"')) changed.add(event);
      return changed.has("runs") && changed.has("counts");
    });
    reader.close();
  });
  test("the client in this process gets the same events", async () => {
    await start("e-3");
    const ends = new AbortController();
    const local = clientOf(world.engine);
    const http = openHttp("http://localhost/", { token: TOKENS.reader, fetch: world.console.fetch });
    for (const client of [local, http]) {
      const seen: ClientEvent[] = [];
      for await (const event of client.events(["run:e-3"], { signal: AbortSignal.any([ends.signal]) })) {
        seen.push(event);
        if (statusOf(event) === "sleeping") break;
      }
      expect(seen.at(-1)).toMatchObject({ event: "run", data: { id: "e-3", status: "sleeping" } });
    }
    await local.close();
    await http.close();
  });
});

describe("a client that comes again", () => {
  const world = worldOn("memory");

  test("gets what changed since the id that it names", async () => {
    await world.engine.start("waiting", {}, { id: "again" });
    const watching = await opened(world.console.fetch, "run:again");
    const reader = await opened(world.console.fetch, "run:again");
    const asleep = await reader.until((event) => statusOf(event) === "sleeping");
    reader.close();
    await world.engine.run("again").signal("go");
    const done = await watching.until((event) => statusOf(event) === "completed");
    const back = await opened(world.console.fetch, "run:again", { lastEventId: asleep.id });
    const missed = await back.until((event) => statusOf(event) === "completed");
    expect(missed.id).toBe(done.id);
    back.close();
    watching.close();
  });
  test("names runs with a comma in their id as a path does", async () => {
    await world.engine.start("waiting", {}, { id: "a, b" });
    const reader = await opened(world.console.fetch, `counts,run:${pathSegment("a, b")}`);
    const asleep = await reader.until((event) => statusOf(event) === "sleeping");
    expect(asleep.data).toMatchObject({ id: "a, b" });
    reader.close();
  });
  test("gets nothing of a run that has not changed since then", async () => {
    await world.engine.start("echo", {}, { id: "unchanged" });
    const reader = await opened(world.console.fetch, "run:unchanged");
    const done = await reader.until((event) => statusOf(event) === "completed");
    reader.close();
    const back = await opened(world.console.fetch, "run:unchanged,run:changed", { lastEventId: done.id });
    await world.engine.start("waiting", {}, { id: "changed" });
    const seen = new Set<unknown>();
    await back.until((event) => {
      seen.add((event.data as { id: string }).id);
      return statusOf(event) === "sleeping";
    });
    expect([...seen]).toEqual(["changed"]);
    back.close();
  });
  test.each(["", "nonsense", "0:1", "AAAAAAAA:99999"])("gets the present state for the id %j, which is not known", async (lastEventId) => {
    const reader = await opened(world.console.fetch, "counts", { lastEventId });
    expect((await reader.next()).event).toBe("counts");
    reader.close();
  });
  test("gets the present state of a topic that others follow already", async () => {
    const first = await opened(world.console.fetch, "counts,run:again");
    await first.next();
    await first.next();
    const second = await opened(world.console.fetch, "counts,run:again");
    expect(new Set([(await second.next()).event, (await second.next()).event])).toEqual(new Set(["counts", "run"]));
    first.close();
    second.close();
  });
  test("a run that does not exist is said to have no status, and is seen when it comes", async () => {
    const reader = await opened(world.console.fetch, "run:later");
    expect((await reader.next()).data).toEqual({ id: "later", status: null, lastTurn: null });
    await world.engine.start("waiting", {}, { id: "later" });
    await reader.until((event) => statusOf(event) === "sleeping");
    reader.close();
  });
});

describe("while many runs change", () => {
  const world = worldOn("memory");

  test("pauses between events of a list grow to a second, and the last change is an event", async () => {
    const reader = await opened(world.console.fetch, "runs");
    await reader.next();
    const ids = (event: ClientEvent): string[] => (event.data as { runs: { id: string }[] }).runs.map(({ id }) => id);
    let last = "";
    let latest: readonly string[] = [];
    let isOver = false;
    const events: number[] = [];
    const reading = reader.until((event) => {
      events.push(performance.now());
      latest = ids(event);
      return isOver && latest.includes(last);
    });
    reading.catch(() => {}); // it is not awaited if the last change has come already
    for (const end = performance.now() + 2_500; performance.now() < end; ) {
      last = (await world.engine.start("waiting", {})).id;
      await new Promise((resolve) => setImmediate(resolve));
    }
    isOver = true;
    if (!latest.includes(last)) await reading;
    const took = (events.at(-1) ?? 0) - (events[0] ?? 0);
    // After 0, 200, 400, 800 ms, then each second.
    expect(events.length).toBeLessThanOrEqual(5 + took / 1_000);
    reader.close();
  });

  test("reads in answer to an event are one look at the store, other reads are always new", async () => {
    const reads: string[] = [];
    const inspection = inspect(world.engine);
    const counted = new Proxy(inspection, {
      get: (target, name) => {
        const found = Reflect.get(target, name) as unknown;
        if (typeof found !== "function") return found;
        return (...given: unknown[]) => {
          if (name === "list" || name === "counts") reads.push(`${name} ${JSON.stringify(given[0])}`);
          return Reflect.apply(found, target, given) as unknown;
        };
      },
    });
    const source = { engine: async () => world.engine, inspection: async () => counted, close: () => inspection.close() };
    const console = consoleOver(source, { tokens: TOKEN_ENTRIES });
    const get = async (path: string, lastEventId?: string): Promise<string> => {
      const headers = { ...(lastEventId !== undefined && { "last-event-id": lastEventId }) };
      return (await ask(console.fetch, `http://localhost/api/v1/${path}`, { headers })).text();
    };
    const reader = await opened(console.fetch, "runs");
    await reader.next();
    await world.engine.start("waiting", {}, { id: "shared" });
    const { id } = await reader.until(({ data }) => JSON.stringify(data).includes('"shared"'));
    await world.engine.start("waiting", {}, { id: "unseen" }); // its event has another id
    const filtered = "runs?limit=50&workflow=waiting";
    const counts = "runs/count?workflow=waiting";
    reads.length = 0;
    const newest = await Promise.all([get("runs?limit=50", id), get("runs?limit=50", id)]);
    for (const text of newest) expect(text).toContain('"shared"');
    const answers = await Promise.all([get(filtered, id), get(filtered, id), get(counts, id), get(counts, id)]);
    expect(answers[0]).toBe(answers[1]);
    expect(answers[2]).toBe(answers[3]);
    const own = (text: string): number => reads.filter((read) => read.includes(text)).length;
    expect([own('list {"workflow"'), own('counts {"workflow"')]).toEqual([1, 1]);
    expect(await get(filtered)).toContain('"unseen"');
    expect(await get(filtered, "nonsense")).toContain('"unseen"');
    expect(own('list {"workflow"')).toBe(3);
    reader.close();
    await console.close();
  });
});

describe("limits", () => {
  const world = worldOn("memory", {}, { streams: { beat: 20 } });

  test("stream 501, of 26 tokens with 20 each, gets 429, and the others still get events", async () => {
    const many = Array.from({ length: 26 }, (_, i) => `stream-token-${i}`);
    const tokens = many.map((token, i) => ({ name: `t${i}`, hash: hashToken(token), role: "read" as const }));
    const console = createConsole(world.engine, { tokens });
    await world.engine.start("waiting", {}, { id: "crowd" });
    const readers: Reader[] = [];
    for (const token of many.slice(0, 25))
      for (let i = 0; i < 20; i++) {
        const reader = await opened(console.fetch, "run:crowd", { token });
        expect(reader.status).toBe(200);
        readers.push(reader);
      }
    const refused = await opened(console.fetch, "run:crowd", { token: many[25] ?? "" });
    expect(refused.status).toBe(429);
    await world.engine.run("crowd").signal("go");
    await Promise.all(readers.map((reader) => reader.until((event) => statusOf(event) === "completed")));
    readers[0]?.close();
    const late = await opened(console.fetch, "run:crowd", { token: many[25] ?? "" });
    expect(late.status).toBe(200);
    expect(statusOf(await late.next())).toBe("completed");
    await console.close();
  });
  test("stream 21 of one token gets 429, another token does not", async () => {
    const console = createConsole(world.engine, { tokens: TOKEN_ENTRIES });
    const readers: Reader[] = [];
    for (let i = 0; i < 20; i++) readers.push(await opened(console.fetch, "counts"));
    const refused = await console.fetch(
      new Request("http://localhost/api/v1/events?topics=counts", { headers: { authorization: `Bearer ${TOKENS.reader}` } }),
    );
    expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([429, "HF_TOO_MANY_STREAMS"]);
    expect(refused.headers.get("retry-after")).not.toBeNull();
    expect((await opened(console.fetch, "counts", { token: TOKENS.admin })).status).toBe(200);
    readers[3]?.close();
    expect((await opened(console.fetch, "counts")).status).toBe(200);
    await console.close();
  });
  test("a stream that is not read is closed, and gives its place back", async () => {
    const console = createConsole(world.engine, { tokens: TOKEN_ENTRIES }, { streams: { beat: 1, ofOne: 1 } });
    const ask = () =>
      console.fetch(new Request("http://localhost/api/v1/events?topics=counts", { headers: { authorization: `Bearer ${TOKENS.reader}` } }));
    const unread = await ask();
    expect([unread.status, (await ask()).status]).toEqual([200, 429]);
    await expect.poll(async () => (await ask()).status, { interval: 20 }).toBe(200);
    await console.close();
  });
  test("a beat comes while nothing changes", async () => {
    const ends = new AbortController();
    const response = await world.console.fetch(
      new Request("http://localhost/api/v1/events?topics=run:none", {
        headers: { authorization: `Bearer ${TOKENS.reader}` },
        signal: ends.signal,
      }),
    );
    const decoder = new TextDecoder();
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let text = "";
    while (!text.includes(": beat\n\n: beat\n\n")) text += decoder.decode((await reader.read()).value);
    expect(text).toMatch(/^: open\n\n/);
    ends.abort();
  });
});
