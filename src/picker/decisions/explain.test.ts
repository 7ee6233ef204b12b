import { describe, expect, it } from "vitest";
import type { DecisionRecord, RecordedCandidate, RecordedFilter } from "../../base/inference/decision-record.ts";
import { rejectionOf } from "../flowcontrol/queue-outcomes.ts";
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
    stale: false,
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
    configHash: "c0ffee",
    profile: "default",
    picker: "max-score-picker",
    pickerByChance: false,
    candidates: top.length,
    excludedDown: 0,
    filters: [],
    failed: [],
    scorers: [
      { name: "queue-scorer", weight: 2 },
      { name: "prefix-cache-scorer", weight: 3 },
    ],
    top,
    tied: 1,
    others: [],
    refusal: undefined,
    served: undefined,
    queued: undefined,
    cache: undefined,
    full: undefined,
    ...more,
  };
}

const W = [2, 3];
const reason = (top: RecordedCandidate[], more?: Partial<DecisionRecord>): string =>
  explain(recordOf(top, more)).reason;
const dropped = (name: string, ...ids: string[]): RecordedFilter => ({
  name,
  dropped: ids.length,
  ids: ids.map((id) => `default/${id}`),
});
const refused = (refusal: DecisionRecord["refusal"], more: Partial<DecisionRecord> = {}): string =>
  explain(recordOf([], { tied: 0, refusal, ...more })).sentence;

