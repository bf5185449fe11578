// `hostConformance`: tests that a host keeps the rules of the programming model.
// Owns: the options of the suite; the rules are in the files beside it, by group.
// Invariants: every title begins with the ids of the rules it proves (SEMANTICS); no test sleeps, reads a clock or knows the host; tests share nothing, so they
// may run at the same time on one server.
//
// With vitest:    describe("my host", () => hostConformance({ name: "my host", test, makeHost }));
// With node:test: the same. Asserts come from node:assert.

import { InvalidInputError } from "@holdfast/core";
import { activities } from "./activities.ts";
import { cancellation } from "./cancellation.ts";
import { changes } from "./changes.ts";
import { type HostClock, type SuiteHost, scaleOf, suiteHost } from "./clock.ts";
import { crashes } from "./crashes.ts";
import { durability } from "./durability.ts";
import { endings } from "./endings.ts";
import { families } from "./families.ts";
import type { Host, HostOptions } from "./host.ts";
import { messages } from "./messages.ts";
import { queues } from "./queues.ts";
import { sagas } from "./sagas.ts";
import { scopes } from "./scopes.ts";
import { starting } from "./starting.ts";
import { steps } from "./steps.ts";
import type { HostCapability, Suite } from "./suite.ts";
import { updates } from "./updates.ts";

export type { HostClock } from "./clock.ts";
export type { Doom, Host, HostOptions, HostQueues, HostRun, HostSend, HostStart, HostUpdate } from "./host.ts";
export type { HostCapability } from "./suite.ts";

const groups = [
  steps, messages, updates, scopes, endings, sagas, cancellation, starting, activities, changes, families, queues, durability, crashes,
]; // biome-ignore format: a list

/** Options of `hostConformance`. */
export interface HostConformanceOptions {
  /** Of the host, for titles. */
  readonly name: string;
  /** A fresh host with nothing in it. The suite closes it, before the test that it is for asks for the next one. */
  readonly makeHost: (options: HostOptions) => Promise<Host> | Host;
  /** The runner's: `test(title, fn)`. */
  readonly test: (title: string, run: () => Promise<void>) => unknown;
  /** What it can't offer: ids of rules ("V2"), capabilities, or titles of single tests. Their tests are left out. */
  readonly lacks?: readonly (HostCapability | RuleId | TestTitle)[];
  /**
   * "real": time passes by itself, and `skip` waits. Durations are scaled: no skip takes longer than 3 s, no timer is due in less than 1.5
   * s.
   * @defaultValue `"virtual"`
   */
  readonly clock?: HostClock;
  /** The runner's way to list a test that is not run. Needed with a real clock: tests that need an exact clock are listed by it. */
  readonly skip?: (title: string, run: () => Promise<void>) => unknown;
}
/** As in docs/semantics.md: a letter and a number. */
export type RuleId = `${Uppercase<string>}${number}`;
/** As the suite has it, without the name of the host: "M4 a wait times out, and what comes later stays buffered". */
export type TestTitle = `${RuleId} ${string}`;

/** Defines the tests that a host has to pass, with any test runner. */
export function hostConformance({ name, makeHost, test, skip, clock = "virtual", lacks = [] }: HostConformanceOptions): void {
  if (clock === "real" && skip === undefined) throw invalid("skip", "A real clock leaves tests out: say how they are listed.");
  const lacking = new Set<string>(lacks);
  const met = new Set<string>();
  const suite: Suite = {
    test(title, run, { activities: called = [], needs = [] } = {}) {
      const named = [title, ...rulesOf(title), ...[needs].flat()];
      for (const one of named) met.add(one);
      if (named.some((one) => lacking.has(one))) return;
      const isExact = clock === "real" && named.includes("exact-clock");
      const register = isExact ? skip : test;
      register?.(`${title} (${name}${isExact ? "; not applicable: it needs an exact clock" : ""})`, async () => {
        let opened: SuiteHost | undefined;
        const open = async (given: HostOptions): Promise<SuiteHost> => {
          await opened?.close?.();
          opened = suiteHost(await makeHost(given), clock);
          return opened;
        };
        try {
          await run(await open({ activities: called }), () => open({ activities: [] }));
        } finally {
          await opened?.close?.();
        }
      });
    },
    t: scaleOf(clock),
    clock,
  };
  for (const group of groups) group(suite);
  const unknown = lacks.filter((one) => !met.has(one));
  // A word that leaves nothing out is a mistake: the tests that its author wants to leave out are run.
  if (unknown.length > 0) throw invalid("lacks", `No test is about ${unknown.join(", ")}: take it out.`);
}

/** The ids that a title begins with. */
function rulesOf(title: string): string[] {
  return /^(?:[A-Z]\d+ )+/.exec(title)?.[0].trim().split(" ") ?? [];
}
function invalid(option: string, message: string): InvalidInputError {
  return new InvalidInputError({ what: "hostConformance", issues: [{ message, path: [option] }] });
}
