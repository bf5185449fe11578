// Opens the backend for a URL.
// Owns: which schemes are stores of the embedded engine, and which are backends in separate packages.
// Invariants: a package is loaded only when its scheme is used; a missing package is an error that names the install command.

import { UnsupportedError } from "@holdfast/core";
import type { Environment } from "@holdfast/host";
import type { Backend, BackendOptions, BackendPackage } from "../backend/port.ts";
import { Engine } from "../engine/engine.ts";
import { openStore } from "../store/open.ts";
import { optionalPackage } from "../store/optionalPackage.ts";
import { invalid } from "./options.ts";

/** Retention is the embedded engine's (B4): services have one that is set there. */
interface EngineSettings extends BackendOptions {
  readonly retention: number | "forever" | undefined;
}

export async function openBackend(url: string | undefined, options: EngineSettings, environment: Environment): Promise<Backend> {
  if (typeof url === "string" && /^temporals?:/.test(url)) {
    const temporal = await optionalPackage<BackendPackage>("@holdfast/temporal", "Engines on Temporal");
    const { retention, ...others } = options;
    if (retention !== undefined)
      throw new UnsupportedError({ feature: "retention", host: "Temporal", instead: "Set the retention of the Temporal namespace." });
    return temporal.openBackend(url, others);
  }
  if (options.temporal !== undefined) throw invalid("Holdfast.open", "The option `temporal` needs a temporal:// URL.", "temporal");
  const { codec, logger, limits, namespace, retention } = options;
  const store = await openStore(url, { logger, namespace });
  const engine = new Engine({ store, environment, codec, logger, limits, retention });
  await engine.open();
  return engine;
}
