// Workflows of Temporal's TypeScript SDK: they run in its sandbox.

import { executeChild, getExternalWorkflowHandle, proxyActivities, startChild } from "@temporalio/workflow";

/** Starts a run of ours as a child: its result, or the chain of its failure. */
export async function parent({ type, taskQueue, workflowId, input }) {
  try {
    return { result: await executeChild(type, { taskQueue, workflowId, args: [input] }) };
  } catch (error) {
    const chain = [];
    for (let one = error; one; one = one.cause) chain.push({ name: one.name, type: one.type, message: one.message, details: one.details });
    return { chain };
  }
}
/** Signals a run of ours while it is our child. */
export async function signaling({ type, taskQueue, workflowId }) {
  const child = await startChild(type, { taskQueue, workflowId, args: [0] });
  await child.signal("add", 5);
  await getExternalWorkflowHandle(workflowId).signal("add", 6);
  await child.signal("end");
  return child.result();
}
/** Calls an activity of ours. */
export async function calling({ taskQueue, input }) {
  const { shout } = proxyActivities({ taskQueue, startToCloseTimeout: "20s", retry: { initialInterval: "10ms" } });
  return shout(input);
}
