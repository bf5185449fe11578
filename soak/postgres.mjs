// The PostgreSQL server of a soak, and the faults that hit it.
// Owns: the server, unless --url names one; its crashes, the connections that are cut, and the slow network in front of it.
// Invariants: when the faults end, the server runs and the network is fast. A server that --url names is never killed; only its
// connections are cut.

import { ask, LAST_BYTES, SlowNetwork, startServer } from "@holdfast/postgres-server";
import { note } from "./effects.mjs";

const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** @type {(readonly ["asked" | "answered", number])[]} */
const SLOW = [
  ["asked", LAST_BYTES],
  ["asked", Number.POSITIVE_INFINITY],
  ["answered", Number.POSITIVE_INFINITY],
];

export class Postgres {
  #quiet = false;
  /** @type {Promise<void>} */
  #tormented = Promise.resolve();
  deaths = 0;
  cuts = 0;

  /** @param {string} direct @param {SlowNetwork} network @param {import("@holdfast/postgres-server").TestServer | undefined} server @param {import("./random.mjs").Random} random */
  constructor(direct, network, server, random) {
    /** The URL that bypasses the slow network. */
    this.direct = direct;
    this.network = network;
    this.server = server;
    this.random = random;
  }
  /** @param {string | undefined} url @param {import("./random.mjs").Random} random */
  static async start(url, random) {
    const server = url === undefined ? await startServer({ durable: true }) : undefined;
    const direct = url ?? (await /** @type {import("@holdfast/postgres-server").TestServer} */ (server).createDatabase());
    return new Postgres(direct, await SlowNetwork.to(direct), server, random);
  }
  get url() {
    return this.network.url;
  }
  /** How often bytes were delayed. */
  get late() {
    return this.network.faults;
  }

  torment() {
    this.#tormented = this.#torment();
  }
  async #torment() {
    while (!this.#quiet) {
      await pause(this.random.between(200, 1_500));
      if (this.#quiet) return;
      const dice = this.random.next();
      if (this.server !== undefined && dice < 0.15) await this.#die(this.server);
      else if (dice < 0.55) await this.#cut();
      else await this.#slowDown();
    }
  }
  /** Delays bytes for a while: the end of a request, so that a commit stays half sent; whole requests; or answers. */
  async #slowDown() {
    const { random } = this;
    const ms = random.pick([600, 1_600, 3_000]);
    const [direction, bytes] = random.pick(SLOW);
    const chance = random.pick([0.05, 0.3, 1]);
    note({ e: "fault", what: "down", pid: 0 });
    this.network.fault = (which, piece) =>
      which === direction && random.chance(chance) ? { bytes: Math.min(bytes, piece.length), ms } : undefined;
    await pause(random.between(500, 3_000));
    this.network.fault = undefined;
    note({ e: "fault", what: "up", pid: 0 });
  }
  /** Kills the server, which breaks all connections, and restarts it after a while. @param {import("@holdfast/postgres-server").TestServer} server */
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
      this.direct,
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
    await this.network.close();
    await this.server?.stop();
  }
}
