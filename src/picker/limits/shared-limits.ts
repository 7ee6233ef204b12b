import type { Clock, Timer } from "../../base/clock/clock.ts";
import { type Random, uuidFrom } from "../../base/clock/random.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { connectRedis, type Redis } from "../../base/redis/connection.ts";
import { readScript } from "../../base/redis/script.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Counter } from "./counter.ts";
import type { LimitsStore } from "./limits-store.ts";
import { argumentsFor, FIGURES, hear, type Sent, toSend } from "./share-round.ts";

/** For `SharedLimits` and its tests. */
export const SHARE = readScript(import.meta.dirname, "share.lua");
const PREFIX = "sluice:limits:";
/** Milliseconds between two rounds while there is traffic. */
const INTERVAL = 100;
/** Milliseconds for which counters without requests in flight are told on, so that the next request knows the others. */
const WARM = 60_000;
/** Milliseconds without a word after which a gateway has died. */
const SILENCE = 10_000;
/** How often in that time a counter is told again: its requests in flight, and that this gateway lives. */
const HEARTBEATS = 5;
/** Milliseconds that Redis keeps a counter: the longest debt, and a minute. */
const KEPT = 660_000;
/** Milliseconds without an answer after which the others cannot be heard. */
const DEAF = 1500;
/** The most counters of one call of the script, which Redis runs in one piece. */
const BATCH = 100;
/** The most counters of one round; the others follow in the next one, in their order. */
const MOST_IN_ROUND = 1000;

/** How one counter is shared. */
interface Share {
  readonly counter: Counter;
  /** Has changed since it was told. */
  dirty: boolean;
  /** The round of which no answer came. */
  lost: Sent | undefined;
  rounds: number;
  toldAt: number;
  heardAt: number;
}

/** Parts of `SharedLimits`. */
interface SharedDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** Milliseconds without a word after which another gateway has died; default 10,000. */
  readonly silence?: number;
}

/**
 * Shares the counters of this gateway with others through Redis. No request waits for it: a request is judged by the figures of
 * the last round, and the next round tells what it used. Without Redis, the last known use of the others counts on.
 *
 * The bound: between two rounds, each gateway may admit what its figures allow. So all gateways together exceed a limit at most by
 * what each of them admits in 100 ms and one answer of Redis, and never by more than one limit for each further gateway.
 */
export class SharedLimits {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #redis: Redis;
  /** Random for each process: one that starts again is another gateway. */
  readonly #gateway: string;
  /** Of all keys. */
  readonly #prefix: string;
  readonly #silence: number;
  /** In the order in which they were told. */
  readonly #shares = new Map<Counter, Share>();
  #timer: Timer | undefined;
  #heartbeat: Timer | undefined;
  #running = false;
  #roundAt = Number.NEGATIVE_INFINITY;
  #heardAt: number;
  #hears = true;
  /** The last round got no answer. */
  #failing = false;
  #closed = false;

