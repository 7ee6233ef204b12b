import { describe, expect, it } from "vitest";
import {
  type Answers,
  fingerprint,
  play,
  settingsOf,
} from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { presetNamed } from "../batching/config.ts";
import { WORKLOADS, workloadNamed } from "./catalogue.ts";

const KINDS = 64;
/** Of these, what comes next depends on answers. */
const WAITING = ["realtime-and-batch", "realtime-with-batch", "conversations", "agents", "tool-calls"];
/** The rates of runs of ten minutes, so that the tests stay short. */
const FEWER: Readonly<Record<string, { rate: number }>> = { conversations: { rate: 1 }, "tool-calls": { rate: 2 } };
/** Without those that send the same as `staleness-0s`. */
const DISTINCT = WORKLOADS.filter(({ name, metricsLagMs = 0 }) => !name.startsWith("staleness") || metricsLagMs === 0);
const OPEN_LOOP = DISTINCT.filter(({ name }) => !WAITING.includes(name));

/** Short enough for every test, long enough for a later turn. */
function prints(name: string, seed: number, answers?: Answers): string[] {
  const definition = workloadNamed(name)!;
  const { rateUnit } = definition;
  const durationMs = Math.min(definition.durationMs, rateUnit === "sessions/s" ? 120_000 : 16_000);
  const list: string[] = [];
  const settings = settingsOf(definition, { durationMs, rate: definition.rates[0]! });
  play(definition.make(settings), {
    ...{ seed, keep: false, saw: (request, at) => list.push(fingerprint(request, at)) },
    ...(answers === undefined ? {} : { answers }),
  });
  return list;
}

describe("the catalogue of workloads", () => {
  it("has the requested workloads, each under its own name", () => {
    expect(WORKLOADS.map(({ name }) => name)).toEqual([
      ...["b2b-saas", "low-prefix-share", "hot-prefix", "bursts"],
      ...["staleness-0s", "staleness-0.2s", "staleness-1s", "staleness-2s", "staleness-5s"],
      ...["tenants", "realtime-and-batch", "lora-tiers", "conversations"],
      ...[
        "long-documents",
        "agents",
        "tool-calls",
        "working-set-0.5x",
        "working-set-1x",
        "working-set-4x",
        "hot-document",
        "tenants-fresh",
      ],
      ...["noisy-neighbour", "priority-mix", "realtime-with-batch", "burst", "scale-from-zero", "disaggregated"],
    ]);
    for (const workload of WORKLOADS) expect(workloadNamed(workload.name)).toBe(workload);
    expect(workloadNamed("none")).toBeUndefined();
  });

  it.each(WORKLOADS)("$name says how it is run", ({ rates, rateUnit, servers, preset, durationMs, about }) => {
    expect(rates.length).toBeGreaterThan(0);
    expect(rates[0]).toBeGreaterThan(0);
    expect(rates).toEqual([...new Set(rates)].toSorted((a, b) => a - b));
    expect(rateUnit).not.toBe("");
    expect(about).not.toBe("");
    expect(servers).toBe(8);
    expect(durationMs).toBeGreaterThanOrEqual(45_000);
    expect(presetNamed(preset)).toBeDefined();
  });

  it.each(WORKLOADS)("$name refuses settings that say nothing", ({ name, make }) => {
    for (const wrong of [{ rate: 0 }, { rate: Number.NaN }, { durationMs: -1 }, { servers: Number.POSITIVE_INFINITY }])
      expect(() => make({ rate: 1, durationMs: 1000, servers: 1, ...wrong })).toThrowError(
        expect.objectContaining({
          code: "WORKLOAD_INVALID",
          message: expect.stringContaining(`of workload ${name} is`),
        }),
      );
  });

  it.each(DISTINCT)("$name sends the same for the same seed, and something else for another", ({ name }) => {
    const first = prints(name, 1);
    expect(first.length).toBeGreaterThan(20);
    expect(prints(name, 1)).toEqual(first);
    const other = new Set(prints(name, 2));
    expect(first.filter((print) => other.has(print))).toEqual([]);
  });

  it.each(OPEN_LOOP)("$name does not look at answers", ({ name }) => {
    const fast = prints(name, 3, () => 0);
    expect(prints(name, 3, (number) => (number % 7) * 900)).toEqual(fast);
    expect(prints(name, 3, (number) => (number % 3 === 0 ? "rejected" : 30_000 - number))).toEqual(fast);
  });

  it.each(DISTINCT)(
    "$name sends requests that a server of its preset can take, in time, of few kinds",
    (definition) => {
      const { name, preset, make } = definition;
      const { maxModelLen } = presetNamed(preset)!.config;
      const settings = settingsOf(definition, FEWER[name]);
      const kinds = new Set<string | undefined>();
      let wrong = 0;
      let requests = 0;
      play(make(settings), {
        keep: false,
        saw({ prompt, outputTokens, answer, kind }, at) {
          requests++;
          kinds.add(kind);
          const tokens = prompt.length / 4;
          const isText = Number.isInteger(tokens) && tokens >= 1 && prompt.byteOffset % 4 === 0;
          const isAnswer = answer === undefined || (answer.length === outputTokens * 4 && answer.byteOffset % 4 === 0);
          const fits = Number.isInteger(outputTokens) && outputTokens >= 1 && tokens + outputTokens <= maxModelLen;
          if (!isText || !isAnswer || !fits || at < 0 || at > settings.durationMs) wrong++;
        },
      });
      expect(wrong).toBe(0);
      expect(requests).toBeGreaterThan(300);
      expect(kinds.size).toBeLessThanOrEqual(KINDS);
    },
  );
});
