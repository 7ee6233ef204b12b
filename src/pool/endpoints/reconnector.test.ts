import { createServer, type Server } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { deadPort } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { Reconnector } from "./reconnector.ts";
import { EndpointRegistry } from "./registry.ts";

const cleanUps: (() => unknown)[] = [];

afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

async function serve(port: number): Promise<{ connections: () => number }> {
  let connections = 0;
  const server: Server = createServer((socket) => {
    connections++;
    socket.on("error", () => {});
    socket.on("data", () => expect.fail("nothing is to be sent"));
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  cleanUps.push(() => server.close());
  return { connections: () => connections };
}

function setUp(ports: readonly number[], clock = realClock as typeof realClock | VirtualClock) {
  const registry = new EndpointRegistry({ clock, random: new SeededRandom(1) });
  const reconnector = new Reconnector(clock, registry);
  cleanUps.push(() => reconnector.close());
  const endpoints = ports.map((port, i) => {
    const spec = { namespace: "default", name: `e${i}`, address: "127.0.0.1", port, rank: 0, labels: {} };
    return registry.upsert(spec)!;
  });
  return { registry, reconnector, endpoints };
}

describe("Reconnector (S-65)", () => {
  it("takes a dead endpoint back when it accepts connections again, and asks those that live nothing", async () => {
    const port = await deadPort();
    const livePort = await deadPort();
    const live = await serve(livePort);
    const { registry, endpoints, reconnector } = setUp([port, livePort]);
    const first = endpoints[0]!;
    registry.attemptFailed(first, "connect", "ECONNREFUSED");
    expect(registry.candidates()).toMatchObject({ down: [endpoints[0]], endpoints: [endpoints[1]] });
    await poll("tried in vain", () => /^check could not connect: .*ECONNREFUSED/.test(first.cause));
    expect(first.failures).toBeGreaterThanOrEqual(2);
    await serve(port);
    await poll("back", () => first.state === "up");
    expect(first.cause).toBe("a connection was accepted");
    expect(registry.candidates().down).toEqual([]);
    expect([live.connections(), reconnector.size]).toEqual([0, 0]);
  });

  it("keeps one timer per dead endpoint, and none for those that come back or leave", () => {
    const clock = new VirtualClock();
    const { registry, endpoints, reconnector } = setUp(
      Array.from({ length: 50 }, (_, i) => 8000 + i),
      clock,
    );
    for (const endpoint of endpoints)
      for (let i = 0; i < 3; i++) registry.attemptFailed(endpoint, "reset", "ECONNRESET");
    expect([reconnector.size, clock.pending]).toEqual([50, 50]);
    for (const endpoint of endpoints.slice(0, 20)) registry.attemptSucceeded(endpoint);
    for (const endpoint of endpoints.slice(20, 40)) registry.remove(endpoint.id);
    expect([reconnector.size, clock.pending]).toEqual([10, 10]);
    reconnector.close();
    registry.attemptFailed(endpoints[0]!, "reset", "ECONNRESET");
    expect([reconnector.size, clock.pending]).toEqual([0, 0]);
  });
});
