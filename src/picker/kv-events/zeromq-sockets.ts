import type * as ZeroMq from "zeromq";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import {
  type Closable,
  type EventSockets,
  messageIn,
  type ReplayEvents,
  replayedIn,
  replayRequest,
  type SubscriptionEvents,
} from "./sockets.ts";

/** The most bytes of a part of a message: above 300,000 tokens. The socket cuts the connection of a publisher that sends more. */
const MAX_MESSAGE_BYTES = 2 * 2 ** 20;
/** Messages that wait in the socket; later ones are dropped, which is a gap. */
const RECEIVE_QUEUE = 1_000;
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
  load: () => typeof ZeroMq = () => process.getBuiltinModule("node:module").createRequire(import.meta.url)("zeromq"),
): EventSockets {
  try {
    return new ZeroMqSockets(load());
  } catch (cause) {
    throw new SluiceError(
      "KV_EVENTS_CLIENT_MISSING",
      `KV-cache events need the package zeromq (npm install zeromq@6): ${messageOf(cause)}`,
    );
  }
}

class ZeroMqSockets implements EventSockets {
  readonly #zeromq: typeof ZeroMq;

  constructor(zeromq: typeof ZeroMq) {
    this.#zeromq = zeromq;
  }

  subscribe(address: string, topic: string, bind: boolean, events: SubscriptionEvents): Closable {
    const socket = new this.#zeromq.Subscriber({
      ...COMMON,
      receiveHighWaterMark: RECEIVE_QUEUE,
      ipv6: address.includes("["),
    });
    const ended = { value: false };
    socket.events.on("disconnect", () => {
      if (!ended.value) events.disconnected();
    });
    socket.subscribe(topic);
    void receive(socket, address, bind, events, ended);
    return closing(socket, ended);
  }

  replay(address: string, from: number, events: ReplayEvents): Closable {
    const socket = new this.#zeromq.Dealer({
      ...COMMON,
      sendTimeout: SEND_TIMEOUT_MS,
      receiveHighWaterMark: RECEIVE_QUEUE,
      ipv6: address.includes("["),
    });
    const ended = { value: false };
    void ask(socket, address, from, events, ended);
    return closing(socket, ended);
  }
}

const COMMON = {
  linger: 0,
  maxMessageSize: MAX_MESSAGE_BYTES,
  reconnectInterval: RECONNECT_MS,
  reconnectMaxInterval: RECONNECT_MAX_MS,
  heartbeatInterval: HEARTBEAT_MS,
  heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
};

async function receive(
  socket: ZeroMq.Subscriber,
  address: string,
  bind: boolean,
  events: SubscriptionEvents,
  ended: { readonly value: boolean },
): Promise<void> {
  try {
    if (bind) await socket.bind(address);
    else socket.connect(address);
  } catch (error) {
    if (!ended.value) events.fault(bind ? "bind" : "connect", error);
    return;
  }
  while (!ended.value) {
    let frames: Buffer[];
    try {
      frames = await socket.receive();
    } catch (error) {
      if (!ended.value) events.fault("recv", error);
      return;
    }
    const message = messageIn(frames);
    if (message === undefined) {
      events.fault("malformed", undefined);
      continue;
    }
    const pause = events.message(message);
    if (pause !== undefined) await pause;
  }
}

async function ask(
  socket: ZeroMq.Dealer,
  address: string,
  from: number,
  events: ReplayEvents,
  ended: { readonly value: boolean },
): Promise<void> {
  try {
    socket.connect(address);
    await socket.send(replayRequest(from));
    while (!ended.value) {
      const message = replayedIn(await socket.receive());
      if (message === "done") {
        events.done();
        return;
      }
      if (message === undefined) {
        events.fault("malformed", undefined);
        return;
      }
      const pause = events.message(message);
      if (pause !== undefined) await pause;
    }
  } catch (error) {
    if (!ended.value) events.fault("replay-send", error);
  }
}

function closing(socket: { close(): void }, ended: { value: boolean }): Closable {
  return {
    close() {
      ended.value = true;
      socket.close();
    },
  };
}
