import { counted, listed } from "../../base/document/words.ts";
import type { DecisionRecord, RecordedCandidate } from "../../base/inference/decision-record.ts";
import { OUTCOMES } from "../../base/inference/outcomes.ts";
import { randomPicker, weightedRandomPicker } from "../scheduling/plugins/pickers.ts";
import { digitsApart, percent, points } from "./explain-words.ts";

/** In the detail of a refusal for want of room in the queues; a refusal without flow control has another one. */
const QUEUE_FULL = "queue at capacity";

/**
 * Returns the outcome of a request: `went to default/a (10.0.0.1:8000)`, `went to default/a (10.0.0.1:8000) and on to default/b
 * (10.0.0.2:8000), which answered` or `was refused with 429`.
 */
export function outcomeOf({ top, others, profile, refusal, served }: DecisionRecord): string {
  if (refusal !== undefined) return `was refused with ${OUTCOMES[refusal.reason].status}`;
  const pick = top[0];
  if (pick === undefined) return "went nowhere";
  const sides = others.map((other) => `to ${other.id} for ${other.profile}`);
  const to = `went to ${pick.id} (${pick.hostPort})${sides.length === 0 ? "" : ` for ${profile} and ${listed(sides)}`}`;
  if (served === undefined) return to;
  return served === "nobody"
    ? `${to}, and no endpoint answered`
    : `${to}, then to ${served.id} (${served.hostPort}), which answered`;
}

/** Returns the reason, with a full stop. */
export function reasonOf(record: DecisionRecord): string {
  const { refusal, top } = record;
  if (refusal !== undefined) return refusalReason(record, refusal.reason, refusal.detail);
  const pick = top[0];
  return pick === undefined ? "the record names no endpoint." : pickReason(record, pick);
}

/** Returns the number of scored candidates of a routed request: those that the screeners and filters left. */
export function leftOf({ candidates, filters, top }: DecisionRecord): number {
  // Two screeners may drop the same endpoint, so the sum may be too large. The listed endpoints were certainly left.
  return Math.max(top.length, candidates - dropped(filters));
}

function dropped(filters: DecisionRecord["filters"]): number {
  return filters.reduce((sum, filter) => sum + filter.dropped, 0);
}

function refusalReason(record: DecisionRecord, reason: keyof typeof OUTCOMES, detail: string): string {
  const { candidates, filters, priority } = record;
  if (reason === "saturated" && detail.includes(QUEUE_FULL))
    return "the queue of its priority was full, or all queues together were full.";
  if (reason === "saturated")
    return `the pool is saturated; without flow control, this request of priority ${priority} cannot wait.`;
  if (reason === "ttl_expired" || reason === "queue_timeout")
    return "the pool had no room within the time that the request may wait.";
  if (reason === "no_endpoints" && candidates === 0)
    return "no endpoint is known, or the proxy's subset hint allows no known endpoint.";
  if ((reason === "no_endpoints" || reason === "no_target") && filters.length > 0 && dropped(filters) >= candidates)
    return `none of ${counted(candidates, "candidate")} was left; ${droppers(record)}.`;
  // The detail is the text of the admitter or profile handler that denied the request; the record does not name it.
  return sentenceEnd(detail);
}

/** Returns what each filter dropped: `label-filter dropped 3, utilization-filter the 2 left`. */
function droppers({ candidates, filters }: DecisionRecord): string {
  let left = candidates;
  const parts = filters.map((filter, at) => {
    const last = at === filters.length - 1 && filter.dropped === left;
    const what = !last ? String(filter.dropped) : at === 0 ? "all" : `the ${left} left`;
    left -= filter.dropped;
    return `${filter.name}${at === 0 ? " dropped" : ""} ${what}`;
  });
  return parts.join(", ");
}

