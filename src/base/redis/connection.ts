import { ErrorReply, RESP_TYPES } from "@redis/client";
import { type Clock, expireAfter, type Timer } from "../clock/clock.ts";
import type { Random } from "../clock/random.ts";
import { hostPort } from "../inference/endpoint.ts";
import { messageOf, type SluiceError } from "../inference/errors.ts";
import type { Logger } from "../telemetry/logger.ts";
import { noTracing, type Tracing } from "../telemetry/tracing.ts";
import { parseRedisUrl, type RedisAddress, type RedisConnection } from "./address.ts";
import { type Client, HANDSHAKES, makeClient, NOT_THE_HANDSHAKE, REDIS_CONNECT_TIMEOUT } from "./client.ts";
import { pauseAfter } from "./pause.ts";
import { AnswerLost, brokerError, unavailable } from "./reply-error.ts";
import type { RedisScript } from "./script.ts";
import { primaryOf } from "./sentinel.ts";
import { isMoved, Whereabouts } from "./whereabouts.ts";

export type RedisArgument = string | Buffer;
export type RedisReply = string | number | boolean | null | Buffer | readonly RedisReply[];

export interface RedisDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly tracing?: Tracing;
}

export interface RedisOptions {
  /** Name of the connection in `CLIENT LIST`, unless the URL gives one; without spaces. */
  readonly name?: string;
  /** Milliseconds that the server may be silent while an answer is due; default 10,000. Longer than any blocking command. */
  readonly commandTimeout?: number;
  /** Milliseconds for the way to the server and the first commands; default 5,000 and `commandTimeout`. */
  readonly beginTimeout?: number;
  /** Loaded on every connection before it counts as ready. */
  readonly scripts?: readonly RedisScript[];
  /** True: a server that takes no writes (a read-only replica) counts as away. */
  readonly writes?: boolean;
  /**
   * In a cluster the connection goes to the node that has this key, wherever it moves. All keys of the connection must have its slot.
   * Absent = the server is no cluster.
   */
  readonly slotOf?: string;
  /** A connection is ready: the first, and each after a break. */
  onReady?(): void;
  /** A connection broke, or an attempt to connect failed: why. */
  onAway?(problem: string): void;
  /** Another client changed a key that was read behind `CLIENT CACHING YES`; undefined = any key may have changed. */
  onChanged?(key: string | undefined): void;
}

/**
 * A Redis server that may be away: one connection, made again and again with a growing pause. A command either gets its answer
 * or rejects. No command waits for a server to come back, and none is sent twice. Commands of one turn of the event loop go out
 * together, in order.
 */
export interface Redis {
  /** Host and port, for messages. */
  readonly server: string;
  readonly ready: boolean;
  /** Whether the server announces changes of keys (`onChanged`). */
  readonly announces: boolean;
  /**
   * @param raw true = texts of the answer come as bytes
   * @throws SluiceError BROKER_UNAVAILABLE (an AnswerLost when the server may have run the command), or RedisReplyError
   */
  send(args: readonly RedisArgument[], raw?: boolean): Promise<RedisReply>;
  /** Runs a script; its source is sent only when the server does not know it. @param raw and errors as for `send` */
  run(script: RedisScript, keys: readonly string[], args: readonly RedisArgument[], raw?: boolean): Promise<RedisReply>;
  /** Listens to a channel on this and every later connection. */
  subscribe(channel: string, listener: (message: string) => void): void;
  /** The same for messages that are not text. */
  subscribeBytes(channel: string, listener: (message: Buffer) => void): void;
  /** Resolves when a connection is ready. @param limit milliseconds @throws SluiceError BROKER_UNAVAILABLE with the last problem */
  whenReady(limit: number): Promise<void>;
  /** Why there is no connection now. */
  absence(): SluiceError;
  /** Another connection to the same server. */
  another(options: RedisOptions): Redis;
  /** Ends the connection; commands without an answer reject. */
  close(): void;
}

const COMMAND_TIMEOUT = 10_000;

/** Maps of the newer protocol come as the older one writes them: keys and values in turn. */
const BYTES = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer, [RESP_TYPES.MAP]: Array } };

/**
 * Begins to connect, and never gives up.
 * @throws SluiceError REDIS_URL_INVALID
 */
export function connectRedis(connection: RedisConnection, deps: RedisDeps, options: RedisOptions = {}): Redis {
  return new RedisLink(connection, deps, options);
}

class RedisLink implements Redis {
  readonly server: string;
  readonly #connection: RedisConnection;
  readonly #address: RedisAddress;
  readonly #deps: RedisDeps;
  readonly #tracing: Tracing;
  readonly #options: RedisOptions;
  /** How to listen to each channel. */
  readonly #channels = new Map<string, (client: Client) => Promise<void>>();
  readonly #whereabouts: Whereabouts;
  /** The question to the Sentinels. */
  #asking: AbortController | undefined;
  /** The client that is connecting or connected. */
  #client: Client | undefined;
  #ready = false;
  #announces = false;
  #handshake = 0;
  #failures = 0;
  #problem = "not connected yet";
  #waiters: ((problem?: SluiceError) => void)[] = [];
  #closed = false;
  /** Fires the next attempt, ends one that takes too long, or checks whether answers still come. */
  #timer: Timer | undefined;
  #due = 0;
  #answers = 0;
  #watch: Timer | undefined;

