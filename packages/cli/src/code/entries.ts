// The files that hold the user's workflows and activities.
// Owns: the default places.
// Invariants: declarations (.d.ts) are never an entry, tests only if a pattern names them without a wildcard.

import { UsageError } from "../config/errors.ts";
import type { Settings } from "../config/settings.ts";
import { expanded, type Glob, globOf } from "./glob.ts";

const DEFAULTS = ["src/workflows/**/*.ts", "workflows/**/*.ts", "src/workflows.ts", "workflows.ts"];

const CODE = /\.[cm]?[jt]sx?$/;
const NOT_CODE = /\.d\.[cm]?ts$|\.(?:test|spec)\.[cm]?[jt]sx?$/;

export class Entries {
  readonly #wanted: readonly Glob[];
  readonly #unwanted: readonly Glob[];
  readonly #patterns: readonly string[];
  readonly #isDefault: boolean;

  constructor({ entry, root }: Pick<Settings, "entry" | "root">) {
    this.#isDefault = entry === undefined;
    this.#patterns = entry ?? DEFAULTS;
    const patterns = this.#patterns.flatMap(expanded);
    this.#wanted = patterns.filter((pattern) => !pattern.startsWith("!")).map((pattern) => globOf(pattern, root));
    this.#unwanted = patterns.filter((pattern) => pattern.startsWith("!")).map((pattern) => globOf(pattern.slice(1), root));
  }

  /** Absolute paths, as they are now. The first default place that has files is used alone. */
  files(): string[] {
    const found = this.#wanted.map((glob) => glob.files().filter((file) => this.#isEntry(file, glob)));
    const used = this.#isDefault ? (found.find((files) => files.length > 0) ?? []) : found.flat();
    return [...new Set(used)].sort();
  }
  /** The same, but none is an error. */
  required(): string[] {
    const files = this.files();
    if (files.length > 0) return files;
    const places = this.#patterns.join(", ");
    throw new UsageError(`No workflows found: no file matches ${places}. Name them with \`entry\` in holdfast.config.ts.`, {
      code: "HF_NO_WORKFLOWS",
    });
  }
  /** Whether a file, if it exists, may be an entry. */
  matches(file: string): boolean {
    return this.#wanted.some((glob) => glob.matches(file) && this.#isEntry(file, glob));
  }
  /** Where entries may appear. */
  folders(): string[] {
    return this.#wanted.map(({ folder }) => folder);
  }
  #isEntry(file: string, glob: Glob): boolean {
    if (this.#unwanted.some((one) => one.matches(file))) return false;
    return glob.isLiteral || (CODE.test(file) && !NOT_CODE.test(file));
  }
}
