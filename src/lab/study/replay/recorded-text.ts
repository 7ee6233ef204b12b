import { SeededRandom } from "../../../base/clock/random.ts";

/** Tokens of text there are; longer prompts repeat themselves. */
const TAPE = 1 << 18;
/** Tokens in front that make a text unlike any other. */
const HEAD = 4;

const CONSONANTS = "bdfghklmnprstvz";
const VOWELS = "aeiou";

/** Words of three letters and a space, by number: four bytes, the first letter first. */
function word(number: number): number {
  const a = CONSONANTS.charCodeAt(number % 15);
  const b = VOWELS.charCodeAt(Math.floor(number / 15) % 5);
  const c = CONSONANTS.charCodeAt(Math.floor(number / 75) % 15);
  return a | (b << 8) | (c << 16) | (0x20 << 24);
}

const WORDS = 15 * 5 * 15;

/**
 * Text for requests of which only the length is known. A text has a number: the same number gives the same text, of which
 * a shorter one is the beginning of a longer one; texts of different numbers share no beginning.
 */
export class RecordedText {
  readonly #tape = new Uint32Array(TAPE);

  constructor() {
    const random = new SeededRandom(1);
    for (let i = 0; i < TAPE; i++) this.#tape[i] = word(random.below(WORDS));
  }

  /**
   * @param number from 0 up, below 1,125^4
   * @param from first token, from 0 up
   * @param to behind the last
   * @returns four bytes per token
   */
  tokens(number: number, from: number, to: number): Uint8Array {
    const text = new Uint32Array(to - from);
    let at = 0;
    for (; from + at < HEAD && at < text.length; at++)
      text[at] = word(Math.floor(number / WORDS ** (from + at)) % WORDS);
    while (at < text.length) {
      const place = (number * 8191 + from + at) % TAPE;
      const part = this.#tape.subarray(place, place + text.length - at);
      text.set(part, at);
      at += part.length;
    }
    return new Uint8Array(text.buffer);
  }
}
