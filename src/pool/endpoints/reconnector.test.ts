import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { clientAuthority } from "../../../test/support/certificates.ts";
import { deadPort } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { ServerTls } from "../../base/grpc/server-tls.ts";
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

/** Serves TLS. @returns a stop */
async function serveTls(
  port: number,
  pair: { readonly cert: string; readonly key: string },
): Promise<() => Promise<void>> {
  const sockets = new Set<Socket>();
  const server = createTlsServer(pair);
  server.on("connection", (socket: Socket) => sockets.add(socket));
  server.on("tlsClientError", () => {});
  server.on("secureConnection", (socket) => socket.on("error", () => {}));
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const stop = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => void server.close(() => resolve()));
  };
  cleanUps.push(stop);
  return stop;
}

function setUp(
  ports: readonly number[],
  clock = realClock as typeof realClock | VirtualClock,
  tls?: ServerTls,
  scheme?: "http",
) {
  const registry = new EndpointRegistry({ clock, random: new SeededRandom(1) });
  const reconnector = new Reconnector(clock, registry, tls);
  cleanUps.push(() => reconnector.close());
  const endpoints = ports.map((port, i) => {
    const spec = { namespace: "default", name: `e${i}`, address: "127.0.0.1", port, rank: 0, labels: {} };
    return registry.upsert(scheme === undefined ? spec : { ...spec, scheme })!;
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

  it("takes an endpoint with TLS back when its handshake succeeds, not when it accepts a connection", async () => {
    const authority = await clientAuthority();
    const port = await deadPort();
    const { registry, endpoints } = setUp([port], realClock, new ServerTls({ ca: authority.ca }, true));
    const endpoint = endpoints[0]!;
    const tries = (count: number) => poll(`${count} tries`, () => endpoint.failures >= count);
    const other = await clientAuthority();
    registry.attemptFailed(endpoint, "connect", "ECONNREFUSED");
    const wrong = await serveTls(port, other.server);
    await tries(2);
    await poll("the cause", () => endpoint.cause.startsWith("check could not connect: TLS: "));
    expect(endpoint.state).toBe("down");
    await wrong();
    const right = await serveTls(port, authority.server);
    await poll("back", () => endpoint.state === "up");
    await right();
  });

  it("speaks plain TCP to an endpoint that states http, also where others have TLS", async () => {
    const port = await deadPort();
    const { registry, endpoints } = setUp([port], realClock, new ServerTls({}, true), "http");
    registry.attemptFailed(endpoints[0]!, "connect", "ECONNREFUSED");
    await serve(port);
    await poll("back", () => endpoints[0]!.state === "up");
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
