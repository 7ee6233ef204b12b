import { describe, expect, it } from "vitest";
import { FakeStore, TestReplica } from "../../../test/support/peers/replicas.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { PeerLean } from "../../base/inference/endpoint.ts";
import type { SharedBlocks } from "../../base/plugin/shared-prefixes.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { EndpointRegistry } from "../endpoints/registry.ts";
import { clusterMark, encodeLoad } from "./codec.ts";
import { PeerPace } from "./peer-pace.ts";
import { PEERS_STATES } from "./peers.ts";
import { SharedLoad } from "./shared-load.ts";

function setUp(count = 2, options: ConstructorParameters<typeof TestReplica>[2] = {}) {
  const clock = new VirtualClock(1e12);
  const store = new FakeStore(clock);
  const replicas = Array.from({ length: count }, (_, i) => new TestReplica(store, clock, { seed: i + 1, ...options }));
  for (const { peers } of replicas) peers.start();
  clock.advance(20);
  return { clock, store, replicas: replicas as [TestReplica, TestReplica, ...TestReplica[]] };
}

function warnings(): { log: Logger; lines: string[] } {
  const lines: string[] = [];
  const log: Logger = { ...silentLogger, warn: (_, message) => lines.push(message), child: () => log };
  return { log, lines };
}

describe("the load of peers", () => {
  it("is part of what decisions see, and not of what this process has sent", () => {
    const { clock, replicas } = setUp();
    const [a, b] = replicas;
    a.send(0, 100);
    a.send(1, 7.6);
    b.send(0, 5);
    clock.advance(20);
    for (const one of replicas) expect(one.seen()).toEqual([2, 1, 0]);
    expect([a.own(), b.own()]).toEqual([
      [1, 1, 0],
      [1, 0, 0],
    ]);
    expect(b.at(0).inFlight).toMatchObject({ requests: 2, tokens: 105 });
    expect(b.at(1).peers).toMatchObject({ requests: 1, tokens: 8 });
    a.end(0);
    a.end(0);
    clock.advance(20);
    expect([a.seen(), b.seen()]).toEqual([
      [1, 0, 0],
      [1, 0, 0],
    ]);
  });

  it("of a process that died is gone after 3 s, and of one that ended at once", async () => {
    const { clock, store, replicas } = setUp(3);
    const [a, b, c] = replicas as [TestReplica, TestReplica, TestReplica];
    a.send(0);
    b.send(1);
    clock.advance(20);
    expect(c.seen()).toEqual([1, 1, 0]);
    store.kill(a.peers);
    await b.peers.close();
    expect(c.seen()).toEqual([1, 0, 0]);
    clock.advance(2960);
    expect(c.seen()).toEqual([1, 0, 0]);
    clock.advance(40);
    expect(c.seen()).toEqual([0, 0, 0]);
    expect(c.peers.table.live).toBe(0);
  });

  it("of a process that died before this one joined is gone 3 s after its last message, also beside one that lives", () => {
    const { clock, store, replicas } = setUp();
    const [a, b] = replicas;
    a.send(0);
    b.send(1);
    clock.advance(20);
    const [dead, living] = store.loads.slice(-2);
    store.kill(a.peers);
    const late = new TestReplica(store, clock, { seed: 9 });
    late.peers.start();
    late.peers.load(living!);
    clock.advance(100);
    late.peers.load(dead!, 2500);
    expect(late.seen()).toEqual([1, 1, 0]);
    clock.advance(499);
    expect(late.seen()).toEqual([1, 1, 0]);
    clock.advance(2);
    expect(late.seen()).toEqual([0, 1, 0]);
  });

  it("counts as unscraped where it rises, until a scrape has seen it", () => {
    const { clock, replicas } = setUp();
    const [a, b] = replicas;
    a.send(0, 50);
    a.send(0, 30);
    clock.advance(20);
    expect(b.at(0).unscraped).toMatchObject({ requests: 2, tokens: 80 });
    const { requests, tokens } = b.at(0).unscraped;
    b.at(0).unscraped.scraped({ requests, tokens }, { ...b.at(0).metrics, running: 2, waiting: 0 });
    a.end(0);
    clock.advance(20);
    expect(b.at(0).unscraped).toMatchObject({ requests: 0, tokens: 0 });
  });

  it("wakes the scraping of an endpoint that was idle here", () => {
    const { clock, replicas } = setUp();
    const [a, b] = replicas;
    const woken: string[] = [];
    b.registry.onFirstRequest(({ id }) => woken.push(id));
    a.send(1);
    clock.advance(20);
    a.send(1);
    b.send(1);
    clock.advance(20);
    expect(woken).toEqual(["default/e1"]);
    a.end(0);
    a.end(0);
    b.end(0);
    clock.advance(20);
    expect(clock.now() - b.at(1).lastTrafficAt).toBeLessThan(21);
  });

  it("is there for an endpoint that joins the pool later, and of one that left and came back", () => {
    const { clock, replicas } = setUp();
    const [a, b] = replicas;
    a.add(7);
    a.send(7);
    a.send(0);
    clock.advance(20);
    expect(b.add(7).inFlight.requests).toBe(1);
    b.registry.remove("default/e0");
    a.send(0);
    clock.advance(20);
    expect(b.add(0).inFlight.requests).toBe(2);
  });

  it("is added to requests that an endpoint had before the sharing began", () => {
    const clock = new VirtualClock();
    const registry = new EndpointRegistry({ clock, random: new SeededRandom(1) });
    const spec = { namespace: "default", name: "e", address: "10.0.0.0", port: 8000, rank: 0, labels: {} };
    const endpoint = registry.upsert(spec)!;
    const ticket = registry.inFlight.open(endpoint, 5);
    const shared = new SharedLoad("10.0.0.0:8000", new PeerPace());
    shared.requests = 2;
    shared.tokens = 1;
    registry.inFlight.addPeers(endpoint, shared);
    expect(endpoint.inFlight).toMatchObject({ requests: 3, tokens: 6 });
    ticket.release();
    expect(endpoint.inFlight).toMatchObject({ requests: 2, tokens: 1 });
    expect(endpoint.own).toMatchObject({ requests: 0, tokens: 0 });
  });
});

