import { describe, expect, it } from "vitest";
import type { Explanation } from "../../picker/decisions/explain.ts";
import { explanationText } from "./explain-text.ts";

const scores = (...pairs: [string, number, number][]) =>
  pairs.map(([scorer, score, weight]) => ({ scorer, score, weight, points: score * weight, text: "" }));

const EXPLAINED: Explanation = {
  ...{
    sequence: 17,
    requestId: "r-1",
    at: "2023-11-14T22:13:20.000Z",
    model: "base",
    targetModel: "lora",
    priority: -1,
  },
  ...{
    promptBytes: 1024,
    configHash: "c0ffee42",
    profile: "decode",
    picker: "max-score-picker",
    refusal: null,
    queued: null,
    cache: null,
  },
  sentence:
    "Request r-1 went to default/server-1 (10.0.0.1:8000): 4.001 points against 4.000 of the next, default/server-2; all of the lead came from queue-scorer.",
  ...{ reason: "", candidateCount: 9, tied: 1, full: true },
  filters: [{ name: "f", dropped: 7, ids: [], text: "f dropped 7 candidates" }],
  others: [{ profile: "prefill", id: "default/p" }],
  notes: ["Before the filters, Sluice left out 2 more endpoints that are down."],
  candidates: [
    {
      ...{ place: 1, id: "default/server-1", hostPort: "10.0.0.1:8000", state: "up", total: 4.001 },
      scores: scores(["queue-scorer", 0.5, 2], ["prefix-cache-scorer", 1, 3.5]),
      ...{ waiting: 0, running: 12, kvUsage: 0.331, inFlight: 3, ageMs: 42.4, stale: false, age: "" },
    },
    {
      ...{ place: 2, id: "default/server-2", hostPort: "10.0.0.2:8000", state: "blind", total: 4 },
      scores: scores(["queue-scorer", 0.25, 2], ["prefix-cache-scorer", 1, 3.5]),
      ...{ waiting: null, running: 7, kvUsage: null, inFlight: 0, ageMs: 6249, stale: true, age: "" },
    },
  ],
};

describe("an explanation as text", () => {
  it("has the sentence, the parts of each total, what was known, and who was left out, within 80 columns", () => {
    const text = explanationText(EXPLAINED);
    expect(text).toBe(`Request r-1 went to default/server-1 (10.0.0.1:8000): 4.001 points against
4.000 of the next, default/server-2; all of the lead came from queue-scorer.

decision 17   2023-11-14T22:13:20.000Z   priority -1
model base, served by lora   profile decode   picker max-score-picker
configuration c0ffee42   full record: add --full

   candidate         total  A x 2  B x 3.5
1  default/server-1  4.001   0.50     1.00
2  default/server-2  4.000   0.25     1.00
A queue-scorer   B prefix-cache-scorer

   address        state  waiting  running    KV  in flight  metrics age
1  10.0.0.1:8000     up        0       12  33 %          3        42 ms
2  10.0.0.2:8000  blind        ?        7     ?          0      * 6.2 s
* stale: Sluice uses the worst known waiting, running and KV of the candidates

filtered out, of 9 candidates:
  f dropped 7 candidates

profile prefill  default/p

Before the filters, Sluice left out 2 more endpoints that are down.
`);
    expect(Math.max(...text.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it("shows the requests of other replicas and how old that is, where replicas share their load", () => {
    const [a, b] = EXPLAINED.candidates;
    const candidates = [
      { ...a!, peers: { inFlight: 2, ageMs: 31, unseen: 3 } },
      { ...b!, peers: { inFlight: 0, ageMs: 0, unseen: 0.04 } },
    ];
    expect(explanationText({ ...EXPLAINED, candidates })).toContain(`
   address        state  waiting  running    KV  in flight  of peers  said before  metrics age
1  10.0.0.1:8000     up        0       12  33 %          3    2 +3.0        31 ms        42 ms
2  10.0.0.2:8000  blind        ?        7     ?          0         0            -      * 6.2 s
`);
  });

  it("marks the sentence and the pick where that can be shown", () => {
    const text = explanationText(EXPLAINED, (strong) => `<${strong}>`);
    expect(text.match(/<[^>]*>/g)).toEqual([
      "<Request r-1 went to default/server-1 (10.0.0.1:8000): 4.001 points against>",
      "<4.000 of the next, default/server-2; all of the lead came from queue-scorer.>",
      "<1  default/server-1  4.001   0.50     1.00>",
      "<1  10.0.0.1:8000     up        0       12  33 %          3        42 ms>",
    ]);
  });

  it("shows the answer to the client of a refused request, and no tables", () => {
    const refusal = { reason: "saturated", status: 429, detail: "system saturated" } as const;
    const text = explanationText({
      ...EXPLAINED,
      ...{ sentence: "Request r-1 was refused with 429: why.", refusal, candidates: [], filters: [], others: [] },
      ...{ notes: [], profile: "", picker: "", configHash: "", full: false, targetModel: "base" },
    });
    expect(text).toBe(`Request r-1 was refused with 429: why.

decision 17   2023-11-14T22:13:20.000Z   priority -1   model base

The client received: system saturated (saturated)
`);
  });

  it("does not let a client's model name or id command the terminal", () => {
    const text = explanationText({
      ...EXPLAINED,
      model: "\u001b[2Jx\u009b1m",
      sentence: "Request \u0007\r\nfaked: x.",
    });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    expect(text).toContain("model ?[2Jx?1m, served by lora");
    expect(text.split("\n")[0]).toBe("Request ???faked: x.");
  });

  it("shows a picker without scorers, never-read metrics, and ties in as many words", () => {
    const [first] = EXPLAINED.candidates;
    const lonely = { ...first!, scores: [], total: 0, ageMs: null, stale: true };
    const text = explanationText({ ...EXPLAINED, candidates: [lonely, { ...lonely, place: 2 }], tied: 2 });
    expect(text).toContain("   tied 2\n");
    expect(text).toContain("1  default/server-1   0.00\n");
    expect(text).toContain("* never read");
  });
});
