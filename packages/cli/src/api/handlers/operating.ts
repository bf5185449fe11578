// Routes of workflows, queues, workers and schedules.
// Owns: nothing; the inspection reads, the engine writes.
// Invariants: the queue "default" is always listed; a host that lacks a feature answers HF_UNSUPPORTED.

import { ScheduleNotFoundError } from "@holdfast/core";
import type { QueueSpec, ScheduleSpec } from "holdfast";
import type { Caller, ConsoleContext } from "../context.ts";
import { fromJson } from "../json.ts";
import { emptyQueue, type QueueJson, queueJson, type ScheduleJson, scheduleJson, workerJson, workflowJson } from "../show.ts";
import { briefly, fully, type Handlers, present } from "./handler.ts";
import { checkValue, ifCode, workflowsOf } from "./messages.ts";

type OperatingRoute =
  | "workflows.list"
  | "workers.list"
  | `queues.${"list" | "get" | "set" | "delete" | "pause" | "resume"}`
  | `schedules.${"list" | "get" | "set" | "delete" | "pause" | "resume" | "trigger" | "backfill"}`;

const DEFAULT_QUEUE = "default";
const PAGE = 200;

export const operating: Handlers<OperatingRoute> = {
  "workflows.list": async (_request, context) => {
    const registered = await workflowsOf(await context.inspection());
    const known = new Set(registered.map(({ name, version }) => `${name}@${version}`));
    const code = (await ifCode(context.code?.describe())) ?? [];
    const others = code.filter(({ name, version }) => !known.has(`${name}@${version}`)).map((one) => ({ ...one, workers: [] }));
    return { workflows: [...registered, ...others].map(workflowJson) };
  },
  "workers.list": async (_request, context) => {
    return { workers: (await (await context.inspection()).workers()).map(workerJson) };
  },

  "queues.list": async (_request, context) => {
    const queues = (await (await context.inspection()).queueStats()).map(queueJson);
    const all = queues.some(({ name }) => name === DEFAULT_QUEUE) ? queues : [...queues, emptyQueue(DEFAULT_QUEUE)];
    return { queues: all.sort((a, b) => (a.name < b.name ? -1 : 1)) };
  },
  "queues.get": async ({ params: { name } }, context) => {
    const queue = (await (await context.inspection()).queueStats()).find((one) => one.name === name);
    return queue === undefined ? emptyQueue(name) : queueJson(queue);
  },
  "queues.set": async ({ params: { name }, body }, context) => {
    await (await context.engine()).queues.set(name, body as QueueSpec);
    return queueNow(context, name);
  },
  "queues.delete": async ({ params: { name } }, context) => {
    await (await context.engine()).queues.delete(name);
    return { name };
  },
  "queues.pause": async ({ params: { name }, body }, context) => {
    await (await context.engine()).queues.pause(name, present(body ?? {}) as { key?: string; for?: number });
    return queueNow(context, name);
  },
  "queues.resume": async ({ params: { name }, body }, context) => {
    await (await context.engine()).queues.resume(name, present(body ?? {}) as { key?: string });
    return queueNow(context, name);
  },

  "schedules.list": async ({ query: { after, limit = PAGE } }, context, caller) => {
    const schedules = await (await context.inspection()).schedules({ limit, ...present({ after }) });
    const show = briefly(caller);
    const last = schedules.length === limit ? schedules.at(-1)?.id : undefined;
    return { schedules: schedules.map((one) => scheduleJson(one, show)), cursor: last ?? null };
  },
  "schedules.get": async ({ params: { id } }, context, caller) => {
    const schedule = await (await context.inspection()).schedule(id);
    if (schedule === undefined) throw new ScheduleNotFoundError({ schedule: id });
    return scheduleJson(schedule, fully(caller));
  },
  "schedules.set": async ({ params: { id }, body, query: { tagged } }, context, caller) => {
    const { workflow, input, start, ...options } = body;
    if (tagged !== true) await checkValue(context, workflow, start?.version, { kind: "input" }, input);
    const signals = start?.signals?.map(({ name, payload }) => ({ name, payload: fromJson(payload, tagged) }));
    const spec = {
      ...present({ ...options, input: fromJson(input, tagged) }),
      workflow,
      ...(start !== undefined && { start: present({ ...start, signals }) }),
    };
    await (await context.engine()).schedules.set(id, spec as unknown as ScheduleSpec);
    return scheduleNow(context, id, caller);
  },
  "schedules.delete": async ({ params: { id } }, context) => {
    const { schedules } = await context.engine();
    // The engine takes a schedule that is not there for deleted; a caller of the console has mistyped its id.
    await schedules.get(id);
    await schedules.delete(id);
    return { id };
  },
  "schedules.pause": async ({ params: { id } }, context, caller) => {
    await (await context.engine()).schedules.pause(id);
    return scheduleNow(context, id, caller);
  },
  "schedules.resume": async ({ params: { id } }, context, caller) => {
    await (await context.engine()).schedules.resume(id);
    return scheduleNow(context, id, caller);
  },
  "schedules.trigger": async ({ params: { id } }, context) => {
    return { id: await (await context.engine()).schedules.trigger(id) };
  },
  "schedules.backfill": async ({ params: { id }, body }, context) => {
    return { ids: await (await context.engine()).schedules.backfill(id, body) };
  },
};

async function queueNow(context: ConsoleContext, name: string): Promise<QueueJson> {
  return queueJson(await (await context.engine()).queues.get(name));
}
async function scheduleNow(context: ConsoleContext, id: string, caller: Caller): Promise<ScheduleJson> {
  return scheduleJson(await (await context.engine()).schedules.get(id), fully(caller));
}
