// Clocks and quantiles.

export async function timed(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

export function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
}

export const median = (values) => quantile(values, 0.5);

/** Waits for a condition, looking every few milliseconds. */
export async function until(condition, every = 5) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, every));
}

/** `work` by so many callers at once until `count` were done: each starts its next when its last has ended. */
export async function byCallers(callers, count, work) {
  let next = 0;
  const caller = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: Math.min(callers, count) }, caller));
}
