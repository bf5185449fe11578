// What is sold, and under which terms.

import type { Duration } from "holdfast";

export const plans = {
  starter: { centsPerSeat: 900, maxSeats: 3 },
  team: { centsPerSeat: 1_900, maxSeats: 50 },
  company: { centsPerSeat: 2_900, maxSeats: 1_000 },
} as const;

export type Plan = keyof typeof plans;
export const isPlan = (name: string): name is Plan => Object.hasOwn(plans, name);
export const monthlyCents = (plan: Plan, seats: number): number => plans[plan].centsPerSeat * seats;
/** Why a plan can't have so many seats. */
export function seatsProblem(plan: Plan, seats: unknown): string | undefined {
  if (typeof seats !== "number" || !Number.isInteger(seats) || seats < 1) return `seats must be a positive integer, not ${seats}.`;
  const { maxSeats } = plans[plan];
  return seats > maxSeats ? `The plan ${plan} has at most ${maxSeats} seats, not ${seats}.` : undefined;
}

/** Part of each subscription's input: a change of the terms holds for new subscriptions, and never for those that exist. */
export interface Terms {
  /** From the start of the trial to the reminder. */
  readonly remindAfter: Duration;
  /** From the reminder to the end of the trial. */
  readonly trialEndsAfter: Duration;
  /** The waits between attempts to collect an invoice. After the last attempt the subscription ends. */
  readonly dunning: readonly Duration[];
}
export const TERMS: Terms = { remindAfter: "11d", trialEndsAfter: "3d", dunning: ["1d", "3d", "5d"] };
