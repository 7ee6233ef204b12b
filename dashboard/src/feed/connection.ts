import type { FeedEvents, FeedTopic } from "../../../src/wires/admin/feed/feed.ts";
import type { Overview } from "../../../src/wires/admin/feed/overview.ts";
import { ask } from "./ask.ts";
import type { Store } from "./store.ts";

/** A stream has a tick each second: after so long without any event it is lost. */
const SILENT_MS = 5_000;
/** A stream that is open and silent is opened anew after so long. */
const HUNG_MS = 15_000;
const RETRY_MS = 1_500;
const MINUTE_EVERY_MS = 5_000;
const ALL_EVERY_MS = 60_000;

const NAMES: readonly (keyof FeedEvents)[] = [
  ...(["hello", "gap", "tick", "event", "endpoints", "loads", "decisions", "queues", "bye"] as const),
];

/** What a view wants of the stream besides overview and events. */
export interface Wish {
  readonly topics: readonly FeedTopic[];
  /** Filters of the topic decisions. */
  readonly query: Readonly<Record<string, string>>;
}

const NOTHING: Wish = { topics: [], query: {} };

/** Keeps the store up to date from one stream of events, and comes back by itself when it is lost. */
export class Connection {
  readonly #store: Store;
  #source: EventSource | undefined;
  #wish: Wish = NOTHING;
  #lastEventId = "";
  #lastEventAt = Date.now();
  #openedAt = 0;
  #instance: string | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #change: ReturnType<typeof setTimeout> | undefined;
  /** The wish of the open stream, as JSON. */
  #asked = "";

  constructor(store: Store) {
    this.#store = store;
  }

  /** Opens the stream. It stays for the life of the page. */
  start(): void {
    this.#open();
    setInterval(() => this.#watch(), 1_000);
    setInterval(() => this.#refresh(60), MINUTE_EVERY_MS);
    setInterval(() => this.#refresh(900), ALL_EVERY_MS);
    // A sleeping machine has missed what came meanwhile, and a hidden page does not redraw.
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.#store.changed();
    });
  }

  /** Changes the topics. The stream goes on behind the last event that came. */
  want(wish: Wish = NOTHING): void {
    this.#wish = wish;
    // One view leaves before the next one comes: both are one change.
    clearTimeout(this.#change);
    this.#change = setTimeout(() => {
      if (JSON.stringify(this.#wish) !== this.#asked) this.#open();
    }, 0);
  }

  #open(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#openedAt = Date.now();
    this.#asked = JSON.stringify(this.#wish);
    const query = new URLSearchParams({ topics: ["overview", "events", ...this.#wish.topics].join(",") });
    if (this.#wish.topics.includes("decisions"))
      for (const [name, value] of Object.entries(this.#wish.query)) if (value !== "") query.set(name, value);
    if (this.#lastEventId !== "") query.set("lastEventId", this.#lastEventId);
    const source = new EventSource(`debug/feed/stream?${query}`);
    this.#source = source;
    for (const name of NAMES)
      source.addEventListener(name, (event) => {
        if (source === this.#source) this.#take(name, event as MessageEvent<string>);
      });
    source.onerror = () => {
      if (source !== this.#source) return;
      this.#lost("the stream of events ended");
      // The browser tries again by itself, but not after an answer such as 503.
      if (source.readyState === EventSource.CLOSED) this.#retry = setTimeout(() => this.#open(), RETRY_MS);
    };
  }

  #take(name: keyof FeedEvents, event: MessageEvent<string>): void {
    const store = this.#store;
    this.#lastEventAt = Date.now();
    if (event.lastEventId !== "") this.#lastEventId = event.lastEventId;
    const data = JSON.parse(event.data) as never;
    store.take(name, data);
    if (name === "hello") {
      const { instance } = data as FeedEvents["hello"];
      if (instance !== this.#instance) {
        this.#instance = instance;
        this.#refresh(900);
      }
    }
    if (name === "gap" && (data as FeedEvents["gap"]).topic !== "decisions") this.#refresh(900);
    if (name === "bye") this.#lost((data as FeedEvents["bye"]).detail);
    else if (store.connection.state !== "live") {
      store.connection = { state: "live" };
      store.changed();
    }
  }

  #lost(because: string): void {
    if (this.#store.connection.state === "lost") return;
    this.#store.connection = { state: "lost", since: this.#lastEventAt, because };
    this.#store.changed();
  }

  #watch(): void {
    const silent = Date.now() - this.#lastEventAt;
    if (silent > SILENT_MS && !document.hidden) this.#lost(`no event came for ${Math.round(silent / 1000)} s`);
    const sinceOpened = Date.now() - this.#openedAt;
    if (silent > HUNG_MS && sinceOpened > HUNG_MS && this.#source?.readyState === EventSource.OPEN) this.#open();
  }

  #refresh(seconds: 60 | 900): void {
    if (document.hidden && seconds === 60) return;
    if (this.#store.connection.state === "lost") return;
    ask<Overview>(`debug/feed/overview?seconds=${seconds}`).then(
      (overview) => this.#store.takeOverview(overview, seconds === 900),
      // The stream says what is wrong.
      () => undefined,
    );
  }
}
