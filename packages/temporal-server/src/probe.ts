// Asks a server whether it is ready, in gRPC by hand: one call does not need a library.
// Owns: the call.
// Invariants: "ready" means that it looked for a run in its history and found none, so its namespace is there and its shard is loaded.

import { connect } from "node:http2";

const CALL = "/temporal.api.workflowservice.v1.WorkflowService/DescribeWorkflowExecution";
/** One look; a server that is starting may accept a connection and not answer. */
const PATIENCE = 2_000;

/** Undefined if it is ready, otherwise why it is not. */
export async function whyNotReady(address: string, namespace: string): Promise<string | undefined> {
  const { status, message } = await ask(address, namespace).catch((error: Error) => ({ status: undefined, message: error.message }));
  return status === NOT_FOUND && /workflow .*not found/i.test(message) ? undefined : message;
}

const NOT_FOUND = 5;

function ask(address: string, namespace: string): Promise<{ status: number | undefined; message: string }> {
  return new Promise((resolve, reject) => {
    const session = connect(`http://${address}`);
    const timer = setTimeout(() => fail(new Error("It does not answer.")), PATIENCE);
    const end = () => {
      clearTimeout(timer);
      session.destroy();
    };
    const fail = (error: Error) => {
      end();
      reject(error);
    };
    session.once("error", fail);
    const stream = session.request({ ":method": "POST", ":path": CALL, "content-type": "application/grpc", te: "trailers" });
    stream.once("error", fail);
    let status: number | undefined;
    let message = "";
    const read = (headers: Record<string, unknown>) => {
      if (headers["grpc-status"] !== undefined) status = Number(headers["grpc-status"]);
      message = decodeURIComponent(String(headers["grpc-message"] ?? message));
    };
    stream.on("response", read).on("trailers", read);
    stream.resume().once("end", () => {
      end();
      resolve({ status, message });
    });
    stream.end(framed(Buffer.concat([field(1, Buffer.from(namespace)), field(2, field(1, Buffer.from("holdfast-is-it-ready")))])));
  });
}
/** A field of a protobuf message whose value has a length under 128. */
function field(number: number, value: Uint8Array): Buffer {
  return Buffer.concat([Buffer.of((number << 3) | 2, value.length), value]);
}
function framed(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}
