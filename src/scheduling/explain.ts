import type { DecisionRecord, RecordedCandidate } from "../inference/scheduling-result.ts";

/** One scorer's part in a candidate's total. */
interface ExplainedScore {
  readonly scorer: string;
  /** 0..1 */
  readonly score: number;
  readonly weight: number;
  /** score x weight */
  readonly points: number;
  /** For example `0.75 x 2 = 1.50`. */
  readonly text: string;
}

/** One candidate, ready to be shown. Numbers nobody knew are null: JSON has no NaN. */
interface ExplainedCandidate {
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
  /** Milliseconds; null when it was never scraped. */
  readonly ageMs: number | null;
  /** For example `metrics 120 ms old` or `never scraped`. */
  readonly age: string;
}

/** A decision as `/debug/decisions/ID` shows it. */
export interface Explanation {
  readonly sequence: number;
  readonly requestId: string;
  /** ISO 8601. */
  readonly at: string;
  readonly model: string;
  readonly targetModel: string;
  readonly priority: number;
  readonly promptBytes: number;
  readonly profile: string;
  readonly picker: string;
  /** Why this endpoint, in one sentence. */
  readonly sentence: string;
  /** What else mattered: endpoints left out, candidates not shown, ties. */
  readonly notes: readonly string[];
  readonly candidates: readonly ExplainedCandidate[];
}

/** Says why a request went where it went, from the record alone. */
export function explain(record: DecisionRecord): Explanation {
  const { top } = record;
  return {
    sequence: record.sequence,
    requestId: record.requestId,
    at: new Date(record.at).toISOString(),
    model: record.model,
    targetModel: record.targetModel,
    priority: record.priority,
    promptBytes: record.promptBytes,
    profile: record.profile,
    picker: record.picker,
    sentence: sentenceFor(record, top),
    notes: notesFor(record, top),
    candidates: top.map((candidate, at) => explainCandidate(record, candidate, at + 1)),
  };
}

function sentenceFor(record: DecisionRecord, top: readonly RecordedCandidate[]): string {
  const [pick, second] = top as [RecordedCandidate, RecordedCandidate | undefined];
  const to = `Request ${record.requestId} went to ${pick.id} (${pick.hostPort})`;
  if (second === undefined) return `${to}: no other candidate was left.`;
  if (record.scorers.length === 0) return `${to}: ${record.picker} chose among ${count(record)} without scores.`;
  if (record.tied > 1)
    return `${to}: ${record.tied} of ${count(record)} shared the best total ${points(pick.total)}, and chance decided.`;
  if (pick.total < second.total)
    return `${to}: ${record.picker} preferred its ${points(pick.total)} points to the ${points(second.total)} of ${second.id}.`;
  if (pick.total === second.total)
    return `${to}: ${record.picker} preferred it to ${second.id}, which has the same ${points(pick.total)} points.`;
  const { scorer, gain } = decisiveScorer(record, pick, second);
  return `${to}: ${points(pick.total)} points against ${points(second.total)} of the next, ${second.id}; most of the lead, ${points(gain)}, came from ${scorer}.`;
}

function count(record: DecisionRecord): string {
  return `${record.candidates} candidates`;
}

/** The scorer that spoke most for the pick against the runner-up. */
function decisiveScorer(
  record: DecisionRecord,
  pick: RecordedCandidate,
  second: RecordedCandidate,
): { readonly scorer: string; readonly gain: number } {
  let scorer = "";
  let gain = Number.NEGATIVE_INFINITY;
  record.scorers.forEach(({ name, weight }, at) => {
    const lead = (pick.scores[at]! - second.scores[at]!) * weight;
    if (lead > gain) {
      scorer = name;
      gain = lead;
    }
  });
  return { scorer, gain };
}

function notesFor(record: DecisionRecord, top: readonly RecordedCandidate[]): string[] {
  const notes: string[] = [];
  if (record.excludedDown > 0) notes.push(`${record.excludedDown} more left out beforehand because down.`);
  const hidden = record.candidates - top.length;
  if (hidden > 0) notes.push(`${hidden} of ${count(record)} not shown: filtered out, or behind these.`);
  const unknown = top.filter((candidate) => candidate.ageMs === Number.POSITIVE_INFINITY).length;
  if (unknown > 0) notes.push(`${unknown} shown never scraped: unknown values count as the worst known ones.`);
  return notes;
}

function explainCandidate(record: DecisionRecord, candidate: RecordedCandidate, place: number): ExplainedCandidate {
  return {
    place,
    id: candidate.id,
    hostPort: candidate.hostPort,
    state: candidate.state,
    total: candidate.total,
    scores: record.scorers.map(({ name, weight }, at) => {
      const score = candidate.scores[at]!;
      const text = `${points(score)} x ${weight} = ${points(score * weight)}`;
      return { scorer: name, score, weight, points: score * weight, text };
    }),
    waiting: known(candidate.waiting),
    running: known(candidate.running),
    kvUsage: known(candidate.kvUsage),
    inFlight: candidate.inFlight,
    ageMs: known(candidate.ageMs),
    age: Number.isFinite(candidate.ageMs) ? `metrics ${Math.round(candidate.ageMs)} ms old` : "never scraped",
  };
}

function known(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

function points(value: number): string {
  return value.toFixed(2);
}
