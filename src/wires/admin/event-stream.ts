import type { Clock, Timer } from "../../base/clock/clock.ts";

/** Milliseconds between two pictures of the state. */
const INTERVAL_MS = 500;
/** Readers at one time; the next one is refused. */
const MAX_READERS = 32;
/** The stream drops a reader that leaves this many pictures unread. */
const MAX_BACKLOG = 64;

interface Reader<T> {
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
  mark: T | undefined;
  /** Ends its connection, which holds what is unread. */
  readonly disconnect: () => void;
}

/** Sends a picture of the state to every reader twice a second. The timer runs only while there is a reader. */
export class EventStream<T> {
  readonly #clock: Clock;
  readonly #picture: (since: T | undefined) => { readonly data: string; readonly mark: T };
  readonly #readers = new Set<Reader<T>>();
  #timer: Timer | undefined;

  /**
   * @param picture renders the events since a mark as one line, and returns the new mark; undefined asks for a first picture
   */
  constructor(clock: Clock, picture: (since: T | undefined) => { readonly data: string; readonly mark: T }) {
    this.#clock = clock;
    this.#picture = picture;
  }

  get readers(): number {
    return this.#readers.size;
  }

  /** A body for one reader; undefined when `MAX_READERS` are connected. @param disconnect ends a connection that is not read */
  open(disconnect: () => void): ReadableStream<Uint8Array> | undefined {
    if (this.#readers.size >= MAX_READERS) return undefined;
    let reader: Reader<T> | undefined;
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          reader = { controller, mark: undefined, disconnect };
          this.#readers.add(reader);
          this.#send(reader);
          this.#timer ??= this.#clock.after(INTERVAL_MS, () => this.#tick(), true);
        },
        cancel: () => {
          if (reader !== undefined) this.#readers.delete(reader);
        },
      },
      new CountQueuingStrategy({ highWaterMark: MAX_BACKLOG }),
    );
  }

  /** Ends all readers. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const reader of this.#readers) this.#drop(reader);
  }

  #tick(): void {
    for (const reader of this.#readers) this.#send(reader);
    this.#timer = this.#readers.size === 0 ? undefined : this.#clock.after(INTERVAL_MS, () => this.#tick(), true);
  }

  #send(reader: Reader<T>): void {
    if ((reader.controller.desiredSize ?? 0) <= 0) {
      this.#drop(reader);
      reader.disconnect();
      return;
    }
    const { data, mark } = this.#picture(reader.mark);
    reader.mark = mark;
    reader.controller.enqueue(ENCODER.encode(`data: ${data}\n\n`));
  }

  #drop(reader: Reader<T>): void {
    this.#readers.delete(reader);
    try {
      reader.controller.close();
    } catch {
      // The reader has closed the stream already.
    }
  }
}

const ENCODER = new TextEncoder();
