import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { PoolEndpoint } from "./pool-endpoint.ts";
import { EndpointStates } from "./state.ts";

function setUp(): { clock: VirtualClock; endpoint: PoolEndpoint; states: EndpointStates; changes: string[] } {
  const clock = new VirtualClock(1_700_000_000_000);
  const changes: string[] = [];
  const states = new EndpointStates(clock, new SeededRandom(1), (of, from) => changes.push(`${from}>${of.state}`));
  const spec = { namespace: "default", name: "a", address: "10.0.0.1", port: 8000, rank: 0, labels: {} };
  return { clock, endpoint: new PoolEndpoint(spec, 0, 50, clock.now(), clock.wall()), states, changes };
}

describe("EndpointStates", () => {
  it("starts up, not scraped yet", () => {
    const { endpoint } = setUp();
    expect(endpoint).toMatchObject({ state: "up", cause: "not scraped yet", sinceWall: 1_700_000_000_000 });
  });

  it("records since when and why at every change", () => {
    const { clock, endpoint, states, changes } = setUp();
    clock.advance(100);
    states.unreadable(endpoint, "HTTP 500");
    expect(endpoint).toMatchObject({ state: "blind", cause: "scrape: HTTP 500", since: 100 });
    clock.advance(100);
    states.unreachable(endpoint, "connect", "ECONNREFUSED");
    expect(endpoint).toMatchObject({ state: "down", cause: "scrape could not connect: ECONNREFUSED", since: 200 });
    clock.advance(100);
    states.readable(endpoint);
    expect(endpoint).toMatchObject({ state: "up", since: 300, sinceWall: 1_700_000_000_300 });
    expect(changes).toEqual(["up>blind", "blind>down", "down>up"]);
  });

  it("keeps since while it stays down, but tells the newest cause", () => {
    const { clock, endpoint, states, changes } = setUp();
    states.attemptFailed(endpoint, "connect", "refused");
    clock.advance(700);
    states.unreachable(endpoint, "timeout", "silence");
    expect(endpoint).toMatchObject({ since: 0, cause: "scrape timed out: silence" });
    expect(changes).toEqual(["up>down"]);
  });

  it("doubles the waits from 0.25 s to 5 s, with jitter", () => {
    const { clock, endpoint, states } = setUp();
    const waits: number[] = [];
    for (let i = 0; i < 40; i++) {
      states.unreachable(endpoint, "connect", "refused");
      waits.push(endpoint.retryAt - clock.now());
      clock.advance(endpoint.retryAt - clock.now());
    }
    const floors = [250, 500, 1000, 2000, 2500];
    for (const [i, wait] of waits.entries()) {
      const floor = floors[Math.min(i, 4)]!;
      expect(wait).toBeGreaterThanOrEqual(floor);
      expect(wait).toBeLessThanOrEqual(Math.min(5000, 2 * floor));
    }
    expect(new Set(waits).size).toBe(waits.length);
  });

  it("starts the back-off anew after a recovery", () => {
    const { clock, endpoint, states } = setUp();
    for (let i = 0; i < 6; i++) states.unreachable(endpoint, "connect", "refused");
    states.readable(endpoint);
    states.unreachable(endpoint, "connect", "refused");
    expect(endpoint.retryAt - clock.now()).toBeLessThan(500);
  });

  it("does not let a burst of failing requests push the next try away", () => {
    const { endpoint, states } = setUp();
    states.attemptFailed(endpoint, "reset", "cut");
    const { retryAt } = endpoint;
    for (let i = 0; i < 100; i++) states.attemptFailed(endpoint, "connect", "refused");
    expect(endpoint.retryAt).toBe(retryAt);
    expect(endpoint.cause).toBe("request could not connect: refused");
  });

  it("marks down on connect, timeout and reset of a request, never on its status", () => {
    for (const failure of ["connect", "timeout", "reset"] as const) {
      const { endpoint, states } = setUp();
      states.attemptFailed(endpoint, failure, "x");
      expect(endpoint.state).toBe("down");
    }
    const { endpoint, states, changes } = setUp();
    states.attemptFailed(endpoint, "status", "HTTP 503");
    expect(endpoint).toMatchObject({ state: "up", cause: "not scraped yet" });
    expect(changes).toEqual([]);
  });

  it("brings a down endpoint back when a request was answered, and leaves a blind one blind", () => {
    const { endpoint, states } = setUp();
    states.unreachable(endpoint, "timeout", "x");
    states.attemptSucceeded(endpoint);
    expect(endpoint).toMatchObject({ state: "up", cause: "a request was answered" });
    states.unreadable(endpoint, "HTTP 404");
    states.attemptSucceeded(endpoint);
    expect(endpoint.state).toBe("blind");
  });

  it("keeps causes one bounded line", () => {
    const { endpoint, states } = setUp();
    states.unreadable(endpoint, `a\r\nb${"x".repeat(5000)}`);
    expect(endpoint.cause.length).toBeLessThanOrEqual(1024);
    expect(endpoint.cause).toContain("a b");
  });
});
