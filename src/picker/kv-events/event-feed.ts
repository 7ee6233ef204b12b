import type { Clock } from "../../base/clock/clock.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { Announcements } from "./announcements.ts";
import { type BatchPlace, EventBatchReader } from "./event-batch.ts";
import { EventStream } from "./event-stream.ts";
import { IngestBudget } from "./ingest-budget.ts";
import type { Closable, EventMessage, EventSockets, SocketFault, SubscriptionEvents } from "./sockets.ts";

/** The label of what happens on the address where all publishers send. */
export const CENTRAL = "local-subscriber";

export interface FeedSettings {
  /** Topics begin with it. */
  readonly topicFilter: string;
  /** The address where all publishers send; undefined = none. */
  readonly bind: string | undefined;
  /** Subscribe to each endpoint of these ports; undefined = to none. */
  readonly perEndpoint:
    | {
        readonly selects: (endpoint: Endpoint) => boolean;
        /** The rank of an endpoint is added to both. */
        readonly port: number;
        /** Undefined = the engines offer no replay. */
        readonly replayPort: number | undefined;
      }
    | undefined;
}

export interface FeedParts {
  readonly settings: FeedSettings;
  readonly clock: Clock;
  readonly announcements: Announcements;
  readonly sockets: EventSockets;
  /** Something went wrong with a publisher. @param source id of the endpoint, or `CENTRAL` */
  onFault(source: string, fault: SocketFault, error: unknown): void;
}

/** What is known of one publisher, for the metrics and `/debug/plugins/state`. */
export interface PublisherState {
  /** Id of the endpoint, or the name of the publisher in its topic. */
  readonly pod: string;
  readonly messages: number;
  readonly reconnections: number;
  readonly missed: number;
  readonly restarts: number;
  readonly state: string;
  /** Messages that wait for the end of a replay. */
  readonly held: number;
  /** Faults by kind. */
  readonly faults: ReadonlyMap<SocketFault, number>;
}

class Publisher {
  readonly pod: string;
  readonly faults = new Map<SocketFault, number>();
  messages = 0;
  reconnections = 0;
  subscription: Closable | undefined;
  stream!: EventStream;

  constructor(pod: string) {
    this.pod = pod;
  }

  close(): void {
    this.subscription?.close();
    this.stream.close();
  }
}

/** Receives the KV events of the endpoints of a pool, and gives them to the index (scheduling 3.14). */
export class EventFeed {
  readonly #parts: FeedParts;
  readonly #budget: IngestBudget;
  readonly #reader = new EventBatchReader();
  /** Endpoints by slot. */
  readonly #endpoints = new Map<number, Endpoint>();
  /** The endpoints that a publisher may mean, by what it may call itself; undefined = made anew when a message asks. */
  #names: ReadonlyMap<string, Endpoint> | undefined;
  /** The publishers that Sluice has subscribed to, by slot. */
  readonly #publishers = new Map<number, Publisher>();
  /** The publishers that send to `bind`, by slot. Anybody may send there, so their sequences are not those of `#publishers`. */
  readonly #heard = new Map<number, Publisher>();
  #central: Closable | undefined;
  readonly #centralState = new Publisher(CENTRAL);
  #isClosed = false;

  constructor(parts: FeedParts) {
    this.#parts = parts;
    this.#budget = new IngestBudget(parts.clock);
    this.#centralState.stream = this.#streamFor(this.#centralState, undefined, undefined);
  }

