import { afterEach, describe, expect, it } from "vitest";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import type { RedisConnection } from "../../src/base/redis/address.ts";
import { connectRedis, type Redis } from "../../src/base/redis/connection.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import type { LimitRule } from "../../src/picker/limits/limits-settings.ts";
import { type Grant, QuotaTable } from "../../src/picker/limits/quotas.ts";
import { SHARE, SharedLimits } from "../../src/picker/limits/shared-limits.ts";
import { clientAuthority } from "../support/certificates.ts";
import { callerOf, requestOf, used } from "../support/limits/requests.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import { fixedLimit } from "../support/slowness.ts";
import { at, direct, keepingLog } from "./setup.ts";

let server: RunningRedis | undefined;
let client: Redis | undefined;
let gateways: Gateway[] = [];
let seed = 0;

afterEach(async () => {
  for (const { shared } of gateways) shared.close();
  gateways = [];
  client?.close();
  client = undefined;
  await server?.stop();
});

interface GatewayOptions {
  readonly silence?: number | undefined;
  /** Of the replicas, where their store counts. */
  readonly name?: string;
  readonly tls?: RedisConnection["tls"];
}

/** The limits of one gateway. */
class Gateway {
  readonly shared: SharedLimits;
  readonly table: QuotaTable;
  readonly running: Grant[] = [];
  readonly #kept = keepingLog();

