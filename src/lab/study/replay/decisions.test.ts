import { describe, expect, it } from "vitest";
import {
  configOf,
  hashOf,
  IMPATIENT,
  type RecordedRun,
  recordedRun,
  recordLines,
  savedText,
} from "../../../../test/support/study/replay/recorded.cases.ts";
import { DEFAULT_CONFIG } from "../../../picker/config/defaults.ts";
import { recordJson } from "../../../picker/decisions/explain-record.ts";
import { DecisionComparison } from "./decision-comparison.ts";
import { type ReplayOptions, replayRecorded } from "./replay-recorded.ts";
import type { DecisionStudy, ReplayStudy } from "./replay-result.ts";
import { replayStudyText } from "./replay-text.ts";

const BLEND = configOf("queue-scorer: 2", "kv-cache-utilization-scorer: 2", "prefix-cache-scorer: 3");
const QUEUE = configOf("queue-scorer: 1");

/** Recorded lines, of at most 64: as many as are kept in full at a time. */
function lines(run: RecordedRun = {}): string {
  return recordLines(recordedRun(run));
}

async function replayed(text: string, configText: string, options: ReplayOptions = {}): Promise<ReplayStudy> {
  return replayRecorded([savedText(text)], { configText, allowExperimental: true }, options);
}

async function decided(text: string, configText: string, options: ReplayOptions = {}): Promise<DecisionStudy> {
  return (await replayed(text, configText, options)).decisions!;
}

const unwrapped = (study: ReplayStudy): string => replayStudyText(study).replace(/\s+/g, " ");

