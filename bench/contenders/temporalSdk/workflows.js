// The workflows of the benchmark for Temporal's TypeScript SDK, which bundles this file.

import { proxyActivities, proxyLocalActivities } from "@temporalio/workflow";

const remote = proxyActivities({ startToCloseTimeout: "1 minute" });
const local = proxyLocalActivities({ startToCloseTimeout: "1 minute" });
const stepsOf = (isLocal) => (isLocal ? local : remote);

export async function five(isLocal, input) {
  for (let i = 0; i < 5; i++) await stepsOf(isLocal).work(i, input);
  return { done: true };
}
export async function one(isLocal) {
  return stepsOf(isLocal).work(0);
}
export async function chain(isLocal, steps) {
  for (let i = 0; i < steps; i++) await stepsOf(isLocal).work(i);
  return steps;
}
export async function wide(isLocal, width) {
  const results = await Promise.all(Array.from({ length: width }, (_, i) => stepsOf(isLocal).work(i)));
  return results.length;
}
