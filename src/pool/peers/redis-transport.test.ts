import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeRedis } from "../../../test/support/peers/fake-redis.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { LogFields, Logger } from "../../base/telemetry/logger.ts";
import { framed } from "./redis-frame.ts";
import { MOST_WAITING } from "./redis-outbox.ts";
import { RedisPeerTransport } from "./redis-transport.ts";
import type { PeerReceiver } from "./transport.ts";

const text = (message: Uint8Array): string => Buffer.from(message).toString();
const bytes = (message: string): Uint8Array => Buffer.from(message);

/** Lets everything that waits for an answer go on. */
const settle = async (): Promise<void> => {
  for (let i = 0; i < 200; i++) await Promise.resolve();
};

/** What a replica was told. */
class Told implements PeerReceiver {
  readonly loads: string[] = [];
  readonly ages: (number | undefined)[] = [];
  readonly log: string[] = [];
  readonly connections: string[] = [];
  readonly order: string[] = [];
  caught = 0;
  knewWhenCaughtUp = 0;

  load(message: Uint8Array, ageMs?: number): void {
    this.loads.push(text(message));
    this.ages.push(ageMs);
  }
  placed(message: Uint8Array): void {
    this.log.push(text(message));
  }
  connection(up: boolean, reason?: string): void {
    this.connections.push(up ? "up" : `down: ${reason}`);
    this.order.push(up ? "up" : "down");
  }
  caughtUp(): void {
    this.caught++;
    this.knewWhenCaughtUp = this.log.length;
    this.order.push("read");
  }
}

