import { onTestFinished } from "vitest";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import type { RedisConnection } from "../../src/base/redis/address.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { KEY_PREFIX } from "../../src/pool/peers/redis-keys.ts";
import { RedisPeerTransport } from "../../src/pool/peers/redis-transport.ts";
import type { PeerReceiver } from "../../src/pool/peers/transport.ts";
import { poll } from "../support/poll.ts";
import { type RedisOptions, type RunningRedis, startRedis } from "../support/redis.ts";
import { at, direct } from "./setup.ts";

const NAME = "llm/pool";
/** Of all keys. */
export const PREFIX = `${KEY_PREFIX}{${NAME}}`;
/** The key of the log. */
export const LOG = `${PREFIX}:placed`;

/** Ends a part after the test; the part that began last ends first. */
export function ending<T>(part: T, end: (part: T) => Promise<unknown> | unknown): T {
  onTestFinished(async () => {
    await end(part);
  });
  return part;
}

/** One command on a connection of its own. */
export const ask = async (url: string, ...command: string[]): Promise<unknown> => {
  const redis = await direct(url);
  try {
    return await redis.send(command);
  } finally {
    redis.close();
  }
};

/** Starts a server of this test. */
export const serve = async (options: RedisOptions = {}): Promise<RunningRedis> =>
  ending(await startRedis(options), (server) => server.stop());

/** A replica that tells one more number in each load, and remembers what it hears. */
export class Replica implements PeerReceiver {
  readonly transport: RedisPeerTransport;
  readonly id: string;
  readonly loads = new Map<string, number>();
  readonly log = new Set<string>();
  caught = 0;
  up = false;
  #told = 0;

  constructor(id: string, url: string, tls: RedisConnection["tls"] = {}) {
    this.id = id;
    this.transport = new RedisPeerTransport(
      { redis: { ...at(url), tls }, name: NAME },
      { clock: realClock, random: new SeededRandom(id.charCodeAt(0)), log: silentLogger },
    );
    this.transport.start(this);
    ending(this.transport, (transport) => transport.close());
  }

  /** Publishes a load and appends to the log. @returns the number of the load */
  tell(...placed: readonly string[]): number {
    this.#told++;
    this.transport.publishLoad(Buffer.from(`${this.id} ${this.#told}`));
    for (const text of placed) this.transport.appendPlaced(Buffer.from(text));
    return this.#told;
  }

  load(message: Uint8Array): void {
    const [, id, told] = /^(\w) (\d+)$/.exec(Buffer.from(message).toString())!;
    this.loads.set(id!, Math.max(Number(told), this.loads.get(id!) ?? 0));
  }
  placed(message: Uint8Array): void {
    this.log.add(Buffer.from(message).toString());
  }
  connection(up: boolean): void {
    this.up = up;
  }
  caughtUp(): void {
    this.caught++;
  }

  get isUp(): Promise<unknown> {
    return poll(`${this.id} to share`, () => this.up && this.caught > 0);
  }

  /** Resolves when it knows this load of another replica, or a newer one. The other tells it again, as replicas do. */
  hears(other: Replica, ...placed: readonly string[]): Promise<unknown> {
    const least = other.tell(...placed);
    return poll(`${this.id} to hear ${other.id}`, () => {
      if ((this.loads.get(other.id) ?? 0) >= least && placed.every((text) => this.log.has(text))) return true;
      other.tell();
      return false;
    });
  }
}

/** Two replicas that share. @param other the store of the second, if it has another way to it */
export async function pair(url: string, other = url): Promise<[Replica, Replica]> {
  const both: [Replica, Replica] = [new Replica("a", url), new Replica("b", other)];
  for (const one of both) await one.isUp;
  return both;
}
