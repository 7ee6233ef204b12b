import type { Clock } from "../../base/clock/clock.ts";
import type { TokenizedPrompt } from "../../base/plugin/keys.ts";
import { TokenBuffer } from "../scheduling/tokens/token-buffer.ts";
import { readModelFiles } from "./model-files.ts";
import { ModelTokenizer } from "./model-tokenizer.ts";
import { promptsOf } from "./request-prompts.ts";
import { RequestUnusable } from "./unusable.ts";
import type { Job, WorkerCounts, WorkerSettings } from "./worker-messages.ts";

/** The most tokenizers in the memory of one worker. Each takes 60 to 250 MB. */
const MAX_MODELS = 8;
/**
 * Milliseconds of tokenizing after which a request is given up. It is half of the time after which the whole thread counts as hung
 * and loses its tokenizers.
 */
const TEXT_LIMIT = 5_000;

/** The tokenizers of one worker. Loads each when it is first needed, and drops the least recently used one. */
export class WorkerModels {
  readonly #settings: WorkerSettings;
  readonly #clock: Pick<Clock, "now">;
  readonly #models = new Map<string, ModelTokenizer>();

  constructor(settings: WorkerSettings, clock: Pick<Clock, "now">) {
    this.#settings = settings;
    this.#clock = clock;
  }

  get counts(): WorkerCounts {
    let [hits, misses, cacheBytes] = [0, 0, 0];
    for (const { cache } of this.#models.values()) {
      hits += cache.lookups.hits;
      misses += cache.lookups.misses;
      cacheBytes += cache.bytes;
    }
    return { hits, misses, cacheBytes };
  }

  /** @param path of a `tokenizer.json` Throws what makes the files unusable. */
  load(path: string): ModelTokenizer {
    let model = this.#models.get(path);
    if (model === undefined) {
      const { cacheBytes, chatTemplate } = this.#settings;
      for (const oldest of this.#models.keys()) {
        if (this.#models.size < MAX_MODELS) break;
        this.#models.delete(oldest);
      }
      model = new ModelTokenizer(readModelFiles(path, chatTemplate), cacheBytes, this.#settings);
    } else {
      this.#models.delete(path);
    }
    this.#models.set(path, model);
    return model;
  }

  /** @returns undefined for a request without a prompt @throws RequestUnusable */
  tokens({ api, body, media }: Job, model: ModelTokenizer): TokenizedPrompt | undefined {
    const until = this.#clock.now() + TEXT_LIMIT;
    model.isLate = () => this.#clock.now() > until;
    const prompts = promptsOf(api, JSON.parse(new TextDecoder().decode(body)), model);
    const extra = media.reduce((sum, { count }) => sum + count, 0);
    const buffer = new TokenBuffer(prompts.reduce((sum, tokens) => sum + tokens.length, extra));
    const places = media[Symbol.iterator]();
    for (const tokens of prompts) {
      buffer.beginPrompt();
      if (media.length === 0) for (const token of tokens) buffer.add(token);
      else addWithMedia(tokens, model.mediaTokens, places, buffer);
    }
    if (places.next().done !== true) throw new RequestUnusable(NO_PLACE);
    return buffer.finish();
  }
}

const NO_PLACE =
  "the tokens of its images, videos or sounds are unknown: put config.json, with keys such as image_token_id, beside tokenizer.json";

/** Puts the own tokens of each image in the place of those that are the same for all images. */
function addWithMedia(
  tokens: readonly number[],
  mediaTokens: ReadonlySet<number>,
  places: Iterator<Job["media"][number]>,
  buffer: TokenBuffer,
): void {
  for (const token of tokens) {
    if (!mediaTokens.has(token)) {
      buffer.add(token);
      continue;
    }
    const { done, value } = places.next();
    if (done === true) throw new RequestUnusable("the text has an image token, but no image for it");
    buffer.add(value.token, value.count);
  }
}
