// What a command works with: flags, environment and configuration file, put together.
// Owns: their order of precedence.
// Invariants: a flag wins over the environment, the environment over the file, the file over the default; a relative `file:` url counts
// from the folder of the configuration, or from the working directory if a flag or the environment has it.

import { dirname, resolve } from "node:path";
import type { Codec } from "holdfast";
import { checkedNamespace } from "./check.ts";
import { findConfig } from "./discover.ts";
import { UsageError } from "./errors.ts";
import type { HoldfastConfig, ServerConfig, WorkerConfig } from "./index.ts";
import { loadConfig } from "./load.ts";
import { absoluteUrl, DEFAULT_URL, isConsole, printableUrl } from "./url.ts";

export interface SettingFlags {
  readonly url?: string | undefined;
  readonly config?: string | undefined;
  readonly namespace?: string | undefined;
  /** Whether a token was given, which only a console takes. */
  readonly hasToken?: boolean | undefined;
}
export interface Settings {
  /** Absolute. May have a password in it: show `printableUrl(url)`. */
  readonly url: string;
  readonly namespace: string | undefined;
  readonly codec: Codec | undefined;
  /** Globs; undefined: the default places. */
  readonly entry: readonly string[] | undefined;
  readonly workers: readonly WorkerConfig[];
  readonly server: ServerConfig;
  readonly configFile: string | undefined;
  /** The folder that entries count from: that of the configuration, or the working directory. */
  readonly root: string;
}

/** `again`: as for `loadConfig`. */
export async function resolveSettings(
  flags: SettingFlags,
  env: Readonly<Record<string, string | undefined>> = process.env,
  cwd: string = process.cwd(),
  again?: number,
): Promise<Settings> {
  const configFile = findConfig({ flag: flags.config, env: env["HOLDFAST_CONFIG"] }, cwd);
  const config = configFile === undefined ? {} : await loadConfig(configFile, cwd, again);
  const root = configFile === undefined ? resolve(cwd) : dirname(configFile);
  const namespace = flags.namespace ?? config.namespace;
  const url = urlOf(flags, env, config.url, { cwd, root });
  checkTogether(url, flags, { configFile, config });
  return {
    url,
    namespace: flags.namespace === undefined ? namespace : checkedNamespace(flags.namespace, "--namespace"),
    codec: config.codec,
    entry: config.entry === undefined ? undefined : [config.entry].flat(),
    workers: config.workers === undefined || config.workers.length === 0 ? [{}] : config.workers,
    server: config.server ?? {},
    configFile,
    root,
  };
}

/** What has no effect on the url is refused: it would act on other runs than its user means. */
function checkTogether(
  url: string,
  flags: SettingFlags,
  { configFile = "", config }: { configFile?: string | undefined; config: HoldfastConfig },
): void {
  const why = "its server decides which runs are shown";
  if (isConsole(url) && flags.namespace !== undefined)
    throw new UsageError(`--namespace has no effect on the address of a console: ${why}.\nLeave it out, or pass the url of the store.`);
  if (isConsole(url) && config.namespace !== undefined && isConsole(config.url ?? ""))
    throw new UsageError(`${configFile}: "namespace" has no effect beside the address of a console: ${why}.\nLeave it out.`, {
      code: "HF_CONFIG",
    });
  if (!isConsole(url) && flags.hasToken === true)
    throw new UsageError(
      `--token is for the address of a console (https://…), and ${printableUrl(url)} is a store.\nLeave it out, or pass the address: --url https://…`,
    );
}

function urlOf(
  flags: SettingFlags,
  env: Readonly<Record<string, string | undefined>>,
  configured: string | undefined,
  { cwd, root }: { cwd: string; root: string },
): string {
  if (flags.url !== undefined) return absoluteUrl(flags.url, cwd, "--url");
  const fromEnv = env["HOLDFAST_URL"];
  if (fromEnv !== undefined && fromEnv !== "") return absoluteUrl(fromEnv, cwd, "HOLDFAST_URL");
  if (configured !== undefined) return absoluteUrl(configured, root, "the configuration");
  return absoluteUrl(DEFAULT_URL, root, "the configuration");
}