describe("recorded decisions through another configuration", () => {
  it("come out the same with the configuration that made them, and that is said", async () => {
    const study = await replayed(lines({ config: BLEND }), BLEND);
    const { decisions } = study;
    expect(decisions).toMatchObject({
      ...{ records: 50, replayed: 50, elsewhere: 0, becameRouted: 0, becameRefused: 0, doubtful: 0, otherProfiles: 0 },
      ...{ notReplayable: [], moves: [], otherMoves: 0, missing: [], missingHeaders: [], examples: [] },
      decidedBy: [{ configHash: hashOf(BLEND), decisions: 50, same: 50, configuration: "--config-text" }],
      from: Date.UTC(2026, 0, 1) + 50,
      to: Date.UTC(2026, 0, 1) + 2500,
    });
    expect(decisions!.maxToMean.before).toBe(decisions!.maxToMean.after);
    expect(unwrapped(study)).toContain("0 of 50 (0 %) would go to another endpoint.");
    expect(unwrapped(study)).toContain(
      "(the configuration that is tried): checked: all records replay as they were, bit by bit.",
    );
  });

  it("are counted where they go elsewhere, by endpoint and by move, with sentences", async () => {
    const records = recordedRun({ config: BLEND });
    const study = await replayed(recordLines(records), QUEUE);
    const { decisions } = study;
    const { elsewhere, moves, otherMoves, endpoints, examples, tossUps } = decisions!;
    // The scorer that is left looks at queues alone: the pick has the shortest one.
    const moved = records.filter(({ top, full }) => {
      const queue = Math.min(...full!.endpoints.map(({ metrics }) => metrics.waiting));
      return full!.endpoints.find(({ id }) => id === top[0]!.id)!.metrics.waiting > queue;
    });
    expect(moved.length).toBeGreaterThan(5);
    expect(elsewhere - tossUps).toBe(moved.length);
    expect(moves.reduce((sum, { count }) => sum + count, otherMoves)).toBe(elsewhere);
    expect(moves.map(({ count }) => count)).toEqual(moves.map(({ count }) => count).sort((a, b) => b - a));
    for (const { from, to } of moves) expect(from).not.toBe(to);
    for (const side of ["before", "after"] as const)
      expect(endpoints.reduce((sum, one) => sum + one[side], 0)).toBe(50);
    const before = Math.max(...endpoints.map((one) => one.before));
    expect(decisions!.maxToMean.before).toBeCloseTo((before * endpoints.length) / 50, 10);
    expect(examples).toHaveLength(5);
    expect(new Set(examples.map(({ before: then, after: now }) => then === now))).toEqual(new Set([false]));
    const text = unwrapped(study);
    expect(text).toContain(
      `${elsewhere} of 50 (${Math.round((elsewhere / 50) * 100)} %) would go to another endpoint.`,
    );
    expect(text).toContain(`Decision ${examples[0]!.sequence}, then: Request ${examples[0]!.requestId} went to `);
  });

  it("are not doubtful where the load in flight is read, since every record has that", async () => {
    const { missing, doubtful, elsewhere } = await decided(
      lines({ config: QUEUE }),
      configOf("active-request-scorer: 1"),
    );
    expect({ missing, doubtful }).toEqual({ missing: [], doubtful: 0 });
    expect(elsewhere).toBeGreaterThan(10);
    // What was filled in is what would have been recorded: the other way round everything is in the records.
    const both = configOf("queue-scorer: 0", "active-request-scorer: 1");
    const records = recordedRun({ config: both });
    const before = new Map(records.map((record) => [record.sequence, record.top[0]!.total]));
    const bare = records.map((record) => ({ ...apart(record), full: { ...record.full!, columns: {} } }));
    const study = await decided(recordLines(bare), both);
    expect(before.size).toBe(50);
    expect(study.decidedBy).toMatchObject([{ decisions: 50, same: 50 }]);
  });

  it("are doubtful where the records lack data, which is named", async () => {
    const study = await replayed(lines({ config: QUEUE, decisions: 20 }), BLEND);
    const { doubtful, missing } = study.decisions!;
    expect(doubtful).toBe(20);
    expect(missing).toContainEqual({ what: "approx-prefix-cache-producer/prefix-matched-blocks", count: 20 });
    const text = unwrapped(study);
    expect(text).toContain("DOUBTFUL: 20 of 20 comparisons.");
    expect(text).toContain("20 records have no approx-prefix-cache-producer/prefix-matched-blocks");
  });

  it("are doubtful where a header is read that was not recorded, and not where it was", async () => {
    const tiered = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: header-label-affinity-scorer
  parameters: {headerName: x-tier, labelKey: tier}
schedulingProfiles:
- name: p
  plugins:
  - {pluginRef: header-label-affinity-scorer, weight: 1}
`;
    const pool = [{ labels: { tier: "gold" } }, { labels: { tier: "tin" } }];
    const headers = [["x-tier", "tin"]] as const;
    const options = { allowExperimental: true };
    const of = async (config: string): Promise<DecisionStudy> =>
      (
        await replayRecorded(
          [savedText(lines({ config, headers, pool, decisions: 10 }))],
          { configText: tiered, ...options },
          { recordedWith: { configText: config, ...options } },
        )
      ).decisions!;
    expect(await of(QUEUE)).toMatchObject({ doubtful: 10, missingHeaders: [{ what: "x-tier", count: 10 }] });
    const other = tiered.replace("weight: 1", "weight: 2");
    expect(await of(other)).toMatchObject({ doubtful: 0, missingHeaders: [], elsewhere: 0 });
  });

  it("are told apart from those that are refused, then or now", async () => {
    const waiting = (...counts: number[]) => counts.map((count) => ({ metrics: { waiting: count } }));
    const [busy, free] = [waiting(9, 9), waiting(1, 9)];
    const routed = [
      ...recordedRun({ config: QUEUE, pool: busy, decisions: 3 }),
      ...recordedRun({ config: QUEUE, pool: free, decisions: 4, seed: 2 }).map((record) => ({
        ...apart(record),
        at: record.at + 1,
      })),
    ];
    const study = await replayed(recordLines(routed), IMPATIENT);
    expect(study.decisions).toMatchObject({ replayed: 7, elsewhere: 0, becameRefused: 3, becameRouted: 0 });
    expect(study.decisions!.moves.every(({ to }) => to === null)).toBe(true);
    expect(unwrapped(study)).toContain("3 that were routed would be refused.");
    expect(unwrapped(study)).toMatch(/Now: Request r\d was refused with 429/);
    const refused = await replayed(lines({ config: IMPATIENT, pool: busy, decisions: 3 }), QUEUE);
    expect(refused.decisions).toMatchObject({ replayed: 3, elsewhere: 0, becameRefused: 0, becameRouted: 3 });
    expect(refused.decisions!.maxToMean.before).toBeNaN();
    expect(replayStudyText(refused)).toMatch(/\nmax\/mean +- +\d/);
  });

  it("are left out where there is nothing to make again, each for its reason", async () => {
    const records = recordedRun({ config: BLEND, decisions: 4, fullEvery: 2 });
    const early = { ...apart(records[1]!), sequence: 99, refusal: { reason: "saturated", detail: "full" } };
    const text = recordLines([...records, { ...early, full: { ...early.full!, screened: [], columns: {} } }]);
    const study = await replayed(text, QUEUE);
    expect(study.decisions).toMatchObject({ records: 5, replayed: 2 });
    expect(study.decisions!.notReplayable).toEqual([
      { what: "was not kept in full: save what sluice explain ID --full prints", count: 2 },
      { what: "was refused before Sluice computed anything (saturated)", count: 1 },
    ]);
    expect(unwrapped(study)).toContain("Left out: 1 that was refused before Sluice computed anything (saturated).");
  });

  it("are checked against the configuration that made them where it is built in or given, and say so where not", async () => {
    const builtIn = await decided(lines({ config: DEFAULT_CONFIG, decisions: 10 }), QUEUE);
    expect(builtIn.decidedBy).toMatchObject([{ same: 10, configuration: "built-in configuration" }]);
    const text = lines({ config: BLEND, decisions: 10 });
    const unknown = await replayed(text, QUEUE);
    expect(unknown.decisions!.decidedBy).toMatchObject([{ configuration: undefined, same: 0, difference: undefined }]);
    expect(unwrapped(unknown)).toContain("Name the file of the configuration with --recorded-with.");
    const given = await decided(text, QUEUE, { recordedWith: { configText: BLEND } });
    expect(given.decidedBy).toMatchObject([{ configuration: "--config-text", same: 10 }]);
    expect(given.doubtful).toBe(0);
  });

  it("are doubtful where their own configuration makes something else of them", async () => {
    const tampered = recordedRun({ config: BLEND, decisions: 10 }).map((record, at) =>
      at < 7 ? record : { ...apart(record), full: { ...record.full!, columns: {} } },
    );
    const study = await replayed(recordLines(tampered), QUEUE, { recordedWith: { configText: BLEND } });
    expect(study.decisions).toMatchObject({ doubtful: 3, missing: [], decidedBy: [{ decisions: 10, same: 7 }] });
    expect(study.decisions!.decidedBy[0]!.difference).toMatch(/ was .*, now it is /);
    expect(unwrapped(study)).toContain("3 do NOT replay with the configuration that made them");
  });

  it("count once however often they are given, and are bounded", async () => {
    const text = lines({ config: QUEUE, decisions: 10 });
    const study = await replayRecorded([savedText(text), savedText(text)], { configText: QUEUE });
    expect(study.decisions).toMatchObject({ records: 10, repeated: 10, replayed: 10 });
    expect(study.files.map(({ items }) => items)).toEqual([10, 10]);
    // 100,000 of them take a minute: the bound is tried where it can be set.
    const none = { hash: "x", source: "x", headers: [], screens: false, replay: () => undefined };
    const comparison = new DecisionComparison(none as never, [], 3);
    for (const record of recordedRun({ decisions: 5 })) comparison.add(record);
    expect(comparison.result()).toMatchObject({ records: 3, beyond: 2, replayed: 0 });
  });

  it("may come as one record, as an array or as lines, printed in any way, and with broken ones among them", async () => {
    const records = recordedRun({ config: QUEUE, decisions: 5 }).map(
      (record) => JSON.parse(recordJson(record)) as object,
    );
    for (const text of [
      JSON.stringify(records),
      JSON.stringify(records, null, 2),
      `\ufeff${records.map((record) => JSON.stringify(record)).join("\r\n")}`,
    ])
      expect(await decided(text, QUEUE)).toMatchObject({ replayed: 5 });
    expect(await decided(JSON.stringify(records[0], null, 2), QUEUE)).toMatchObject({ replayed: 1 });
    const [whole, ...rest] = records.map((record) => JSON.stringify(record));
    const broken = [
      whole!.slice(0, 300),
      ...rest,
      '{"sequence":"x","requestId":"r"}',
      "[1]",
      "3",
      "\u0000nonsense",
      '{"a":1}',
    ];
    const study = await replayed(broken.join("\n"), QUEUE);
    expect(study.decisions).toMatchObject({ replayed: 4 });
    expect(study.broken.count).toBe(6);
    expect(study.broken.first.map(({ place }) => place)).toEqual(["line 1", "line 6", "line 7", "line 8", "line 9"]);
    expect(study.broken.first[1]!.problem).toBe(
      'no decision record of this version: sequence expected a number, got the string "x"',
    );
    expect(unwrapped(study)).toContain("6 entries cannot be read, among them: line 1: not JSON: ");
  });

  it("show nothing that a terminal would obey", async () => {
    const [record] = recordedRun({
      config: QUEUE,
      decisions: 1,
      pool: [{ metrics: { waiting: 3 } }, { inFlight: { requests: 9, tokens: 1 } }],
    });
    const evil = { ...apart(record!), requestId: "\u001b[2Jx", full: record!.full };
    const study = await replayed(recordLines([evil]), configOf("active-request-scorer: 1"));
    expect(study.decisions!.examples).toHaveLength(1);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for them
    expect(replayStudyText(study)).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
    expect(replayStudyText(study)).toContain("?[2Jx");
  });

  it("are plain JSON as a study", async () => {
    const study = await replayed(lines({ config: BLEND, decisions: 10 }), QUEUE);
    expect(JSON.parse(JSON.stringify(study))).toEqual({ ...study, traffic: undefined });
  });
});

/** A record as an object of its own: those of the ring have accessors. */
function apart<T extends object>(record: T): T {
  return JSON.parse(recordJson(record as never)) as T;
}
