import net from "node:net";
import tls from "node:tls";
import { beforeAll, describe, expect, it } from "vitest";
import { clientAuthority } from "../../../../test/support/certificates.ts";
import { transportCases } from "../../../../test/support/grpc/transport.cases.ts";
import { GrpcClient } from "../../../../test/support/grpc-client.ts";
import { frame } from "../../../../test/support/h2-peer.ts";
import { poll } from "../../../../test/support/poll.ts";
import { realClock } from "../../clock/real.ts";
import { VirtualClock } from "../../clock/virtual.ts";
import { selfSignedPair } from "../self-signed.ts";
import type { TlsPair } from "../tls.ts";
import type { GrpcHandler } from "../transport.ts";
import { ERROR, FRAME, PREFACE } from "./protocol.ts";
import { createH2Server, type H2GrpcServer, type H2ServerOptions } from "./server.ts";

transportCases("h2", (options) => createH2Server(options, realClock));

const PATH = "/test.Service/Call";
const echo: GrpcHandler = (stream) => ({
  message: (bytes) => void stream.send(bytes),
  halfClosed: () => stream.end(0),
  closed() {},
});

async function withServer(
  pair: TlsPair | undefined,
  body: (port: number, server: H2GrpcServer) => Promise<void>,
  more: Partial<H2ServerOptions> = {},
): Promise<void> {
  const handlers = new Map([[PATH, echo]]);
  const server = createH2Server({ host: "127.0.0.1", port: 0, handlers, tls: pair, ...more }, realClock);
  const { port } = await server.listen();
  try {
    await body(port, server);
  } finally {
    server.close();
  }
}

describe("the HTTP/2 server over TLS (E-01)", () => {
  let pair: TlsPair;
  beforeAll(async () => {
    pair = await selfSignedPair(new VirtualClock(Date.UTC(2026, 1, 3)));
  });

  it("carries large messages both ways over ALPN h2 (pitfall 21)", async () => {
    await withServer(pair, async (port) => {
      const client = await GrpcClient.connect(port, { tls: true });
      const message = Buffer.alloc(3 << 20, 7);
      const { reply, end } = await client.unary(PATH, message);
      expect(reply?.equals(message)).toBe(true);
      expect(end.status).toBe(0);
      client.close();
    });
  });

  it.each([
    ["http/1.1 only", ["http/1.1"]],
    ["no protocol at all", []],
  ])("drops a client that offers %s, and serves the next", async (_what, alpn) => {
    await withServer(pair, async (port) => {
      const socket = tls.connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: alpn });
      await new Promise<void>((resolve) => {
        socket.on("error", () => {});
        socket.on("close", () => resolve());
        socket.resume();
      });
      const client = await GrpcClient.connect(port, { tls: true });
      expect((await client.unary(PATH, Buffer.from("x"))).end.status).toBe(0);
      client.close();
    });
  });

  it("survives a client that speaks clear text to it", async () => {
    await withServer(pair, async (port) => {
      const socket = net.connect(port, "127.0.0.1", () => socket.write(PREFACE));
      await new Promise<void>((resolve) =>
        socket
          .on("error", () => {})
          .on("close", () => resolve())
          .resume(),
      );
      const client = await GrpcClient.connect(port, { tls: true });
      expect((await client.unary(PATH, Buffer.from("x"))).end.status).toBe(0);
      client.close();
    });
  });
});

describe("the HTTP/2 server and its sockets", () => {
  it("tells a client that breaks the rules, and closes the connection", async () => {
    await withServer(undefined, async (port) => {
      const socket = net.connect(port, "127.0.0.1");
      let received = Buffer.alloc(0);
      socket.on("data", (chunk: Buffer) => {
        received = Buffer.concat([received, chunk]);
      });
      socket.write(Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0), frame(FRAME.ping, 0, 0)]));
      await new Promise((resolve) => socket.on("close", resolve));
      expect(received.toString("latin1")).toContain("PING of a wrong size");
    });
  });

  it("resolves a drain when the last connection is gone, idle ones included", async () => {
    await withServer(undefined, async (port, server) => {
      const idle = net.connect(port, "127.0.0.1");
      idle.on("error", () => {}).resume();
      const client = await GrpcClient.connect(port);
      expect((await client.unary(PATH, Buffer.from("x"))).end.status).toBe(0);
      await server.drain();
      await expect(GrpcClient.connect(port)).rejects.toThrow();
    });
  });

  it("asks its clients to connect again, lets their calls end, and serves those who do", async () => {
    await withServer(undefined, async (port, server) => {
      const client = await GrpcClient.connect(port);
      const running = client.open(PATH);
      running.send(Buffer.from("first"));
      expect(await running.next()).toEqual(Buffer.from("first"));
      server.dismiss();
      await poll("the GOAWAY", () => client.goaways > 0);
      running.send(Buffer.from("second"));
      running.halfClose();
      expect([await running.next(), (await running.end).status]).toEqual([Buffer.from("second"), 0]);
      await poll("the end of the connection", () => server.connections === 0);
      const again = await GrpcClient.connect(port);
      expect((await again.unary(PATH, Buffer.from("x"))).end.status).toBe(0);
      expect(again.goaways).toBe(0);
      again.close();
    });
  });

  it("carries many large streams on one connection at once, each byte in place", async () => {
    await withServer(undefined, async (port, server) => {
      const client = await GrpcClient.connect(port);
      await Promise.all(
        Array.from({ length: 20 }, async (_, index) => {
          const message = Buffer.alloc(700_000 + index, index + 1);
          for (let at = 0; at < message.length; at += 4096) message[at] = at >> 12;
          const { reply, end } = await client.unary(PATH, message);
          expect(reply?.equals(message)).toBe(true);
          expect(end.status).toBe(0);
        }),
      );
      await poll("the ends", () => server.streams === 0);
      client.close();
    });
  });
});

