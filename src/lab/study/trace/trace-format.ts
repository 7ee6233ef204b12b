import { HASH_BLOCK, type TraceRow, tokensIn, type Unusable } from "./trace-row.ts";

/** A format of traces. */
export interface TraceFormat {
  /** For people. */
  readonly name: string;
  /** Whether the first row is a header. */
  readonly headed: boolean;
  /** Reads a row. @returns why it cannot be used, for a broken row */
  row(line: string): TraceRow | Unusable;
}

/**
 * The format of a file by its first row: a JSON object is Mooncake's, and a CSV is known by the columns of its header.
 * @returns undefined when no format is known by this row
 */
export function formatOf(first: string): TraceFormat | undefined {
  if (first.startsWith("{")) return MOONCAKE;
  const names = fieldsOf(first).map((name) => name.toLowerCase());
  for (const { name, time, prompt, answer, millisecondsOf } of TABLES) {
    const [at, promptAt, answerAt] = [time, prompt, answer].map((column) => names.indexOf(column)) as [
      number,
      number,
      number,
    ];
    if (at < 0 || promptAt < 0 || answerAt < 0) continue;
    return {
      name,
      headed: true,
      row(line) {
        const fields = fieldsOf(line);
        if (fields.length !== names.length) return "columns";
        return rowOf(millisecondsOf(fields[at]!), tokensIn(fields[promptAt]!), tokensIn(fields[answerAt]!));
      },
    };
  }
  return undefined;
}

/** The header rows of the CSVs and the JSON object, for messages. */
export const KNOWN_FORMATS =
  "Mooncake's JSON lines (timestamp, input_length, output_length, hash_ids), the CSV of the Azure LLM inference traces " +
  "(TIMESTAMP,ContextTokens,GeneratedTokens) and that of BurstGPT (Timestamp, Request tokens, Response tokens)";

function rowOf(
  at: number | undefined,
  promptTokens: number | undefined,
  outputTokens: number | undefined,
): TraceRow | Unusable {
  if (at === undefined) return "time";
  if (promptTokens === undefined || outputTokens === undefined) return "lengths";
  return { at, promptTokens, outputTokens };
}

/** JSON lines of https://github.com/kvcache-ai/Mooncake, with times in milliseconds. */
const MOONCAKE: TraceFormat = {
  name: "Mooncake",
  headed: false,
  row(line) {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      return "json";
    }
    if (typeof value !== "object" || value === null || Array.isArray(value)) return "json";
    const { timestamp, input_length, output_length, hash_ids } = value as Readonly<Record<string, unknown>>;
    const isTime = typeof timestamp === "number" && Number.isFinite(timestamp) && timestamp >= 0;
    const row = rowOf(isTime ? timestamp : undefined, tokensIn(input_length), tokensIn(output_length));
    if (typeof row === "string") return row;
    if (!Array.isArray(hash_ids) || !hash_ids.every((id) => Number.isSafeInteger(id))) return "hashes";
    if (hash_ids.length !== Math.ceil(row.promptTokens / HASH_BLOCK)) return "blocks";
    return { ...row, hashIds: hash_ids as readonly number[] };
  },
};

/** A CSV with lengths only: the lower-case names of its columns, and its times. */
interface Table {
  readonly name: string;
  readonly time: string;
  readonly prompt: string;
  readonly answer: string;
  readonly millisecondsOf: (text: string) => number | undefined;
}

const TABLES: readonly Table[] = [
  {
    // https://github.com/Azure/AzurePublicDataset, the traces of 2023 and of 2024.
    name: "Azure LLM inference",
    time: "timestamp",
    prompt: "contexttokens",
    answer: "generatedtokens",
    millisecondsOf: wallClock,
  },
  {
    // https://github.com/HPMLL/BurstGPT, with and without the columns of sessions.
    name: "BurstGPT",
    time: "timestamp",
    prompt: "request tokens",
    answer: "response tokens",
    millisecondsOf: seconds,
  },
];

/** `2023-11-16 18:17:03.9799600` without a zone, or with one: `2024-05-10 00:00:00.009930+00:00`. */
function wallClock(text: string): number | undefined {
  const parts = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,12})?(Z|[+-]\d\d:\d\d)?$/.exec(text);
  if (parts === null) return undefined;
  const whole = Date.parse(`${parts[1]}T${parts[2]}${parts[4] ?? "Z"}`);
  // `Date.parse` cuts the fraction after milliseconds.
  return Number.isNaN(whole) ? undefined : whole + Number(`0${parts[3] ?? ""}`) * 1000;
}

function seconds(text: string): number | undefined {
  return /^\d{1,12}(\.\d{0,12})?$/.test(text) ? Number(text) * 1000 : undefined;
}

/** The fields of a line without quoted commas, which no format has. */
function fieldsOf(line: string): string[] {
  return line.split(",").map((field) => field.trim().replace(/^"(.*)"$/, "$1"));
}