describe("RedisPeerTransport", () => {
  let clock: VirtualClock;
  let store: FakeRedis;
  let lines: { level: string; fields: LogFields }[];
  let open: RedisPeerTransport[];

  beforeEach(() => {
    clock = new VirtualClock();
    store = new FakeRedis(clock);
    lines = [];
    open = [];
  });

  afterEach(async () => {
    store.hold(false);
    for (const one of open) void one.close();
    clock.advance(1000);
    await settle();
  });

  function replica(seed: number, name = "llm/pool"): { transport: RedisPeerTransport; told: Told } {
    const line = (level: string) => (fields: LogFields) => lines.push({ level, fields });
    const log = { debug() {}, info: line("info"), warn: line("warn"), error: line("error") } as unknown as Logger;
    const transport = new RedisPeerTransport(
      { redis: { url: "redis://fake", tls: {}, enableTracing: false }, name },
      { clock, random: new SeededRandom(seed), log, connect: store.connect },
    );
    const told = new Told();
    transport.start(told);
    open.push(transport);
    return { transport, told };
  }

  /** Advances in steps, so that what each timer asks is answered before the next. */
  async function pass(ms: number, step = 100): Promise<void> {
    for (let at = 0; at < ms; at += step) {
      clock.advance(step);
      await settle();
    }
  }

  it("carries loads and the log to every replica of the name, its own included, and to no other", async () => {
    const [one, two, other] = [replica(1), replica(2), replica(3, "llm/other")];
    await settle();
    one.transport.publishLoad(bytes("load"));
    one.transport.appendPlaced(bytes("a"));
    one.transport.appendPlaced(bytes("b"));
    await settle();
    expect(two.told).toMatchObject({ loads: ["load"], log: ["a", "b"], connections: ["up"], caught: 1 });
    expect(one.told).toMatchObject({ loads: ["load"], log: ["a", "b"] });
    expect(other.told.loads).toEqual([]);
    expect(one.transport.view).toMatchObject({ state: "up", loads: 1, placed: 2, dropped: 0, waiting: 0 });
    expect(two.transport.view).toMatchObject({ loadsRead: 1, placedRead: 2, damaged: 0, server: "fake:6379" });
  });

  it("tells those who join later the loads that live and the whole log, then that they have caught up", async () => {
    const one = replica(1);
    await settle();
    one.transport.publishLoad(bytes("load"));
    for (let i = 0; i < 150; i++) one.transport.appendPlaced(bytes(String(i)));
    await settle();
    const two = replica(2);
    const early = two.told.caught;
    await settle();
    expect(early).toBe(0);
    expect(two.told.loads).toEqual(["load"]);
    expect(two.told.log).toHaveLength(150);
    expect(two.told).toMatchObject({ caught: 1, knewWhenCaughtUp: 150 });
    await pass(3100);
    const late = replica(3);
    await settle();
    expect(late.told.loads).toEqual([]);
    expect(store.members.size).toBe(0);
  });

  it("tells those who join later for how long the store has kept a load: its owner may be dead", async () => {
    const one = replica(1);
    await settle();
    one.transport.publishLoad(bytes("load"));
    await settle();
    await pass(2900);
    const late = replica(2);
    await settle();
    expect([one.told.ages, late.told.loads, late.told.ages]).toEqual([[undefined], ["load"], [2900]]);
  });

  it("keeps the newest load only while one is on its way", async () => {
    const { transport } = replica(1);
    const two = replica(2);
    await settle();
    store.hold(true);
    for (let i = 0; i < 50; i++) transport.publishLoad(bytes(String(i)));
    await settle();
    store.hold(false);
    await settle();
    expect(two.told.loads).toEqual(["0", "49"]);
  });

  it("bounds what waits for a store that is away: the newest of the log remain, and the count tells the rest", async () => {
    const one = replica(1);
    const two = replica(2);
    await settle();
    store.kill();
    for (let i = 0; i < MOST_WAITING + 7; i++) one.transport.appendPlaced(bytes(String(i)));
    one.transport.publishLoad(bytes("old"));
    one.transport.publishLoad(bytes("new"));
    await settle();
    expect(one.transport.view).toMatchObject({ state: "away", waiting: MOST_WAITING, dropped: 7 });
    store.revive(false);
    await settle();
    await pass(1000);
    expect(two.told.log).toEqual(Array.from({ length: MOST_WAITING }, (_, i) => String(i + 7)));
    expect(two.told.loads.at(-1)).toBe("new");
    expect(two.told.loads).not.toContain("old");
    expect(one.told.connections).toEqual(["up", "down: the connection ended", "up"]);
    expect(one.told.caught).toBe(2);
  });

  it("writes again what the store did not confirm", async () => {
    const one = replica(1);
    const two = replica(2);
    await settle();
    store.hold(true);
    one.transport.appendPlaced(bytes("a"));
    await settle();
    store.kill();
    store.hold(false);
    await settle();
    store.revive(true);
    await settle();
    expect(two.told.log).toEqual(["a"]);
    expect(one.transport.view.dropped).toBe(0);
  });

  it.each([
    ["OOM command not allowed when used memory > 'maxmemory'.", "BROKER_UNAVAILABLE", "full"],
    ["WRONGTYPE Operation against a key holding the wrong kind of value", "REDIS_REFUSED", "wrong-type"],
    ["NOPERM this user has no permissions to run the 'xadd' command", "BROKER_UNAVAILABLE", "forbidden"],
    ["ERR unknown command 'XADD'", "REDIS_REFUSED", "refused"],
  ] as const)(
    "goes on with loads while the log is refused with %s, says so once, and recovers",
    async (reply, code, state) => {
      const one = replica(1);
      const two = replica(2);
      await settle();
      lines.length = 0;
      store.refusals.set("XADD", new SluiceError(code, reply));
      one.transport.appendPlaced(bytes("a"));
      for (let i = 0; i < 20; i++) {
        one.transport.publishLoad(bytes(String(i)));
        await pass(100);
      }
      expect(two.told.loads).toHaveLength(20);
      expect(one.transport.view).toMatchObject({ state, reason: reply, waiting: 1, dropped: 0 });
      expect(lines).toEqual([{ level: "warn", fields: { server: "fake:6379", problem: state, reason: reply } }]);
      // 50 ms, doubled: six or seven attempts in 2 s.
      expect(store.of("XADD").length).toBeLessThan(12);
      store.refusals.clear();
      await pass(2000);
      expect(two.told.log).toEqual(["a"]);
      expect(lines.map(({ level }) => level)).toEqual(["warn", "info"]);
      expect(one.told.connections).toEqual(["up", `down: ${reply}`, "up"]);
    },
  );

  it("a store that is away at the start: one warn line, and everything once it is there", async () => {
    store.kill();
    const one = replica(1);
    one.transport.publishLoad(bytes("load"));
    await pass(500);
    expect(lines.map(({ level }) => level)).toEqual(["warn"]);
    expect(one.told).toMatchObject({ caught: 0, connections: ["down: connect ECONNREFUSED"] });
    store.revive(false);
    await settle();
    expect(one.told.loads).toContain("load");
    expect(one.told.caught).toBe(1);
    expect(one.told.connections.at(-1)).toBe("up");
  });

  it.each([0, 1, 2])(
    "tells that it has caught up after it tells that the store is there, connection %i last",
    async (last) => {
      store.kill();
      const one = replica(1);
      await settle();
      const links = [...store.links];
      store.links.length = 0;
      store.links.push(...links.filter((_, i) => i !== last));
      store.revive(false);
      await settle();
      links[last]!.open();
      await settle();
      expect(one.told.order).toEqual(["down", "up", "read"]);
      store.links.push(links[last]!);
      store.kill();
      for (const link of links.toReversed()) {
        link.open();
        await settle();
      }
      expect(one.told.order).toEqual(["down", "up", "read", "down", "up", "read"]);
    },
  );

  it("reads a log that began anew: emptied, or on a server whose clock is behind", async () => {
    const one = replica(1);
    const two = replica(2);
    store.wall = 5000;
    await settle();
    one.transport.appendPlaced(bytes("before"));
    await settle();
    store.flush();
    store.wall = 2000;
    await pass(1100);
    one.transport.appendPlaced(bytes("after"));
    await settle();
    expect(two.told.log).toEqual(["before", "after"]);
  });

  it("drops and counts what no replica has sent", async () => {
    const one = replica(1);
    await settle();
    store.publish("sluice:peers:{llm/pool}:loads", Buffer.from("hello"));
    const damaged = framed(bytes("load"));
    damaged[7]! ^= 4;
    store.publish("sluice:peers:{llm/pool}:loads", damaged);
    store.append(Buffer.alloc(0));
    store.append(framed(bytes("good")));
    await settle();
    expect(one.told).toMatchObject({ loads: [], log: ["good"] });
    expect(one.transport.view.damaged).toBe(3);
  });

  it("asks whether its subscription still lives, because a dead one is silent", async () => {
    replica(1);
    await pass(3500);
    expect(store.of("PING").length).toBe(3);
  });

  it("writes its last words, takes its load back and ends its connections; nothing comes after", async () => {
    const one = replica(1);
    const two = replica(2);
    await settle();
    one.transport.publishLoad(bytes("busy"));
    await settle();
    expect(store.values.size).toBe(1);
    for (let i = 0; i < 200; i++) one.transport.appendPlaced(bytes(String(i)));
    one.transport.publishLoad(bytes("nothing"));
    const closing = one.transport.close();
    await settle();
    await settle();
    await closing;
    expect(two.told.loads.at(-1)).toBe("nothing");
    expect(two.told.log).toHaveLength(200);
    expect(store.values.size).toBe(0);
    expect(store.members.size).toBe(0);
    const heard = one.told.loads.length;
    two.transport.publishLoad(bytes("later"));
    one.transport.publishLoad(bytes("too late"));
    one.transport.appendPlaced(bytes("too late"));
    await settle();
    expect(one.told.loads).toHaveLength(heard);
    expect(two.told.loads.at(-1)).toBe("later");
  });

  it("waits half a second for a store that does not answer its last words", async () => {
    const one = replica(1);
    await settle();
    store.hold(true);
    one.transport.publishLoad(bytes("load"));
    let ended = false;
    void one.transport.close().then(() => {
      ended = true;
    });
    await pass(400);
    expect(ended).toBe(false);
    await pass(200);
    expect(ended).toBe(true);
  });

  it("takes calls before its start and after its end", async () => {
    const transport = new RedisPeerTransport(
      { redis: { url: "redis://fake", tls: {}, enableTracing: false }, name: "x" },
      { clock, random: new SeededRandom(1), log: {} as Logger, connect: store.connect },
    );
    transport.publishLoad(bytes("x"));
    transport.appendPlaced(bytes("x"));
    expect(transport.view.state).toBe("connecting");
    await transport.close();
    await transport.close();
    expect(store.links).toEqual([]);
  });
});
