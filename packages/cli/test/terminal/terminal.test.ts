// Tables, widths, escapes, times and progress for terminals.

import { expect, test } from "vitest";
import { coloursOf, statusText } from "../../src/terminal/colours.ts";
import { printable, printableJson, printableLines } from "../../src/terminal/escape.ts";
import { Interruption, type Io } from "../../src/terminal/io.ts";
import { bar, progressOn } from "../../src/terminal/progress.ts";
import { canAsk, confirmed } from "../../src/terminal/question.ts";
import { fields, table } from "../../src/terminal/table.ts";
import { relative, roughly, span } from "../../src/terminal/times.ts";
import { cut, pad, widthOf } from "../../src/terminal/width.ts";

const plain = coloursOf({ env: {} }, false, true);

function ioOf(given: Partial<Io> & { written?: string[] } = {}): Io {
  const written = given.written ?? [];
  return {
    stdout: { write: () => true },
    stderr: { write: (text) => written.push(text) },
    stdin: (async function* () {})(),
    env: {},
    cwd: "/",
    isTTY: { stdin: true, stdout: true, stderr: true },
    columns: 40,
    signal: new AbortController().signal,
    ...given,
  };
}

test("control and bidi characters are escaped, other text stays", () => {
  expect(printable("a\u001b[31mred\u0007")).toBe("a\\x1b[31mred\\x07");
  expect(printable("x\u202egnp.exe")).toBe("x\\u202egnp.exe");
  expect(printable("line\nnext\ttab\r")).toBe("line\\nnext\\ttab\\r");
  expect(printable("\u0085\u009b1m\u2066\u200b\ufeff\u{e0041}")).toBe("\\x85\\x9b1m\\u2066\\u200b\\ufeff\\udb40\\udc41");
  expect(printable("half \ud800!")).toBe("half \\ud800!");
  expect(printable("Grüße, 世界 👩‍👩‍👧 שלום")).toBe("Grüße, 世界 👩‍👩‍👧 שלום");
  expect(printableLines("one\r\ntwo\u001b[2J")).toBe("one\ntwo\\x1b[2J");
});

test("JSON with such characters means the same after they were escaped", () => {
  const value = { "\u202ekey": "a\u009b\u2028\u0000\ud83d\ude00\u{e0041}" };
  const shown = printableJson(JSON.stringify(value, null, 2));
  expect(JSON.parse(shown)).toEqual(value);
  expect(shown).not.toMatch(/[\u202e\u009b\u2028]/);
});

test("wide characters take two columns, marks none", () => {
  expect([widthOf("abc"), widthOf("世界"), widthOf("e\u0301"), widthOf("👩‍👩‍👧"), widthOf("한글"), widthOf("✔️"), widthOf("")]).toEqual([
    3, 4, 1, 2, 4, 2, 0,
  ]);
  expect(cut("世界世界", 5)).toBe("世界…");
  expect(cut("世界世界", 8)).toBe("世界世界");
  expect(cut("abc", 0)).toBe("");
  expect(pad("世", 4)).toBe("世  ");
  expect(pad("7", 3, "left")).toBe("  7");
});

interface Row {
  readonly id: string;
  readonly name: string;
  readonly n: number;
}
const columns = [
  { title: "ID", value: ({ id }: Row) => id },
  { title: "NAME", value: ({ name }: Row) => name, yields: 2 },
  { title: "N", value: ({ n }: Row) => n, align: "right" as const, yields: 3 },
];

test("a table has the width of its content where there is room", () => {
  expect(table(columns, [{ id: "a-1", name: "世界", n: 5 }], { width: undefined, colours: plain })).toEqual([
    "ID   NAME  N",
    "a-1  世界  5",
  ]);
});

test("every line fits the terminal, however narrow, and the id goes last", () => {
  const rows = [
    { id: "order-2026-05-01-000001", name: "a name that is long\nand has two lines 世界", n: 1_234_567 },
    { id: "b", name: "", n: 1 },
  ];
  for (let width = 1; width <= 90; width += 1) {
    const lines = table(columns, rows, { width, colours: plain });
    expect(Math.max(...lines.map(widthOf))).toBeLessThanOrEqual(width);
    expect(lines[1]?.startsWith(cut("order-2026-05-01-000001", Math.min(width, 23)).slice(0, 3))).toBe(true);
  }
  const second = (width: number): string | undefined => table(columns, rows, { width, colours: plain })[1];
  expect(second(42)).toBe("order-2026-05-01-000001  a name …  1234567");
  expect(second(41)).toBe("order-2026-05-01-000001  a name that is …");
});

