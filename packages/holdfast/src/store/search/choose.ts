// Chooses the index that a list is read from, where several would do.
// Owns: the order of looks and their size.
// Invariants: B1: a list costs a small multiple of what its narrowest test matches, or less: where the newest runs that match broad tests
// fill the page, it costs what it takes to find those.
//
// Written as a generator, so that stores that wait for answers and stores that do not share it. Each round looks eight times as far as the
// one before: first it counts what each test matches, up to a limit; if one matches less, the page is read from its index. If none does, it
// tries whether the newest runs of an index that has them in order fill the page.

/** An index from which candidates can be read. */
export interface Source {
  /** It has its runs by creation, so that the newest can be read without the others. */
  readonly isOrdered: boolean;
  /** It has them in one piece: read in order, a page costs what it shows. */
  readonly isWhole: boolean;
}
/**
 * A question of `chooseSource` to the store. The store answers "count" with the numbers in the order of `sources`, "reach" with a time or
 * undefined, and "fills" with true or false.
 */
export type Look<S> =
  /** How many runs does each have, up to `limit`? */
  | {
      readonly look: "count";
      /** The indexes whose runs are counted, each by itself. */
      readonly sources: readonly S[];
      /** The count stops at this number. */
      readonly limit: number;
    }
  /** When was the run created that so many newer ones follow in this source? Undefined: there are fewer. */
  | {
      readonly look: "reach";
      /** The index to look at, from the newest run on. */
      readonly source: S;
      /** How many newer runs it must have. */
      readonly depth: number;
    }
  /** Do the runs that were created then or later fill the page? */
  | {
      readonly look: "fills";
      /** The index to look at. */
      readonly source: S;
      /** Only runs that were created then or later, in milliseconds since 1970. */
      readonly since: number;
    };
/** What to read the page from, and from which moment on. */
export interface Choice<S> {
  /** The source to read. */
  readonly source: S;
  /** Runs created before this time need not be read. */
  readonly since?: number | undefined;
}
export interface Question<S> {
  /** Sources that have all runs of a test. */
  readonly tests: readonly S[];
  /** One that has every run that may be asked for, in order. */
  readonly all: S;
  /** There is one test, and nothing else is asked. */
  readonly isOneTest: boolean;
  readonly limit: number;
}
type Choosing<S> = Generator<Look<S>, Choice<S>, readonly number[] | number | boolean | undefined>;

const FIRST_DEPTH = 1_000;
const GROWTH = 8;
const ROUNDS = 8;

/**
 * Chooses which index a page of runs is read from. A generator: it yields one `Look` after another, the store passes each answer to `next`,
 * and it returns the choice.
 */
export function* chooseSource<S extends Source>({ tests, all, isOneTest, limit }: Question<S>): Choosing<S> {
  const [first] = tests;
  if (first === undefined) return { source: all };
  if (isOneTest && first.isOrdered) return yield* readFrom(first, limit);
  const walks = new Set([...tests.filter(({ isOrdered }) => isOrdered), all]);
  for (let round = 0, depth = Math.max(FIRST_DEPTH, 2 * limit); round < ROUNDS; round++, depth *= GROWTH) {
    const counts = (yield { look: "count", sources: tests, limit: depth }) as readonly number[];
    const least = Math.min(...counts);
    if (least < depth) return yield* readFrom(tests[counts.indexOf(least)] ?? first, isOneTest ? limit : 2 * limit);
    for (const walk of walks) {
      const since = yield* reach(walk, depth);
      if (since === undefined) return { source: walk };
      if ((yield { look: "fills", source: walk, since }) === true) return { source: walk, since };
    }
  }
  return { source: first };
}
function* reach<S>(source: S, depth: number): Generator<Look<S>, number | undefined, readonly number[] | number | boolean | undefined> {
  return (yield { look: "reach", source, depth }) as number | undefined;
}
/** Its newest runs, more and more of them until they fill the page: those of the moment at which the last page ended may be on that one. */
function* readFrom<S extends Source>(source: S, depth: number): Choosing<S> {
  if (source.isOrdered && source.isWhole) return { source };
  const since = yield* reach(source, depth);
  if (since === undefined) return { source };
  return (yield { look: "fills", source, since }) === true ? { source, since } : yield* readFrom(source, depth * GROWTH);
}
