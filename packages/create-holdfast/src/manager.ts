// The package manager that has called this program, and its commands.
// Owns: how each of them is spelled.
// Invariants: one that is not known is npm, which Node brings along.

export type ManagerName = "npm" | "pnpm" | "yarn" | "bun";

export interface Manager {
  readonly name: ManagerName;
  /** Yarn 2 and later keeps packages in archives unless told otherwise, which TypeScript 7 can't read. */
  readonly needsYarnrc: boolean;
  /** For `packageManager` in package.json, without which corepack runs Yarn 1. Undefined: not needed. */
  readonly pinned: string | undefined;
  readonly install: string;
  /** Runs a script of package.json. */
  run(script: string): string;
  /** What goes before the name of an installed program. */
  readonly exec: string;
  /** The steps of a GitHub workflow that install Node and the locked dependencies. */
  readonly setup: readonly string[];
}

const NODE = "24";

/** @param agent what package managers put into `npm_config_user_agent`, such as `pnpm/10.0.0 npm/? node/v24.0.0 linux x64` */
export function managerOf(agent: string | undefined): Manager {
  const [, name = "npm", version = "0"] = /^(npm|pnpm|yarn|bun)\/([\w.-]+)/.exec(agent ?? "") ?? [];
  const known = name as ManagerName;
  const isNewYarn = known === "yarn" && Number.parseInt(version, 10) >= 2;
  const commands = isNewYarn ? { ...COMMANDS.yarn, exec: "yarn" } : COMMANDS[known];
  return { name: known, needsYarnrc: isNewYarn, pinned: isNewYarn ? `yarn@${version}` : undefined, ...commands };
}

const COMMANDS: Readonly<Record<ManagerName, Omit<Manager, "name" | "needsYarnrc" | "pinned">>> = {
  npm: {
    install: "npm install",
    run: (script) => (script === "test" || script === "start" ? `npm ${script}` : `npm run ${script}`),
    exec: "npx",
    setup: [...setupNode("npm"), "- run: npm ci"],
  },
  pnpm: {
    install: "pnpm install",
    run: (script) => `pnpm ${script}`,
    exec: "pnpm exec",
    setup: ["- uses: pnpm/action-setup@v4", "  with: { version: latest }", ...setupNode("pnpm"), "- run: pnpm install --frozen-lockfile"],
  },
  yarn: {
    install: "yarn install",
    run: (script) => `yarn ${script}`,
    // Yarn 1 would print lines of its own between those of the program.
    exec: "yarn -s",
    setup: ["- run: corepack enable", ...setupNode("yarn"), "- run: yarn install && git diff --exit-code yarn.lock"],
  },
  bun: {
    install: "bun install",
    run: (script) => `bun run ${script}`,
    exec: "bunx",
    // Node as well: `holdfast dev` and vitest run in it.
    setup: ["- uses: oven-sh/setup-bun@v2", ...setupNode(undefined), "- run: bun install --frozen-lockfile"],
  },
};

function setupNode(cache: string | undefined): string[] {
  return ["- uses: actions/setup-node@v4", `  with: { node-version: ${NODE}${cache === undefined ? "" : `, cache: ${cache}`} }`];
}
