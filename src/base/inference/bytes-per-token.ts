import { USUAL_BYTES_PER_TOKEN } from "./request.ts";

/** Limits of a learned figure: below the lower limit it is not a text, above the upper limit it is no tokenizer. */
export const LEAST_BYTES_PER_TOKEN = 1;
export const MOST_BYTES_PER_TOKEN = 16;
/** An answer beyond these limits is not clamped but left out: its bytes are no text, or its prompt was cut. */
const LEAST_BELIEVED = 0.5;
const MOST_BELIEVED = 32;
/** Most models that have a figure. */
export const MAX_MODELS = 256;
/** A longer name has no figure: clients choose names, and memory is bounded. */
const MAX_NAME = 256;
/** Bytes of text. In a shorter prompt the tokens that a chat template adds weigh too much. */
export const LEAST_TEXT = 1024;
/** Received bytes. A longer prompt is not searched for images, and it would not count for more. */
export const MOST_RECEIVED = 1 << 20;
/** Of a model's first requests all are measured, of later ones each sixteenth. */
const EAGER = 32;
const LOOK_EVERY = 16;
/** Tokens for which the seed counts: the first answer of some thousand tokens outweighs it. */
const SEED_TOKENS = 1024;
/** Most tokens for which one answer counts. */
const MOST_OF_ONE = 8192;
/**
 * Most tokens for which all answers together count: beyond it older ones count less and less. One answer moves the figure by at
 * most 1/32 of the way.
 */
const MEMORY = 32 * MOST_OF_ONE;
/** Milliseconds of silence in which a model's claim to its place halves. */
const HALF_LIFE = 600_000;

/** How often a prompt was measured. */
interface Looks {
  /** Up to `EAGER`. */
  taken: number;
  /** Requests since the last measured one. */
  unseen: number;
}

interface Model extends Looks {
  /** Bytes of text that belong to `tokens`. */
  bytes: number;
  tokens: number;
  /** Answers that the figure was learned from. */
  answers: number;
  /** Monotonic ms of the last answer. */
  at: number;
}

/** The learned figure of a model, for people. */
export interface LearnedBytesPerToken {
  readonly model: string;
  readonly bytesPerToken: number;
  /** Answers that the figure was learned from. */
  readonly answers: number;
}

/**
 * Learns for each model how many bytes of text make a token, from answers that state the tokens of their prompt
 * (docs/adr/0018-bytes-per-token.md). Every estimate in tokens takes its figure from here.
 *
 * The figure is all bytes divided by all tokens, so long prompts count by their weight. It starts at 4, as if that had been
 * measured. A wrong `usage` is bounded three times. Each answer counts with 1 to 16 bytes per token, as at most 8,192 tokens,
 * and so as at most a 32nd of the whole.
 *
 * At most 256 models have a figure; names longer than 256 characters have none. A new model takes the place of the model that
 * has learned least. For that comparison the learned amount halves after every ten minutes of silence. A client that invents
 * names, in front of servers that answer to any name, therefore displaces only invented names.
 */
export class BytesPerToken {
  readonly #models = new Map<string, Model>();
  /** What other replicas have learnt of models that this one has no figure of, the oldest first. */
  readonly #told = new Map<string, number>();
  /** Shared by all models without a figure: answers without `usage` give none, however many arrive. */
  readonly #unknown: Looks = { taken: 0, unseen: 0 };

  /** @returns 1 to 16; for a model without a figure that of another replica, else 4 */
  of(model: string): number {
    const known = this.#models.get(model);
    return known === undefined ? (this.#told.get(model) ?? USUAL_BYTES_PER_TOKEN) : known.bytes / known.tokens;
  }

  /** Another replica has learnt this figure, 1 to 16. It counts until this process has learnt its own. At most 256 models. */
  told(model: string, bytesPerToken: number): void {
    if (this.#models.has(model) || model.length > MAX_NAME) return;
    this.#told.delete(model);
    this.#told.set(model, bytesPerToken);
    if (this.#told.size > MAX_MODELS) this.#told.delete(this.#told.keys().next().value!);
  }

  /**
   * Whether to measure the prompt of this request. To measure a prompt takes about as long as to read it. Therefore only one in
   * sixteen requests is measured after a model's first ones, by their order alone. The count rises whether or not the answer
   * states its tokens.
   */
  isDue(model: string): boolean {
    const looks = this.#models.get(model) ?? this.#unknown;
    if (looks.taken < EAGER) {
      looks.taken++;
      return true;
    }
    looks.unseen = (looks.unseen + 1) % LOOK_EVERY;
    return looks.unseen === 0;
  }

  /**
   * Learns from an answer.
   * @param model the model that served
   * @param text bytes of the prompts' text, decoded; NaN where the prompts hold more than text
   * @param tokens tokens of the prompts as the model server counted them, cached ones included; NaN where it did not say
   * @param now monotonic ms
   */
  learn(model: string, text: number, tokens: number, now: number): void {
    if (!(text >= LEAST_TEXT) || model.length > MAX_NAME) return;
    const claimed = text / tokens;
    if (!(claimed >= LEAST_BELIEVED && claimed <= MOST_BELIEVED)) return;
    const ratio = Math.min(MOST_BYTES_PER_TOKEN, Math.max(LEAST_BYTES_PER_TOKEN, claimed));
    // Weighs by the text, not by the stated tokens: a wrong `usage` must not make a short prompt a heavy one.
    const weight = Math.min(MOST_OF_ONE, text / ratio);
    const known = this.#models.get(model) ?? this.#open(model, now);
    const kept = Math.min(1, (MEMORY - weight) / known.tokens);
    known.bytes = known.bytes * kept + weight * ratio;
    known.tokens = known.tokens * kept + weight;
    known.answers++;
    known.at = now;
  }

  /** The learned figures for people, by name of the model. */
  list(): LearnedBytesPerToken[] {
    return [...this.#models]
      .map(([model, { bytes, tokens, answers }]) => ({ model, bytesPerToken: bytes / tokens, answers }))
      .sort((a, b) => (a.model < b.model ? -1 : 1));
  }

  #open(name: string, now: number): Model {
    if (this.#models.size >= MAX_MODELS) this.#models.delete(this.#least(now));
    const bytes = SEED_TOKENS * (this.#told.get(name) ?? USUAL_BYTES_PER_TOKEN);
    this.#told.delete(name);
    const model = { bytes, tokens: SEED_TOKENS, answers: 0, taken: 0, unseen: 0, at: now };
    this.#models.set(name, model);
    return model;
  }

  /** Of models that have learned equally much, the one that came first. */
  #least(now: number): string {
    let least = "";
    let lowest = Number.POSITIVE_INFINITY;
    for (const [name, { tokens, at }] of this.#models) {
      const claim = tokens * 2 ** ((at - now) / HALF_LIFE);
      if (claim >= lowest) continue;
      lowest = claim;
      least = name;
    }
    return least;
  }
}
