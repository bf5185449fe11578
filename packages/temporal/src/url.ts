// The URL of an engine on Temporal: `temporal://host:7233/namespace?queue=orders`.
// Owns: its form and its defaults.
// Invariants: a URL that can't be used is an InvalidInputError that says what to write; nothing in it is ignored.

import { InvalidInputError } from "@holdfast/core";

export interface TemporalTarget {
  /** `host:port`. */
  readonly address: string;
  readonly namespace: string;
  /** The queue of runs and workers that name none. */
  readonly queue: string;
  readonly isEncrypted: boolean;
}

const FORM = "temporal://host:7233/namespace?queue=orders";
const DEFAULT_PORT = "7233";
const LONGEST_QUEUE = 900;

/** `namespace`: the option of that name, which must not contradict the path. */
export function targetOf(url: string, namespace: string | undefined): TemporalTarget {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch (cause) {
    throw refused(`"${url}" is not a URL. Write it as ${FORM}.`, cause);
  }
  const { protocol, hostname, port, pathname, searchParams, username, password, hash } = parsed;
  if (protocol !== "temporal:" && protocol !== "temporals:") throw refused(`The scheme is "${protocol}". Write it as ${FORM}.`);
  if (hostname === "") throw refused(`The host is missing. Write it as ${FORM}.`);
  if (username !== "" || password !== "")
    throw refused("The URL has a user or a password, which Temporal does not use. Pass { temporal: { apiKey } } or a client certificate.");
  if (hash !== "") throw refused(`The URL has a fragment ("${hash}"), which has no meaning. Write it as ${FORM}.`);
  for (const name of searchParams.keys()) if (name !== "queue") throw refused(`The parameter "${name}" is not known. Only "queue" is.`);
  if (searchParams.getAll("queue").length > 1) throw refused("The queue is given more than once. Name it once.");
  const path = decoded(pathname.replace(/^\//, ""));
  if (path.includes("/")) throw refused(`The path "${path}" has several parts. It is the namespace: ${FORM}.`);
  if (path !== "" && namespace !== undefined && namespace !== path)
    throw refused(`The namespace is "${path}" in the URL and "${namespace}" in the options. Name it once.`);
  const queue = searchParams.get("queue") ?? "default";
  if (queue === "") throw refused(`The queue is empty. Write it as ${FORM}.`);
  if (Buffer.byteLength(queue) > LONGEST_QUEUE) throw refused(`The name of the queue has more than ${LONGEST_QUEUE} bytes.`);
  return {
    address: `${hostname}:${port === "" ? DEFAULT_PORT : port}`,
    namespace: path === "" ? (namespace ?? "default") : path,
    queue,
    isEncrypted: protocol === "temporals:",
  };
}
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch (cause) {
    throw refused(`The path "${path}" can't be decoded: write a percent sign as %25.`, cause);
  }
}
function refused(message: string, cause?: unknown): InvalidInputError {
  return new InvalidInputError({ what: "the URL of Temporal", issues: [{ message }], cause });
}
