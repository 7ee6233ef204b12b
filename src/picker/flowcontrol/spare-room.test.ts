import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { PoolEndpoint } from "../../pool/endpoints/pool-endpoint.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { type SparePlace, SpareRoom } from "./spare-room.ts";

/** A pool whose servers have so many slots each, all of them known. */
function make(slots: readonly number[], saturation: () => number = () => 0) {
  const clock = new VirtualClock(1_700_000_000_000);
  const registry = new EndpointRegistry({ clock, random: new SeededRandom(1) });
  const pool = slots.map(
    (_, i) =>
      registry.upsert({
        ...{ namespace: "n", name: `s${i}`, address: `10.0.0.${i + 1}` },
        port: 80,
        rank: 0,
        labels: {},
      })!,
  );
  const room = new SpareRoom({ clock, baseline: 0.2, pool: () => pool, detector: () => ({ saturation }) });
  const scrape = (at: number, running: number, waiting = 0): void => {
    pool[at]!.metrics = { ...pool[at]!.metrics, running, waiting, kvUsage: 0, scrapedAt: clock.now() };
    room.scraped(pool[at]!);
  };
  /** Sends a request that is no background request. */
  const other = (at: number): { release(): void } => {
    const ticket = registry.inFlight.open(pool[at]!, 0);
    room.taken(pool[at]!);
    return ticket;
  };
  const log: string[] = [];
  const end = (place: SparePlace, ticket: { release(): void } | undefined): void => {
    ticket?.release();
    room.ended(place);
  };
  const send = (name: string, candidates: readonly PoolEndpoint[] = pool) => {
    let ticket: { release(): void } | undefined;
    const go = (): void => {
      const [endpoint] = room.withRoom(candidates);
      ticket = registry.inFlight.open(endpoint!, 0);
      log.push(`${name}:${(endpoint as PoolEndpoint).name}`);
      room.placed(place, endpoint!);
    };
    const place = room.enter({
      ...{ candidates: () => candidates, candidatesKey: candidates.map((each) => each.name).join() },
      left: (admitted) => {
        if (admitted) return go();
        log.push(`${name} refused`);
      },
      revoke() {
        log.push(`${name} revoked`);
        end(place, ticket);
      },
    });
    if (!place.waiting) go();
    return { place, end: () => end(place, ticket) };
  };
  slots.forEach((size, at) => {
    scrape(at, size);
    scrape(at, size, 1);
    scrape(at, 0);
  });
  return { clock, pool, room, scrape, other, send, log };
}

