import type { Clock } from "../../base/clock/clock.ts";

/** The answer of a model server, as a stream that rests sees it. */
interface RestingAnswer {
  /** Stops reading behind the present piece of the answer, until `wake`. */
  rest(): void;
  wake(): void;
}

/** Milliseconds from one end of rests to the next one: streams whose time is nearly over go on together. */
const STEP = 2;

/** Most streams that go on in one turn, which is about a millisecond of work. */
const MOST = 64;

/** One event stream. */
export class StreamRest {
  /** Monotonic milliseconds of the end of the present rest; NaN while it does not rest. */
  due = Number.NaN;
  readonly #rests: StreamRests;
  readonly #answer: RestingAnswer;
  /** Monotonic milliseconds of the chunk before, or of the end of the rest behind it; NaN before the first chunk. */
  #waitedSince = Number.NaN;
  /** The next chunk is the first one behind a rest. */
  #rested = false;

  constructor(rests: StreamRests, answer: RestingAnswer) {
    this.#rests = rests;
    this.#answer = answer;
  }

  /** The client has a chunk. @param now monotonic milliseconds */
  passed(now: number): void {
    // Further chunks of the piece after which the stream rests.
    if (!Number.isNaN(this.due)) return;
    const suits = this.#rests.suits(now - this.#waitedSince, this.#rested);
    this.#rested = false;
    if (suits) {
      this.#answer.rest();
      this.#rests.add(this, now);
    }
    this.#waitedSince = now;
  }

  /** The rest is over. */
  woken(now: number): void {
    this.due = Number.NaN;
    this.#waitedSince = now;
    this.#rested = true;
    this.#answer.wake();
  }

  /** The stream is over. */
  end(): void {
    this.#rests.streams--;
  }
}

/**
 * Lets the fast event streams of a busy gateway rest: after a chunk, the answer of the model server is not read for a moment, and
 * what has come by then leaves in one write. A write costs more than all other work on a chunk (docs/adr/0038-rests-of-event-streams.md).
 *
 * A stream is fast when its chunk comes within the length of a rest, and behind a rest within half of that. The first chunk of a
 * stream never waits, nor does any chunk of a slower stream, nor any of a gateway with few streams.
 */
export class StreamRests {
  /** Event streams under way. */
  streams = 0;
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #from: number;
  /** In the order of their ends, since all rests have one length. A stream is in it once. */
  #resting: StreamRest[] = [];
  /** Monotonic milliseconds while the rests of a turn end; else NaN. */
  #waking = Number.NaN;

  /** @param ms length of a rest; 0 = streams do not rest @param from so many streams make a gateway busy */
  constructor(clock: Clock, ms: number, from: number) {
    this.#clock = clock;
    this.#ms = ms;
    this.#from = from;
  }

  /** An event stream begins. */
  open(answer: RestingAnswer): StreamRest {
    this.streams++;
    return new StreamRest(this, answer);
  }

  /**
   * Whether a stream rests after a chunk. Behind a rest, half the time must do: a chunk that comes later belongs to a slower stream, and
   * to rest again would gain nothing.
   * @param waited milliseconds for which the chunk was waited for; NaN for the first one
   * @param rested whether the stream rested before the chunk
   */
  suits(waited: number, rested: boolean): boolean {
    return this.streams >= this.#from && waited < (rested ? this.#ms / 2 : this.#ms);
  }

  /** A stream rests from now on. @param now monotonic milliseconds */
  add(stream: StreamRest, now: number): void {
    const woken = this.#waking;
    // Streams that went on together rest together. Their next timer is armed when all have gone on.
    stream.due = (Number.isNaN(woken) ? now : woken) + this.#ms;
    if (this.#resting.push(stream) === 1 && Number.isNaN(woken)) this.#clock.after(this.#ms, this.#wake);
  }

  readonly #wake = (): void => {
    const resting = this.#resting;
    const now = this.#clock.now();
    let count = 0;
    while (count < resting.length && count < MOST && resting[count]!.due <= now) count++;
    this.#resting = resting.slice(count);
    this.#waking = now;
    for (let i = 0; i < count; i++) resting[i]!.woken(now);
    this.#waking = Number.NaN;
    const next = this.#resting[0];
    if (next === undefined) return;
    if (next.due <= now) this.#clock.soon(this.#wake);
    else this.#clock.after(Math.max(STEP, next.due - now), this.#wake);
  };
}
