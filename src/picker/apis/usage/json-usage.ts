import type { ByteRange } from "../../../base/inference/request.ts";
import { JsonMembers } from "../json/members.ts";
import { asBuffer, readCount } from "../json/ranges.ts";
import { JsonScanner } from "../json/scanner.ts";
import { NO_USAGE, type Usage, type UsageReader, usageFromValue, withTotal } from "./usage.ts";

/** Bytes; the reader does not decode a longer `usage` member. Real ones have a few hundred bytes. */
export const MAX_USAGE_BYTES = 16 * 1024;

const document = new JsonMembers(["usage", "response", "message", "meta_info"]);
const wrapper = new JsonMembers(["usage"]);
const metaInfo = new JsonMembers(["prompt_tokens", "completion_tokens", "cached_tokens"]);

/**
 * Returns the usage in a JSON document: a complete answer, or the data of one server-sent event. The function searches `usage`,
 * then `response.usage` (Responses API), then `message.usage` (Anthropic's first event), then `meta_info` (SGLang's own API).
 * `null` counts as absent (epp-protocol 12). It scans the document in place and decodes only the usage.
 *
 * @returns undefined when the document is not a valid JSON object or has no usage
 */
export function usageFromJson(body: Uint8Array): Usage | undefined {
  if (document.read(new JsonScanner(body)) !== undefined) return undefined;
  if (document.has("usage")) return decode(body, document.range("usage"));
  for (const name of ["response", "message"] as const) {
    if (document.kind(name) !== "object") continue;
    const { start, end } = document.range(name);
    const inner = body.subarray(start, end);
    wrapper.read(new JsonScanner(inner));
    if (wrapper.has("usage")) return decode(inner, wrapper.range("usage"));
  }
  return document.kind("meta_info") === "object" ? readMetaInfo(body, document.range("meta_info")) : undefined;
}

/** Reads only the counts: the object may also hold log probabilities of every token, too much to decode. */
function readMetaInfo(body: Uint8Array, { start, end }: ByteRange): Usage | undefined {
  const inner = body.subarray(start, end);
  metaInfo.read(new JsonScanner(inner));
  const count = (name: "prompt_tokens" | "completion_tokens" | "cached_tokens"): number => {
    if (metaInfo.kind(name) !== "number") return Number.NaN;
    const range = metaInfo.range(name);
    return readCount(inner, range.start, range.end);
  };
  const promptTokens = count("prompt_tokens");
  const completionTokens = count("completion_tokens");
  if (Number.isNaN(promptTokens) && Number.isNaN(completionTokens)) return undefined;
  return { ...NO_USAGE, promptTokens, completionTokens, cachedTokens: count("cached_tokens") };
}

/** The most places at which `usageAtEnd` tries to read a usage. A schema of a tool may have members of that name. */
const MOST_TRIES = 8;
const USAGE_KEY = '"usage"';

/**
 * Reads the last usage in the end of a document whose beginning is unknown. Inside a string the name has escaped quotes, so text
 * is never taken for a usage.
 */
export function usageAtEnd(end: Uint8Array): Usage | undefined {
  const bytes = asBuffer(end);
  const scanner = new JsonScanner(bytes);
  let at = bytes.lastIndexOf(USAGE_KEY);
  for (let tries = 0; at >= 0 && tries < MOST_TRIES; tries++) {
    const start = scanner.skipColon(at + USAGE_KEY.length);
    const stop = start < 0 ? -1 : scanner.skipValue(start);
    const usage = stop < 0 ? undefined : decode(bytes, { start, end: stop });
    if (usage !== undefined || at === 0) return usage;
    at = bytes.lastIndexOf(USAGE_KEY, at - 1);
  }
  return undefined;
}

function decode(body: Uint8Array, { start, end }: ByteRange): Usage | undefined {
  if (end - start > MAX_USAGE_BYTES) return undefined;
  return usageFromValue(JSON.parse(asBuffer(body).toString("utf8", start, end)));
}

/** Bytes; Sluice does not read the usage of a longer answer (docs/spec/decisions.md#response-body). */
export const MAX_OBSERVED_BODY = 4 * 1024 * 1024;

/** Reads the usage of an answer that is one JSON document, at its end. It keeps references to the chunks until then. */
export class JsonUsageReader implements UsageReader {
  /** Undefined after the document was read or dropped. */
  #chunks: Uint8Array[] | undefined = [];
  #length = 0;
  #usage: Usage | undefined;

  get usage(): Usage | undefined {
    return this.#usage;
  }

  get holding(): boolean {
    return this.#chunks !== undefined;
  }

  feed(chunk: Uint8Array): void {
    if (this.#chunks === undefined || chunk.length === 0) return;
    this.#length += chunk.length;
    if (this.#length > MAX_OBSERVED_BODY) this.drop();
    else this.#chunks.push(chunk);
  }

  finish(): void {
    const chunks = this.#chunks;
    this.#chunks = undefined;
    if (chunks === undefined || chunks.length === 0) return;
    const usage = usageFromJson(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
    this.#usage = usage === undefined ? undefined : withTotal(usage);
  }

  drop(): void {
    this.#chunks = undefined;
  }
}
