// What the views of one run share: its timeline, its tree of operations, and what is selected.
// Owns: the selection, the folded rows, the chosen turn.
// Invariants: the selected operation is in the address, so that a link shows it.

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Operation, Timeline } from "../timeline/model.ts";
import { foldedAbove, initiallyFolded, isFailure, isOperationRow, nextRow, type Row, type Tree, treeOf } from "../timeline/tree.ts";
import { setParams } from "../ui/router.tsx";

export class RunModel {
  readonly timeline: Signal<Timeline | undefined> = signal(undefined);
  readonly tree: ReadonlySignal<Tree | undefined> = computed(() =>
    this.timeline.value === undefined ? undefined : treeOf(this.timeline.value),
  );
  /** The key of a row. */
  readonly selectedKey: Signal<string | undefined> = signal(undefined);
  readonly folded: Signal<ReadonlySet<string>> = signal(new Set());
  readonly turn: Signal<number | undefined> = signal(undefined);
  readonly isDetailsOpen = signal(false);

  readonly selected: ReadonlySignal<Row | undefined> = computed(() => {
    const key = this.selectedKey.value;
    return key === undefined ? undefined : this.tree.value?.byKey.get(key);
  });
  readonly selectedOperation: ReadonlySignal<Operation | undefined> = computed(() => this.selected.value?.operation);
  #isBegun = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `location` is the operation that the address names. */
  setTimeline(timeline: Timeline, location: string | undefined): void {
    this.timeline.value = timeline;
    const tree = this.tree.value;
    if (this.#isBegun || tree === undefined || timeline.operations.length === 0) return;
    this.#isBegun = true;
    this.folded.value = initiallyFolded(tree);
    const row = location === undefined ? undefined : tree.byLocation.get(location);
    if (row !== undefined) {
      this.select(row);
      this.isDetailsOpen.value = true;
    }
  }

  select(row: Row | undefined): void {
    this.selectedKey.value = row?.key;
    if (row === undefined) this.isDetailsOpen.value = false;
    else {
      const above = foldedAbove(row, this.folded.value);
      if (above.length > 0) this.folded.value = new Set([...this.folded.value].filter((key) => !above.includes(key)));
    }
    // Addresses may not be changed as fast as keys repeat.
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => setParams({ op: row?.operation?.location }), 200);
  }
  selectOperation(operation: Operation | undefined): void {
    this.select(operation === undefined ? undefined : this.tree.value?.byKey.get(`o:${operation.seq}`));
  }
  openDetails(): void {
    if (this.selectedOperation.value !== undefined) this.isDetailsOpen.value = true;
  }
  dispose(): void {
    clearTimeout(this.#timer);
  }

  toggle(key: string, isFolded = !this.folded.value.has(key)): void {
    const next = new Set(this.folded.value);
    if (isFolded) next.add(key);
    else next.delete(key);
    this.folded.value = next;
  }
  /** To the next or previous operation. */
  step(by: 1 | -1): void {
    this.#go(by, isOperationRow);
  }
  nextFailure(): void {
    const found = this.#go(1, isFailure);
    // From the last failure on to the first one.
    if (!found && this.tree.value !== undefined) {
      const first = nextRow(this.tree.value, undefined, 1, isFailure);
      if (first !== undefined) this.select(first);
    }
  }
  #go(by: 1 | -1, passes: (row: Row) => boolean): boolean {
    const tree = this.tree.value;
    const row = tree === undefined ? undefined : nextRow(tree, this.selected.value, by, passes);
    if (row !== undefined) this.select(row);
    return row !== undefined;
  }
  /** To the next or previous turn; selects the first operation that it opened. */
  stepTurn(by: 1 | -1): void {
    const timeline = this.timeline.value;
    if (timeline === undefined || timeline.turns.length === 0) return;
    const from = this.turn.value ?? this.selectedOperation.value?.turn;
    const at = from === undefined ? (by === 1 ? -1 : timeline.turns.length) : timeline.turns.findIndex(({ index }) => index === from);
    const next = timeline.turns[Math.min(Math.max(at + by, 0), timeline.turns.length - 1)];
    if (next === undefined) return;
    const opened = timeline.operations.find(({ turn }) => turn === next.index);
    if (opened !== undefined) this.selectOperation(opened);
    this.turn.value = next.index;
  }
}
