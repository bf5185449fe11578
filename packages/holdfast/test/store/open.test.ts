// From a url to a store: what is refused, and what has to be installed first.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { ask, startServer, type TestServer } from "@holdfast/postgres-server";
import { Holdfast, InvalidInputError, RunNotFoundError, workflow } from "holdfast";
import type { SqliteTransaction } from "holdfast/store";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { build, root } from "../built.ts";

async function refusalOf(url: unknown, options = {}): Promise<InvalidInputError> {
  const error = await Holdfast.open(url as string, options).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof InvalidInputError)) throw new Error(`not refused: ${String(error)}`);
  return error;
}

describe("urls", () => {
  test("what is not the url of a store is refused, and a password in it is not repeated", async () => {
    const { message } = await refusalOf("mysql://root:s3cret@localhost/app");
    expect(message).toContain("mysql://…@localhost/app");
    expect(message).toContain("postgres://");
    expect(message).not.toContain("s3cret");
    expect((await refusalOf(7)).message).toContain("must be text");
    expect((await refusalOf("file:")).message).toContain("names no file");
    expect((await refusalOf("file:./x.db?synchronous=OFF")).message).toContain("synchronous=NORMAL");
  });

  test.each([
    "x://u:se/s3cret@h",
    "x://u:s3cret@more@h/d",
    "x:u:s3cret@h",
    "u:s3cret@h",
    "x://u:\ns3cret\n@h",
    "x://h/d?password=s3cret",
    "file://u:s3cret@h/x.db",
    "file://u:s3cret@h:1/x.db",
  ])("a password is not repeated, wherever it is in %j", async (url) => {
    const { message } = await refusalOf(url);
    expect(message).not.toContain("s3cret");
    expect(message).toContain(url.includes("@") ? "…@h" : "?…");
  });

  test.each(["host=h user=u password=s3cret", "file:./never-made.db?password=s3cret", "file:./never-made.db?key=s3cret"])(
    "a password is nowhere in the error about %s",
    async (url) => {
      expect(inspect(await refusalOf(url), { depth: null, showHidden: true })).not.toContain("s3cret");
    },
  );

  test.each(["file://./app.db", "file://app.db", "file://otherhost/tmp/never-made.db", "file://../x.db", "file://u@localhost/tmp/x.db"])(
    "%s names another host, and no file of this one",
    async (url) => {
      expect((await refusalOf(url)).message).toContain('"file:./app.db"');
    },
  );
  test("a file of this host is opened by its path, with or without the host", async () => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-open-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const urls = [`file:${folder}/a b.db`, `file://${folder}/a%20b.db`, `file://localhost${folder}/a%20b.db?synchronous=normal`];
    for (const url of urls) await (await Holdfast.open(url)).close();
    expect(readdirSync(folder).filter((name) => name.endsWith(".db"))).toEqual(["a b.db"]);
  });
  test.each(["file:./x.db?synchronous=NORMAL?bogus=1", "file:///tmp/x.db#part", "file:///%zz"])(
    "nothing of %s is dropped in silence",
    async (url) => {
      await refusalOf(url);
    },
  );

  test.each(["", "a.b", "a/b", "../up", "a b", "ä", "x".repeat(51), 7, null])("B5 %j is refused as a namespace", async (namespace) => {
    for (const url of ["memory:", "file:./never-made.db", "postgres://localhost/app"])
      expect((await refusalOf(url, { namespace })).issues).toMatchObject([{ path: ["namespace"] }]);
  });
  test.each([0, -1, Number.NaN, "soon", "", {}, null])("B4 %j is refused as a retention", async (retention) => {
    expect((await refusalOf("memory:", { retention })).issues).toMatchObject([{ path: ["retention"] }]);
  });

  test("B5 on SQLite a namespace is a file beside the others, and transactions work on that file", async () => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-namespaces-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const note = workflow("note", async (ctx, text: string) =>
      ctx.transaction("write", (tx) => {
        const database = tx as SqliteTransaction;
        database.exec("CREATE TABLE notes (text TEXT)");
        database.run("INSERT INTO notes VALUES (?)", text);
        return database.all("SELECT text FROM notes").map((row) => row["text"]);
      }),
    );
    const open = async (namespace?: string): Promise<Holdfast> => {
      const engine = await Holdfast.open(`file:${folder}/app.db`, namespace === undefined ? {} : { namespace });
      onTestFinished(() => engine.close());
      await engine.worker({ workflows: [note] });
      return engine;
    };
    const [none, blue, blueToo, green] = await Promise.all([open(), open("blue"), open("blue"), open("green-2")]);
    for (const [engine, text] of [
      [none, "none"],
      [blue, "blue"],
      [green, "green"],
    ] as const)
      expect(await (await engine.start(note, text, { id: "r", idempotencyKey: "k" })).result()).toEqual([text]);
    expect((await blueToo.run("r").describe()).input).toBe("blue");
    const files = readdirSync(folder)
      .filter((name) => name.endsWith(".db"))
      .toSorted();
    expect(files).toEqual(["app.blue.db", "app.db", "app.green-2.db"]);
  });

  test("B5 in memory engines with one namespace share their runs, and engines without one share nothing", async () => {
    const greet = workflow("greet", async (_ctx, name: string) => `Hello, ${name}!`);
    const open = async (namespace?: string): Promise<Holdfast> => {
      const engine = await Holdfast.open("memory:", namespace === undefined ? {} : { namespace });
      onTestFinished(() => engine.close());
      return engine;
    };
    const [none, noneToo, blue, blueToo, green] = await Promise.all([open(), open(), open("blue"), open("blue"), open("green")]);
    await none.start(greet, "none", { id: "r" });
    const run = await blue.start(greet, "blue", { id: "r" });
    for (const other of [noneToo, green]) await expect(other.run("r").describe()).rejects.toThrow(RunNotFoundError);
    await blueToo.worker({ workflows: [greet] });
    expect(await run.result()).toBe("Hello, blue!"); // both are notified of what the other writes
    await blue.close();
    expect((await (await open("blue")).run("r").describe()).status).toBe("completed");
  });
});

