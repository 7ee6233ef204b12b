import type { RecordedCache } from "../../base/inference/decision-record.ts";
import type { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import {
  type InferenceRequest,
  promptBytes,
  promptTokens,
  receivedBytesPerToken,
} from "../../base/inference/request.ts";
import { type CachedAt, NO_WRITER, type PlanFigures, type SchedulingPlan } from "./profile.ts";
import type { ProfileRun } from "./profile-run.ts";

/**
 * Returns the prompt tokens that the first endpoint of a run must compute. Without a producer that knows them, returns all
 * tokens of the prompt.
 */
export function tokensToCompute(
  request: InferenceRequest,
  { columns, order }: ProfileRun,
  { uncachedTokens }: PlanFigures,
): number {
  const uncached = columns.at(uncachedTokens);
  return uncached === undefined ? promptTokens(request) : uncached[order[0]!]!;
}

/** The part of the prompt that the first endpoint of a run probably holds. */
interface HeldPrefix {
  /** Bytes of the prompt that are hashed. */
  readonly hashedBytes: number;
  readonly matchedBytes: number;
  /** 0..1; undefined for a prompt without a block. */
  readonly ratio: number | undefined;
}

/** @returns undefined where no producer writes prefix matches */
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

/** Returns what the producers know of the cache of the first endpoint of a run; undefined where there are none. */
export function expectedCache(
  run: ProfileRun,
  { predicted, events, unconfirmed }: PlanFigures,
): RecordedCache | undefined {
  if (predicted.blocks === NO_WRITER && events.blocks === NO_WRITER) return undefined;
  const notYet = cachedTokens(run, { ...events, blocks: unconfirmed });
  return {
    predicted: cachedTokens(run, predicted),
    events: cachedTokens(run, events),
    unconfirmed: notYet > 0 ? notYet : undefined,
    reported: Number.NaN,
    prompt: Number.NaN,
  };
}

function cachedTokens({ columns, order }: ProfileRun, at: CachedAt): number {
  const blocks = columns.at(at.blocks);
  const blockTokens = columns.at(at.blockTokens);
  if (blocks === undefined || blockTokens === undefined) return Number.NaN;
  return Math.round(blocks[order[0]!]! * blockTokens[order[0]!]!);
}

/**
 * Conditional decoding: a request that asks for it is refused where the endpoint holds no part of the prompt (scheduling 3.3
 * step 12).
 * @param run of the primary profile
 * @returns the rejection; undefined when the request may go on
 */
export function precondition(
  { headers }: InferenceRequest,
  { columns, order }: ProfileRun,
  { figures }: SchedulingPlan,
): Rejection | undefined {
  if (!prefersAvailable(headers)) return undefined;
  const matched = columns.at(figures.matchedBlocks);
  if (matched !== undefined && matched[order[0]!]! > 0) return undefined;
  return new Rejection(
    "precondition_failed",
    "the chosen endpoint does not hold the beginning of the prompt; send the request without `prefer: if-available`",
  );
}

/** Whether one of the `prefer` headers (RFC 7240 2) has the token `if-available`, with any parameters and in any case. */
function prefersAvailable({ keys, values }: HeaderList): boolean {
  for (let at = keys.indexOf("prefer"); at >= 0; at = keys.indexOf("prefer", at + 1))
    for (const preference of values[at]!.split(","))
      if (preference.split(";", 1)[0]!.trim().toLowerCase() === "if-available") return true;
  return false;
}
