import {
  type InferenceRequest,
  promptBytes,
  promptTokens,
  receivedBytesPerToken,
} from "../../base/inference/request.ts";
import type { PlanFigures } from "./profile.ts";
import type { ProfileRun } from "./profile-run.ts";

/** Prompt tokens that the first endpoint of a run must compute, by whoever knows them, else by the length of the prompt. */
export function tokensToCompute(
  request: InferenceRequest,
  { columns, order }: ProfileRun,
  { uncachedTokens }: PlanFigures,
): number {
  const uncached = columns.at(uncachedTokens);
  return uncached === undefined ? promptTokens(request) : uncached[order[0]!]!;
}

/** How much of the prompt the first endpoint of a run is believed to hold. */
export interface HeldPrefix {
  /** Bytes of the prompt that were hashed. */
  readonly hashedBytes: number;
  readonly matchedBytes: number;
  /** 0..1; undefined for a prompt without a block. */
  readonly ratio: number | undefined;
}

/** @returns undefined where no producer knows */
export function heldPrefix(
  request: InferenceRequest,
  { columns, order }: ProfileRun,
  figures: PlanFigures,
): HeldPrefix | undefined {
  const matched = columns.at(figures.matchedBlocks);
  const total = columns.at(figures.totalBlocks);
  const blockTokens = columns.at(figures.blockTokens);
  if (matched === undefined || total === undefined || blockTokens === undefined) return undefined;
  const first = order[0]!;
  const blockBytes = Math.round(blockTokens[first]! * receivedBytesPerToken(request));
  return {
    hashedBytes: Math.min(promptBytes(request), total[first]! * blockBytes),
    matchedBytes: matched[first]! * blockBytes,
    ratio: total[first]! > 0 ? matched[first]! / total[first]! : undefined,
  };
}
