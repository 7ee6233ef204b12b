import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import { HEADER, HeaderList } from "../../base/inference/headers.ts";
import { explain } from "../decisions/explain.ts";

/** Bytes of the sentence in a header. */
const MAX_REASON = 512;

/** Whether a request asks for the decision in the headers of its answer. */
export function asksForDecision(headers: HeaderList): boolean {
  const value = headers.get(HEADER.explain)?.trim().toLowerCase();
  return value === "1" || value === "true";
}

/** Returns a decision as response headers: its number, its outcome and its reason, in printable ASCII. */
export function decisionHeaders(record: DecisionRecord): HeaderList {
  // Ids and names may contain any character; each that a header must not contain becomes a question mark.
  const sentence = explain(record).sentence.replace(/[^\x20-\x7e]/gu, "?");
  return HeaderList.of([
    [HEADER.decision, String(record.sequence)],
    [HEADER.decisionReason, sentence.length <= MAX_REASON ? sentence : `${sentence.slice(0, MAX_REASON - 3)}...`],
  ]);
}

/** Joins two lists. */
export function together(first: HeaderList | undefined, second: HeaderList | undefined): HeaderList | undefined {
  if (first === undefined || second === undefined) return first ?? second;
  const both = new HeaderList();
  for (const list of [first, second]) for (let i = 0; i < list.length; i++) both.append(list.keys[i]!, list.values[i]!);
  return both;
}
