import type { HeaderList } from "../inference/headers.ts";
import { usageFromJson } from "./usage/json-usage.ts";
import { SseUsageReader } from "./usage/sse-usage.ts";
import type { Usage } from "./usage/usage.ts";

/** Bodies of non-streaming answers above this are passed through without usage (spec/decisions.md). */
const MAX_OBSERVED_BODY = 4 * 1024 * 1024;

/** Times and sizes of a response, and its usage, seen from the bytes that pass by; holds back nothing. */
export class ResponseObserver {
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
  contentType = "";
  #lastChunkAt = Number.NaN;
  #sse: SseUsageReader | undefined;
  /** Chunks of a non-streaming body, kept by reference until its end; undefined once given up. */
  #body: Uint8Array[] | undefined = [];
  #usage: Usage | undefined;

  /** Usage as far as it is known now. */
  get usage(): Usage | undefined {
    return this.#sse?.usage ?? this.#usage;
  }

  /** Whether the body is compressed: it can be passed on, not read. */
  isEncoded = false;

  /** Whether the bytes that pass are kept for their usage at the end. */
  get holding(): boolean {
    return this.#sse === undefined && this.#body !== undefined;
  }

  /** @param now monotonic ms */
  headers(status: number, headers: HeaderList, now: number): void {
    this.status = status;
    this.headersAt = now;
    this.contentType = headers.get("content-type") ?? "";
    const encoding = headers.get("content-encoding");
    this.isEncoded = encoding !== undefined && encoding !== "" && encoding !== "identity";
    if (this.isEncoded) this.#body = undefined;
    else if (this.isEventStream) this.#sse = new SseUsageReader();
  }

  get isEventStream(): boolean {
    return this.contentType.includes("text/event-stream");
  }

  get succeeded(): boolean {
    return this.status >= 200 && this.status < 300;
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
      if (this.#sse !== undefined) this.#sse.feed(chunk);
      else if (this.#body !== undefined) {
        if (this.bytes > MAX_OBSERVED_BODY) this.#body = undefined;
        else this.#body.push(chunk);
      }
    }
    if (end) this.finish();
    return gap;
  }

  /** The body is complete: reads the usage of a non-streaming answer. Later calls do nothing. */
  finish(): void {
    const body = this.#body;
    this.#body = undefined;
    this.#sse?.finish();
    if (this.#sse !== undefined || body === undefined || body.length === 0) return;
    this.#usage = usageFromJson(body.length === 1 ? body[0]! : Buffer.concat(body));
  }

  /** Forgets the body without reading it. */
  drop(): void {
    this.#body = undefined;
  }
}
