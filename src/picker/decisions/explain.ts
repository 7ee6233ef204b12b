import { counted, grouped, listed } from "../../base/document/words.ts";
import {
  type DecisionRecord,
  type RecordedCache,
  type RecordedCandidate,
  type RecordedWait,
  SERVED_MODELS,
} from "../../base/inference/decision-record.ts";
import { OUTCOMES, type OutcomeReason } from "../../base/inference/outcomes.ts";
import { leftOf, outcomeOf, reasonOf } from "./explain-reason.ts";
import { digitsApart, points, span, weightText } from "./explain-words.ts";

/** The part of one scorer in a candidate's total. */
export interface ExplainedScore {
  readonly scorer: string;
  /** 0..1 */
  readonly score: number;
  readonly weight: number;
  /** score x weight */
  readonly points: number;
  /** For example `0.75 x 2 = 1.50`. */
  readonly text: string;
}

/** One candidate, ready to display. Unknown numbers are null, because JSON has no NaN. */
export interface ExplainedCandidate {
  /** 1 = the pick. */
  readonly place: number;
  readonly id: string;
  readonly hostPort: string;
  readonly state: string;
  readonly total: number;
  readonly scores: readonly ExplainedScore[];
  readonly waiting: number | null;
  readonly running: number | null;
  readonly kvUsage: number | null;
  readonly inFlight: number;
  /**
   * The part of other replicas of this picker, how many milliseconds ago they said so, and what they had probably sent since then.
   * Absent where none share their load.
   */
  readonly peers?: { readonly inFlight: number; readonly ageMs: number; readonly unseen: number } | undefined;
  /** Milliseconds; null when it was never scraped. */
  readonly ageMs: number | null;
  /** Whether the worst known values replace its own. */
  readonly stale: boolean;
  /** For example `metrics 120 ms old` or `never scraped: counted as the worst known`. */
  readonly age: string;
}

/** A filter that dropped candidates, ready to display. */
export interface ExplainedFilter {
  readonly name: string;
  readonly dropped: number;
  /** At most eight of the dropped candidates. */
  readonly ids: readonly string[];
  /** For example `label-filter dropped 9 candidates: default/a, default/b and 7 more`. */
  readonly text: string;
}

/** The refusal of a request. */
export interface ExplainedRefusal {
  readonly reason: OutcomeReason;
  /** HTTP status. */
  readonly status: number;
  /** The text in the answer to the client. */
  readonly detail: string;
}

/** A wait in flow control. */
export interface ExplainedWait extends Omit<RecordedWait, "saturation" | "ceiling"> {
  readonly saturation: number | null;
  readonly ceiling: number | null;
}

/** Tokens of the prompt that the endpoint had in its cache, by source; null = unknown. */
export type ExplainedCache = Readonly<Record<keyof RecordedCache, number | null>>;

/** A decision as `/debug/decisions/ID` and `sluice explain` show it. */
export interface Explanation {
  readonly sequence: number;
  readonly requestId: string;
  /** ISO 8601. */
  readonly at: string;
  readonly model: string;
  readonly targetModel: string;
  readonly priority: number;
  readonly promptBytes: number;
  /** "" where none was given. */
  readonly configHash: string;
  /** "" when the request was refused before a profile ran. */
  readonly profile: string;
  readonly picker: string;
  /** The outcome of the request and its reason, in one sentence. */
  readonly sentence: string;
  /** The reason alone, without the request and the outcome. */
  readonly reason: string;
  /** Null when it was routed. */
  readonly refusal: ExplainedRefusal | null;
  /** The wait in flow control; null when there was none. Saturation and ceiling are null when it was refused. */
  readonly queued: ExplainedWait | null;
  /** Null where nothing is known. The answer has its part when it is complete. */
  readonly cache: ExplainedCache | null;
  /** Candidates before screeners and filters. */
  readonly candidateCount: number;
  readonly filters: readonly ExplainedFilter[];
  /** The number of candidates with the best total, the pick included. */
  readonly tied: number;
  /** The choices of other profiles. */
  readonly others: readonly { readonly profile: string; readonly id: string }[];
  /** Further facts: endpoints left out, candidates not shown, unknown values. */
  readonly notes: readonly string[];
  /** The best eight, the pick first; empty when the request was refused. */
  readonly candidates: readonly ExplainedCandidate[];
  /** Whether the record is full, for `?full=1`. */
  readonly full: boolean;
}