function pickReason(record: DecisionRecord, pick: RecordedCandidate): string {
  const { candidates, excludedDown, filters, picker, scorers, tied, top } = record;
  const left = leftOf(record);
  if (left === 1) {
    if (filters.length > 0)
      return `it was the only one left of ${counted(candidates, "candidate")}; ${droppers(record)}.`;
    return excludedDown > 0 ? `it is the only endpoint that is not down.` : `it is the only candidate.`;
  }
  const among = counted(left, "candidate");
  if (record.pickerByChance) return chanceReason(record, pick, left);
  if (scorers.length === 0)
    return tied > 1
      ? `none of ${among} had a score, so the choice was random.`
      : `${picker} chose among ${among} without scores.`;
  if (tied > 1) return `${tied} of ${among} shared the best total, ${points(pick.total)}, so the choice was random.`;
  const rival = best(top.slice(1));
  if (pick.total === rival.total)
    return `${picker} preferred it to ${rival.id}, which has the same ${points(pick.total)} points.`;
  const digits = digitsApart(pick.total, rival.total);
  const [own, other] = [points(pick.total, digits), points(rival.total, digits)];
  if (pick.total < rival.total) return `${picker} preferred it with ${own} points to ${rival.id} with ${other} points.`;
  return `${own} points against ${other} of the next, ${rival.id}; ${leadReason(record, pick, rival, digits)}.`;
}

/** Returns the reason for a picker that draws at random for any totals. */
function chanceReason(record: DecisionRecord, pick: RecordedCandidate, left: number): string {
  const { picker, top } = record;
  const drew = `${picker} picked it at random from ${counted(left, "candidate")}`;
  const highest = best(top).total;
  if (highest <= 0 && left === top.length) return `${drew}; none of them had points.`;
  if (picker === randomPicker.type) return `${drew}; their points did not count.`;
  if (picker !== weightedRandomPicker.type)
    return `${drew}; it had ${points(pick.total)} points, the best listed candidate ${points(highest)}.`;
  const weight = weightOfDraw(record, left);
  if (weight === undefined)
    return `${drew}, in proportion to their totals; its total was ${points(pick.total)}, the highest listed total ${points(highest)}.`;
  return `${drew}: its ${points(pick.total)} points gave it a chance of ${percent(pick.total / weight)}.`;
}

/** Returns the sum of all totals; undefined where some are unknown. */
function weightOfDraw({ full, top }: DecisionRecord, left: number): number | undefined {
  const totals =
    full !== undefined
      ? full.endpoints.map(({ total }) => total).filter((total) => !Number.isNaN(total))
      : left === top.length
        ? top.map(({ total }) => total)
        : undefined;
  return totals?.reduce((sum, total) => sum + Math.max(0, total), 0);
}

function best(candidates: readonly RecordedCandidate[]): RecordedCandidate {
  return candidates.reduce((a, b) => (b.total > a.total ? b : a));
}

/** Returns the scorers that made the lead and those that worked against it, without those that round to nothing. */
function leadReason(
  { scorers }: DecisionRecord,
  pick: RecordedCandidate,
  rival: RecordedCandidate,
  digits: number,
): string {
  const leads: readonly Lead[] = scorers.map(({ name, weight }, at) => ({
    name,
    lead: ((pick.scores[at] ?? 0) - (rival.scores[at] ?? 0)) * weight,
  }));
  const counts = ({ lead }: Lead): boolean => Math.abs(lead) >= 0.5 * 10 ** -digits;
  const first = leads.reduce((a, b) => (b.lead > a.lead ? b : a));
  const against = leads.filter((one) => one.lead < 0 && counts(one));
  const further = leads.filter((one) => one !== first && one.lead > 0 && counts(one));
  if (against.length > 0) {
    // All parts of the lead, so that the reader can add them up.
    const parts = [`${first.name} put it ${points(first.lead, digits)} ahead`];
    if (further.length > 0) parts.push(`${namesOf(further)} added ${sumOf(further, digits)}`);
    return `${parts.join(", ")}, ${namesOf(against)} took ${sumOf(against, digits)} back`;
  }
  const lead = pick.total - rival.total;
  if (further.length === 0) return `all of the lead came from ${first.name}`;
  const part = first.lead * 2 > lead ? "most" : "the largest part";
  return `${part} of the lead, ${points(first.lead, digits)} of ${points(lead, digits)}, came from ${first.name}`;
}

/** What one scorer adds to the lead; below 0 = takes from it. */
interface Lead {
  readonly name: string;
  readonly lead: number;
}

function namesOf(leads: readonly Lead[]): string {
  return leads.length === 1 ? leads[0]!.name : counted(leads.length, "other scorer");
}

function sumOf(leads: readonly Lead[], digits: number): string {
  return points(Math.abs(leads.reduce((sum, { lead }) => sum + lead, 0)), digits);
}

function sentenceEnd(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
