// Worker processes, and the faults that hit them.
// Owns: the processes; kills, freezes, thaws and stops; what the workers wrote to stderr.
// Invariants: a worker that ends unasked is a finding; when the faults end, every place has a running worker.

import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { note } from "./effects.mjs";

/** @typedef {{ child: import("node:child_process").ChildProcess, frozen: boolean, doomed: boolean, ready: boolean }} Member */

const LONGEST_STOP = 15_000;
const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Pool {
  /** @type {(Member | undefined)[]} */
  #members = [];
  #quiet = false;
  kills = 0;
  freezes = 0;
  stops = 0;
  /** @type {string[]} */
  findings = [];

  /**
   * @param {{ url: string, effects: string, folder: string, lease: number, workers: number, faults: number, random: import("./random.mjs").Random }} options
   * `faults`: milliseconds from one fault to the next
   */
  constructor(options) {
    this.options = options;
    this.stderr = createWriteStream(join(options.folder, "workers.log"), { flags: "a" });
    for (let i = 0; i < options.workers; i++) this.#spawn(i);
    // However this process ends, it leaves no worker behind, frozen ones included.
    process.once("exit", () => {
      for (const member of this.#members) member?.child.kill("SIGKILL");
    });
  }
  get alive() {
    return this.#members.filter((member) => member?.ready === true && !member.frozen).length;
  }

  /** @param {number} place */
  #spawn(place) {
    const { url, effects, lease } = this.options;
    const child = spawn(process.execPath, [join(import.meta.dirname, "worker.mjs"), url, effects, String(lease)], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    /** @type {Member} */
    const member = { child, frozen: false, doomed: false, ready: false };
    this.#members[place] = member;
    child.stderr?.pipe(this.stderr, { end: false });
    child.on("message", () => {
      member.ready = true;
    });
    child.on("error", (error) => this.findings.push(`a worker could not be started: ${error.message}`));
    child.on("exit", (code, signal) => {
      if (this.#members[place] === member) this.#members[place] = undefined;
      if (member.doomed) return;
      this.findings.push(`worker ${child.pid} ended unasked: exit code ${code}, signal ${signal} (see workers.log)`);
      setTimeout(() => this.#spawn(place), 200);
    });
    note({ e: "fault", what: "spawn", pid: child.pid });
  }

  /** Kills, freezes or stops a random worker again and again, until `calm` or `close`. */
  async torment() {
    const { random, faults } = this.options;
    while (!this.#quiet) {
      await this.#untilQuiet(random.between(faults / 5, (9 * faults) / 5));
      if (this.#quiet) return;
      this.#strike(random.next());
    }
  }
  /** Kills a random worker every `faults` milliseconds; halfway in between, another is frozen or stopped. */
  async tormentSteadily() {
    const { random, faults } = this.options;
    for (let isKill = false; !this.#quiet; isKill = !isKill) {
      await this.#untilQuiet(faults / 2);
      if (this.#quiet) return;
      this.#strike(isKill ? 0 : random.between(50, 99) / 100);
    }
  }
  async #untilQuiet(/** @type {number} */ ms) {
    const until = performance.now() + ms;
    while (!this.#quiet && performance.now() < until) await pause(Math.min(100, Math.max(0, until - performance.now())));
  }
  /** @param {number} dice from 0 to 1: what happens to a random worker */
  #strike(dice) {
    const { random, lease } = this.options;
    const place = random.between(0, this.#members.length - 1);
    const member = this.#members[place];
    if (member === undefined || member.frozen || member.doomed || !member.ready) return;
    if (dice < 0.45) void this.#kill(place, member, random.between(0, 400));
    else if (dice < 0.85) void this.#freeze(place, member, Math.round(lease * (0.5 + 2.5 * random.next())), random.chance(0.2));
    else void this.#stop(place, member);
  }
  /** @param {number} place @param {Member} member @param {number} gap */
  async #kill(place, member, gap) {
    this.kills++;
    await this.#end(member, "kill", "SIGKILL");
    await pause(gap);
    this.#spawn(place);
  }
  /** @param {number} place @param {Member} member @param {number} ms @param {boolean} forGood whether it is killed while frozen */
  async #freeze(place, member, ms, forGood) {
    this.freezes++;
    const { child } = member;
    member.frozen = true;
    child.kill("SIGSTOP");
    note({ e: "fault", what: "freeze", pid: child.pid });
    await pause(ms);
    if (forGood) return this.#kill(place, member, 0);
    note({ e: "fault", what: "thaw", pid: child.pid });
    child.kill("SIGCONT");
    member.frozen = false;
    return undefined;
  }
  /** @param {number} place @param {Member} member */
  async #stop(place, member) {
    this.stops++;
    const late = setTimeout(() => {
      this.findings.push(`worker ${member.child.pid} did not stop within ${LONGEST_STOP} ms of SIGTERM`);
      member.child.kill("SIGKILL");
    }, LONGEST_STOP);
    await this.#end(member, "stop", "SIGTERM");
    clearTimeout(late);
    if (member.child.exitCode !== 0)
      this.findings.push(`worker ${member.child.pid} exited with ${member.child.exitCode} after SIGTERM (see workers.log)`);
    this.#spawn(place);
  }
  /** @param {Member} member @param {"kill" | "stop"} what @param {NodeJS.Signals} signal */
  #end(member, what, signal) {
    member.doomed = true;
    const { child } = member;
    return new Promise((resolve) => {
      child.once("exit", resolve);
      note({ e: "fault", what, pid: child.pid });
      child.kill(signal);
    });
  }

  /** Ends the faults, and waits until every worker is running again. */
  async calm() {
    this.#quiet = true;
    while (this.alive < this.options.workers) await pause(50);
  }
  async close() {
    this.#quiet = true;
    await Promise.all(
      this.#members.map(async (member) => {
        if (member === undefined) return;
        member.doomed = true;
        const ended = new Promise((resolve) => member.child.once("exit", resolve));
        member.child.kill("SIGCONT");
        member.child.kill("SIGKILL");
        await ended;
      }),
    );
    await new Promise((resolve) => this.stderr.end(resolve));
  }
}
