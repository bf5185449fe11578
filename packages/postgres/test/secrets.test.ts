// A password is in no error, however it is looked at, and in no line of the log.

import { inspect } from "node:util";
import { InvalidInputError } from "@holdfast/core";
import { Holdfast, type Logger } from "holdfast";
import { describe, expect, test } from "vitest";
import { PostgresStore } from "../src/index.ts";
import { useDatabase } from "./support.ts";

const database = useDatabase();
const SECRET = "hunter2";

/** Everything that a logger or a debugger may show of it. */
const shownOf = (error: unknown): string =>
  [inspect(error, { depth: null, showHidden: true, getters: true }), String(error), (error as Error).stack, JSON.stringify(error)].join(
    "\n",
  );

/** Urls that can't be read, or not as they were meant. */
const MALFORMED = [
  `postgres://user:${SECRET}@[/x`,
  `postgres://user:${SECRET}@host:port/x`,
  `postgres://user:${SECRET}@ho st/x`,
  `postgres://user:${SECRET}`,
  `postgres://user:${SECRET}/x`,
  `postgres://user:${SECRET}%@127.0.0.1:1/x`,
  `postgres://user:${SECRET}%zz@127.0.0.1:1/x`,
  `postgres://us%er:${SECRET}@127.0.0.1:1/x`,
  `postgres://user:p/${SECRET}@host/x`,
  `postgres://user:/${SECRET}@127.0.0.1/x`,
  `postgres://user:1/${SECRET}@127.0.0.1/x`,
  `postgres://user:p?${SECRET}@host/x`,
  `postgres://user:p#${SECRET}@host/x`,
  `postgres:user:${SECRET}@host/x`,
  `postgres:/user:${SECRET}@host/x`,
  `postgres:///user:${SECRET}@host/x`,
  `postgresql:${SECRET}`,
  `postgres://user:${SECRET}@127.0.0.1:1/x?schema=a%20b`,
  `postgres://user:${SECRET}@127.0.0.1:1/x?connections=${SECRET}@host`,
  `postgres://user:${SECRET}@127.0.0.1:1/x?retention=${SECRET}@host`,
  `postgres://user:${SECRET}@127.0.0.1:1/x%`,
  `postgres://127.0.0.1:1/x?user=u&password=${SECRET}&connections=none`,
];

describe("an url that can't be read is an InvalidInputError without what is in it", () => {
  test.each(MALFORMED.map((url) => [url.replaceAll(SECRET, "…"), url]))("%s", async (_, url) => {
    const thrown: unknown[] = [];
    try {
      PostgresStore.fromUrl(url);
    } catch (error) {
      thrown.push(error);
    }
    thrown.push(await Holdfast.open(url).catch((error: unknown) => error));
    expect(thrown).toEqual([expect.any(InvalidInputError), expect.any(InvalidInputError)]);
    for (const error of thrown) expect(shownOf(error)).not.toContain(SECRET);
  });
  test.each(MALFORMED.map((url) => [url.replaceAll(SECRET, "…"), url]))("%s, as an option", async (_, connectionString) => {
    const error = await (async () => {
      const store = new PostgresStore({ connectionString, patience: 0 });
      await store.open().finally(() => store.close());
    })().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(shownOf(error)).not.toContain(SECRET);
  });
});

describe("one that can be read, of a server that can't be used, is named without its password", () => {
  const url = (change: (url: URL) => void): string => {
    const changed = new URL(database.url);
    changed.password = SECRET;
    change(changed);
    return changed.href;
  };
  test.each<[string, (given: URL) => void]>([
    ["a wrong password", () => undefined],
    ["a password in the query", (given) => { given.password = ""; given.searchParams.set("password", SECRET); }], // biome-ignore format: one line
    ["no server", (given) => { given.port = "1"; }], // biome-ignore format: one line
    ["no host of that name", (given) => { given.hostname = "nowhere.invalid"; }], // biome-ignore format: one line
    ["no TLS", (given) => given.searchParams.set("sslmode", "require")],
    ["no file of a certificate", (given) => given.searchParams.set("sslrootcert", "/nowhere.pem")],
    ["an unknown sslmode", (given) => given.searchParams.set("sslmode", "maybe")],
  ])("%s", async (_, change) => {
    const lines: unknown[] = [];
    const note = (...line: unknown[]): void => void lines.push(line);
    const logger: Logger = { debug: note, info: note, warn: note, error: note };
    const error = await Holdfast.open(`${url(change)}${url(change).includes("?") ? "&" : "?"}patience=1`, { logger }).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(Error);
    expect(shownOf(error)).not.toContain(SECRET);
    expect(shownOf(lines)).not.toContain(SECRET);
  });
});
