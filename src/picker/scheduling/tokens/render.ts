import type { Clock } from "../../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import { type HeaderList, requestPath, withoutQuery } from "../../../base/inference/headers.ts";
import type { InferenceRequest } from "../../../base/inference/request.ts";
import type { MediaSpan, TokenizedPrompt } from "../../../base/plugin/keys.ts";
import { MAX_PARTS, mediaParts } from "./media-parts.ts";
import { TokenBuffer } from "./token-buffer.ts";

/** The most bytes of one answer. A token takes about seven bytes in a list; features of images come in addition. */
export const MAX_RENDER_BYTES = 16 * 2 ** 20;
/** The most bytes of all running calls, requests and answers together. */
export const MAX_BYTES_UNDER_WAY = 128 * 2 ** 20;

export interface RenderOptions {
  /** Without a slash at the end. */
  readonly url: string;
  /** Milliseconds for a request with text only. */
  readonly timeout: number;
  /** Milliseconds for a request with images, videos or sounds, which the server may have to fetch. */
  readonly mmTimeout: number;
  /** The model name in the request to the render server; undefined = the client's name. */
  readonly modelName: string | undefined;
}

/**
 * Asks a vLLM render server for the tokens of a prompt (scheduling 3.11). The client sends only the body of a request, and only
 * to the configured address (a redirect is a failure). Error messages never quote the server's answer, because it may hold
 * parts of prompts.
 */
export class RenderClient {
  readonly #options: RenderOptions;
  readonly #clock: Clock;
  #bytes = 0;

  constructor(options: RenderOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** Bytes of the running calls, at most `MAX_BYTES_UNDER_WAY`. */
  get bytesUnderWay(): number {
    return this.#bytes;
  }

  /**
   * @returns undefined for APIs that render servers do not support, and for prompts without tokens
   * @throws SluiceError RENDER_FAILED, RENDER_STATUS, RENDER_ANSWER, RENDER_TIMEOUT, RENDER_LIMIT; the signal's reason
   */
  async tokens(request: InferenceRequest, signal: AbortSignal): Promise<TokenizedPrompt | undefined> {
    const path = renderPath(request.headers);
    if (path === undefined) return undefined;
    const { timeout, mmTimeout } = this.#options;
    const limit = mediaParts(request).length > 0 ? mmTimeout : timeout;
    const late = new AbortController();
    const timer = this.#clock.after(limit, () =>
      late.abort(new SluiceError("RENDER_TIMEOUT", `no answer from ${this.#options.url} within ${limit} ms`)),
    );
    try {
      return renderedTokens(await this.#ask(path, request, AbortSignal.any([signal, late.signal])));
    } finally {
      timer.cancel();
    }
  }

  async #ask(path: string, request: InferenceRequest, signal: AbortSignal): Promise<unknown> {
    const { url, modelName } = this.#options;
    const body = modelName === undefined ? request.body : withModel(request, modelName);
    let taken = 0;
    const take = (bytes: number): void => {
      if (this.#bytes + bytes > MAX_BYTES_UNDER_WAY)
        throw new SluiceError("RENDER_LIMIT", `more than ${MAX_BYTES_UNDER_WAY} bytes of prompts wait for ${url}`);
      this.#bytes += bytes;
      taken += bytes;
    };
    try {
      take(body.length);
      const response = await fetch(url + path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: body as Uint8Array<ArrayBuffer>,
        redirect: "error",
        signal,
      });
      if (!response.ok) {
        await response.body?.cancel();
        throw new SluiceError("RENDER_STATUS", `${url}${path} answered with status ${response.status}`);
      }
      return parse(await read(response, take), url + path);
    } catch (error) {
      if (error instanceof SluiceError) throw error;
      signal.throwIfAborted();
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      throw new SluiceError("RENDER_FAILED", `no answer from ${url}${path}: ${messageOf(cause)}`);
    } finally {
      this.#bytes -= taken;
    }
  }
}

/** Returns the whole answer. @param take called with the size of each piece before the piece is kept */
async function read(response: Response, take: (bytes: number) => void): Promise<string> {
  const pieces: string[] = [];
  if (response.body === null) return "";
  const decoder = new TextDecoder();
  let length = 0;
  // An error that leaves the loop cancels the stream and closes the connection.
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return pieces.join("") + decoder.decode();
      length += value.length;
      if (length > MAX_RENDER_BYTES)
        throw new SluiceError("RENDER_ANSWER", `${response.url} answers with more than ${MAX_RENDER_BYTES} bytes`);
      take(value.length);
      pieces.push(decoder.decode(value, { stream: true }));
    }
  } catch (error) {
    reader.cancel(error).catch(() => {});
    throw error;
  }
}

function parse(text: string, url: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new SluiceError("RENDER_ANSWER", `${url} answers with a text that is not JSON`);
  }
}

