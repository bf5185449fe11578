// What each construct is to Temporal's Core: the commands that are sent and the jobs that come back, in recorded histories.

import { readFileSync } from "node:fs";
import { type AnyWorkflow, workflow } from "@holdfast/core";
import { expect, test } from "vitest";
import type { WorkflowActivation } from "../src/bridge.ts";
import { spiedReplay } from "../src/replay.ts";
import { recordings } from "./recordings.ts";

type Name = keyof typeof recordings;
/** Of each activation: the kinds of its jobs, and those of the commands that answer them. */
interface Exchange {
  readonly jobs: readonly string[];
  readonly commands: readonly string[];
  readonly activation: WorkflowActivation;
}

async function exchangesOf(name: Name): Promise<Exchange[]> {
  const { turns } = JSON.parse(readFileSync(new URL(`./histories/${name}.json`, import.meta.url), "utf8"));
  const code = recordings[name]?.workflow;
  if (code === undefined) throw new Error(`There is no recording "${name}".`);
  return exchangesIn(code, turns);
}
async function exchangesIn(code: AnyWorkflow, events: readonly unknown[]): Promise<Exchange[]> {
  const exchanges: Exchange[] = [];
  await spiedReplay(code, { events }, (activation, { successful }) =>
    exchanges.push({ jobs: (activation.jobs ?? []).map(kindOf), commands: (successful?.commands ?? []).map(kindOf), activation }),
  );
  return exchanges;
}
/** The one field that says what it is. */
function kindOf(message: object): string {
  return Object.keys(message).find((key) => key !== "userMetadata" && (message as Record<string, unknown>)[key] !== null) ?? "";
}
/** The command is sent in one activation, and the job comes in a later one. */
function expectPair(exchanges: readonly Exchange[], command: string, job: string): void {
  const sent = exchanges.findIndex(({ commands }) => commands.includes(command));
  expect(sent, command).toBeGreaterThanOrEqual(0);
  expect(
    exchanges.findIndex(({ jobs }, i) => i > sent && jobs.includes(job)),
    `${job} after ${command}`,
  ).toBeGreaterThan(sent);
}

