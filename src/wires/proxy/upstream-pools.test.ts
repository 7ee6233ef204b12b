import { afterEach, describe, expect, it } from "vitest";
import { answerBytes, type RawRequest, type RawServer, rawServer } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { BeginQueue } from "./begin-queue.ts";
import { DEFAULT_LIMITS, DEFAULT_TIMERS } from "./options.ts";
import type { UpstreamHandler } from "./upstream/transport.ts";
import { UpstreamPools } from "./upstream-pools.ts";

const clock = new VirtualClock();
const servers: RawServer[] = [];
const opened: UpstreamPools[] = [];
afterEach(async () => {
  for (const pools of opened.splice(0)) await pools.destroy();
  for (const server of servers.splice(0)) await server.close();
});

async function server(
  answer = ({ socket }: RawRequest): void => void socket.write(answerBytes(200, "ok")),
): Promise<RawServer & { hostPort: string }> {
  const raw = await rawServer(answer);
  servers.push(raw);
  return Object.assign(raw, { hostPort: `127.0.0.1:${raw.port}` });
}

function poolsOf(limit: number): UpstreamPools {
  const limits = { ...DEFAULT_LIMITS, upstreamPools: limit };
  const pools = new UpstreamPools(clock, DEFAULT_TIMERS, limits, new BeginQueue(clock));
  opened.push(pools);
  return pools;
}

const NOTHING: UpstreamHandler = {
  onRequestStart() {},
  onRequestSent() {},
  onResponseStarted() {},
  onResponseStart() {},
  onResponseData() {},
  onResponseEnd() {},
  onResponseError() {},
};

/** One request to its end, or only to its answer. */
function ask(pools: UpstreamPools, hostPort: string, release = true): Promise<void> {
  return new Promise((resolve, reject) => {
    pools.dispatch(
      { hostPort },
      { path: "/", method: "GET", headers: ["host", "model"] },
      {
        ...NOTHING,
        onResponseEnd() {
          if (release) pools.release({ hostPort });
          resolve();
        },
        onResponseError: reject,
      },
    );
  });
}

describe("UpstreamPools", () => {
  it("keeps the connections of an endpoint", async () => {
    const [a, pools] = [await server(), poolsOf(10)];
    await ask(pools, a.hostPort);
    const again = ask(pools, a.hostPort);
    // A used connection gets its request after the events that are waiting.
    clock.advance(0);
    await again;
    expect(pools.size).toBe(1);
    expect(a.sockets).toHaveLength(1);
  });

  it("D-60: closes pools that were idle for the 60 s of keep-alive, and only those", async () => {
    const [a, b, c, pools] = [await server(), await server(() => {}), await server(), poolsOf(10)];
    await ask(pools, a.hostPort);
    void ask(pools, b.hostPort, false).catch(() => {});
    await poll("the request of the one in use", () => b.requests.length === 1);
    clock.advance(40_000);
    await ask(pools, c.hostPort);
    clock.advance(20_000);
    pools.expired(clock.now());
    expect(pools.size).toBe(2);
    await poll("the idle connection ends", () => a.open() === 0);
    expect(b.open()).toBe(1);
    expect(c.open()).toBe(1);
    expect(pools.deadline).toBe(clock.now() + 60_000);
  });

  it("beyond the limit gives up the longest idle one, but none in use", async () => {
    const all = [await server(), await server(), await server(), await server()] as const;
    const pools = poolsOf(3);
    await ask(pools, all[0].hostPort, false);
    await ask(pools, all[1].hostPort);
    clock.advance(10);
    await ask(pools, all[2].hostPort);
    await ask(pools, all[3].hostPort);
    expect(pools.size).toBe(3);
    await poll("the second one's connection ends", () => all[1].open() === 0);
    expect(all[0].open()).toBe(1);
    expect(all[2].open()).toBe(1);
  });

  it("a pool given up with an answer under way lets it end", async () => {
    const [a, pools] = [await server(), poolsOf(1)];
    const asked = ask(pools, a.hostPort);
    pools.release(a);
    pools.dispatch({ hostPort: "127.0.0.1:1" }, { path: "/", method: "GET", headers: ["host", "model"] }, NOTHING);
    await asked;
  });
});
