import type { RedisReply } from "../../../base/redis/connection.ts";
import type { BatchStatus } from "../batch-status.ts";
import { STATUSES } from "../batch-status.ts";
import type { BatchCounts, BatchPace, FilePurpose, NewBatch, StoredBatch, StoredFile } from "../records.ts";

const FILE = ["id", "owner", "purpose", "filename", "bytes", "created", "expires"] as const;
const COUNTS = [
  "completed",
  "failed",
  "unanswered",
  "inputTokens",
  "cachedTokens",
  "outputTokens",
  "reasoningTokens",
] as const;
const TEXTS = [
  "id",
  "owner",
  "caller",
  "status",
  "endpoint",
  "input",
  "output",
  "errors",
  "window",
  "metadata",
] as const;
const REST = [
  "outputSeconds",
  "created",
  "expires",
  "problems",
  "total",
  "submitted",
  "lane",
  "hasOutput",
  "hasErrors",
] as const;
const PACE = ["underWay", "rate", "problem"] as const;
const REACHED = STATUSES.map((status) => `at:${status}`);
const BATCH: readonly string[] = [...TEXTS, ...REST, ...COUNTS, ...PACE, ...REACHED];

/** The fields of `HMGET` for a file, and for a batch. */
export const FILE_FIELDS: readonly string[] = FILE;
export const BATCH_FIELDS = BATCH;

/** @param row the answer to `HMGET` with `FILE_FIELDS` @returns undefined where there is no file */
export function fileOf(row: RedisReply): StoredFile | undefined {
  const [id, owner, purpose, filename, bytes, created, expires] = row as readonly (string | null)[];
  if (id === null) return undefined;
  return {
    ...{ id: id!, owner: owner!, purpose: purpose as FilePurpose, filename: filename!, bytes: Number(bytes) },
    ...{ createdAt: Number(created), expiresAt: Number(expires) },
  };
}

/** The arguments of a file, as the scripts take them. */
export function fileArguments(file: StoredFile): readonly (string | number)[] {
  const { id, owner, purpose, filename, bytes, createdAt, expiresAt } = file;
  return [id, owner, purpose, filename, bytes, createdAt, expiresAt];
}

/** The fields of a new batch that never change, or that begin with another value than 0 or "". */
export function newBatchFields(batch: NewBatch, output: string, errors: string): readonly string[] {
  const { caller, endpoint, completionWindow, metadata, outputSeconds } = batch;
  return [
    ...["caller", JSON.stringify(caller), "endpoint", endpoint, "output", output, "errors", errors],
    ...["window", completionWindow, "metadata", metadata === undefined ? "" : JSON.stringify(metadata)],
    ...["outputSeconds", outputSeconds === undefined ? "" : String(outputSeconds)],
  ];
}

/** The fields that change while a batch runs. */
export function progressFields(counts: BatchCounts, { underWay, rate, problem }: BatchPace): readonly string[] {
  const counted = COUNTS.flatMap((name) => [name, String(counts[name])]);
  return [...counted, "underWay", String(underWay), "rate", String(rate), "problem", problem];
}

/** @param row the answer to `HMGET` with `BATCH_FIELDS` @returns undefined where there is no batch */
export function batchOf(row: RedisReply): StoredBatch | undefined {
  const values = new Map(BATCH.map((name, at) => [name, (row as readonly (string | null)[])[at] ?? ""]));
  const text = (name: (typeof TEXTS | typeof REST | typeof COUNTS | typeof PACE)[number]): string => values.get(name)!;
  if (text("id") === "") return undefined;
  const number = (name: Parameters<typeof text>[0]): number => Number(text(name));
  const reached = STATUSES.map((status): [BatchStatus, string] => [status, values.get(`at:${status}`)!]);
  return {
    ...{ id: text("id"), owner: text("owner"), status: text("status") as BatchStatus, endpoint: text("endpoint") },
    caller: JSON.parse(text("caller")) as StoredBatch["caller"],
    ...{ inputFileId: text("input"), outputFileId: text("output"), errorFileId: text("errors") },
    ...{ hasOutput: text("hasOutput") === "1", hasErrors: text("hasErrors") === "1" },
    completionWindow: text("window"),
    metadata: text("metadata") === "" ? undefined : (JSON.parse(text("metadata")) as Record<string, string>),
    outputSeconds: text("outputSeconds") === "" ? undefined : number("outputSeconds"),
    ...{ createdAt: number("created"), expiresAt: number("expires") },
    reached: Object.fromEntries(reached.flatMap(([status, at]) => (at === "" ? [] : [[status, Number(at)]]))),
    problems: JSON.parse(text("problems") || "[]") as StoredBatch["problems"],
    ...{ total: number("total"), submitted: number("submitted"), lane: number("lane") },
    ...{ completed: number("completed"), failed: number("failed"), unanswered: number("unanswered") },
    ...{ inputTokens: number("inputTokens"), cachedTokens: number("cachedTokens") },
    ...{ outputTokens: number("outputTokens"), reasoningTokens: number("reasoningTokens") },
    ...{ underWay: number("underWay"), rate: number("rate"), problem: text("problem") },
  };
}
