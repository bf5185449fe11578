// What a command is busy with, said on stderr while it lasts: on a terminal one line that changes, elsewhere a line every few seconds.
// It uses nothing but Node, because it runs on a fresh clone.

/** Work that is over sooner is not spoken of. */
const SILENT_MS = 400;
const TERMINAL_MS = 200;
const LOG_MS = 5_000;

/**
 * Does the work, and says meanwhile what it is and how far it has come.
 * @template T
 * @param {string} what "Installing the dependencies", say
 * @param {() => Promise<T>} work
 * @param {() => string} [detail] how far it has come
 * @returns {Promise<T>}
 */
export async function withProgress(what, work, detail = () => "") {
  const { stderr } = process;
  const isTerminal = stderr.isTTY === true;
  const start = performance.now();
  const line = () => {
    const seconds = Math.floor((performance.now() - start) / 1_000);
    const parts = [detail(), seconds > 0 ? `${seconds} s` : ""].filter((part) => part !== "");
    return `${what}${parts.length > 0 ? `: ${parts.join(", ")}` : ""} …`;
  };
  const say = () => stderr.write(isTerminal ? `\r\x1b[K${line()}` : `${line()}\n`);
  /** @type {NodeJS.Timeout | undefined} */
  let every;
  const first = setTimeout(() => {
    say();
    every = setInterval(say, isTerminal ? TERMINAL_MS : LOG_MS);
  }, SILENT_MS);
  try {
    return await work();
  } finally {
    clearTimeout(first);
    clearInterval(every);
    if (isTerminal && every !== undefined) stderr.write("\r\x1b[K");
  }
}
