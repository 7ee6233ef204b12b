import type * as ZeroMq from "zeromq";
import { type Clock, delay } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import {
  type Closable,
  type EventSockets,
  messageIn,
  type ReplayEvents,
  replayedIn,
  replayRequest,
  type SocketFault,
  type SubscriptionEvents,
} from "./sockets.ts";

/** The most bytes of a part of a message: above 300,000 tokens. The socket cuts the connection of a publisher that sends more. */
const MAX_MESSAGE_BYTES = 2 * 2 ** 20;
/** Messages that wait in the socket. More wait at the publisher, which drops what it cannot keep; that is a gap. */
const RECEIVE_QUEUE = 32;
/** The most sockets. A subscription takes three, and the library allows 1023 by default. */
const MAX_SOCKETS = 65_535;
/** Milliseconds until a socket that failed is made again, at first and at most. */
const RETRY_MS = 1_000;
const RETRY_MAX_MS = 30_000;
/** Milliseconds between two attempts to connect, at first and at most. */
const RECONNECT_MS = 100;
const RECONNECT_MAX_MS = 5_000;
/** Milliseconds between two signs of life, and without one until the connection counts as lost. */
const HEARTBEAT_MS = 5_000;
const HEARTBEAT_TIMEOUT_MS = 15_000;
/** Milliseconds until a replay socket gives up connecting. */
const SEND_TIMEOUT_MS = 5_000;

/**
 * Returns sockets of the package `zeromq`, an optional peer dependency.
 * @throws SluiceError KV_EVENTS_CLIENT_MISSING
 */
export function zeroMqSockets(
  clock: Clock,
  load: () => typeof ZeroMq = () => process.getBuiltinModule("node:module").createRequire(import.meta.url)("zeromq"),
): EventSockets {
  try {
    return new ZeroMqSockets(load(), clock);
  } catch (cause) {
    throw new SluiceError(
      "KV_EVENTS_CLIENT_MISSING",
      `KV-cache events need the package zeromq (npm install zeromq@6): ${messageOf(cause)}`,
    );
  }
}

class ZeroMqSockets implements EventSockets {
  readonly #zeromq: typeof ZeroMq;
  readonly #clock: Clock;
  readonly #context: ZeroMq.Context;

  constructor(zeromq: typeof ZeroMq, clock: Clock) {
    this.#zeromq = zeromq;
    this.#clock = clock;
    this.#context = new zeromq.Context({ maxSockets: MAX_SOCKETS });
  }

  subscribe(address: string, topic: string, bind: boolean, events: SubscriptionEvents): Closable {
    const subscription = new Subscription({
      ...{ events, clock: this.#clock },
      make: () => {
        const socket = new this.#zeromq.Subscriber(this.#options(address));
        socket.subscribe(topic);
        return socket;
      },
      open: (socket) => (bind ? socket.bind(address) : socket.connect(address)),
      openFault: bind ? "bind" : "connect",
    });
    void subscription.run();
    return subscription;
  }

  replay(address: string, from: number, events: ReplayEvents): Closable {
    const replay = new Replay(
      events,
      () => new this.#zeromq.Dealer({ ...this.#options(address), sendTimeout: SEND_TIMEOUT_MS }),
    );
    void replay.run(address, from);
    return replay;
  }

  #options(address: string) {
    return { ...COMMON, context: this.#context, ipv6: address.includes("[") };
  }
}

const COMMON = {
  linger: 0,
  maxMessageSize: MAX_MESSAGE_BYTES,
  receiveHighWaterMark: RECEIVE_QUEUE,
  reconnectInterval: RECONNECT_MS,
  reconnectMaxInterval: RECONNECT_MAX_MS,
  heartbeatInterval: HEARTBEAT_MS,
  heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
};

/** A subscription until it is closed: a socket that fails is made again after a while. */
class Subscription implements Closable {
  readonly #events: SubscriptionEvents;
  readonly #clock: Clock;
  readonly #make: () => ZeroMq.Subscriber;
  readonly #open: (socket: ZeroMq.Subscriber) => Promise<void> | void;
  readonly #openFault: SocketFault;
  readonly #ended = new AbortController();
  #socket: ZeroMq.Subscriber | undefined;
  #wait = RETRY_MS;

  constructor({ events, clock, make, open, openFault }: SubscriptionParts) {
    this.#events = events;
    this.#clock = clock;
    this.#make = make;
    this.#open = open;
    this.#openFault = openFault;
  }

  close(): void {
    this.#ended.abort();
    this.#socket?.close();
  }

  async run(): Promise<void> {
    // The caller has nothing to close before this call returns.
    await undefined;
    while (!this.#isOver) {
      await this.#live();
      this.#socket?.close();
      this.#socket = undefined;
      if (this.#isOver) return;
      await delay(this.#clock, this.#wait, this.#ended.signal).catch(() => {});
      this.#wait = Math.min(RETRY_MAX_MS, 2 * this.#wait);
    }
  }

  get #isOver(): boolean {
    return this.#ended.signal.aborted;
  }

  /** Uses one socket until it fails. */
  async #live(): Promise<void> {
    let doing = this.#openFault;
    try {
      const socket = this.#make();
      this.#socket = socket;
      socket.events.on("disconnect", () => {
        if (!this.#isOver && socket === this.#socket) this.#events.disconnected();
      });
      await this.#open(socket);
      doing = "recv";
      while (!this.#isOver) {
        const frames = await socket.receive();
        if (this.#isOver) return;
        this.#wait = RETRY_MS;
        await this.#take(frames);
      }
    } catch (error) {
      if (this.#isOver) return;
      this.#events.fault(doing, error);
      // Messages may be lost until the next socket is there.
      if (doing === "recv") this.#events.disconnected();
    }
  }

  /** Whatever goes wrong with one message costs no other one. */
  #take(frames: readonly Buffer[]): Promise<void> | undefined {
    const message = messageIn(frames);
    if (message === undefined) return this.#events.fault("malformed", undefined);
    try {
      return this.#events.message(message);
    } catch (error) {
      return this.#events.fault("malformed", error);
    }
  }
}

interface SubscriptionParts {
  readonly events: SubscriptionEvents;
  readonly clock: Clock;
  make(): ZeroMq.Subscriber;
  /** Connects, or binds. */
  open(socket: ZeroMq.Subscriber): Promise<void> | void;
  /** What it is when that fails. */
  readonly openFault: SocketFault;
}

/** One request for a replay, and its answer. */
class Replay implements Closable {
  readonly #events: ReplayEvents;
  readonly #make: () => ZeroMq.Dealer;
  #socket: ZeroMq.Dealer | undefined;
  #isOver = false;

  constructor(events: ReplayEvents, make: () => ZeroMq.Dealer) {
    this.#events = events;
    this.#make = make;
  }

  close(): void {
    this.#isOver = true;
    this.#socket?.close();
  }

  async run(address: string, from: number): Promise<void> {
    // The caller knows this replay only when the call that began it has returned.
    await undefined;
    if (this.#isOver) return;
    try {
      const socket = this.#make();
      this.#socket = socket;
      socket.connect(address);
      await socket.send(replayRequest(from));
      while (!this.#isOver) {
        const message = replayedIn(await socket.receive());
        if (this.#isOver) return;
        if (message === "done") return this.#events.done();
        if (message === undefined) return this.#events.fault("malformed", undefined);
        await this.#events.message(message);
      }
    } catch (error) {
      if (!this.#isOver) this.#events.fault("replay-send", error);
    }
  }
}