describe("what peers have probably sent since they were heard", () => {
  const rounded = ({ requests }: { readonly requests: number }): number => Math.round(1000 * requests) / 1000;

  it("is about what this process sent in that time, once for each peer with traffic, and nothing soon after", () => {
    const { clock, replicas } = setUp(4);
    const [a, b, c] = replicas as [TestReplica, TestReplica, TestReplica, TestReplica];
    clock.advance(61_000);
    a.send(0, 100);
    expect(a.at(0).peers!.unseen(clock.now())).toEqual({ requests: 0, tokens: 0 });
    clock.advance(100);
    b.send(1);
    c.send(2);
    clock.advance(1000);
    for (let i = 0; i < 8; i++) a.send(0, 100);
    // The fourth replica gets no requests. Eight requests say half: they may be chance.
    const { requests, tokens } = a.at(0).peers!.unseen(clock.now());
    expect([requests, tokens].map(Math.round)).toEqual([8, 800]);
    expect(a.at(1).peers!.unseen(clock.now()).requests).toBe(0);
    const { lagMs } = a.peers.table.pace;
    clock.advance(lagMs);
    expect(a.at(0).peers!.unseen(clock.now()).requests).toBeLessThan(8 / Math.E);
    clock.advance(4 * lagMs);
    expect(a.at(0).peers!.unseen(clock.now())).toEqual({ requests: 0, tokens: 0 });
    expect(a.at(0).inFlight.requests).toBe(9);
  });

  it("is one request of each replica before this one where all get theirs at once, each at an endpoint of its own", () => {
    const { clock, replicas } = setUp(4, { endpoints: 8 });
    for (let second = 0; second < 8; second++) {
      for (const one of replicas) one.send(second % 8, 800);
      clock.advance(20);
      for (const one of replicas) one.end(0);
      clock.advance(980);
    }
    const assumed = replicas.map((one) => one.registry.list().map(({ peers }) => peers!.unseen(clock.now()).requests));
    const sums = assumed.map((requests) => requests.reduce((sum, more) => sum + more, 0));
    expect(sums.map(Math.round).sort()).toEqual([0, 1, 2, 3]);
    expect(Math.max(...assumed.flat())).toBe(1);
    // And the home of another replica counts as if it had just got one.
    const leans = replicas[0].registry.list().map(({ peers }) => peers!.lean.requests);
    expect(leans.sort()).toEqual([0, 0, 1, 1, 1, 1, 1, 1]);
  });

  it("does not count peers that got no requests for a minute, or are gone", () => {
    const { clock, store, replicas } = setUp(3);
    const [a, b, c] = replicas as [TestReplica, TestReplica, TestReplica];
    b.send(1);
    c.send(1);
    clock.advance(20);
    c.end(0);
    clock.advance(59_000);
    a.send(0);
    expect(rounded(a.at(0).peers!.unseen(clock.now()))).toBe(0.031);
    clock.advance(3000);
    a.send(2);
    expect(rounded(a.at(2).peers!.unseen(clock.now()))).toBe(0.015);
    store.kill(b.peers);
    clock.advance(3001);
    a.send(1);
    expect(a.at(1).peers!.unseen(clock.now()).requests).toBe(0);
  });

  it("lasts as long as an own message takes to the store and back, and the 20 ms between messages", () => {
    const { clock, store, replicas } = setUp();
    const [a] = replicas;
    store.fate = () => [300];
    for (let i = 0; i < 60; i++) {
      a.send(0);
      clock.advance(1000);
    }
    expect(a.peers.table.pace.lagMs).toBeCloseTo(320, 0);
    store.fate = () => [30_000];
    for (let i = 0; i < 60; i++) {
      a.send(0);
      clock.advance(1000);
    }
    expect(a.peers.table.pace.lagMs).toBeLessThanOrEqual(1020);
  });
});

