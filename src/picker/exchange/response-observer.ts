import type { Clock } from "../../base/clock/clock.ts";
import type { HeaderList } from "../../base/inference/headers.ts";
import type { AnswerFormat, InferenceRequest } from "../../base/inference/request.ts";
import { MAX_OBSERVED_BODY } from "../apis/usage/json-usage.ts";
import type { Usage, UsageReader } from "../apis/usage/usage.ts";
import { usageReaderFor } from "../apis/usage/usage-reader.ts";
import type { HeldBytes } from "./held-bytes.ts";

/** The beginning of an event stream: a field, or a comment. No JSON begins like this. */
const EVENT_FIELD = /^(data|event|id|retry)?:/;
const LONGEST_FIELD = "event:".length;

/** Answers that are one gRPC message, unless the request asks for a stream. */
const SINGLE_ANSWERS: ReadonlySet<AnswerFormat> = new Set(["vllm-generate", "vllm-embed"]);

/** Measures times, sizes and usage of a response from the bytes that pass. Holds back no byte. */
export class ResponseObserver {
  /** The format of the answer; known once the request was understood. */
  format: AnswerFormat = "http";
  /** The answer is one gRPC message: Sluice returns it as a whole, like a JSON document (epp-protocol appendix B). */
  single = false;
  status = 0;
  /** Monotonic ms of the response headers; NaN before them. */
  headersAt = Number.NaN;
  /** Milliseconds that Sluice spent on handling chunks. */
  handling = 0;
  /** Monotonic ms of the first non-empty chunk; NaN before it. */
  firstByteAt = Number.NaN;
  bytes = 0;
  /** Non-empty chunks so far. */
  chunks = 0;
  /** Calls of `pass`. */
  #passes = 0;
  /** Lower case. */
  contentType = "";
  /** Whether the body is compressed: Sluice passes it on but cannot read it. */
  isEncoded = false;
  #lastChunkAt = Number.NaN;
  /** Undefined before the first need, and where the answer holds no usage. */
  #reader: UsageReader | undefined;
  #ready = false;
  /** The body is complete, or the observer dropped it. */
  #over = false;

  /** Usage as known so far. */
  get usage(): Usage | undefined {
    return this.#reader?.usage;
  }

  /**
   * The number of tokens that the model server counted in a text prompt. Only a successful answer of the model server counts.
   * @param path of the request
   * @returns undefined where the answer has no count, or where the API leaves some tokens out of it
   */
  countedPromptTokens(path: string): number | undefined {
    const { usage } = this;
    if (usage === undefined || !this.succeeded) return undefined;
    // Anthropic's API leaves cached tokens out of the input tokens. The answer does not show whether a model server does so.
    return usage.cachedTokens > 0 && path.endsWith("/messages") ? undefined : usage.promptTokens;
  }

  /** Whether Sluice keeps the passing bytes to the end: for their usage, or because they are one gRPC message. */
  get holding(): boolean {
    if (this.single) return !this.#over && this.bytes <= MAX_OBSERVED_BODY;
    return this.#readerNow()?.holding ?? false;
  }

  /** Sets the format of the answer, once the request was understood. */
  expect({ answerFormat, streaming }: Pick<InferenceRequest, "answerFormat" | "streaming">): void {
    this.format = answerFormat;
    this.single = !streaming && SINGLE_ANSWERS.has(answerFormat);
  }

  /** @param now monotonic ms */
  headers(status: number, headers: HeaderList, now: number): void {
    this.status = status;
    this.headersAt = now;
    this.contentType = (headers.get("content-type") ?? "").toLowerCase();
    const encoding = headers.get("content-encoding") ?? "";
    this.isEncoded = encoding !== "" && encoding.toLowerCase() !== "identity";
  }

  /**
   * The proxy shows only the body (`response_header_mode: SKIP`). So the answer counts as successful, and its first bytes show
   * whether it is an event stream.
   * @param chunk the first chunk of the body that is not empty
   * @param now monotonic ms
   */
  beginWithoutHeaders(chunk: Uint8Array, now: number): void {
    this.status = 200;
    this.headersAt = now;
    const start = String.fromCharCode(...chunk.subarray(0, LONGEST_FIELD));
    if (EVENT_FIELD.test(start)) this.contentType = "text/event-stream";
  }

  /** Whether the headers have arrived, or the body began without them. */
  get begun(): boolean {
    return !Number.isNaN(this.headersAt);
  }

  get isEventStream(): boolean {
    return this.contentType.includes("text/event-stream");
  }

  /** True also for status 101, a change of protocol: no answer follows that could say more. */
  get succeeded(): boolean {
    return (this.status >= 200 && this.status < 300) || this.status === 101;
  }

  /**
   * @param now monotonic ms
   * @param parts so many chunks came together in this one
   * @returns milliseconds since the previous non-empty chunk; NaN for the first one and for an empty one
   */
  chunk(chunk: Uint8Array, end: boolean, now: number, parts = 1): number {
    let gap = Number.NaN;
    if (chunk.length > 0) {
      if (this.chunks === 0) this.firstByteAt = now;
      else gap = now - this.#lastChunkAt;
      this.#lastChunkAt = now;
      this.chunks += parts;
      this.bytes += chunk.length;
      this.#readerNow()?.feed(chunk);
    }
    if (end) this.finish();
    return gap;
  }

  /**
   * One chunk of the answer: measures it, and keeps the account of the bytes that wait for their usage.
   * @param held the byte budget of the exchange
   * @returns as `chunk`
   */
  pass(chunk: Uint8Array, end: boolean, clock: Clock, held: HeldBytes, parts = 1): number {
    const { holding } = this;
    if (holding && chunk.length > 0 && !held.tryKeep(chunk.length)) this.drop();
    const now = clock.now();
    const gap = this.chunk(chunk, end, now, parts);
    // The answer was dropped or is complete: bytes that are only passed on do not count in the budget.
    if (holding && !this.holding) held.release();
    // A second read of the clock costs as much as the rest of the handling of a chunk. So the time of one chunk in sixteen
    // counts for all.
    if ((this.#passes++ & 15) === 0) this.handling += 16 * (clock.now() - now);
    return gap;
  }

  /** Reads the usage of the complete body. Later calls do nothing. */
  finish(): void {
    this.#over = true;
    this.#reader?.finish();
  }

  /** Drops the body without reading it. */
  drop(): void {
    this.#over = true;
    this.#readerNow()?.drop();
  }

  #readerNow(): UsageReader | undefined {
    if (!this.#ready && this.begun) {
      this.#ready = true;
      if (!this.isEncoded) this.#reader = usageReaderFor(this.format, this.contentType);
    }
    return this.#reader;
  }
}

/** The beginnings of Envoy's own answer to a failed upstream connection (D-85). */
const BEGINNINGS = ["upstream connect error", "no healthy upstream"];

/**
 * Whether a response is the proxy's own answer, because the proxy could not reach the endpoint.
 * @param chunk the first bytes of its body
 */
export function isProxyFailure(response: ResponseObserver, chunk: Uint8Array): boolean {
  if (response.status !== 503 || !response.contentType.startsWith("text/plain")) return false;
  const text = Buffer.from(chunk.buffer, chunk.byteOffset, Math.min(chunk.length, 64)).toString("latin1");
  return BEGINNINGS.some((start) => text.startsWith(start));
}
