import net from "node:net";
import tls from "node:tls";
import { beforeAll, describe, expect, it } from "vitest";
import { GrpcClient } from "../../../test/support/grpc-client.ts";
import { frame } from "../../../test/support/h2-peer.ts";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../../clock/real.ts";
import { VirtualClock } from "../../clock/virtual.ts";
import { selfSignedPair, type TlsPair } from "../tls.ts";
import { transportCases } from "../transport.cases.ts";
import type { GrpcHandler, GrpcServer } from "../transport.ts";
import { FRAME, PREFACE } from "./protocol.ts";
import { createH2Server } from "./server.ts";

transportCases("h2", (options) => createH2Server(options, realClock));

const PATH = "/test.Service/Call";
const echo: GrpcHandler = (stream) => ({
  message: (bytes) => void stream.send(bytes),
  halfClosed: () => stream.end(0),
  closed() {},
});

async function withServer(
  pair: TlsPair | undefined,
  body: (port: number, server: GrpcServer) => Promise<void>,
): Promise<void> {
  const handlers = new Map([[PATH, echo]]);
  const server = createH2Server({ host: "127.0.0.1", port: 0, handlers, tls: pair }, realClock);
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