describe("the room for background requests", () => {
  it("lets them in while the baseline stays free, and the next one when one ends, in the order of arrival", () => {
    const { clock, send, log, room } = make([5]);
    const sent = ["a", "b", "c", "d", "e", "f"].map((name) => send(name));
    expect(log).toEqual(["a:s0", "b:s0", "c:s0", "d:s0"]);
    expect(room.waiting).toBe(2);
    sent[1]!.end();
    clock.advance(1);
    expect(log.slice(4)).toEqual(["e:s0"]);
  });

  it("lets no more than 4,096 wait, and sends a further one back at once", () => {
    const { clock, send, log, room } = make([1]);
    for (let n = 0; n < 4098; n++) send(`r${n}`);
    clock.advance(1);
    expect([log, room.waiting]).toEqual([["r0:s0", "r4097 refused"], 4096]);
  });

  it("ends the newest at an endpoint for a request that would find its last slot taken, and no other one", () => {
    const { send, other, log, room } = make([5, 5]);
    for (const name of ["a", "b", "c", "d"]) send(name);
    send("x");
    other(0);
    expect(log.some((line) => line.includes("revoked"))).toBe(true);
    expect(log.at(-1)).toBe("d revoked");
    other(0);
    expect(log.at(-1)).toBe("c revoked");
    expect(log).not.toContain("x revoked");
    expect(room.withRoom([])).toEqual([]);
  });

  it("asks the detector for no request to a server without background requests", () => {
    let asked = 0;
    const { pool, send, other } = make([5, 5], () => {
      asked++;
      return 0;
    });
    const { end } = send("a", [pool[0]!]);
    asked = 0;
    other(1);
    expect(asked).toBe(0);
    other(0);
    expect(asked).toBe(1);
    end();
    other(0);
    expect(asked).toBe(1);
  });

  it("ends as many as wait at a server, when its metrics show it", () => {
    const { send, scrape, log } = make([5]);
    for (const name of ["a", "b", "c", "d"]) send(name);
    scrape(0, 5, 2);
    expect(log.slice(4)).toEqual(["d revoked", "c revoked"]);
  });

  it("sends one back after two seconds that keeps others from room which it cannot use, and any after a minute", () => {
    const { clock, pool, scrape, send, other, log, room } = make([5, 5]);
    const taken = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1].map((at) => other(at));
    send("a", [pool[0]!]);
    send("b", [pool[0]!]);
    clock.advance(4000);
    scrape(0, 5);
    scrape(1, 5);
    expect([log, room.waiting]).toEqual([[], 2]);
    for (const ticket of taken.slice(5)) ticket.release();
    clock.advance(100);
    scrape(1, 0);
    clock.advance(100);
    expect(log).toEqual([]);
    while (log.length === 0 && clock.now() < 10_000) {
      clock.advance(100);
      scrape(1, 0);
    }
    expect([log, room.waiting]).toEqual([["a refused", "b refused"], 0]);
    send("c", [pool[0]!]);
    for (let second = 0; second < 59; second++) clock.advance(1000);
    expect(room.waiting).toBe(1);
    clock.advance(1000);
    expect(log.at(-1)).toBe("c refused");
  });

  it("lets one pass whose server has room, although another one waits before it", () => {
    const { clock, pool, send, other, log, room } = make([5, 5]);
    for (let i = 0; i < 5; i++) other(0);
    send("a", [pool[0]!]);
    send("b", [pool[1]!]);
    room.changed();
    clock.advance(1);
    expect(log).toEqual(["b:s1"]);
  });

  it("is none where the detector says that less than the baseline is free, and where the detector fails", () => {
    let value: number | Error = 0.79;
    const { room, pool } = make([5], () => {
      if (value instanceof Error) throw value;
      return value;
    });
    expect(room.withRoom(pool)).toHaveLength(1);
    value = 0.8;
    expect(room.withRoom(pool)).toHaveLength(0);
    value = new Error("broken");
    expect(room.withRoom(pool)).toHaveLength(0);
  });

  it("gives back the room of one that is cancelled while it waits, or ends before it counts anywhere", () => {
    const { clock, pool, send, scrape, room } = make([5]);
    const sent = ["a", "b", "c", "d", "e"].map((name) => send(name));
    sent[4]!.end();
    clock.advance(3000);
    expect(room.waiting).toBe(0);
    for (const { end } of [...sent, ...sent]) end();
    scrape(0, 0);
    const unplaced = room.enter({ candidates: () => pool, candidatesKey: "", left() {}, revoke() {} });
    expect(unplaced.waiting).toBe(false);
    room.ended(unplaced);
    for (const name of ["f", "g", "h", "i"]) expect(send(name).place.waiting).toBe(false);
  });

  it("allows what runs and fits, an eighth ahead, at its most in the last second or two", () => {
    const { clock, other, room, scrape } = make([10]);
    expect(room.allowance()).toEqual({ requests: 9, size: 10 });
    const all = Array.from({ length: 10 }, () => other(0));
    expect(room.allowance().requests).toBe(9);
    clock.advance(2000);
    scrape(0, 10);
    expect(room.allowance().requests).toBe(0);
    for (const each of all) each.release();
    expect(room.allowance().requests).toBe(9);
  });

  it("moves with its request to another server", () => {
    const { pool, send, other, room, log } = make([2, 5]);
    const { place } = send("a", [pool[0]!]);
    room.moved(place, pool[1]!);
    other(0);
    other(0);
    expect(log).toEqual(["a:s0"]);
  });
});
