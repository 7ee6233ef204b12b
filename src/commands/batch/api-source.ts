import { z } from "zod";
import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, oneLine, SluiceError } from "../../base/inference/errors.ts";
import { type BatchSource, isRunning, type ShownBatch, type ShownBatches, type ShownGate } from "./source.ts";

/** Milliseconds for one answer. */
const TIMEOUT = 10_000;
/** Bytes of the longest answer: 100 batches with 100 problems each. */
const MOST_BYTES = 16 * 1024 * 1024;

const count = z.number().min(0);
const problem = z.object({
  code: z.string().default(""),
  line: z.number().nullish(),
  message: z.string().default(""),
  param: z.string().nullish(),
});
const batchAnswer = z.object({
  ...{ id: z.string(), status: z.string(), endpoint: z.string(), created_at: z.number(), input_file_id: z.string() },
  ...{ expires_at: z.number().nullish(), output_file_id: z.string().nullish(), error_file_id: z.string().nullish() },
  errors: z.object({ data: z.array(problem).nullish() }).nullish(),
  request_counts: z.object({ total: count, completed: count, failed: count }).nullish(),
  usage: z
    .object({
      ...{ input_tokens: count, output_tokens: count },
      input_tokens_details: z.object({ cached_tokens: count.default(0) }).nullish(),
      output_tokens_details: z.object({ reasoning_tokens: count.default(0) }).nullish(),
    })
    .nullish(),
});
const listAnswer = z.object({ data: z.array(batchAnswer), has_more: z.boolean().default(false) });
const progressAnswer = z.object({
  ...{
    under_way: count,
    lines_per_second: count,
    eta_seconds: count.nullable(),
    makes_deadline: z.boolean().nullable(),
  },
  gate: z.object({ state: z.string(), reason: z.string() }),
  problem: z.string().nullable(),
});
const errorAnswer = z.object({ error: z.object({ message: z.string() }) });

type BatchAnswer = z.output<typeof batchAnswer>;
type ProgressAnswer = z.output<typeof progressAnswer>;

/** The batches of one caller at a server of the Batch API. */
export class ApiSource implements BatchSource {
  readonly #base: string;
  readonly #key: string | undefined;
  readonly #clock: Clock;
  readonly #fetch: typeof fetch;

  /** @param url absolute, http or https, with or without /v1 at its end @param key a legal header value; undefined = none */
  constructor(url: string, key: string | undefined, clock: Clock, send = fetch) {
    this.#fetch = send;
    this.#base = `${url.replace(/\/+$/, "").replace(/\/v1$/, "")}/v1/batches`;
    this.#key = key;
    this.#clock = clock;
  }

  async list(limit: number): Promise<ShownBatches> {
    const { data, has_more: hasMore } = parsed(listAnswer, await this.#ask("GET", `?limit=${limit}`));
    const batches: ShownBatch[] = [];
    let gate: ShownGate | undefined;
    for (const batch of data) {
      const progress = isRunning(batch) ? await this.#progress(batch.id) : undefined;
      gate ??= progress?.gate;
      batches.push(shown(batch, progress));
    }
    return { batches, hasMore, gate };
  }

  async get(id: string): Promise<{ readonly batch: ShownBatch; readonly gate: ShownGate | undefined }> {
    const batch = parsed(batchAnswer, await this.#ask("GET", `/${encodeURIComponent(id)}`));
    const progress = isRunning(batch) ? await this.#progress(id) : undefined;
    return { batch: shown(batch, progress), gate: progress?.gate };
  }

  async cancel(id: string): Promise<string> {
    return parsed(batchAnswer, await this.#ask("POST", `/${encodeURIComponent(id)}/cancel`)).status;
  }

  close(): void {}

  /** Undefined from a server that has no such path. */
  async #progress(id: string): Promise<ProgressAnswer | undefined> {
    const answer = await this.#send("GET", `/${encodeURIComponent(id)}/progress`);
    return answer.status === 404 ? undefined : parsed(progressAnswer, accepted(answer));
  }

  async #ask(method: string, path: string): Promise<unknown> {
    return accepted(await this.#send(method, path));
  }

  async #send(method: string, path: string): Promise<Answer> {
    const late = new AbortController();
    const timer = this.#clock.after(TIMEOUT, () => late.abort(new Error(`no answer within ${TIMEOUT / 1000} s`)));
    try {
      const headers = this.#key === undefined ? {} : { authorization: `Bearer ${this.#key}` };
      // A redirect would carry the key to another server.
      const response = await this.#fetch(this.#base + path, {
        method,
        headers,
        redirect: "manual",
        signal: late.signal,
      });
      return { status: response.status, value: await jsonOf(response) };
    } catch (error) {
      // The error of `fetch` says little; its cause says what happened.
      const { cause } = error as { readonly cause?: Error & { readonly code?: string } };
      const reason = cause?.message || cause?.code || messageOf(error);
      throw new SluiceError("BATCH_API_UNREACHABLE", `${new URL(this.#base).origin} does not answer: ${reason}`);
    } finally {
      timer.cancel();
    }
  }
}

interface Answer {
  readonly status: number;
  /** Undefined = no JSON. */
  readonly value: unknown;
}

async function jsonOf(response: Response): Promise<unknown> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    size += piece.length;
    if (size > MOST_BYTES) throw new Error(`the answer is longer than ${MOST_BYTES} bytes`);
    pieces.push(piece);
  }
  try {
    return JSON.parse(Buffer.concat(pieces).toString());
  } catch {
    return undefined;
  }
}

/** @throws SluiceError BATCH_API_REFUSED, BATCH_API_UNREACHABLE for a fault of the server that may pass */
function accepted({ status, value }: Answer): unknown {
  if (status === 200) return value;
  const { data } = errorAnswer.safeParse(value);
  const reason = data === undefined ? "" : `: ${oneLine(data.error.message).slice(0, 500)}`;
  const code = status >= 500 ? "BATCH_API_UNREACHABLE" : "BATCH_API_REFUSED";
  throw new SluiceError(code, `the server answers with ${status}${reason}`);
}

/** @throws SluiceError BATCH_API_REFUSED where the answer is not of a Batch API */
function parsed<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new SluiceError("BATCH_API_REFUSED", "the server answers, but not as a Batch API; check the address of --url");
}

function shown(batch: BatchAnswer, progress: ProgressAnswer | undefined): ShownBatch {
  const { id, status, endpoint, request_counts: counts, usage } = batch;
  return {
    ...{ id, caller: undefined, status, endpoint, createdAt: batch.created_at },
    expiresAt: batch.expires_at ?? undefined,
    ...{ total: counts?.total ?? 0, completed: counts?.completed ?? 0, failed: counts?.failed ?? 0 },
    inputTokens: usage?.input_tokens ?? 0,
    cachedTokens: usage?.input_tokens_details?.cached_tokens ?? 0,
    outputTokens: usage?.output_tokens ?? 0,
    reasoningTokens: usage?.output_tokens_details?.reasoning_tokens ?? 0,
    inputFile: batch.input_file_id,
    outputFile: batch.output_file_id ?? undefined,
    errorFile: batch.error_file_id ?? undefined,
    problems: (batch.errors?.data ?? []).map(({ code, line, message, param }) => ({
      ...{ code, line: line ?? null, message, param: param ?? null },
    })),
    pace: progress && {
      underWay: progress.under_way,
      linesPerSecond: progress.lines_per_second,
      etaSeconds: progress.eta_seconds,
      makesIt: progress.makes_deadline,
    },
    problem: progress?.problem ?? undefined,
  };
}
