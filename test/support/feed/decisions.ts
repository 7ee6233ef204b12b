/** Made-up decisions, in the shapes of src/wires/admin/feed/. The same number always gives the same decision, but for its time. */
import type { DecisionDetail, DecisionRow } from "../../../src/wires/admin/feed/decisions.ts";

export function decisionRowOf(sequence: number): DecisionRow {
  const isRefused = sequence % 17 === 0;
  const isRunning = sequence % 11 === 0;
  return {
    ...{
      sequence,
      requestId: `req-${sequence}-7f3a9c1e`,
      at: Date.now() - (100 - Math.min(100, sequence)) * 300,
      model: "llama-3.1-8b",
    },
    ...{ targetModel: "llama-3.1-8b", priority: 0, key: sequence % 3 === 0 ? "team-a" : null },
    ...{
      endpoint: isRefused ? null : `default/server-${(sequence % 2) + 1}`,
      served: null,
      refused: isRefused ? "saturated" : null,
    },
    why: isRefused
      ? "The pool is full and the priority is sheddable."
      : "It has the longest cached prefix (1,024 of 1,310 tokens), and its queue is short.",
    ...{
      total: isRefused ? null : 6.42,
      runnerUp: isRefused ? null : { id: "default/server-4", total: 5.9 },
      candidates: 3,
    },
    ...{ waitedMs: sequence % 5 === 0 ? 84 : 0, full: true },
    journey: {
      outcome: isRefused ? "refused" : isRunning ? "running" : "answered",
      status: isRefused ? 429 : isRunning ? null : 200,
      ...{ ttftMs: isRefused ? null : 118, durationMs: isRefused || isRunning ? null : 1900 },
      ...{ promptTokens: 1310, cachedTokens: 1024, outputTokens: 180, attempts: 1 },
    },
  };
}

/** The scorers of the made-up profile. */
export const SCORERS = [
  { name: "queue-scorer", weight: 2 },
  { name: "kv-cache-utilization-scorer", weight: 2 },
  { name: "prefix-cache-scorer", weight: 3 },
  { name: "active-request-scorer", weight: 2 },
];
const SCORES = [
  [0.9, 0.42, 0.78, 0.7],
  [1, 0.61, 0.1, 0.8],
  [0.4, 0.3, 0.05, 0.5],
];

export function decisionDetailOf(sequence: number): DecisionDetail {
  const row = decisionRowOf(sequence);
  const candidates = SCORES.map((scores, at) => ({
    ...{ place: at + 1, id: `default/server-${[1, 2, 4][at]}`, hostPort: `10.0.0.${at}:8000`, state: "up" },
    total: scores.reduce((sum, score, of) => sum + score * SCORERS[of]!.weight, 0),
    scores: scores.map((score, of) => ({
      scorer: SCORERS[of]!.name,
      weight: SCORERS[of]!.weight,
      score,
      points: score * SCORERS[of]!.weight,
      text: "",
    })),
    ...{
      waiting: at,
      running: 12 + at,
      kvUsage: 0.58 - at / 10,
      inFlight: 11 + at,
      ageMs: 22,
      stale: false,
      age: "metrics 22 ms old",
    },
  }));
  return {
    row: { ...row, full: false },
    explanation: {
      ...{
        sequence,
        requestId: row.requestId,
        at: new Date(row.at).toISOString(),
        model: row.model,
        targetModel: row.model,
      },
      ...{ priority: 0, promptBytes: 5240, configHash: "3f9ac2b1d004", profile: "default", picker: "max-score-picker" },
      ...{ sentence: row.why, reason: row.why, queued: null, cache: null, candidateCount: 6 },
      ...{ tied: 1, others: [], full: false },
      refusal: row.refused === null ? null : { reason: "saturated", status: 429, detail: "the pool is full" },
      filters: [
        {
          name: "label-selector-filter",
          dropped: 3,
          ids: ["default/server-3", "default/server-5", "default/server-6"],
          text: "",
        },
      ],
      notes: ["Before the filters, Sluice left out 1 more endpoint that is down."],
      candidates: row.refused === null ? candidates : [],
    } as DecisionDetail["explanation"],
    record: {},
    journey: {
      ...row.journey,
      ...{ requestId: row.requestId, receivedAt: row.at - 90, streaming: true },
      steps: [
        { kind: "received", ms: 0, endpoint: null, text: "headers of a streaming request" },
        { kind: "queued", ms: 1.2, endpoint: null, text: "flow team-a of band 0, behind 4 requests" },
        { kind: "left-queue", ms: 85, endpoint: null, text: "saturation 0.94 was below the ceiling 1" },
        { kind: "decided", ms: 85.4, endpoint: "default/server-1", text: "of 3 candidates" },
        { kind: "attempt", ms: 86, endpoint: "default/server-1", text: "connected" },
        { kind: "first-token", ms: 203, endpoint: "default/server-1", text: "" },
        { kind: "end", ms: 1985, endpoint: null, text: "answered with 200, 180 output tokens" },
      ],
    },
    configInForce: true,
  };
}