/** The `reason` of an explanation, alone: a list of decisions needs no more of them. */
export function reasonFor(record: DecisionRecord): string {
  return withFailures(reasonOf(record), record);
}

/** Explains from the record why a request went to its endpoint, or why it was refused. */
export function explain(record: DecisionRecord): Explanation {
  const { refusal, top } = record;
  const reason = reasonFor(record);
  return {
    sequence: record.sequence,
    requestId: record.requestId,
    at: new Date(record.at).toISOString(),
    model: record.model,
    targetModel: record.targetModel,
    priority: record.priority,
    promptBytes: record.promptBytes,
    configHash: record.configHash,
    profile: record.profile,
    picker: record.picker,
    sentence: `Request ${record.requestId} ${outcomeOf(record)}: ${reason}`,
    reason,
    refusal: refusal === undefined ? null : { ...refusal, status: OUTCOMES[refusal.reason].status },
    queued: record.queued === undefined ? null : explainedWait(record.queued),
    cache: record.cache === undefined ? null : explainedCache(record.cache),
    candidateCount: record.candidates,
    filters: record.filters.map((filter) => ({ ...filter, text: filterText(filter, record.targetModel) })),
    tied: record.tied,
    others: record.others,
    notes: notesFor(record, top),
    candidates: top.map((candidate, at) => explainCandidate(record, candidate, at + 1)),
    full: record.full !== undefined,
  };
}

/** The reason, with the plugins that the decision had to do without: a missing scorer may be what decided. */
function withFailures(reason: string, { failed, late = [] }: DecisionRecord): string {
  const missing = [
    ...(failed.length === 0 ? [] : [`${listed(failed)} failed and did not count`]),
    ...(late.length === 0 ? [] : [`without the data of ${listed(late)}, which came too late`]),
  ];
  return missing.length === 0 ? reason : `${reason.replace(/\.$/, "")} (${missing.join("; ")}).`;
}