  /** The publishers that Sluice hears, or has subscribed to. */
  states(): PublisherState[] {
    const all = [...this.#publishers.values(), ...this.#heard.values()];
    if (this.#central !== undefined) all.push(this.#centralState);
    return all.map(({ pod, messages, reconnections, faults, stream }) => ({
      ...{ pod, messages, reconnections, faults },
      ...{ missed: stream.gaps, restarts: stream.restarts, state: stream.state, held: stream.held },
    }));
  }

  /** The endpoint is in the pool. May be called again. */
  add(endpoint: Endpoint): void {
    const { settings, sockets } = this.#parts;
    if (this.#isClosed) return;
    if (settings.bind !== undefined && this.#central === undefined)
      this.#central = sockets.subscribe(settings.bind, settings.topicFilter, true, this.#centralEvents());
    if (this.#endpoints.has(endpoint.slot)) return;
    this.#subscribe(endpoint);
    this.#endpoints.set(endpoint.slot, endpoint);
    this.#names = undefined;
  }

  #subscribe(endpoint: Endpoint): void {
    const { settings, sockets } = this.#parts;
    const { perEndpoint } = settings;
    if (perEndpoint === undefined || !perEndpoint.selects(endpoint)) return;
    const { port, replayPort } = perEndpoint;
    const publisher = new Publisher(endpoint.id);
    publisher.stream = this.#streamFor(
      publisher,
      endpoint,
      replayPort === undefined ? undefined : addressOf(endpoint, replayPort),
    );
    publisher.subscription = sockets.subscribe(
      addressOf(endpoint, port),
      settings.topicFilter,
      false,
      this.#eventsOf(publisher, (message) => publisher.stream.message(message)),
    );
    this.#publishers.set(endpoint.slot, publisher);
  }

  /** The endpoint has left the pool: its slot may soon be another's. */
  remove(endpoint: Endpoint): void {
    this.#endpoints.delete(endpoint.slot);
    this.#names = undefined;
    for (const publishers of [this.#publishers, this.#heard]) {
      publishers.get(endpoint.slot)?.close();
      publishers.delete(endpoint.slot);
    }
    this.#parts.announcements.clear(endpoint.slot);
  }

  close(): void {
    this.#isClosed = true;
    this.#central?.close();
    this.#central = undefined;
    for (const publishers of [this.#publishers, this.#heard]) {
      for (const publisher of publishers.values()) publisher.close();
      publishers.clear();
    }
    this.#endpoints.clear();
  }

  #streamFor(publisher: Publisher, endpoint: Endpoint | undefined, replayAddress: string | undefined): EventStream {
    const { clock, sockets, announcements } = this.#parts;
    return new EventStream({
      clock,
      apply: (message) => (endpoint === undefined ? undefined : this.#apply(publisher, endpoint, message)),
      clear: () => {
        if (endpoint !== undefined) announcements.clear(endpoint.slot);
      },
      replay: replayAddress === undefined ? undefined : (from, events) => sockets.replay(replayAddress, from, events),
      fault: (fault, error) => this.#fault(publisher, fault, error),
    });
  }

  #eventsOf(publisher: Publisher, message: (message: EventMessage) => Promise<void> | undefined): SubscriptionEvents {
    return {
      message: (received) => {
        if (this.#isClosed) return undefined;
        publisher.messages++;
        // What is dropped costs time, too.
        const started = this.#parts.clock.now();
        return message(received) ?? this.#budget.spent(started);
      },
      disconnected: () => {
        publisher.reconnections++;
        publisher.stream.disconnected();
      },
      fault: (fault, error) => {
        const started = this.#parts.clock.now();
        this.#fault(publisher, fault, error);
        return this.#budget.spent(started);
      },
    };
  }

  /** All publishers send to one socket: the topic says which one it is. */
  #centralEvents(): SubscriptionEvents {
    const state = this.#centralState;
    return this.#eventsOf(state, (message) => {
      const endpoint = this.#named(podIn(message.topic));
      if (endpoint === undefined) {
        this.#fault(state, "unknown-pod", undefined);
        return undefined;
      }
      const publisher = this.#heard.get(endpoint.slot) ?? this.#hear(endpoint);
      publisher.messages++;
      return publisher.stream.message(message);
    });
  }

  #hear(endpoint: Endpoint): Publisher {
    const { id, slot } = endpoint;
    const publisher = new Publisher(this.#publishers.has(slot) ? `${CENTRAL}/${id}` : id);
    publisher.stream = this.#streamFor(publisher, endpoint, undefined);
    this.#heard.set(slot, publisher);
    return publisher;
  }

  /** Returns the endpoint that a publisher means: by address and port, by address, or by the name of the pod. */
  #named(pod: string): Endpoint | undefined {
    this.#names ??= namesOf([...this.#endpoints.values()]);
    return this.#names.get(pod);
  }

  #apply(publisher: Publisher, endpoint: Endpoint, message: EventMessage): Promise<void> | undefined {
    const started = this.#parts.clock.now();
    const rest = this.#read(publisher, endpoint, message, started);
    const pause = this.#budget.spent(started);
    return rest === undefined ? pause : this.#applyRest(publisher, endpoint, message, rest, pause);
  }

