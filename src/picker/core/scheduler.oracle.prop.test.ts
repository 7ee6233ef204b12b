import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { SCORER_TYPES, writtenConfig } from "../../../test/support/core/oracle-configs.cases.ts";
import {
  IDLE,
  type load,
  type Of,
  type Present,
  requestOfArrival,
  type Story,
  story,
} from "../../../test/support/core/oracle-stories.cases.ts";
import { endpointOf } from "../../../test/support/scheduling/fakes.cases.ts";
import type { SlowConfig } from "../../../test/support/scheduling/slow-config.cases.ts";
import { SlowScheduler } from "../../../test/support/scheduling/slow-scheduler.cases.ts";
import { fixedLimit } from "../../../test/support/slowness.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { defineProfileHandler, defineScorer, defineScreener } from "../../base/plugin/define.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { BUILT_IN_PROFILES, builtInDocument } from "../config/defaults.ts";
import { loadConfig } from "../config/load.ts";
import { Scheduler } from "../scheduling/scheduler.ts";
import { instancesOf, planOf } from "./plan.ts";
import { PLUGINS } from "./plugins/plugins.ts";

// The fast scheduler, made of configurations as files have them, against the slow one (scheduling 3.3-3.16).

/** What users may bring along. */
const OF_USERS = [
  defineScorer({
    type: "given-scorer",
    describe: "Scores as it is told.",
    parameters: z.strictObject({ values: z.array(z.number().nullable()) }),
    create: ({ values }) => ({
      score({ candidates: { endpoints, count }, out }) {
        for (let i = 0; i < count; i++) out[i] = values[endpoints[i]!.slot % values.length] ?? Number.NaN;
      },
    }),
  }),
  defineScreener({
    type: "label-screener",
    describe: "Leaves out endpoints with a label.",
    parameters: z.strictObject({ label: z.string(), value: z.string() }),
    create: ({ label, value }) => ({
      screen({ endpoints, keep }) {
        endpoints.forEach(({ labels }, i) => {
          if (labels[label] === value) keep[i] = 0;
        });
        return undefined;
      },
    }),
  }),
  defineProfileHandler({
    type: "script-handler",
    describe: "Runs profiles in stages.",
    parameters: z.strictObject({ stages: z.array(z.array(z.string())), primary: z.string() }),
    create: ({ stages, primary }) => ({
      pick: ({ results }) => stages.find((stage) => !results.has(stage[0]!)) ?? [],
      processResults({ results }) {
        const result = results.get(primary);
        return result instanceof Rejection ? result : primary;
      },
    }),
  }),
];
const REGISTRY = new PluginRegistry([...PLUGINS, ...OF_USERS]);

const HEAD = { apiVersion: "llm-d.ai/v1alpha1", kind: "EndpointPickerConfig" };
/** What happened how often, so that this test cannot come to test nothing. */
const tally = new Map<string, number>();

function count(what: string): void {
  tally.set(what, (tally.get(what) ?? 0) + 1);
}

