// What the demos print.

const { NO_COLOR, FORCE_COLOR } = process.env;
const isColourful = NO_COLOR ? false : FORCE_COLOR === undefined ? process.stdout.isTTY === true : FORCE_COLOR !== "0";
const style =
  (code: number) =>
  (text: string): string =>
    isColourful ? `\x1b[${code}m${text}\x1b[0m` : text;

export const bold = style(1);
export const dim = style(2);
export const red = style(31);
export const green = style(32);
export const cyan = style(36);

export const say = (text = ""): void => console.log(text);
export const title = (text: string): void => say(`\n${bold(text)}`);
