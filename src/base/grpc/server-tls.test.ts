import type { AddressInfo, Socket } from "node:net";
import { createServer, type Server, type TLSSocket } from "node:tls";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { type ClientAuthority, clientAuthority } from "../../../test/support/certificates.ts";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../clock/real.ts";
import { connector } from "./server-connector.ts";
import { ServerTls, type ServerTlsSettings, serverTlsError } from "./server-tls.ts";

let authority: ClientAuthority;
beforeAll(async () => {
  authority = await clientAuthority();
});

const servers: Server[] = [];
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

/** A server with the certificate for `localhost` and 127.0.0.1. */
async function server(options: object = {}) {
  const names: unknown[] = [];
  const made = createServer({ ...authority.server, ...options }, (socket) => {
    names.push((socket as TLSSocket & { servername?: unknown }).servername);
    sockets.push(socket);
    socket.on("error", () => {});
  });
  servers.push(made);
  await new Promise<void>((resolve) => made.listen(0, "127.0.0.1", resolve));
  return { port: (made.address() as AddressInfo).port, names };
}

function connect(tls: ServerTls, port: number, hostname = "127.0.0.1"): Promise<Socket> {
  const open = connector({ clock: realClock, timeout: 60_000, tls });
  return new Promise((resolve, reject) =>
    open({ hostname, port: String(port) }, (...[error, socket]) => {
      if (error !== null) reject(error);
      else {
        sockets.push(socket);
        resolve(socket);
      }
    }),
  );
}

describe("connections to model servers over TLS", () => {
  it("take a certificate of the authority, for the address or for the name", async () => {
    const { port, names } = await server();
    for (const [settings, host] of [
      [{}, "127.0.0.1"],
      [{}, "localhost"],
      [{ serverName: "localhost" }, "127.0.0.1"],
    ] as const)
      await connect(new ServerTls({ ca: authority.ca, ...settings }), port, host);
    await poll("the server has them all", () => names.length === 3);
    expect(names).toEqual([false, "localhost", "localhost"]);
  });

  it.each<[string, (ours: ClientAuthority) => ServerTlsSettings, RegExp]>([
    ["an unknown authority", () => ({}), /^TLS: .*--server-ca/],
    ["another name", ({ ca }) => ({ ca, serverName: "other.example" }), /^TLS: .*--server-name/],
  ])("refuse %s, with what to do", async (_what, settings, message) => {
    const { port } = await server();
    await expect(connect(new ServerTls(settings(authority)), port)).rejects.toMatchObject({
      code: "SERVER_TLS_FAILED",
      message: expect.stringMatching(message),
    });
  });

  it("show the certificate of the settings, and the new one after a change", async () => {
    const { port } = await server({
      ca: authority.ca,
      requestCert: true,
      rejectUnauthorized: true,
      maxVersion: "TLSv1.2",
    });
    const tls = new ServerTls({ ca: authority.ca });
    await expect(connect(tls, port)).rejects.toThrow(/TLS|ECONNRESET|disconnected/);
    tls.use({ ca: authority.ca, client: authority.client });
    await connect(tls, port);
    expect(() => tls.use({ ca: authority.ca, client: { cert: "no", key: "no" } })).toThrow();
    await connect(tls, port);
  });

  it("are for endpoints that say so, or for all that say nothing", () => {
    const [some, all] = [new ServerTls(), new ServerTls({}, true)];
    expect([some.secures({}), some.secures({ scheme: "https" }), some.secures({ scheme: "http" })]).toEqual([
      false,
      true,
      false,
    ]);
    expect([all.secures({}), all.secures({ scheme: "https" }), all.secures({ scheme: "http" })]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it("leave errors of the network as they are", () => {
    const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    expect(serverTlsError(refused)).toBe(refused);
  });
});
