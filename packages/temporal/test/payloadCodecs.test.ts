// Payload codecs of Temporal's SDKs.

import { expect, test } from "vitest";
import { PayloadCodecs } from "../src/payloadCodecs.ts";
import { jsonPayload } from "../src/payloads.ts";

const secret = { encode: async () => [{ metadata: {}, data: new Uint8Array([1]) }], decode: async () => [] };

test("Y2 a command is compared with history after it was sent: encoding leaves it as it is", async () => {
  const completion = { runId: "run", successful: { commands: [{ userMetadata: { summary: jsonPayload("sleep") } }] } };
  const before = structuredClone(completion);
  const sent = await new PayloadCodecs([secret]).encode(completion);
  expect(completion).toEqual(before);
  expect(sent.successful.commands[0]?.userMetadata.summary.data).toEqual(new Uint8Array([1]));
});
