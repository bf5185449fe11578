// The handle on a run: all operations on a run, whether it is live or not.
// Owns: the checks of what users pass, and the choice between the namespace and the session that is live there.
// Invariants: H1 (a second start is rejected), M1 M3 M10 (sends are acknowledged when durable), M11 (queries work while the run is not
// live), M12.

import {
  type AnyWorkflow,
  DEFAULT_LIMITS,
  encodeLimited,
  evaluateQuery,
  type History,
  HoldfastError,
  jsonCodec,
  type Logger,
  logLine,
  type OperationInfo,
  type Outcome,
  type Payload,
  parseDuration,
  QueryFailedError,
  RunBlockedError,
  RunClosedError,
  RunNotFoundError,
  reviveError,
  type SignalSpec,
  sealed,
  toHistory,
  UpdateFailedError,
  type UpdateSpec,
  validateRetry,
} from "@holdfast/core";
import { byName, declaredMessage, isActivity, isWorkflow, operationsOf, storedRunRetry, TurnQueue, validated } from "@holdfast/host";
import { adviseHere } from "./advice.ts";
import {
  checkedCodec,
  checkedDeterminism,
  checkedId,
  checkedKey,
  checkedOptions,
  checkedSend,
  invalid,
  refuseRetention,
} from "./checkedOptions.ts";
import { realEnvironment } from "./environment.ts";
import { RunLiveError, WrongNamespaceError } from "./errors.ts";
import type { RunDescription } from "./handleTypes.ts";
import { isOverdue } from "./host/deadline.ts";
import { create, type NewRun } from "./host/newRun.ts";
import { type BegunBy, Session } from "./host/session.ts";
import type { Settings } from "./host/settings.ts";
import { Namespace } from "./messages/namespace.ts";
import type { AnyOpenOptions, AnyRunOptions, SendOptions, UpdateOptions } from "./options.ts";
import { Pauses } from "./pauses.ts";
import { isClosed, type RunResult, resultOf } from "./results.ts";
import type { RoutedSignal } from "./router.ts";
import { decode } from "./storage/binary.ts";
import type { End, MessageJob, ParentLink, Status, UpdateOutcome } from "./storage/contents.ts";
import { KEY } from "./storage/layout.ts";
import { updateId } from "./storage/outcomes.ts";
import { read } from "./storage/sealing.ts";
import { Storage } from "./storage/storage.ts";

/** Milliseconds that a caller whose timeout has passed waits for the description of what the run waits for. */
const WORDS_WITHIN = 1_000;

/** A namespace has no separate workers. */
const NO_WORKERS: ReadonlyMap<number, string> = new Map();

const QUIET: Pick<Logger, "debug" | "info"> = { debug() {}, info() {} };
const consoleLogger: Logger = {
  ...QUIET,
  // biome-ignore lint/suspicious/noConsole: the default logger writes to the console
  warn: (message, fields) => console.warn(logLine(message, fields)),
  // biome-ignore lint/suspicious/noConsole: see above
  error: (message, fields) => console.error(logLine(message, fields)),
};

export class Handle {
  readonly id: string;
  readonly #workflow: AnyWorkflow;
  readonly #namespace: Namespace;
  readonly #settings: Omit<Settings, "newRun">;