test("a cell is painted after it was measured", () => {
  const colours = coloursOf({ env: {} }, true, true);
  const painted = columns.map((column) => ({ ...column, paint: (text: string) => colours.red(text) }));
  const [, line] = table(painted, [{ id: "$&", name: "b", n: 1 }], { width: 20, colours });
  expect(line).toBe("\u001b[31m$&\u001b[39m  \u001b[31mb\u001b[39m     \u001b[31m1\u001b[39m");
});

test("fields are aligned, and absent ones left out", () => {
  expect(
    fields(
      [
        ["id", "a"],
        ["workflow", "x\ny"],
        ["none", undefined],
      ],
      plain,
    ),
  ).toEqual(["id        a", "workflow  x\n          y"]);
});

test("no colours in pipes, with NO_COLOR, with --no-color and on dumb terminals", () => {
  const red = (env: Record<string, string>, isTerminal = true, isWanted = true) => coloursOf({ env }, isTerminal, isWanted).red("x");
  expect(red({})).toBe("\u001b[31mx\u001b[39m");
  expect([red({ NO_COLOR: "1" }), red({ TERM: "dumb" }), red({}, false), red({}, true, false)]).toEqual(["x", "x", "x", "x"]);
  expect(statusText("constructor", coloursOf({ env: {} }, true, true))).toBe("constructor");
});

test("times are relative and short", () => {
  const now = Date.parse("2026-05-01T12:00:00Z");
  const at = (ms: number): string => relative(new Date(now + ms).toISOString(), now);
  expect([at(-90_000), at(45_000), at(200), at(-3 * 86_400_000), at(-400 * 86_400_000)]).toEqual([
    "1m ago",
    "in 45s",
    "now",
    "3d ago",
    "2025-03-27",
  ]);
  expect(relative(null, now)).toBe("");
  expect([roughly(250), roughly(7_200_000)]).toEqual(["250ms", "2h"]);
  expect(span("2026-05-01T11:00:00Z", null, now)).toBe("1h");
});

test("progress is written in one place of a terminal, and nowhere else", () => {
  const written: string[] = [];
  const progress = progressOn(ioOf({ written, columns: 12 }), false);
  progress.say("a\u001b long line of progress");
  progress.end();
  progress.end();
  expect(written).toEqual(["\r\u001b[2Ka\\x1b long…", "\r\u001b[2K"]);
  const silent: string[] = [];
  progressOn(ioOf({ written: silent }), true).say("x");
  progressOn(ioOf({ written: silent, isTTY: { stdin: true, stdout: true, stderr: false } }), false).say("x");
  expect(silent).toEqual([]);
  expect([bar(0, 10, 4), bar(5, 10, 4), bar(20, 10, 4), bar(0, 0, 4)]).toEqual([
    "[----] 0 of 10",
    "[##--] 5 of 10",
    "[####] 20 of 10",
    "[####] 0 of 0",
  ]);
});

test("only y and yes are a yes", async () => {
  const answer = (...chunks: (string | Uint8Array)[]): Promise<boolean> =>
    confirmed(
      ioOf({
        stdin: (async function* () {
          yield* chunks;
        })(),
      }),
      "Sure?",
    );
  expect(await Promise.all([answer("y\n"), answer("YE", "S\r\nmore"), answer(new TextEncoder().encode("yes"))])).toEqual([
    true,
    true,
    true,
  ]);
  expect(await Promise.all([answer("\n"), answer(), answer("yep\n"), answer("no\n")])).toEqual([false, false, false, false]);
  expect(canAsk(ioOf({ isTTY: { stdin: false, stdout: true, stderr: true } }))).toBe(false);
});

test("an interruption says which signal it was", () => {
  expect(new Interruption("SIGTERM")).toMatchObject({ name: "Interruption", signal: "SIGTERM", message: "Interrupted by SIGTERM." });
});
