// `hostConformance`: what the programming model promises, held against a host.
// Owns: the options of the suite; the rules are in the files beside it, by group.
// Invariants: every title begins with the ids of the rules it proves (SEMANTICS); no test sleeps, reads a clock or knows the host.
//
// With vitest:    describe("my host", () => hostConformance({ name: "my host", test, makeHost }));
// With node:test: the same. Asserts come from node:assert.

import { InvalidInputError } from "@holdfast/core";
import { activities } from "./activities.ts";
import { cancellation } from "./cancellation.ts";
import { changes } from "./changes.ts";
import { crashes } from "./crashes.ts";
import { durability } from "./durability.ts";
import { endings } from "./endings.ts";
import { families } from "./families.ts";
import type { Host, HostOptions } from "./host.ts";
import { messages } from "./messages.ts";
import { sagas } from "./sagas.ts";
import { scopes } from "./scopes.ts";
import { starting } from "./starting.ts";
import { steps } from "./steps.ts";
import type { HostCapability, Suite } from "./suite.ts";
import { updates } from "./updates.ts";

export type { Doom, Host, HostOptions, HostRun, HostSend, HostStart, HostUpdate } from "./host.ts";
export type { HostCapability } from "./suite.ts";

const groups = [
  steps, messages, updates, scopes, endings, sagas, cancellation, starting, activities, changes, families, durability, crashes,
]; // biome-ignore format: a list

export interface HostConformanceOptions {
  /** Of the host, for titles. */
  readonly name: string;
  /** A fresh host with nothing in it. The suite closes it, before it asks for the next one. */
  readonly makeHost: (options: HostOptions) => Promise<Host> | Host;
  /** The runner's: `test(title, fn)`. */
  readonly test: (title: string, run: () => Promise<void>) => unknown;
  /** What it can't offer: ids of rules ("V2"), or capabilities. Their tests are left out. */
  readonly lacks?: readonly (HostCapability | RuleId)[];
}
/** As in docs/semantics.md: a letter and a number. */
export type RuleId = `${Uppercase<string>}${number}`;

export function hostConformance({ name, makeHost, test, lacks = [] }: HostConformanceOptions): void {
  const lacking = new Set<string>(lacks);
  const met = new Set<string>();
  const opened: Host[] = [];
  const open = async (given: HostOptions): Promise<Host> => {
    const host = await makeHost(given);
    opened.push(host);
    return host;
  };
  const closeAll = async (): Promise<void> => {
    for (const host of opened.splice(0)) await host.close?.();
  };
  const suite: Suite = {
    test(title, run, { activities: called = [], needs } = {}) {
      const named = [...rulesOf(title), ...(needs === undefined ? [] : [needs])];
      for (const one of named) met.add(one);
      if (named.some((one) => lacking.has(one))) return;
      test(`${title} (${name})`, async () => {
        try {
          await run(await open({ activities: called }));
        } finally {
          await closeAll();
        }
      });
    },
    makeHost: async () => {
      await closeAll();
      return open({ activities: [] });
    },
  };
  for (const group of groups) group(suite);
  refuseUnknown(lacks.filter((one) => !met.has(one)));
}

/** The ids that a title begins with. */
function rulesOf(title: string): string[] {
  return /^(?:[A-Z]\d+ )+/.exec(title)?.[0].trim().split(" ") ?? [];
}
/** A word that leaves nothing out is a mistake: what its author means to leave out is tested all the same. */
function refuseUnknown(unknown: readonly string[]): void {
  if (unknown.length === 0) return;
  const message = `No test is about ${unknown.join(", ")}: take it out.`;
  throw new InvalidInputError({ what: "hostConformance", issues: [{ message, path: ["lacks"] }] });
}