/** A connection that says what it is told and no more. */
async function dial(port: number, localAddress = "127.0.0.1", said = Buffer.alloc(0)) {
  const socket = net.connect({ port, host: "127.0.0.1", localAddress });
  const state = { socket, closed: false, received: "" };
  socket.on("error", () => {});
  socket.on("close", () => {
    state.closed = true;
  });
  socket.on("data", (bytes: Buffer) => {
    state.received += bytes.toString("latin1");
  });
  await new Promise((resolve) => socket.once("connect", resolve));
  socket.write(said);
  return state;
}

describe.each(["clear text", "TLS"])("the HTTP/2 server and clients that sit on connections, %s", (how) => {
  let pair: TlsPair | undefined;
  beforeAll(async () => {
    pair = how === "TLS" ? await selfSignedPair(realClock) : undefined;
  });

  it.each([
    ["say nothing", Buffer.alloc(0)],
    ["say half a greeting", how === "TLS" ? Buffer.of(22, 3, 1, 1, 0, 1) : PREFACE.subarray(0, 20)],
  ])("lets an honest client in beside 200 that %s, and closes the oldest of these", async (_what, said) => {
    await withServer(
      pair,
      async (port, server) => {
        const sitting: Awaited<ReturnType<typeof dial>>[] = [];
        for (let n = 0; n < 200; n++) sitting.push(await dial(port, "127.0.0.2", said));
        const client = await GrpcClient.connect(port, { tls: pair !== undefined });
        expect((await client.unary(PATH, Buffer.from("x"))).end.status).toBe(0);
        await poll("the end of the older ones", () => sitting.filter(({ closed }) => closed).length >= 200 - 16);
        expect(sitting.slice(0, 180).every(({ closed }) => closed)).toBe(true);
        expect(sitting.at(-1)!.closed).toBe(false);
        expect(server.connections).toBeLessThanOrEqual(17);
        expect(server.refused.connections).toBeGreaterThanOrEqual(200 - 16);
        client.close();
        for (const { socket } of sitting) socket.destroy();
      },
      { maxConnections: 64 },
    );
  });

  it("lets an honest client in beside others that are connected and idle: they are told to go", async () => {
    await withServer(
      pair,
      async (port, server) => {
        const tls = pair !== undefined;
        const busy = await GrpcClient.connect(port, { tls });
        const call = busy.open(PATH);
        call.send(Buffer.from("x"));
        expect((await call.next())?.toString()).toBe("x");
        const idle: GrpcClient[] = [];
        for (let n = 0; n < 4; n++) {
          const client = await GrpcClient.connect(port, { tls });
          expect((await client.unary(PATH, Buffer.from("x"))).end.status).toBe(0);
          idle.push(client);
        }
        // One address may have half of eight places, so that the first idle one has gone.
        await poll("its end", () => idle[0]!.session.destroyed);
        expect(idle[0]!.goaways).toBe(1);
        expect(idle[1]!.session.destroyed).toBe(false);
        expect(server.connections).toBe(4);
        call.send(Buffer.from("y"));
        expect((await call.next())?.toString()).toBe("y");
        for (const client of [busy, ...idle]) client.close();
        await poll("no connection", () => server.connections === 0);
      },
      { maxConnections: 8 },
    );
  });
});