describe("the home of a replica", () => {
  const homes = (one: TestReplica): string[] =>
    one.registry.list().flatMap(({ id, peers }) => (peers!.lean.tokens === 0 ? [id] : []));
  const traffic = (clock: VirtualClock, replicas: readonly TestReplica[]): void => {
    for (const one of replicas) one.send(0, 1000);
    clock.advance(20);
  };

  it("is a part of the pool of its own: all of it belongs to somebody", () => {
    const { clock, replicas } = setUp(3, { endpoints: 7 });
    traffic(clock, replicas);
    const all = replicas.map(homes);
    expect(all.map(({ length }) => length).sort()).toEqual([2, 2, 3]);
    expect(new Set(all.flat()).size).toBe(7);
    expect(
      replicas[0].registry
        .list()
        .map(({ peers }) => Math.round(peers!.lean.tokens))
        .filter((lean) => lean > 0),
    ).toContain(1000);
  });

  it("is shared where there are more replicas than endpoints", () => {
    const { clock, replicas } = setUp(5, { endpoints: 2 });
    traffic(clock, replicas);
    expect(replicas.map((one) => homes(one).length)).toEqual([1, 1, 1, 1, 1]);
  });

  it("is there before the first request, because a new replica is about to get some; where all is equal, each takes its own", () => {
    const { clock, replicas } = setUp(2, { endpoints: 4 });
    clock.advance(40);
    const all = replicas.map(homes);
    expect(all.map(({ length }) => length)).toEqual([2, 2]);
    expect(new Set(all.flat()).size).toBe(4);
    clock.advance(59_000);
    expect(replicas.map((one) => homes(one).length)).toEqual([2, 2]);
    clock.advance(2000);
    expect(replicas.map((one) => homes(one).length)).toEqual([4, 4]);
  });

  it("is the whole pool while no peer has traffic, and is dealt out anew when the pool or the replicas change", () => {
    const { clock, store, replicas } = setUp(2, { endpoints: 4 });
    const [a, b] = replicas;
    clock.advance(61_000);
    traffic(clock, [a]);
    expect(homes(a)).toHaveLength(4);
    traffic(clock, [b]);
    expect([homes(a).length, homes(b).length]).toEqual([2, 2]);
    for (const one of replicas) for (const i of [4, 5]) one.add(i);
    expect([homes(a).length, homes(b).length]).toEqual([3, 3]);
    store.kill(b.peers);
    clock.advance(3001);
    expect(homes(a)).toHaveLength(6);
  });

  it("weighs as the prompts that others may wait for, long ones more, and never more than 16,384 tokens", () => {
    const { clock, replicas } = setUp(2, { endpoints: 2 });
    const [a, b] = replicas;
    traffic(clock, [b]);
    const lean = (): number => Math.max(...a.registry.list().map(({ peers }) => peers!.lean.tokens));
    for (let i = 0; i < 2000; i++) a.send(i % 2, i % 8 === 0 ? 6000 : 300);
    expect(lean()).toBeGreaterThan(3500);
    expect(lean()).toBeLessThan(5500);
    for (let i = 0; i < 2000; i++) a.send(i % 2, 1e6);
    expect(lean()).toBe(16_384);
  });

  it("weighs less where few requests of peers are on their way, the own prompt included, and in full from one in two lags on", () => {
    const leanAt = (everyMs: number): PeerLean => {
      const { clock, replicas } = setUp(2, { endpoints: 2 });
      const [a, b] = replicas;
      for (let i = 0; i < 200; i++) {
        a.send(0, 1000);
        clock.advance(everyMs / 2);
        b.send(i % 2, 1000);
        clock.advance(everyMs / 2);
      }
      return a.registry.list().flatMap(({ peers }) => (peers!.lean.tokens === 0 ? [] : [peers!.lean]))[0]!;
    };
    expect(leanAt(30)).toMatchObject({ share: 1, tokens: 1000 });
    // A request of the peer each second is on its way for 20 ms: half of one would weigh in full.
    expect(leanAt(1000).share).toBeCloseTo(0.04, 3);
    expect(leanAt(1000).tokens).toBeCloseTo(40, 0);
  });
});

