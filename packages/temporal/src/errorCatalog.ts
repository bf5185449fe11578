// The catalog of the errors that only the Temporal host raises: codes, and what to do about each.
// Owns: what docs/errors.md says of them. The messages are written where they are raised.
// Invariants: a code never changes (programs match on it), and is listed once.

import type { HostErrorEntry } from "holdfast/backend";

/** The errors that this host raises, with code and advice. `docs/errors.md` is generated from it. */
export const temporalErrors: readonly HostErrorEntry[] = [
  {
    code: "HF_TEMPORAL_UNAVAILABLE",
    retryable: true,
    summary: "The Temporal server can't be reached, or did not answer in time. A call that writes may or may not have been carried out.",
    whatToDo: "Check the address and the network, and try again: a repeated start or message with the same id or key has no second effect.",
  },
  {
    code: "HF_TEMPORAL_REFUSED",
    retryable: false,
    summary: "The Temporal server refused a call: the namespace does not exist, the account may not do this, or a value breaks a limit.",
    whatToDo: "Read the server's message, which the error contains.",
  },
  {
    code: "HF_TEMPORAL_LIMIT",
    retryable: true,
    summary:
      "A message was refused because the run has got as many of its kind as Temporal allows in one execution: 10,000 signals and 2,000 updates by default. The message was not delivered, and the run is unharmed.",
    whatToDo:
      "Let the run go on in new executions: `checkpointEvery` of a receive, `commitInterval` of a loop, or `ctx.continueAsNew`. A run that gets more messages than its worker can answer needs fewer senders, or more than one run.",
  },
  {
    code: "HF_TEMPORAL_TLS",
    retryable: false,
    summary:
      "The client and the Temporal server do not agree on an encrypted connection: one of them does not accept the other's certificate, or the server has no TLS.",
    whatToDo: "Read the message, which names the certificate. Correct `temporal.tls` or the URL, and open the engine again.",
  },
  {
    code: "HF_TEMPORAL_API_KEY",
    retryable: true,
    summary: "The function `temporal.apiKey` threw, or did not return a text that can be sent as a key.",
    whatToDo: "See `cause`, which is the error of the function.",
  },
  {
    code: "HF_NOT_SERVED",
    retryable: true,
    summary:
      "A worker got a task of a workflow, version or activity for which it has no code. The run is unharmed; the server offers the task again.",
    whatToDo: "All workers of a queue must serve the same workflows and versions: deploy the code to all of them, or use another queue.",
  },
  {
    code: "HF_TEMPORAL_CACHE",
    retryable: true,
    summary: "Temporal's Core activated a run that is not in the worker's memory. The task fails, and the server offers it again.",
    whatToDo: "Nothing. If it happens often, report it.",
  },
];
