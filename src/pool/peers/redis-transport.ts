import type { Clock, Timer } from "../../base/clock/clock.ts";
import { type Random, uuidFrom } from "../../base/clock/random.ts";
import { hostPort } from "../../base/inference/endpoint.ts";
import { parseRedisUrl, type RedisConnection } from "../../base/redis/address.ts";
import { connectRedis, type Redis, type RedisDeps, type RedisOptions } from "../../base/redis/connection.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { unframed } from "./redis-frame.ts";
import { type PeerKeys, peerKeys } from "./redis-keys.ts";
import { BLOCK, RedisLog } from "./redis-log.ts";
import { type Part, RedisState, type StoreState } from "./redis-state.ts";
import { KEPT, RedisWriter, type Written } from "./redis-writer.ts";
import type { PeerReceiver, PeerTransport } from "./transport.ts";

/** Milliseconds without an answer after which a store is away: far more than it needs, less than a load lives. */
const SILENCE = 1500;
/** Milliseconds between two questions whether the connection of the subscription still lives. */
const LISTENS_EVERY = 1000;
/** The most loads that a replica reads from the store when it joins. */
const MOST_MEMBERS = 256;
/** Milliseconds for the last messages. */
const LAST_WORDS = 500;

/** Where replicas share, and under which name. */
export interface RedisPeersSettings {
  readonly redis: RedisConnection;
  /** Replicas of one name on one store share; at most 253 characters, without braces. */
  readonly name: string;
}

/** Makes a connection; `connectRedis`, or a fake. */
type Connect = (connection: RedisConnection, deps: RedisDeps, options: RedisOptions) => Redis;

interface Deps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly connect?: Connect;
}

/** The store as this replica sees it, for people and metrics. */
export interface StoreView extends StoreState, Written {
  /** Host and port of the URL. */
  readonly server: string;
  /** Messages of the log that wait, and that were dropped. */
  readonly waiting: number;
  readonly dropped: number;
  /** Messages that were read. */
  readonly loadsRead: number;
  readonly placedRead: number;
  /** Messages that no replica has sent, or that were damaged. */
  readonly damaged: number;
}

/**
 * Carries messages through Redis or Valkey, on three connections: one writes, one listens to loads, one reads the log. Loads go by
 * publish and subscribe; a key that expires keeps the newest load of each replica for those who join later. The log is a capped
 * stream. No call waits, and none throws.
 */
export class RedisPeerTransport implements PeerTransport {
  readonly #deps: Deps;
  readonly #settings: RedisPeersSettings;
  readonly #keys: PeerKeys;
  readonly #state: RedisState;
  /** Since `start`. */
  #links: Links | undefined;
  #receiver: PeerReceiver | undefined;
  readonly #read = { loads: 0, placed: 0, damaged: 0 };
  /** The log was read to its end on the present connection. */
  #isRead = false;
  #pulse: Timer | undefined;
  #closed = false;

  /** Connects not before `start`. @throws SluiceError REDIS_URL_INVALID */
  constructor(settings: RedisPeersSettings, deps: Deps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#keys = peerKeys(settings.name, uuidFrom(deps.random));
    const { host, port } = parseRedisUrl(settings.redis.url);
    this.#state = new RedisState({
      ...{ clock: deps.clock, log: deps.log, server: hostPort(host, port) },
      changed: (up, reason) => {
        if (this.#closed) return;
        this.#receiver?.connection(up, reason);
        // The log may have been read before the other connections were ready.
        if (up && this.#isRead) this.#receiver?.caughtUp();
      },
    });
  }

  publishLoad(message: Uint8Array): void {
    this.#links?.writer.load(message);
  }

  appendPlaced(message: Uint8Array): void {
    this.#links?.writer.placed(message);
  }