describe("messages that do not count", () => {
  it("are counted by reason, throw nothing and change nothing", () => {
    const { log, lines } = warnings();
    const { clock, store, replicas } = setUp(2, { log });
    const [a, b] = replicas;
    a.send(0);
    clock.advance(20);
    const before = { ...b.peers.refused };
    store.inject(Buffer.from("not of us"));
    store.inject(new Uint8Array(0), "placed");
    store.inject(store.loads[0]!);
    expect(b.seen()).toEqual([1, 0, 0]);
    expect(b.peers.refused).toMatchObject({ garbage: before.garbage + 2 });
    expect(b.peers.refused.old + b.peers.refused.own).toBe(before.old + before.own + 1);
    // Each replica says once what it cannot read.
    expect(lines.filter((line) => line.includes("ignores a peer's message that it cannot read"))).toHaveLength(2);
    clock.advance(60_000);
    store.inject(Buffer.from("not of us"));
    expect(lines.filter((line) => line.includes("ignores a peer's message that it cannot read"))).toHaveLength(4);
  });

  it("of another pool on the same store, or with another secret, are kept apart and told", () => {
    const { log, lines } = warnings();
    const clock = new VirtualClock(1e12);
    const store = new FakeStore(clock);
    const ours = new TestReplica(store, clock, { seed: 1, cluster: "default/a", secret: "s", log });
    const others = [
      new TestReplica(store, clock, { seed: 2, cluster: "default/b", secret: "s" }),
      new TestReplica(store, clock, { seed: 3, cluster: "default/a", secret: "t" }),
    ];
    for (const { peers } of [ours, ...others]) peers.start();
    for (const one of others) one.send(0);
    clock.advance(100);
    expect([ours.seen(), ours.peers.table.live]).toEqual([[0, 0, 0], 0]);
    expect(ours.peers.refused.cluster).toBeGreaterThan(1);
    expect(lines).toEqual([expect.stringContaining("another pool")]);
  });
});