/** Returns the path that renders a request of that API; undefined = none. */
function renderPath(headers: HeaderList): string | undefined {
  const path = withoutQuery(requestPath(headers));
  const api = path.endsWith("/render") ? path.slice(0, -"/render".length) : path;
  if (api.endsWith("/chat/completions")) return "/v1/chat/completions/render";
  return api.endsWith("/completions") ? "/v1/completions/render" : undefined;
}

/** Returns the body with another value of its member `model`. */
function withModel({ body, modelRange, modelInsertAt }: InferenceRequest, model: string): Uint8Array {
  if (modelRange === undefined && modelInsertAt < 0) return body;
  const start = modelRange?.start ?? modelInsertAt;
  const end = modelRange?.end ?? modelInsertAt;
  // Each body with a prompt has another member after the inserted one, so the comma is right.
  const name = modelRange === undefined ? `"model":${JSON.stringify(model)},` : JSON.stringify(model);
  const bytes = new TextEncoder().encode(name);
  const changed = new Uint8Array(body.length - (end - start) + bytes.length);
  changed.set(body.subarray(0, start));
  changed.set(bytes, start);
  changed.set(body.subarray(end), start + bytes.length);
  return changed;
}

const MAX_TOKEN = 2 ** 32 - 1;

/**
 * Returns the tokens in a render server's answer. Newer servers answer with one object for a chat and a list of objects for
 * completions, with the tokens in `token_ids`. Earlier ones answer with `[conversation, [prompt]]` and `[prompt, ...]`, with
 * the tokens in `prompt_token_ids`.
 *
 * All images have the same placeholder token. Each gets another token, made from the image's hash, so that prompts with
 * different images differ. `media` keeps the placeholders, which engines hash together with the image's hash.
 *
 * @returns one prompt per object; undefined when there are no tokens at all
 * @throws SluiceError RENDER_ANSWER for anything else
 */
export function renderedTokens(answer: unknown): TokenizedPrompt | undefined {
  const media: MediaSpan[] = [];
  const lists = prompts(answer).map((prompt, at) => tokenList(prompt, at, media));
  const buffer = new TokenBuffer(lists.reduce((sum, list) => sum + list.length, 0));
  for (const list of lists) {
    buffer.beginPrompt();
    for (const token of list) {
      if (!(Number.isInteger(token) && token >= 0 && token <= MAX_TOKEN))
        throw malformed("a token that is not a number");
      buffer.add(token);
    }
  }
  const tokenized = buffer.finish();
  return tokenized === undefined || media.length === 0 ? tokenized : { ...tokenized, media };
}

function prompts(answer: unknown): readonly unknown[] {
  if (!Array.isArray(answer)) return [answer];
  // A conversation is an array of messages; prompts are objects.
  return answer.length === 2 && Array.isArray(answer[0]) && Array.isArray(answer[1]) ? answer[1] : answer;
}

/** @param media receives the images, videos and sounds of the prompt */
function tokenList(prompt: unknown, at: number, media: MediaSpan[]): readonly number[] {
  if (typeof prompt !== "object" || prompt === null) throw malformed("a value that is not a prompt");
  const { token_ids: current, prompt_token_ids: earlier } = prompt as Record<string, unknown>;
  const tokens = current ?? earlier;
  if (!Array.isArray(tokens)) throw malformed("a prompt without token_ids");
  const spans = mediaIn(tokens, (prompt as { features?: unknown }).features, at);
  for (const { offset, tokens: own, hash } of spans) tokens.fill(fnv1a(hash), offset, offset + own.length);
  media.push(...spans.slice(0, Math.max(0, MAX_PARTS - media.length)));
  return tokens;
}

/**
 * @param features `mm_hashes` and `mm_placeholders`, each a list per modality; the function ignores anything of another shape
 * @returns the parts in the order of their places, none of which overlaps the one before
 */
function mediaIn(tokens: readonly unknown[], features: unknown, prompt: number): MediaSpan[] {
  const spans: MediaSpan[] = [];
  const { mm_hashes: hashes, mm_placeholders: placeholders } = objectOf(features);
  for (const [modality, places] of Object.entries(objectOf(placeholders))) {
    const names = objectOf(hashes)[modality];
    if (!Array.isArray(names) || !Array.isArray(places)) continue;
    for (const [i, place] of places.entries()) {
      const { offset, length } = objectOf(place);
      if (typeof names[i] !== "string" || typeof offset !== "number" || typeof length !== "number") continue;
      if (!(Number.isInteger(offset) && Number.isInteger(length) && offset >= 0 && length > 0)) continue;
      const own = tokens.slice(offset, offset + length);
      if (own.length > 0) spans.push({ prompt, offset, tokens: Uint32Array.from(own as number[]), hash: names[i] });
    }
  }
  spans.sort((a, b) => a.offset - b.offset);
  let end = 0;
  return spans.filter(({ offset, tokens: { length } }) => {
    if (offset < end) return false;
    end = offset + length;
    return true;
  });
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** The 32-bit hash of Fowler, Noll and Vo, over UTF-16 units. Its input is already a good hash. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

function malformed(what: string): SluiceError {
  return new SluiceError("RENDER_ANSWER", `the render server answers with ${what}`);
}