describe("PostgreSQL", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
    return () => server.stop();
  }, 60_000);

  test("both names of the scheme open it, with a logger", async () => {
    const url = await server.createDatabase();
    const lines: string[] = [];
    const line = (message: string) => void lines.push(message);
    const logger = { debug: line, info: line, warn: line, error: line };
    await (await Holdfast.open(url)).close();
    await (await Holdfast.open(url.replace("postgres:", "postgresql:"), { logger })).close();
    expect(lines).toEqual([]);
  });

  test("namespaces are their own schemas: runs of one are unknown in another", async () => {
    const url = await server.createDatabase();
    const greet = workflow("greet", async (_ctx, name: string) => `Hello, ${name}!`);
    const engines = await Promise.all(
      [undefined, "default", "blue", "green"].map((namespace) => Holdfast.open(url, namespace === undefined ? {} : { namespace })),
    );
    onTestFinished(() => Promise.all(engines.map((engine) => engine.close())).then(() => {}));
    const [first, same, blue, green] = engines as [Holdfast, Holdfast, Holdfast, Holdfast];
    await first.start(greet, "Ada", { id: "r" });
    await blue.start(greet, "Bob", { id: "r" });
    expect((await same.run("r").describe()).input).toBe("Ada");
    expect((await blue.run("r").describe()).input).toBe("Bob");
    await expect(green.run("r").describe()).rejects.toThrow(RunNotFoundError);
    await green.worker({ workflows: [greet] });
    await blue.worker({ workflows: [greet] });
    expect(await blue.run("r").result()).toBe("Hello, Bob!");
    expect((await first.run("r").describe()).status).toBe("pending");
    const schemas = await ask(url, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'holdfast%' ORDER BY 1");
    expect(schemas.map(({ nspname }) => nspname)).toEqual(["holdfast", "holdfast_blue", "holdfast_green"]);
  });

  test("a namespace that can't be one is refused", async () => {
    const error = await refusalOf("postgres://localhost/app", { namespace: 'x"; DROP TABLE runs' });
    expect(error.issues).toMatchObject([{ path: ["namespace"] }]);
  });
});

describe("a package that is not there", () => {
  beforeAll(() => build(), 120_000);

  /** A project that has installed these packages and no others; what the program writes. */
  function inProject(program: string, add: (folder: string) => void = () => {}): unknown {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-open-"));
    try {
      for (const [name, target] of INSTALLED)
        for (const part of ["package.json", "dist"])
          cpSync(join(root, "packages", name, part), join(folder, "node_modules", target, part), { recursive: true });
      cpSync(join(root, "node_modules/croner"), join(folder, "node_modules/croner"), { recursive: true });
      add(folder);
      const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { cwd: folder, encoding: "utf8" });
      if (stdout === "") throw new Error(stderr);
      return JSON.parse(stdout);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  test.each([
    ["postgres://localhost/app", "@holdfast/postgres"],
    ["temporal://localhost:7233/default", "@holdfast/temporal"],
    ["temporals://cloud:7233/default", "@holdfast/temporal"],
  ])("%s without %s names the command that installs it", (url, name) => {
    const program = `
      import { Holdfast } from "holdfast";
      await Holdfast.open("${url}").catch(({ name, code, message }) => console.log(JSON.stringify({ name, code, message })));
    `;
    expect(inProject(program)).toMatchObject({
      name: "InvalidInputError",
      code: "HF_INVALID_INPUT",
      message: expect.stringContaining(`npm install ${name}"`),
    });
  });

  test("replay of a history of Temporal without @holdfast/temporal names the command, and not Holdfast.open", () => {
    const program = `
      import { replay, workflow } from "holdfast";
      const events = { events: [] };
      await replay(workflow("w", async () => {}), events).catch(({ code, message }) => console.log(JSON.stringify({ code, message })));
    `;
    expect(inProject(program)).toMatchObject({
      code: "HF_INVALID_INPUT",
      message: expect.stringMatching(/^(?!.*Holdfast\.open).*npm install @holdfast\/temporal"/s),
    });
  });

  test("temporal:// opens what @holdfast/temporal exports as openBackend(url, options)", () => {
    const program = `
      import { Holdfast } from "holdfast";
      const holdfast = await Holdfast.open("temporal://localhost:7233/shop", { namespace: "shop" });
      console.log(JSON.stringify(await holdfast.count()));
    `;
    const source = `
      export const openBackend = async (url, { codec, limits, namespace, logger }) => ({
        count: async () => ({ url, namespace, codec: typeof codec.encode, logger: typeof logger.warn, limit: limits.payloadBytes }),
      });
    `;
    const answer = inProject(program, (folder) => {
      const home = join(folder, "node_modules", "@holdfast", "temporal");
      mkdirSync(home);
      writeFileSync(join(home, "package.json"), JSON.stringify({ name: "@holdfast/temporal", type: "module", exports: "./index.js" }));
      writeFileSync(join(home, "index.js"), source);
    });
    const url = "temporal://localhost:7233/shop";
    expect(answer).toEqual({ url, namespace: "shop", codec: "function", logger: "function", limit: expect.any(Number) });
  });
});

/** Package by package: its folder here, and where it is installed. */
const INSTALLED = [
  ["holdfast", "holdfast"],
  ["core", "@holdfast/core"],
  ["host", "@holdfast/host"],
] as const;
