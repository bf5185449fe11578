// `holdfast runs signal`, `update` and `query`
// Owns: nothing but their arguments.
// Invariants: update and query print the answer itself; a value that is not JSON is refused before anything is sent.

import { printable } from "../../terminal/escape.ts";
import { durationOption, jsonArgument } from "../arguments.ts";
import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";

interface MessageOptions {
  readonly idempotencyKey?: string;
  readonly acceptWithin?: string;
  readonly tagged?: true;
}
type MessageArgs = readonly [id: string, name: string, value: string | undefined];

const DEFAULT_WAIT = 30_000;

export async function sendSignal(session: Session, [id, name, text]: MessageArgs, options: MessageOptions): Promise<number> {
  const body = await jsonArgument("The value", text, session.io);
  const client = await session.writer();
  await client.call("runs.signal", {
    params: { id, name },
    query: { ...(options.tagged === true && { tagged: true }) },
    body,
    idempotencyKey: options.idempotencyKey,
  });
  session.show({ json: { id }, ids: [id], human: () => [`Sent ${printable(name)} to ${printable(id)}`] });
  return EXIT.ok;
}

export async function sendUpdate(session: Session, [id, name, text]: MessageArgs, options: MessageOptions): Promise<number> {
  const body = await jsonArgument("The value", text, session.io);
  const acceptWithin = options.acceptWithin === undefined ? undefined : durationOption("--accept-within", options.acceptWithin);
  const wait = (await session.timeout()) ?? DEFAULT_WAIT;
  const client = await session.writer();
  session.progress.say(`Waiting for ${name} …`);
  const answer = await client.call("runs.update", {
    params: { id, name },
    query: { wait, ...(acceptWithin !== undefined && { acceptWithin }), ...(options.tagged === true && { tagged: true }) },
    body,
    idempotencyKey: options.idempotencyKey,
    signal: session.io.signal,
  });
  session.progress.end();
  session.value(answer);
  return EXIT.ok;
}

export async function runQuery(session: Session, [id, name, text]: MessageArgs, options: MessageOptions): Promise<number> {
  const body = await jsonArgument("The value", text, session.io);
  const client = await session.readerWithCode();
  const query = { ...(options.tagged === true && { tagged: true }) };
  session.value(await client.call("runs.query", { params: { id, name }, query, body }));
  return EXIT.ok;
}
