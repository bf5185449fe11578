// What a process was told about its claims: from then on it has no excuse.
// Owns: the claims it knows of, and which of them, and which of their operations, it knows to be over.
// Invariants: it holds what was really told, not what the store knows.

/** Under which claim, and for which operation, something was begun. */
export interface Begun {
  readonly runId: string;
  readonly execution: number;
  readonly seq: number;
  readonly epoch: number;
}

export class KnownClaims {
  readonly #claims = new Map<string, { readonly epoch: number; readonly at: number }>();
  readonly #over = new Map<string, number>();

  claimed(runId: string, epoch: number, at: number): void {
    if (epoch > this.epochOf(runId)) this.#claims.set(runId, { epoch, at });
  }
  /** Of its last claim; 0: it never had one. */
  epochOf(runId: string): number {
    return this.#claims.get(runId)?.epoch ?? 0;
  }
  /** When it was told of this claim. */
  claimedAt(runId: string, epoch: number): number | undefined {
    const claim = this.#claims.get(runId);
    return claim?.epoch === epoch ? claim.at : undefined;
  }
  /** The claim is over: lost, or its run has ended. */
  lost(runId: string, epoch: number, at: number): void {
    this.#mark(claimKey({ runId, epoch }), at);
  }
  /** C7: the commit in which the run gave this operation up is durable. */
  gaveUp(runId: string, execution: number, seq: number, at: number): void {
    this.#mark(operationKey({ runId, execution, seq }), at);
  }
  #mark(key: string, at: number): void {
    if (!this.#over.has(key)) this.#over.set(key, at);
  }
  /** Since when it knows that nobody wants this any more. */
  overSince(begun: Begun): { readonly rule: "D4" | "C7"; readonly at: number } | undefined {
    const lost = this.#over.get(claimKey(begun));
    if (lost !== undefined) return { rule: "D4", at: lost };
    const givenUp = this.#over.get(operationKey(begun));
    return givenUp === undefined ? undefined : { rule: "C7", at: givenUp };
  }
}

function claimKey({ runId, epoch }: Pick<Begun, "runId" | "epoch">): string {
  return `${runId} at ${epoch}`;
}
function operationKey({ runId, execution, seq }: Omit<Begun, "epoch">): string {
  return `${runId} ~${execution} #${seq}`;
}
