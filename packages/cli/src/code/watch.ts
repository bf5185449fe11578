// Notices that a source file was saved.
// Owns: the watchers of folders.
// Invariants: each folder is watched by itself: on Linux, Node 20 watches a tree by opening every file in it. Where the system allows no more
// watchers, folders are looked at twice a second instead.

import { type FSWatcher, readdirSync, statSync, watch } from "node:fs";
import { join } from "node:path";

/** Milliseconds between two looks at a folder that can't be watched. */
const POLL = 500;
/** Folders that are watched at most. */
const MOST = 2_000;

export class FolderWatch {
  readonly #onChange: (file: string) => void;
  readonly #watched = new Map<string, { close(): void }>();

  /** `onChange` gets the path of what may have changed, which may be gone. */
  constructor(onChange: (file: string) => void) {
    this.#onChange = onChange;
  }
  /** Watches these folders, and no others. */
  set(folders: ReadonlySet<string>): void {
    for (const [folder, watcher] of this.#watched) {
      if (folders.has(folder)) continue;
      watcher.close();
      this.#watched.delete(folder);
    }
    for (const folder of folders) {
      if (this.#watched.has(folder) || this.#watched.size >= MOST || !isFolder(folder)) continue;
      this.#watched.set(folder, this.#watch(folder));
    }
  }
  close(): void {
    this.set(new Set());
  }

  #watch(folder: string): { close(): void } {
    let current: { close(): void };
    const poll = () => {
      current = this.#poll(folder);
    };
    try {
      const watcher: FSWatcher = watch(folder, (_, name) => this.#onChange(name === null ? folder : join(folder, name)));
      watcher.on("error", () => {
        watcher.close();
        if (isFolder(folder)) poll();
      });
      current = watcher;
    } catch {
      current = this.#poll(folder);
    }
    return { close: () => current.close() };
  }
  #poll(folder: string): { close(): void } {
    let before = timesIn(folder);
    const timer = setInterval(() => {
      const now = timesIn(folder);
      for (const name of new Set([...before.keys(), ...now.keys()]))
        if (before.get(name) !== now.get(name)) this.#onChange(join(folder, name));
      before = now;
    }, POLL);
    timer.unref();
    return { close: () => clearInterval(timer) };
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
function timesIn(folder: string): Map<string, number> {
  const times = new Map<string, number>();
  try {
    for (const name of readdirSync(folder)) times.set(name, statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0);
  } catch {
    // It is gone: so are its files.
  }
  return times;
}
