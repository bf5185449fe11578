// Processes of the demos: programs that are started, really killed, and started again.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { cyan, dim, red, say } from "./terminal.ts";

export interface ProgramOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** What the lines that it prints begin with. */
  readonly name?: string;
}

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export class Program {
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];
  readonly #name: string;
  readonly #waiting: (() => void)[] = [];

  /** Starts a compiled script, prints its lines, and resolves when it has printed "ready". */
  static async start(script: string, options: ProgramOptions = {}): Promise<Program> {
    const program = new Program(script, options);
    await program.line(/\bready\b/);
    return program;
  }
  constructor(script: string, { args = [], env = {}, name = "worker" }: ProgramOptions) {
    const child = spawn(process.execPath, [script, ...args], { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    this.#name = `${name} ${child.pid}`;
    running.add(child);
    child.once("close", () => {
      running.delete(child);
      this.#wake();
    });
    createInterface({ input: child.stderr }).on("line", (line) => this.#print(dim(line)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      this.#lines.push(line);
      this.#print(line);
      this.#wake();
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }
  /** Resolves with the first line that matches, also if it was printed before. */
  async line(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = this.#lines.find((line) => pattern.test(line));
      if (found !== undefined) return found;
      if (!running.has(this.#child)) throw new Error(`${this.#name} ended before it printed ${pattern}.`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }
  /** kill -9: it has no time to save anything. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
    say(red(`✗ ${this.#name} was killed (kill -9)`));
  }
  /** Lets it finish what it does. */
  async stop(): Promise<void> {
    await this.#end("SIGTERM");
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (!running.has(this.#child)) throw new Error(`${this.#name} has ended already.`);
    const closed = once(this.#child, "close");
    this.#child.kill(signal);
    await closed;
  }
  #print(line: string): void {
    say(`  ${cyan(this.#name)} ${dim("│")} ${line}`);
  }
  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