  start(receiver: PeerReceiver): void {
    this.#receiver = receiver;
    const { clock, random } = this.#deps;
    const part = (name: Part) => ({
      works: () => this.#state.works(name),
      fails: (error: unknown) => this.#state.fails(name, error),
    });
    const writing = this.#connect("writer", { writes: true }, () => {
      writer.connected();
      this.#join();
    });
    const listening = this.#connect("listener", {}, () => this.#join());
    listening.subscribeBytes(this.#keys.channel, (frame) => this.#load(frame));
    const reading = this.#connect("reader", { commandTimeout: BLOCK + SILENCE }, () => log.connected());
    const writer = new RedisWriter(writing, {
      ...{ clock, random, keys: this.#keys },
      works: (name) => this.#state.works(name),
      fails: (name, error) => this.#state.fails(name, error),
    });
    const log = new RedisLog(reading, {
      ...{ clock, random, key: this.#keys.log, ...part("XREAD") },
      message: (frame) => this.#placed(frame),
      caughtUp: () => {
        this.#isRead = true;
        if (this.#state.view.state === "up") this.#receiver?.caughtUp();
      },
    });
    this.#links = { writing, listening, writer, log };
    this.#feelPulse();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    const links = this.#links;
    this.#pulse?.cancel();
    links?.listening.close();
    links?.log.close();
    this.#closed = true;
    await links?.writer.close(LAST_WORDS);
    this.#receiver = undefined;
  }

  get view(): StoreView {
    const writer = this.#links?.writer;
    return {
      ...this.#state.view,
      server: this.#state.server,
      ...(writer?.written ?? { loads: 0, placed: 0, bytes: 0, answerMs: undefined }),
      waiting: writer?.outbox.waiting ?? 0,
      dropped: writer?.outbox.dropped ?? 0,
      loadsRead: this.#read.loads,
      placedRead: this.#read.placed,
      damaged: this.#read.damaged,
    };
  }

  #connect(part: Part, options: RedisOptions, ready: () => void): Redis {
    const { clock, random, connect = connectRedis } = this.#deps;
    // The state says what the connections would: one line for all three.
    const deps = { clock, random, log: silentLogger };
    return connect(this.#settings.redis, deps, {
      commandTimeout: SILENCE,
      slotOf: this.#keys.log,
      ...options,
      onReady: () => {
        this.#state.works(part);
        ready();
      },
      onAway: (problem) => {
        if (part === "reader") this.#isRead = false;
        this.#state.fails(part, new Error(problem));
      },
    });
  }

  /** Reads the loads of replicas that have nothing new to tell. The subscription holds by now, so that none is missed between. */
  #join(): void {
    const { writing, listening } = this.#links ?? {};
    if (writing?.ready && listening?.ready) void this.#readLoads(writing);
  }

  async #readLoads(redis: Redis): Promise<void> {
    const { members, load } = this.#keys;
    try {
      const ids = await redis.send(["SRANDMEMBER", members, String(MOST_MEMBERS)]);
      if (!Array.isArray(ids) || ids.length === 0) return;
      const keys = ids.map((id) => load(String(id)));
      const [frames, ...left] = await Promise.all([
        redis.send(["MGET", ...keys], true),
        ...keys.map((key) => redis.send(["PTTL", key])),
      ]);
      this.#state.works("MGET");
      const gone = ids.filter((_, i) => Array.isArray(frames) && frames[i] === null).map(String);
      // Its owner may have died since it wrote the load: it must not count for 3 s more.
      for (const [i, frame] of Array.isArray(frames) ? frames.entries() : [])
        if (Buffer.isBuffer(frame)) this.#load(frame, Math.max(0, KEPT - Number(left[i])));
      // A replica that lives adds itself again.
      if (gone.length > 0) await redis.send(["SREM", members, ...gone]);
    } catch (error) {
      if (redis.ready) this.#state.fails("MGET", error);
    }
  }

  #load(frame: Buffer, ageMs?: number): void {
    const message = this.#message(frame);
    if (message === undefined) return;
    this.#read.loads++;
    this.#receiver?.load(message, ageMs);
  }

  #placed(frame: Uint8Array): void {
    const message = this.#message(frame);
    if (message === undefined) return;
    this.#read.placed++;
    this.#receiver?.placed(message);
  }

  #message(frame: Uint8Array): Uint8Array | undefined {
    if (this.#closed) return undefined;
    const message = unframed(frame);
    if (message === undefined) this.#read.damaged++;
    return message;
  }

  /** A subscription that is dead says nothing, like one without news: only a question shows the difference. */
  #feelPulse(): void {
    this.#pulse = this.#deps.clock.after(
      LISTENS_EVERY,
      () => {
        const { listening } = this.#links ?? {};
        // Its connection tells its own end.
        if (listening?.ready) listening.send(["PING"]).catch(() => {});
        this.#feelPulse();
      },
      true,
    );
  }
}

/** The connections, and what uses them. */
interface Links {
  readonly writing: Redis;
  readonly listening: Redis;
  readonly writer: RedisWriter;
  readonly log: RedisLog;
}
