// What an oracle says when a rule was broken.
// Owns: nothing.
// Invariants: it names the oracle, and the rule of the contract it holds.

export class Violation extends Error {
  override readonly name = "Violation";
  /** Which oracle saw it. */
  readonly oracle: string;
  readonly rule: string;

  constructor(oracle: string, rule: string, message: string) {
    super(`${rule} (${oracle}): ${message}`);
    this.oracle = oracle;
    this.rule = rule;
  }
}
