import type { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { SchedulingPlan } from "./profile.ts";
import type { ProfileRun } from "./profile-run.ts";

/**
 * Conditional decoding: whoever asks for it is served only where some of the prompt is held (scheduling 3.3 step 12).
 * @param run of the primary profile
 * @returns why the request is refused, if it is
 */
export function precondition(
  { headers }: InferenceRequest,
  { columns, order }: ProfileRun,
  { figures }: SchedulingPlan,
): Rejection | undefined {
  if (!prefersAvailable(headers)) return undefined;
  const matched = columns.at(figures.matchedBlocks);
  if (matched !== undefined && matched[order[0]!]! > 0) return undefined;
  return new Rejection("precondition_failed", "no endpoint that may be chosen holds the beginning of the prompt");
}

/** Whether one of the `prefer` headers (RFC 7240 2) has the token `if-available`, whatever its parameters and case. */
function prefersAvailable({ keys, values }: HeaderList): boolean {
  for (let at = keys.indexOf("prefer"); at >= 0; at = keys.indexOf("prefer", at + 1))
    for (const preference of values[at]!.split(","))
      if (preference.split(";", 1)[0]!.trim().toLowerCase() === "if-available") return true;
  return false;
}
