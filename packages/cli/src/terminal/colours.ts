// Colours of the terminal.
// Owns: when there are any, and which colour a status has.
// Invariants: no escape sequence is written to a pipe, with NO_COLOR or with --no-color; colour never is the only thing that says something.

import type { Io } from "./io.ts";

const CODES = { bold: [1, 22], dim: [2, 22], red: [31, 39], green: [32, 39], yellow: [33, 39], blue: [34, 39], cyan: [36, 39] } as const;
type Colour = keyof typeof CODES;
export type Colours = Readonly<Record<Colour, (text: string) => string>>;

export function coloursOf(io: Pick<Io, "env">, isTerminal: boolean, isWanted: boolean): Colours {
  const isOn = isWanted && isTerminal && (io.env["NO_COLOR"] ?? "") === "" && io.env["TERM"] !== "dumb";
  const paint = (colour: Colour) => (text: string) => (isOn ? `\u001b[${CODES[colour][0]}m${text}\u001b[${CODES[colour][1]}m` : text);
  return {
    bold: paint("bold"),
    dim: paint("dim"),
    red: paint("red"),
    green: paint("green"),
    yellow: paint("yellow"),
    blue: paint("blue"),
    cyan: paint("cyan"),
  };
}

/** Of runs, operations, attempts and checks. */
const STATUS: Readonly<Record<string, Colour>> = {
  completed: "green",
  ok: "green",
  succeeded: "green",
  failed: "red",
  fail: "red",
  blocked: "red",
  lost: "red",
  terminated: "yellow",
  canceled: "yellow",
  rolling_back: "yellow",
  warn: "yellow",
  running: "blue",
  sleeping: "cyan",
  waiting: "cyan",
  pending: "dim",
  scheduled: "dim",
  continued: "dim",
  abandoned: "dim",
};

export function statusText(status: string, colours: Colours): string {
  const colour = Object.hasOwn(STATUS, status) ? STATUS[status] : undefined;
  return colour === undefined ? status : colours[colour](status);
}
