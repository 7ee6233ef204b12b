import { beforeEach, describe, expect, it } from "vitest";
import { FakeRedis } from "../../../test/support/peers/fake-redis.ts";
import { TestReplica } from "../../../test/support/peers/replicas.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { RedisReplyError, unavailable } from "../../base/redis/reply-error.ts";
import { render } from "../../base/telemetry/exposition.ts";
import type { LogFields, Logger } from "../../base/telemetry/logger.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { showPeers } from "./peers-metrics.ts";
import { peersView } from "./peers-view.ts";
import type { StoreProblem } from "./redis-problem.ts";
import { RedisPeerTransport } from "./redis-transport.ts";

/** Milliseconds of each problem: many heartbeats, and many attempts to connect. */
const LASTS = 20_000;
/** Milliseconds in which replicas agree once the store works. */
const CONVERGES = 5000;

interface Line extends LogFields {
  readonly level: string;
}

/** A replica with everything that it shows of its store. */
class Shown {
  readonly lines: Line[] = [];
  readonly replica: TestReplica;
  readonly transport: RedisPeerTransport;
  readonly #clock: VirtualClock;
  readonly #metrics = new MetricsRegistry();

  constructor(store: FakeRedis, clock: VirtualClock, seed: number) {
    this.#clock = clock;
    const line = (level: string) => (fields: LogFields) => this.lines.push({ level, ...fields });
    const log = { debug() {}, info: line("info"), warn: line("warn"), error: line("error") } as unknown as Logger;
    this.transport = new RedisPeerTransport(
      { redis: { url: "redis://fake", tls: {}, enableTracing: false }, name: "llm/pool" },
      { clock, random: new SeededRandom(seed), log, connect: store.connect },
    );
    this.replica = new TestReplica({ connect: () => this.transport }, clock, { seed, log });
    showPeers(this.#metrics, this.replica.peers, this.transport, clock);
    this.replica.peers.start();
  }

  get storeUp(): string | undefined {
    return /^sluice_peers_store_up (\d)$/m.exec(render(this.#metrics, "text"))?.[1];
  }

  /** `/debug/peers`. */
  get view(): ReturnType<typeof peersView> {
    return peersView(this.replica.peers, this.transport.view, this.#clock);
  }
}

const refused = (command: string, reply: string): [string, Error] => [
  command,
  new RedisReplyError("fake:6379", command, reply),
];
const notNow = (command: string, reply: string): [string, Error] => [
  command,
  unavailable("fake:6379", `it does not take ${command} now: ${reply}`),
];

const OOM = "OOM command not allowed when used memory > 'maxmemory'.";
const READONLY = "READONLY: the server is a replica that takes no writes; connect to its primary";
const WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";
const UNKNOWN = "ERR unknown command";
const NOPERM = "NOPERM this user has no permissions to run the command";

interface Fault {
  readonly name: string;
  readonly state: StoreProblem;
  /** A part of what people read. */
  readonly reason: string;
  /** Whether the replicas still hear the loads of each other. */
  readonly hears: boolean;
  begin(store: FakeRedis): void;
}

const refusals =
  (...all: readonly [string, Error][]) =>
  (store: FakeRedis): void => {
    for (const [command, error] of all) store.refusals.set(command, error);
  };

const FAULTS: readonly Fault[] = [
  {
    ...{ name: "is away", state: "away", reason: "the connection ended", hears: false },
    begin: (store) => store.kill(),
  },
  {
    ...{ name: "answers after 2 s", state: "slow", reason: "no answer within", hears: false },
    begin(store) {
      store.late = 2000;
    },
  },
  {
    ...{ name: "is full and evicts nothing", state: "full", reason: "maxmemory", hears: true },
    begin: refusals(notNow("SET", OOM), notNow("SADD", OOM), notNow("XADD", OOM)),
  },
  {
    ...{ name: "has become a read-only replica", state: "read-only", reason: "primary", hears: false },
    begin: (store) => store.kill(READONLY),
  },
  {
    ...{ name: "is too old for the log", state: "refused", reason: "unknown command", hears: true },
    begin: refusals(...["XADD", "XREAD", "XREVRANGE"].map((name) => refused(name, UNKNOWN))),
  },
  {
    ...{ name: "is too old for the first commands", state: "refused", reason: "unknown command", hears: false },
    begin: (store) => store.kill(`${UNKNOWN} 'HELLO'`),
  },
  {
    ...{
      name: "has a key of another type in place of the log",
      state: "wrong-type",
      reason: "wrong kind",
      hears: true,
    },
    begin: refusals(...["XADD", "XREAD", "XREVRANGE"].map((name) => refused(name, WRONGTYPE))),
  },
  {
    ...{
      name: "has a key of another type in place of the set",
      state: "wrong-type",
      reason: "wrong kind",
      hears: true,
    },
    begin: refusals(...["SADD", "SREM", "SRANDMEMBER"].map((name) => refused(name, WRONGTYPE))),
  },
  {
    ...{ name: "takes some commands of this user and not others", state: "forbidden", reason: "NOPERM", hears: true },
    begin: refusals(...["SADD", "PEXPIRE"].map((name) => notNow(name, NOPERM))),
  },
];

describe.each(FAULTS)("a store that $name", ({ state, reason, hears, begin }) => {
  let clock: VirtualClock;
  let store: FakeRedis;
  let both: readonly [Shown, Shown];

  beforeEach(async () => {
    clock = new VirtualClock(1e12);
    store = new FakeRedis(clock);
    both = [new Shown(store, clock, 1), new Shown(store, clock, 2)];
    await pass(200);
  });

  /** Advances in steps, so that what each timer asks is answered before the next. */
  async function pass(ms: number): Promise<void> {
    for (let at = 0; at < ms; at += 50) {
      clock.advance(50);
      for (let i = 0; i < 40; i++) await Promise.resolve();
    }
  }

  const mend = (): void => {
    store.refusals.clear();
    store.late = 0;
    store.revive(false);
  };

  it("is one warning, a gauge and a reason on /debug/peers; decisions go on, and all is shared again afterwards", async () => {
    const [a, b] = both;
    for (const { storeUp, view } of both) expect([storeUp, view.store.state]).toEqual(["1", "up"]);
    for (const { lines } of both) lines.length = 0;
    a.replica.send(0);
    await pass(100);
    expect(b.replica.seen()).toEqual([1, 0, 0]);

    begin(store);
    const late = new Shown(store, clock, 3);
    const blocks = { low: new Int32Array([1]), high: new Int32Array([2]), from: 0, count: 1, blockTokens: 16 };
    const channel = a.replica.peers.prefixes.open("p", () => {});
    const reached: string[] = [];
    b.replica.peers.prefixes.open("p", (endpoint) => reached.push(endpoint.id));
    let worst = 0;
    for (let at = 0; at < LASTS; at += 500) {
      // A decision in the same turn: nothing of it waits for the store.
      const before = a.replica.at(1).inFlight.requests;
      a.replica.send(1);
      channel.placed(a.replica.at(1), blocks);
      expect(a.replica.at(1).inFlight.requests).toBe(before + 1);
      await pass(500);
      worst = Math.max(worst, a.transport.view.waiting);
    }
    const sent = LASTS / 500;
    for (const { lines, storeUp, view } of both) {
      expect(lines.map(({ level, problem }) => [level, problem])).toEqual([["warn", state]]);
      expect(lines[0]!["reason"]).toContain(reason);
      expect(storeUp).toBe("0");
      expect(view.store).toMatchObject({ state, reason: expect.stringContaining(reason) });
      expect(Date.parse(view.store.since)).toBeLessThan(clock.wall());
    }
    expect([late.storeUp, late.view.store.state]).toEqual(["0", state]);
    expect(a.replica.own()).toEqual([1, sent, 0]);
    // Loads that are heard count, and those of the past do not count on.
    expect(b.replica.seen()).toEqual(hears ? [1, sent, 0] : [0, 0, 0]);
    expect(worst).toBeLessThanOrEqual(1024);

    mend();
    await pass(CONVERGES);
    for (const { lines, storeUp, view, replica } of both) {
      expect([storeUp, view.store.state, view.store.reason]).toEqual(["1", "up", null]);
      expect(lines.map(({ level }) => level)).toEqual(["warn", "info"]);
      expect(replica.seen()).toEqual([1, sent, 0]);
    }
    expect([late.storeUp, late.view.store.state]).toEqual(["1", "up"]);
    expect(late.replica.seen()).toEqual([1, sent, 0]);
    expect(reached).toHaveLength(sent);
  });
});

describe("a store that comes and goes", () => {
  it("is told at most every 30 s, and a problem that stays is told", async () => {
    const clock = new VirtualClock(1e12);
    const store = new FakeRedis(clock);
    const one = new Shown(store, clock, 1);
    const pass = async (ms: number): Promise<void> => {
      for (let at = 0; at < ms; at += 50) {
        clock.advance(50);
        for (let i = 0; i < 40; i++) await Promise.resolve();
      }
    };
    await pass(100);
    one.lines.length = 0;
    for (let i = 0; i < 10; i++) {
      store.kill();
      await pass(1000);
      store.revive(false);
      await pass(1000);
      expect(one.storeUp).toBe("1");
    }
    expect(one.lines.map(({ level }) => level)).toEqual(["warn", "info"]);
    store.kill();
    await pass(15_000);
    expect(one.storeUp).toBe("0");
    expect(one.lines.map(({ level }) => level)).toEqual(["warn", "info", "warn"]);
    store.revive(false);
    await pass(1000);
    expect(one.lines.map(({ level }) => level)).toEqual(["warn", "info", "warn", "info"]);
    void one.transport.close();
    clock.advance(60_000);
    expect(one.lines).toHaveLength(4);
  });

  it("gives a reason of a bounded length, in one line", async () => {
    const clock = new VirtualClock(1e12);
    const store = new FakeRedis(clock);
    const one = new Shown(store, clock, 1);
    for (let i = 0; i < 40; i++) await Promise.resolve();
    store.kill(`-ERR ${"a\n".repeat(100_000)}`);
    expect(one.view.store.reason!.length).toBeLessThan(1000);
    expect(one.view.store.reason).not.toContain("\n");
  });
});
