import type { Clock } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type HeaderList, requestPath, withoutQuery } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { TokenizedPrompt } from "../../base/plugin/keys.ts";
import type { MediaTokens, StartTokenizers, TokenizerSettings, Tokenizers } from "../../base/plugin/tokenizers.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { MAX_WAITING_BYTES } from "./lanes.ts";
import { ModelPaths } from "./model-paths.ts";
import type { TokenizedApi } from "./request-prompts.ts";
import { WorkerPool } from "./worker-pool.ts";

/**
 * The longest body in bytes, without the data of its media. Two MiB of random words take about as long as a worker may take for a
 * request.
 */
const MAX_BODY = 2 ** 20;

/** Starts tokenizers in worker threads. */
export const startTokenizers: StartTokenizers = (settings, { clock, log }) =>
  new ThreadedTokenizers(settings, clock, log);

class ThreadedTokenizers implements Tokenizers {
  readonly #modelName: string | undefined;
  readonly #paths: ModelPaths;
  readonly #pool: WorkerPool;
  /** Bytes of the bodies that wait for a search of the folders. */
  #searchingBytes = 0;
  #ready = false;

  constructor(settings: TokenizerSettings, clock: Clock, log: Logger) {
    const { modelName, workers, cacheBytes, chatTemplate } = settings;
    this.#modelName = modelName;
    this.#paths = new ModelPaths(settings, clock);
    this.#pool = new WorkerPool({
      ...{ clock, workers },
      settings: {
        ...{ cacheBytes, chatTemplate },
        format: settings.chatTemplateContentFormat,
        kwargs: settings.chatTemplateKwargs,
      },
    });
    void this.#load(log);
  }

  async tokens(
    request: InferenceRequest,
    media: readonly MediaTokens[],
    signal: AbortSignal,
  ): Promise<TokenizedPrompt | undefined> {
    const api = apiOf(request.headers);
    if (api === undefined) return undefined;
    const model = this.#modelName ?? request.targetModel;
    // The client may change or free the body while the folders are searched.
    const body = withoutMedia(request.body, media);
    const path = this.#paths.known(model) ?? (await this.#search(model, body.length, signal));
    if (path === undefined)
      throw new SluiceError("TOKENIZER_MODEL", `there is no tokenizer for the model ${named(model)}`);
    signal.throwIfAborted();
    return this.#pool.tokens(
      named(model),
      { path, api, body, media: media.map(({ token, count }) => ({ token, count })) },
      signal,
    );
  }

  ready(): boolean {
    return this.#ready;
  }

  close(): void {
    this.#pool.close();
  }

  state(): unknown {
    return { ...(this.#modelName === undefined ? {} : { modelName: this.#modelName }), ...this.#pool.state() };
  }

  /** Finds the files of a model. Volumes can be slow or hang, so the bodies that wait are bounded. */
  async #search(model: string, bytes: number, signal: AbortSignal): Promise<string | undefined> {
    if (this.#searchingBytes + bytes > MAX_WAITING_BYTES)
      throw new SluiceError(
        "TOKENIZER_FILE",
        "Sluice still searches the folders of tokenizers, and too many prompts wait",
      );
    this.#searchingBytes += bytes;
    try {
      return await this.#paths.of(model, signal);
    } finally {
      this.#searchingBytes -= bytes;
    }
  }

  /** Loads the tokenizer that all requests need. */
  async #load(log: Logger): Promise<void> {
    const path = this.#modelName === undefined ? undefined : await this.#paths.of(this.#modelName);
    if (path !== undefined) await this.#pool.load(path);
    else if (this.#modelName !== undefined)
      log.warn({ model: this.#modelName }, "there is no tokenizer for this model; Sluice decides without tokens");
    this.#ready = true;
  }
}

/** Names of models come from clients, too. */
function named(model: string): string {
  return model.length <= 128 ? model : `${model.slice(0, 125)}...`;
}

/** Returns the API of a request by its path; undefined = one without a tokenization. */
function apiOf(headers: HeaderList): TokenizedApi | undefined {
  const path = withoutQuery(requestPath(headers));
  if (path.endsWith("/chat/completions")) return "chat";
  if (path.endsWith("/completions")) return "completions";
  return path.endsWith("/messages") ? "messages" : undefined;
}

/** Returns a copy of the body with empty texts in the place of addresses and data of media: only their place matters. */
function withoutMedia(body: Uint8Array, media: readonly MediaTokens[]): Uint8Array<ArrayBuffer> {
  const length = media.reduce((left, { start, end }) => left - (end - start), body.length);
  if (length > MAX_BODY) throw new SluiceError("TOKENIZER_LIMIT", `a body has more than ${MAX_BODY} bytes of text`);
  const copy = new Uint8Array(length);
  let from = 0;
  let to = 0;
  for (const { start, end } of [...media, { start: body.length, end: body.length }]) {
    copy.set(body.subarray(from, start), to);
    to += start - from;
    from = end;
  }
  return copy;
}
