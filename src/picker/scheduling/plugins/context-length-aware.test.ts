import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, keptBy, requestOf, scoresOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { Rejection } from "../../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../../base/inference/request.ts";
import { defineProducer } from "../../../base/plugin/define.ts";
import { TOKENIZED_PROMPT } from "../../../base/plugin/keys.ts";
import { PluginRegistry } from "../../../base/plugin/registry.ts";
import { replay } from "../../decisions/replay.ts";
import { described, planOfOne } from "../build.ts";
import { Scheduler } from "../scheduler.ts";
import { ContextLengthRanges, contextLengthAware } from "./context-length-aware.ts";

const labelled = (value: string) => endpointOf(0, { labels: { range: value } });

describe("ContextLengthRanges", () => {
  it("S-39: reads `min-max`, tells no label from one that is no range", () => {
    const ranges = new ContextLengthRanges("range");
    expect(ranges.of(labelled("10-20"))).toEqual({ min: 10, max: 20 });
    expect(ranges.of(labelled("20-10"))).toBeNull();
    expect(ranges.of(endpointOf(0))).toBeUndefined();
  });

  it("keeps at most 256 values, and reads the same ones again afterwards", () => {
    const ranges = new ContextLengthRanges("range");
    for (let max = 0; max < 1000; max++) {
      ranges.of(labelled(`0-${max}`));
      expect(ranges.size).toBeLessThanOrEqual(256);
    }
    expect(ranges.of(labelled("0-1"))).toEqual({ min: 0, max: 1 });
  });
});

const LABEL = "llm-d.ai/context-length-range";

/** Candidates with these values of the label, undefined = without it; a prompt of `tokens` tokens, if counted. */
function pool(ranges: readonly (string | undefined)[], tokens?: number, label = LABEL) {
  const endpoints = ranges.map((range, slot) =>
    endpointOf(slot, range === undefined ? {} : { labels: { [label]: range } }),
  );
  const counted = { tokens: new Uint8Array(0), prompts: [], count: tokens ?? 0 };
  return columnsOf(endpoints, tokens === undefined ? [] : [[TOKENIZED_PROMPT, counted]]);
}

const filter = contextLengthAware.alsoFilter!(contextLengthAware.parameters.parse({ enableFiltering: true }))!;

