import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, it } from "vitest";
import { SeededRandom } from "../clock/random.ts";
import { realClock } from "../clock/real.ts";
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
