// node scripts/tutorial.mjs [page …]: does what a page says, in a fresh folder, with the packages as they would be published. Without
// a page: docs/getting-started.md and docs/tutorial.md.
// Owns: what stands in for what a reader has: a link to this repository for the clone beside the folder, a PostgreSQL of our own for the one
// in Docker, free ports.
// Every command of a `console` block is run, and its output compared: a line "…" stands for any lines, "…" inside a line for any text.
// `command &` goes on in the background, as job %1, %2 …, until `kill`. Files are saved and changed as the text between the blocks says.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { startServer } from "@holdfast/postgres-server";
import { cleanEnvironment } from "./packed.mjs";
import { root } from "./setup.mjs";

const PAGES = ["getting-started", "tutorial"];
/** How long a command that a person would repeat is repeated, until it prints what the page says. */
const LOOKING_MS = 60_000;
const LOOK_EVERY_MS = 200;
const LOOKS = /^(npx holdfast (runs why|replay)|tail|grep) /;

const place = mkdtempSync(join(tmpdir(), "holdfast-tutorial-"));
/** @typedef {{ child: import("node:child_process").ChildProcess, command: string, said: string, heard: () => void }} Job */

/** @param {string} message @returns {never} */
function stop(message) {
  throw new Error(message);
}

/** @param {string} command @param {string} cwd @param {Record<string, string | undefined>} env */
function shell(command, cwd, env) {
  const { status, stdout, stderr } = spawnSync("bash", ["-c", command], { cwd, encoding: "utf8", env });
  return { status, stdout, stderr };
}

/** A port that no process listens on. @returns {Promise<number>} */
function freePort() {
  const server = createServer();
  return new Promise((done) =>
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => done(typeof address === "object" ? (address?.port ?? 0) : 0));
    }),
  );
}

