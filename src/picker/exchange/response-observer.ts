import type { HeaderList } from "../../base/inference/headers.ts";
import type { AnswerFormat, InferenceRequest } from "../../base/inference/request.ts";
import { MAX_OBSERVED_BODY } from "../apis/usage/json-usage.ts";
import type { Usage, UsageReader } from "../apis/usage/usage.ts";
import { usageReaderFor } from "../apis/usage/usage-reader.ts";

/** How an event stream begins: with a field, or with a comment. No JSON begins like this. */
const EVENT_FIELD = /^(data|event|id|retry)?:/;
const LONGEST_FIELD = "event:".length;

/** Answers that are one gRPC message, unless a stream was asked for. */
const SINGLE_ANSWERS: ReadonlySet<AnswerFormat> = new Set(["vllm-generate", "vllm-embed"]);

/** Times and sizes of a response, and its usage, seen from the bytes that pass by; holds back nothing. */
export class ResponseObserver {
  /** How the answer is read; known once the request was understood. */
  format: AnswerFormat = "http";
  /** The answer is one gRPC message: given back as a whole, as a JSON document is (epp-protocol appendix B). */
  single = false;
  status = 0;
  /** Monotonic ms of the response headers; NaN before them. */
  headersAt = Number.NaN;
  /** Milliseconds spent on handling chunks. */
  handling = 0;
  /** Monotonic ms of the first non-empty chunk; NaN before it. */
  firstByteAt = Number.NaN;
  bytes = 0;
  /** Non-empty chunks so far. */
  chunks = 0;
  /** Lower case. */
  contentType = "";
  /** Whether the body is compressed: it can be passed on, not read. */
  isEncoded = false;
  #lastChunkAt = Number.NaN;
  /** Undefined before the first need, and where there is nothing to read. */
  #reader: UsageReader | undefined;
  #ready = false;
  /** Complete, or given up. */
  #over = false;

  /** Usage as far as it is known now. */
  get usage(): Usage | undefined {
    return this.#reader?.usage;
  }

  /**
   * How many tokens the model server counted in a prompt that was text, in a successful answer of its own.
   * @param path of the request
   * @returns undefined where it did not count, or where the API leaves some of them out
   */
  countedPromptTokens(path: string): number | undefined {
    const { usage } = this;
    if (usage === undefined || !this.succeeded) return undefined;
    // Anthropic's API leaves what was read from the cache out of the input tokens; who follows it cannot be told.
    return usage.cachedTokens > 0 && path.endsWith("/messages") ? undefined : usage.promptTokens;
  }

  /** Whether the bytes that pass are kept to the end: for their usage, or because they are one message. */
  get holding(): boolean {
    if (this.single) return !this.#over && this.bytes <= MAX_OBSERVED_BODY;
    return this.#readerNow()?.holding ?? false;
  }

  /** The request was understood: how its answer is read. */
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
   * The proxy shows the body alone (`response_header_mode: SKIP`), so nothing says that the answer failed, and its first bytes say
   * whether it is a stream of events.
   * @param chunk the first one of the body that is not empty
   * @param now monotonic ms
   */
  beginWithoutHeaders(chunk: Uint8Array, now: number): void {
    this.status = 200;
    this.headersAt = now;
    const start = String.fromCharCode(...chunk.subarray(0, LONGEST_FIELD));
    if (EVENT_FIELD.test(start)) this.contentType = "text/event-stream";
  }

  /** Its headers are known, or the lack of them. */
  get begun(): boolean {
    return !Number.isNaN(this.headersAt);
  }

  get isEventStream(): boolean {
    return this.contentType.includes("text/event-stream");
  }

  /** Also when the server agreed to another protocol: then no answer follows that could say more. */
  get succeeded(): boolean {
    return (this.status >= 200 && this.status < 300) || this.status === 101;
  }

  /**
   * @param now monotonic ms
   * @returns milliseconds since the previous non-empty chunk; NaN for the first one and for an empty one
   */
  chunk(chunk: Uint8Array, end: boolean, now: number): number {
    let gap = Number.NaN;
    if (chunk.length > 0) {
      if (this.chunks === 0) this.firstByteAt = now;
      else gap = now - this.#lastChunkAt;
      this.#lastChunkAt = now;
      this.chunks++;
      this.bytes += chunk.length;
      this.#readerNow()?.feed(chunk);
    }
    if (end) this.finish();
    return gap;
  }

  /** The body is complete: its usage is known now. Later calls do nothing. */
  finish(): void {
    this.#over = true;
    this.#reader?.finish();
  }

  /** Forgets the body without reading it. */
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

/** How Envoy's own answer to a failed upstream connection begins (D-85). */
const BEGINNINGS = ["upstream connect error", "no healthy upstream"];

/**
 * Whether a response comes from the proxy, which could not reach the endpoint and answered in its place.
 * @param chunk the first bytes of its body
 */
export function isProxyFailure(response: ResponseObserver, chunk: Uint8Array): boolean {
  if (response.status !== 503 || !response.contentType.startsWith("text/plain")) return false;
  const text = Buffer.from(chunk.buffer, chunk.byteOffset, Math.min(chunk.length, 64)).toString("latin1");
  return BEGINNINGS.some((start) => text.startsWith(start));
}
