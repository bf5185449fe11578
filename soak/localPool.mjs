// Workers inside this process, for stores that other processes can't open. They can be stopped, but not killed.
// Owns: the workers.
// Invariants: when the faults end, every place has a running worker.

import { note } from "./effects.mjs";
import { activities, workflows } from "./workflows.mjs";

const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class LocalPool {
  /** @type {(any | undefined)[]} */
  #workers = [];
  #quiet = false;
  /** @type {Promise<void>} */
  #tormented = Promise.resolve();
  kills = 0;
  freezes = 0;
  stops = 0;
  /** @type {string[]} */
  findings = [];

  /** @param {{ engine: import("holdfast").Holdfast, lease: number, workers: number, random: import("./random.mjs").Random }} options */
  constructor(options) {
    this.options = options;
  }
  get alive() {
    return this.#workers.filter((worker) => worker !== undefined).length;
  }
  /** @param {number} place */
  async #start(place) {
    const { engine, lease } = this.options;
    this.#workers[place] = await engine.worker({
      workflows,
      activities,
      lease,
      concurrency: 25,
      cachedRuns: 40,
      gracePeriod: 100,
      determinism: "error",
    });
  }
  torment() {
    this.#tormented = this.#torment();
    return this.#tormented;
  }
  async #torment() {
    const { random, workers } = this.options;
    for (let place = 0; place < workers; place++) await this.#start(place);
    while (!this.#quiet) {
      await pause(random.between(100, 900));
      const place = random.between(0, workers - 1);
      this.stops++;
      note({ e: "fault", what: "stop", pid: process.pid });
      await this.#workers[place]?.stop();
      this.#workers[place] = undefined;
      await pause(random.between(0, 400));
      await this.#start(place);
    }
  }
  async calm() {
    this.#quiet = true;
    await this.#tormented;
  }
  async close() {
    this.#quiet = true;
    await this.#tormented;
    await Promise.all(this.#workers.map((worker) => worker?.stop()));
  }
}