describe("explanation of a decision", () => {
  it("names the pick, its lead, the scorer that made most of it, and what was left out", () => {
    const { sentence, notes, candidates, at, configHash } = explain(
      recordOf([candidate("a", [0.5, 1], W), candidate("b", [0.25, 0.5], W)], {
        excludedDown: 2,
        candidates: 9,
        filters: [dropped("label-filter", "c", "d", "e", "f", "g", "h", "i")],
      }),
    );
    expect(sentence).toBe(
      "Request r-1 went to default/a (10.0.0.1:8097): 4.00 points against 2.00 of the next, default/b; most of the lead, 1.50 of 2.00, came from prefix-cache-scorer.",
    );
    expect(notes).toEqual(["Before the filters, Sluice left out 2 more endpoints that are down."]);
    expect([at, configHash]).toEqual(["2023-11-14T22:13:20.000Z", "c0ffee"]);
    expect(candidates[0]!.scores.map(({ text }) => text)).toEqual(["0.50 x 2 = 1.00", "1.00 x 3 = 3.00"]);
    expect(candidates.map(({ place, total, age }) => [place, total, age])).toEqual([
      [1, 4, "metrics 42 ms old"],
      [2, 2, "metrics 42 ms old"],
    ]);
  });

  it("says what came from other replicas: requests, how long ago, and blocks of the pick", () => {
    const peers = { inFlight: 2, ageMs: 31, unseen: 1.5 };
    const one = explain(
      recordOf([candidate("a", [1, 1], W, { peers }), candidate("b", [0, 0], W)], { peerBlocks: 12 }),
    );
    expect(one.candidates.map((shown) => shown.peers)).toEqual([peers, undefined]);
    expect(one.notes).toEqual([
      "In the prefix cache of the pick, 12 blocks of the prompt are known only from other replicas of this picker.",
    ]);
  });

  it("names the plugins that failed in the sentence, and where their errors are in the notes", () => {
    const pair = [candidate("a", [1, 1], W), candidate("b", [0, 0], W)];
    const one = explain(recordOf(pair, { failed: ["kv-scorer"] }));
    expect(one.sentence).toMatch(/^Request r-1 went to .* \(kv-scorer failed and did not count\)\.$/);
    expect(one.notes).toContain("kv-scorer failed in this decision and did not count. The log has the error.");
    expect(explain(recordOf(pair, { failed: ["x", "y"] })).reason).toMatch(/ \(x and y failed and did not count\)\.$/);
    expect(explain(recordOf(pair)).sentence).not.toContain("failed");
  });

  it("says how much of the prompt the endpoint had in its cache, by each source that knows it", () => {
    const unknown = Number.NaN;
    const explained = (predicted: number, events: number, reported: number, prompt: number) =>
      explain(recordOf([candidate("a", [1, 1], W)], { cache: { predicted, events, reported, prompt } }));
    const note = "Prompt tokens in the cache of the endpoint:";
    expect(explained(4096, 4080, 0, 5120).notes).toEqual([
      `${note} 4,096 predicted from earlier requests, 4,080 from KV-cache events and 0 of 5,120 reported in the answer.`,
    ]);
    expect(explained(4096, unknown, unknown, unknown)).toMatchObject({
      notes: [`${note} 4,096 predicted from earlier requests.`],
      cache: { predicted: 4096, events: null, reported: null, prompt: null },
    });
    expect(explained(512, 496, 496, 504).notes).toEqual([
      `${note} 504 predicted from earlier requests, 496 from KV-cache events and 496 of 504 reported in the answer.`,
    ]);
    expect(explained(unknown, unknown, 16, 5120).notes).toEqual([`${note} 16 of 5,120 reported in the answer.`]);
    expect(explained(0, unknown, unknown, unknown).notes).toEqual([]);
    expect(explain(recordOf([candidate("a", [1, 1], W)])).cache).toBeNull();
  });

  it("tells the tokens that an event has announced from those that a decision placed there and no event confirms yet", () => {
    const explained = (events: number, unconfirmed: number, reported = Number.NaN, prompt = Number.NaN) =>
      explain(
        recordOf([candidate("a", [1, 1], W)], {
          cache: { predicted: Number.NaN, events, unconfirmed, reported, prompt },
        }),
      );
    const note = "Prompt tokens in the cache of the endpoint:";
    const { notes, cache } = explained(4080, 80);
    expect(notes).toEqual([`${note} 4,000 from KV-cache events and 80 more that no event confirms yet.`]);
    expect(cache).toMatchObject({ events: 4080, unconfirmed: 80 });
    expect(explained(512, 512).notes).toEqual([
      `${note} 0 from KV-cache events and 512 more that no event confirms yet.`,
    ]);
    expect(explained(512, 16, 496, 504).notes).toEqual([
      `${note} 496 from KV-cache events, 8 more that no event confirms yet and 496 of 504 reported in the answer.`,
    ]);
  });

  it("names the endpoint that answered if it is not the first, and says where the errors are if none answered", () => {
    const sentence = (served: DecisionRecord["served"], more: Partial<DecisionRecord> = {}): string =>
      explain(recordOf([candidate("a", [1, 1], W), candidate("b", [0, 0], W)], { served, ...more })).sentence;
    expect(sentence({ id: "default/b", hostPort: "10.0.0.1:8098" })).toMatch(
      /^Request r-1 went to default\/a \(10\.0\.0\.1:8097\), then to default\/b \(10\.0\.0\.1:8098\), which answered: 5\.00 points/,
    );
    expect(sentence("nobody", { others: [{ profile: "prefill", id: "default/p" }] })).toMatch(
      /^Request r-1 went to default\/a \(10\.0\.0\.1:8097\) for default and to default\/p for prefill, and no endpoint answered: /,
    );
    expect(explain(recordOf([candidate("a", [1, 1], W)], { served: "nobody" })).notes).toContain(
      "No endpoint answered. /debug/endpoints has the cause for each endpoint.",
    );
  });

  it("says what one scorer alone did, what worked against it, and how little it was", () => {
    const a = (...scores: number[]) => candidate("a", scores, W);
    const b = (...scores: number[]) => candidate("b", scores, W);
    expect(reason([a(1, 1), b(0.5, 1)])).toContain("; all of the lead came from queue-scorer.");
    expect(reason([a(0.5, 1), b(1, 0.25)])).toContain(
      "; prefix-cache-scorer put it 2.25 ahead, queue-scorer took 1.00 back.",
    );
    expect(reason([a(1, 1), b(1, 0.9999)])).toBe(
      "5.0000 points against 4.9997 of the next, default/b; all of the lead came from prefix-cache-scorer.",
    );
    const three = [1, 1, 1];
    const scorers = ["x", "y", "z"].map((name) => ({ name, weight: 1 }));
    expect(reason([candidate("a", [0.5, 0.4, 0.35], three), candidate("b", [0, 0, 0], three)], { scorers })).toContain(
      "the largest part of the lead, 0.50 of 1.25, came from x.",
    );
    expect(reason([candidate("a", [0.9, 0, 0], three), candidate("b", [0, 0.2, 0.1], three)], { scorers })).toContain(
      "x put it 0.90 ahead, 2 other scorers took 0.30 back.",
    );
    expect(reason([candidate("a", [0.9, 0.3, 0], three), candidate("b", [0, 0, 0.2], three)], { scorers })).toBe(
      "1.20 points against 0.20 of the next, default/b; x put it 0.90 ahead, y added 0.30, z took 0.20 back.",
    );
  });

  it("says when chance decided, and when scores did not count", () => {
    const a = candidate("a", [1, 0], W);
    const b = candidate("b", [1, 0], W);
    const best = candidate("c", [1, 1], W);
    expect(reason([a, b], { tied: 2 })).toBe(
      "2 of 2 candidates shared the best total, 2.00, so the choice was random.",
    );
    // Of those that were scored: who was filtered out shared nothing.
    expect(reason([a, b], { tied: 2, candidates: 5, filters: [dropped("f", "x", "y", "z")] })).toContain("2 of 2 ");
    // Two screeners may both name the same one.
    expect(reason([a, b], { tied: 2, candidates: 3, filters: [dropped("f", "x"), dropped("g", "x")] })).toContain(
      "2 of 2 ",
    );
    expect(reason([a, b, best], { picker: "mine" })).toBe(
      "mine preferred it with 2.00 points to default/c with 5.00 points.",
    );
    expect(reason([a, b])).toContain("preferred it to default/b, which has the same 2.00 points");
    const unscored = [candidate("a", [], []), candidate("b", [], [])];
    expect(reason(unscored, { scorers: [], picker: "round-robin-picker" })).toBe(
      "round-robin-picker chose among 2 candidates without scores.",
    );
    expect(reason(unscored, { scorers: [], tied: 2 })).toBe(
      "none of 2 candidates had a score, so the choice was random.",
    );
  });

  it("says how long a request waited in flow control, where, behind how many, and why it was let go", () => {
    const a = candidate("a", [1, 0], W);
    const queued = { band: -1, fairnessId: "team-a", behind: 14, waitedMs: 1204, saturation: 0.96, ceiling: 1 };
    const routed = explain(recordOf([a], { queued }));
    expect(routed.notes).toContain(
      "The request waited 1.2 s in flow team-a of band -1, behind 14 requests, until the saturation of 0.96 was below the ceiling of 1.00.",
    );
    expect(routed.queued).toEqual(queued);
    const refusal = { reason: "ttl_expired", detail: "request timed out in queue" } as const;
    const never = { ...queued, behind: 1, saturation: Number.NaN, ceiling: Number.NaN };
    const refused = explain(recordOf([], { queued: never, refusal }));
    expect(refused.notes).toContain("The request waited 1.2 s in flow team-a of band -1, behind 1 request.");
    expect(refused.reason).toBe("the pool had no room within the time that the request may wait.");
    expect(refused.queued).toMatchObject({ saturation: null, ceiling: null });
    expect(explain(recordOf([a])).queued).toBeNull();
  });

  it("gives a picker that draws its chances, and no lead", () => {
    const [a, b, c] = [candidate("a", [1, 0], W), candidate("b", [1, 1], W), candidate("c", [0, 0], W)];
    const drawn = { pickerByChance: true, picker: "weighted-random-picker", tied: 2 };
    expect(reason([a, b, c], drawn)).toBe(
      "weighted-random-picker picked it at random from 3 candidates: its 2.00 points gave it a chance of 29 %.",
    );
    const faint = candidate("d", [0.001, 0], W);
    expect(reason([faint, b], drawn)).toContain("gave it a chance of less than 1 %.");
    expect(reason([b, faint], drawn)).toContain("gave it a chance of more than 99 %.");
    // The totals of 26 more are not known, unless everything was recorded.
    const eight = [a, b, ...Array.from({ length: 6 }, () => c)];
    expect(reason(eight, { ...drawn, candidates: 34 })).toBe(
      "weighted-random-picker picked it at random from 34 candidates, in proportion to their totals; its total was 2.00, the highest listed total 5.00.",
    );
    const full = { endpoints: [{ total: 2 }, { total: 5 }, { total: Number.NaN }, { total: 1 }] };
    expect(
      reason(eight, { ...drawn, candidates: 34, full: full as unknown as NonNullable<DecisionRecord["full"]> }),
    ).toContain("its 2.00 points gave it a chance of 25 %");
    expect(reason([a, b], { ...drawn, picker: "random-picker" })).toBe(
      "random-picker picked it at random from 2 candidates; their points did not count.",
    );
    expect(reason([a, b], { ...drawn, picker: "mine" })).toBe(
      "mine picked it at random from 2 candidates; it had 2.00 points, the best listed candidate 5.00.",
    );
    expect(reason([c, c], drawn)).toContain("from 2 candidates; none of them had points.");
  });

  it("says why there was no choice, and who filtered whom", () => {
    const a = candidate("a", [1, 0], W);
    expect(reason([a])).toBe("it is the only candidate.");
    expect(reason([a], { excludedDown: 3 })).toBe("it is the only endpoint that is not down.");
    const filters = [dropped("label-filter", "b", "c"), { name: "util-filter", dropped: 9, ids: ["default/d"] }];
    const explained = explain(recordOf([a], { candidates: 12, filters }));
    expect(explained.reason).toBe("it was the only one left of 12 candidates; label-filter dropped 2, util-filter 9.");
    expect(explained.filters.map(({ text }) => text)).toEqual([
      "label-filter dropped 2 candidates: default/b, default/c",
      "util-filter dropped 9 candidates: default/d and 8 more",
    ]);
  });

  it("names what each profile chose", () => {
    const others = [
      { profile: "prefill", id: "default/p" },
      { profile: "encode", id: "default/e" },
    ];
    const { sentence } = explain(recordOf([candidate("a", [1, 0], W)], { profile: "decode", others }));
    expect(sentence).toContain(
      "went to default/a (10.0.0.1:8097) for decode and to default/p for prefill and to default/e for encode: ",
    );
  });

  it("tells the age of metrics in proportion, and whose values stand for others", () => {
    const ages = [7.4, 999.4, 6_249, 119_000, 200_000].map((ageMs) => candidate("a", [1, 0], W, { ageMs }));
    expect(explain(recordOf(ages)).candidates.map(({ age }) => age)).toEqual([
      ...["metrics 7 ms old", "metrics 999 ms old", "metrics 6.2 s old", "metrics 119.0 s old", "metrics 3 min old"],
    ]);
    const stale = candidate("a", [1, 0], W, { ageMs: 6_249, stale: true });
    const explained = explain(recordOf([stale, candidate("b", [0, 0], W)]));
    expect(explained.candidates[0]!.age).toBe("metrics 6.2 s old: counted as the worst known");
    expect(explained.notes).toEqual([
      "The metrics of 1 listed candidate are stale: the worst known values count instead.",
    ]);
  });

  it("shows what nobody knew as null, in JSON too", () => {
    const unknown = { waiting: Number.NaN, kvUsage: Number.NaN, ageMs: Number.POSITIVE_INFINITY };
    const { candidates, notes } = explain(recordOf([candidate("a", [1, 0], W, unknown)]));
    expect(candidates[0]).toMatchObject({
      waiting: null,
      kvUsage: null,
      ageMs: null,
      age: "never scraped: counted as the worst known",
      running: 2,
    });
    expect(notes).toEqual([
      "1 listed candidate was never scraped. The worst known value replaces an unknown value; metrics that no candidate had " +
        "(number of waiting requests and KV-cache use) made no difference.",
    ]);
    const blind = candidate("a", [1, 0], W, { ...unknown, ageMs: 10 });
    expect(explain(recordOf([blind])).notes).toEqual([
      "No candidate had a known value (number of waiting requests and KV-cache use), so these metrics made no difference.",
    ]);
    const beside = [candidate("a", [1, 0], W, unknown), candidate("b", [0, 0], W)];
    expect(explain(recordOf(beside)).notes).toEqual([
      "1 listed candidate was never scraped. The worst known value replaces an unknown value.",
    ]);
    const nothing = explain(recordOf([candidate("a", [1, 0], W, { ...unknown, running: Number.NaN })]));
    expect(nothing.candidates[0]!.age).toBe("never scraped");
    expect(JSON.stringify(nothing)).not.toMatch(/NaN|Infinity/);
  });

  it("says how many came behind the eight, and that down ones were candidates when all are", () => {
    const eight = Array.from({ length: 8 }, (_, i) => candidate(String(i), [1 - i / 10, 0], W, { state: "down" }));
    expect(explain(recordOf(eight, { candidates: 20 })).notes).toEqual([
      "12 more candidates are not listed here.",
      "No endpoint that is up could serve this request, so endpoints that are down were also candidates.",
    ]);
  });
});

