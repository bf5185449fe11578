// The health of the store and the server.

import { call } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import { health, refreshHealth } from "../api/session.ts";
import type { Health } from "../api/types.ts";
import { plural } from "../base/times.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { Facts } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";

export function HealthPage() {
  const loaded = useResource<Health>("health", () => call<Health>("GET", "health"), ["counts", "workers"]);
  const answer = loaded.data.value ?? health.value;
  return (
    <>
      <div class="page-head">
        <h1>Health</h1>
        <button type="button" onClick={() => void refreshHealth().then(loaded.refresh)}>
          Check again
        </button>
      </div>
      <ErrorText error={loaded.error.value} />
      {answer !== undefined && <Report health={answer} />}
    </>
  );
}

function Report({ health: { ok, problems, store, schema, blocked, workers, caller, readOnly } }: { health: Health }) {
  return (
    <div class="overview">
      <p class={ok && blocked.n === 0 ? "verdict ok" : "verdict bad"} role="status">
        {!ok ? "Something is wrong." : blocked.n > 0 ? "Some runs are blocked." : "Everything is in order."}
      </p>
      {problems.length > 0 && (
        <ul class="problems">
          {problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      )}
      <Facts
        facts={[
          ["Store", store.exists ? store.host : `${store.host}, which does not exist yet`],
          [
            "Schema",
            schema === null
              ? "none"
              : schema.found === schema.known
                ? `version ${schema.found}`
                : `version ${schema.found}, this code knows ${schema.known}`,
          ],
          [
            "Blocked",
            <Link key="blocked" to="runs?q=status:blocked">
              {blocked.capped ? `${blocked.n.toLocaleString("en-US")}+ runs` : plural(blocked.n, "run")}
            </Link>,
          ],
          ["Workers", workers === null ? null : String(workers)],
          ["Token", `${caller.name}: ${caller.role}${caller.values ? ", sees values" : ", values are hidden"}`],
          ["Server", readOnly ? "read-only" : null],
        ]}
      />
    </div>
  );
}
