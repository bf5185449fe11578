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

/** Polls a condition every few milliseconds until it is true. */
export async function until(condition, every = 5) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, every));
}

/** Calls `work` `count` times by concurrent callers: each starts its next call when its last has ended. */
export async function byCallers(callers, count, work) {
  let next = 0;
  const caller = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: Math.min(callers, count) }, caller));
}
