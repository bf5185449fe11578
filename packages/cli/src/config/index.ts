// The entry point `@holdfast/cli/config`: what a project's holdfast.config.ts says.
// Owns: the type of the configuration.
// Invariants: a config file needs nothing but this function; what it returns is checked when the command line loads it.

import type { Codec } from "holdfast";

/** A token that may call the HTTP API. Made by `holdfast token`. */
export interface TokenConfig {
  /** The name under which its calls are known. */
  readonly name: string;
  /** "sha256:" and the hexadecimal hash of the token. The token itself is in no file. */
  readonly hash: string;
  /**
   * What it may do: "read", "operate" (start, signal, cancel, resume, schedules) or "admin" (terminate, fork, delete, bulk actions,
   * queues).
   */
  readonly role: "read" | "operate" | "admin";
  /**
   * Whether inputs, outputs, payloads and error messages are shown.
   * @defaultValue `false`
   */
  readonly values?: boolean;
}
/** The HTTP API and the page of the console. */
export interface ServerConfig {
  /**
   * The port. A given port that is taken is an error.
   * @defaultValue the next free one from 4747
   */
  readonly port?: number;
  /**
   * The address that it listens on.
   * @defaultValue `"127.0.0.1"`, so that only this machine can call it
   */
  readonly host?: string;
  /**
   * Names, without port, under which the server may be called besides loopback addresses.
   * @defaultValue none
   */
  readonly allowedHosts?: readonly string[];
  /**
   * Nothing can be changed, whatever the role.
   * @defaultValue `false`
   */
  readonly readOnly?: boolean;
  /**
   * The tokens that may call the API.
   * @defaultValue none
   */
  readonly tokens?: readonly TokenConfig[];
}
/** A worker that `holdfast dev` and `holdfast worker` start. */
export interface WorkerConfig {
  /**
   * The queue that it works for.
   * @defaultValue `"default"`
   */
  readonly queue?: string;
  /**
   * Maximum number of runs in progress.
   * @defaultValue `100`
   */
  readonly concurrency?: number;
  /**
   * Maximum number of activities in progress.
   * @defaultValue `100`
   */
  readonly activityConcurrency?: number;
}
/** What `holdfast.config.ts` exports: where the runs and the code are, and what the commands start. */
export interface HoldfastConfig {
  /**
   * Where the runs are: `file:…`, `postgres://…`, `temporal://…`. A relative `file:` counts from the folder of the config file.
   * @defaultValue `"file:.holdfast/holdfast.db"`
   */
  readonly url?: string;
  /**
   * The namespace of the runs.
   * @defaultValue none
   */
  readonly namespace?: string;
  /**
   * The codec that the runs are stored with.
   * @defaultValue `jsonCodec`
   */
  readonly codec?: Codec;
  /**
   * Globs of the files that export workflows and activities.
   * @defaultValue `src/workflows/`, `workflows/`, `src/workflows.ts` and `workflows.ts`
   */
  readonly entry?: string | readonly string[];
  /**
   * The workers to start.
   * @defaultValue one, for the queue "default"
   */
  readonly workers?: readonly WorkerConfig[];
  /** The HTTP API and the page. */
  readonly server?: ServerConfig;
}

/**
 * Gives an editor the types of the configuration.
 * @example
 * ```ts
 * import { defineConfig } from "@holdfast/cli/config";
 *
 * const config = defineConfig({ url: "file:./app.db", entry: "src/workflows/*.ts", workers: [{ queue: "mail" }] });
 * console.log(config.url); // "file:./app.db"
 * export default config;
 * ```
 */
export function defineConfig(config: HoldfastConfig): HoldfastConfig {
  return config;
}
