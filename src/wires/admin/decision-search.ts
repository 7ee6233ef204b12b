import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";

type Records = InferenceCore["records"];

/** The shortest start of a request id that may name it, in characters: as many as people read off a log line. */
const SHORTEST_START = 8;
/** The most request ids in a list of ids with the same start. */
const MAX_NAMED = 10;

/** Finds a record by its number, by the `x-request-id`, or by the start of an `x-request-id` if no other has that start. */
export function findDecision(records: Records, id: string): DecisionRecord | undefined {
  const named = (/^\d+$/.test(id) ? records.bySequence(Number(id)) : undefined) ?? records.byRequestId(id);
  if (named !== undefined) return named;
  const [only, ...others] = requestIdsBeginning(records, id);
  return only === undefined || others.length > 0 ? undefined : records.byRequestId(only);
}

/** The request ids that begin with `start`, newest first; none when `start` is too short to name one. */
export function requestIdsBeginning(records: Records, start: string): readonly string[] {
  return start.length < SHORTEST_START ? [] : records.idsBeginning(start, MAX_NAMED);
}

/** Why a start names no decision, for people. @param ids that begin with it, two or more */
export function severalBegin(start: string, ids: readonly string[]): string {
  return `several request ids begin with ${start}; give more characters of one of them: ${ids.join(", ")}`;
}
