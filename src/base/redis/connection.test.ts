import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, it } from "vitest";
import { SeededRandom } from "../clock/random.ts";
import { realClock } from "../clock/real.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { silentLogger } from "../telemetry/logger.ts";
import { connectRedis } from "./connection.ts";

it("leaves no connection open when it is closed while it connects", async () => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const redis = connectRedis(
    { url: `redis://127.0.0.1:${port}`, tls: {}, enableTracing: false },
    { clock: realClock, random: new SeededRandom(1), log: silentLogger },
  );
  redis.close();
  const [socket] = (await once(server, "connection")) as [Socket];
  // Without this, an end that comes first would go unseen.
  if (!socket.destroyed) await once(socket.resume(), "close");
  expect(redis.ready).toBe(false);
  server.close();
});

it("gives a connection up whose first commands get no answer in the time that is set", async () => {
  const server = createServer((socket) => void socket.on("error", () => {}));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const clock = new VirtualClock();
  const problems: string[] = [];
  const redis = connectRedis(
    { url: `redis://127.0.0.1:${port}`, tls: {}, enableTracing: false },
    { clock, random: new SeededRandom(1), log: silentLogger },
    { beginTimeout: 2000, onAway: (problem) => problems.push(problem) },
  );
  const [silent] = (await once(server, "connection")) as [Socket];
  clock.advance(1999);
  expect(problems).toEqual([]);
  clock.advance(1);
  expect(problems).toEqual(["the server does not answer the first commands"]);
  const again = once(server, "connection");
  clock.advance(50);
  const [next] = (await again) as [Socket];
  redis.close();
  for (const socket of [silent, next]) socket.destroy();
  server.close();
});
