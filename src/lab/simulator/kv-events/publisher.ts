import { encode } from "@msgpack/msgpack";
import type * as ZeroMq from "zeromq";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { CacheEvent } from "./cache-events.ts";

/** The most messages that are kept for replays, as in vLLM, and the most bytes of them. */
const MAX_KEPT = 10_000;
const MAX_KEPT_BYTES = 64 * 2 ** 20;
/** The most messages that wait to be sent. Later ones are lost, which subscribers notice as a gap. */
const MAX_WAITING = 1_000;
/** The sequence of the message that ends a replay: -1. */
const END = Buffer.alloc(8, 0xff);
const EMPTY = Buffer.alloc(0);

export interface PublisherOptions {
  /** As in vLLM: an address with `*` or `::` is bound, any other one is connected to. */
  readonly address: string;
  /** The address that is bound for replays; "" = none. */
  readonly replayAddress: string;
  readonly topic: string;
  /** Wall-clock milliseconds. */
  readonly wall: () => number;
  readonly load?: () => typeof ZeroMq;
}

interface Kept {
  readonly sequence: Buffer;
  readonly payload: Buffer;
}

/**
 * Publishes KV-cache events as vLLM does: messages of topic, sequence and payload. A second socket sends those again that a
 * subscriber has missed.
 */
export class EventPublisher {
  readonly #options: PublisherOptions;
  readonly #socket: ZeroMq.Publisher;
  readonly #replay: ZeroMq.Router | undefined;
  readonly #waiting: Kept[] = [];
  #kept: Kept[] = [];
  #keptBytes = 0;
  #next = 0n;
  #sends = false;
  #isClosed = false;

  private constructor(options: PublisherOptions, socket: ZeroMq.Publisher, replay: ZeroMq.Router | undefined) {
    this.#options = options;
    this.#socket = socket;
    this.#replay = replay;
  }

  /** @throws SluiceError KV_EVENTS_CLIENT_MISSING without the package zeromq, LISTEN_FAILED */
  static async open(options: PublisherOptions): Promise<EventPublisher> {
    const zeromq = loaded(options.load);
    const socket = new zeromq.Publisher({ linger: 0 });
    const replay = options.replayAddress === "" ? undefined : new zeromq.Router({ linger: 0 });
    try {
      if (isBound(options.address)) await socket.bind(options.address);
      else socket.connect(options.address);
      await replay?.bind(options.replayAddress);
    } catch (error) {
      socket.close();
      replay?.close();
      throw new SluiceError(
        "LISTEN_FAILED",
        `cannot publish KV-cache events on ${options.address}: ${messageOf(error)}`,
      );
    }
    const publisher = new EventPublisher(options, socket, replay);
    void publisher.#answerReplays();
    return publisher;
  }

  publish(events: readonly CacheEvent[]): void {
    if (this.#isClosed) return;
    const sequence = Buffer.alloc(8);
    sequence.writeBigUInt64BE(this.#next++);
    const payload = Buffer.from(encode([this.#options.wall() / 1000, events], { useBigInt64: true }));
    const message = { sequence, payload };
    if (this.#replay !== undefined) this.#keep(message);
    if (this.#waiting.length >= MAX_WAITING) return;
    this.#waiting.push(message);
    if (!this.#sends) void this.#send();
  }

  close(): void {
    this.#isClosed = true;
    this.#socket.close();
    this.#replay?.close();
  }

  #keep(message: Kept): void {
    this.#kept.push(message);
    this.#keptBytes += message.payload.length;
    if (this.#kept.length <= MAX_KEPT && this.#keptBytes <= MAX_KEPT_BYTES) return;
    // Half of them, so that the list moves seldom.
    for (const { payload } of this.#kept.splice(0, Math.ceil(this.#kept.length / 2))) this.#keptBytes -= payload.length;
  }

  /** The socket takes one message at a time. */
  async #send(): Promise<void> {
    this.#sends = true;
    try {
      for (let one = this.#waiting.shift(); one !== undefined; one = this.#waiting.shift())
        await this.#socket.send([this.#options.topic, one.sequence, one.payload]);
    } catch {
      // The socket is closed.
    }
    this.#sends = false;
  }

  async #answerReplays(): Promise<void> {
    const replay = this.#replay;
    try {
      while (replay !== undefined && !this.#isClosed) {
        const [client, , from] = await replay.receive();
        if (client === undefined || from?.length !== 8) continue;
        const first = from.readBigUInt64BE();
        for (const { sequence, payload } of [...this.#kept])
          if (sequence.readBigUInt64BE() >= first) await replay.send([client, EMPTY, sequence, payload]);
        await replay.send([client, EMPTY, END, EMPTY]);
      }
    } catch {
      // The socket is closed.
    }
  }
}

function loaded(
  load: () => typeof ZeroMq = () => process.getBuiltinModule("node:module").createRequire(import.meta.url)("zeromq"),
): typeof ZeroMq {
  try {
    return load();
  } catch (cause) {
    throw new SluiceError(
      "KV_EVENTS_CLIENT_MISSING",
      `--kv-events needs the package zeromq (npm install zeromq@6): ${messageOf(cause)}`,
    );
  }
}

/** Whether subscribers connect to an address of `PublisherOptions.address`. */
export function isBound(address: string): boolean {
  return /\*|::/.test(address);
}

/** Returns the address of the server with this number: its port is so much higher. An address without a port stays. */
export function addressOf(address: string, server: number): string {
  return address.replace(/:(\d+)$/, (_, port: string) => `:${Number(port) + server}`);
}
