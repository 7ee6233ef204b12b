import type { Clock } from "../clock/clock.ts";
import { hostPort } from "../inference/endpoint.ts";
import { messageOf } from "../inference/errors.ts";
import type { Place, RedisAddress, RedisConnection } from "./address.ts";
import { HANDSHAKES, makeClient, REDIS_CONNECT_TIMEOUT } from "./client.ts";

/** The handshake that every Sentinel knows. */
const PLAINEST = HANDSHAKES[HANDSHAKES.length - 1]!;

/**
 * Asks the Sentinels of an address, one after another, where the primary is. The first that knows it answers for all: the connection
 * to that place then shows whether it is the primary.
 * @param signal ends the question
 * @throws Error with the problem of the last Sentinel
 */
export async function primaryOf(
  address: RedisAddress,
  tls: RedisConnection["tls"],
  clock: Clock,
  signal: AbortSignal,
): Promise<Place> {
  let problem = "";
  for (const place of [{ host: address.host, port: address.port }, ...address.others]) {
    signal.throwIfAborted();
    try {
      return await askOne({ ...address, ...place }, tls, clock, signal);
    } catch (error) {
      problem = `Sentinel at ${hostPort(place.host, place.port)}: ${messageOf(error)}`;
    }
  }
  throw new Error(problem);
}

async function askOne(
  address: RedisAddress,
  tls: RedisConnection["tls"],
  clock: Clock,
  signal: AbortSignal,
): Promise<Place> {
  const { primary, username, password } = address.sentinel!;
  const client = makeClient({ ...address, username, password, database: 0 }, tls, PLAINEST);
  let over = false;
  return new Promise<Place>((resolve, reject) => {
    const end = (error: Error): void => {
      over = true;
      reject(error);
      if (client.isOpen) client.destroy();
    };
    const onAbort = (): void => end(new Error("the connection was closed"));
    signal.addEventListener("abort", onAbort, { once: true });
    const timer = clock.after(REDIS_CONNECT_TIMEOUT, () => end(new Error("no answer")), true);
    client.on("error", end);
    // A client that is destroyed while its socket opens keeps the socket.
    client.on("connect", () => {
      if (over) client.destroy();
    });
    const ask = async (): Promise<Place> => {
      await client.connect();
      const found: unknown = await client.sendCommand(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary]);
      if (!Array.isArray(found)) throw new Error(`no primary has the name ${JSON.stringify(primary)}`);
      return { host: String(found[0]), port: Number(found[1]) };
    };
    ask()
      .then(resolve, reject)
      .finally(() => {
        timer.cancel();
        signal.removeEventListener("abort", onAbort);
        if (client.isOpen) client.destroy();
      });
  });
}