describe("context-length-aware (scheduling 3.9.4)", () => {
  it("S-39: scores a range by its width and by what is left above the length; outside it by the distance", () => {
    expect(scoresOf(contextLengthAware, pool(["0-10000"], 5000))).toEqual([0.65]);
    expect(scoresOf(contextLengthAware, pool(["0-10000"], 11_000))).toEqual([0.15]);
    expect(scoresOf(contextLengthAware, pool(["6000-10000"], 5000))).toEqual([0.15]);
    expect(scoresOf(contextLengthAware, pool(["0-10000", "10000-20000"], 10_000))).toEqual([0.545, 0.755]);
  });

  it("S-39: a range of one length scores 1 there, no label 0.5, and what is no range 0", () => {
    const odd = ["8-2", "10", "", "a-b", "-5-10", "1-2-3", "1.5-3", "0x1-2"];
    expect(scoresOf(contextLengthAware, pool(["5000-5000", undefined, ...odd], 5000))).toEqual([
      1,
      0.5,
      ...odd.map(() => 0),
    ]);
    expect(scoresOf(contextLengthAware, pool([" 0 - 10000 "], 5000))).toEqual([0.65]);
    expect(scoresOf(contextLengthAware, pool(["0-10000"], 5000, "range"), { label: "range" })).toEqual([0.65]);
    expect(scoresOf(contextLengthAware, pool(["0-10000"], 5000, "range"))).toEqual([0.5]);
  });

  it("S-39: what is not tokenised counts a token per four bytes", () => {
    const of = (bytes: number) => scoresOf(contextLengthAware, pool(["2-2"]), {}, requestOf("x".repeat(bytes)))[0];
    expect([of(4), of(5), of(8), of(9)].map((score) => score === 1)).toEqual([false, true, true, false]);
  });

  it("S-39: counts by what is known of the model's text, without what escapes add", () => {
    const fits = (more: Partial<InferenceRequest>) =>
      scoresOf(contextLengthAware, pool(["50-50"]), {}, requestOf("x".repeat(400), more))[0] === 1;
    expect([{}, { bytesPerToken: 8 }, { escapeBytes: 200 }, { bytesPerToken: 2, escapeBytes: 300 }].map(fits)).toEqual([
      ...[false, true, true, true],
    ]);
  });

  it("S-39: a decision by estimated tokens is made again the same from its full record", () => {
    const plan = () =>
      planOfOne({
        plugins: [described(contextLengthAware)],
        registry: new PluginRegistry([]),
        clock: new VirtualClock(),
        random: new SeededRandom(1),
      });
    const { endpoints } = pool(["50-50", "0-100"]);
    const scheduler = new Scheduler({ plan: plan(), clock: new VirtualClock(), random: new SeededRandom(1) });
    const request = requestOf("x".repeat(480), { bytesPerToken: 8, escapeBytes: 80 });
    scheduler.schedule(request, endpoints, 0, { full: true });
    const record = scheduler.records.newest!;
    expect(record.full!.request).toMatchObject({ promptBytes: 480, escapeBytes: 80, bytesPerToken: 8 });
    expect(record.top[0]).toMatchObject({ id: endpoints[0]!.id, total: 1 });
    expect(replay(record, plan())).toMatchObject({ differences: [] });
    // As the figure was at that moment, and no other.
    const { top, full } = record;
    const other = { ...record, top, full: { ...full!, request: { ...full!.request, bytesPerToken: 4 } } };
    expect(replay(other, plan())!.differences).not.toEqual([]);
  });

  it("S-39: is a filter only when it is told, without a way out: ranges that do not fit and what is no range go", () => {
    expect(contextLengthAware.alsoFilter!(contextLengthAware.parameters.parse({}))).toBeUndefined();
    const ranges = ["0-4999", "0-5000", "5000-9000", "5001-9000", undefined, "what"];
    expect(keptBy(filter, pool(ranges, 5000))).toEqual([1, 2, 4]);
    expect(keptBy(filter, pool(["0-1", "x"], 5000))).toEqual([]);
    expect(keptBy(filter, pool(["0-2", "3-9"]), {}, requestOf("x".repeat(9)))).toEqual([1]);
  });

  it("S-39, S-41: named once in a profile it works as both, and refuses what no endpoint is meant for", () => {
    const outcomeOf = (enableFiltering: boolean, bytes: number) => {
      const clock = new VirtualClock();
      const random = new SeededRandom(1);
      const parameters = contextLengthAware.parameters.parse({ enableFiltering });
      const plan = planOfOne({
        plugins: [{ definition: contextLengthAware, name: "lengths", parameters }],
        registry: new PluginRegistry([]),
        clock,
        random,
      });
      const { endpoints } = pool(["0-99", "100-199"]);
      return new Scheduler({ plan, clock, random }).schedule(requestOf("x".repeat(bytes)), endpoints, 0);
    };
    const both = outcomeOf(true, 400);
    if (both instanceof Rejection) throw new Error(both.text);
    expect(both.endpoints.map(({ slot }) => slot)).toEqual([1]);
    expect(both.record.filters).toEqual([{ name: "lengths", dropped: 1, ids: ["default/pod-0"] }]);
    expect(both.record.scorers).toEqual([{ name: "lengths", weight: 1 }]);
    const scored = outcomeOf(false, 400);
    expect(scored instanceof Rejection ? [] : scored.endpoints.map(({ slot }) => slot)).toEqual([1, 0]);
    expect(outcomeOf(true, 4000)).toMatchObject({ reason: "no_target", status: 429 });
    expect(outcomeOf(false, 4000)).not.toBeInstanceOf(Rejection);
  });

  it("S-39: a decision by the number of tokens is made again the same from its full record", () => {
    const counting = defineProducer({
      type: "counting",
      describe: "Finds 5000 tokens in every prompt.",
      produces: [TOKENIZED_PROMPT],
      create: () => ({
        produce({ setAttribute }) {
          setAttribute(TOKENIZED_PROMPT, { tokens: new Uint8Array(8), prompts: [{ start: 0, end: 8 }], count: 5000 });
        },
      }),
    });
    const clock = new VirtualClock();
    const plan = () =>
      planOfOne({
        plugins: [described(counting), described(contextLengthAware)],
        registry: new PluginRegistry([]),
        clock,
        random: new SeededRandom(1),
      });
    const { endpoints } = pool(["0-10000", "0-100"]);
    const scheduler = new Scheduler({ plan: plan(), clock, random: new SeededRandom(1) });
    const outcome = scheduler.schedule(requestOf("short"), endpoints, 0, { full: true });
    if (outcome instanceof Rejection) throw new Error(outcome.text);
    expect(outcome.record.top[0]!.total).toBeCloseTo(0.65, 12);
    expect(outcome.record.full?.attributes).toEqual({ "counting/tokenized-prompt": 5000 });
    expect(replay(outcome.record, plan())).toMatchObject({ differences: [], missing: [] });
  });

  it("reads more labels than it keeps just the same", () => {
    const many = Array.from({ length: 300 }, (_, i) => `${i}-${i}`);
    const scores = scoresOf(contextLengthAware, pool([...many, "7-7"], 7));
    expect(scores.flatMap((score, i) => (score === 1 ? [i] : []))).toEqual([7, 300]);
  });

  it("the filter reads what the scorer declares, and refuses what it refuses", () => {
    expect(filter.type).toBe(contextLengthAware.type);
    expect([...(filter.optional ?? []), ...filter.requires]).toEqual(contextLengthAware.optional);
    for (const parameters of [{ label: "" }, { enableFiltering: "yes" }, { labels: "x" }])
      for (const { parameters: schema } of [contextLengthAware, filter])
        expect(schema.safeParse(parameters).success).toBe(false);
  });
});
