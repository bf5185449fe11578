// The process that runs the user's code: it loads it, describes it, answers queries, replays histories and works.
// Owns: the loaded code, the engine and the inspection of this process.
// Invariants: it ends with its parent; what the code prints goes to stderr (the parent sees to that); a call answers once.

import { type AnyWorkflow, type Codec, evaluateQuery, HoldfastError, InvalidInputError, jsonCodec, serializeError } from "@holdfast/core";
import { validated } from "@holdfast/host";
import { Holdfast, type Worker } from "holdfast";
import { type Inspection, openReadOnly, workflowSchemas } from "holdfast/inspect";
import type { CodeWorkflow } from "../api/context.ts";
import type { Issue } from "../api/problem.ts";
import { loadConfig } from "../config/load.ts";
import { installHook, loadedFiles } from "../hook/index.ts";
import { LoadError, type LoadedCode, loadEntries } from "./load.ts";
import { endNow, endWithParent } from "./orphan.ts";
import type { CallName, CodeCalls, FromCode, LoadRequest, LoadResult, MessagePart, ToCode } from "./protocol.ts";
import { replayItems, replayOpenRuns, sourceIn } from "./replaying.ts";

type Handlers = { [N in CallName]: (request: CodeCalls[N]["request"]) => Promise<CodeCalls[N]["reply"]> };

let place: LoadRequest | undefined;
let code: LoadedCode | undefined;
let codec: Codec | undefined;
let engine: Holdfast | undefined;
let inspection: Promise<Inspection> | undefined;
let workers: Worker[] = [];
let isClaiming = false;

const handlers: Handlers = {
  async load(request): Promise<LoadResult> {
    place = request;
    try {
      if (request.configFile !== undefined) ({ codec } = await loadConfig(request.configFile, request.cwd));
      code = await loadEntries(request.files, request.cwd);
      const names = [...new Set(code.workflows.all.map(({ name }) => name))].sort();
      return { workflows: names, files: loadedFiles(), problem: undefined };
    } catch (error) {
      if (!(error instanceof LoadError) && (error as { exitCode?: unknown }).exitCode !== 2) throw error;
      return { workflows: [], files: loadedFiles(), problem: (error as Error).message };
    }
  },
  async describe() {
    return loaded().workflows.all.map(described);
  },
  async query({ workflow, version, state, name, input }) {
    return jsonCodec.encode(evaluateQuery(definitionOf(workflow, version), name, state, input));
  },
  async validate({ workflow, version, part, value }) {
    return issuesOf(definitionOf(workflow, version), part, value);
  },
  async source({ runId, execution, workflow, version, location }) {
    const definition = definitionOf(workflow, version);
    const history = await (await inspected()).history(runId, execution);
    return history === undefined ? null : sourceIn(definition, history, location, { codec, cwd: placed().cwd });
  },
  async replay({ items, strict }) {
    const settings = { codec, strict, cwd: placed().cwd };
    for await (const outcome of replayItems(loaded(), items, inspected, settings)) send({ outcome });
    return undefined;
  },
  async replayOpen(request) {
    return replayOpenRuns(loaded(), await inspected(), request, { codec, strict: false, cwd: placed().cwd });
  },
  async work({ workers: wanted }) {
    const { workflows, activities } = loaded();
    engine = await Holdfast.open(placed().url, storeOptions());
    for (const settings of wanted) workers.push(await engine.worker({ ...settings, workflows: workflows.all, activities }));
    isClaiming = true;
    return undefined;
  },
  async retire() {
    void retire();
    return undefined;
  },
  async ping() {
    return isClaiming;
  },
};

function storeOptions(): { codec?: Codec; namespace?: string } {
  const { namespace } = placed();
  return { ...(codec !== undefined && { codec }), ...(namespace !== undefined && { namespace }) };
}
function placed(): LoadRequest {
  if (place === undefined) throw new HoldfastError("No code was loaded.");
  return place;
}
function loaded(): LoadedCode {
  if (code === undefined) throw new HoldfastError("The code is not loaded.", { code: "HF_NO_CODE" });
  return code;
}
function inspected(): Promise<Inspection> {
  // In this thread: a replay takes longer to copy histories between threads than to run.
  inspection ??= openReadOnly(placed().url, { ...storeOptions(), thread: false });
  return inspection;
}
function definitionOf(name: string, version: string | undefined): AnyWorkflow {
  const found = loaded().workflows.find(name, version);
  if (found !== undefined) return found;
  const which = version === undefined ? `"${name}"` : `"${name}" in version "${version}"`;
  throw new HoldfastError(`The code has no workflow ${which}.`, { code: "HF_NO_CODE" });
}
function described(workflow: AnyWorkflow): CodeWorkflow {
  const { name, version, options } = workflow;
  const versions = options.serves === "*" ? ("*" as const) : [version, ...(options.serves ?? [])];
  return { name, version, versions, schemas: workflowSchemas(workflow) };
}

async function issuesOf(workflow: AnyWorkflow, part: MessagePart, value: unknown): Promise<readonly Issue[] | undefined> {
  const { input, signals, updates } = workflow.options;
  const schema = part.kind === "input" ? input : (part.kind === "signal" ? signals : updates)?.[part.name]?.schema;
  if (schema === undefined) return undefined;
  try {
    await validated(part.kind, schema, value);
    return [];
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    return error.issues.map(({ message, path }) => ({ message, ...(path !== undefined && { path: path.map(keyOf) }) }));
  }
}
function keyOf(key: PropertyKey): string | number {
  return typeof key === "symbol" ? String(key) : key;
}

let retiring: Promise<void> | undefined;
/** Stops the workers, then ends the process. */
function retire(): Promise<void> {
  isClaiming = false;
  retiring ??= Promise.allSettled(workers.map((worker) => worker.stop()))
    .then(() => Promise.allSettled([engine?.close(), inspection?.then((open) => open.close())]))
    .then(endNow);
  workers = [];
  return retiring;
}

function send(message: FromCode): void {
  process.send?.(message);
}
async function answer({ id, call, request }: ToCode): Promise<void> {
  try {
    send({ id, reply: await (handlers[call] as (request: unknown) => Promise<unknown>)(request) });
  } catch (error) {
    send({ id, error: serializeError(error) });
  }
}

// First: the parent may end while this process starts.
endWithParent(Number(process.argv[2]), () => void retire());
// A terminal sends Ctrl+C to every process of its group: the parent decides when this one ends.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => void retire());
// Here and not by `--import`: on Node 20 every import asks the thread of the hook, and those of this package need no answer.
await installHook();
process.on("message", (message: ToCode) => void answer(message));
