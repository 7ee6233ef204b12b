import { createClient } from "@redis/client";
import { type RedisAddress, type RedisConnection, tlsOptions } from "./address.ts";

/** Milliseconds. */
export const REDIS_CONNECT_TIMEOUT = 5000;
const CLIENT_NAME = "sluice";

/** The features that a connection asks for when it begins: fewer after each refusal. */
export const HANDSHAKES = [
  { resp: 3, announce: true },
  { resp: 3, announce: false },
  { resp: 2, announce: false },
] as const;
/** Refusals that have nothing to do with these features. */
export const NOT_THE_HANDSHAKE = /\b(NOAUTH|WRONGPASS|LOADING|MASTERDOWN|max number of clients)\b/;

export type Client = ReturnType<typeof makeClient>;

/** A client of the library for one connection: it neither queues nor reconnects. */
export function makeClient(
  address: RedisAddress,
  tls: RedisConnection["tls"],
  { resp, announce }: (typeof HANDSHAKES)[number],
  name = CLIENT_NAME,
) {
  return createClient({
    RESP: resp,
    emitInvalidate: announce,
    maintNotifications: "disabled",
    disableClientInfo: true,
    // Written at the end of the turn: no command needs a timer until then.
    commandOptions: { timeout: 0 },
    disableOfflineQueue: true,
    name: address.clientName || name,
    database: address.database,
    ...(address.username === "" ? {} : { username: address.username }),
    ...(address.password === "" ? {} : { password: address.password }),
    socket: {
      host: address.host,
      port: address.port,
      connectTimeout: REDIS_CONNECT_TIMEOUT,
      reconnectStrategy: false,
      ...(address.tls ? tlsOptions(address, tls) : {}),
    },
  });
}
