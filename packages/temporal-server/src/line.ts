// Between a process and its Temporal server: counts what goes through, and dies in place of the process.
// Owns: the connections on both sides.
// Invariants: after it was cut nothing more reaches the server, and nothing is answered; the server sees the calls that wait there end, as
// when a process is killed.

import { once } from "node:events";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";

/** What is stored at once, and may be the last that a process does. */
const WRITES: ReadonlySet<string> = new Set([
  "StartWorkflowExecution", "SignalWorkflowExecution", "SignalWithStartWorkflowExecution", "UpdateWorkflowExecution",
  "ExecuteMultiOperation", "RequestCancelWorkflowExecution", "TerminateWorkflowExecution", "RespondWorkflowTaskCompleted",
  "RespondWorkflowTaskFailed", "RespondActivityTaskCompleted", "RespondActivityTaskFailed", "RespondActivityTaskCanceled",
]); // biome-ignore format: a list
const TASK_POLLS: ReadonlySet<string> = new Set(["PollWorkflowTaskQueue", "PollActivityTaskQueue", "PollNexusTaskQueue"]);
/** Calls that are answered when something has happened, which may take any time. */
const WAITS: ReadonlySet<string> = new Set([
  ...TASK_POLLS, "GetWorkflowExecutionHistory", "PollWorkflowExecutionUpdate", "UpdateWorkflowExecution", "ExecuteMultiOperation",
]); // biome-ignore format: a list
/** A message of gRPC that has nothing in it: its head. */
const EMPTY = 5;

export interface LineOptions {
  /** Between the process and the line; the server itself speaks without encryption. */
  readonly tls?: SecureServerOptions;
  /** Gets the head of every call. A status of gRPC that it returns refuses the call. */
  readonly onCall?: (headers: IncomingHttpHeaders) => number | undefined;
}
interface Doom {
  left: number;
  readonly when: "before" | "after";
  readonly struck: () => void;
}

export class Line {
  /** Polls for tasks that wait at the server. */
  polls = 0;
  /** Calls under way, without those that wait for something to happen. */
  calls = 0;
  /** Calls that changed something, and tasks that were received. */
  progress = 0;
  readonly #server: Http2Server | Http2SecureServer;
  readonly #target: string;
  readonly #onCall: LineOptions["onCall"];
  readonly #sessions = new Set<ServerHttp2Session>();
  #upstream: ClientHttp2Session | undefined;
  #doom: Doom | undefined;
  #isCut = false;
  #reject: (error: Error) => void = () => {};
  /** Rejects when the line is cut. */
  readonly death: Promise<never> = new Promise((_, reject) => {
    this.#reject = reject;
  });

  private constructor(target: string, { tls, onCall }: LineOptions) {
    this.#target = target;
    this.#onCall = onCall;
    this.#server = tls === undefined ? createServer() : createSecureServer(tls);
    this.death.catch(() => {});
    this.#server.on("session", (session) => this.#accept(session));
    this.#server.on("sessionError", () => {});
    this.#server.on("stream", (stream, headers) => this.#pass(stream, headers));
  }
  /** @param target The address of the server. */
  static async to(target: string, options: LineOptions = {}): Promise<Line> {
    const line = new Line(target, options);
    await once(line.#server.listen(0, "127.0.0.1"), "listening");
    return line;
  }
  /** Where the process finds the server. */
  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }
  get isCut(): boolean {
    return this.#isCut;
  }
  /** It keeps its port: what is left of the process would otherwise find another server there. */
  cut(): void {
    if (this.#isCut) return;
    this.#isCut = true;
    // Not from inside of an event of these sessions: Node frees what it is still reading.
    setImmediate(() => {
      for (const session of this.#sessions) session.destroy();
      this.#upstream?.destroy();
    });
    this.#reject(new Error("The process has died."));
  }
  /** Cuts it at the n-th write from now: before it reaches the server, or when the server has answered and the caller has not heard it. */
  cutAt(write: number, when: "before" | "after"): { readonly struck: boolean } {
    const doom = { struck: false };
    const struck = (): void => {
      doom.struck = true;
      this.cut();
    };
    this.#doom = { left: write, when, struck };
    return doom;
  }
  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(session: ServerHttp2Session): void {
    session.on("error", () => {});
    if (this.#isCut) return session.destroy();
    this.#sessions.add(session);
    session.once("close", () => this.#sessions.delete(session));
  }
  #connected(): ClientHttp2Session {
    if (this.#upstream === undefined || this.#upstream.closed || this.#upstream.destroyed) {
      this.#upstream = connect(`http://${this.#target}`);
      this.#upstream.on("error", () => {});
    }
    return this.#upstream;
  }
  #pass(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    stream.on("error", () => {});
    if (this.#isCut) return void stream.destroy();
    const refusal = this.#onCall?.(headers);
    if (refusal !== undefined) return refuse(stream, refusal);
    const method = String(headers[":path"]).split("/").at(-1) ?? "";
    const doom = WRITES.has(method) && this.#doom !== undefined && --this.#doom.left === 0 ? this.#doom : undefined;
    if (doom?.when === "before") return doom.struck();
    const call = this.#connected().request(headers);
    call.on("error", () => stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    // A poll that its caller cancels has to end at the server, which would hand a task to it.
    stream.once("close", () => call.close(constants.NGHTTP2_CANCEL));
    stream.pipe(call);
    this.#count(method, call);
    if (doom === undefined) answer(stream, call);
    else call.resume().once("end", doom.struck);
  }
  #count(method: string, call: ClientHttp2Stream): void {
    const isPoll = TASK_POLLS.has(method);
    const isCounted = !WAITS.has(method);
    let bytes = 0;
    if (isPoll) this.polls++;
    if (isCounted) this.calls++;
    call.on("data", (chunk: Uint8Array) => {
      bytes += chunk.length;
    });
    call.once("close", () => {
      if (isPoll) this.polls--;
      if (isCounted) this.calls--;
      if (isPoll ? bytes > EMPTY : WRITES.has(method)) this.progress++;
    });
  }
}

function refuse(stream: ServerHttp2Stream, status: number): void {
  stream.respond({ ":status": 200, "content-type": "application/grpc", "grpc-status": status }, { endStream: true });
  stream.resume();
}
function answer(stream: ServerHttp2Stream, call: ClientHttp2Stream): void {
  let trailers: IncomingHttpHeaders = {};
  call.once("trailers", (received) => {
    trailers = received;
  });
  call.once("response", (headers, flags) => {
    if (stream.destroyed) return;
    // A call that failed has all in its head.
    if ((flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0) return stream.respond(headers, { endStream: true });
    stream.respond(headers, { waitForTrailers: true });
    stream.once("wantTrailers", () => stream.sendTrailers(trailers));
    call.pipe(stream);
  });
}