describe("explanation of a refusal", () => {
  it("names the reason with its status, and shows no candidates", () => {
    const shed = { reason: "saturated", detail: "system saturated, sheddable request dropped" } as const;
    expect(refused(shed, { candidates: 4, priority: -1 })).toBe(
      "Request r-1 was refused with 429: the pool is saturated; without flow control, this request of priority -1 cannot wait.",
    );
    const explained = explain(recordOf([], { refusal: shed, tied: 0, candidates: 20 }));
    expect(explained).toMatchObject({ refusal: { ...shed, status: 429 }, candidates: [], notes: [], full: false });
    expect(refused({ reason: "no_endpoints", detail: "none" }, { candidates: 0 })).toContain(
      "refused with 503: no endpoint is known, or the proxy's subset hint allows no known endpoint",
    );
    expect(refused({ reason: "denied", detail: "no budget left" })).toMatch(/with 429: no budget left\.$/);
    expect(refused({ reason: "precondition_failed", detail: "no prefix is cached." })).toMatch(
      /412: no prefix is cached\.$/,
    );
  });

  it("tells a full queue from a saturated pool", () => {
    const { reason, detail } = rejectionOf("RejectedCapacity");
    expect(refused({ reason, detail }, { candidates: 4, priority: 7 })).toBe(
      "Request r-1 was refused with 429: the queue of its priority was full, or all queues together were full.",
    );
  });

  it("says which filter left none, of how many", () => {
    const none = { reason: "no_target", detail: "failed to find target endpoint" } as const;
    const filters = [dropped("label-filter", "a", "b"), dropped("util-filter", "c", "d", "e")];
    expect(refused(none, { candidates: 5, filters })).toContain(
      "429: none of 5 candidates was left; label-filter dropped 2, util-filter the 3 left.",
    );
    expect(refused(none, { candidates: 2, filters: filters.slice(0, 1) })).toContain("label-filter dropped all.");
    const screened = { reason: "no_endpoints", detail: "screened" } as const;
    expect(refused(screened, { candidates: 2, filters: filters.slice(0, 1) })).toContain("503: none of 2 candidates");
    // Candidates were left: something else refused.
    expect(refused(none, { candidates: 9, filters })).toContain("429: failed to find target endpoint.");
  });
});