describe("facts of peers", () => {
  it("about models count until this replica has learnt its own", () => {
    const { clock, replicas } = setUp();
    const [a, b] = replicas;
    a.bytesPerToken.learn("m", 8000, 1000, 0);
    const figure = a.bytesPerToken.of("m");
    clock.advance(1100);
    expect(b.bytesPerToken.of("m")).toBeCloseTo(figure, 4);
    expect(b.bytesPerToken.list()).toEqual([]);
    b.bytesPerToken.learn("m", 2000, 1000, 0);
    clock.advance(1100);
    expect(b.bytesPerToken.of("m")).toBeLessThan(figure);
  });

  it("about the room of a server count where this replica has seen none", () => {
    const { clock, replicas } = setUp();
    const [a, b] = replicas;
    const seen = (one: TestReplica, running: number, waiting: number): void =>
      one.at(0).unscraped.scraped({ requests: 0, tokens: 0 }, { ...one.at(0).metrics, running, waiting });
    seen(a, 40, 3);
    clock.advance(1100);
    expect(b.at(0).unscraped.capacity).toBe(40);
    seen(b, 12, 1);
    clock.advance(1100);
    expect(b.at(0).unscraped.capacity).toBe(12);
  });

  it("about an endpoint that is down count where this replica knows nothing newer, and are not passed on", () => {
    const { clock, replicas } = setUp(3);
    const [a, b, c] = replicas as [TestReplica, TestReplica, TestReplica];
    b.at(0).metrics = { ...b.at(0).metrics, scrapedAt: clock.now() };
    clock.advance(100);
    c.at(0).metrics = { ...c.at(0).metrics, scrapedAt: clock.now() };
    clock.advance(50);
    a.registry.states.unreachable(a.at(0), "connect", "refused");
    clock.advance(20);
    expect([b.at(0).state, c.at(0).state]).toEqual(["down", "down"]);
    expect(b.at(0).cause).toContain("another replica");
    // Its own try: it is there. The old claim of the peer comes again, and has no effect.
    b.at(0).metrics = { ...b.at(0).metrics, scrapedAt: clock.now() };
    b.registry.states.readable(b.at(0));
    clock.advance(2100);
    expect(b.at(0).state).toBe("up");
    // Nobody but the one that knows it itself says that it is down.
    a.registry.states.readable(a.at(0));
    c.registry.states.readable(c.at(0));
    c.at(0).metrics = { ...c.at(0).metrics, scrapedAt: clock.now() };
    clock.advance(3000);
    expect([a, b, c].map((one) => one.at(0).state)).toEqual(["up", "up", "up"]);
  });

  it("of a peer that cannot reach most of the pool are about its own network", () => {
    const { clock, replicas } = setUp();
    const [a, b] = replicas;
    for (const i of [0, 1]) a.registry.states.unreachable(a.at(i), "connect", "no route");
    clock.advance(1100);
    expect(b.registry.list().map(({ state }) => state)).toEqual(["up", "up", "up"]);
  });
});