  /** A message may hold more events than fit into a slice. */
  async #applyRest(
    publisher: Publisher,
    endpoint: Endpoint,
    message: EventMessage,
    from: BatchPlace,
    first: Promise<void> | undefined,
  ): Promise<void> {
    let rest: BatchPlace | undefined = from;
    let pause = first;
    for (;;) {
      await pause;
      // The slot may be another's by now.
      if (rest === undefined || this.#endpoints.get(endpoint.slot) !== endpoint) return;
      const started = this.#parts.clock.now();
      rest = this.#read(publisher, endpoint, message, started, rest);
      pause = this.#budget.spent(started);
    }
  }

  /** Takes events until a slice is over. @returns where to go on */
  #read(
    publisher: Publisher,
    endpoint: Endpoint,
    { topic, payload }: EventMessage,
    started: number,
    from?: BatchPlace,
  ): BatchPlace | undefined {
    const model = modelIn(topic);
    try {
      return this.#reader.read(
        payload,
        (event, { rank }) => {
          this.#parts.announcements.take(event, this.#ranked(publisher, endpoint, rank).slot, rank, model);
        },
        () => this.#budget.isSpent(started),
        from,
      );
    } catch (error) {
      // Also what nobody expects: a message of a publisher must not end the process.
      this.#fault(publisher, "malformed", error);
      return undefined;
    }
  }

  /**
   * On the address where all ranks send, the rank of a payload says which endpoint of the address is meant. On a socket to one
   * endpoint it only tells the sources of that endpoint apart: what comes there counts for nobody else.
   */
  #ranked(publisher: Publisher, endpoint: Endpoint, rank: number): Endpoint {
    if (rank < 0 || rank === endpoint.rank || this.#heard.get(endpoint.slot) !== publisher) return endpoint;
    for (const other of this.#endpoints.values())
      if (other.address === endpoint.address && other.rank === rank) return other;
    return endpoint;
  }

  #fault(publisher: Publisher, fault: SocketFault, error: unknown): void {
    publisher.faults.set(fault, (publisher.faults.get(fault) ?? 0) + 1);
    this.#parts.onFault(publisher.pod, fault, error);
  }
}

/** Own names go before addresses, and of the endpoints of one address the lowest rank has it. */
function namesOf(endpoints: readonly Endpoint[]): ReadonlyMap<string, Endpoint> {
  const names = new Map<string, Endpoint>();
  const name = (key: string, endpoint: Endpoint): void => {
    if (!names.has(key)) names.set(key, endpoint);
  };
  for (const endpoint of endpoints)
    for (const key of [endpoint.hostPort, endpoint.id, endpoint.name]) name(key, endpoint);
  for (const endpoint of endpoints.toSorted((a, b) => a.rank - b.rank)) name(endpoint.address, endpoint);
  return names;
}

function addressOf(endpoint: Endpoint, port: number): string {
  const { address, rank } = endpoint;
  return `tcp://${address.includes(":") ? `[${address}]` : address}:${port + rank}`;
}

/** Returns the publisher in a topic `kv@<pod>@<model>`; a topic of another form as it is. */
function podIn(topic: string): string {
  const parts = topic.split("@");
  return parts.length === 3 ? parts[1]! : topic;
}

/** Returns the model in a topic `kv@<pod>@<model>`, else "". */
function modelIn(topic: string): string {
  const first = topic.indexOf("@");
  const second = topic.indexOf("@", first + 1);
  return first < 0 || second < 0 ? "" : topic.slice(second + 1);
}
