// The host that a test works with: durations are scaled to the clock of the suite, and ids are unique to the test.
// Owns: the scale of a real clock.
// Invariants: with a real clock no skip takes longer than 3 s, and no timer is due in less than 1.5 s; a timer that is longer than another by
// half an hour or more is due at least 1.5 s later; with a virtual clock durations are not scaled.

import { randomUUID } from "node:crypto";
import { type Duration, parseDuration } from "@holdfast/core";
import type { Host, HostRun } from "./host.ts";

/** How time passes for a host: when the test says so, or by itself. */
export type HostClock = "virtual" | "real";

/** Real milliseconds for an hour of a test. */
const HOUR = 3_000;
const SHORTEST_TIMER = HOUR / 2;
const LONGEST_SKIP = HOUR;

/** A duration of workflow code, or of an option. */
export type Scaled = (duration: Duration) => Duration;

export function scaleOf(clock: HostClock): Scaled {
  if (clock === "virtual") return (duration) => duration;
  return (duration) => {
    const ms = parseDuration(duration);
    return ms === 0 ? 0 : Math.max(SHORTEST_TIMER, Math.ceil((ms * HOUR) / 3_600_000));
  };
}

/** A host for one test. Several tests may share what is behind their hosts. */
export interface SuiteHost extends Host {
  /** The id of a run as workflow code has to name it. Calls of the host are given the short name. */
  idOf(name: string): string;
}

export function suiteHost(host: Host, clock: HostClock): SuiteHost {
  const t = scaleOf(clock);
  const unique = randomUUID().slice(0, 8);
  const idOf = (name: string): string => `${unique}-${name}`;
  return {
    idOf,
    async start(workflow, input, options = {}) {
      const { deadline, delay, maxDelay, idempotencyKey } = options;
      const scaled = {
        ...options,
        id: idOf(options.id ?? "run"),
        ...(deadline !== undefined && { deadline: t(deadline) }),
        ...(delay !== undefined && { delay: t(delay) }),
        ...(maxDelay !== undefined && { maxDelay: t(maxDelay) }),
        ...(idempotencyKey !== undefined && { idempotencyKey: idOf(idempotencyKey) }),
      };
      return scaledRun(await host.start(workflow, input, scaled), t);
    },
    run: (workflow, id) => scaledRun(host.run(workflow, idOf(id)), t),
    skip: (time) => host.skip(clock === "virtual" ? time : Math.min(LONGEST_SKIP, parseDuration(t(time)))),
    teach: (...workflows) => host.teach(...workflows),
    settle: () => host.settle(),
    crash: () => host.crash(),
    dieAt: (write, when) => host.dieAt(write, when),
    now: () => host.now(),
    ...(host.queues !== undefined && { queues: host.queues }),
    close: async () => host.close?.(),
  };
}
/** Scales the durations that its updates wait for. */
function scaledRun(run: HostRun, t: Scaled): HostRun {
  return new Proxy(run, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (key === "update")
        return ((name, input, options) => target.update(name, input, scaledWaits(options, t))) satisfies HostRun["update"];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
function scaledWaits(options: Parameters<HostRun["update"]>[2], t: Scaled): typeof options {
  if (options === undefined) return undefined;
  const { timeout, acceptWithin } = options;
  return {
    ...options,
    ...(timeout !== undefined && { timeout: t(timeout) }),
    ...(acceptWithin !== undefined && { acceptWithin: t(acceptWithin) }),
  };
}
