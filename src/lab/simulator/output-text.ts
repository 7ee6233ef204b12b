import { SeededRandom } from "../../base/clock/random.ts";
import { tokenizePieces } from "./tokenizer.ts";

/** The tokens of one answer, one after the other. */
export interface TextSource {
  /** The next token as text. */
  next(): string;
  /** The next token as a JSON string, quotes included. */
  nextJson(): string;
}

const SENTENCES = [
  "The harbour was quiet before the first boats came in. ",
  "A good map leaves out almost everything. ",
  "Bread rises faster in a warm kitchen, but it tastes better after a slow night. ",
  "Nobody remembered who had planted the walnut tree behind the school. ",
  "The train was late, so we read the timetable of a line that no longer runs. ",
  "Glass is made of sand, heat and patience. ",
  "Every bridge has a number of steps after which walkers fall into rhythm. ",
  "She counted the swallows on the wire and got a different result each time. ",
  "Old clocks gain a little in winter and lose it again in summer. ",
  "The shortest way across the valley is rarely the quickest. ",
  "Salt, vinegar, a spoon of mustard: that is all the recipe says. ",
  "When the wind turned, the whole field of barley turned with it. ",
].map(tokenizePieces);
const SENTENCES_JSON = SENTENCES.map((pieces) => pieces.map((piece) => JSON.stringify(piece)));

/** Canned sentences in an order that `seed` alone decides, without end. */
export class CannedText implements TextSource {
  readonly #random: SeededRandom;
  #sentence = 0;
  #at = Number.POSITIVE_INFINITY;

  constructor(seed: number) {
    this.#random = new SeededRandom(seed);
  }

  next(): string {
    this.#advance();
    return SENTENCES[this.#sentence]![this.#at]!;
  }

  nextJson(): string {
    this.#advance();
    return SENTENCES_JSON[this.#sentence]![this.#at]!;
  }

  #advance(): void {
    if (++this.#at < SENTENCES[this.#sentence]!.length) return;
    this.#sentence = this.#random.below(SENTENCES.length);
    this.#at = 0;
  }
}

/** Given tokens, once. */
export class GivenText implements TextSource {
  readonly #pieces: readonly string[];
  #at = 0;

  constructor(pieces: readonly string[]) {
    this.#pieces = pieces;
  }

  next(): string {
    return this.#pieces[this.#at++]!;
  }

  nextJson(): string {
    return JSON.stringify(this.next());
  }
}