/** Plays a story to both and compares every decision. */
function compare(config: SlowConfig, { natures, steps, seed }: Story): void {
  const clock = new VirtualClock();
  clock.advance(5000);
  const random = new SeededRandom(seed);
  const effective = loadConfig(parseDocument(JSON.stringify({ ...HEAD, ...config }), { file: "c" }), REGISTRY);
  const plan = planOf(effective, instancesOf(effective, { clock, random, log: silentLogger }));
  const failures: unknown[] = [];
  const hooks = { pluginFailed: (_point: unknown, _plugin: unknown, error: unknown) => failures.push(error) };
  const fast = new Scheduler({ plan, clock, random, hooks });
  const slow = new SlowScheduler(config);
  const generations = natures.map(() => 0);
  const endpoint = (slot: number, { metrics, age, ...rest }: Of<typeof load>): Endpoint => {
    const name = `pod-${slot}-${generations[slot]}`;
    const { labels, cache } = natures[slot]!;
    return endpointOf(slot, {
      ...{ id: `default/${name}`, name, labels },
      ...rest,
      metrics: { ...metrics, ...cache, scrapedAt: clock.now() - age },
    });
  };
  for (const { arrival, pool, leaves } of steps) {
    compareOne(
      requestOfArrival(arrival),
      (pool as readonly Present[]).map(({ slot, load }) => endpoint(slot, load)),
    );
    expect(failures).toEqual([]);
    if (leaves !== null) {
      const gone = endpoint(leaves, IDLE);
      fast.endpointRemoved(gone);
      slow.forget(gone);
      generations[leaves]!++;
    }
    clock.advance(100);
  }

  function compareOne(request: InferenceRequest, endpoints: readonly Endpoint[]): void {
    const expected = slow.decide(request, endpoints, clock.now());
    const outcome = fast.schedule(request, endpoints, 0, { full: true });
    const record = fast.records.newest!;
    if (outcome instanceof Rejection) {
      expect(expected.refusals).toContain(outcome.status);
      expect(record.top).toEqual([]);
      count(String(outcome.status));
      return;
    }
    const primary = expected.primary;
    expect(primary).toBe(record.profile);
    const run = expected.runs.get(primary!)!;
    // Kept, scores and totals, of all candidates and not of the best eight alone.
    const { full } = record;
    const kept = full!.endpoints.filter(({ total }) => !Number.isNaN(total));
    expect(kept.map(({ id }) => id)).toEqual(run.kept.map(({ id }) => id));
    expect(record.scorers.map(({ name }) => name)).toEqual(run.scores.map(([name]) => name));
    kept.forEach(({ total, scores }, at) => {
      expectNear(total, run.totals[at]!);
      scores.forEach((score, s) => {
        expectNear(score, run.scores[s]![1][at]!);
      });
    });
    // The pick, and the list behind it.
    const chosen = new Map(primary === undefined ? [] : [[primary, outcome.endpoints[0]!]]);
    for (const [profile, [first]] of outcome.profiles ?? []) chosen.set(profile, first!);
    expect([...chosen.keys()].sort()).toEqual([...expected.runs.keys()].sort());
    for (const [profile, { winners }] of expected.runs) expect(winners).toContain(chosen.get(profile));
    expect(outcome.endpoints).toHaveLength(Math.min(8, run.kept.length));
    expect(new Set(outcome.endpoints).size).toBe(outcome.endpoints.length);
    if (run.picker === "max-score-picker") expectBestFirst(outcome.endpoints, run);
    expectNear(outcome.uncachedTokens, expected.uncachedTokens.get(outcome.endpoints[0]!.id)!);
    count("routed");
    if (run.kept.length < endpoints.length) count("somebody left out");
    if (expected.runs.size > 1) count("several profiles");
    if (run.winners.length === 1 && run.kept.length > 1) count("one possible winner");
    for (const [name, scores] of run.scores)
      if (new Set(scores).size > 1) count(config.plugins.find(({ type, name: own = type }) => own === name)!.type);
    slow.routed(request, endpoints, clock.now(), primary!, expected.runs, chosen);
  }
}

function expectNear(actual: number, expected: number): void {
  if (!(Math.abs(actual - expected) <= 1e-9)) expect(actual).toBe(expected);
}

function expectBestFirst(
  list: readonly Endpoint[],
  { kept, totals }: { kept: readonly Endpoint[]; totals: readonly number[] },
) {
  const sorted = [...totals].sort((a, b) => b - a);
  list.forEach((endpoint, place) => {
    expectNear(totals[kept.indexOf(endpoint)]!, sorted[place]!);
  });
}

describe("the fast scheduler and a slow and obvious one", () => {
  it("agree on random configurations: who is kept, every score and total, the pick, refusals, what is remembered", {
    timeout: fixedLimit(60_000),
  }, () => {
    tally.clear();
    fc.assert(
      fc.property(writtenConfig, story, (config, told) => compare(config, told)),
      { numRuns: 320 },
    );
    const often = (what: string) => tally.get(what) ?? 0;
    const refused = often("429") + often("503") + often("412");
    expect(often("routed") + refused).toBeGreaterThan(2000);
    for (const what of ["429", "503", "412", "somebody left out", "several profiles", "one possible winner"])
      expect([what, often(what) >= 20]).toEqual([what, true]);
    // Each scorer tells candidates apart.
    for (const type of SCORER_TYPES) expect([type, often(type) >= 5]).toEqual([type, true]);
  });

  it.each(BUILT_IN_PROFILES.filter((name) => name !== "legacy-v0.3"))("agree on the built-in profile %s", (name) => {
    const config = builtInDocument(name)!.value as SlowConfig;
    fc.assert(
      fc.property(story, (told) => compare(config, told)),
      { numRuns: 40 },
    );
  });
});
