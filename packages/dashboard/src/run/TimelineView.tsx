// The timeline of a run: the canvas, beside it the operations, and the details of the selected one.

import { useSignal } from "@preact/signals";
import { AXES, type AxisName } from "../timeline/axis.ts";
import { useKeys } from "../ui/keys.ts";
import { setParams } from "../ui/router.tsx";
import { Details } from "./Details.tsx";
import type { ViewProps } from "./HistoryViews.tsx";
import type { RunModel } from "./model.ts";
import { OperationSearch } from "./OperationSearch.tsx";
import { OperationsGrid } from "./OperationsGrid.tsx";
import { operationKey } from "./operationKeys.ts";
import { type TimelineCamera, TimelineCanvas, useTimelineCamera } from "./TimelineCanvas.tsx";

const LEGEND = ["completed", "failed", "running", "waiting", "lost", "canceled"] as const;

export function TimelineView({ run, execution, model, axis }: ViewProps & { model: RunModel; axis: AxisName }) {
  const camera = useTimelineCamera();
  const search = useSignal("");
  useKeys(({ key }) => operationKey(key, model) || cameraKey(key, camera));
  const timeline = model.timeline.value;
  const selected = model.selectedOperation.value;
  const isOpen = model.isDetailsOpen.value && selected !== undefined;
  return (
    <section>
      <div class="view-head">
        <h2>Timeline</h2>
        <OperationSearch search={search} />
        <label class="inline-field">
          <span>Axis</span>
          <select
            value={axis}
            onChange={({ currentTarget }) => setParams({ axis: currentTarget.value === "compact" ? undefined : currentTarget.value })}
          >
            {AXES.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <span class="zoom">
          <button type="button" aria-label="Zoom out" onClick={() => camera.zoom(1 / 1.5)}>
            −
          </button>
          <button type="button" aria-label="Zoom in" onClick={() => camera.zoom(1.5)}>
            +
          </button>
          <button type="button" title="Whole timeline (0)" onClick={() => camera.home()}>
            Fit
          </button>
        </span>
        {model.turn.value !== undefined && timeline !== undefined && (
          <span class="muted" role="status">
            Turn {model.turn.value} of {timeline.lastTurn}
          </span>
        )}
        <span class="legend" aria-hidden="true">
          {LEGEND.map((status) => (
            <span key={status} class="status" data-status={status} />
          ))}
        </span>
      </div>
      {timeline?.complete === false && <p class="muted">This run has more operations than can be shown. These are the newest.</p>}
      {timeline !== undefined && timeline.operations.length === 0 && <p class="empty">Nothing has happened yet.</p>}
      <div class={isOpen ? "split timeline with-details" : "split timeline"}>
        <OperationsGrid model={model} placeOf={camera.placeOf} search={search.value} />
        <TimelineCanvas model={model} timeline={camera} axis={axis} label={`Timeline of ${run.id}, ${axis}`} />
        {isOpen && (
          <Details
            run={run}
            execution={execution}
            operation={selected}
            onClose={() => {
              model.isDetailsOpen.value = false;
            }}
          />
        )}
      </div>
    </section>
  );
}

const STEP = 80;
function cameraKey(key: string, camera: TimelineCamera): boolean {
  switch (key) {
    case "+":
    case "=":
      camera.zoom(1.5);
      return true;
    case "-":
      camera.zoom(1 / 1.5);
      return true;
    case "0":
      camera.home();
      return true;
    case "ArrowLeft":
      camera.pan(-STEP, 0);
      return true;
    case "ArrowRight":
      camera.pan(STEP, 0);
      return true;
    case "ArrowUp":
      camera.pan(0, -STEP);
      return true;
    case "ArrowDown":
      camera.pan(0, STEP);
      return true;
    default:
      return false;
  }
}