/** @param {string} expected @param {string} printed */
function matches(expected, printed) {
  const lines = expected.split("\n").map((line) => (line === "…" ? "(?:.*\\n)*?" : `${line.split("…").map(escaped).join(".*")}\\n`));
  return new RegExp(`^${lines.join("")}$`).test(`${printed.trimEnd()}\n`);
}
/** @param {string} text */
function escaped(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** One page, and the folder, the shell and the background jobs of a reader who follows it. */
class Reader {
  /** @type {string} */
  #cwd;
  /** @type {Record<string, string | undefined>} */
  #env = cleanEnvironment();
  /** @type {Map<number, Job>} */
  #jobs = new Map();
  /** Changes of code that the page takes back later. @type {{ file: string, from: string, to: string }[]} */
  #renames = [];
  /** The ports of the page, and those used instead. @type {Map<string, number>} */
  #ports = new Map();
  /** @type {import("@holdfast/postgres-server").TestServer | undefined} */
  #postgres;

  /** @param {string} cwd */
  constructor(cwd) {
    this.#cwd = cwd;
  }

  /** @param {string} page its Markdown */
  async follow(page) {
    for (const port of new Set(page.match(/(?<=localhost:)3\d{3}\b/g))) this.#ports.set(port, await freePort());
    this.#env = { ...this.#env, PORT: String(this.#ports.get("3000") ?? "") };
    for (const [, text = "", language, block = ""] of page.matchAll(/([\s\S]*?)^```(\w+)\n([\s\S]*?)^```$/gm)) {
      const file = await this.#read(text);
      if (file !== undefined) await this.#save(file, block);
      // The other file is the one that init has written.
      else if (language === "ts" && readFileSync(join(this.#cwd, "workflows/hello.ts"), "utf8") !== block)
        stop("workflows/hello.ts is not what the page shows.");
      if (language !== "console") continue;
      for (const part of block.split(/^\$ /m).slice(1)) {
        const [command = "", ...expected] = part.trimEnd().split("\n");
        console.log(`$ ${command}`);
        await this.#attempt(command, expected.join("\n"));
      }
    }
    this.#checkStarts();
  }

  async end() {
    for (const number of this.#jobs.keys()) await this.#kill(number, "SIGKILL");
    await this.#postgres?.stop();
  }

  /** What the text before a block asks for: the name of a file to save the block as. @param {string} text */
  async #read(text) {
    const [, from, file, to] = /rename the step `(\w+)` in `([^`]+)` to `(\w+)`/.exec(text) ?? [];
    if (from !== undefined && file !== undefined && to !== undefined) {
      this.#renames.push({ file, from, to });
      await this.#replace(file, `"${from}"`, `"${to}"`);
    } else if (/^Rename it back/m.test(text)) {
      const last = this.#renames.pop() ?? stop("There is nothing to rename back.");
      await this.#replace(last.file, `"${last.to}"`, `"${last.from}"`);
    }
    for (const [, old = "", next = "", path = ""] of text.matchAll(/replace `([^`]+)` by `([^`]+)` in `([^`]+)`/g))
      await this.#replace(path, old, next);
    return /[Ss]ave this as `([^`]+)`/.exec(text)?.[1];
  }

  /** @param {string} file @param {string} from @param {string} to */
  async #replace(file, from, to) {
    const text = readFileSync(join(this.#cwd, file), "utf8");
    if (!text.includes(from)) stop(`${file} has no ${from}.`);
    await this.#save(file, text.replaceAll(from, to));
  }

  /** Writes a file of the project. If `holdfast dev` runs, it has the new code when this returns. @param {string} file @param {string} text */
  async #save(file, text) {
    const dev = [...this.#jobs.values()].find(({ command }) => command === "npx holdfast dev");
    if (dev !== undefined) dev.said = "";
    mkdirSync(dirname(join(this.#cwd, file)), { recursive: true });
    writeFileSync(join(this.#cwd, file), text);
    if (dev !== undefined) await this.#saying(dev, /Reloaded/);
  }

  /** @param {string} command @param {string} expected */
  async #attempt(command, expected) {
    const deadline = Date.now() + LOOKING_MS;
    for (;;) {
      const { status, stdout, stderr } = await this.#run(command);
      if (status !== 0) stop(`It ended with ${status}:\n${stdout}${stderr}`);
      if (expected === "" || matches(expected, stdout) || matches(expected, `${stderr}${stdout}`)) return;
      if (!LOOKS.test(command) || Date.now() > deadline) stop(`It printed\n${stderr}${stdout}\ninstead of\n${expected}`);
      await setTimeout(LOOK_EVERY_MS);
    }
  }

  /** @param {string} written as the page has it */
  async #run(written) {
    const command = written.replaceAll(/(localhost:|\bPORT=)(3\d{3})\b/g, (_, before, port) => `${before}${this.#ports.get(port)}`);
    const done = { status: 0, stdout: "", stderr: "" };
    const [, folder] = /^mkdir (\S+) && cd \1$/.exec(command) ?? [];
    const [, name, value = ""] = /^export (\w+)=(\S+)$/.exec(command) ?? [];
    const [, flags, numbers] = /^kill( -9)?((?: %\d)+)$/.exec(command) ?? [];
    if (folder !== undefined) {
      this.#cwd = join(this.#cwd, folder);
      mkdirSync(this.#cwd);
    } else if (name !== undefined) {
      this.#env = { ...this.#env, [name]: value.startsWith("postgres:") ? await this.#databaseUrl() : value };
    } else if (numbers !== undefined) {
      for (const number of numbers.match(/\d/g) ?? []) await this.#kill(Number(number), flags === undefined ? "SIGTERM" : "SIGKILL");
    } else if (command.startsWith("docker run ")) await this.#databaseUrl();
    else if (command === "npx holdfast dev") {
      // In a terminal of its own, where Ctrl+C has ended the one before.
      for (const [number, job] of this.#jobs) if (job.command === command) await this.#kill(number, "SIGINT");
      await this.#start(command);
    } else if (command.endsWith(" &")) await this.#start(command.slice(0, -2));
    else return shell(command, this.#cwd, this.#env);
    return done;
  }

  async #databaseUrl() {
    this.#postgres ??= await startServer({ own: true });
    return this.#postgres.url();
  }

  /** Starts a command in the background, and waits until it says that it listens. @param {string} command */
  async #start(command) {
    const child = spawn("bash", ["-c", command], { cwd: this.#cwd, env: this.#env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    /** @type {Job} */
    const job = { child, command, said: "", heard: () => {} };
    const listen = (/** @type {Buffer} */ chunk) => {
      job.said += chunk.toString();
      job.heard();
    };
    child.stdout.on("data", listen);
    child.stderr.on("data", listen);
    this.#jobs.set(Math.max(0, ...this.#jobs.keys()) + 1, job);
    await this.#saying(job, /Listening|http:\/\/\S+/);
  }

  /** Waits until a job has said this. @param {Job} job @param {RegExp} what */
  async #saying(job, what) {
    await new Promise((done, failed) => {
      const look = () => what.test(job.said) && done(undefined);
      job.heard = look;
      job.child.once("exit", (code) => failed(new Error(`${job.command} ended with ${code}:\n${job.said}`)));
      look();
    });
    job.heard = () => {};
  }

  /** @param {number} number @param {NodeJS.Signals} signal */
  async #kill(number, signal) {
    const { child } = this.#jobs.get(number) ?? stop(`There is no job %${number}.`);
    this.#jobs.delete(number);
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((done) => child.once("close", done));
    // The group, as a shell does for a job.
    process.kill(-child.pid, signal);
    await ended;
  }

  /** The files for a deploy start what `npm start` starts. */
  #checkStarts() {
    const { scripts } = JSON.parse(readFileSync(join(this.#cwd, "package.json"), "utf8"));
    if (scripts.start === undefined) return;
    const image = readFileSync(join(this.#cwd, "Dockerfile"), "utf8");
    const [, inImage = "[]"] = /^CMD (.*)$/m.exec(image) ?? [];
    const [, inUnit] = /^ExecStart=\/usr\/bin\/(.*)$/m.exec(readFileSync(join(this.#cwd, "trials.service"), "utf8")) ?? [];
    if (JSON.parse(inImage).join(" ") !== scripts.start || inUnit !== scripts.start)
      stop(`The deploy does not start \`${scripts.start}\`.`);
  }
}

try {
  for (const name of process.argv.length > 2 ? process.argv.slice(2) : PAGES) {
    const start = performance.now();
    const folder = join(place, name);
    mkdirSync(folder);
    symlinkSync(root, join(folder, "holdfast"));
    const reader = new Reader(folder);
    try {
      await reader.follow(readFileSync(join(root, "docs", `${name}.md`), "utf8"));
    } finally {
      await reader.end();
    }
    console.log(`docs/${name}.md is true (${((performance.now() - start) / 1_000).toFixed(1)} s).`);
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(place, { recursive: true, force: true });
}