  constructor(connection: RedisConnection, deps: RedisDeps, options: RedisOptions) {
    this.#connection = connection;
    this.#address = parseRedisUrl(connection.url);
    this.#deps = deps;
    this.#tracing = connection.enableTracing ? (deps.tracing ?? noTracing) : noTracing;
    this.#options = options;
    const { host, port, others, sentinel, ignored } = this.#address;
    const cluster = options.slotOf !== undefined;
    this.#whereabouts = new Whereabouts(this.#address, cluster);
    this.server = hostPort(host, port);
    const idle = others.length > 0 && !cluster && sentinel === undefined ? ["addr", ...ignored] : ignored;
    if (idle.length > 0)
      deps.log.warn({ options: idle }, "options in the query string of the Redis URL have no effect");
    this.#connect();
  }

  get ready(): boolean {
    return this.#ready;
  }

  get announces(): boolean {
    return this.#announces;
  }

  async send(args: readonly RedisArgument[], raw = false): Promise<RedisReply> {
    const client = this.#client;
    const name = String(args[0]);
    if (!this.#ready || client === undefined) throw this.absence();
    const span = this.#tracing.on
      ? this.#tracing.start(`redis ${name}`, {}, { "db.system.name": "redis", "db.operation.name": name })
      : undefined;
    this.#due++;
    if (this.#watch === undefined) this.#watchAnswers();
    try {
      return (await client.sendCommand(args, raw ? BYTES : undefined)) as RedisReply;
    } catch (error) {
      span?.fail("command failed");
      // A connection that was given up has the reason; its client only knows that it was ended.
      const told =
        client === this.#client
          ? brokerError(this.server, name, error)
          : new AnswerLost(this.server, this.#problem, error);
      // The server became a replica: the name may lead to its successor by now.
      if (client === this.#client && told.message.includes("READONLY")) this.#broken(client, told.message);
      if (client === this.#client && isMoved(messageOf(error))) {
        this.#broken(client, messageOf(error));
        throw unavailable(this.server, messageOf(error));
      }
      throw told;
    } finally {
      this.#answers++;
      this.#due--;
      span?.end();
    }
  }

  async run(
    script: RedisScript,
    keys: readonly string[],
    args: readonly RedisArgument[],
    raw = false,
  ): Promise<RedisReply> {
    const rest = [String(keys.length), ...keys, ...args];
    try {
      return await this.send(["EVALSHA", script.sha, ...rest], raw);
    } catch (error) {
      if (!messageOf(error).includes("NOSCRIPT")) throw error;
      return this.send(["EVAL", script.source, ...rest], raw);
    }
  }

  subscribe(channel: string, listener: (message: string) => void): void {
    this.#listen(channel, (client) => client.subscribe(channel, listener));
  }

  subscribeBytes(channel: string, listener: (message: Buffer) => void): void {
    this.#listen(channel, (client) => client.subscribe(channel, listener, true));
  }

  #listen(channel: string, begin: (client: Client) => Promise<void>): void {
    this.#channels.set(channel, begin);
    const client = this.#client;
    if (this.#ready && client !== undefined) begin(client).catch((error) => this.#broken(client, messageOf(error)));
  }

  whenReady(limit: number): Promise<void> {
    if (this.#ready) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const timer = this.#deps.clock.after(limit, () => done(this.absence()));
      const done = (problem?: SluiceError): void => {
        timer.cancel();
        this.#waiters = this.#waiters.filter((waiter) => waiter !== done);
        if (problem === undefined) resolve();
        else reject(problem);
      };
      this.#waiters.push(done);
      if (this.#closed) done(this.absence());
    });
  }

  absence(): SluiceError {
    return unavailable(this.server, this.#problem);
  }

  another(options: RedisOptions): Redis {
    return new RedisLink(this.#connection, this.#deps, options);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#problem = "the connection was closed";
    this.#discard();
    for (const waiter of [...this.#waiters]) waiter(this.absence());
  }

  get #silence(): number {
    return this.#options.commandTimeout ?? COMMAND_TIMEOUT;
  }

  #connect(): void {
    if (this.#address.sentinel === undefined) {
      this.#open();
      return;
    }
    const asking = new AbortController();
    this.#asking = asking;
    primaryOf(this.#address, this.#connection.tls, this.#deps.clock, asking.signal).then(
      (place) => {
        this.#whereabouts.place = place;
        if (!asking.signal.aborted) this.#open();
      },
      (error) => {
        if (!asking.signal.aborted) this.#failed(messageOf(error));
      },
    );
  }

  #open(): void {
    const wish = HANDSHAKES[this.#handshake]!;
    const announce = wish.announce && this.#options.onChanged !== undefined;
    const handshake = announce === wish.announce ? wish : HANDSHAKES[1];
    const address = { ...this.#address, ...this.#whereabouts.place };
    const client = makeClient(address, this.#connection.tls, handshake, this.#options.name);
    this.#client = client;
    client.on("error", (error) => this.#broken(client, messageOf(error), error));
    client.on("end", () => this.#broken(client, "the connection ended"));
    // A client that is destroyed while its socket opens keeps the socket: it would hold the process, and a place at the server.
    client.on("connect", () => {
      if (client !== this.#client) client.destroy();
    });
    if (announce)
      client.on("invalidate", (key: Buffer | string | null) => {
        if (client === this.#client && this.#ready) this.#options.onChanged?.(key === null ? undefined : String(key));
      });
    const { beginTimeout = REDIS_CONNECT_TIMEOUT + this.#silence } = this.#options;
    // A pause of this process, such as its start, is no silence of the server.
    this.#timer = expireAfter(this.#deps.clock, beginTimeout, () =>
      this.#broken(client, "the server does not answer the first commands"),
    );
    this.#begin(client, announce).then(
      () => this.#begun(client, announce),
      (error) => this.#broken(client, messageOf(error), error),
    );
  }

  async #begin(client: Client, announce: boolean): Promise<void> {
    await client.connect();
    // Another node of a cluster answers with the place of the one that has the key. A server without clusters just answers.
    const { slotOf } = this.#options;
    if (slotOf !== undefined) await client.sendCommand(["EXISTS", slotOf]);
    if (this.#options.writes === true) {
      // Where INFO is forbidden, the first write shows it.
      const about = String(await client.sendCommand(["INFO", "replication"]).catch(() => ""));
      if (/^role:slave\r?$/m.test(about) && /^slave_read_only:1\r?$/m.test(about))
        throw new Error("READONLY: the server is a replica that takes no writes; connect to its primary");
    }
    const steps: Promise<unknown>[] = (this.#options.scripts ?? []).map(({ source }) =>
      client.sendCommand(["SCRIPT", "LOAD", source]),
    );
    // Only keys that are read, and not this connection's own changes of them.
    if (announce)
      steps.push(
        client.sendCommand(["CLIENT", "TRACKING", "OFF"]),
        client.sendCommand(["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"]),
        // Asked now, so that a server that forbids it fails here: later reads rely on it.
        client.sendCommand(["CLIENT", "CACHING", "YES"]),
      );
    for (const begin of this.#channels.values()) steps.push(begin(client));
    await Promise.all(steps);
  }

  #begun(client: Client, announce: boolean): void {
    if (client !== this.#client) return;
    this.#timer?.cancel();
    this.#ready = true;
    this.#announces = announce;
    const { log } = this.#deps;
    if (this.#failures > 0) log.info({ server: this.server }, "Redis answers");
    if (this.#options.onChanged !== undefined && !announce)
      log.warn(
        { server: this.server },
        "Redis does not announce changes of keys (CLIENT TRACKING), so Sluice polls the queues",
      );
    this.#failures = 0;
    this.#whereabouts.settled();
    this.#problem = "not connected";
    for (const waiter of [...this.#waiters]) waiter();
    this.#options.onReady?.();
  }

  /** Gives the connection up if it is still the one in use; the next follows after a pause. */
  #broken(client: Client, problem: string, error?: unknown): void {
    if (client !== this.#client) return;
    const { log } = this.#deps;
    const connected = this.#ready;
    this.#discard();
    if (this.#options.slotOf !== undefined && this.#whereabouts.follow(problem)) {
      this.#connect();
      return;
    }
    if (!connected && error instanceof ErrorReply && !NOT_THE_HANDSHAKE.test(problem)) {
      this.#handshake = (this.#handshake + 1) % HANDSHAKES.length;
      if (this.#handshake > 0) {
        log.debug(
          { server: this.server, problem },
          "Redis refuses the handshake; Sluice reconnects with a simpler handshake",
        );
        this.#connect();
        return;
      }
    }
    if (connected) this.#handshake = 0;
    this.#failed(problem);
  }

  /** The next attempt follows after a pause. */
  #failed(problem: string): void {
    const { clock, log, random } = this.#deps;
    if (this.#failures === 0 || problem !== this.#problem)
      log.warn({ server: this.server, problem }, "Redis is not usable; Sluice reconnects until Redis answers");
    this.#problem = problem;
    this.#options.onAway?.(problem);
    this.#timer = clock.after(pauseAfter(this.#failures++, random), () => this.#connect());
  }

  #discard(): void {
    const client = this.#client;
    this.#client = undefined;
    this.#asking?.abort();
    this.#ready = false;
    this.#announces = false;
    this.#timer?.cancel();
    this.#watch?.cancel();
    this.#watch = undefined;
    client?.destroy();
  }

  /** The connection is dead when an answer was due during a whole span of time, and none came. */
  #watchAnswers(): void {
    const before = this.#answers;
    this.#watch = expireAfter(this.#deps.clock, this.#silence, () => {
      this.#watch = undefined;
      if (this.#due === 0 || this.#client === undefined) return;
      if (this.#answers === before) this.#broken(this.#client, `no answer within ${this.#silence} ms`);
      else this.#watchAnswers();
    });
  }
}