function filterText({ name, dropped, ids }: DecisionRecord["filters"][number], model: string): string {
  const what =
    name === SERVED_MODELS
      ? `${counted(dropped, "endpoint")} ${dropped === 1 ? "does" : "do"} not serve ${model}`
      : `${name} dropped ${counted(dropped, "candidate")}`;
  if (ids.length === 0) return what;
  const more = dropped - ids.length;
  return `${what}: ${ids.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function explainedWait(queued: RecordedWait): ExplainedWait {
  return { ...queued, saturation: known(queued.saturation), ceiling: known(queued.ceiling) };
}

function waitText({ band, fairnessId, behind, waitedMs, saturation, ceiling }: RecordedWait): string {
  const where = `The request waited ${span(waitedMs)} in flow ${fairnessId} of band ${band}, behind ${counted(behind, "request")}`;
  if (Number.isNaN(saturation)) return `${where}.`;
  const digits = digitsApart(saturation, ceiling);
  return `${where}, until the saturation of ${points(saturation, digits)} was below the ceiling of ${points(ceiling, digits)}.`;
}

function explainedCache({ predicted, events, unconfirmed = 0, reported, prompt }: RecordedCache): ExplainedCache {
  return {
    predicted: known(predicted),
    events: known(events),
    unconfirmed: Number.isNaN(events) ? null : unconfirmed,
    reported: known(reported),
    prompt: known(prompt),
  };
}

/** @returns undefined where nothing is known, or nothing was expected so far */
function cacheText({ predicted, events, unconfirmed = 0, reported, prompt }: RecordedCache): string | undefined {
  if (Number.isNaN(reported) && !(predicted > 0) && !(events > 0)) return undefined;
  // Expected blocks may be longer than the prompt: the last one counts whole.
  const inPrompt = (tokens: number): number => (Number.isNaN(prompt) ? tokens : Math.min(tokens, prompt));
  const confirmed = inPrompt(events - unconfirmed);
  const notYet = inPrompt(events) - confirmed;
  const sources = [
    ...(Number.isNaN(predicted) ? [] : [`${grouped(inPrompt(predicted))} predicted from earlier requests`]),
    ...(Number.isNaN(events) ? [] : [`${grouped(confirmed)} from KV-cache events`]),
    ...(notYet > 0 ? [`${grouped(notYet)} more that no event confirms yet`] : []),
    ...(Number.isNaN(reported) ? [] : [`${grouped(reported)} of ${grouped(prompt)} reported in the answer`]),
  ];
  return `Prompt tokens in the cache of the endpoint: ${listed(sources)}.`;
}

function notesFor(record: DecisionRecord, top: readonly RecordedCandidate[]): string[] {
  const notes = record.failed.map(
    (name) => `${name} failed in this decision and did not count. The log has the error.`,
  );
  for (const name of record.late ?? [])
    notes.push(
      `The data of ${name} came too late for this decision. sluice_preparations_missed_total counts such decisions.`,
    );
  const cached = record.cache && cacheText(record.cache);
  if (cached !== undefined) notes.push(cached);
  if (record.queued !== undefined) notes.unshift(waitText(record.queued));
  if (record.served === "nobody") notes.push("No endpoint answered. /debug/endpoints has the cause for each endpoint.");
  if (record.excludedDown > 0)
    notes.push(
      `Before the filters, Sluice left out ${counted(record.excludedDown, "more endpoint")} that ${record.excludedDown === 1 ? "is" : "are"} down.`,
    );
  if (record.peerBlocks !== undefined)
    notes.push(
      `In the prefix cache of the pick, ${counted(record.peerBlocks, "block")} of the prompt ${record.peerBlocks === 1 ? "is" : "are"} known only from other replicas of this picker.`,
    );
  const behind = leftOf(record) - top.length;
  if (record.refusal === undefined && behind > 0)
    notes.push(`${counted(behind, "more candidate")} are not listed here.`);
  if (top.some(({ state }) => state === "down"))
    notes.push("No endpoint that is up could serve this request, so endpoints that are down were also candidates.");
  const unknown = top.filter(neverScraped).length;
  const stale = top.filter((candidate) => isStale(candidate) && !neverScraped(candidate)).length;
  if (stale > 0)
    notes.push(`The metrics of ${counted(stale, "listed candidate")} are stale: the worst known values count instead.`);
  const missing = METRICS.filter(([, of]) => top.length > 0 && top.every((candidate) => Number.isNaN(of(candidate))));
  const names = listed(missing.map(([name]) => name));
  if (unknown > 0) {
    const exception = names === "" ? "" : `; metrics that no candidate had (${names}) made no difference`;
    const what = `${counted(unknown, "listed candidate was", "listed candidates were")} never scraped`;
    notes.push(`${what}. The worst known value replaces an unknown value${exception}.`);
  } else if (names !== "")
    notes.push(`No candidate had a known value (${names}), so these metrics made no difference.`);
  return notes;
}

const METRICS: readonly (readonly [string, (candidate: RecordedCandidate) => number])[] = [
  ["number of waiting requests", ({ waiting }) => waiting],
  ["number of running requests", ({ running }) => running],
  ["KV-cache use", ({ kvUsage }) => kvUsage],
];

function neverScraped({ ageMs }: RecordedCandidate): boolean {
  return ageMs === Number.POSITIVE_INFINITY;
}

function isStale(candidate: RecordedCandidate): boolean {
  return candidate.stale || neverScraped(candidate);
}

function explainCandidate(record: DecisionRecord, candidate: RecordedCandidate, place: number): ExplainedCandidate {
  const stale = isStale(candidate);
  const age = neverScraped(candidate) ? "never scraped" : `metrics ${span(candidate.ageMs)} old`;
  return {
    place,
    id: candidate.id,
    hostPort: candidate.hostPort,
    state: candidate.state,
    total: candidate.total,
    scores: record.scorers.map(({ name, weight }, at) => {
      const score = candidate.scores[at] ?? 0;
      const text = `${points(score)} x ${weightText(weight)} = ${points(score * weight)}`;
      return { scorer: name, score, weight, points: score * weight, text };
    }),
    waiting: known(candidate.waiting),
    running: known(candidate.running),
    kvUsage: known(candidate.kvUsage),
    inFlight: candidate.inFlight,
    ...(candidate.peers === undefined ? {} : { peers: candidate.peers }),
    ageMs: known(candidate.ageMs),
    stale,
    // When a whole column is unknown, it has no worst value either.
    age: stale && METRICS.some(([, of]) => !Number.isNaN(of(candidate))) ? `${age}: counted as the worst known` : age,
  };
}

function known(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
