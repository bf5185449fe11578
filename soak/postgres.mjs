// The PostgreSQL under a soak, and what is done to it.
// Owns: the server, if it is ours; its deaths, and the connections that are cut.
// Invariants: when faults stop, the server runs. A server that was named from outside is never killed; its connections are cut.

import { ask, startServer } from "@holdfast/postgres-server";
import { note } from "./effects.mjs";

const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Postgres {
  #quiet = false;
  /** @type {Promise<void>} */
  #tormented = Promise.resolve();
  deaths = 0;
  cuts = 0;

  /** @param {string} url @param {import("@holdfast/postgres-server").TestServer | undefined} server @param {import("./random.mjs").Random} random */
  constructor(url, server, random) {
    this.url = url;
    this.server = server;
    this.random = random;
  }
  /** @param {string | undefined} url @param {import("./random.mjs").Random} random */
  static async start(url, random) {
    if (url !== undefined) return new Postgres(url, undefined, random);
    const server = await startServer({ durable: true });
    return new Postgres(await server.createDatabase(), server, random);
  }

  torment() {
    this.#tormented = this.#torment();
  }
  async #torment() {
    while (!this.#quiet) {
      await pause(this.random.between(200, 1_500));
      if (this.#quiet) return;
      if (this.server !== undefined && this.random.chance(0.2)) await this.#die(this.server);
      else await this.#cut();
    }
  }
  /** All of its connections break, whatever they are doing; it is gone for a while, and recovers. @param {import("@holdfast/postgres-server").TestServer} server */
  async #die(server) {
    this.deaths++;
    note({ e: "fault", what: "down", pid: 0 });
    await server.kill();
    await pause(this.random.between(0, 1_000));
    await server.restart();
    note({ e: "fault", what: "up", pid: 0 });
  }
  /** Some connections break. */
  async #cut() {
    const [row] = await ask(
      this.url,
      `SELECT count(pg_terminate_backend(pid))::int AS cut FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < $1`,
      [this.random.next()],
    );
    this.cuts += Number(row?.["cut"]);
  }
  async calm() {
    this.#quiet = true;
    await this.#tormented;
  }
  async close() {
    await this.calm();
    await this.server?.stop();
  }
}
