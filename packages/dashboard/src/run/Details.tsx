// What is known about one operation: attempts, values, errors.

import { call, Problem } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import type { OperationInfo, RunInfo } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";
import { clock, duration, toMs } from "../base/times.ts";
import { visible } from "../base/values.ts";
import { type Operation, titleOf } from "../timeline/model.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { Facts, Status, Value } from "../ui/parts.tsx";
import { RunLink } from "../ui/router.tsx";
import { placeText } from "./blocked.ts";
import { Failure } from "./Failure.tsx";
import { useSource } from "./source.ts";

export function Details({
  run,
  execution,
  operation,
  onClose,
}: {
  run: RunInfo;
  execution: number;
  operation: Operation;
  onClose: () => void;
}) {
  const { location, status, attempts, endedAt } = operation;
  // Loaded again when the operation has changed.
  const key = [run.id, execution, location, status, attempts.length, endedAt].join(" ");
  const info = useResource<OperationInfo | undefined>(key, async () => {
    const path = `runs/${encodeSegment(run.id)}/operations/${encodeSegment(location)}`;
    return call<OperationInfo>("GET", path, { query: { execution } }).catch((error: unknown) => {
      // Not listed with its values (an operation that a resumed run repeats): what the timeline knows is shown.
      if (error instanceof Problem && error.status === 404) return undefined;
      throw error;
    });
  });
  const found = info.data.value;
  const source = useSource(run.id, execution, location);
  return (
    <aside class="details" aria-label="Details">
      <header>
        <h3>{titleOf(operation)}</h3>
        <button type="button" class="plain" aria-label="Close details" onClick={onClose}>
          <span aria-hidden="true">✕</span>
        </button>
      </header>
      <Facts
        facts={[
          ["Status", <Status key="status" status={status} />],
          ["Location", <code key="location">{visible(location)}</code>],
          ["Source", source === undefined || source === null ? null : <code key="source">{placeText(source)}</code>],
          ["Turn", String(operation.turn)],
          ["Scheduled", clock(operation.scheduledAt)],
          ["Ended", endedAt === undefined ? null : `${clock(endedAt)} (${duration(endedAt - operation.scheduledAt)})`],
          ["Wakes", operation.endedAt === undefined && operation.wakeAt !== undefined ? clock(operation.wakeAt) : null],
          ["Next attempt", operation.endedAt === undefined && operation.retryAt !== undefined ? clock(operation.retryAt) : null],
          ["Child", operation.childId === undefined ? null : <RunLink key="child" id={operation.childId} />],
        ]}
      />
      <ErrorText error={info.error.value} />
      {(found?.attempts.length ?? attempts.length) > 0 && <Attempts operation={operation} info={found} />}
      {found !== undefined && found.error !== null && <Failure error={found.error} title="Error" />}
      {found !== undefined && found.input !== null && (
        <section>
          <h4>Input</h4>
          <Value value={found.input} label="Input" />
        </section>
      )}
      {found !== undefined && found.status === "completed" && (
        <section>
          <h4>Output</h4>
          <Value value={found.output} label="Output" />
        </section>
      )}
    </aside>
  );
}

function Attempts({ operation, info }: { operation: Operation; info: OperationInfo | undefined }) {
  return (
    <section>
      <h4>Attempts</h4>
      <table class="attempts" aria-label="Attempts">
        <thead>
          <tr>
            <th>#</th>
            <th>Status</th>
            <th>Took</th>
            <th>Worker</th>
          </tr>
        </thead>
        <tbody>
          {operation.attempts.map(({ number, status, startedAt, endedAt, workerId }) => (
            <tr key={number} title={clock(startedAt)}>
              <td>{number}</td>
              <td>
                <Status status={status} />
              </td>
              <td>{endedAt === undefined ? "" : duration(endedAt - startedAt)}</td>
              <td>{workerId ?? info?.attempts.find((one) => one.number === number)?.workerId}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {info?.attempts
        .filter(({ error }, i) => error !== null && (i < info.attempts.length - 1 || info.error === null))
        .map(
          ({ number, error, startedAt }) =>
            error !== null && <Failure key={`${number} ${toMs(startedAt)}`} error={error} title={`Attempt ${number}`} />,
        )}
    </section>
  );
}