describe("the HTTP/2 server and the number of calls", () => {
  it("tells clients how many they may have, and lets that many in", async () => {
    await withServer(
      undefined,
      async (port, server) => {
        const client = await GrpcClient.connect(port);
        expect(client.session.remoteSettings.maxConcurrentStreams).toBe(1024);
        const calls = Array.from({ length: 1024 }, () => client.open(PATH));
        await poll("all calls", () => server.streams === 1024);
        expect(server.refused.streams).toBe(0);
        for (const call of calls) call.reset(0);
        client.close();
      },
      { maxStreams: 1024 },
    );
  });

  it("leaves room for another address when one has as many on all its connections as it may, and when they end", async () => {
    await withServer(
      undefined,
      async (port, server) => {
        const clients = await Promise.all(Array.from({ length: 8 }, () => GrpcClient.connect(port)));
        const calls = clients.flatMap((client) => Array.from({ length: 8 }, () => client.open(PATH)));
        const refused: number[] = [];
        for (const call of calls) void call.end.then(({ resetCode }) => refused.push(resetCode));
        await poll("what it may have", () => server.streams === 56 && refused.length === 8);
        expect(refused).toEqual(Array.from({ length: 8 }, () => ERROR.refusedStream));
        const other = await GrpcClient.connect(port, { address: "127.0.0.2" });
        expect((await other.unary(PATH, Buffer.from("x"))).end.status).toBe(0);
        expect(server.refused).toMatchObject({ streams: 0, totalStreams: 8 });
        for (const client of clients) client.close();
        await poll("their end", () => server.streams === 0);
        const again = await GrpcClient.connect(port);
        expect((await again.unary(PATH, Buffer.from("x"))).end.status).toBe(0);
        for (const client of [other, again]) client.close();
      },
      { maxTotalStreams: 64 },
    );
  });

  it("has room for twice what Envoy opens when nothing else is said", async () => {
    await withServer(undefined, async (port) => {
      const client = await GrpcClient.connect(port);
      expect(client.session.remoteSettings.maxConcurrentStreams).toBe(2048);
      client.close();
    });
  });
});

describe("the HTTP/2 server and certificates of clients", () => {
  it("lets in whom its authorities have signed, tells why others are refused, and follows other authorities", async () => {
    const [ours, others] = await Promise.all([clientAuthority(), clientAuthority()]);
    const problems: string[] = [];
    const onClientRefused = (problem: string, address: string): void => void problems.push(`${address}: ${problem}`);
    await withServer(
      ours.server,
      async (port, server) => {
        let session: Buffer | undefined;
        // Whether the server speaks HTTP/2 to such a client. The client of node:http2 does not notice every refusal.
        const served = (pair: tls.ConnectionOptions): Promise<boolean> =>
          new Promise((resolve) => {
            const options = { port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["h2"], ...pair };
            const socket = tls.connect(options);
            socket.on("error", () => {});
            socket.on("close", () => resolve(false));
            socket.on("session", (ticket: Buffer) => {
              session = ticket;
            });
            socket.on("data", () => {
              resolve(true);
              socket.destroy();
            });
          });
        const cases = async (): Promise<boolean[]> => [
          await served(ours.client),
          await served(others.client),
          await served({}),
          await served(ours.server),
          await served({ ...ours.client, maxVersion: "TLSv1.2" }),
          await served({ ...others.client, maxVersion: "TLSv1.2" }),
        ];
        expect(await cases()).toEqual([true, false, false, false, true, false]);
        await poll("the complaints", () => problems.length === 4);
        expect(problems).toEqual([
          "127.0.0.1: its certificate is not accepted: UNABLE_TO_VERIFY_LEAF_SIGNATURE",
          "127.0.0.1: the client sent no certificate",
          "127.0.0.1: its certificate is not accepted: INVALID_PURPOSE",
          "127.0.0.1: its certificate is not accepted: UNABLE_TO_VERIFY_LEAF_SIGNATURE",
        ]);
        expect(server.refused.certificate).toBe(4);

        const before = await GrpcClient.connect(port, { tls: true, ...ours.client });
        expect(await served(ours.client)).toBe(true);
        const ticket = { ...ours.client, session: session! };
        expect(await served(ticket)).toBe(true);
        server.useClientCa(others.ca);
        expect(await served(ticket)).toBe(false);
        expect(await cases()).toEqual([false, true, false, false, false, true]);
        // A renewed certificate of the server leaves the authorities alone.
        server.useTlsPair(others.server);
        expect(await served(others.client)).toBe(true);
        expect(await served(ours.client)).toBe(false);
        // Connections that exist stay.
        expect((await before.unary(PATH, Buffer.from("x"))).end.status).toBe(0);
        before.close();
      },
      { clientCa: ours.ca, onClientRefused },
    );
  });

  it("asks nobody for a certificate unless it has authorities", async () => {
    const { server: pair, ca } = await clientAuthority();
    await withServer(pair, async (port, server) => {
      server.useClientCa(ca);
      const client = await GrpcClient.connect(port, { tls: true });
      expect((await client.unary(PATH, Buffer.from("x"))).end.status).toBe(0);
      client.close();
    });
  });
});
