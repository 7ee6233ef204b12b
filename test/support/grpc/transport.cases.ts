import { X509Certificate } from "node:crypto";
import tls from "node:tls";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { realClock } from "../../../src/base/clock/real.ts";
import { selfSignedPair } from "../../../src/base/grpc/self-signed.ts";
import { GRPC_STATUS } from "../../../src/base/grpc/status.ts";
import type { TlsPair } from "../../../src/base/grpc/tls.ts";
import type {
  GrpcHandler,
  GrpcServer,
  GrpcServerOptions,
  GrpcStream,
  GrpcStreamEvents,
} from "../../../src/base/grpc/transport.ts";
import { type CallEnd, framed, GrpcClient, type GrpcClientOptions } from "../grpc-client.ts";
import { poll } from "../poll.ts";
import { fixedLimit } from "../slowness.ts";

const PATH = "/test.Service/Call";

/** What a recording handler saw, in order. */
interface Seen {
  readonly stream: GrpcStream;
  readonly events: string[];
}

/** Handles calls with `act`, noting every event. */
function recorder(act: Partial<GrpcStreamEvents> & { open?(stream: GrpcStream): void } = {}): {
  handler: GrpcHandler;
  calls: Seen[];
} {
  const calls: Seen[] = [];
  return {
    calls,
    handler: (stream) => {
      const events: string[] = [];
      calls.push({ stream, events });
      act.open?.(stream);
      return {
        message(bytes) {
          events.push(`message ${bytes.length}`);
          act.message?.call(stream, bytes);
        },
        halfClosed() {
          events.push("half-closed");
          act.halfClosed?.call(stream);
        },
        closed(cause) {
          events.push(`closed ${cause}`);
          act.closed?.call(stream, cause);
        },
      };
    },
  };
}

/** Sends every message back, ends with OK at the end of input. */
const echo: GrpcHandler = (stream) => ({
  message: (bytes) => void stream.send(bytes),
  halfClosed: () => stream.end(GRPC_STATUS.ok),
  closed() {},
});

/** Sends every message back until the client resets. */
const echoForever: GrpcHandler = (stream) => ({
  message: (bytes) => void stream.send(bytes),
  halfClosed() {},
  closed() {},
});

function pattern(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; at++) bytes[at] = (at * 31 + (at >> 8)) & 0xff;
  return bytes;
}

