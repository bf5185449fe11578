// One call of the command line: its options, its client, and what it prints.
// Owns: the formats of results; the client, opened when the command first asks for it.
// Invariants: standard output gets the result only, everything else goes to standard error; JSON is one document, also for nothing; text of
// users is escaped in every format.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../client/client.ts";
import type { Settings } from "../config/settings.ts";
import { isConsole } from "../config/url.ts";
import { type Colours, coloursOf } from "../terminal/colours.ts";
import { printable, printableJson } from "../terminal/escape.ts";
import type { Io } from "../terminal/io.ts";
import { type Progress, progressOn } from "../terminal/progress.ts";
import { canAsk, confirmed } from "../terminal/question.ts";
import { type Column, table } from "../terminal/table.ts";
import { usage } from "./failures.ts";
import type { Globals } from "./globals.ts";

/** A result, in each of its forms. */
export interface Shown {
  readonly json: unknown;
  /** What `jsonl` prints, a line each. Default: the document. */
  readonly lines?: readonly unknown[];
  /** What `id` prints, a line each. Default: as the table. */
  readonly ids?: readonly string[];
  /** For people. It is safe to show. */
  readonly human: () => readonly string[];
}

/** What a client is opened for. */
type Mode = "read" | "code" | "write";

/** How long closing may take, in milliseconds. */
const PATIENCE = 5_000;

export class Session {
  readonly io: Io;
  readonly globals: Globals;
  /** Of standard output. */
  readonly colours: Colours;
  readonly progress: Progress;
  #settings: Promise<Settings> | undefined;
  #reads = 0;
  #client: { readonly mode: Mode; readonly opened: Promise<Client> } | undefined;
  #code: { close(): Promise<void> } | undefined;

  constructor(io: Io, globals: Globals) {
    this.io = io;
    this.globals = globals;
    this.colours = coloursOf(io, io.isTTY.stdout, globals.color);
    this.progress = progressOn(io, globals.quiet);
  }

  get now(): number {
    return Date.now();
  }
  get isWide(): boolean {
    return this.globals.output === "wide";
  }

  // ── the store ──

  /** The config and the url. */
  settings(): Promise<Settings> {
    this.#settings ??= this.#resolve();
    return this.#settings;
  }
  /** As they are now: the config file is read again. */
  async freshSettings(): Promise<Settings> {
    return this.#resolve(++this.#reads);
  }
  async #resolve(again?: number): Promise<Settings> {
    const { resolveSettings } = await import("../config/settings.ts");
    const { url, config, namespace, places } = this.globals;
    return resolveSettings({ url, config, namespace, hasToken: places.includes("--token") }, this.io.env, this.io.cwd, again);
  }

  /** To read: nothing is created, and nothing can be changed through it. */
  reader(): Promise<Client> {
    return this.#open("read");
  }
  /** To read, with the workflows at hand: for queries. On a console its server has them. */
  readerWithCode(): Promise<Client> {
    return this.#open("code");
  }
  writer(): Promise<Client> {
    return this.#open("write");
  }
  async #open(mode: Mode): Promise<Client> {
    if (this.#client !== undefined && (this.#client.mode === mode || (this.#client.mode === "write" && mode === "read")))
      return this.#client.opened;
    await this.close();
    const opened = this.#connect(mode);
    this.#client = { mode, opened };
    return opened;
  }
  async #connect(mode: Mode): Promise<Client> {
    const settings = await this.settings();
    const { url, codec, namespace } = settings;
    if (isConsole(url)) {
      const { openHttp } = await import("../client/http.ts");
      return openHttp(url, { token: this.globals.token });
    }
    const { openLocal } = await import("../client/local.ts");
    if (mode !== "code") return openLocal(url, { codec, namespace, readOnly: mode === "read" });
    const { CommandCode } = await import("../code/codeHost.ts");
    const code = new CommandCode(settings, this.io.cwd);
    this.#code = code;
    return openLocal(url, { codec, namespace, readOnly: true, code });
  }
  /** It does not wait long for a store that does not answer. */
  async close(): Promise<void> {
    const opened = this.#client?.opened;
    const code = this.#code;
    this.#client = undefined;
    this.#code = undefined;
    if (opened === undefined) return;
    const patience = new AbortController();
    const closed = Promise.all([opened.then((client) => client.close()), code?.close()]).catch(() => undefined);
    await Promise.race([closed, sleep(PATIENCE, undefined, { signal: patience.signal, ref: false }).catch(() => undefined)]);
    patience.abort();
  }

  // ── results ──

  show({ json, lines, ids, human }: Shown): void {
    switch (this.globals.output) {
      case "json":
        return this.#write(this.#json(json));
      case "jsonl":
        for (const one of lines ?? [json]) this.line(one);
        return;
      case "id":
        if (ids !== undefined) return this.#writeLines(ids.map(printable));
        return this.#writeLines(human());
      case "table":
      case "wide":
        return this.#writeLines(human());
    }
  }
  /** One line of `jsonl`. */
  line(value: unknown): void {
    this.#write(printableJson(JSON.stringify(value ?? null)));
  }
  /** A value of a user: JSON in every format. */
  value(value: unknown): void {
    this.show({ json: value ?? null, human: () => [this.pretty(value)] });
  }
  /** For people. */
  pretty(value: unknown): string {
    return printableJson(JSON.stringify(value ?? null, null, 2));
  }
  table<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string[] {
    return table(columns, rows, { width: this.io.columns, colours: this.colours });
  }
  #json(value: unknown): string {
    return this.io.isTTY.stdout ? this.pretty(value) : printableJson(JSON.stringify(value ?? null));
  }
  #write(text: string): void {
    this.io.stdout.write(`${text}\n`);
  }
  #writeLines(lines: readonly string[]): void {
    if (lines.length > 0) this.#write(lines.join("\n"));
  }

  // ── everything else ──

  /** Something to know beside the result. `text` is safe to show. */
  note(text: string): void {
    if (!this.globals.quiet && !this.#isForPrograms) this.io.stderr.write(`${text}\n`);
  }
  get #isForPrograms(): boolean {
    return this.globals.output === "json" || this.globals.output === "jsonl";
  }

  /** True at once with --yes. `text` is safe to show. */
  async agreed(text: string): Promise<boolean> {
    if (this.globals.yes) return true;
    this.needsYes();
    return confirmed(this.io, text);
  }
  /** Throws if there is neither --yes nor a terminal to ask in. */
  needsYes(): void {
    if (!this.globals.yes && !canAsk(this.io)) throw usage("This needs a yes: add --yes where there is no terminal to ask in.");
  }

  /** In milliseconds. */
  async timeout(): Promise<number | undefined> {
    if (this.globals.timeout === undefined) return undefined;
    const { durationOption } = await import("./arguments.ts");
    return durationOption("--timeout", this.globals.timeout);
  }
}
