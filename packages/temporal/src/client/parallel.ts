// Calls for many items, some at a time.
// Owns: nothing.
// Invariants: answers are in the order of the items.

export async function inParallel<T, R>(items: readonly T[], atOnce: number, call: (item: T) => Promise<R>): Promise<R[]> {
  const answers: R[] = [];
  const waiting = [...items.entries()].reverse();
  const lane = async (): Promise<void> => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) answers[next[0]] = await call(next[1]);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane));
  return answers;
}
