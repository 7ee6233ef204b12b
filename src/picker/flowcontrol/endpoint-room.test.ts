import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { EndpointRoom } from "./endpoint-room.ts";

const BASELINE = 0.2;

/** An endpoint whose in-flight requests are `own`, and its room. */
function make() {
  const clock = new VirtualClock();
  const endpoint = {
    ...{ id: "a", slot: 0, namespace: "n", name: "a", address: "10.0.0.1", port: 1, hostPort: "10.0.0.1:1", rank: 0 },
    ...{ labels: {}, state: "up" as const, scrapeInterval: 50, metrics: UNKNOWN_METRICS },
    inFlight: { requests: 0, tokens: 0 },
  };
  const room = new EndpointRoom(endpoint);
  const scrape = (running: number, waiting = 0, kvUsage = 0): number => {
    clock.advance(50);
    endpoint.metrics = { ...UNKNOWN_METRICS, running, waiting, kvUsage, scrapedAt: clock.now() };
    return room.scraped(clock.now());
  };
  /** A model server with so many slots, at which batches use all the room that they get. @returns the most that ran */
  const fill = (slots: number, scrapes: number): number => {
    let most = 0;
    for (let at = 0; at < scrapes; at++) {
      const more = room.room(BASELINE, clock.now());
      endpoint.inFlight.requests += more;
      room.background += more;
      const present = endpoint.inFlight.requests;
      const surplus = scrape(Math.min(slots, present), Math.max(0, present - slots));
      endpoint.inFlight.requests -= surplus;
      room.background -= surplus;
      most = Math.max(most, present);
    }
    return most;
  };
  return { clock, endpoint, room, scrape, fill, free: () => room.room(BASELINE, clock.now()) };
}

