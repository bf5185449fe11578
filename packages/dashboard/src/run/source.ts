// Where in the code something is asked for.
// Owns nothing: the server asks the code, if it has it.

import { call } from "../api/call.ts";
import { type Resource, useResource } from "../api/resource.ts";
import { health } from "../api/session.ts";
import type { SourcePlace } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";

/** Of an operation; without a location: of the divergence. It stays undefined where the server has no code. */
export function useSource(id: string, execution: number, location: string | undefined): Resource<SourcePlace | undefined> {
  const hasCode = health.value?.features.code === true;
  return useResource<SourcePlace | undefined>([id, execution, location ?? "", hasCode].join(" "), async () => {
    if (!hasCode) return undefined;
    const path = `runs/${encodeSegment(id)}/source`;
    const found = await call<{ source: SourcePlace | null }>("GET", path, { query: { execution, location } }).catch(() => undefined);
    return found?.source ?? undefined;
  });
}
