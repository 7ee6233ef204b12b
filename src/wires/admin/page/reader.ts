import type { Clock, Timer } from "../../../base/clock/clock.ts";
import type { FeedEvents, FeedTopic } from "../feed/feed.ts";
import { type Position, Rendered } from "./rendered.ts";
import type { DecisionFilter, FeedSource } from "./source.ts";

/** A reader may leave this many bytes or events unread. */
const MAX_BYTES = 1 << 20;
const MAX_EVENTS = 64;
/** Decisions in one batch, four times a second: more than anybody reads. Those of a reader that are watched until they end. */
const BATCH = 10;
const MAX_WATCHED = 200;
/** Milliseconds after which a comment shows that the stream lives. */
const ALIVE_MS = 10_000;
/** Milliseconds that a dropped reader has to read what it left. */
const GRACE_MS = 5000;

interface ReaderOptions {
  readonly clock: Clock;
  readonly source: FeedSource;
  readonly stream: { hello(): FeedEvents["hello"]; idOf(position: Position): string };
  readonly topics: readonly FeedTopic[];
  readonly filter: DecisionFilter;
  /** Undefined = from now on. */
  readonly from: Position | undefined;
  /** Ends the connection of a reader that reads nothing: until then it holds what is unread. */
  disconnect(): void;
  /** The reader has closed its stream, or was dropped. */
  gone(): void;
}

/** One open stream: knows what its reader has, and sends the rest. */
export class Reader {
  readonly body: ReadableStream<Uint8Array>;
  readonly #options: ReaderOptions;
  readonly #topics: ReadonlySet<FeedTopic>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #second: number;
  #event: number;
  /** Revision of the events that it has. */
  #revision: number;
  #decision: number;
  #generation = 0;
  /** Decisions that were sent and have not ended. */
  #running: number[] = [];
  #leftAt = 0;
  /** Runs for a reader that was dropped because it is slow. */
  #grace: Timer | undefined;
  /** Texts of the present look. */
  #texts: string[] = [];

