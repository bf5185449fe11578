// Replays that say which line of the code diverges from the history (`replayWithSource`), or asks for an operation (`sourceOfOperation`).
// Owns: nothing between calls.
// Invariants: Y1 (no effects). A history that fits is replayed once, without an observer: stacks are only taken of code that diverges.

import {
  type AnyWorkflow,
  type Codec,
  type Command,
  describeCommand,
  type ExecutionObserver,
  type History,
  NondeterminismError,
  parseLocation,
} from "@holdfast/core";
import { framesOf } from "@holdfast/host/node";
import { replay, type TemporalEvents } from "../api/replay.ts";

/** A position in the code. `file` is an absolute path; lines and columns count from 1. */
export interface SourcePosition {
  /** The absolute path of the file. */
  readonly file: string;
  /** The line, from 1. */
  readonly line: number;
  /** The column, from 1. */
  readonly column: number;
}
/** Whether code and history fit, and where they diverge. */
export type ReplayResult =
  | { readonly status: "passed" }
  | {
      readonly status: "diverged";
      /** Where they diverge: location, field, and both values. */
      readonly error: NondeterminismError;
      /**
       * Where the code asked for the operation that differs. If it ended, or waits, where the history has an operation: its last operation
       * before that. Undefined if there is none, for histories of Temporal, and for code that was bundled with Holdfast.
       */
      readonly source: SourcePosition | undefined;
    };
/** Options of `replayWithSource`. */
export interface ReplayWithSourceOptions {
  /**
   * The codec that the run was recorded with.
   * @defaultValue `jsonCodec`
   */
  readonly codec?: Codec;
  /**
   * Changed options of operations count as divergence, too.
   * @defaultValue `false`
   */
  readonly strict?: boolean;
}

/**
 * Runs the code against the history, and finds the line where they diverge. A divergence is a result, not an error.
 * @throws `InvalidInputError` if the history is malformed or of another workflow.
 */
export async function replayWithSource(
  workflow: AnyWorkflow,
  history: History | TemporalEvents,
  options: ReplayWithSourceOptions = {},
): Promise<ReplayResult> {
  const error = await divergenceOf(workflow, history, options);
  if (error === undefined) return { status: "passed" };
  const calls = new ObservedCalls();
  // Again, and with an observer: the same code and history diverge at the same place.
  const again = await divergenceOf(workflow, history, { ...options, observer: calls });
  return { status: "diverged", error, source: again === undefined ? undefined : calls.sourceOf(again) };
}

/**
 * Where the code asks for the operation at this location. Undefined if the code does not get that far with this history, for histories of
 * Temporal, and for code that was bundled with Holdfast.
 */
export async function sourceOfOperation(
  workflow: AnyWorkflow,
  history: History | TemporalEvents,
  location: string,
  options: Pick<ReplayWithSourceOptions, "codec"> = {},
): Promise<SourcePosition | undefined> {
  const { unit, name, n } = parseLocation(location);
  let call: Error | undefined;
  const observer: ExecutionObserver = {
    emitted(command) {
      if ("n" in command && command.unit === unit && command.name === name && command.n === n) call = trace();
    },
  };
  await divergenceOf(workflow, history, { ...options, observer });
  return call === undefined ? undefined : positionIn(call);
}

async function divergenceOf(
  workflow: AnyWorkflow,
  history: History | TemporalEvents,
  options: ReplayWithSourceOptions & { readonly observer?: ExecutionObserver },
): Promise<NondeterminismError | undefined> {
  try {
    await replay(workflow, history, options);
    return undefined;
  } catch (error) {
    if (error instanceof NondeterminismError) return error;
    throw error;
  }
}

/** Frames between a call in the workflow and the observer. */
const DEEPEST = 30;
/** Calls that are remembered, besides the last one of each unit. Commands in the wrong order are of one turn. */
const MOST_CALLS = 1_000;

interface Call {
  readonly description: string;
  readonly trace: Error;
}

class ObservedCalls implements ExecutionObserver {
  readonly #calls: Call[] = [];
  /** The last call of each unit that was made by its code. */
  readonly #lastOf = new Map<string, Call>();

  emitted(command: Command, unit: string | undefined): void {
    const call = { description: describeCommand(command), trace: trace() };
    this.#calls.push(call);
    if (this.#calls.length > 2 * MOST_CALLS) this.#calls.splice(0, MOST_CALLS);
    if ("n" in command) this.#lastOf.set(unit ?? command.unit, call);
  }

  sourceOf(error: NondeterminismError): SourcePosition | undefined {
    const { actual, field, location } = error;
    const call = field === "order" ? this.#calls.findLast(({ description }) => description === actual) : this.#calls.at(-1);
    const found = actual === undefined || call === undefined ? undefined : positionIn(call.trace);
    return found ?? this.#lastPositionIn(parseLocation(location).unit);
  }
  /** Of the unit, or of the nearest one around it that has called anything. */
  #lastPositionIn(unit: string): SourcePosition | undefined {
    const call = this.#lastOf.get(unit);
    const found = call === undefined ? undefined : positionIn(call.trace);
    if (found !== undefined || unit === "") return found;
    return this.#lastPositionIn(unit.slice(0, Math.max(unit.lastIndexOf("/"), 0)));
  }
}

/** Its text is made when it is asked for, which takes longer than all the rest. */
function trace(): Error {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = DEEPEST;
  const made = new Error("where the code calls");
  Error.stackTraceLimit = limit;
  return made;
}

const OUTSIDE_SOURCES = /^(?:node:|<anonymous>|native$)/;
/** This module, and the one that calls the observer, in the folders of their packages: frames from there are not the user's. */
const MODULES = [
  /^(.*[\\/](?:src|dist)[\\/])inspect[\\/]replaySource\.[jt]s:/,
  /^(.*[\\/](?:src|dist)[\\/])executor[\\/]execution\.[jt]s:/,
];

/** The first frame of user code, rather not in a dependency. */
function positionIn({ stack }: Error): SourcePosition | undefined {
  const frames = framesOf(stack).filter((frame) => !OUTSIDE_SOURCES.test(frame));
  const homes = MODULES.flatMap((module) => frames.map((frame) => module.exec(frame)?.[1]).find((home) => home !== undefined) ?? []);
  if (homes.length < MODULES.length) return undefined; // bundled with the code of the user
  const foreign = frames.filter((frame) => !homes.some((home) => frame.startsWith(home)));
  const frame = foreign.find((one) => !/[\\/]node_modules[\\/]/.test(one)) ?? foreign[0];
  const [, file, line, column] = /^(.*):(\d+):(\d+)$/.exec(frame ?? "") ?? [];
  return file === undefined ? undefined : { file, line: Number(line), column: Number(column) };
}
