import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DecisionRecord, FullRecord } from "../../base/inference/decision-record.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { readRecord, recordJson } from "./explain-record.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "sluice-record-"));
let files = 0;
function file(text: string): string {
  const path = join(FOLDER, `${++files}.json`);
  writeFileSync(path, text);
  return path;
}

const FULL: FullRecord = {
  now: 12.5,
  randomState: 0xffff_ffff,
  memories: { turns: 3 },
  request: {
    ...{ objective: "", fairnessId: "default-flow", streaming: true, maxTokens: Number.NaN },
    ...{
      shedAt: Number.POSITIVE_INFINITY,
      promptBytes: 4,
      escapeBytes: 1,
      bytesPerToken: 16 / 3,
      headers: [["prefer", "if-available"]],
    },
  },
  staleness: 200,
  endpoints: [
    {
      ...{
        id: "default/a",
        slot: 0,
        namespace: "default",
        name: "a",
        address: "::1",
        port: 8000,
        hostPort: "[::1]:8000",
      },
      ...{ rank: 0, labels: { zone: "NaN" }, state: "blind", scrapeInterval: 50, inFlight: { requests: 1, tokens: 2 } },
      metrics: { ...UNKNOWN_METRICS, loraRunning: new Set(["x", "y"]) },
      ...{ droppedBy: undefined, total: -0, scores: [0.1 + 0.2, 5e-324] },
    },
  ],
  screened: [0],
  columns: { "p/matched": [Number.NaN] },
  attributes: { "p/known": true, "p/size": Number.NEGATIVE_INFINITY },
};

const RECORD: DecisionRecord = {
  ...{ sequence: 9, requestId: "r", at: 1_700_000_000_000, model: "m", targetModel: "m", priority: -1, promptBytes: 4 },
  ...{ configHash: "c", profile: "default", picker: "max-score-picker", pickerByChance: false, candidates: 1 },
  ...{ excludedDown: 0, filters: [{ name: "f", dropped: 1, ids: ["default/b"] }], failed: ["f"], tied: 1 },
  scorers: [{ name: "s", weight: 0.1 }],
  top: [
    {
      ...{ id: "default/a", hostPort: "[::1]:8000", total: -0, scores: [0], waiting: Number.NaN, running: 1 },
      ...{ kvUsage: 0.5, inFlight: 1, ageMs: Number.POSITIVE_INFINITY, stale: true, state: "blind" },
      peers: { inFlight: 1, ageMs: 20.5, unseen: 0.25 },
    },
  ],
  others: [{ profile: "prefill", id: "default/p" }],
  refusal: undefined,
  served: { id: "default/b", hostPort: "[::2]:8000" },
  queued: {
    ...{ band: -1, fairnessId: "a", behind: 3, waitedMs: 12.5 },
    ...{ saturation: Number.NaN, ceiling: Number.POSITIVE_INFINITY },
  },
  cache: { predicted: 4096, events: Number.NaN, reported: 4080, prompt: 5120 },
  full: FULL,
};

describe("a full record as a file", () => {
  it("comes back as it was, with what JSON has no words for", async () => {
    const json = recordJson(RECORD);
    expect(await readRecord(file(json))).toStrictEqual(RECORD);
    // What tells NaN from null, and -0 from 0.
    expect(Object.is((await readRecord(file(json))).full.endpoints[0]!.total, -0)).toBe(true);
    const refused = { ...RECORD, top: [], tied: 0, refusal: { reason: "no_target", detail: "NaN" } } as const;
    expect(await readRecord(file(recordJson(refused)))).toStrictEqual(refused);
  });

  it("keeps every number bit by bit", async () => {
    const any = fc.oneof(fc.double(), fc.constantFrom(-0, 1e21, 1e-7, 2 ** 53, -5e-324, Number.MAX_VALUE));
    await fc.assert(
      fc.asyncProperty(fc.array(any, { minLength: 1, maxLength: 20 }), async (scores) => {
        const endpoint = { ...FULL.endpoints[0]!, scores };
        const record = { ...RECORD, full: { ...FULL, endpoints: [endpoint] } };
        const back = (await readRecord(file(recordJson(record)))).full.endpoints[0]!.scores;
        expect(new BigUint64Array(Float64Array.from(back).buffer)).toEqual(
          new BigUint64Array(Float64Array.from(scores).buffer),
        );
      }),
      { numRuns: 50 },
    );
  });

  it("refuses what is no full record with what is wrong with it", async () => {
    const refusal = (value: unknown): Promise<unknown> => readRecord(file(JSON.stringify(value)));
    const plain = JSON.parse(recordJson(RECORD));
    await expect(refusal({ ...plain, full: undefined })).rejects.toMatchObject({
      code: "RECORD_NOT_FULL",
      message: expect.stringContaining("sluice explain ID --full"),
    });
    await expect(refusal({ ...plain, sequence: "nine" })).rejects.toThrow(/sequence/);
    for (const at of [1e20, -1e20]) await expect(refusal({ ...plain, at })).rejects.toThrow(/: at: /);
    expect(await readRecord(file(JSON.stringify({ ...plain, at: 8.64e15 })))).toMatchObject({ at: 8.64e15 });
    await expect(refusal({ ...plain, full: { ...plain.full, screened: [0, 7] } })).rejects.toThrow(
      /full\.screened: names an endpoint twice, or one that is not there/,
    );
    await expect(refusal({ ...plain, full: { ...plain.full, columns: { "p/k": [] } } })).rejects.toThrow(
      /p\/k.*has 0 numbers for 1 endpoints/,
    );
    for (const other of ["no record", "endpoints: []"])
      await expect(readRecord(file(other))).rejects.toMatchObject({
        code: "DOCUMENT_INVALID",
        message: expect.stringMatching(/contains no decision record: save the output of sluice explain ID --full$/),
      });
    await expect(readRecord(join(FOLDER, "missing.json"))).rejects.toMatchObject({ code: "DOCUMENT_MISSING" });
  });
});
