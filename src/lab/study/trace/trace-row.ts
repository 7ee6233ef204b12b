/** One request of a trace. */
export interface TraceRow {
  /** Milliseconds on the clock of the trace. */
  readonly at: number;
  /** Tokens, >= 0: a trace also has requests that failed. */
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** The ids of the prompt's blocks; equal ids are equal text. Absent = the trace has lengths only. */
  readonly hashIds?: readonly number[] | undefined;
}

/** Tokens of the text behind one hash id of Mooncake's traces. */
export const HASH_BLOCK = 512;

/** Why a row of a trace is not played, with the words for it. */
export const UNUSABLE = {
  encoding: "not UTF-8",
  lineLength: "longer than the limit for a line",
  json: "not a JSON object",
  columns: "not as many columns as the header has",
  time: "without a time",
  lengths: "without the lengths of prompt and answer",
  hashes: "without hash_ids",
  blocks: `hash_ids are not the blocks of ${HASH_BLOCK} tokens of input_length`,
  timeBack: "earlier than the previous row",
  noPrompt: "no prompt tokens",
  noAnswer: "no answer tokens",
  contextLength: "prompt and answer longer than the context of the engine",
} as const;

/** A key of `UNUSABLE`. */
export type Unusable = keyof typeof UNUSABLE;

/** A number of tokens; undefined for anything else. */
export function tokensIn(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  // Some tools write whole numbers with a fraction.
  return typeof value === "string" && /^\d{1,12}(\.0*)?$/.test(value) ? Number(value) : undefined;
}
