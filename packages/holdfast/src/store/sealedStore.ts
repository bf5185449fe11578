// A store as an engine with a codec of the user's sees it: what goes in is sealed, what comes out is opened.
// Owns: nothing; what is sealed, `sealed` of the core knows. Payloads pass as they are: they are encoded where they are made.
// Invariants: E1 (no error and no reason reaches a store as plain text, by any call); the default codec seals nothing.

import { type Codec, jsonCodec, opened, sealed } from "@holdfast/core";
import type { Store } from "./port.ts";

type Call = (...given: unknown[]) => unknown;

/** Wraps every method that the store has, so that no method of the port can be forgotten. */
export function sealedStore<S extends object>(store: S, codec: Codec): S {
  if (codec === jsonCodec) return store;
  const calls = new Map<PropertyKey, Call>();
  return new Proxy(store, {
    get(target, name): unknown {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      const known = calls.get(name);
      if (known !== undefined) return known;
      const call = name === "within" ? within(target, member as Call, codec) : sealedCall(target, member as Call, codec);
      calls.set(name, call);
      return call;
    },
  });
}

function sealedCall(store: object, method: Call, codec: Codec): Call {
  return (...given) => {
    const answer = method.apply(store, sealed(given, codec) as unknown[]);
    return answer instanceof Promise ? answer.then((value: unknown) => opened(value, codec)) : answer;
  };
}

/** The caller's transaction is not a record: it is passed on as it is. */
function within(store: object, method: Call, codec: Codec): Call {
  return (tx) => sealedStore(method.call(store, tx) as Pick<Store, "create" | "send">, codec);
}
