// One PostgreSQL: its folder, its process.
// Owns: the data directory, the port, the postmaster, and its log.
// Invariants: it listens on 127.0.0.1 alone, with a password; after `stop` nothing of it is left.

import { spawn } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { chmodSync, chownSync, createWriteStream, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { findPrograms, identity, makeFolder } from "./binaries.mjs";

/** @typedef {{ durable: boolean, settings: Record<string, string> }} ClusterOptions */

const USER = "holdfast";
const READY = "database system is ready to accept connections";
const IN_USE = "could not bind";

/**
 * What tests need, and no more: without fsync an acknowledged commit still outlives the server, though not the machine.
 * @type {Record<string, string>}
 */
const HASTY = { fsync: "off", full_page_writes: "off" };

export class Cluster {
  #password = randomBytes(12).toString("hex");
  #port = 0;
  /** @type {import("node:child_process").ChildProcess | undefined} */
  #process;
  /** The end of what it has said. */
  #said = "";

  /** @param {ClusterOptions} options */
  constructor({ durable, settings }) {
    this.who = identity();
    this.settings = { max_connections: "300", ...(durable ? {} : HASTY), ...settings };
    this.folder = makeFolder(this.who);
    chmodSync(this.folder, 0o755);
    this.programs = findPrograms(this.folder, this.who);
    this.log = createWriteStream(join(this.folder, "postgres.log"));
    this.log.on("error", () => {}); // the last lines may come as it is removed
  }
  get url() {
    return `postgres://${USER}:${this.#password}@127.0.0.1:${this.#port}/postgres`;
  }

  /** Makes the data directory, and starts. */
  async create() {
    const data = join(this.folder, "data");
    const secret = join(this.folder, "password");
    mkdirSync(data, { mode: 0o700 });
    writeFileSync(secret, this.#password, { mode: 0o600 });
    if (this.who !== undefined) for (const path of [data, secret]) chownSync(path, this.who.uid, this.who.gid);
    // Sorted as people sort, not as bytes are: what depends on the order of bytes has to say so.
    const locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en"];
    // The password is random and lives for minutes: hashing it thousands of times would only make connections slow.
    const access = [`--username=${USER}`, `--pwfile=${secret}`, "--auth=scram-sha-256", "-c", "scram_iterations=1"];
    await this.#run(this.programs.initdb, ["-D", data, ...locale, ...access, "--no-sync", "--no-instructions"]);
    rmSync(secret);
    for (let tries = 0; ; tries++) {
      this.#port = await freePort();
      try {
        return await this.#launch();
      } catch (error) {
        if (tries === 5 || !this.#said.includes(IN_USE)) throw error;
      }
    }
  }
  /** On the same port, and with what the last commit left. */
  async start() {
    if (this.#process !== undefined) return;
    await this.#launch();
  }
  /** As if the power of its process had been cut. */
  async kill() {
    await this.#end("SIGQUIT");
  }
  async stop() {
    const late = setTimeout(() => this.#process?.kill("SIGQUIT"), 5_000);
    await this.#end("SIGINT");
    clearTimeout(late);
    this.remove();
  }
  /** Ends it without waiting; for when we are ending, too. */
  abandon() {
    this.#process?.kill("SIGQUIT");
  }
  remove() {
    this.log.destroy();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #launch() {
    this.#said = "";
    const own = { listen_addresses: "127.0.0.1", port: String(this.#port), unix_socket_directories: "", lc_messages: "C" };
    const settings = Object.entries({ ...own, ...this.settings }).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const child = this.#spawn(this.programs.postgres, ["-D", join(this.folder, "data"), ...settings]);
    this.#process = child;
    child.once("exit", () => {
      if (this.#process === child) this.#process = undefined;
    });
    return /** @type {Promise<void>} */ (
      new Promise((resolve, reject) => {
        child.stderr?.on("data", () => this.#said.includes(READY) && resolve(undefined));
        child.once("error", reject);
        child.once("exit", (code, signal) => reject(this.#failure("postgres", code ?? signal)));
      })
    );
  }
  /** @param {string} program @param {string[]} args */
  #run(program, args) {
    const child = this.#spawn(program, args);
    return new Promise((resolve, reject) => {
      child.once("error", (error) => reject(new Error(`${program} can't be run: ${error.message}`, { cause: error })));
      child.once("close", (code, signal) => (code === 0 ? resolve(undefined) : reject(this.#failure(program, code ?? signal))));
    });
  }
  /** @param {string} program @param {string[]} args */
  #spawn(program, args) {
    const child = spawn(program, args, { cwd: this.folder, env: this.programs.env, stdio: ["ignore", "pipe", "pipe"], ...this.who });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (chunk) => {
        this.#said = (this.#said + chunk).slice(-8_000);
        if (!this.log.destroyed) this.log.write(chunk);
      });
    }
    return child;
  }
  /** @param {string} program @param {unknown} how */
  #failure(program, how) {
    return new Error(`${program} ended with ${how}. It said:\n${this.#said.trim()}`);
  }
  /** @param {NodeJS.Signals} signal */
  async #end(signal) {
    const child = this.#process;
    if (child === undefined) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }
}

/**
 * A free port, below those that outgoing connections get: otherwise a client that retries while the server is down would connect to
 * itself one day.
 */
async function freePort() {
  for (let tries = 0; ; tries++) {
    const port = randomInt(12_000, 32_000);
    const server = createServer();
    const isFree = await new Promise((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
    if (tries === 100) throw new Error("There is no free port between 12000 and 32000.");
  }
}
