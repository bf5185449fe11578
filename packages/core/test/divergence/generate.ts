// Job: generated programs: every statement, inside every other, by chance but the same every time.
// Owns: the chances. Invariants: a seed names one program.
import type { Body, Op, Program } from "./program.ts";

/** Draws of a seed: whole numbers below a limit. */
export type Dice = (limit: number) => number;

export function dice(seed: number): Dice {
  let state = seed >>> 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

export function generate(seed: number): Program {
  const roll = dice(seed);
  const signals: string[] = [];
  const body = bodyOf(roll, 2, signals, 2 + roll(3));
  if (roll(3) === 0) body.splice(roll(body.length + 1), 0, receive(roll, signals));
  const messages = signals.map((name) => ({ message: name.startsWith("u") ? "update" : "signal", name }) as const);
  // Some of them never come.
  return { name: `generated ${seed}`, body, end: { end: "return", value: seed }, messages: messages.filter(() => roll(5) > 0) };
}

function bodyOf(roll: Dice, depth: number, signals: string[], length: number): Op[] {
  return Array.from({ length }, () => (depth > 0 && roll(5) < 2 ? scope(roll, depth - 1, signals) : simple(roll, signals)));
}
const inner = (roll: Dice, depth: number, signals: string[]): Body => bodyOf(roll, depth, signals, 1 + roll(2));

const NAMES = ["a", "b", "c"] as const;
const name = (roll: Dice): string => NAMES[roll(NAMES.length)] ?? "a";

function simple(roll: Dice, signals: string[]): Op {
  switch (roll(12)) {
    case 0:
      return { op: "step", name: name(roll), timeout: "1h" };
    case 1:
      return { op: "activity", name: name(roll), input: roll(3), options: roll(2) === 0 ? {} : { queue: "q" } };
    case 2:
      return { op: "child", name: name(roll), input: null, options: { parentClose: "abandon" } };
    case 3:
      return { op: "sleep", duration: 1_000 * (1 + roll(5)) };
    case 4:
      signals.push(`s${signals.length}`);
      return { op: "wait", name: signals.at(-1) ?? "", timeout: "1h" };
    case 5:
      return { op: "sideEffect" };
    case 6:
      return { op: "attributes", attributes: { value: roll(3) } };
    case 7:
      return { op: "patched", id: `p${roll(1_000_000)}`, whenNew: [{ op: "step", name: name(roll) }], otherwise: [] };
    case 8:
      return { op: "step", name: "breaks", fails: true };
    default:
      return { op: "step", name: name(roll) };
  }
}

function scope(roll: Dice, depth: number, signals: string[]): Op {
  const branches = () => NAMES.slice(0, 2 + roll(2)).map((key) => [key, inner(roll, depth, signals)] as const);
  switch (roll(7)) {
    case 0:
    case 1:
      return { op: "parallel", branches: branches().map(([, body]) => body) };
    case 2:
      return { op: "join", name: name(roll), branches: branches() };
    case 3:
      return { op: "race", name: name(roll), branches: branches() };
    case 4:
      return {
        op: "loop",
        name: name(roll),
        times: 1 + roll(3),
        ...(roll(2) === 0 && { commitInterval: 2 }),
        body: inner(roll, depth, signals),
      };
    case 5:
      return { op: "shield", body: inner(roll, depth, signals) };
    default:
      return { op: "try", name: name(roll), body: inner(roll, depth, signals) };
  }
}

function receive(roll: Dice, signals: string[]): Op {
  signals.push("r1", "u1", "r2", "r1", "r3");
  return {
    op: "receive",
    timeout: "24h",
    ...(roll(3) === 0 && { checkpointEvery: 2 }),
    handlers: [
      { message: "signal", name: "r1", body: inner(roll, 1, []) },
      { message: "update", name: "u1", body: [{ op: "step", name: name(roll) }], async: inner(roll, 1, []) },
      { message: "signal", name: "r2", body: [], async: inner(roll, 1, []) },
      { message: "signal", name: "r3", body: [{ op: "step", name: name(roll) }], stops: true },
    ],
  };
}
