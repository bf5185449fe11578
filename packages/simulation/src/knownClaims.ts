// What a process knows about its claims from the answers it received.
// Owns: the claims that it knows, and which claims and operations it knows to be over.
// Invariants: only answers that reached the process count, not what the store knows.

/** The claim under which a body was begun, and its operation. */
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
  /** The epoch of its last claim; 0 if it never had one. */
  epochOf(runId: string): number {
    return this.#claims.get(runId)?.epoch ?? 0;
  }
  /** When the process received this claim. */
  claimedAt(runId: string, epoch: number): number | undefined {
    const claim = this.#claims.get(runId);
    return claim?.epoch === epoch ? claim.at : undefined;
  }
  /** The claim is over: lost, or its run has ended. */
  lost(runId: string, epoch: number, at: number): void {
    this.#mark(claimKey({ runId, epoch }), at);
  }
  /** C7: the commit in which the run cancelled this operation is durable. */
  gaveUp(runId: string, execution: number, seq: number, at: number): void {
    this.#mark(operationKey({ runId, execution, seq }), at);
  }
  #mark(key: string, at: number): void {
    if (!this.#over.has(key)) this.#over.set(key, at);
  }
  /** Since when the process has known that the claim is over or the operation cancelled. */
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
