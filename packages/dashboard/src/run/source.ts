// Where in the code something is asked for.
// Owns nothing: the server asks the code, if it has it.

import { call } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import { health } from "../api/session.ts";
import type { SourcePlace } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";

/** Of an operation; without a location: of the divergence. Undefined until it is known; null where the server can't tell. */
export function useSource(id: string, execution: number, location: string | undefined): SourcePlace | null | undefined {
  const hasCode = health.value?.features.code;
  const found = useResource<SourcePlace | null | undefined>([id, execution, location ?? "", hasCode].join(" "), async () => {
    if (hasCode !== true) return hasCode === undefined ? undefined : null;
    const path = `runs/${encodeSegment(id)}/source`;
    const answer = await call<{ source: SourcePlace | null }>("GET", path, { query: { execution, location } }).catch(() => undefined);
    return answer?.source ?? null;
  });
  return found.data.value;
}
