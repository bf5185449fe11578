// The configuration of `holdfast dev`, read again when it is saved.
// Owns: the files that it is made of, and the restart that is under way.
// Invariants: restarts happen one after the other; one that fails is reported, and the configuration before it stays in use until a save.

import { basename, dirname } from "node:path";
import type { ConfigWatch } from "../../code/liveCode.ts";
import { isConfigName } from "../../config/discover.ts";
import type { Settings } from "../../config/settings.ts";
import { loadedFiles, shownPath } from "../../hook/index.ts";
import { textOf, usage } from "../failures.ts";
import type { Session } from "../session.ts";
import { sayError } from "./server.ts";

export class DevConfig implements ConfigWatch {
  readonly #session: Session;
  #settings: Settings;
  #files: ReadonlySet<string> = new Set(loadedFiles());
  #restart: ((settings: Settings) => Promise<void>) | undefined;
  /** What is missing may come with any file. */
  #isBroken = false;
  #isChanged = false;
  #busy: Promise<unknown> = Promise.resolve();

  constructor(session: Session, settings: Settings) {
    this.#session = session;
    this.#settings = settings;
  }
  /** From now on `restart` is called with each new configuration. */
  follow(restart: (settings: Settings) => Promise<void>): void {
    this.#restart = restart;
    if (this.#isChanged) void this.changed();
  }
  concerns(file: string): boolean {
    return this.#isBroken || this.#files.has(file) || (dirname(file) === this.#settings.root && isConfigName(basename(file)));
  }
  changed(): Promise<boolean> {
    this.#isChanged = true;
    const used = this.#busy.then(() => this.#read());
    this.#busy = used;
    return used;
  }
  /** Waits for a restart that is under way; there will be no other. */
  async close(): Promise<void> {
    this.#restart = undefined;
    await this.#busy;
  }

  /** True: there is nothing else to do about the save. */
  async #read(): Promise<boolean> {
    const restart = this.#restart;
    // Several saves are one restart.
    if (restart === undefined || !this.#isChanged) return true;
    this.#isChanged = false;
    let next: Settings | undefined;
    try {
      next = await this.#fresh();
      await restart(next);
      this.#settings = next;
      this.#isBroken = false;
      return true;
    } catch (error) {
      this.#isBroken = true;
      sayError(this.#session, `${await textOf(error)}\nThe configuration before it stays in use.`);
      return next === undefined;
    } finally {
      this.#files = new Set(loadedFiles());
    }
  }
  async #fresh(): Promise<Settings> {
    const next = await this.#session.freshSettings();
    const { configFile } = this.#settings;
    // An editor may replace it in two steps.
    if (configFile !== undefined && next.configFile === undefined) throw usage(`${shownPath(configFile, this.#session.io.cwd)} is gone.`);
    return next;
  }
}
