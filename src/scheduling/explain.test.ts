import { describe, expect, it } from "vitest";
import type { DecisionRecord, RecordedCandidate } from "../inference/scheduling-result.ts";
import { explain } from "./explain.ts";

function candidate(name: string, scores: number[], weights: number[], more: Partial<RecordedCandidate> = {}) {
  return {
    id: `default/${name}`,
    hostPort: `10.0.0.1:${8000 + name.charCodeAt(0)}`,
    total: scores.reduce((sum, score, i) => sum + score * weights[i]!, 0),
    scores,
    waiting: 1,
    running: 2,
    kvUsage: 0.5,
    inFlight: 3,
    ageMs: 42.4,
    state: "up",
    ...more,
  };
}

function recordOf(top: RecordedCandidate[], more: Partial<DecisionRecord> = {}): DecisionRecord {
  return {
    sequence: 17,
    requestId: "r-1",
    at: 1_700_000_000_000,
    model: "m",
    targetModel: "m",
    priority: 0,
    promptBytes: 1024,
    profile: "default",
    picker: "max-score-picker",
    candidates: top.length,
    excludedDown: 0,
    scorers: [
      { name: "queue-scorer", weight: 2 },
      { name: "prefix-cache-scorer", weight: 3 },
    ],
    top,
    tied: 1,
    ...more,
  };
}

const W = [2, 3];

describe("explanation of a decision", () => {
  it("names the pick, its lead and the scorer that made most of it", () => {
    const { sentence, notes, candidates, at } = explain(
      recordOf([candidate("a", [0.5, 1], W), candidate("b", [1, 0.25], W)], { excludedDown: 2, candidates: 9 }),
    );
    expect(sentence).toBe(
      "Request r-1 went to default/a (10.0.0.1:8097): 4.00 points against 2.75 of the next, default/b; most of the lead, 2.25, came from prefix-cache-scorer.",
    );
    expect(notes).toEqual([
      "2 more left out beforehand because down.",
      "7 of 9 candidates not shown: filtered out, or behind these.",
    ]);
    expect(at).toBe("2023-11-14T22:13:20.000Z");
    expect(candidates[0]!.scores.map(({ text }) => text)).toEqual(["0.50 x 2 = 1.00", "1.00 x 3 = 3.00"]);
    expect(candidates.map(({ place, total, age }) => [place, total, age])).toEqual([
      [1, 4, "metrics 42 ms old"],
      [2, 2.75, "metrics 42 ms old"],
    ]);
  });

  it("says when chance decided, when there was no choice, and when scores did not count", () => {
    const a = candidate("a", [1, 0], W);
    const b = candidate("b", [1, 0], W);
    const best = candidate("c", [1, 1], W);
    const sentence = (top: RecordedCandidate[], more?: Partial<DecisionRecord>) =>
      explain(recordOf(top, more)).sentence;
    expect(sentence([a, b], { tied: 2 })).toContain("2 of 2 candidates shared the best total 2.00, and chance decided");
    expect(sentence([a])).toContain("no other candidate was left");
    expect(sentence([a, best])).toContain("max-score-picker preferred its 2.00 points to the 5.00 of default/c");
    expect(sentence([a, b])).toContain("preferred it to default/b, which has the same 2.00 points");
    expect(
      sentence([candidate("a", [], []), candidate("b", [], [])], { scorers: [], picker: "round-robin-picker" }),
    ).toContain("round-robin-picker chose among 2 candidates without scores");
  });

  it("shows what nobody knew as null, in JSON too", () => {
    const unknown = { waiting: Number.NaN, kvUsage: Number.NaN, ageMs: Number.POSITIVE_INFINITY };
    const { candidates, notes } = explain(recordOf([candidate("a", [1, 0], W, unknown)]));
    expect(candidates[0]).toMatchObject({
      waiting: null,
      kvUsage: null,
      ageMs: null,
      age: "never scraped",
      running: 2,
    });
    expect(notes[0]).toContain("1 shown never scraped");
  });
});