describe("what decisions placed", () => {
  const blocks = (...low: number[]): SharedBlocks => ({
    low: Int32Array.from(low),
    high: Int32Array.from(low, (x) => -x),
    ...{ from: 0, count: low.length, blockTokens: 64 },
  });
  const heard = (one: TestReplica, space = "p"): string[] => {
    const list: string[] = [];
    one.peers.prefixes.open(space, ({ id }, { low, high, from, count, blockTokens }) => {
      const own = (words: Int32Array) => [...words].slice(from, from + count);
      list.push(`${id} ${own(low)} ${own(high)} ${blockTokens}`);
    });
    return list;
  };

  it("reaches the same producer of the others, once, in few messages", () => {
    const { clock, store, replicas } = setUp();
    const [a, b] = replicas;
    const [own, same, other] = [heard(a), heard(b), heard(b, "q")];
    const channel = a.peers.prefixes.open("p", () => {});
    channel.placed(a.at(1), blocks(1, 2));
    channel.placed(a.at(0), blocks(3));
    channel.placed(a.at(0), blocks());
    clock.advance(20);
    expect(same).toEqual(["default/e1 1,2 -1,-2 64", "default/e0 3 -3 64"]);
    expect([own, other, store.log.length]).toEqual([[], [], 1]);
    store.inject(store.log[0]!, "placed");
    expect(same).toHaveLength(2);
    expect(b.peers.placedLog.counts).toMatchObject({ decisions: 2, blocks: 3 });
    expect(a.peers.placedLog.counts).toMatchObject({ sentMessages: 1, sentDecisions: 2, sentBlocks: 3 });
  });

  it("is there for a replica that starts later and finds its endpoints later still", () => {
    const { clock, store, replicas } = setUp();
    const [a] = replicas;
    const channel = a.peers.prefixes.open("p", () => {});
    channel.placed(a.at(0), blocks(1));
    channel.placed(a.at(2), blocks(2));
    clock.advance(20);
    const late = new TestReplica(store, clock, { seed: 9, endpoints: 1 });
    const list = heard(late);
    late.peers.start();
    expect(list).toEqual(["default/e0 1 -1 64"]);
    expect([late.peers.state, late.peers.placedLog.waiting]).toEqual(["in-step", 1]);
    late.add(2);
    expect(list).toEqual(["default/e0 1 -1 64", "default/e2 2 -2 64"]);
    expect(late.peers.placedLog.waiting).toBe(0);
  });

  it("waits for its endpoint within bounds, and not for ever", () => {
    const { clock, replicas } = setUp();
    const [a, b] = replicas;
    const channel = a.peers.prefixes.open("p", () => {});
    const stranger = a.add(9);
    const many = { ...blocks(), low: new Int32Array(4096), high: new Int32Array(4096), count: 4096 };
    for (let i = 0; i < 400; i++) channel.placed(stranger, many);
    clock.advance(20);
    expect(b.peers.placedLog.waiting).toBeGreaterThan(0);
    expect(b.peers.placedLog.waiting).toBeLessThanOrEqual(1 << 20);
    clock.advance(300_001);
    channel.placed(stranger, blocks(1));
    clock.advance(20);
    expect(b.peers.placedLog.waiting).toBe(1);
  });

  it("does not reach a producer that has closed its channel", () => {
    const { clock, replicas } = setUp();
    const [a, b] = replicas;
    const list: unknown[] = [];
    const closing = b.peers.prefixes.open("p", (endpoint) => list.push(endpoint.id));
    closing.close();
    a.peers.prefixes.open("p", () => {}).placed(a.at(0), blocks(1));
    clock.advance(20);
    expect(list).toEqual([]);
  });

  it("has the same hash keys in all replicas of a cluster", () => {
    const { replicas } = setUp(2, { secret: "x" });
    expect(replicas[0].peers.prefixes.hashKeys).toEqual(replicas[1].peers.prefixes.hashKeys);
  });
});

describe("the state of the sharing", () => {
  it("follows the store", () => {
    const { replicas } = setUp();
    const [{ peers }] = replicas;
    expect(peers.state).toBe("in-step");
    peers.connection(false, "ECONNREFUSED");
    expect([peers.state, peers.reason]).toEqual(["away", "ECONNREFUSED"]);
    peers.caughtUp();
    expect(peers.state).toBe("away");
    peers.connection(true);
    expect([peers.state, peers.reason]).toEqual(["catching-up", ""]);
    peers.caughtUp();
    expect(peers.state).toBe("in-step");
  });

  it("has a way from each state by each event", () => {
    for (const [state, ways] of Object.entries(PEERS_STATES)) {
      expect(Object.keys(ways)).toEqual(["up", "read", "lost", "close"]);
      expect(ways.close).toBe("closed");
      if (state === "closed") expect(new Set(Object.values(ways))).toEqual(new Set(["closed"]));
    }
  });

  it("sends nothing any more when it is closed, and tells first that its load is gone", async () => {
    const { clock, store, replicas } = setUp();
    const [a, b] = replicas;
    a.send(0);
    clock.advance(20);
    await a.peers.close();
    await a.peers.close();
    const sent = store.loads.length;
    a.send(1);
    clock.advance(5000);
    expect(
      store.loads.slice(sent).every((message) => !Buffer.from(message).includes(Buffer.from(a.peers.self.id, "hex"))),
    ).toBe(true);
    expect(b.seen()).toEqual([0, 0, 0]);
  });

  it("tells of at most as many endpoints as a message may have", () => {
    const bytes = encodeLoad(clusterMark("pool", ""), {
      ...{ id: "00000000000000ff", epoch: 9e14, sequence: 1, facts: undefined },
      loads: [{ key: "10.0.0.0:8000", requests: 3, tokens: 4 }],
    });
    const { store, replicas } = setUp();
    store.inject(bytes);
    expect(replicas[0].seen()).toEqual([3, 0, 0]);
  });
});
