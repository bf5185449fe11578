// Engines on a real server for the tests of one file, and a look at what the server has recorded.
// Owns: what it opened; all of it is closed with the test or the file that asked for it.
// Invariants: every test has a queue of its own.

import { randomUUID } from "node:crypto";
import { DEFAULT_LIMITS, jsonCodec, type Logger } from "@holdfast/core";
import { needTemporalServer, type TemporalServer, type TemporalServerOptions } from "@holdfast/temporal-server";
import { Holdfast, type OpenOptions } from "holdfast";
import { afterAll, beforeAll } from "vitest";
import { Connection, type HistoryEvent } from "../../src/bridge.ts";
import { downloadHistory } from "../../src/history.ts";
import { openBackend } from "../../src/index.ts";
import { PayloadCodecs } from "../../src/payloadCodecs.ts";
import { api } from "../../src/proto.ts";
import type { Timing } from "../../src/timing.ts";

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const { EventType } = api.api.enums.v1;

/** Times on a server: a task that it hands out late may take 20 s. */
export const LONG = 110_000;

export interface Engines {
  readonly server: TemporalServer;
  /** Past the host that is tested. */
  readonly raw: Connection;
  /** An engine with a queue of its own, unless one is named. */
  open(queue?: string, options?: OpenOptions): Promise<Holdfast>;
  /** What the server has recorded of the newest execution, or of the one with Temporal's run id. */
  events(id: string, runId?: string): Promise<HistoryEvent[]>;
  /** The names of the events, as Temporal's tools show them: "WORKFLOW_TASK_COMPLETED". */
  kinds(id: string): Promise<string[]>;
}

/** For all tests of a file. `timing`: other than users have it. */
export function engines(options?: TemporalServerOptions, timing?: Partial<Timing>): Engines {
  let server: TemporalServer | undefined;
  let raw: Connection | undefined;
  const opened: Holdfast[] = [];
  beforeAll(async () => {
    server = await needTemporalServer(options);
    const { address, namespace } = server;
    raw = await Connection.open({
      address,
      namespace,
      tls: undefined,
      apiKey: undefined,
      payloadCodecs: new PayloadCodecs(),
      logger: SILENT,
    });
  }, LONG);
  afterAll(async () => {
    await Promise.all(opened.map((holdfast) => holdfast.close()));
    raw?.close();
    await server?.stop();
  }, LONG);
  const needed = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error("The server was not reached.");
    return value;
  };
  const events = async (id: string, runId = ""): Promise<HistoryEvent[]> => (await downloadHistory(needed(raw), id, runId)).events ?? [];
  return {
    get server() {
      return needed(server);
    },
    get raw() {
      return needed(raw);
    },
    open: async (queue = newQueue(), more = {}) => {
      const url = needed(server).url(queue);
      const settings = { logger: SILENT, codec: jsonCodec, limits: DEFAULT_LIMITS, namespace: undefined };
      const holdfast = await (timing === undefined
        ? Holdfast.open(url, { logger: SILENT, ...more })
        : Holdfast.with({ backend: await openBackend(url, settings, timing) }, { logger: SILENT }));
      opened.push(holdfast);
      return holdfast;
    },
    events,
    kinds: async (id) => (await events(id)).map(({ eventType }) => kindOf(eventType ?? 0)),
  };
}
export function newQueue(): string {
  return `q-${randomUUID()}`;
}
function kindOf(eventType: number): string {
  return (EventType[eventType] ?? "").replace("EVENT_TYPE_", "");
}
