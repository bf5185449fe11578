// Opens the backend for a URL.
// Owns: which schemes are stores of the embedded engine, and which are backends in separate packages.
// Invariants: a package is loaded only when its scheme is used; a missing package is an error that names the install command.

import type { Environment } from "@holdfast/host";
import type { Backend, BackendOptions, BackendPackage } from "../backend/port.ts";
import { Engine } from "../engine/engine.ts";
import { openStore } from "../store/open.ts";
import { optionalPackage } from "../store/optionalPackage.ts";

export async function openBackend(url: string | undefined, options: BackendOptions, environment: Environment): Promise<Backend> {
  if (typeof url === "string" && /^temporals?:/.test(url)) {
    const temporal = await optionalPackage<BackendPackage>("@holdfast/temporal", "Engines on Temporal");
    return temporal.openBackend(url, options);
  }
  const { codec, logger, limits, namespace } = options;
  const engine = new Engine({ store: await openStore(url, { logger, namespace }), environment, codec, logger, limits });
  await engine.open();
  return engine;
}
