// What the embedded host does not offer on each store: see docs/hosts.md, "What a host can't offer".

import type { HostConformanceOptions } from "@holdfast/conformance";

type Lacks = NonNullable<HostConformanceOptions["lacks"]>;

export const LACKS = { memory: [], SQLite: [], Postgres: [] } satisfies Record<string, Lacks>;