  /** @throws SluiceError REDIS_URL_INVALID */
  constructor({ connection, name }: LimitsStore, { clock, random, log, silence = SILENCE }: SharedDeps) {
    this.#clock = clock;
    this.#log = log;
    this.#gateway = uuidFrom(random);
    this.#silence = silence;
    this.#heardAt = clock.now();
    // The braces keep all keys of a name on one node of a cluster: a call of the script has many.
    this.#prefix = name === undefined ? PREFIX : `${PREFIX}{${name}}:`;
    const options = {
      ...{ scripts: [SHARE], writes: true, onReady: () => this.#connected() },
      ...(name === undefined ? {} : { slotOf: this.#prefix }),
    };
    this.#redis = connectRedis(connection, { clock, random, log }, options);
    this.#beat();
  }

  /** Host and port of the server. */
  get server(): string {
    return this.#redis.server;
  }

  /** Whether the figures of the other gateways are fresh. */
  get hears(): boolean {
    return this.#hears;
  }

  /** A counter was used. */
  touched(counter: Counter): void {
    const known = this.#shares.get(counter);
    if (known === undefined) {
      const now = this.#clock.now();
      const share = {
        counter,
        dirty: true,
        lost: undefined,
        rounds: 0,
        toldAt: Number.NEGATIVE_INFINITY,
        heardAt: now,
      };
      this.#shares.set(counter, share);
      counter.deaf = !this.#hears;
    } else known.dirty = true;
    if (this.#timer === undefined && !this.#running) this.#plan(this.#roundAt + INTERVAL - this.#clock.now());
  }

  /** The counter is kept no more. */
  left(counter: Counter): void {
    this.#shares.delete(counter);
  }

  #forget(counter: Counter): void {
    this.#shares.delete(counter);
    // The next request must not be judged by requests that ended long ago.
    counter.others.inFlight = 0;
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#heartbeat?.cancel();
    this.#redis.close();
  }

  #plan(ms: number): void {
    if (this.#closed) return;
    this.#timer?.cancel();
    this.#timer = this.#clock.after(
      ms,
      () => {
        this.#timer = undefined;
        void this.#round();
      },
      true,
    );
  }

  /** Redis is there, perhaps without its data: each counter tells what it knows. */
  #connected(): void {
    for (const share of this.#shares.values()) share.dirty = true;
    if (!this.#running) this.#plan(0);
  }

  #beat(): void {
    const now = this.#clock.now();
    for (const share of this.#shares.values()) {
      const { counter, toldAt, dirty } = share;
      if (counter.inFlight === 0 && now - counter.touchedAt > WARM && !dirty) this.#forget(counter);
      else if (now - toldAt >= this.#silence / HEARTBEATS) share.dirty = true;
    }
    // While there is nothing to tell, a connection is enough.
    if (this.#redis.ready && !this.#running && !this.#failing) this.#heardAt = now;
    if (now - this.#heardAt >= DEAF) this.#deafen();
    if (this.#timer === undefined && !this.#running) this.#plan(0);
    this.#heartbeat = this.#clock.after(this.#silence / HEARTBEATS / 2, () => this.#beat(), true);
  }

  /** One round: tells what changed, and hears the sums. */
  async #round(): Promise<void> {
    this.#roundAt = this.#clock.now();
    if (!this.#redis.ready) return;
    const due = this.#due();
    if (due.length === 0 && this.#hears) return;
    this.#running = true;
    try {
      for (let i = 0; i < due.length; i += BATCH) await this.#tell(due.slice(i, i + BATCH));
      this.#listens();
    } catch (error) {
      this.#failing = true;
      // The connection tells its own end. This is a refusal, such as that of a server without memory.
      this.#log.debug({ server: this.server, problem: messageOf(error) }, "an exchange of shared limits failed");
    } finally {
      this.#running = false;
    }
    for (const share of this.#shares.values())
      if (share.dirty) {
        this.#plan(this.#roundAt + INTERVAL - this.#clock.now());
        break;
      }
  }

  #due(): Share[] {
    const due: Share[] = [];
    for (const share of this.#shares.values()) {
      if (!share.dirty) continue;
      due.push(share);
      if (due.length === MOST_IN_ROUND) break;
    }
    // To the end of the order: the next round begins with those that were left out.
    for (const share of due) {
      this.#shares.delete(share.counter);
      this.#shares.set(share.counter, share);
    }
    return due;
  }

  async #tell(batch: readonly Share[]): Promise<void> {
    const keys: string[] = [];
    const args = [this.#gateway, String(this.#silence), String(KEPT)];
    const now = this.#clock.now();
    for (const share of batch) {
      const { counter, lost } = share;
      counter.drain(now);
      share.dirty = lost !== undefined;
      if (lost === undefined) share.rounds++;
      share.lost = toSend(counter, lost, share.rounds);
      share.toldAt = now;
      keys.push(this.#prefix + counter.id);
      args.push(...argumentsFor(counter, share.lost));
    }
    let answer: readonly unknown[];
    try {
      answer = (await this.#redis.run(SHARE, keys, args)) as readonly unknown[];
    } catch (error) {
      for (const share of batch) share.dirty = true;
      throw error;
    }
    const heardAt = this.#clock.now();
    for (const [i, share] of batch.entries()) {
      share.lost = undefined;
      share.counter.drain(heardAt);
      const [requests, tokens, inFlight, gateways] = answer
        .slice(i * FIGURES, (i + 1) * FIGURES)
        .map(Number) as number[];
      const told = { requests: requests!, tokens: tokens!, inFlight: inFlight!, gateways: gateways! };
      hear(share.counter, told, heardAt - share.heardAt);
      share.heardAt = heardAt;
    }
  }

  #deafen(): void {
    if (!this.#hears) return;
    this.#hears = false;
    for (const { counter } of this.#shares.values()) counter.deaf = true;
    this.#log.warn(
      { server: this.server },
      "Redis does not answer, so the gateways do not share limits now; this gateway uses the last known counts of the others",
    );
  }

  #listens(): void {
    this.#heardAt = this.#clock.now();
    this.#failing = false;
    if (this.#hears) return;
    this.#hears = true;
    for (const { counter } of this.#shares.values()) counter.deaf = false;
    this.#log.info({ server: this.server }, "the gateways share limits again");
  }
}