  constructor(options: AnyOpenOptions, mode: "yield" | "live") {
    const {
      driver,
      workflow,
      codec = jsonCodec,
      logger = consoleLogger,
      limits = {},
      environment = realEnvironment,
      router,
    } = checkedOptions("runWorkflow", options);
    this.id = checkedId(options.id);
    if (!isWorkflow(workflow)) throw invalid("runWorkflow", "Expected a workflow made by workflow(name, run).", "workflow");
    if (typeof driver !== "object" || driver === null || typeof driver.batch !== "function")
      throw invalid("runWorkflow", "Expected an EngineDriver.", "driver");
    refuseRetention(workflow);
    this.#workflow = workflow;
    this.#namespace = Namespace.of(driver);
    const turnTimeout = parseDuration(options.turnTimeout ?? "2s", "turnTimeout");
    const activities = byName("runWorkflow.activities", options.activities ?? [], isActivity);
    this.#settings = {
      driver,
      workflow,
      id: this.id,
      mode,
      activities,
      router,
      codec: checkedCodec(codec),
      logger,
      limits,
      environment,
      turnQueue: new TurnQueue(environment, { isShared: false }),
      turnTimeout,
      determinism: checkedDeterminism(options.determinism),
      watchdog: options.watchdog === undefined ? undefined : parseDuration(options.watchdog, "watchdog"),
    };
  }

  // ── running ──

  async start(options: AnyRunOptions): Promise<RunResult> {
    return (await this.#launch(options)).result;
  }
  startLive(options: AnyRunOptions): void {
    this.#starting = this.#launch(options);
    this.#starting.catch(() => {}); // reported to the callers that await it
  }
  #starting: Promise<Session> | undefined;
  /** H1 applies from now on, even while a schema is still validating. */
  #launch(options: AnyRunOptions): Promise<Session> {
    const { live } = this.#namespace;
    if (live instanceof Session && live.begunBy === "update") {
      const again = (): Promise<Session> => this.#launch(options);
      return live.result.then(again, again);
    }
    this.#refuseSecond();
    return this.#namespace.open(async () => this.#begin("start", await this.#newRun(options)));
  }
  /** `input`: for a child, as encoded by its parent's call. */
  async create(options: AnyRunOptions, input?: Payload): Promise<void> {
    const newRun = await this.#newRun(options, input);
    await create(this.#namespace, this.id, this.#workflow, newRun, this.#settings).catch(rethrow);
  }
  #refuseSecond(): void {
    if (this.#namespace.live !== undefined) throw new RunLiveError({ runId: this.id });
  }
  #begin(begunBy: BegunBy, newRun?: NewRun): Session {
    this.#refuseSecond();
    return new Session({ ...this.#settings, newRun }, begunBy);
  }
  async #newRun(options: AnyRunOptions, input?: Payload): Promise<NewRun> {
    const { options: own, version } = this.#workflow;
    const { signals = [], attributes = {}, parent, deadline = own.deadline, retry = own.retry } = options;
    if (retry !== undefined) validateRetry(retry);
    if (deadline instanceof Date && Number.isNaN(deadline.getTime()))
      throw invalid("runWorkflow", "deadline is not a valid Date.", "deadline");
    return {
      head: {
        input: input ?? (await this.#input(options.input)),
        version: options.version ?? version,
        retry: storedRunRetry(retry),
        parent,
      },
      deadline: deadline === undefined || deadline instanceof Date ? undefined : parseDuration(deadline, "deadline"),
      deadlineAt: deadline instanceof Date ? deadline.getTime() : undefined,
      attributes,
      signals: await Promise.all(signals.map(async ({ name, payload }) => ({ name, payload: await this.#signalPayload(name, payload) }))),
    };
  }
  async #input(input: unknown): Promise<Payload> {
    const what = `the input of workflow ${this.#workflow.name}`;
    return this.#encode((await validated(what, this.#workflow.options.input as never, input)).value, what);
  }
  /** P9: limits apply to what senders send, too. */
  #encode(value: unknown, what: string): Payload {
    const { payloadBytes = DEFAULT_LIMITS.payloadBytes } = this.#settings.limits;
    return encodeLimited(this.#settings.codec, value, { payloadBytes }, what);
  }
  /** The session in progress, if there is one. */
  async #live(): Promise<Session | undefined> {
    await this.#starting;
    await this.#namespace.opened();
    const { live } = this.#namespace;
    return live instanceof Session ? live : undefined;
  }
  wake(): Promise<RunResult> {
    return this.#wake("wake");
  }
  async #wake(begunBy: BegunBy): Promise<RunResult> {
    await this.#live();
    const { live } = this.#namespace; // read now: of several concurrent wakes one begins, the others join it
    if (!(live instanceof Session)) return this.#begin(begunBy).result;
    const idle = live.idle();
    live.wake();
    return idle;
  }
  async evict(): Promise<void> {
    await (await this.#live())?.evict();
  }
  async result(): Promise<RunResult> {
    const live = await this.#live();
    if (live !== undefined) return live.result;
    const own = await (await this.#starting)?.result; // throws if the session could not write
    await this.#head();
    const status: Status = (await this.#namespace.status(this.#settings.codec)) ?? { status: "pending" };
    if (own !== undefined && !isClosed(status.status)) return own;
    const end = await this.#settings.driver.get(KEY.end);
    return resultOf(status, end === undefined ? undefined : (read(end, this.#settings.codec) as End), this.#settings.codec);
  }

  // ── messages ──

  async signal(name: string, payload?: unknown, options: SendOptions = {}): Promise<void> {
    checkedSend("signal", options);
    const encoded = await this.#signalPayload(name, payload);
    const key = checkedKey(options.idempotencyKey);
    const id = key ?? this.#settings.environment.uuid();
    await this.#send({ type: "signal", id, name, payload: encoded }, key);
  }
  async #signalPayload(name: string, payload: unknown): Promise<Payload> {
    const spec = declaredMessage<SignalSpec<unknown>>(this.#workflow, "signals", name);
    await validated(`signal ${name}`, spec?.schema as never, payload); // only checked: the run's schema transforms it
    return this.#encode(payload, `the payload of signal ${name}`);
  }
  async #send(job: MessageJob, key?: string): Promise<void> {
    await this.#starting;
    await this.#namespace.append(this.id, key === undefined ? { job } : { job, key }, this.#settings).catch(rethrow);
  }
  cancel(reason?: string): Promise<void> {
    return this.#send({ type: "cancel", reason });
  }
  terminate(reason?: string): Promise<void> {
    return this.#send({ type: "terminate", reason });
  }
  async recover(): Promise<void> {
    const head = await this.#head();
    const status = (await this.#namespace.status(this.#settings.codec))?.status;
    const end = await this.#settings.driver.get(KEY.end);
    const isUndone = end !== undefined && (read(end, this.#settings.codec) as End).resumable !== true;
    if (isClosed(status) && (status !== "failed" || isUndone || isOverdue(head, this.#settings.environment))) {
      const message = `Run ${this.id} is ${status}. A run that has ended can be recovered only if it failed, its rollbacks have not run and its deadline has not passed.`;
      throw new HoldfastError(message, { code: "HF_NOT_RESUMABLE" });
    }
    await this.#send({ type: "recover" });
  }
  async deliver({ id, name, payload }: RoutedSignal): Promise<void> {
    await this.#send({ type: "signal", id, name, payload }, `\0signal/${id}`); // no sender's key begins with NUL
  }
  async childEnded({ runId, execution, seq }: ParentLink, outcome: Outcome): Promise<void> {
    if (runId !== this.id) throw new WrongNamespaceError({ expected: `run "${runId}"`, found: `run "${this.id}"` });
    try {
      await this.#send({ type: "resolve", seq, outcome, execution }, `\0child/${execution}/${seq}`); // no sender's key begins with NUL
    } catch (error) {
      // A parent that no longer exists needs no answer.
      if (!(error instanceof RunClosedError || error instanceof RunNotFoundError)) throw error;
    }
  }

  async update(name: string, input?: unknown, options: UpdateOptions = {}): Promise<unknown> {
    checkedSend("update", options);
    const spec = declaredMessage<UpdateSpec<unknown, unknown>>(this.#workflow, "updates", name);
    await validated(`update ${name}`, spec?.schema as never, input);
    const encoded = this.#encode(input, `the input of update ${name}`);
    const timeout = options.timeout === undefined ? undefined : parseDuration(options.timeout, "timeout");
    const acceptWithin = options.acceptWithin === undefined ? 0 : parseDuration(options.acceptWithin, "acceptWithin");
    const key = checkedKey(options.idempotencyKey);
    const id = updateId(key, () => this.#settings.environment.uuid());
    await this.#starting;
    const known = key === undefined ? undefined : await this.#namespace.updateOutcome(id, this.#settings.codec);
    const job = { type: "update", id, name, input: encoded, ...(acceptWithin > 0 && { acceptWithin }) } as const;
    return this.#reply(name, known ?? (await this.#outcome(job, key, timeout)));
  }
  /** M10: resolves once the outcome is durable. */
  async #outcome(job: UpdateJob, key: string | undefined, timeout: number | undefined): Promise<UpdateOutcome> {
    const { environment } = this.#settings;
    const stops: (() => void)[] = [];
    const pauses = new Pauses(environment);
    stops.push(() => pauses.end());
    try {
      return await new Promise<UpdateOutcome>((resolve, reject) => {
        stops.push(this.#namespace.onUpdate(job.id, resolve));
        if (timeout !== undefined) {
          const timer = environment.after(timeout, () => void this.#tooLate(job.name, timeout).then(reject));
          stops.push(() => timer.cancel());
        }
        this.#sendAndRun(job, key, pauses).then(resolve, reject);
      });
    } finally {
      for (const stop of stops) stop();
    }
  }
  /** Describing what the run waits for is worth a short delay; if the reply arrives meanwhile, the caller gets it. */
  async #tooLate(update: string, timeout: number): Promise<HoldfastError> {
    const words = await new Promise<string>((resolve) => {
      const timer = this.#settings.environment.after(WORDS_WITHIN, () => resolve(""));
      const tell = (text: string): void => {
        timer.cancel();
        resolve(text);
      };
      this.describe().then(
        ({ status, waitingFor }) =>
          tell(` The run is ${status}${waitingFor.length === 0 ? "" : ` and waits for: ${waitingFor.join(", ")}`}.`),
        () => tell(""),
      );
    });
    const message = `The reply to update ${update} of run ${this.id} did not arrive within ${timeout} ms.${words} It may still arrive: ask again.`;
    return new HoldfastError(message, { code: "HF_WAIT_TIMEOUT", retryable: true });
  }
  async #sendAndRun(job: UpdateJob, key: string | undefined, pauses: Pauses): Promise<UpdateOutcome> {
    try {
      await this.#send(job, key === undefined ? undefined : `\0update/${key}`); // distinct from the keys of signals
    } catch (error) {
      // M10: an update that ended before its run closed still has its outcome.
      const ended = error instanceof RunClosedError ? await this.#namespace.updateOutcome(job.id, this.#settings.codec) : undefined;
      if (ended === undefined) throw error;
      return ended;
    }
    if (this.#namespace.live === undefined && (await this.#namespace.status(this.#settings.codec))?.status !== "blocked")
      await this.#wake("update");
    return this.#stored(job, pauses);
  }
  /** Polls until the outcome is stored: the run may have moved to another driver, which can't notify this one. */
  async #stored({ id, acceptWithin }: UpdateJob, pauses: Pauses): Promise<UpdateOutcome> {
    const isPatient = acceptWithin !== undefined;
    for (;;) {
      const { live } = this.#namespace;
      if (live instanceof Session) await live.result.catch(() => {}); // while it is live here it notifies
      const status = await this.#namespace.status(this.#settings.codec);
      const outcome = await this.#namespace.updateOutcome(id, this.#settings.codec);
      if (outcome !== undefined) return outcome;
      if (status === undefined) throw new RunNotFoundError({ runId: this.id });
      if (isClosed(status.status)) throw adviseHere(new RunClosedError({ runId: this.id, status: status.status }));
      if (status.status === "blocked") throw this.#blocked(status);
      await pauses.next();
      // M8: the run parked with an update that may still be accepted, and no other host may watch its alarm.
      const isDue = isPatient && (status.wakeAt ?? Number.POSITIVE_INFINITY) <= this.#settings.environment.now();
      if (isDue && this.#namespace.live === undefined) await this.#wake("update");
    }
  }
  /** V4: the update is kept, and offered to the run when it continues. */
  #blocked({ error }: Status): RunBlockedError {
    const cause = error === undefined ? undefined : adviseHere(reviveError(error));
    const reason = `${cause?.message.split("\n")[0] ?? "no reason is stored"}. The update is kept until the run continues`;
    return adviseHere(new RunBlockedError({ runId: this.id, reason, cause }));
  }
  #reply(name: string, outcome: UpdateOutcome): unknown {
    if (outcome.status === "completed") return this.#settings.codec.decode(outcome.value);
    const error = adviseHere(reviveError(outcome.error));
    throw outcome.status === "rejected" || error instanceof HoldfastError ? error : new UpdateFailedError({ update: name, cause: error });
  }

  // ── reading ──

  async #head() {
    await this.#starting;
    await this.#namespace.opened();
    await this.#namespace.live?.begun;
    return this.#namespace.head(this.id);
  }
  async #published(): Promise<Payload | undefined> {
    await this.#head();
    const state = await this.#settings.driver.get(KEY.state);
    return state === undefined ? undefined : (decode(state) as Payload);
  }
  async query(name: string, args?: unknown): Promise<unknown> {
    const { codec } = this.#settings;
    const answer = evaluateQuery(this.#workflow, name, await this.#published(), args, codec);
    try {
      return codec.decode(codec.encode(answer));
    } catch (cause) {
      // biome-ignore lint/style/useErrorCause: it is among the details
      throw new QueryFailedError({ query: name, reason: `its result can't be encoded: ${(cause as Error).message}`, cause });
    }
  }
  async state(): Promise<unknown> {
    const state = await this.#published();
    return state === undefined ? undefined : this.#settings.codec.decode(state);
  }
  async describe(): Promise<RunDescription> {
    const { id, workflow, version, execution, attempt, createdAt, deadlineAt, parent } = await this.#head();
    const [status, attributes] = await Promise.all([
      this.#namespace.status(this.#settings.codec),
      this.#settings.driver.get(KEY.attributes),
    ]);
    return {
      ...{ id, workflow, version, execution, attempt, parent },
      status: status?.status ?? "pending",
      wakeAt: status?.wakeAt === undefined ? undefined : new Date(status.wakeAt),
      waitingFor: status?.waitingFor ?? [],
      attributes: attributes === undefined ? {} : (decode(attributes) as RunDescription["attributes"]),
      createdAt: new Date(createdAt),
      deadlineAt: deadlineAt === undefined ? undefined : new Date(deadlineAt),
    };
  }
  async operations(): Promise<OperationInfo[]> {
    const { codec, driver } = this.#settings;
    const { createdAt } = await this.#head();
    const { turns, attempts, status, end } = await Storage.load(driver, codec);
    const endedAt = isClosed(status?.status) ? (end?.endedAt ?? turns.at(-1)?.time ?? createdAt) : undefined;
    return operationsOf(turns, attempts, NO_WORKERS, codec, endedAt);
  }
  async history(): Promise<History> {
    const { codec } = this.#settings;
    const head = await this.#head();
    const { turns, status } = await Storage.load(this.#settings.driver, codec);
    return toHistory(sealed(turns, codec), { ...head, status: status?.status ?? "pending" });
  }
}

type UpdateJob = MessageJob & { readonly type: "update" };

function rethrow(error: unknown): never {
  throw adviseHere(error);
}
