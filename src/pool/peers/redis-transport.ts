import type { Clock, Timer } from "../../base/clock/clock.ts";
import { type Random, uuidFrom } from "../../base/clock/random.ts";
import { hostPort } from "../../base/inference/endpoint.ts";
import { parseRedisUrl, type RedisConnection } from "../../base/redis/address.ts";
import {
  connectRedis,
  type Redis,
  type RedisDeps,
  type RedisOptions,
  type RedisReply,
} from "../../base/redis/connection.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { unframed } from "./redis-frame.ts";
import { type PeerKeys, peerKeys } from "./redis-keys.ts";
import { BLOCK, RedisLog } from "./redis-log.ts";
import { type Link, type Part, RedisState, type StoreState } from "./redis-state.ts";
import { KEPT, RedisWriter, type Written } from "./redis-writer.ts";
import type { PeerReceiver, PeerTransport } from "./transport.ts";

/** Milliseconds without an answer after which a store is away: far more than it needs, less than a load lives. */
const SILENCE = 1500;
/**
 * Milliseconds for the first commands of a connection: the next attempt must not wait long for one that fell into a silent network, so
 * that replicas agree 5 s after it speaks again. The longest pause between two attempts is 2 s.
 */
const BEGIN = 2000;
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
  /** How far this replica has read the loads that the store keeps. */
  #joining: "due" | "asking" | "done" = "due";
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
      ...{ clock, random, key: this.#keys.log },
      works: () => this.#state.works("XREAD"),
      fails: (error) => this.#state.fails("XREAD", error),
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
    this.#state.close();
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

  #connect(part: Link, options: RedisOptions, ready: () => void): Redis {
    const { clock, random, connect = connectRedis } = this.#deps;
    // The state says what the connections would: one line for all three.
    const deps = { clock, random, log: silentLogger };
    const link = connect(this.#settings.redis, deps, {
      commandTimeout: SILENCE,
      beginTimeout: BEGIN,
      slotOf: this.#keys.log,
      ...options,
      onReady: () => {
        if (this.#state.isSlow(part)) this.#prove(part, link);
        else this.#state.works(part);
        ready();
      },
      onAway: (problem) => {
        if (part === "reader") this.#isRead = false;
        this.#state.fails(part, new Error(problem));
      },
    });
    return link;
  }

  /** A store that was slow may have been slow with the first commands, too: only an answer in time shows that it is not. */
  #prove(part: Link, link: Redis): void {
    link.send(["PING"]).then(
      () => this.#state.works(part),
      // The connection tells its own end.
      () => {},
    );
  }

  /** Reads the loads of replicas that have nothing new to tell. The subscription holds by now, so that none is missed between. */
  #join(): void {
    const { writing, listening } = this.#links ?? {};
    if (!writing?.ready || !listening?.ready) return;
    this.#joining = "asking";
    void this.#readLoads(writing).then((done) => {
      this.#joining = done ? "done" : "due";
    });
  }

  /** @returns whether the store took every command. Never rejects */
  async #readLoads(redis: Redis): Promise<boolean> {
    const { members, load } = this.#keys;
    const ids = await this.#ask(redis, ["SRANDMEMBER", members, String(MOST_MEMBERS)]);
    if (!Array.isArray(ids)) return false;
    if (ids.length === 0) return true;
    const keys = ids.map((id) => load(String(id)));
    const [frames, ...left] = await Promise.all([
      this.#ask(redis, ["MGET", ...keys], true),
      ...keys.map((key) => this.#ask(redis, ["PTTL", key])),
    ]);
    if (!Array.isArray(frames) || left.includes(undefined)) return false;
    // Its owner may have died since it wrote the load: it must not count for 3 s more.
    for (const [i, frame] of frames.entries())
      if (Buffer.isBuffer(frame)) this.#load(frame, Math.max(0, KEPT - Number(left[i])));
    const gone = ids.filter((_, i) => frames[i] === null).map(String);
    // A replica that lives adds itself again.
    return gone.length === 0 || (await this.#ask(redis, ["SREM", members, ...gone])) !== undefined;
  }

  /** @returns undefined where the store refuses the command, or is away. Never rejects */
  async #ask(redis: Redis, command: readonly [Part, ...string[]], raw = false): Promise<RedisReply | undefined> {
    const [part] = command;
    try {
      const reply = await redis.send(command, raw);
      this.#state.works(part);
      return reply;
    } catch (error) {
      // The connection tells its own end.
      if (redis.ready) this.#state.fails(part, error);
      return undefined;
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

  /**
   * A subscription that is dead says nothing, like one without news: only a question shows the difference. What the store refused
   * when this replica joined is asked again.
   */
  #feelPulse(): void {
    this.#pulse = this.#deps.clock.after(
      LISTENS_EVERY,
      () => {
        const { listening } = this.#links ?? {};
        // Its connection tells its own end.
        if (listening?.ready) listening.send(["PING"]).catch(() => {});
        if (this.#joining === "due") this.#join();
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
