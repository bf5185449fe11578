// A process with the user's code, as its parent sees it.
// Owns: the child process and the calls that wait for its answer.
// Invariants: when the process ends, every waiting call fails; stdout of the child is our stderr.

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { HoldfastError, reviveError } from "@holdfast/core";
import { builtUrl } from "../hook/index.ts";
import type { CallName, CodeCalls, FromCode, ReplayOutcome } from "./protocol.ts";

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}
interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** How long a process may take to end, after it was asked to. */
const LAST = 15_000;

export class CodeProcess {
  readonly ended: Promise<ProcessEnd>;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 1;
  #end: ProcessEnd | undefined;
  /** Gets each outcome of a replay. */
  onOutcome: (outcome: ReplayOutcome) => void = () => {};

  constructor(cwd: string) {
    this.#child = fork(fileURLToPath(builtUrl("./child.ts", import.meta.url)), [String(process.pid)], {
      cwd,
      execArgv: ["--enable-source-maps"],
      serialization: "advanced",
      stdio: ["ignore", 2, 2, "ipc"],
    });
    this.#child.on("message", (message) => this.#received(message as FromCode));
    this.ended = new Promise((resolve) => {
      this.#child.once("error", () => this.#over({ code: null, signal: null }, resolve)); // it could not be started
      this.#child.once("exit", (code, signal) => this.#over({ code, signal }, resolve));
    });
  }
  get pid(): number | undefined {
    return this.#child.pid;
  }
  get isAlive(): boolean {
    return this.#end === undefined;
  }

  call<N extends CallName>(call: N, request: CodeCalls[N]["request"]): Promise<CodeCalls[N]["reply"]> {
    if (this.#end !== undefined) return Promise.reject(endError(this.#end));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      this.#child.send({ id, call, request }, (error) => {
        if (error === null) return;
        this.#waiting.delete(id);
        reject(error);
      });
    });
  }
  #received(message: FromCode): void {
    if ("outcome" in message) return this.onOutcome(message.outcome);
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if ("error" in message) waiting?.reject(reviveError(message.error));
    else waiting?.resolve(message.reply);
  }
  #over(end: ProcessEnd, resolve: (end: ProcessEnd) => void): void {
    this.#end = end;
    for (const { reject } of this.#waiting.values()) reject(endError(end));
    this.#waiting.clear();
    resolve(end);
  }

  /** Stops claiming at once; the process ends when its workers have stopped, or after a limit. */
  async retire(limit = LAST): Promise<ProcessEnd> {
    const timer = setTimeout(() => this.kill(), limit);
    await this.call("retire", undefined).catch(() => {});
    const end = await this.ended;
    clearTimeout(timer);
    return end;
  }
  kill(): void {
    this.#child.kill("SIGKILL");
  }
}

/** In words: "exit code 3", "SIGKILL". */
export function endText({ code, signal }: ProcessEnd): string {
  return signal ?? (code === null ? "it could not be started" : `exit code ${code}`);
}
function endError(end: ProcessEnd): HoldfastError {
  return new HoldfastError(`The process with the code has ended (${endText(end)}).`, { code: "HF_NO_CODE" });
}