test("Core: a run begins with initializeWorkflow and ends with completeWorkflowExecution", async () => {
  const exchanges = await exchangesOf("operations");
  expect(exchanges[0]?.jobs).toEqual(["initializeWorkflow"]);
  expect(exchanges.at(-1)?.commands.at(-1)).toBe("completeWorkflowExecution");
});
test("Core: ctx.step and ctx.activity are scheduleActivity, then resolveActivity", async () => {
  const exchanges = await exchangesOf("operations");
  expect(exchanges[0]?.commands).toEqual(["scheduleActivity"]);
  expect(exchanges[1]).toMatchObject({ jobs: ["resolveActivity"], commands: ["scheduleActivity"] });
  expect(exchanges[2]?.jobs).toEqual(["resolveActivity"]);
});
test("Core: ctx.sideEffect and a local step are scheduleLocalActivity, resolved from a marker in the same task", async () => {
  const exchanges = await exchangesOf("operations");
  const at = exchanges.findIndex(({ commands }) => commands.includes("scheduleLocalActivity"));
  expect(exchanges[at + 1]).toMatchObject({ jobs: ["resolveActivity"], commands: ["scheduleLocalActivity"] });
  expect(exchanges[at + 1]?.activation.historyLength).toBe(exchanges[at]?.activation.historyLength);
});
test("Core: ctx.sleep is startTimer, then fireTimer", async () => {
  expectPair(await exchangesOf("operations"), "startTimer", "fireTimer");
});
test("Core: ctx.publishState and ctx.setAttributes are one modifyWorkflowProperties of their turn", async () => {
  const exchanges = await exchangesOf("operations");
  expect(exchanges.flatMap(({ commands }) => commands).filter((kind) => kind === "modifyWorkflowProperties")).toHaveLength(1);
});
test("Core: ctx.join sends the commands of all branches in one activation", async () => {
  const exchanges = await exchangesOf("operations");
  expect(exchanges.some(({ commands }) => commands.filter((kind) => kind === "scheduleActivity").length === 2)).toBe(true);
});
test("Core: ctx.parallel sends the commands of all branches in one activation", async () => {
  const [first] = await exchangesOf("branches");
  expect(first?.commands).toEqual(["scheduleActivity", "scheduleActivity"]);
});
test("Core: the losers of ctx.race are withdrawn: cancelTimer", async () => {
  const exchanges = await exchangesOf("operations");
  expect(exchanges.at(-1)?.commands).toContain("cancelTimer");
});
test("Core: ctx.patched is setPatchMarker, and in replay notifyHasPatch before the other jobs", async () => {
  const exchanges = await exchangesOf("operations");
  const marked = exchanges.find(({ commands }) => commands.includes("setPatchMarker"));
  expect(marked?.jobs[0]).toBe("notifyHasPatch");
});
test("Core: ctx.deprecatePatch is setPatchMarker with its mark", async () => {
  const exchanges = await exchangesOf("branches");
  expect(exchanges.flatMap(({ commands }) => commands)).toContain("setPatchMarker");
});
test("Core: a signal is signalWorkflow, and needs no command", async () => {
  const exchanges = await exchangesOf("messages");
  expect(exchanges.find(({ jobs }) => jobs.includes("signalWorkflow"))).toMatchObject({ jobs: ["signalWorkflow"], commands: [] });
});
test("Core: an update is doUpdate, accepted in the activation that brings it, and answered when its handler ends", async () => {
  const exchanges = await exchangesOf("messages");
  const brought = exchanges.find(({ jobs }) => jobs.includes("doUpdate"));
  expect(brought?.commands).toContain("updateResponse");
  expect(exchanges.flatMap(({ jobs }) => jobs).filter((kind) => kind === "doUpdate")).toHaveLength(2); // the rejected one has left no trace
});
test("Core: an asynchronous update is accepted at once, sends its commands, and is completed later", async () => {
  const exchanges = await exchangesOf("handlers");
  const at = exchanges.findIndex(({ jobs }) => jobs.includes("doUpdate"));
  expect(exchanges[at]?.commands).toEqual(["updateResponse", "scheduleActivity"]);
  expect(exchanges[at + 1]).toMatchObject({ jobs: ["resolveActivity"], commands: ["updateResponse"] });
});
test("Core: updateState needs no command", async () => {
  const exchanges = await exchangesOf("handlers");
  const kinds = new Set(exchanges.flatMap(({ commands }) => commands));
  expect([...kinds].sort()).toEqual(["completeWorkflowExecution", "scheduleActivity", "updateResponse"]);
});
test("Core: ctx.child is startChildWorkflowExecution, resolved by its start and by its end", async () => {
  const exchanges = await exchangesOf("family");
  expectPair(exchanges, "startChildWorkflowExecution", "resolveChildWorkflowExecutionStart");
  expectPair(exchanges, "startChildWorkflowExecution", "resolveChildWorkflowExecution");
});
test("Core: ctx.signalRun and ctx.cancelRun are commands to other executions, and resolved", async () => {
  const exchanges = await exchangesOf("branches");
  expectPair(exchanges, "signalExternalWorkflowExecution", "resolveSignalExternalWorkflow");
  expectPair(exchanges, "requestCancelExternalWorkflowExecution", "resolveRequestCancelExternalWorkflow");
});
test("Core: a cancellation is cancelWorkflow, answered with cancelWorkflowExecution", async () => {
  const exchanges = await exchangesOf("waiting");
  expect(exchanges.at(-1)).toMatchObject({ jobs: ["cancelWorkflow"], commands: ["cancelWorkflowExecution"] });
});
test("Core: a run that fails rolls back with activities, and ends with failWorkflowExecution", async () => {
  const exchanges = await exchangesOf("saga");
  expect(exchanges.at(-1)).toMatchObject({ jobs: ["resolveActivity"] });
  expect(exchanges.at(-1)?.commands.at(-1)).toBe("failWorkflowExecution");
});
test("Core: ctx.continueAsNew is continueAsNewWorkflowExecution", async () => {
  const next = workflow("next", async (ctx, n: number) => (n < 2 ? ctx.continueAsNew(n + 1) : n));
  const started = JSON.parse(readFileSync(new URL("./histories/looping.json", import.meta.url), "utf8")).turns.slice(0, 4);
  const payload = (n: number) => ({ payloads: [{ metadata: { encoding: btoa("json/plain") }, data: btoa(String(n)) }] });
  Object.assign(started[0].workflowExecutionStartedEventAttributes, { workflowType: { name: "next" }, input: payload(1) });
  const end = {
    eventId: "5",
    eventType: "EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW",
    workflowExecutionContinuedAsNewEventAttributes: {
      newExecutionRunId: "next",
      workflowType: { name: "next" },
      input: payload(2),
      workflowTaskCompletedEventId: "4",
    },
  };
  const [first] = await exchangesIn(next, [...started, end]);
  expect(first).toMatchObject({ jobs: ["initializeWorkflow"], commands: ["continueAsNewWorkflowExecution"] });
});