  constructor(url: string, rules: readonly LimitRule[], { silence, name, tls = {} }: GatewayOptions = {}) {
    const deps = { clock: realClock, random: new SeededRandom(++seed), log: this.#kept.log };
    this.shared = new SharedLimits(
      { connection: { ...at(url), tls }, name },
      silence === undefined ? deps : { ...deps, silence },
    );
    this.table = new QuotaTable(realClock, rules, {
      touched: (counter) => this.shared.touched(counter),
      left: (counter) => this.shared.left(counter),
    });
    gateways.push(this);
  }

  /** Asks `count` times. @returns how many were admitted; they stay in flight */
  ask(count: number): number {
    let admitted = 0;
    for (let i = 0; i < count; i++) {
      const found = this.table.admit(requestOf(), callerOf("k"), () => "");
      if (found === undefined || !("settle" in found)) continue;
      this.running.push(found);
      admitted++;
    }
    return admitted;
  }

  end(): void {
    for (const grant of this.running.splice(0)) grant.settle(used(1, 1));
  }

  get counter() {
    return [...this.table.counters.values()][0]!;
  }

  /** The requests that all have used, as this gateway knows it. */
  get used(): number {
    this.shared.touched(this.counter);
    this.counter.drain(realClock.now());
    return this.counter.requests.used;
  }

  /** The lines about the sharing. */
  get told(): string[] {
    return this.#kept.lines.map(({ message }) => message).filter((message) => message.includes("share limits"));
  }

  /** Waits until this gateway knows as many gateways. */
  knows(count: number): Promise<true> {
    return poll(`${count} gateways`, () => {
      this.shared.touched(this.counter);
      return this.counter.others.gateways === count || undefined;
    });
  }
}

async function two(rules: readonly LimitRule[], silence?: number): Promise<[Gateway, Gateway]> {
  server = await startRedis();
  const a = new Gateway(server.url, rules, { silence });
  const b = new Gateway(server.url, rules, { silence });
  a.ask(1);
  b.ask(1);
  await Promise.all([a.knows(2), b.knows(2)]);
  return [a, b];
}

const HUNDRED = [{ key: "*", requestsPerMinute: 100 }];

describe("limits that two gateways share", () => {
  it("100 requests in a minute are 100 for both together", async () => {
    const begun = realClock.now();
    const [a, b] = await two(HUNDRED);
    let admitted = 2;
    admitted += a.ask(59);
    await poll("B to hear of A", () => b.used > 50);
    admitted += b.ask(200);
    await poll("A to hear of B", () => a.used > 90);
    admitted += a.ask(200);
    const most = 100 * (1 + (realClock.now() - begun) / 60_000) + 1;
    expect(admitted).toBeGreaterThanOrEqual(100);
    expect(admitted).toBeLessThanOrEqual(most);
    expect([a.told, b.told]).toEqual([[], []]);
  });

  it("a burst at both at once exceeds the limit by one further limit at most, and then both refuse", async () => {
    const begun = realClock.now();
    const [a, b] = await two(HUNDRED);
    const admitted = 2 + a.ask(500) + b.ask(500);
    expect(admitted).toBeGreaterThanOrEqual(100);
    expect(admitted).toBeLessThanOrEqual(200 * (1 + (realClock.now() - begun) / 60_000) + 1);
    await poll("both to know", () => Math.min(a.used, b.used) > 110);
    expect([a.ask(1), b.ask(1)]).toEqual([0, 0]);
  });

  it("a key that waits has a time to live, and a round that arrives twice counts once", async () => {
    await two(HUNDRED);
    client = await direct(server!.url);
    const keys = (await client.send(["KEYS", "sluice:limits:*"])) as string[];
    expect(keys).toHaveLength(1);
    const left = Number(await client.send(["PTTL", keys[0]!]));
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(660_000);
    const round = (number: number, requests: number) =>
      client!.run(
        SHARE,
        ["x"],
        ["g", "10000", "660000", String(number), String(requests), "0", "0", "0", "1000", "0", "3", "10"],
      );
    const first = (await round(1, 500)) as string[];
    const again = (await round(1, 500)) as string[];
    const next = (await round(2, 100)) as string[];
    expect(Number(first[0])).toBe(500);
    expect(Number(again[0])).toBeLessThanOrEqual(500);
    expect(Number(again[0])).toBeGreaterThan(0);
    expect(Number(next[0])).toBeLessThanOrEqual(Number(again[0]) + 100);
    // The requests in flight of the one that asks are not those of others.
    expect([again[2], again[3]]).toEqual([0, 1]);
  });

  it("without Redis each goes on with the last known use of the other, says so once, and shares again by itself", async () => {
    const [a, b] = await two(HUNDRED);
    a.ask(39);
    b.ask(9);
    await poll("both to know", () => a.used > 40 && b.used > 40);
    const before = a.used;
    await server!.kill();
    await poll("both to notice", () => !a.shared.hears && !b.shared.hears);
    // A new request is judged at once, by the figures that A has.
    expect(a.ask(1)).toBe(1);
    expect(a.used).toBeGreaterThan(before / 2);
    expect(a.counter.others.requestRate).toBeGreaterThan(0);
    expect(b.ask(100)).toBeLessThan(100);
    expect([a.told.length, b.told.length]).toEqual([1, 1]);
    // It starts without its data, and learns what the gateways know.
    await server!.restart();
    await poll("both to share again", () => a.shared.hears && b.shared.hears);
    const known = b.used;
    await poll("A to know what B used", () => a.used > known / 2);
    await poll("both to refuse", () => a.ask(100) === 0 && b.ask(100) === 0);
    expect(a.told.map((line) => line.slice(0, 24))).toEqual(["Redis does not answer, s", "the gateways share limit"]);
  });

  it("on a store with TLS, those of one name count together, and apart from those of another", async () => {
    const { ca, client: own, server: pair } = await clientAuthority();
    server = await startRedis({ tls: { ...pair, ca } });
    const tls = { ca, ...own };
    client = connectRedis(
      { ...at(server.url), tls },
      { clock: realClock, random: new SeededRandom(7), log: silentLogger },
    );
    await client.whenReady(fixedLimit(10_000));
    // What the documentation of replicas names for the limits, and for connections in general.
    const commands = [
      ...["+hello", "+select", "+client|setname", "+info", "+exists", "+pexpire"],
      ...["+evalsha", "+eval", "+script|load", "+time", "+hgetall", "+hset", "+hdel"],
    ];
    await client.send(["ACL", "SETUSER", "gateway", "reset", "on", ">secret", "~sluice:limits:*", ...commands]);
    const url = server.url.replace("//", "//gateway:secret@");
    const made = (name: string): Gateway => new Gateway(url, HUNDRED, { name, tls });
    const [a, b, other] = [made("llm/one"), made("llm/one"), made("llm/two")];
    for (const one of [a, b, other]) one.ask(30);
    await Promise.all([a.knows(2), b.knows(2), other.knows(1)]);
    await poll("A to hear of B", () => a.used > 50);
    expect(other.used).toBeLessThanOrEqual(30);
  });

  it("requests in flight count together, and those of a gateway that died are forgotten", async () => {
    const [a, b] = await two([{ key: "*", inFlight: 6 }], 1500);
    expect(b.ask(3)).toBe(3);
    await poll("A to hear of B's four", () => a.counter.others.inFlight === 4, 20_000);
    expect(a.ask(5)).toBe(1);
    a.end();
    await poll("B to hear that A has none", () => b.counter.others.inFlight === 0);
    b.shared.close();
    await poll("A to forget B", () => {
      a.shared.touched(a.counter);
      return a.counter.others.gateways === 1;
    });
    expect(a.ask(10)).toBe(6);
    a.end();
    expect(a.counter.inFlight).toBe(0);
  });
});
