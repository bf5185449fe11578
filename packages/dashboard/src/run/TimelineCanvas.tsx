// The timeline on a canvas: zoom, scrolling, selection by pointer; painting is in timeline/paint.ts.
// The canvas tells, in `data-layout-ms`, `data-paint-ms` and `data-frames`, how long the last layout and the last painting took, and how many
// paintings there were.

import { computed, type Signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { now } from "../api/call.ts";
import type { AxisName } from "../timeline/axis.ts";
import { type Layout, LEAST_WIDTH, layout, operationAt } from "../timeline/layout.ts";
import type { Operation } from "../timeline/model.ts";
import { paint } from "../timeline/paint.ts";
import { gutterOf, placeOf, RULER, type Viewport } from "../timeline/screen.ts";
import { theme } from "../ui/theme.ts";
import { tick } from "../ui/tick.ts";
import type { RunModel } from "./model.ts";
import type { PlaceOf } from "./OperationsGrid.tsx";

export interface Camera {
  readonly scale: number;
  readonly scrollX: number;
  readonly scrollY: number;
}
export const HOME: Camera = { scale: 1, scrollX: 0, scrollY: 0 };
const MOST_SCALE = 20_000;
/** Layouts of long runs are renewed less often while the run goes on. */
const LONG = 3_000;

export class TimelineCamera {
  readonly camera: Signal<Camera>;
  readonly size: Signal<{ readonly width: number; readonly height: number }>;
  readonly layout: Signal<Layout | undefined>;

  constructor(camera: Signal<Camera>, size: Signal<{ width: number; height: number }>, laid: Signal<Layout | undefined>) {
    this.camera = camera;
    this.size = size;
    this.layout = laid;
  }
  get view(): Viewport {
    return { ...this.size.value, ...this.camera.value };
  }
  set(next: Camera): void {
    const { width, height } = this.size.peek();
    const laid = this.layout.peek();
    const scale = Math.min(Math.max(next.scale, 1), MOST_SCALE);
    const mostX = Math.max(0, (laid?.axis.width ?? 0) * scale - (width - gutterOf(width)) + 12);
    const mostY = Math.max(0, (laid?.height ?? 0) - (height - RULER));
    this.camera.value = {
      scale,
      scrollX: scale === 1 ? 0 : Math.min(Math.max(next.scrollX, 0), mostX),
      scrollY: Math.min(Math.max(next.scrollY, 0), mostY),
    };
  }
  /** The place `x` on the canvas stays where it is. */
  zoom(factor: number, x = (gutterOf(this.size.peek().width) + this.size.peek().width) / 2): void {
    const { scale, scrollX, scrollY } = this.camera.peek();
    const next = Math.min(Math.max(scale * factor, 1), MOST_SCALE);
    const inside = x - gutterOf(this.size.peek().width);
    this.set({ scale: next, scrollX: ((inside + scrollX) / scale) * next - inside, scrollY });
  }
  pan(x: number, y: number): void {
    const { scale, scrollX, scrollY } = this.camera.peek();
    this.set({ scale, scrollX: scrollX + x, scrollY: scrollY + y });
  }
  home(): void {
    this.set(HOME);
  }
  /** Scrolls as little as is needed. */
  show(operation: Operation): void {
    const rect = this.layout.peek()?.bars.get(operation.seq);
    if (rect === undefined) return;
    const { width, height } = this.size.peek();
    const { scale, scrollX, scrollY } = this.camera.peek();
    const room = width - gutterOf(width);
    const x = rect.x * scale - scrollX;
    const y = rect.y - scrollY;
    const isOutX = x < 0 || x > room - 10;
    const isOutY = y < 0 || y + rect.height > height - RULER;
    this.set({
      scale,
      scrollX: isOutX ? rect.x * scale - room / 3 : scrollX,
      scrollY: isOutY ? rect.y - (height - RULER) / 2 : scrollY,
    });
  }
  /** The middle of the operation's bar, if it is in view. */
  readonly placeOf: PlaceOf = (operation) => {
    const rect = this.layout.value?.bars.get(operation.seq);
    if (rect === undefined) return undefined;
    const { view } = this;
    const x = Math.round(placeOf(rect.x, view)) + Math.max(Math.round(rect.width * view.scale), LEAST_WIDTH[rect.shape]) / 2;
    const y = RULER + rect.y - view.scrollY + rect.height / 2;
    if (x < gutterOf(view.width) || x >= view.width || y < RULER || y >= view.height) return undefined;
    return { x: Math.round(x * 10) / 10, y: Math.round(y * 10) / 10, status: rect.status };
  };
}

export function useTimelineCamera(): TimelineCamera {
  const camera = useSignal<Camera>(HOME);
  const size = useSignal({ width: 0, height: 0 });
  const laid = useSignal<Layout | undefined>(undefined);
  return useMemo(() => new TimelineCamera(camera, size, laid), []);
}

export function TimelineCanvas({
  model,
  timeline: camera,
  axis,
  label,
}: {
  model: RunModel;
  timeline: TimelineCamera;
  axis: AxisName;
  label: string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useSignal(0);
  const present = usePresent(model);
  const turnTime = useComputed(() => model.timeline.value?.turns.find(({ index }) => index === model.turn.value)?.time);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => {
      width.value = element.clientWidth;
    });
    observer.observe(element);
    width.value = element.clientWidth;
    return () => observer.disconnect();
  }, []);

  // Layout: when what is drawn changes.
  const layoutMs = useRef(0);
  const laid = useMemo(() => {
    const began = performance.now();
    const { value: timeline } = model.timeline;
    const { value: tree } = model.tree;
    if (timeline === undefined || tree === undefined || width.value === 0) return undefined;
    const room = Math.max(80, width.value - gutterOf(width.value) - 12);
    const made = layout(timeline, { axis, width: room, now: present, tree, folded: model.folded.value });
    layoutMs.current = performance.now() - began;
    return made;
  }, [model.timeline.value, axis, width.value, model.folded.value, present]);
  const height = laid === undefined ? 160 : Math.min(Math.max(laid.height + RULER + 8, 120), Math.max(240, Math.round(innerHeight * 0.62)));
  useEffect(() => {
    camera.layout.value = laid;
    camera.size.value = { width: width.value, height };
    camera.set(camera.camera.peek());
  }, [laid, height, width.value]);
  useEffect(() => {
    if (model.selectedOperation.value !== undefined) camera.show(model.selectedOperation.value);
  }, [model.selectedKey.value, laid !== undefined]);

  // Painting: at most once a frame.
  const { value: view } = camera.camera;
  const selected = model.selectedOperation.value?.seq;
  const { value: look } = theme;
  const frame = useRef(0);
  useEffect(() => {
    const element = canvas.current;
    if (element === null || laid === undefined) return;
    const draw = (): void => {
      frame.current = 0;
      const context = element.getContext("2d", { alpha: false });
      if (context === null) return;
      const began = performance.now();
      const ratio = devicePixelRatio;
      const [wide, high] = [Math.round(width.value * ratio), Math.round(height * ratio)];
      if (element.width !== wide || element.height !== high) {
        element.width = wide;
        element.height = high;
      }
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      paint(context, laid, { width: width.value, height, ...camera.camera.peek() }, { theme: look, selected, turnTime: turnTime.value });
      element.dataset["frames"] = String(Number(element.dataset["frames"] ?? 0) + 1);
      element.dataset["paintMs"] = (performance.now() - began).toFixed(2);
      element.dataset["layoutMs"] = layoutMs.current.toFixed(2);
    };
    if (frame.current === 0) frame.current = requestAnimationFrame(draw);
    return () => {
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, [laid, height, width.value, view, selected, look, turnTime.value]);

  usePointer(canvas, camera, model);
  return (
    <div ref={box} class="canvas-box" style={{ height: `${height}px` }}>
      <canvas ref={canvas} role="img" aria-label={label} data-axis={axis} style={{ width: `${width.value}px`, height: `${height}px` }} />
    </div>
  );
}

/** The present, which grows only while something is open. */
function usePresent(model: RunModel): number {
  const isOpen = useComputed(() => model.timeline.value?.operations.some(({ endedAt }) => endedAt === undefined) ?? false);
  const last = useRef(0);
  const present = useMemo(
    () =>
      computed(() => {
        const timeline = model.timeline.value;
        if (!isOpen.value) return last.current === 0 ? now() : last.current;
        const isLong = (timeline?.operations.length ?? 0) > LONG;
        if (tick.value % (isLong ? 10 : 1) === 0 || last.current === 0) last.current = now();
        return last.current;
      }),
    [model],
  );
  return present.value;
}

function usePointer(canvas: { readonly current: HTMLCanvasElement | null }, camera: TimelineCamera, model: RunModel): void {
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    let drag: { x: number; y: number; moved: number } | undefined;
    const down = (event: PointerEvent): void => {
      drag = { x: event.clientX, y: event.clientY, moved: 0 };
      element.setPointerCapture(event.pointerId);
    };
    const moveTo = (event: PointerEvent): void => {
      if (drag === undefined) return;
      const [x, y] = [drag.x - event.clientX, drag.y - event.clientY];
      drag = { x: event.clientX, y: event.clientY, moved: drag.moved + Math.abs(x) + Math.abs(y) };
      camera.pan(x, event.pointerType === "mouse" ? y : 0);
    };
    const up = (event: PointerEvent): void => {
      const isClick = drag !== undefined && drag.moved < 4;
      drag = undefined;
      const { layout: laid, view } = camera;
      if (!isClick || laid.value === undefined) return;
      const box = element.getBoundingClientRect();
      const x = (event.clientX - box.left - gutterOf(view.width) + view.scrollX) / view.scale;
      const found = operationAt(laid.value, x, event.clientY - box.top - RULER + view.scrollY, view.scale);
      if (found === undefined) return;
      model.selectOperation(found);
      model.openDetails();
    };
    const wheel = (event: WheelEvent): void => {
      const { x, left } = { x: event.clientX, left: element.getBoundingClientRect().left };
      const before = camera.camera.peek();
      if (event.ctrlKey || event.metaKey) camera.zoom(Math.exp(-event.deltaY / 200), x - left);
      else if (event.shiftKey) camera.pan(event.deltaY + event.deltaX, 0);
      else camera.pan(event.deltaX, event.deltaY);
      // What the timeline can't use scrolls the page.
      if (
        event.ctrlKey ||
        event.metaKey ||
        camera.camera.peek().scrollX !== before.scrollX ||
        camera.camera.peek().scrollY !== before.scrollY
      ) {
        event.preventDefault();
      }
    };
    const cancel = (): void => {
      drag = undefined;
    };
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", moveTo);
    element.addEventListener("pointerup", up);
    element.addEventListener("pointercancel", cancel);
    element.addEventListener("wheel", wheel, { passive: false });
    return () => {
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("pointermove", moveTo);
      element.removeEventListener("pointerup", up);
      element.removeEventListener("pointercancel", cancel);
      element.removeEventListener("wheel", wheel);
    };
  }, []);
}