  constructor(options: ReaderOptions) {
    const { source, topics, from } = options;
    this.#options = options;
    this.#topics = new Set(topics);
    this.#second = from?.second ?? source.lastSecond() - 1;
    this.#event = from?.event ?? source.events.newest;
    // One that comes back may lack what has joined since; one that is new has read all of it.
    this.#revision = from === undefined ? source.events.revision : 0;
    this.#decision = from?.decision ?? source.decisions?.newest() ?? 0;
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        cancel: () => this.#close(),
      },
      { highWaterMark: MAX_BYTES, size: (chunk) => Math.max(chunk?.byteLength ?? 0, MAX_BYTES / MAX_EVENTS) },
    );
  }

  /** Sends `hello`, what was missed, and the first full events. @param now monotonic milliseconds */
  begin(now: number): void {
    const { source, stream } = this.#options;
    this.#texts.push("retry: 1000\n\n");
    this.#put("hello", JSON.stringify(stream.hello()));
    if (this.#topics.has("overview")) {
      const lost = source.oldestSecond() - 1 - this.#second;
      if (lost > 0) this.#gap("overview", lost);
      this.#second = Math.max(this.#second, source.oldestSecond() - 1);
    }
    const { decisions } = source;
    if (decisions !== undefined && this.#topics.has("decisions")) {
      const lost = decisions.oldest() - 1 - this.#decision;
      if (lost > 0) this.#gap("decisions", lost);
      this.#decision = Math.max(this.#decision, decisions.oldest() - 1);
    }
    this.look(new Rendered(), now, true);
  }

  /** Sends what is new. @param isFirst also sends what comes once a second */
  look(rendered: Rendered, now: number, isFirst = false): void {
    if (this.#controller === undefined) return;
    const { source } = this.#options;
    const last = source.lastSecond();
    const isNew = last > this.#second || isFirst;
    if (this.#topics.has("events")) this.#events();
    if (this.#topics.has("overview"))
      // Nearly always one.
      for (let second = this.#second + 1; second <= last; second++) {
        this.#second = second;
        this.#put("tick", second === last ? rendered.of("tick", () => source.tick(second)) : this.#old(second), true);
      }
    if (isNew) {
      this.#second = Math.max(this.#second, last);
      if (this.#topics.has("endpoints")) this.#endpoints(rendered);
      if (this.#topics.has("queues"))
        this.#put(
          "queues",
          rendered.of("queues", () => source.queues()),
        );
    }
    if (this.#topics.has("decisions")) this.#decisions();
    this.#flush(now);
  }

  /** Says why, where that still fits, and closes the stream. A slow reader keeps its place until its connection has ended. */
  end(reason: FeedEvents["bye"]["reason"], detail: string): void {
    const controller = this.#controller;
    if (controller === undefined && reason === "slow") return;
    if (reason === "slow") {
      this.#forget();
      const { clock, disconnect } = this.#options;
      const expired = (): void => {
        disconnect();
        this.#close();
      };
      this.#grace = clock.after(GRACE_MS, expired, true);
    } else this.#close();
    if (controller === undefined) return;
    try {
      // It stands behind what is unread: a reader that catches up learns the reason.
      controller.enqueue(ENCODER.encode(`event: bye\ndata: ${JSON.stringify({ reason, detail })}\n\n`));
      controller.close();
    } catch {
      // The reader has closed the stream already.
    }
  }

  #old(second: number): string {
    return JSON.stringify(this.#options.source.tick(second));
  }

  #events(): void {
    const { events } = this.#options.source;
    if (events.revision === this.#revision) return;
    // The page replaces an event by its number.
    for (const event of events.joined(this.#event, this.#revision)) this.#put("event", JSON.stringify(event), true);
    this.#revision = events.revision;
    const { events: found, lost } = events.after(this.#event);
    if (lost > 0) this.#gap("events", lost);
    for (const event of found) {
      this.#event = event.number;
      this.#put("event", JSON.stringify(event), true);
    }
  }

  #endpoints(rendered: Rendered): void {
    const { endpoints } = this.#options.source;
    if (endpoints === undefined) return;
    const generation = endpoints.generation();
    if (generation !== this.#generation) {
      this.#generation = generation;
      const all = (): FeedEvents["endpoints"] => {
        const { endpoints: list, total } = endpoints.list({ limit: 1000 });
        return { generation, endpoints: list, total };
      };
      this.#put("endpoints", rendered.of("endpoints", all));
    }
    this.#put(
      "loads",
      rendered.of("loads", () => ({
        generation,
        at: this.#options.source.hello().at,
        columns: endpoints.loads(),
      })),
    );
  }

  #decisions(): void {
    const { source, filter } = this.#options;
    const { decisions } = source;
    if (decisions === undefined) return;
    const { rows, passed } = decisions.after(filter, this.#decision, BATCH);
    this.#decision = decisions.newest();
    const ended = [];
    const running: number[] = [];
    // Most of them still run at each look: only the row of one that has ended is made.
    for (const sequence of this.#running) {
      const outcome = decisions.outcome(sequence);
      if (outcome === undefined || outcome === "lost") continue;
      const row = outcome === "running" ? undefined : decisions.row(sequence);
      if (row === undefined) running.push(sequence);
      else ended.push(row);
    }
    for (const { sequence, journey } of rows) if (journey.outcome === "running") running.push(sequence);
    this.#running = running.slice(-MAX_WATCHED);
    if (rows.length === 0 && ended.length === 0) return;
    const batch: FeedEvents["decisions"] = { rows: [...ended, ...rows], leftOut: passed - rows.length, passed };
    this.#put("decisions", JSON.stringify(batch), true);
  }

  #gap(topic: FeedEvents["gap"]["topic"], lost: number): void {
    this.#put("gap", JSON.stringify({ topic, lost }));
  }

  #put(name: keyof FeedEvents, data: string, marked = false): void {
    const id = marked
      ? `id: ${this.#options.stream.idOf({ second: this.#second, event: this.#event, decision: this.#decision })}\n`
      : "";
    this.#texts.push(`event: ${name}\n${id}data: ${data}\n\n`);
  }

  #flush(now: number): void {
    if (this.#texts.length === 0 && now - this.#leftAt < ALIVE_MS) return;
    const text = this.#texts.length === 0 ? ": alive\n\n" : this.#texts.join("");
    this.#texts = [];
    this.#leftAt = now;
    const controller = this.#controller!;
    if ((controller.desiredSize ?? 0) <= 0) {
      this.end("slow", `the reader left more than ${MAX_BYTES} bytes or ${MAX_EVENTS} events unread`);
      return;
    }
    controller.enqueue(ENCODER.encode(text));
  }

  #close(): void {
    this.#grace?.cancel();
    this.#forget();
    this.#options.gone();
  }

  #forget(): void {
    this.#controller = undefined;
    this.#texts = [];
  }
}

const ENCODER = new TextEncoder();
