import { USUAL_BYTES_PER_TOKEN } from "./request.ts";

/** A learned figure stays between these: below it is no text, above it is no tokenizer. */
export const LEAST_BYTES_PER_TOKEN = 1;
export const MOST_BYTES_PER_TOKEN = 16;
/** Who is beyond these is not clamped but left out: bytes that are no text, or a prompt that was cut. */
const LEAST_BELIEVED = 0.5;
const MOST_BELIEVED = 32;
/** Models whose figure is kept. */
export const MAX_MODELS = 256;
/** A longer name is nobody's: clients choose names, and memory is bounded. */
const MAX_NAME = 256;
/** Bytes of text; in a shorter prompt the tokens that a chat template adds weigh too much. */
export const LEAST_TEXT = 1024;
/** Received bytes; a longer prompt is not looked through for images, and it would not count for more. */
export const MOST_RECEIVED = 1 << 20;
/** The first requests of a model are all looked at, of later ones each sixteenth. */
const EAGER = 32;
const LOOK_EVERY = 16;
/** Tokens that the seed counts as: the first answer of some thousand tokens outweighs it. */
const SEED_TOKENS = 1024;
/** One answer counts as at most so many tokens. */
const MOST_OF_ONE = 8192;
/** All answers together: older ones count less and less beyond it. One answer moves the figure by at most 1/32 of the way. */
const MEMORY = 32 * MOST_OF_ONE;
/** Milliseconds of silence in which a model's claim to its place halves. */
const HALF_LIFE = 600_000;

/** How often prompts were looked through. */
interface Looks {
  /** Up to `EAGER`. */
  taken: number;
  /** Requests since one was last looked at. */
  unseen: number;
}

interface Model extends Looks {
  /** Bytes of text, of as many tokens. */
  bytes: number;
  tokens: number;
  /** Answers learned from. */
  answers: number;
  /** Monotonic ms of the last answer. */
  at: number;
}

/** What is known of a model. */
export interface LearnedBytesPerToken {
  readonly model: string;
  readonly bytesPerToken: number;
  /** Answers it was learned from. */
  readonly answers: number;
}

/**
 * How many bytes of text make a token, for each model, learned from answers that say how many tokens their prompt had
 * (docs/adr/0018-bytes-per-token.md). Where everything estimated in tokens takes its figure from.
 *
 * The figure is all bytes over all tokens, so long prompts count for what they weigh, with 4 as if it had been seen
 * before. A wrong `usage` is bounded three times: each answer counts with 1 to 16 bytes per token, as at most 8,192 tokens,
 * and so as at most a 32nd of the whole.
 *
 * At most 256 models have a figure; names longer than 256 characters have none. A new model takes the place of the one
 * that has learned least, where what was learned counts half after every ten minutes of silence. So somebody who makes up
 * names, in front of servers that answer to any name, displaces those made-up names.
 */
export class BytesPerToken {
  readonly #models = new Map<string, Model>();
  /** Of all models without a figure together: answers without `usage` make none, however many there are. */
  readonly #unknown: Looks = { taken: 0, unseen: 0 };

  /** @returns 1 to 16; 4 while nothing is known of the model */
  of(model: string): number {
    const known = this.#models.get(model);
    return known === undefined ? USUAL_BYTES_PER_TOKEN : known.bytes / known.tokens;
  }

  /**
   * Whether the prompt of this request is worth a look. To look through a prompt takes about as long as to read it, so
   * after a model's first requests only one in sixteen is looked at: that one goes by their order alone. A look counts
   * whether or not its answer says something.
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
   * @param model that served
   * @param text bytes of the prompts' text, decoded; NaN where they are not text alone
   * @param tokens of the prompts as the model server counted them, cached ones included; NaN where it did not say
   * @param now monotonic ms
   */
  learn(model: string, text: number, tokens: number, now: number): void {
    if (!(text >= LEAST_TEXT) || model.length > MAX_NAME) return;
    const claimed = text / tokens;
    if (!(claimed >= LEAST_BELIEVED && claimed <= MOST_BELIEVED)) return;
    const ratio = Math.min(MOST_BYTES_PER_TOKEN, Math.max(LEAST_BYTES_PER_TOKEN, claimed));
    // By the text, not by the claim: nobody's usage makes a short prompt a heavy one.
    const weight = Math.min(MOST_OF_ONE, text / ratio);
    const known = this.#models.get(model) ?? this.#open(model, now);
    const kept = Math.min(1, (MEMORY - weight) / known.tokens);
    known.bytes = known.bytes * kept + weight * ratio;
    known.tokens = known.tokens * kept + weight;
    known.answers++;
    known.at = now;
  }

  /** What was learned, for people: by name. */
  list(): LearnedBytesPerToken[] {
    return [...this.#models]
      .map(([model, { bytes, tokens, answers }]) => ({ model, bytesPerToken: bytes / tokens, answers }))
      .sort((a, b) => (a.model < b.model ? -1 : 1));
  }

  #open(name: string, now: number): Model {
    if (this.#models.size >= MAX_MODELS) this.#models.delete(this.#least(now));
    const bytes = SEED_TOKENS * USUAL_BYTES_PER_TOKEN;
    const model = { bytes, tokens: SEED_TOKENS, answers: 0, taken: 0, unseen: 0, at: now };
    this.#models.set(name, model);
    return model;
  }

  /** Of those that have learned equally much the one that came first. */
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