/** Cases that every implementation of the transport port passes. */
export function transportCases(name: string, create: (options: GrpcServerOptions) => GrpcServer): void {
  const options = (handler: GrpcHandler): GrpcServerOptions => ({
    host: "127.0.0.1",
    port: 0,
    handlers: new Map([[PATH, handler]]),
  });

  async function withServer(
    settings: GrpcServerOptions,
    body: (client: GrpcClient, server: GrpcServer, port: number) => Promise<void>,
    clientOptions: GrpcClientOptions = {},
  ): Promise<void> {
    const server = create(settings);
    const { port } = await server.listen();
    const client = await GrpcClient.connect(port, clientOptions);
    try {
      await body(client, server, port);
    } finally {
      client.close();
      server.close();
    }
  }

  describe(`transport ${name}: messages`, () => {
    it("joins a message that spans three DATA frames (D-3)", async () => {
      await withServer(options(echo), async (client) => {
        const call = client.open(PATH);
        const message = pattern(1000);
        const bytes = framed(message);
        await call.sendRaw(bytes.subarray(0, 3));
        await call.sendRaw(bytes.subarray(3, 600));
        await call.sendRaw(bytes.subarray(600));
        expect(await call.next()).toEqual(message);
        call.halfClose();
        expect(await call.end).toMatchObject({ status: 0, httpStatus: 200, resetCode: 0 });
      });
    });

    it("separates three messages in one DATA frame, an empty one among them (D-3)", async () => {
      const { handler, calls } = recorder();
      await withServer(options(handler), async (client) => {
        const call = client.open(PATH);
        await call.sendRaw(
          Buffer.concat([framed(Buffer.from("one")), framed(Buffer.alloc(0)), framed(Buffer.from("three"))]),
        );
        await poll("three messages", () => calls[0]?.events.length === 3);
        expect(calls[0]?.events).toEqual(["message 3", "message 0", "message 5"]);
      });
    });

    it("inflates gzip messages and keeps their order among plain ones (E-06, D-3)", async () => {
      await withServer(options(echo), async (client) => {
        const call = client.open(PATH, { "grpc-encoding": "gzip" });
        call.send(pattern(50_000), true);
        call.send(Buffer.from("plain"));
        call.send(Buffer.alloc(0), true);
        call.halfClose();
        expect(await call.next()).toEqual(pattern(50_000));
        expect(await call.next()).toEqual(Buffer.from("plain"));
        expect(await call.next()).toEqual(Buffer.alloc(0));
        expect((await call.end).status).toBe(0);
      });
    });

    it("accepts a single message of 8 MiB by default (E-07)", async () => {
      const { handler, calls } = recorder({ message: () => calls[0]?.stream.send(Buffer.from("got it")) });
      await withServer(options(handler), async (client) => {
        const call = client.open(PATH);
        call.send(Buffer.alloc(8 << 20, 7));
        expect(await call.next()).toEqual(Buffer.from("got it"));
        expect(calls[0]?.events).toEqual([`message ${8 << 20}`]);
      });
    });

    it("takes a message of exactly the limit and ends a larger one with RESOURCE_EXHAUSTED", async () => {
      const { handler, calls } = recorder({ message: () => calls[0]?.stream.send(Buffer.from("ok")) });
      await withServer({ ...options(handler), maxMessageBytes: 1000 }, async (client) => {
        const fits = client.open(PATH);
        fits.send(Buffer.alloc(1000));
        expect(await fits.next()).toEqual(Buffer.from("ok"));
        const call = client.open(PATH);
        call.send(Buffer.alloc(1001));
        const end = await call.end;
        expect(end).toMatchObject({ status: GRPC_STATUS.resourceExhausted });
        expect(end.message).toContain("1001 bytes, the limit is 1000");
        expect(calls[1]?.events).toEqual(["closed ended"]);
      });
    });

    it("tells every caller that it reads gzip (E-06)", async () => {
      await withServer(options(echo), async (client) => {
        const served = client.open(PATH);
        served.send(Buffer.from("x"));
        await served.next();
        served.halfClose();
        const refused = client.open("/test.Service/Other");
        for (const call of [served, refused]) expect((await call.end).acceptEncoding).toBe("identity,gzip");
      });
    });

    it("limits what a compressed message inflates to, to the byte", async () => {
      await withServer({ ...options(echo), maxMessageBytes: 10_000 }, async (client) => {
        const fits = client.open(PATH, { "grpc-encoding": "gzip" });
        fits.send(Buffer.alloc(10_000), true);
        expect(await fits.next()).toHaveLength(10_000);
        const call = client.open(PATH, { "grpc-encoding": "gzip" });
        call.send(Buffer.alloc(10_001), true);
        const end = await call.end;
        expect(end).toMatchObject({ status: GRPC_STATUS.resourceExhausted });
        expect(end.message).toBe("a decompressed message is larger than the limit of 10000 bytes");
      });
    });

    it("refuses a bomb that its compressed size does not betray, and serves on (bound)", async () => {
      const { handler, calls } = recorder({ message: () => calls.at(-1)?.stream.send(Buffer.from("ok")) });
      await withServer(options(handler), async (client) => {
        const bomb = gzipSync(Buffer.alloc(100 << 20));
        expect(bomb.length).toBeLessThan(1 << 20);
        const bombs = Array.from({ length: 8 }, () => client.open(PATH, { "grpc-encoding": "gzip" }));
        const prefix = framed(Buffer.alloc(0), true);
        prefix.writeUInt32BE(bomb.length, 1);
        for (const call of bombs) void call.sendRaw(Buffer.concat([prefix, bomb]));
        for (const call of bombs) expect(await call.end).toMatchObject({ status: GRPC_STATUS.resourceExhausted });
        expect(calls.flatMap(({ events }) => events).filter((event) => event.startsWith("message"))).toEqual([]);
        const next = client.open(PATH);
        next.send(Buffer.from("x"));
        expect(await next.next()).toEqual(Buffer.from("ok"));
      });
    });

    it("stops between compressed messages when paused there, and goes on when resumed", async () => {
      const { handler, calls } = recorder({
        message: (bytes) => {
          if (bytes.length === 1) calls[0]?.stream.pause();
        },
      });
      await withServer(options(handler), async (client) => {
        const call = client.open(PATH, { "grpc-encoding": "gzip" });
        const messages = [1, 2, 3].map((length) => framed(gzipSync(Buffer.alloc(length)), true));
        await call.sendRaw(Buffer.concat(messages));
        call.halfClose();
        await poll("the first message", () => calls[0]?.events.length === 1);
        calls[0]?.stream.resume();
        await poll("the rest", () => calls[0]?.events.length === 4);
        expect(calls[0]?.events).toEqual(["message 1", "message 2", "message 3", "half-closed"]);
      });
    });

    it.each([
      ["a compressed message without grpc-encoding", {}, framed(Buffer.from("x"), true)],
      ["a compressed message that is no gzip", { "grpc-encoding": "gzip" }, framed(Buffer.from("x"), true)],
      ["a compressed flag of 7", {}, Buffer.from([7, 0, 0, 0, 0])],
      ["an end of input within a message", {}, framed(Buffer.from("abc")).subarray(0, 7)],
    ])("ends %s with INTERNAL", async (_what, headers, bytes) => {
      await withServer(options(echo), async (client) => {
        const call = client.open(PATH, headers);
        await call.sendRaw(bytes);
        call.halfClose();
        expect(await call.end).toMatchObject({ status: GRPC_STATUS.internal, resetCode: 0 });
      });
    });

    it("sends the framed pieces of one message in order", async () => {
      const body = pattern(100_000);
      const whole = framed(body);
      const { handler } = recorder({
        open(stream) {
          stream.sendFramed(whole.subarray(0, 5));
          stream.sendFramed(whole.subarray(5, 70_000));
          stream.sendFramed(whole.subarray(70_000));
          stream.send(Buffer.from("next"));
          stream.end(GRPC_STATUS.ok);
        },
      });
      await withServer(options(handler), async (client) => {
        const call = client.open(PATH);
        expect(await call.next()).toEqual(body);
        expect(await call.next()).toEqual(Buffer.from("next"));
        expect((await call.end).status).toBe(0);
      });
    });
  });

  describe(`transport ${name}: what is refused`, () => {
    it("answers an unknown path with UNIMPLEMENTED", async () => {
      await withServer(options(echo), async (client) => {
        const call = client.open("/test.Service/Other");
        expect(await call.end).toMatchObject({
          status: GRPC_STATUS.unimplemented,
          message: "unknown method /test.Service/Other",
          httpStatus: 200,
        });
      });
    });

    it("answers an unknown grpc-encoding with UNIMPLEMENTED", async () => {
      await withServer(options(echo), async (client) => {
        const call = client.open(PATH, { "grpc-encoding": "snappy" });
        expect(await call.end).toMatchObject({ status: GRPC_STATUS.unimplemented });
      });
    });

    it.each(["text/plain", "application/grpc-web", "application/json"])(
      "answers content type %s with 415",
      async (type) => {
        await withServer(options(echo), async (client) => {
          const call = client.open(PATH, { "content-type": type });
          expect(await call.end).toMatchObject({ httpStatus: 415, status: undefined });
        });
      },
    );

    it.each(["application/grpc+proto", "application/grpc; charset=utf-8"])("accepts content type %s", async (type) => {
      await withServer(options(echo), async (client) => {
        const call = client.open(PATH, { "content-type": type });
        call.halfClose();
        expect(await call.end).toMatchObject({ status: 0 });
      });
    });

    it("answers GET with 405", async () => {
      await withServer(options(echo), async (client) => {
        const call = client.open(PATH, { ":method": "GET" });
        expect(await call.end).toMatchObject({ httpStatus: 405 });
      });
    });

    it("keeps a text with any characters intact in the status message", async () => {
      const text = "100 % größer\nals 漢字";
      const { handler } = recorder({ open: (stream) => stream.end(GRPC_STATUS.unavailable, text) });
      await withServer(options(handler), async (client) => {
        expect(await client.open(PATH).end).toMatchObject({ status: GRPC_STATUS.unavailable, message: text });
      });
    });

    it("says that its address is taken", async () => {
      await withServer(options(echo), async (_client, _server, port) => {
        const second = create({ ...options(echo), port });
        await expect(second.listen()).rejects.toMatchObject({ code: "LISTEN_FAILED" });
        await expect(second.listen()).rejects.toThrow(`127.0.0.1:${port}`);
      });
    });
  });

  describe(`transport ${name}: TLS`, () => {
    /** The serial number of the certificate that a new connection is shown, or why there is none. */
    function shown(port: number, offer: tls.ConnectionOptions = {}): Promise<string> {
      return new Promise((resolve) => {
        const socket = tls.connect({
          ...{ host: "127.0.0.1", port, rejectUnauthorized: false, ALPNProtocols: ["h2"] },
          ...offer,
        });
        socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
        socket.on("secureConnect", () => {
          resolve(socket.getPeerX509Certificate()!.serialNumber);
          socket.destroy();
        });
      });
    }
    const serial = ({ cert }: TlsPair): string => new X509Certificate(cert).serialNumber;

    it("shows new connections another certificate and leaves the streams of old ones alone (E-126, D-30)", async () => {
      const [before, after] = await Promise.all([selfSignedPair(realClock), selfSignedPair(realClock)]);
      const server = create({ ...options(echo), tls: before });
      const { port } = await server.listen();
      try {
        const client = await GrpcClient.connect(port, { tls: true });
        const call = client.open(PATH);
        call.send(Buffer.from("one"));
        expect(await call.next()).toEqual(Buffer.from("one"));
        expect(await shown(port)).toBe(serial(before));
        server.useTlsPair(after);
        expect(await shown(port)).toBe(serial(after));
        call.send(Buffer.from("two"));
        expect(await call.next()).toEqual(Buffer.from("two"));
        expect(() => server.useTlsPair({ cert: after.cert, key: before.key })).toThrow();
        expect(await shown(port)).toBe(serial(after));
        call.halfClose();
        expect(await call.end).toMatchObject({ status: 0 });
        client.close();
      } finally {
        server.close();
      }
    });

    it("keeps to its lowest version and its cipher suites, also with another certificate", async () => {
      const pair = await selfSignedPair(realClock);
      const suite = "ECDHE-ECDSA-AES256-GCM-SHA384";
      const server = create({ ...options(echo), tls: { ...pair, ciphers: `${suite}:TLS_AES_128_GCM_SHA256` } });
      const strict = create({ ...options(echo), tls: { ...pair, minVersion: "TLSv1.3" } });
      try {
        const { port } = await server.listen();
        const { port: strictPort } = await strict.listen();
        for (let round = 0; round < 2; round++) {
          const old = { maxVersion: "TLSv1.2" } as const;
          expect(await shown(port, { ...old, ciphers: suite })).toBe(serial(pair));
          expect(await shown(port, { ...old, ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256" })).toMatch(/ALERT/);
          expect(await shown(port, { minVersion: "TLSv1.3" })).toBe(serial(pair));
          expect(await shown(strictPort, old)).toMatch(/ALERT/);
          expect(await shown(strictPort)).toBe(serial(pair));
          server.useTlsPair(pair);
          strict.useTlsPair(pair);
        }
      } finally {
        server.close();
        strict.close();
      }
    });
  });

  describe(`transport ${name}: ends`, () => {
    it("reports the half-close after the last message, and the call as ended after the trailers", async () => {
      const { handler, calls } = recorder({
        halfClosed() {
          calls[0]?.stream.send(Buffer.from("bye"));
          calls[0]?.stream.end(GRPC_STATUS.ok);
        },
      });
      await withServer(options(handler), async (client, server) => {
        const call = client.open(PATH);
        call.send(Buffer.from("hello"));
        call.halfClose();
        expect(await call.next()).toEqual(Buffer.from("bye"));
        expect(await call.end).toMatchObject({ status: 0, resetCode: 0 });
        await poll("the end of the call", () => server.streams === 0);
        expect(calls[0]?.events).toEqual(["message 5", "half-closed", "closed ended"]);
        expect(server.resets).toBe(0);
      });
    });

    it("tells with which status a call ended, whoever ended it", async () => {
      const statuses: unknown[] = [];
      let received = 0;
      const handler: GrpcHandler = (stream) => ({
        message(bytes) {
          received = bytes.length;
          if (bytes.length === 1) stream.end(GRPC_STATUS.notFound);
          if (bytes.length === 2) throw new Error("broken");
        },
        halfClosed() {},
        closed: (cause, status) => void statuses.push([cause, status]),
      });
      await withServer({ ...options(handler), maxMessageBytes: 100 }, async (client) => {
        for (const length of [1, 2, 101]) {
          const call = client.open(PATH);
          call.send(Buffer.alloc(length));
          await call.end;
        }
        const call = client.open(PATH);
        call.send(Buffer.alloc(3));
        await poll("the last message", () => received === 3);
        call.reset(2);
        await poll("the last call's end", () => statuses.length === 4);
        expect(statuses).toEqual([
          ["ended", GRPC_STATUS.notFound],
          ["ended", GRPC_STATUS.internal],
          ["ended", GRPC_STATUS.resourceExhausted],
          ["cancelled", GRPC_STATUS.cancelled],
        ]);
      });
    });

    it("frees a call it has ended although the client never finishes its side", async () => {
      const { handler, calls } = recorder({ message: () => calls[0]?.stream.end(GRPC_STATUS.ok) });
      await withServer(options(handler), async (client, server) => {
        const call = client.open(PATH);
        call.send(Buffer.from("x"));
        expect(await call.end).toMatchObject({ status: 0 });
        await poll("the end of the call", () => server.streams === 0);
        expect(calls[0]?.events).toEqual(["message 1", "closed ended"]);
      });
    });

    it.each([0, 2, 8])("reports a reset with code %i as cancelled, once, without an error (D-82)", async (code) => {
      const errors: unknown[] = [];
      const { handler, calls } = recorder({ message: () => calls[0]?.stream.send(Buffer.from("reply")) });
      await withServer({ ...options(handler), onHandlerError: (e) => errors.push(e) }, async (client, server) => {
        const call = client.open(PATH);
        call.send(Buffer.from("x"));
        await call.next();
        call.reset(code);
        await poll("the end of the call", () => server.streams === 0);
        // The client library puts an END_STREAM in front of a reset with code 8; so may Envoy.
        const events = calls[0]!.events.filter((event) => code !== 8 || event !== "half-closed");
        expect(events).toEqual(["message 1", "closed cancelled"]);
        expect(server.resets).toBe(1);
        const stream = calls[0]!.stream;
        expect(stream.send(Buffer.from("late"))).toBe(true);
        stream.end(GRPC_STATUS.ok);
        expect(errors).toEqual([]);
        expect((await client.unary("/test.Service/Other", Buffer.alloc(0))).end.status).toBe(GRPC_STATUS.unimplemented);
      });
    });

    it.each([0, 2])("reports end of input followed by a reset with code %i as cancelled (D-82)", async (code) => {
      const { handler, calls } = recorder();
      await withServer(options(handler), async (client, server) => {
        const call = client.open(PATH);
        call.send(Buffer.from("x"));
        call.halfClose();
        await poll("the half-close", () => calls[0]?.events.includes("half-closed"));
        call.reset(code);
        await poll("the end of the call", () => server.streams === 0);
        expect(calls[0]?.events).toEqual(["message 1", "half-closed", "closed cancelled"]);
      });
    });

    it.each([0, 2, 8])("frees a paused call that is reset with code %i", async (code) => {
      const { handler, calls } = recorder({ open: (stream) => stream.pause() });
      await withServer(options(handler), async (client, server) => {
        const call = client.open(PATH);
        await call.sendRaw(framed(pattern(3000)));
        await poll("the call", () => server.streams === 1);
        call.reset(code);
        await poll("the end of the call", () => server.streams === 0);
        expect(calls[0]?.events).toEqual(["closed cancelled"]);
        await server.drain();
      });
    });

    it("reports a lost connection as cancelled", async () => {
      const { handler, calls } = recorder();
      await withServer(options(handler), async (client, server) => {
        client.open(PATH).send(Buffer.from("x"));
        await poll("the message", () => calls[0]?.events.length === 1);
        client.close();
        await poll("the end of the call", () => server.streams === 0);
        expect(calls[0]?.events).toEqual(["message 1", "closed cancelled"]);
      });
    });

    it("carries 20,000 exchanges that end in resets of code 2 and 0 on one connection (E-09, D-81)", {
      timeout: fixedLimit(60_000),
    }, async () => {
      await withServer(options(echoForever), async (client, server) => {
        const message = Buffer.from("exchange");
        let next = 0;
        const lane = async (): Promise<void> => {
          while (next < 20_000) {
            const code = next++ % 2 === 0 ? 2 : 0;
            const call = client.open(PATH);
            call.send(message);
            if (!(await call.next())?.equals(message)) throw new Error(`exchange ${next} got no reply`);
            call.reset(code);
            await call.end;
          }
        };
        await Promise.all(Array.from({ length: 32 }, lane));
        await poll("all resets", () => server.resets === 20_000);
        expect(client.goaways).toBe(0);
        expect(server.streams).toBe(0);
      });
    });
  });

  describe(`transport ${name}: back-pressure`, () => {
    it("delivers nothing while paused, everything after, and lets other calls pass (D-28)", async () => {
      const { handler, calls } = recorder({
        open: (stream) => {
          if (calls.length === 1) stream.pause();
        },
      });
      await withServer(options(handler), async (client) => {
        const stalled = client.open(PATH);
        let left = false;
        const all = stalled
          .sendRaw(Buffer.concat(Array.from({ length: 64 }, () => framed(Buffer.alloc(65_531)))))
          .then(() => {
            left = true;
          });
        const other = client.open(PATH);
        for (let i = 0; i < 20; i++) other.send(Buffer.alloc(65_531));
        await poll("the other call", () => calls[1]?.events.length === 20);
        expect(calls[0]?.events).toEqual([]);
        expect(left).toBe(false);
        calls[0]?.stream.resume();
        await all;
        await poll("the stalled call", () => calls[0]?.events.length === 64);
      });
    });

    it("stops between two messages of one frame when paused there, and goes on when resumed", async () => {
      const { handler, calls } = recorder({
        message: (bytes) => {
          if (bytes.length === 1) calls[0]?.stream.pause();
        },
      });
      await withServer(options(handler), async (client) => {
        const call = client.open(PATH);
        await call.sendRaw(Buffer.concat([framed(Buffer.alloc(1)), framed(Buffer.alloc(2))]));
        call.halfClose();
        await poll("the first message", () => calls[0]?.events.length === 1);
        const probe = client.open(PATH);
        probe.send(Buffer.alloc(3));
        await poll("another call", () => calls[1]?.events.length === 1);
        expect(calls[0]?.events).toEqual(["message 1"]);
        calls[0]?.stream.resume();
        await poll("the rest", () => calls[0]?.events.length === 3);
        expect(calls[0]?.events).toEqual(["message 1", "message 2", "half-closed"]);
      });
    });

    it("tells a sender to wait for a slow reader, and when to go on", async () => {
      let sent = 0;
      let waits = 0;
      const chunk = pattern(40_000);
      const { handler } = recorder({
        open: (stream) => {
          const more = (): void => {
            while (sent < 50) {
              sent++;
              if (!stream.send(chunk)) {
                waits++;
                stream.whenWritable(more);
                return;
              }
            }
            stream.end(GRPC_STATUS.ok);
          };
          more();
        },
      });
      await withServer(
        options(handler),
        async (client) => {
          const call = client.open(PATH);
          call.stream.pause();
          await poll("the sender to wait", () => waits > 0);
          expect(sent).toBeLessThan(10);
          call.stream.resume();
          for (let i = 0; i < 50; i++) expect(await call.next()).toEqual(chunk);
          expect((await call.end).status).toBe(0);
          expect(sent).toBe(50);
        },
        { window: 65_535 },
      );
    });

    it("calls back at once when there is nothing to wait for", async () => {
      const { handler } = recorder({
        open: (stream) => stream.whenWritable(() => stream.end(GRPC_STATUS.ok)),
      });
      await withServer(options(handler), async (client) => {
        expect((await client.open(PATH).end).status).toBe(0);
      });
    });
  });

  describe(`transport ${name}: faults and shutdown`, () => {
    it.each(["open", "message", "halfClosed"] as const)(
      "answers INTERNAL when %s throws, and serves on",
      async (where) => {
        const errors: string[] = [];
        const fault = (): never => {
          throw new Error(`fault in ${where}`);
        };
        const { handler, calls } = recorder({ [where]: fault });
        const handlers = new Map([
          [PATH, handler],
          ["/test.Service/Echo", echo],
        ]);
        const settings = { ...options(handler), handlers, onHandlerError: (e: unknown) => void errors.push(String(e)) };
        await withServer(settings, async (client, server) => {
          const call = client.open(PATH);
          call.send(Buffer.from("x"));
          call.halfClose();
          const end: CallEnd = await call.end;
          expect(end.status).toBe(GRPC_STATUS.internal);
          expect(end.message).not.toContain("fault");
          expect(errors).toEqual([`Error: fault in ${where}`]);
          await poll("the end of the call", () => server.streams === 0);
          if (where !== "open") expect(calls[0]?.events.at(-1)).toBe("closed ended");
          expect((await client.unary("/test.Service/Echo", Buffer.from("alive"))).reply).toEqual(Buffer.from("alive"));
        });
      },
    );

    it("reports what `closed` throws and serves on", async () => {
      const errors: unknown[] = [];
      const { handler } = recorder({
        closed: () => {
          throw new Error("late fault");
        },
      });
      await withServer({ ...options(handler), onHandlerError: (e) => errors.push(e) }, async (client, server) => {
        const calls = [client.open(PATH), client.open(PATH)];
        await poll("both calls", () => server.streams === 2);
        for (const call of calls) call.reset(2);
        await poll("both faults", () => errors.length === 2);
      });
    });

    it("drains: calls in flight finish, new connections and calls are refused", async () => {
      await withServer(options(echo), async (client, server, port) => {
        const call = client.open(PATH);
        call.send(Buffer.from("before"));
        expect(await call.next()).toEqual(Buffer.from("before"));
        const drained = server.drain();
        await poll("GOAWAY", () => client.goaways === 1);
        await expect(GrpcClient.connect(port)).rejects.toThrow();
        call.send(Buffer.from("after"));
        expect(await call.next()).toEqual(Buffer.from("after"));
        call.halfClose();
        expect(await call.end).toMatchObject({ status: 0 });
        await drained;
        expect(server.streams).toBe(0);
      });
    });

    it("closes: calls in flight are cancelled at once", async () => {
      const { handler, calls } = recorder();
      await withServer(options(handler), async (client, server) => {
        const call = client.open(PATH);
        call.send(Buffer.from("x"));
        await poll("the call", () => calls[0]?.events.length === 1);
        server.close();
        await poll("the end of the call", () => server.streams === 0);
        expect(calls[0]?.events).toEqual(["message 1", "closed cancelled"]);
        expect((await call.end).status).not.toBe(0);
      });
    });
  });
}
