// `engine.queues`: limits, pauses and load of queues.
// Owns: checking what users pass, and the shape of what they get.
// Invariants: Q11 (what is refused), Q1 (a queue of which nothing is known is an empty one).

import { checkedKey, checkedText, exactDuration, type OptionNames, parseDuration } from "@holdfast/core";
import { featureOf } from "../backend/features.ts";
import type { Backend, BackendQueues } from "../backend/port.ts";
import type { QueueRate, QueueRow, StoredQueueLoad, StoredQueueSpec } from "../store/queuePort.ts";
import { checkedOptions, invalid, shown } from "./options.ts";
import type { Limit, QueueInfo, QueueLoad, QueueSpec, Queues, Rate } from "./queueTypes.ts";

type KeySpec = NonNullable<QueueSpec["keys"]>[string];

const RATE: OptionNames<Rate> = { limit: true, per: true };
const LIMIT: OptionNames<Limit> = { concurrency: true, rate: true };
const KEY: OptionNames<KeySpec> = { ...LIMIT, weight: true };
const SPEC: OptionNames<QueueSpec> = { ...LIMIT, perKey: true, keys: true, counts: true };
const PAUSE: OptionNames<{ key?: unknown; for?: unknown }> = { key: true, for: true };
const RESUME: OptionNames<{ key?: unknown }> = { key: true };

const SET = "queues.set";
const [LEAST_WEIGHT, MOST_WEIGHT] = [0.001, 1_000];

export class QueuesHandle implements Queues {
  readonly #backend: Backend;

  constructor(backend: Backend) {
    this.#backend = backend;
  }
  async set(name: string, spec: QueueSpec): Promise<void> {
    const [queue, stored] = [checkedName(SET, name), checkedSpec(spec)];
    await this.#queues().setQueue(queue, stored);
  }
  async get(name: string): Promise<QueueInfo> {
    const queue = checkedName("queues.get", name);
    return queueInfo(await this.#queues().getQueue(queue));
  }
  async list(): Promise<QueueInfo[]> {
    return (await this.#queues().listQueues()).map(queueInfo);
  }
  async pause(name: string, options?: { key?: string; for?: Parameters<typeof parseDuration>[0] }): Promise<void> {
    const what = "queues.pause";
    const { key, for: length } = checkedOptions(what, options, PAUSE);
    const ms = length === undefined ? undefined : parseDuration(length, "for");
    if (ms !== undefined && ms < 1) throw invalid(what, "for must be at least 1 ms. queues.resume ends a pause.", "for");
    const queue = checkedName(what, name);
    await this.#queues().pauseQueue(queue, { key: checkedKey(what, key), for: ms });
  }
  async resume(name: string, options?: { key?: string }): Promise<void> {
    const what = "queues.resume";
    const { key } = checkedOptions(what, options, RESUME);
    const queue = checkedName(what, name);
    await this.#queues().resumeQueue(queue, checkedKey(what, key));
  }
  async delete(name: string): Promise<void> {
    const queue = checkedName("queues.delete", name);
    await this.#queues().deleteQueue(queue);
  }
  #queues(): BackendQueues {
    return featureOf(this.#backend, "queues");
  }
}

// ── what users pass ──

function checkedName(what: string, name: string): string {
  const queue = checkedText(what, "name", name);
  if (queue === undefined) throw invalid(what, "The name of a queue must be non-empty text.", "name");
  return queue;
}
function checkedSpec(given: QueueSpec): StoredQueueSpec {
  if (given === undefined) throw invalid(SET, "The limits must be an object. {} limits nothing; queues.delete removes them.");
  const spec = checkedOptions(SET, given, SPEC);
  const { counts } = spec;
  if (counts !== undefined && counts !== "running" && counts !== "open")
    throw invalid(SET, `counts must be "running" or "open", not ${shown(counts)}.`, "counts");
  return {
    ...checkedLimit(spec, ""),
    ...(spec.perKey !== undefined && { perKey: checkedLimit(checkedPart(spec.perKey, "perKey", LIMIT), "perKey.") }),
    ...(spec.keys !== undefined && { keys: checkedKeys(checkedPart(spec.keys, "keys")) }),
    ...(counts !== undefined && { counts }),
  };
}
/** A map would be taken for an object without entries. */
function checkedPart<T extends object>(given: T, path: string, names?: OptionNames<NoInfer<T>>): T {
  if (typeof given !== "object" || given === null || Array.isArray(given) || given instanceof Map)
    throw invalid(SET, `It must be an object, not ${shown(given)}.`, path);
  return checkedOptions(SET, given, names);
}
function checkedKeys(keys: NonNullable<QueueSpec["keys"]>): NonNullable<StoredQueueSpec["keys"]> {
  const entries = Object.entries(keys).map(([name, given]) => {
    const key = checkedKey(SET, name) ?? name;
    const limit = checkedPart(given, `keys.${key}`, KEY);
    const { weight } = limit;
    if (weight !== undefined && !(typeof weight === "number" && weight >= LEAST_WEIGHT && weight <= MOST_WEIGHT))
      throw invalid(SET, `weight must be a number from ${LEAST_WEIGHT} to ${MOST_WEIGHT}, not ${shown(weight)}.`, `keys.${key}.weight`);
    return [key, { ...checkedLimit(limit, `keys.${key}.`), ...(weight !== undefined && { weight }) }] as const;
  });
  return Object.fromEntries(entries);
}
function checkedLimit({ concurrency, rate }: Limit, path: string): { concurrency?: number; rate?: QueueRate } {
  return {
    ...(concurrency !== undefined && { concurrency: checkedCount(concurrency, `${path}concurrency`) }),
    ...(rate !== undefined && { rate: checkedRate(rate, `${path}rate`) }),
  };
}
function checkedRate(given: Rate, path: string): QueueRate {
  const { limit, per } = checkedPart(given, path, RATE);
  if (per === undefined) throw invalid(SET, "A rate needs per, the length of the window.", `${path}.per`);
  if (exactDuration(per, `${path}.per`) < 1) throw invalid(SET, "per must be at least 1 ms.", `${path}.per`);
  return { limit: checkedCount(limit, `${path}.limit`), per: parseDuration(per) };
}
function checkedCount(count: number, path: string): number {
  if (Number.isSafeInteger(count) && count >= 1) return count;
  throw invalid(SET, `It must be a whole number of at least 1, not ${shown(count)}. queues.pause stops a queue.`, path);
}

// ── what users get ──

export function queueInfo({ name, spec, paused, pausedUntil, pausedKeys, runs, activities }: QueueRow): QueueInfo {
  return {
    ...(spec as QueueSpec),
    name,
    paused,
    pausedUntil: pausedUntil === undefined ? undefined : new Date(pausedUntil),
    pausedKeys: [...pausedKeys],
    runs: loadOf(runs),
    activities: loadOf(activities),
  };
}
function loadOf({ waiting, held, oldest }: StoredQueueLoad): QueueLoad {
  return { waiting, held, oldest: oldest === undefined ? undefined : new Date(oldest) };
}
