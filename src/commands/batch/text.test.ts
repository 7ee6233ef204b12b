import { describe, expect, it } from "vitest";
import type { ShownBatch } from "./source.ts";
import { batchText, endText, listText, progressText } from "./text.ts";

const NOW = 1_800_000_000;
const GATE = { state: "closed", reason: "D 0.1 is not above B 0.2" };
const OPEN = { state: "open", reason: "D 0.5 is above B 0.2" };
const RUNNING: ShownBatch = {
  ...{ id: "batch_1", caller: "alice", status: "in_progress", endpoint: "/v1/chat/completions" },
  ...{ createdAt: NOW - 120, expiresAt: NOW + 3600, total: 2000, completed: 1000, failed: 2 },
  ...{ inputTokens: 30_000, cachedTokens: 500, outputTokens: 20_000, reasoningTokens: 0 },
  ...{ inputFile: "file-1", outputFile: undefined, errorFile: undefined, problems: [] },
  pace: { underWay: 64, linesPerSecond: 8.351, etaSeconds: 120, makesIt: true },
  problem: undefined,
};
const DONE: ShownBatch = { ...RUNNING, id: "batch_2", status: "completed", pace: undefined, outputFile: "file-2" };

describe("the texts of sluice batch", () => {
  it("list batches with their gate", () => {
    const late = { ...RUNNING, id: "batch_3", pace: { ...RUNNING.pace!, makesIt: false } };
    expect(listText({ batches: [RUNNING, late, DONE], hasMore: true, gate: GATE }, NOW)).toBe(
      [
        "gate closed: D 0.1 is not above B 0.2",
        "",
        "ID       CALLER       STATUS         DONE  FAILED   RATE         ETA  TOKENS    AGE",
        "batch_1   alice  in_progress  1,002/2,000       2  8.4/s       2m 0s  50,000  2m 0s",
        "batch_3   alice  in_progress  1,002/2,000       2  8.4/s  2m 0s late  50,000  2m 0s",
        "batch_2   alice    completed  1,002/2,000       2      -           -  50,000  2m 0s",
        "",
        "more batches exist than these 3: -n shows up to 100",
        "",
      ].join("\n"),
    );
    expect(listText({ batches: [], hasMore: false, gate: undefined }, NOW)).toBe("there are no batches\n");
    const own = listText({ batches: [{ ...DONE, caller: undefined }], hasMore: false, gate: undefined }, NOW);
    expect(own).not.toContain("CALLER");
  });

  it("show a batch that runs", () => {
    expect(batchText(RUNNING, GATE, NOW)).toBe(
      [
        "batch_1 of alice: in_progress, /v1/chat/completions",
        "  lines     1,002 of 2,000 answered (50.1 %), 2 errors, 64 under way",
        "  pace      8.4/s, ETA 2m 0s",
        "  deadline  2027-01-15T09:00:00Z, in 1h 0m",
        "  gate      closed: D 0.1 is not above B 0.2",
        "  tokens    30,000 tokens in (500 cached), 20,000 out",
        "  files     input file-1",
        "",
      ].join("\n"),
    );
  });

  it("show a batch that failed, with the first of its problems", () => {
    const problems = Array.from({ length: 12 }, (_, at) => ({
      ...{ code: "invalid_method", line: at + 1, message: `bad \u001b[2J${at}`, param: "method" },
    }));
    const failed = { ...DONE, status: "failed", total: 12, completed: 0, failed: 0, problems, reasoningTokens: 5 };
    const text = batchText({ ...failed, errorFile: "file-3" }, OPEN, NOW);
    expect(text).toContain("  line 1    bad  [2J0 (invalid_method)");
    expect(text).toContain("2 further problems; --json shows all");
    expect(text).toContain("20,000 out (5 for reasoning)");
    expect(text).toContain("input file-1, output file-2, errors file-3");
    expect(text).not.toMatch(/gate|pace/);
    expect(text).not.toContain("\u001b");
  });

  it("follow a batch in one line, with what holds it up", () => {
    const counts = "in_progress: 1,002/2,000 (50.1 %), 2 errors, 8.4/s, ETA 2m 0s";
    expect(progressText(RUNNING, OPEN)).toBe(counts);
    expect(progressText(RUNNING, GATE)).toBe(`${counts}, gate closed: D 0.1 is not above B 0.2`);
    expect(progressText({ ...RUNNING, problem: "the disk is full" }, GATE)).toBe(`${counts}, the disk is full`);
    const slow = { ...RUNNING, pace: { ...RUNNING.pace!, etaSeconds: null, makesIt: null } };
    expect(progressText(slow, OPEN)).toContain("ETA unknown");
    const late = { ...RUNNING, pace: { ...RUNNING.pace!, makesIt: false } };
    expect(progressText(late, OPEN)).toContain("ETA 2m 0s, after the deadline");
    expect(progressText({ ...RUNNING, status: "validating", total: 0 }, OPEN)).toBe("validating");
    expect(endText(DONE)).toBe(
      "batch_2 completed: 1,002 of 2,000 answered (50.1 %), 2 errors; 30,000 tokens in (500 cached), 20,000 out",
    );
  });
});
