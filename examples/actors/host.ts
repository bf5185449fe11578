// A host of actors: any number of runs in one LevelDB, and one queue of alarms that says which run to wake. The alarms are durable: if the
// process is killed, the host continues from them when it is opened again.

import { setTimeout as delay } from "node:timers/promises";
import { type AnyWorkflow, createWorkflow, openWorkflow, RunAlreadyExistsError, RunNotFoundError, type WorkflowHandle } from "@holdfast/kv";
import { LevelStore } from "@holdfast/kv/level";

/** How many actors are awake at a time; the others sleep on disk. */
const MOST_AWAKE = 256;

export class ActorHost {
  readonly #store: LevelStore;
  readonly #workflow: AnyWorkflow;
  readonly #awake = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #looking = false;
  #closed = false;
  #onQuiet: (() => void) | undefined;

  static async open(folder: string, workflow: AnyWorkflow): Promise<ActorHost> {
    const host = new ActorHost(await LevelStore.open(folder), workflow);
    host.#look();
    return host;
  }
  private constructor(store: LevelStore, workflow: AnyWorkflow) {
    this.#store = store;
    this.#workflow = workflow;
    store.alarms.watch(() => this.#look());
  }

  /** Creates an actor. An existing one is left unchanged. */
  async create(id: string, input: unknown): Promise<void> {
    try {
      await createWorkflow({ driver: this.#store.driver(id), workflow: this.#workflow, id, input });
    } catch (error) {
      if (!(error instanceof RunAlreadyExistsError)) throw error;
    }
  }
  /** A handle to send messages with: a message sets the actor's alarm, which wakes the actor. */
  actor(id: string): WorkflowHandle<unknown> {
    return openWorkflow({ driver: this.#store.driver(id), workflow: this.#workflow, id }) as WorkflowHandle<unknown>;
  }
  actors(): AsyncGenerator<string> {
    return this.#store.runs();
  }
  /** Resolves when no actor is awake and no alarm is set. */
  quiet(): Promise<void> {
    return new Promise((resolve) => {
      this.#onQuiet = resolve;
      this.#look();
    });
  }
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await Promise.all([...this.#awake].map((id) => this.actor(id).evict()));
    await this.#store.close();
  }

  // ── the scheduler ──

  /** Looks for due alarms, at most once per turn of the event loop. */
  #look(): void {
    if (this.#looking) return;
    this.#looking = true;
    setImmediate(() => {
      this.#looking = false;
      if (!this.#closed) this.#wakeDue();
    });
  }
  #wakeDue(): void {
    const { alarms } = this.#store;
    const room = MOST_AWAKE - this.#awake.size;
    if (room > 0) for (const id of alarms.due(Date.now(), { limit: room, except: this.#awake })) void this.#wake(id);
    if (this.#awake.size === 0 && alarms.next === undefined) this.#onQuiet?.();
    clearTimeout(this.#timer);
    const wait = (alarms.next ?? Number.POSITIVE_INFINITY) - Date.now();
    if (wait > 0 && wait < Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.#look(), Math.min(wait, 2 ** 31 - 1));
  }
  async #wake(id: string): Promise<void> {
    this.#awake.add(id);
    try {
      await this.actor(id).wake();
    } catch (error) {
      // A process that died while it created an actor may have left only the alarm, which is cleared now.
      if (!(error instanceof RunNotFoundError)) console.error(`${id}:`, error);
      await delay(1_000); // the alarm is still set: don't retry at once
    }
    this.#awake.delete(id);
    this.#look();
  }
}
