// `holdfast token`
// Owns: nothing; the server says how tokens are made.
// Invariants: the token is printed once and kept nowhere; a config needs only its hash.

import { hashToken, newToken } from "../server/callers.ts";
import { EXIT } from "./failures.ts";
import type { Session } from "./session.ts";

interface TokenOptions {
  readonly role: "read" | "operate" | "admin";
  readonly values?: true;
}

export async function makeToken(session: Session, _args: readonly [], { role, values }: TokenOptions): Promise<number> {
  const token = newToken();
  const hash = hashToken(token);
  session.show({
    json: { token, hash },
    ids: [token],
    human: () => [`token  ${token}`, `hash   ${hash}`],
  });
  const entry = `{ name: "…", hash: "${hash}", role: "${role}"${values === true ? ", values: true" : ""} }`;
  session.note(`Add to server.tokens of holdfast.config.ts:\n  ${entry}\nKeep the token: it can't be shown again.`);
  return EXIT.ok;
}
