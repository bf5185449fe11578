// How much is tried: `npm test` plays a fixed part of the worlds, `npm run nightly` ten times as many, and hunts planted bugs.

/** `npm run nightly` sets it. */
export const isNight: boolean = (process.env["HOLDFAST_NIGHTLY"] ?? "") !== "";

/** So many worlds by day. */
export const worlds = (byDay: number): number => (isNight ? byDay * 10 : byDay);

/** For a test that plays worlds. */
export const PATIENCE: number = isNight ? 1_800_000 : 120_000;
