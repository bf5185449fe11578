// Job: prove the order in which jobs enter the turns of a run, also of turns that are taken back.
// Owns: nothing; the queue alone.
// Invariants: M2, M7, X9, D9.

import type { Job } from "@holdfast/core";
import { expect, it } from "vitest";
import { isMixed, JobQueue, type TurnJobs } from "../../src/engine/jobQueue.ts";

const signal = (id: number): Job => ({ type: "signal", id: `s${id}`, name: "tick", payload: "1" });
const fire = (seq: number): Job => ({ type: "fire", seq });
const outcome = (seq: number): Job => ({ type: "resolve", seq, outcome: { status: "completed", value: "1" } });
const start = { type: "start", runId: "r", workflow: "w", input: "1", seed: "s", startedAt: 0 } as const;
/** What a turn has, in short. */
const shown = ({ jobs, messages }: TurnJobs): string =>
  `${jobs.map((job) => ("seq" in job ? `${job.type}${job.seq}` : "id" in job ? job.id : job.type)).join(" ")} | ${messages.map(({ id }) => id).join(" ")}`;

it("M7 a turn takes what is there, and the messages among it", () => {
  const queue = new JobQueue();
  queue.push(fire(1));
  queue.pushMessage(5, signal(5));
  queue.push(outcome(2));
  expect(shown(queue.take())).toBe("fire1 s5 resolve2 | 5");
  expect(queue.isEmpty).toBe(true);
});

it("X9 of many messages a turn takes two hundred, and what stands between them", () => {
  const queue = new JobQueue();
  for (let id = 1; id <= 250; id++) {
    queue.pushMessage(id, signal(id));
    if (id === 200 || id === 210) queue.push(fire(id));
  }
  const first = queue.take();
  expect([first.jobs.length, first.messages.length]).toEqual([200, 200]);
  expect(shown(queue.take())).toMatch(/^fire200 s201 .* s210 fire210 s211 .* s250 \| 201 /);
});

it("D9 a turn that is taken back: its messages and later ones by arrival, then its other jobs, then what came since", () => {
  const queue = new JobQueue();
  queue.push(start);
  queue.push(fire(1));
  queue.pushMessage(7, signal(7));
  const turn = queue.take();
  queue.push(outcome(2));
  queue.pushMessage(9, signal(9));
  queue.pushMessage(8, signal(8)); // known ahead of others
  queue.takeBack(turn);
  expect(queue.hasOutcomes).toBe(true);
  expect(shown(queue.take())).toBe("start s7 s8 s9 | 7 8 9");
  queue.pushMessage(10, signal(10));
  expect(shown(queue.take())).toBe("fire1 resolve2 s10 | 10");
});

it("D9 K8 a timer of a turn that is taken back, which a message has settled meanwhile, does not fire", () => {
  const queue = new JobQueue();
  queue.push(fire(1));
  queue.push(fire(2));
  const turn = queue.take();
  for (let id = 1; id <= 250; id++) queue.pushMessage(id, signal(id));
  queue.takeBack(turn);
  queue.take();
  queue.dropFire(1);
  queue.take();
  expect(shown(queue.take())).toBe("fire2 | ");
});

it("D9 the other jobs wait until every late message has had its turn, and survive another taking back", () => {
  const queue = new JobQueue();
  queue.push(fire(1));
  queue.pushMessage(1, signal(1));
  const turn = queue.take();
  for (let id = 2; id <= 450; id++) queue.pushMessage(id, signal(id));
  queue.takeBack(turn);
  const sizes: number[] = [];
  for (let taken = queue.take(); ; taken = queue.take()) {
    sizes.push(taken.messages.length);
    if (taken.messages.length === 0) {
      expect(shown(taken)).toBe("fire1 | ");
      break;
    }
    if (sizes.length !== 2) continue;
    queue.takeBack(taken);
  }
  expect(sizes).toEqual([200, 200, 200, 50, 0]);
});

it("D9 answers of others wait like outcomes of steps, and leave the inbox with the turn that has them", () => {
  const queue = new JobQueue();
  queue.pushMessage(3, outcome(1));
  queue.push(fire(2));
  queue.pushMessage(4, signal(4));
  queue.takeBack(queue.take());
  expect(queue.hasOutcomes).toBe(false); // it is in the inbox
  queue.pushMessage(5, signal(5));
  expect(shown(queue.take())).toBe("s4 s5 | 4 5");
  queue.pushMessage(6, signal(6));
  expect(shown(queue.take())).toBe("resolve1 fire2 s6 | 3 6");
});

it("D9 a timer whose operation was settled meanwhile fires no more", () => {
  const queue = new JobQueue();
  queue.push(fire(1));
  queue.push(fire(2));
  queue.pushMessage(1, signal(1));
  queue.takeBack(queue.take());
  expect(shown(queue.take())).toBe("s1 | 1");
  queue.pushMessage(2, signal(2));
  queue.dropFire(1);
  expect(shown(queue.take())).toBe("fire2 s2 | 2");
});

it("D9 a turn is mixed if it has messages beside timers and outcomes", () => {
  const message = { id: 1, job: signal(1) };
  expect(isMixed({ jobs: [start, message.job], messages: [message] })).toBe(false);
  expect(isMixed({ jobs: [fire(1)], messages: [] })).toBe(false);
  expect(isMixed({ jobs: [fire(1), message.job], messages: [message] })).toBe(true);
  const answer = { id: 2, job: outcome(3) };
  expect(isMixed({ jobs: [answer.job, message.job], messages: [answer, message] })).toBe(true);
  expect(isMixed({ jobs: [answer.job], messages: [answer] })).toBe(false);
});

it("K7 a deadline shares its turn with all that came before it, however much that is: none of it moves code first", () => {
  const queue = new JobQueue();
  for (let id = 1; id <= 250; id++) queue.pushMessage(id, signal(id));
  queue.pushMessage(251, { type: "expire", error: { name: "DeadlineExceededError", message: "late" } });
  const { jobs, messages } = queue.take();
  expect([jobs.length, messages.length, jobs.at(-1)?.type, queue.isEmpty]).toEqual([251, 251, "expire", true]);
  queue.pushMessage(252, signal(252));
  expect(shown(queue.take())).toBe("s252 | 252");
});

it("F1 D9 the first turn of a fork has the jobs of its message and no others; if it was late for messages, they come before its outcomes", () => {
  const queue = new JobQueue();
  const becomes: Job = { type: "fork", runId: "f", from: "r", seed: "s", startedAt: 0 };
  queue.pushFork(3, [becomes, outcome(1), signal(1)]);
  queue.pushMessage(4, signal(4));
  queue.push(fire(2));
  const turn = queue.take();
  expect(shown(turn)).toBe("fork resolve1 s1 | 3");
  expect(isMixed(turn)).toBe(false);
  queue.pushMessage(5, signal(5));
  queue.takeBack(turn);
  expect(shown(queue.take())).toBe("fork s1 s4 fire2 s5 resolve1 | 4 5 3");
  expect(queue.isEmpty).toBe(true);
});

it("F1 K7 a deadline that has passed comes with the first turn of a fork", () => {
  const queue = new JobQueue();
  queue.pushFork(3, [{ type: "fork", runId: "f", from: "r", seed: "s", startedAt: 0 }, outcome(1)]);
  queue.pushMessage(4, { type: "expire", error: { name: "DeadlineExceededError", message: "" } });
  expect(shown(queue.take())).toBe("fork resolve1 expire | 3 4");
});
