// What the console asks of the user's code, answered by a process.
// Owns: nothing; it translates.
// Invariants: values cross to the process as the default codec writes them, so that dates, maps and errors arrive as such.

import { HoldfastError, jsonCodec } from "@holdfast/core";
import type { CodeHost, CodeWorkflow, RunForCode, RunForQuery } from "../api/context.ts";
import type { Issue } from "../api/problem.ts";
import type { Settings } from "../config/settings.ts";
import type { SourcePlace } from "../hook/index.ts";
import { Entries } from "./entries.ts";
import type { CodeProcess } from "./process.ts";
import type { LoadRequest, MessagePart } from "./protocol.ts";
import { startCode } from "./replayPool.ts";

export abstract class ProcessCode implements CodeHost {
  /** The process that has the code now. */
  protected abstract process(): Promise<CodeProcess>;

  async describe(): Promise<readonly CodeWorkflow[]> {
    return (await this.process()).call("describe", undefined);
  }
  async query({ workflow, version, state }: RunForQuery, name: string, input: unknown): Promise<unknown> {
    const encoded = state === undefined ? undefined : jsonCodec.encode(state);
    return jsonCodec.decode(await (await this.process()).call("query", { workflow, version, state: encoded, name, input }));
  }
  async source(
    { id, workflow, version }: RunForCode,
    execution: number | undefined,
    location: string | undefined,
  ): Promise<SourcePlace | null> {
    return (await this.process()).call("source", { runId: id, execution, workflow, version, location });
  }
  async validate(workflow: string, version: string | undefined, part: MessagePart, value: unknown): Promise<readonly Issue[] | undefined> {
    return (await this.process()).call("validate", { workflow, version, part, value });
  }
}

/** The code for one command: loaded when it is first asked something. Code that can't be loaded is a usage error. */
export class CommandCode extends ProcessCode {
  readonly #settings: Settings;
  readonly #cwd: string;
  readonly #closed = new AbortController();
  #started: Promise<CodeProcess> | undefined;
  constructor(settings: Settings, cwd: string) {
    super();
    this.#settings = settings;
    this.#cwd = cwd;
  }
  protected override process(): Promise<CodeProcess> {
    this.#started ??= this.#start();
    return this.#started;
  }
  async #start(): Promise<CodeProcess> {
    const files = new Entries(this.#settings).files();
    if (files.length === 0)
      throw new HoldfastError("There is no code here: no file matches `entry` of the configuration.", { code: "HF_NO_CODE" });
    const { process } = await startCode(loadRequest(this.#settings, files, this.#cwd), this.#closed.signal);
    return process;
  }
  async close(): Promise<void> {
    this.#closed.abort();
    (await this.#started?.catch(() => undefined))?.kill();
  }
}

export function loadRequest({ url, namespace, configFile }: Settings, files: readonly string[], cwd: string): LoadRequest {
  return { files, cwd, url, namespace, configFile };
}
