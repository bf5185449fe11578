// The error of an oracle that has found a broken rule.
// Owns: nothing.
// Invariants: it names the oracle and the rule of the contract.

/** A rule was broken. */
export class Violation extends Error {
  override readonly name = "Violation";
  /** The oracle that found it. */
  readonly oracle: string;
  /** The id of the rule. */
  readonly rule: string;

  constructor(oracle: string, rule: string, message: string) {
    super(`${rule} (${oracle}): ${message}`);
    this.oracle = oracle;
    this.rule = rule;
  }
}
