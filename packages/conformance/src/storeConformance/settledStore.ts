// A store for tests that are not about locks: an item that is answered "busy" is asked for again until it is not.
// Owns: nothing.
// Invariants: an item is asked for again only after all of the call that found it busy was answered, so that keys keep their order.

import { type Answer, faultOf, type Store } from "holdfast/store";

type Batched = "create" | "commit" | "send" | "answerTasks" | "heartbeat" | "terminate" | "resume" | "tick" | "delete";
type Results<K extends Batched | "renew"> = Exclude<Awaited<ReturnType<Store[K]>>[number], "busy">[];

/** The same without "busy". */
export type SettledStore = Omit<Store, Batched | "renew"> & {
  [K in Batched]: (items: Parameters<Store[K]>[0]) => Promise<Results<K>>;
} & {
  /** As in `Store`, but no answer is "busy". */
  renew(...args: Parameters<Store["renew"]>): Promise<Results<"renew">>;
};

const PAUSE_MS = 5;
/** For as long as a test may take. */
const MOST_TRIES = 5_000;

/**
 * Asks for the items, and again, with `wait`, for those that were answered "busy", until each has another answer. It stops after
 * 5,000 tries.
 * @throws the error of a call that was rejected for another reason.
 */
export async function settled<I, R>(items: readonly I[], ask: (items: readonly I[], wait: boolean) => Promise<Answer<R>[]>): Promise<R[]> {
  let answers: Answer<R>[] = items.map(() => "busy");
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const places = answers.flatMap((answer, i) => (answer === "busy" ? [i] : []));
    if (places.length === 0 && tries > 0) break;
    if (tries > 0) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    try {
      const some = await ask(places.map((i) => items[i] as I), tries > 0); // biome-ignore format: one line
      if (tries === 0) answers = some;
      else for (const [k, i] of places.entries()) answers[i] = some[k] as Answer<R>;
    } catch (error) {
      if (faultOf(error) !== "busy") throw error;
    }
  }
  return answers as R[];
}

export function settledStore<S extends Store>(store: S): SettledStore & Omit<S, Batched | "renew"> {
  const batched = new Set<PropertyKey>(["create", "commit", "send", "answerTasks", "heartbeat", "terminate", "resume", "tick", "delete"]);
  return new Proxy(store, {
    get(target, name): unknown {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      const call = member.bind(target) as (...args: unknown[]) => Promise<Answer<unknown>[]>;
      if (batched.has(name)) return (items: readonly unknown[]) => settled(items, call);
      if (name !== "renew") return call;
      return (workerId: string, lease: number, claims: readonly unknown[]) =>
        settled(claims, (some, wait) => call(workerId, lease, some, wait));
    },
  }) as unknown as SettledStore & Omit<S, Batched | "renew">;
}
