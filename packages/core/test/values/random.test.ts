// Job: prove that randomness is deterministic, and random.
// Owns: Random.
// Invariants: P7.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Random } from "../../src/values/index.ts";

const draw = (random: Random, n: number): number[] => Array.from({ length: n }, () => random.next());

describe("Random", () => {
  it("P7 the same seed and key give the same draws", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (seed, key) => {
        const [a, b] = [new Random(seed, key), new Random(seed, key)];
        expect([...draw(a, 5), a.uuid(), a.next()]).toStrictEqual([...draw(b, 5), b.uuid(), b.next()]);
      }),
    );
  });

  it("P7 the sequence is the same forever: recorded runs depend on it", () => {
    const random = new Random("seed", "checkout/~3");
    expect([random.next(), random.next(), random.uuid(), random.next()]).toMatchInlineSnapshot(`
      [
        0.800983178664113,
        0.8657456932425343,
        "03b8b9e9-d22e-4976-9b42-a39e7ca5266c",
        0.38918889798953205,
      ]
    `);
    expect(new Random("", "").uuid()).toMatchInlineSnapshot(`"2d42bf5b-b292-49a8-8da3-460122fbf7c9"`);
    expect(new Random("ß→😀", "x").uuid()).toMatchInlineSnapshot(`"10edaa63-9a5c-4fda-b7fd-9f8ba95ac4bf"`);
  });

  it("P7 another seed or key gives other draws, however it is cut", () => {
    const firsts = new Set<number>();
    let made = 0;
    for (let i = 0; i < 200; i++) {
      for (const [seed, key] of [
        [`run-${i}`, ""],
        ["", `run-${i}`],
        [`run-${i}`, "a"],
        [`run-${i}a`, ""],
        ["run", `~${i}`],
        [`run~${i}`, "~"],
      ] as const) {
        firsts.add(new Random(seed, key).next());
        made++;
      }
    }
    expect(firsts.size).toBe(made);
  });

  it("P7 next is in [0, 1), evenly spread, and uses all 53 bits", () => {
    const n = 200_000;
    const buckets = new Array<number>(100).fill(0);
    const random = new Random("statistics", "");
    let sum = 0;
    let lowBits = 0;
    for (let i = 0; i < n; i++) {
      const x = random.next();
      if (!(x >= 0 && x < 1)) expect.fail(`draw ${i} is ${x}`);
      sum += x;
      lowBits += (x * 2 ** 53) % 2;
      const bucket = Math.floor(x * 100);
      buckets[bucket] = (buckets[bucket] ?? 0) + 1;
    }
    const chiSquared = buckets.reduce((total, count) => total + (count - n / 100) ** 2 / (n / 100), 0);
    expect(sum / n).toBeCloseTo(0.5, 2);
    expect(lowBits / n).toBeCloseTo(0.5, 2);
    // 99 degrees of freedom: 148.2 is exceeded once in a thousand.
    expect(chiSquared).toBeLessThan(148.2);
  });

  it("P7 consecutive draws, and first draws of neighbouring units, do not follow each other", () => {
    const correlation = (xs: readonly number[]): number => {
      const pairs = xs.slice(1).map((x, i) => (x - 0.5) * ((xs[i] ?? 0) - 0.5));
      return (pairs.reduce((a, b) => a + b, 0) / pairs.length) * 12;
    };
    const neighbours = Array.from({ length: 50_000 }, (_, i) => new Random("s", `loop/~${i}`).next());
    expect(Math.abs(correlation(draw(new Random("s", ""), 50_000)))).toBeLessThan(0.02);
    expect(Math.abs(correlation(neighbours))).toBeLessThan(0.02);
    expect(neighbours.reduce((a, b) => a + b, 0) / neighbours.length).toBeCloseTo(0.5, 2);
  });

  it("P7 one flipped bit in the seed flips half of the bits of the first draw", () => {
    let flipped = 0;
    const n = 2_000;
    for (let i = 0; i < n; i++) {
      const [a, b] = [new Random(`${i}A`, "k").uuid(), new Random(`${i}C`, "k").uuid()].map((uuid) =>
        Number.parseInt(uuid.slice(0, 8), 16),
      );
      let difference = ((a ?? 0) ^ (b ?? 0)) >>> 0;
      for (; difference > 0; difference >>>= 1) flipped += difference & 1;
    }
    expect(flipped / n / 32).toBeGreaterThan(0.48);
    expect(flipped / n / 32).toBeLessThan(0.52);
  });

  it("P7 uuid is a valid version 4 UUID, and none comes twice", () => {
    const random = new Random("uuids", "");
    const uuids = new Set(Array.from({ length: 20_000 }, () => random.uuid()));
    expect(uuids.size).toBe(20_000);
    const valid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    expect([...uuids].filter((uuid) => !valid.test(uuid))).toStrictEqual([]);
  });
});
