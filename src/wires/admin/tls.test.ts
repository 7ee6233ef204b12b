import { X509Certificate } from "node:crypto";
import { Agent, request } from "node:https";
import type { TLSSocket } from "node:tls";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { EMPTY_VIEWS } from "../../../test/support/admin-port.ts";
import { type ClientAuthority, clientAuthority } from "../../../test/support/certificates.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { selfSignedPair } from "../../base/grpc/self-signed.ts";
import type { TlsPair } from "../../base/grpc/tls.ts";
import type { AdminTls } from "./listen.ts";
import { type AdminServer, startAdmin } from "./server.ts";

let pairs: TlsPair[];
let authority: ClientAuthority;
let stranger: ClientAuthority;
let admin: AdminServer | undefined;

beforeAll(async () => {
  pairs = [await selfSignedPair(realClock), await selfSignedPair(realClock)];
  [authority, stranger] = await Promise.all([clientAuthority(), clientAuthority()]);
});
afterEach(() => admin?.close());

async function start(tls: AdminTls): Promise<AdminServer> {
  admin = await startAdmin({
    ...{
      host: "127.0.0.1",
      port: 0,
      clock: new VirtualClock(),
      views: { ...EMPTY_VIEWS, metrics: () => "things_total 7\n" },
      tls,
    },
    authorize: () => undefined,
  });
  return admin;
}

/** Status and text of an answer and the serial number shown, or the code of the error. */
function ask(port: number, client: object = {}): Promise<{ status: number; text: string; serial: string } | string> {
  return new Promise((resolve) => {
    const agent = new Agent({ keepAlive: false, maxCachedSessions: 0 });
    const options = { host: "127.0.0.1", port, path: "/metrics", rejectUnauthorized: false, agent, ...client };
    const asking = request(options, (answer) => {
      const serial = (answer.socket as TLSSocket).getPeerX509Certificate()!.serialNumber;
      let text = "";
      answer.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      answer.on("end", () => resolve({ status: answer.statusCode!, text, serial }));
    });
    asking.on("error", (error: NodeJS.ErrnoException) => resolve(`${error.code} ${error.message}`));
    asking.end();
  });
}

const serialOf = ({ cert }: TlsPair): string => new X509Certificate(cert).serialNumber;

describe("the admin port with TLS", () => {
  it("shows its certificate, and another one once it was given", async () => {
    const server = await start(pairs[0]!);
    expect(await ask(server.port)).toEqual({ status: 200, text: "things_total 7\n", serial: serialOf(pairs[0]!) });
    server.useTlsPair(pairs[1]!);
    expect(await ask(server.port)).toMatchObject({ status: 200, serial: serialOf(pairs[1]!) });
    expect(() => server.useTlsPair({ cert: pairs[0]!.cert, key: "garbage" })).toThrow();
    expect(await ask(server.port)).toMatchObject({ serial: serialOf(pairs[1]!) });
  });

  it("answers only clients whose certificate the authority has signed, also after a change of its own", async () => {
    const server = await start({ ...pairs[0]!, clientCa: authority.ca });
    for (let round = 0; round < 2; round++) {
      expect(await ask(server.port, authority.client)).toMatchObject({ status: 200 });
      expect(await ask(server.port)).toMatch(/certificate required|ECONNRESET/);
      expect(await ask(server.port, stranger.client)).toMatch(/unknown ca|ECONNRESET/);
      server.useTlsPair(pairs[1]!);
    }
  });

  it("keeps to its lowest version", async () => {
    const server = await start({ ...pairs[0]!, minVersion: "TLSv1.3" });
    expect(await ask(server.port, { maxVersion: "TLSv1.2" })).toMatch(/alert protocol version/);
    expect(await ask(server.port)).toMatchObject({ status: 200 });
  });
});