describe("the room at one endpoint", () => {
  it.each([1, 2, 16, 256])("finds out that an endpoint has %d slots, and then leaves the baseline free", (slots) => {
    const { endpoint, room, fill, free } = make();
    expect(fill(slots, 100)).toBeLessThanOrEqual(slots + Math.max(1, slots / 16));
    expect(room.size).toBe(slots);
    endpoint.inFlight.requests = 0;
    room.background = 0;
    expect(free()).toBe(Math.max(1, Math.floor(slots * (1 - BASELINE))));
  });

  it("lets one more go for each scrape that shows the known size in use, and none before that scrape", () => {
    const { endpoint, free, scrape } = make();
    scrape(0);
    expect(free()).toBe(1);
    endpoint.inFlight.requests = 1;
    expect(free()).toBe(0);
    scrape(1);
    expect(free()).toBe(1);
  });

  it("grows for requests that end between two scrapes, so that no scrape shows them", () => {
    const { endpoint, room, scrape, free } = make();
    for (let at = 0; at < 20; at++) {
      const more = free();
      endpoint.inFlight.requests = more;
      for (let n = 0; n < more; n++) room.counted();
      endpoint.inFlight.requests = 0;
      room.background = 0;
      scrape(0);
    }
    expect(free()).toBeGreaterThanOrEqual(9);
    scrape(0, 2);
    scrape(4, 2);
    scrape(0);
    scrape(0);
    expect(free()).toBe(3);
  });

  it("has none while requests wait, while the KV cache is short, while metrics are old, and where the server is down", () => {
    const { endpoint, clock, free, scrape } = make();
    for (const running of [8, 0, 0]) scrape(running);
    expect(free()).toBe(9);
    scrape(0, 1);
    expect(free()).toBe(0);
    scrape(0, 0, 0.8);
    expect(free()).toBe(0);
    scrape(0, 0, 0.79);
    expect(free()).toBe(9);
    clock.advance(201);
    expect(free()).toBe(0);
    scrape(0);
    expect(free()).toBe(9);
    Object.assign(endpoint, { state: "down" });
    expect(free()).toBe(0);
  });

  it("gives one at a time where there are no metrics", () => {
    expect(make().free()).toBe(1);
  });

  it("counts what others have sent to the server, once two scrapes show it", () => {
    const { endpoint, room, scrape } = make();
    endpoint.inFlight.requests = 2;
    scrape(6);
    expect(room.present).toBe(2);
    scrape(5);
    expect(room.present).toBe(5);
    scrape(2);
    expect(room.present).toBe(2);
  });

  it("does not take a server for full that starts requests with its next step", () => {
    const { endpoint, room, scrape, free } = make();
    scrape(32);
    endpoint.inFlight.requests = 4;
    expect(scrape(4, 2)).toBe(0);
    scrape(4);
    expect([room.isTight, free()]).toEqual([false, 30]);
  });

  it("grows again to a size that was seen, after a bad moment", () => {
    const { room, scrape } = make();
    scrape(32);
    scrape(4, 2);
    scrape(4, 2);
    expect(room.size).toBe(4);
    for (let at = 0; at < 200; at++) scrape(4);
    // Half way, because the moment could be the truth.
    expect(room.size).toBe(18);
  });

  it("is tight from the last slots on, once requests have waited", () => {
    const { endpoint, room, scrape } = make();
    endpoint.inFlight.requests = 20;
    scrape(16);
    expect(room.isTight).toBe(false);
    scrape(16, 4);
    expect(room.isTight).toBe(true);
    endpoint.inFlight.requests = 15;
    scrape(15);
    expect(room.isTight).toBe(false);
    endpoint.inFlight.requests = 16;
    expect(room.isTight).toBe(true);
    room.leaving = 1;
    expect(room.isTight).toBe(false);
  });

  it("learns the size anew while only background requests are there, later the second time, and stops when others come", () => {
    const { clock, endpoint, room, fill } = make();
    fill(16, 60);
    const most: number[] = [];
    for (let second = 0; second < 100; second++) most.push(fill(16, 20));
    const trials = most.flatMap((present, second) => (present > 16 ? [second] : []));
    expect(trials.length).toBe(2);
    expect(trials[1]! - trials[0]!).toBeGreaterThanOrEqual(60);
    // One request of others is there all the time.
    endpoint.inFlight.requests = 1;
    room.background = 0;
    for (let second = 0; second < 100; second++) expect(fill(16, 20)).toBeLessThanOrEqual(13);
    expect(room.size).toBe(16);
    expect(clock.now()).toBeGreaterThan(200_000);
  });

  it("leaves the baseline free again as soon as others come while the size is learned anew", () => {
    const { endpoint, room, fill, free, scrape } = make();
    fill(16, 60);
    endpoint.inFlight.requests = 4;
    room.background = 4;
    const limit = () => endpoint.inFlight.requests + free();
    for (let scrapes = 0; limit() <= 12 && scrapes < 200; scrapes++) scrape(4);
    expect(limit()).toBe(17);
    endpoint.inFlight.requests = 5;
    scrape(5);
    expect(limit()).toBe(12);
  });

  it("learns that a server has more slots than before", () => {
    const { room, fill } = make();
    fill(4, 40);
    expect(room.size).toBe(4);
    fill(16, 200);
    expect(room.size).toBe(16);
  });

  it("knows nothing of a server that was away", () => {
    const { room, fill } = make();
    fill(16, 60);
    room.forget();
    expect([room.size, room.isTight]).toEqual([1, false]);
  });

  it("never has more in flight than the slots and one trial, whatever the others do", () => {
    const random = new SeededRandom(7);
    const { endpoint, room, scrape, free } = make();
    let others = 0;
    for (let step = 0; step < 20_000; step++) {
      others = Math.max(0, Math.min(24, others + random.below(5) - 2));
      const ends = room.background > 0 ? random.below(2) : 0;
      room.background -= ends;
      endpoint.inFlight.requests = others + room.background;
      const more = free();
      room.background += more;
      endpoint.inFlight.requests += more;
      expect(more === 0 || endpoint.inFlight.requests <= 17).toBe(true);
      const present = endpoint.inFlight.requests;
      room.background -= Math.min(room.background, scrape(Math.min(16, present), Math.max(0, present - 16)));
    }
    expect(room.size).toBe(16);
  });
});
