// What `holdfast init` shares with `npm create holdfast`: the first files of a project, and what its package.json needs.
// Owns: nothing.
// Invariants: this package depends on Node alone, so that the command line can depend on it.

export { IGNORED, packageName, SCRIPTS, version } from "./manifest.ts";
export { starterFiles, type TemplateFile } from "./template.ts";
