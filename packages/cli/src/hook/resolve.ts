// Finds the file that an import means, where TypeScript and Node disagree: `paths` of tsconfig.json, `./x.js` for `x.ts`, no ending.
// Owns: the resolvers and their caches.
// Invariants: packages are left to Node, unless `paths` maps them to a file outside node_modules.

import { builtinModules } from "node:module";
import { type NapiResolveOptions, ResolverFactory } from "oxc-resolver";

const TYPESCRIPT = /\.[cm]?tsx?$/;
const resolvers = new Map<string, ResolverFactory>();

/** Undefined: Node decides. `suffix` is the query that the specifier had. */
export function resolveFile(
  specifier: string,
  parent: string,
  conditions: readonly string[],
): { readonly path: string; readonly suffix: string } | undefined {
  if (specifier.startsWith("node:") || specifier.startsWith("data:") || builtinModules.includes(specifier)) return undefined;
  if (/^[a-z][a-z\d+.-]+:/i.test(specifier)) return undefined; // a url
  const isRelative = /^\.{0,2}\//.test(specifier) || specifier === "." || specifier === "..";
  const [bare = "", suffix = ""] = isRelative ? (/^([^?#]*)(.*)$/s.exec(specifier) ?? []).slice(1) : [specifier];
  const { path } = resolverFor(conditions, TYPESCRIPT.test(parent)).resolveFileSync(parent, decoded(bare, isRelative));
  if (path === undefined || /[/\\]node_modules[/\\]/.test(path)) return undefined;
  // Without an error to report, what Node finds by itself is the same file, except for the cases above.
  return { path, suffix };
}
function decoded(specifier: string, isRelative: boolean): string {
  if (!isRelative || !specifier.includes("%")) return specifier;
  try {
    return decodeURIComponent(specifier);
  } catch {
    return specifier;
  }
}

function resolverFor(conditions: readonly string[], isTypeScript: boolean): ResolverFactory {
  const key = `${isTypeScript} ${conditions.join(" ")}`;
  const known = resolvers.get(key);
  if (known !== undefined) return known;
  const options: NapiResolveOptions = {
    tsconfig: "auto",
    conditionNames: [...conditions],
    extensions: [".ts", ".mts", ".tsx", ".js", ".mjs", ".cjs", ".json"],
    // In a TypeScript file "./x.js" is x.ts. In a JavaScript file it is x.js if there is one.
    extensionAlias: isTypeScript
      ? { ".js": [".ts", ".tsx", ".js"], ".mjs": [".mts", ".mjs"], ".cjs": [".cts", ".cjs"] }
      : { ".js": [".js", ".ts", ".tsx"], ".mjs": [".mjs", ".mts"], ".cjs": [".cjs", ".cts"] },
    mainFields: ["main"],
  };
  const made = new ResolverFactory(options);
  resolvers.set(key, made);
  return made;
}
