// `storeConformance`: tests that an implementation of the port of stores keeps its rules.
// Owns: the options of the suite; the rules are in the files beside it, by group.
// Invariants: every title begins with the id of the rule it proves (SEMANTICS); no test sleeps, reads a clock or knows the store.
//
// With vitest:    describe("my store", () => storeConformance({ name: "my store", test, makeStore }));
// With node:test: the same. Asserts come from node:assert.

import type { Store } from "holdfast/store";
import { activities } from "./activities.ts";
import { afterRuns } from "./afterRuns.ts";
import { badRows } from "./badRows.ts";
import { batchContract } from "./batchContract.ts";
import { batches } from "./batches.ts";
import { Bench } from "./bench.ts";
import { claiming } from "./claiming.ts";
import { crashes } from "./crashes.ts";
import { creating } from "./creating.ts";
import { deadlines } from "./deadlines.ts";
import { endings } from "./endings.ts";
import { families } from "./families.ts";
import { fencing } from "./fencing.ts";
import { finding } from "./finding.ts";
import { forks } from "./forks.ts";
import { inspecting } from "./inspecting.ts";
import { keeping } from "./keeping.ts";
import { lateEnds } from "./lateEnds.ts";
import { limitUse } from "./limitUse.ts";
import { looking } from "./looking.ts";
import { messages } from "./messages.ts";
import { nextStarts } from "./nextStarts.ts";
import { otherQueues } from "./otherQueues.ts";
import { queueFamilies } from "./queueFamilies.ts";
import { queueShares } from "./queueShares.ts";
import { queueSlots } from "./queueSlots.ts";
import { queues } from "./queues.ts";
import { reopening } from "./reopening.ts";
import { schedules } from "./schedules.ts";
import { sharing } from "./sharing.ts";
import { startSequences } from "./startSequences.ts";
import type { Suite } from "./suite.ts";
import { trimming } from "./trimming.ts";
import { turns } from "./turns.ts";
import { updates } from "./updates.ts";
import { workers } from "./workers.ts";

const groups = [
  creating, afterRuns, nextStarts, startSequences, claiming, fencing, batches, batchContract, badRows, turns, trimming, messages, updates, families, reopening, forks, endings, deadlines, lateEnds, keeping, workers, inspecting, activities, looking, finding, schedules, crashes, sharing,
]; // biome-ignore format: a list

/** Options of `storeConformance`. */
export interface StoreConformanceOptions {
  /** Of the store, for titles. */
  readonly name: string;
  /** A fresh, opened store with nothing in it, whose only clock is this one. The suite closes it. */
  readonly makeStore: (options: {
    /** Milliseconds since 1970, by the test's clock. */
    readonly clock: () => number;
  }) => Promise<Store> | Store;
  /** The runner's: `test(title, fn)`. */
  readonly test: (title: string, run: () => Promise<void>) => unknown;
  /**
   * For stores that last: the process dies. Drops this instance without closing it, and opens the same storage again, with the clock
   * that `makeStore` was given for it.
   */
  readonly reopen?: ((store: Store) => Promise<Store> | Store) | undefined;
  /** For stores that processes share: opens the same storage once more, with the same clock, while this instance goes on. */
  readonly beside?: ((store: Store) => Promise<Store> | Store) | undefined;
  /** For stores that can refuse an item: from now on the storage refuses every change of rows of runs whose ids begin with "bad", as a trigger would. */
  readonly refuseBad?: ((store: Store) => Promise<void>) | undefined;
  /** For stores that have the optional part of the port about queues. */
  readonly hasQueues?: boolean | undefined;
  /** For stores in which single runs can be locked: another transaction locks this run. Returns how to end it. */
  readonly lock?: ((store: Store, runId: string) => Promise<() => Promise<void>>) | undefined;
  /** For stores on the other side of a network: the next call of this method is carried out, and its answer is lost with the connection. */
  readonly loseAnswer?: ((store: Store, method: "create" | "commit" | "send") => void) | undefined;
}

/** Defines the tests that a store has to pass, with any test runner. */
export function storeConformance(options: StoreConformanceOptions): void {
  const { name, makeStore, test, reopen, beside } = options;
  const suite: Suite = {
    test(title, run) {
      test(`${title} (${name})`, async () => {
        const bench = await Bench.on({ makeStore, reopen, beside });
        try {
          await run(bench);
        } finally {
          await bench.store.close();
        }
      });
    },
    crashes: reopen !== undefined,
    shares: beside !== undefined,
    refuseBad: options.refuseBad,
    lock: options.lock,
    loseAnswer: options.loseAnswer,
  };
  for (const group of groups) group(suite);
  if (options.hasQueues === true) for (const group of [queues, queueSlots, queueFamilies, queueShares, otherQueues, limitUse]) group(suite);
}
