import type { Clock, Timer } from "../../../base/clock/clock.ts";
import type { FeedEvents, FeedHello, FeedTopic } from "../feed/feed.ts";
import { Reader } from "./reader.ts";
import { type Position, Rendered } from "./rendered.ts";
import type { DecisionFilter, FeedSource } from "./source.ts";

/** Readers at one time; the next one is refused. */
const MAX_READERS = 32;
/** Milliseconds between two looks for new decisions; every fourth look is one for the second. */
const LOOK_MS = 250;

const FAILED = "the data for this page failed; the log of the process says why";

/** Sends the page's events to its readers. The timer runs only while there is a reader, and nothing is rendered otherwise. */
export class FeedStream {
  readonly #clock: Clock;
  readonly #source: FeedSource;
  readonly #hello: (readers: FeedHello["readers"]) => FeedHello;
  readonly #readers = new Set<Reader>();
  #timer: Timer | undefined;

  /** @param hello makes the first event, from the number of readers */
  constructor(clock: Clock, source: FeedSource, hello: (readers: FeedHello["readers"]) => FeedHello) {
    this.#clock = clock;
    this.#source = source;
    this.#hello = hello;
  }

  get readers(): number {
    return this.#readers.size;
  }

  hello(): FeedHello {
    return this.#hello({ open: this.#readers.size, most: MAX_READERS });
  }

  /** The id of an event that would come now: a reader that gives it misses nothing from now on. */
  position(): string {
    const { events, decisions } = this.#source;
    return this.idOf({
      second: this.#source.lastSecond(),
      event: events.newest,
      decision: decisions?.newest() ?? 0,
    });
  }

  idOf({ second, event, decision }: Position): string {
    return `${this.#source.instance}.${second}.${event}.${decision}`;
  }

  /** The position that an id names; undefined for an id of another process, or one that is none. */
  positionOf(id: string | undefined): Position | undefined {
    const found = /^([\w-]{1,64})\.(\d{1,12})\.(\d{1,15})\.(\d{1,15})$/.exec(id ?? "");
    if (found === null || found[1] !== this.#source.instance) return undefined;
    return { second: Number(found[2]), event: Number(found[3]), decision: Number(found[4]) };
  }

  /**
   * A body for one reader; undefined when `MAX_READERS` are connected.
   * @param last the last event id that it has @param disconnect ends the connection of a reader that reads nothing
   */
  open(
    topics: readonly FeedTopic[],
    filter: DecisionFilter,
    last: string | undefined,
    disconnect: () => void = () => {},
  ): ReadableStream | undefined {
    if (this.#readers.size >= MAX_READERS) return undefined;
    const reader = new Reader({
      ...{ clock: this.#clock, source: this.#source, stream: this, topics, filter, disconnect },
      from: this.positionOf(last),
      gone: () => this.#readers.delete(reader),
    });
    this.#readers.add(reader);
    try {
      reader.begin(this.#clock.now());
    } catch (error) {
      reader.end("ended", FAILED);
      throw error;
    }
    this.#timer ??= this.#clock.after(LOOK_MS, () => this.#look(), true);
    return reader.body;
  }

  /** Ends all readers. @param reason for the last event */
  close(reason: FeedEvents["bye"]["reason"] = "ended"): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const reader of this.#readers) reader.end(reason, "the process ends");
  }

  #look(): void {
    const rendered = new Rendered();
    const now = this.#clock.now();
    for (const reader of this.#readers)
      try {
        reader.look(rendered, now);
      } catch (error) {
        // A timer has nobody who catches it.
        this.#source.failed(error);
        reader.end("ended", FAILED);
      }
    this.#timer = this.#readers.size === 0 ? undefined : this.#clock.after(LOOK_MS, () => this.#look(), true);
  }
}
