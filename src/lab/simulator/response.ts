import type { ServerResponse } from "node:http";
import type { Clock, Timer } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { tokenizePieces } from "./tokenizer.ts";

/** Writes a response body at the speed of the client, or at a set pace. */
export interface BodyWriter {
  /** Returns false when the client (or the pace) lags behind: the caller must wait for `onDrain`. */
  write(text: string): boolean;
  /** Ends the body after all written text has gone out. */
  end(): void;
  /** Calls back when the operating system has all text written so far. */
  flushed(callback: () => void): void;
  /** Stops writing: the client is gone. */
  stop(): void;
}

/** @param onDrain called when writing may continue after `write` returned false */
export function bodyWriter(
  response: ServerResponse,
  bytesPerSecond: number,
  clock: Clock,
  onDrain: () => void,
): BodyWriter {
  return bytesPerSecond > 0
    ? new PacedWriter(response, bytesPerSecond, clock, onDrain)
    : new DirectWriter(response, onDrain);
}

class DirectWriter implements BodyWriter {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse, onDrain: () => void) {
    this.#response = response;
    response.on("drain", onDrain);
  }

  write(text: string): boolean {
    return this.#response.write(text);
  }

  end(): void {
    this.#response.end();
  }

  flushed(callback: () => void): void {
    this.#response.write("", callback);
  }

  stop(): void {}
}

/** Writes twenty portions a second. The waiting text is bounded, because callers stop when `write` returns false. */
class PacedWriter implements BodyWriter {
  static readonly #PERIOD_MS = 50;
  readonly #response: ServerResponse;
  readonly #portion: number;
  readonly #period: number;
  readonly #clock: Clock;
  readonly #onDrain: () => void;
  #pending = Buffer.alloc(0);
  #timer: Timer | undefined;
  #ending = false;
  #onFlushed: (() => void) | undefined;

  constructor(response: ServerResponse, bytesPerSecond: number, clock: Clock, onDrain: () => void) {
    this.#response = response;
    this.#clock = clock;
    this.#onDrain = onDrain;
    this.#portion = Math.max(1, Math.round((bytesPerSecond * PacedWriter.#PERIOD_MS) / 1000));
    this.#period = (this.#portion / bytesPerSecond) * 1000;
    response.on("drain", () => this.#schedule());
  }

  write(text: string): boolean {
    this.#pending = Buffer.concat([this.#pending, Buffer.from(text)]);
    this.#schedule();
    return false;
  }

  end(): void {
    this.#ending = true;
    this.#schedule();
  }

  flushed(callback: () => void): void {
    this.#onFlushed = callback;
    this.#schedule();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#pending = Buffer.alloc(0);
  }

  #schedule(): void {
    this.#timer ??= this.#clock.after(this.#period, () => this.#send());
  }

  #send(): void {
    this.#timer = undefined;
    let writable = true;
    if (this.#pending.length > 0) {
      writable = this.#response.write(this.#pending.subarray(0, this.#portion));
      this.#pending = this.#pending.subarray(this.#portion);
    }
    if (this.#pending.length > 0) {
      // The client is slower than the pace: "drain" continues the writing.
      if (writable) this.#schedule();
    } else if (this.#ending) {
      this.#response.end();
    } else if (this.#onFlushed) {
      this.#response.write("", this.#onFlushed);
    } else {
      this.#onDrain();
    }
  }
}

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
  "No one remembered who had planted the walnut tree behind the school. ",
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

/** Canned sentences without end, in an order that depends only on `seed`. */
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

/** The given tokens, once. */
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
