// Conformance: what consoles read.
// Owns: tests of `inspect` and `register`. A store may do without them.
// Invariants tested: B1, P10, D12, M1, B6.

import assert from "node:assert/strict";
import type { InspectStore, RunClose } from "holdfast/store";
import { type Bench, COMPLETED, failure, payload, range, START, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

function looked(bench: Bench): InspectStore {
  const inspect = bench.raw.inspect?.();
  assert.ok(inspect !== undefined, "the store has no `inspect`");
  return inspect;
}
const NEXT: RunClose = { status: "continued", next: { input: payload("next"), version: "v2", seed: "seed 2", carried: [] } };
const CONTINUE = { type: "continueAsNew", input: payload("next") } as const;

export function inspecting({ test }: Suite): void {
  test("B1 a list without values has the rows of the list, and none of the values", async (bench) => {
    const held = await bench.running("a", { attributes: { customer: "x" }, version: "v1", input: payload("in") });
    await bench.close(held, { status: "completed", output: payload("out") }, { turn: bench.turn(held), state: payload("state") });
    bench.time += 1;
    await bench.parked("b");
    await bench.running("c");
    for (const query of [
      { limit: 10 },
      { limit: 1 },
      { limit: 10, status: ["completed" as const] },
      { limit: 10, attributes: { customer: "x" } },
    ]) {
      const { runs, cursor } = await bench.store.list(query);
      const listed = await looked(bench).listRuns(query);
      same(
        listed.runs,
        runs.map(({ input: _input, output: _output, state: _state, seed: _seed, ...row }) => row),
      );
      same(listed.cursor, cursor);
      for (const name of ["input", "output", "state", "seed"])
        assert.ok(
          listed.runs.every((row) => !(name in row)),
          name,
        );
    }
    const first = await looked(bench).listRuns({ limit: 2 });
    const rest = await looked(bench).listRuns({ limit: 2, cursor: first.cursor });
    same([...first.runs, ...rest.runs].map(({ id }) => id), ["c", "b", "a"]); // biome-ignore format: one line
    await assert.rejects(looked(bench).listRuns({ limit: 2, cursor: "nonsense" }), { name: "InvalidInputError" });
  });

  test("D12 turns are read in pages, and are those of the history", async (bench) => {
    const held = await bench.running("a");
    for (const i of range(5)) {
      bench.time += 1;
      await bench.commit(held, { turn: bench.turn(held, i === 3 ? { state: payload(i), jobs: [signal(`s${i}`)] } : {}) });
    }
    const all = await bench.store.history("a");
    assert.equal(all.length, 5);
    const inspect = looked(bench);
    same(await inspect.turnsOf("a", {}), all);
    same(await inspect.turnsOf("a", { after: 1 }), all.slice(2));
    same(await inspect.turnsOf("a", { limit: 2 }), all.slice(0, 2));
    same(await inspect.turnsOf("a", { after: 0, limit: 3 }), all.slice(1, 4));
    same(await inspect.turnsOf("a", { after: 3, limit: 100 }), all.slice(4));
    same(await inspect.turnsOf("a", { after: 4 }), []);
    const withoutValues = await inspect.turnsOf("a", { values: false });
    const shapes = (turns: typeof all) => turns.map(({ index, jobs, commands }) => [index, [...jobs, ...commands].map(({ type }) => type)]);
    same(shapes(withoutValues), shapes(all));
    same(await inspect.turnsOf("a", { limit: 0 }), []);
    same(await inspect.turnsOf("a", { execution: 2 }), []);
    same(await inspect.turnsOf("unknown", {}), []);
    same([...(await inspect.workersOf("a"))], range(5).map((i) => [i, "w1"])); // biome-ignore format: one line
  });

  test("P10 D12 an execution that was continued can still be looked at", async (bench) => {
    const held = await bench.running("a", { version: "v1" });
    const attempt = {
      seq: 1,
      number: 1,
      status: "failed",
      error: failure("no"),
      startedAt: bench.time,
      endedAt: bench.time,
      workerId: "w1",
    } as const;
    await bench.commit(held, { turn: bench.turn(held), attempts: [attempt] });
    bench.time += 5;
    const last = bench.turn(held, { commands: [CONTINUE] });
    await bench.close(held, NEXT, { turn: last });
    bench.time += 5;
    const again = await bench.hold("a", { workerId: "w2" });
    await bench.commit(again, { turn: bench.turn(again) });
    const inspect = looked(bench);
    same(
      (await inspect.turnsOf("a", { execution: 1 })).map(({ index, time, commands }) => [index, time, commands.map(({ type }) => type)]),
      [
        [0, START, ["step"]],
        [1, START + 5, ["continueAsNew"]],
      ],
    );
    same(await inspect.turnsOf("a", {}), await bench.store.history("a"));
    same(await inspect.turnsOf("a", { execution: 2 }), await bench.store.history("a"));
    same(await inspect.attemptsOf("a", 1), [attempt]);
    same(await inspect.attemptsOf("a"), []);
    same([...(await inspect.workersOf("a", 1))], [[0, "w1"], [1, "w1"]]); // biome-ignore format: one line
    same([...(await inspect.workersOf("a"))], [[0, "w2"]]);
    same(await inspect.executionsOf("a"), [
      { execution: 1, workflow: "order", version: "v1", input: payload("a"), turns: 2, firstTurnAt: START, lastTurnAt: START + 5, lastRecord: "continueAsNew" },
      { execution: 2, workflow: "order", version: "v2", input: payload("next"), turns: 1, firstTurnAt: START + 10, lastTurnAt: START + 10, lastRecord: "step" },
    ]); // biome-ignore format: a table
  });

  test("P10 the execution of a run that has not begun has no turns", async (bench) => {
    await bench.created("a");
    const inspect = looked(bench);
    same(await inspect.executionsOf("a"), [{ execution: 1, workflow: "order", input: payload("a"), turns: 0 }]);
    same(await inspect.executionsOf("unknown"), []);
  });

  test("D12 attempts of activities are among the attempts", async (bench) => {
    await bench.waitingFor("a", bench.newTask(7));
    const task = await bench.claimTask();
    const [running] = await looked(bench).attemptsOf("a");
    assert.deepEqual([running?.seq, running?.number, running?.status, running?.task], [7, 1, "running", true]);
    await bench.complete(task);
    const [over] = await looked(bench).attemptsOf("a");
    assert.equal(over?.status, "completed");
    same(await looked(bench).attemptsOf("a"), await bench.attempts("a"));
  });

  test("M1 the messages that wait, in order, with the time at which they came", async (bench) => {
    const held = await bench.running("a");
    await bench.sent("a", signal("s1"));
    bench.time += 10;
    await bench.sent("a", signal("s2"));
    const found = await looked(bench).messagesOf("a");
    same(
      found.map(({ id, job }) => ({ id, job })),
      await bench.store.inbox("a"),
    );
    // A store may not keep the times.
    const times = found.map(({ receivedAt }) => receivedAt);
    if (times[0] !== undefined) same(times, [START, START + 10]);
    await bench.close(held, COMPLETED, { consumed: found.map(({ id }) => id), turn: bench.turn(held) });
    same(await looked(bench).messagesOf("a"), []);
    same(await looked(bench).messagesOf("unknown"), []);
  });

  test("B6 what workers have registered, by name and version; the last one counts", async (bench) => {
    const inspect = looked(bench);
    same(await inspect.workflows(), []);
    await bench.raw.register?.([
      { workflow: "order", version: "2", info: "new" },
      { workflow: "order", version: undefined, info: "plain" },
      { workflow: "bill", version: "1", info: "{}" },
    ]);
    await bench.raw.register?.([{ workflow: "order", version: "2", info: "newer" }]);
    await bench.raw.register?.([{ workflow: "order", version: "2", info: "newer" }]);
    await bench.raw.register?.([]);
    same(await inspect.workflows(), [
      { workflow: "bill", version: "1", info: "{}" },
      { workflow: "order", info: "plain" },
      { workflow: "order", version: "2", info: "newer" },
    ]);
  });

  test("B6 the storage says that it is there", async (bench) => {
    const { exists, schema } = await looked(bench).state();
    assert.equal(exists, true);
    assert.equal(schema?.found, schema?.known);
  });
}
