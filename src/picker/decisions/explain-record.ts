import { z } from "zod";
import { isObject } from "../../base/document/json-object.ts";
import { readDocument } from "../../base/document/read.ts";
import { explainIssue, validate } from "../../base/document/validate.ts";
import { LEAST_BYTES_PER_TOKEN, MOST_BYTES_PER_TOKEN } from "../../base/inference/bytes-per-token.ts";
import type { DecisionRecord, FullRecord } from "../../base/inference/decision-record.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { OUTCOMES, type OutcomeReason } from "../../base/inference/outcomes.ts";
import { USUAL_BYTES_PER_TOKEN } from "../../base/inference/request.ts";

/** The largest file in bytes: about ten thousand endpoints. */
const MAX_BYTES = 16 * 1024 * 1024;

/** The largest distance of a date from 1970 in milliseconds, before or after (ECMAScript 21.4.1.1). */
const LATEST = 8.64e15;

/** A record with its `full` part. */
export type RecordInFull = DecisionRecord & { readonly full: FullRecord };

/**
 * Returns a record as JSON from which `readRecord` makes the same one, bit by bit. JSON lacks NaN, the infinities and -0, so
 * they become texts; sets become lists, maps become objects.
 */
export function recordJson(record: DecisionRecord): string {
  return JSON.stringify(record, (_key, value: unknown) => {
    if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0) ? value : wordFor(value);
    if (value instanceof Map) return Object.fromEntries(value);
    return value instanceof Set ? [...value] : value;
  });
}

function wordFor(value: number): string {
  return value === 0 ? "-0" : String(value);
}

/** Reads a file that `sluice explain --full` has printed. @throws SluiceError DOCUMENT_..., RECORD_NOT_FULL */
export async function readRecord(path: string): Promise<RecordInFull> {
  const document = await readDocument(path, { maxBytes: MAX_BYTES });
  if (!isObject(document.value) || !Object.hasOwn(document.value, "sequence"))
    throw new SluiceError(
      "DOCUMENT_INVALID",
      `${path} contains no decision record: save the output of sluice explain ID --full`,
    );
  const { full, ...record } = validate(document, recordSchema, { what: "decision record" });
  if (full === undefined)
    throw new SluiceError(
      "RECORD_NOT_FULL",
      `${path} explains a decision, but lacks data that the decision used: save the output of sluice explain ID --full`,
    );
  return { ...record, full };
}

/**
 * Returns the record in a JSON value that `recordJson` wrote, full or not.
 * @returns a text with the problem for any other value
 */
export function recordOf(value: unknown): DecisionRecord | string {
  const { success, data, error } = recordSchema.safeParse(value, { reportInput: true, error: explainIssue });
  if (success) return data;
  const { path, message } = error.issues[0]!;
  return `no decision record of this version: ${path.map(String).join(".")} ${message}`;
}

const number = z.union([
  z.number(),
  z.enum(["NaN", "Infinity", "-Infinity", "-0"]).transform((word): number => Number(word)),
]);
const numbers = z.array(number);
const count = z.int().min(0);
const adapters = z.array(z.string()).transform((names): ReadonlySet<string> => new Set(names));
const attributes = z
  .record(z.string(), number)
  .transform((values): ReadonlyMap<string, number> => new Map(Object.entries(values)));
const REASONS = Object.keys(OUTCOMES) as [OutcomeReason, ...OutcomeReason[]];

const endpointSchema = z
  .object({
    id: z.string(),
    slot: count,
    namespace: z.string(),
    name: z.string(),
    address: z.string(),
    port: z.int(),
    hostPort: z.string(),
    rank: z.int(),
    labels: z.record(z.string(), z.string()),
    state: z.enum(["up", "blind", "down"]),
    scrapeInterval: number,
    inFlight: z.object({ requests: number, tokens: number }),
    metrics: z.object({
      waiting: number,
      running: number,
      kvUsage: number,
      maxLora: number,
      loraRunning: adapters,
      loraWaiting: adapters,
      blockSize: number,
      blocks: number,
      attributes: attributes.optional(),
      scrapedAt: number,
    }),
    attributes: attributes.optional(),
    listedModels: z.array(z.string()).optional(),
    node: z.string().optional(),
    droppedBy: z.string().optional(),
    total: number,
    scores: numbers,
  })
  .transform(({ metrics: { attributes, ...metrics }, ...endpoint }) => ({
    ...endpoint,
    // An absent field stays absent.
    metrics: attributes === undefined ? metrics : { ...metrics, attributes },
    droppedBy: endpoint.droppedBy,
  }));

