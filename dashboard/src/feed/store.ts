import type { FeedEvents, FeedHello } from "../../../src/wires/admin/feed/feed.ts";
import type { EventEntry, Overview, Totals, WindowFigures } from "../../../src/wires/admin/feed/overview.ts";
import type { QueuesFeed } from "../../../src/wires/admin/feed/queues.ts";
import { DecisionList } from "./decision-list.ts";
import { EndpointLoads } from "./endpoint-loads.ts";
import { Series } from "./series.ts";

/** The most events kept: as many as the process lists. */
const MOST_EVENTS = 512;

/** The state of the connection: before the first event, with events that come, and without since a moment. */
export type Connection =
  | { readonly state: "connecting" }
  | { readonly state: "live" }
  | { readonly state: "lost"; readonly since: number; readonly because: string };

/** What the page knows of its process. One writer, the connection; what is drawn reads it. */
export class Store {
  connection: Connection = { state: "connecting" };
  hello: FeedHello | undefined;
  readonly series = new Series();
  totals: Totals | undefined;
  minute: WindowFigures | undefined;
  /** The last 15 minutes. */
  quarter: WindowFigures | undefined;
  /** The oldest first. */
  events: readonly EventEntry[] = [];
  readonly endpoints = new EndpointLoads();
  readonly decisions = new DecisionList();
  queues: QueuesFeed | undefined;
  /** Milliseconds that the clock of the process is ahead of this machine's. */
  ahead = 0;
  readonly #listeners = new Set<() => void>();
  #isDue = false;

  /** The clock of the process. */
  now(): number {
    return Date.now() + this.ahead;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells the listeners, once in the next frame however often it is called before. */
  changed(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      for (const listener of this.#listeners) listener();
    });
  }

  /** Forgets all figures: those of another start of the process do not continue. */
  forget(): void {
    this.series.clear();
    this.totals = undefined;
    this.minute = undefined;
    this.quarter = undefined;
    this.events = [];
    this.endpoints.clear();
    this.decisions.clear();
    this.queues = undefined;
  }

  takeOverview({ from, count, figures, windows, totals, events }: Overview, isAll: boolean): void {
    if (isAll) {
      this.series.fill({ from, count, figures });
      this.quarter = windows.all;
      this.takeEvents(events);
    }
    this.minute = windows.minute;
    this.totals = totals;
    this.changed();
  }

  /** Takes an event of the stream. */
  take<Name extends keyof FeedEvents>(name: Name, data: FeedEvents[Name]): void {
    TAKE[name](this, data);
    this.changed();
  }

  /** Takes events that may be known already. */
  takeEvents(events: readonly EventEntry[]): void {
    const byNumber = new Map([...this.events, ...events].map((event) => [event.number, event]));
    this.events = [...byNumber.values()].sort((a, b) => a.number - b.number).slice(-MOST_EVENTS);
  }
}

const TAKE: { readonly [Name in keyof FeedEvents]: (store: Store, data: FeedEvents[Name]) => void } = {
  hello(store, hello) {
    if (store.hello !== undefined && store.hello.instance !== hello.instance) store.forget();
    store.hello = hello;
    store.ahead = hello.at - Date.now();
  },
  gap() {
    // The connection asks for the overview again.
  },
  tick(store, tick) {
    store.series.add(tick);
    store.totals = tick.totals;
  },
  event: (store, event) => store.takeEvents([event]),
  endpoints: (store, { generation, endpoints, total }) => store.endpoints.takeStatics(generation, endpoints, total),
  loads: (store, { generation, at, columns }) => store.endpoints.takeLoads(generation, at, columns),
  decisions: (store, batch) => store.decisions.take(batch),
  queues(store, queues) {
    store.queues = queues;
  },
  bye() {
    // The connection says that it is lost, and comes back.
  },
};