const fullSchema = z
  .object({
    now: number,
    randomState: z.int().min(0).max(0xffffffff),
    memories: z.record(z.string(), number),
    request: z.object({
      objective: z.string(),
      fairnessId: z.string(),
      streaming: z.boolean(),
      maxTokens: number,
      shedAt: number,
      promptBytes: count,
      // Records of earlier releases lack these two fields.
      escapeBytes: count.default(0),
      bytesPerToken: z.number().min(LEAST_BYTES_PER_TOKEN).max(MOST_BYTES_PER_TOKEN).default(USUAL_BYTES_PER_TOKEN),
      headers: z.array(z.tuple([z.string(), z.string()])),
    }),
    staleness: number,
    endpoints: z.array(endpointSchema),
    screened: z.array(count),
    columns: z.record(z.string(), numbers),
    attributes: z.record(z.string(), z.union([z.boolean(), number, z.null()])),
  })
  .superRefine(({ endpoints, screened, columns }, context) => {
    if (screened.some((place) => place >= endpoints.length) || new Set(screened).size < screened.length)
      context.addIssue({
        code: "custom",
        path: ["screened"],
        message: "names an endpoint twice, or one that is not there",
      });
    for (const [name, column] of Object.entries(columns))
      if (column.length !== screened.length)
        context.addIssue({
          code: "custom",
          path: ["columns", name],
          message: `has ${column.length} numbers for ${screened.length} endpoints`,
        });
  });

const recordSchema = z
  .object({
    sequence: z.int().min(1),
    requestId: z.string(),
    at: z.number().min(-LATEST).max(LATEST),
    model: z.string(),
    targetModel: z.string(),
    priority: z.number(),
    promptBytes: number,
    configHash: z.string(),
    profile: z.string(),
    picker: z.string(),
    pickerByChance: z.boolean(),
    candidates: count,
    excludedDown: count,
    filters: z.array(z.object({ name: z.string(), dropped: count, ids: z.array(z.string()) })),
    scorers: z.array(z.object({ name: z.string(), weight: number })),
    // Records of earlier releases lack this field.
    failed: z.array(z.string()).default([]),
    late: z.array(z.string()).optional(),
    top: z.array(
      z.object({
        id: z.string(),
        hostPort: z.string(),
        total: number,
        scores: numbers,
        waiting: number,
        running: number,
        kvUsage: number,
        inFlight: number,
        peers: z.object({ inFlight: number, ageMs: number, unseen: number }).optional(),
        ageMs: number,
        stale: z.boolean(),
        state: z.string(),
      }),
    ),
    tied: count,
    others: z.array(z.object({ profile: z.string(), id: z.string() })),
    refusal: z.object({ reason: z.enum(REASONS), detail: z.string() }).optional(),
    served: z.union([z.literal("nobody"), z.object({ id: z.string(), hostPort: z.string() })]).optional(),
    queued: z
      .object({
        band: z.int(),
        fairnessId: z.string(),
        behind: count,
        waitedMs: number,
        saturation: number,
        ceiling: number,
      })
      .optional(),
    // Records of earlier releases lack this field.
    cache: z
      .object({ predicted: number, events: number, unconfirmed: number.optional(), reported: number, prompt: number })
      .optional(),
    peerBlocks: count.optional(),
    full: fullSchema.optional(),
  })
  .transform((record) => ({
    ...record,
    refusal: record.refusal,
    served: record.served,
    queued: record.queued,
    cache: record.cache,
    full: record.full,
  }));
