import { getEventListeners } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import {
  answerBytes,
  chunkBytes,
  deadPort,
  type RawRequest,
  type RawServer,
  rawServer,
} from "../../../../test/support/loopback.ts";
import { poll } from "../../../../test/support/poll.ts";
import { fixedLimit } from "../../../../test/support/slowness.ts";
import { realClock } from "../../../base/clock/real.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import type { GatewayAnswer, InferenceClient, OutboundRequest } from "./inference-client.ts";
import { type UndiciClientOptions, undiciClient } from "./undici-client.ts";

const NEVER = new AbortController().signal;
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function client(options: Partial<UndiciClientOptions> = {}): InferenceClient {
  const made = undiciClient({ totalWorkers: 8, clock: realClock, ...options });
  closers.push(() => made.close());
  return made;
}

interface HttpServer {
  readonly port: number;
  readonly sockets: Socket[];
}

async function serve(handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<HttpServer> {
  const server: Server = createServer({ keepAliveTimeout: 60_000 }, handle);
  const sockets: Socket[] = [];
  server.on("connection", (socket) => sockets.push(socket));
  await new Promise<void>((resolve) => server.listen({ port: 0, host: "127.0.0.1", backlog: 2048 }, resolve));
  closers.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return { port: (server.address() as AddressInfo).port, sockets };
}

/** A server that answers with exactly these bytes. */
async function raw(answer: (request: RawRequest) => void): Promise<RawServer> {
  const server = await rawServer(answer);
  closers.push(() => server.close());
  return server;
}

function post(port: number, more: Partial<OutboundRequest> & { path?: string } = {}): OutboundRequest {
  const { path = "/v1/completions", ...rest } = more;
  const url = new URL(path, `http://127.0.0.1:${port}`);
  return {
    url,
    headers: ["content-type", "application/json"],
    body: Buffer.from("{}"),
    timeoutMs: fixedLimit(60_000),
    ...rest,
  };
}

function responseOf(answer: GatewayAnswer): GatewayAnswer & { kind: "response" } {
  if (answer.kind !== "response") throw new Error(JSON.stringify(answer));
  return answer;
}

const textOf = (answer: GatewayAnswer): string => Buffer.from(responseOf(answer).body).toString();

/** Connections are offered again one turn after their answer. */
const nextTurn = (): Promise<void> => new Promise((resolve) => realClock.soon(() => realClock.soon(resolve)));

describe("A-77: answers", () => {
  it.each([200, 204, 302, 304, 400, 401, 404, 408, 425, 429, 500, 503, 599])("%d comes as it is", async (status) => {
    const seen: string[] = [];
    const server = await serve((request, response) => {
      seen.push(`${request.method} ${request.url}`);
      const bodyless = status === 204 || status === 304;
      response.writeHead(status, { "content-type": "text/plain", location: "/elsewhere" });
      response.end(bodyless ? undefined : `body of ${status}`);
    });
    const answer = await client().send(post(server.port, { path: "/a%3Fb?c=d" }), NEVER);
    expect(answer).toMatchObject({ kind: "response", status, contentType: "text/plain", dropReason: "" });
    expect(textOf(answer)).toBe(status === 204 || status === 304 ? "" : `body of ${status}`);
    // No redirect was followed.
    expect(seen).toEqual(["POST /a%3Fb?c=d"]);
  });

  it("what a gateway says about a rejection", async () => {
    const server = await serve((_request, response) => {
      response.writeHead(429, { "retry-after": "12", "x-llm-d-request-dropped-reason": "rejected-saturated" }).end();
    });
    expect(await client().send(post(server.port), NEVER)).toMatchObject({
      status: 429,
      retryAfterMs: 12_000,
      dropReason: "rejected-saturated",
      contentType: "",
    });
  });

  it("Retry-After as a date counts from the answer's own, else from our clock", async () => {
    const dates = ["date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", ""];
    const server = await raw(({ socket, index }) =>
      socket.write(answerBytes(503, "", `${dates[index]}retry-after: Sun, 06 Nov 1994 08:50:37 GMT\r\n`)),
    );
    const sender = client({ clock: new VirtualClock(Date.UTC(1994, 10, 6, 8, 50, 36)) });
    expect(await sender.send(post(server.port), NEVER)).toMatchObject({ retryAfterMs: 60_000 });
    expect(await sender.send(post(server.port), NEVER)).toMatchObject({ retryAfterMs: 1000 });
  });

  it("A-32: every byte of the body goes out, and the length of it", async () => {
    const bodies: Buffer[] = [];
    const server = await serve(async (request, response) => {
      const pieces: Buffer[] = [];
      for await (const piece of request) pieces.push(piece as Buffer);
      bodies.push(Buffer.concat(pieces));
      expect(request.headers["content-length"]).toBe(String(bodies.at(-1)!.length));
      response.end();
    });
    const sender = client();
    const whole = Buffer.from('xx{ "seed": 12345678901234567890, "b": "<\\/\\u00e9é>", "a": 1.0 }xx');
    const inner = new Uint8Array(whole.buffer, whole.byteOffset + 2, whole.length - 4);
    for (const body of [inner, Buffer.alloc(3_000_000, "{é}"), Buffer.alloc(0)]) {
      await sender.send(post(server.port, { body }), NEVER);
      expect(bodies.at(-1)!.equals(body)).toBe(true);
    }
  });

  it("headers go out as they were built, UTF-8 included, with the host and nothing else", async () => {
    const server = await raw(({ socket }) => socket.write(answerBytes(200, "")));
    const headers = ["x-name", Buffer.from("Zoë").toString("latin1"), "x-empty", "", "content-type", "text/x"];
    await client().send(post(server.port, { headers }), NEVER);
    expect(server.requests[0]!.head.split("\r\n").sort()).toEqual(
      [
        "POST /v1/completions HTTP/1.1",
        `host: 127.0.0.1:${server.port}`,
        "connection: keep-alive",
        `x-name: ${headers[1]}`,
        "x-empty: ",
        "content-type: text/x",
        "content-length: 2",
      ].sort(),
    );
  });

  it("A-36: a body that is not UTF-8 stays what it is", async () => {
    const bytes = Buffer.from([0xff, 0x00, 0xfe, 0x0a]);
    const server = await serve((_request, response) => {
      response.writeHead(200, { "content-type": "audio/wav" }).end(bytes);
    });
    const answer = responseOf(await client().send(post(server.port), NEVER));
    expect(Buffer.from(answer.body)).toEqual(bytes);
    expect(answer.contentType).toBe("audio/wav");
  });

  it("pieces of a stream, interim answers before it, a body until the end of the connection", async () => {
    const server = await raw(({ socket, index }) => {
      const early = "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
      const chunked = `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("a")}${chunkBytes("bc")}`;
      if (index === 0) socket.write(`${early}${chunked}0\r\n\r\n`);
      else socket.end("HTTP/1.1 200 OK\r\n\r\nuntil the end");
    });
    const sender = client();
    expect(textOf(await sender.send(post(server.port), NEVER))).toBe("abc");
    expect(textOf(await sender.send(post(server.port), NEVER))).toBe("until the end");
  });

  it("an unsolicited 100 Continue before it is passed over, and the connection is kept", async () => {
    const sockets = new Set<unknown>();
    const server = await raw(({ socket }) => {
      sockets.add(socket);
      socket.write("HTTP/1.1 100 Con");
      setImmediate(() =>
        socket.write("tinue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine"),
      );
    });
    const sender = client();
    for (let i = 0; i < 3; i++) expect(textOf(await sender.send(post(server.port), NEVER))).toBe("fine");
    expect(sockets.size).toBe(1);
  });

  it("a refusal that comes before the body was taken is an answer, not a broken connection", async () => {
    const server = await serve((_request, response) => {
      response.writeHead(413, { connection: "close" }).end("too large");
    });
    const answer = await client().send(post(server.port, { body: Buffer.alloc(300_000) }), NEVER);
    expect(textOf(answer)).toBe("too large");
  });

  it("compressed ones are decoded; what only claims to be is a broken answer", async () => {
    const server = await serve((request, response) => {
      response.writeHead(200, { "content-encoding": "GZIP", "retry-after": "3" });
      response.end(request.url === "/good" ? gzipSync("plain") : "plain");
    });
    const sender = client();
    expect(textOf(await sender.send(post(server.port, { path: "/good" }), NEVER))).toBe("plain");
    expect(await sender.send(post(server.port, { path: "/bad" }), NEVER)).toMatchObject({
      kind: "truncated",
      status: 200,
      retryAfterMs: 3000,
      tooLong: false,
    });
  });
});

describe("bodies that are too long", () => {
  it.each<[string, string, Buffer | string, object]>([
    ["as announced", "length", Buffer.alloc(10_001), { "content-length": "10001" }],
    ["as they turn out to be", "chunks", Buffer.alloc(10_001), {}],
    ["once they are decompressed", "bomb", gzipSync(Buffer.alloc(10_001)), { "content-encoding": "gzip" }],
  ])("%s: an answer that says so, and no more is read", async (_name, _path, body, headers) => {
    const server = await serve((_request, response) => {
      response.writeHead(200, { ...headers });
      response.write(body);
      response.end();
    });
    expect(await client({ maxResponseBytes: 10_000 }).send(post(server.port), NEVER)).toEqual({
      kind: "truncated",
      status: 200,
      retryAfterMs: undefined,
      message: "the body is longer than 10000 bytes",
      tooLong: true,
    });
  });

  it("the longest that is allowed comes whole", async () => {
    const server = await serve((_request, response) => void response.end(Buffer.alloc(10_000, "x")));
    expect(textOf(await client({ maxResponseBytes: 10_000 }).send(post(server.port), NEVER))).toHaveLength(10_000);
  });

  it("nobody waits for one that is announced as too long", async () => {
    const server = await raw(({ socket }) => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 10001\r\n\r\n"));
    expect(await client({ maxResponseBytes: 10_000 }).send(post(server.port), NEVER)).toMatchObject({ tooLong: true });
    await poll("the connection is cut", () => server.open() === 0);
  });

  it("one without end ends here", async () => {
    const server = await raw(({ socket }) => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      const pour = (): void => {
        while (!socket.destroyed && socket.write(Buffer.alloc(65_536)));
      };
      socket.on("drain", pour);
      pour();
    });
    expect(await client({ maxResponseBytes: 1_000_000 }).send(post(server.port), NEVER)).toMatchObject({
      tooLong: true,
    });
    await poll("the connection is cut", () => server.open() === 0);
  });
});

describe("no answer, or half of one", () => {
  it("A-78: nobody listens; as soon as somebody does, all is well", async () => {
    const port = await deadPort();
    const sender = client();
    for (let i = 0; i < 20; i++)
      expect(await sender.send(post(port), NEVER)).toEqual({
        kind: "no-answer",
        message: `http://127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}`,
      });
    const server = createServer((_request, response) => void response.end("back"));
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    closers.push(
      () => server.closeAllConnections(),
      () => server.close(),
    );
    expect(textOf(await sender.send(post(port), NEVER))).toBe("back");
  });

  it("a name that nobody knows, and one whose every address refuses", async () => {
    const sender = client();
    const url = new URL("http://gateway.invalid/v1");
    const unknown = await sender.send({ ...post(1), url }, NEVER);
    expect(unknown).toMatchObject({ kind: "no-answer", message: expect.stringContaining("gateway.invalid") });
    const port = await deadPort();
    const refused = await sender.send({ ...post(port), url: new URL(`http://localhost:${port}/`) }, NEVER);
    expect(refused).toMatchObject({ kind: "no-answer", message: expect.stringContaining("ECONNREFUSED") });
  });

  it.each<[string, string]>([
    ["an end", ""],
    ["no HTTP", "SSH-2.0-OpenSSH\r\n"],
    ["interim answers alone", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"],
    ["half a head", "HTTP/1.1 200 OK\r\ncontent-le"],
    ["a head without end", `HTTP/1.1 200 OK\r\nx: ${"x".repeat(70_000)}`],
    ["a bad header", "HTTP/1.1 200 OK\r\nbad header: x\r\n\r\n"],
    ["an upgrade", "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"],
  ])("%s instead of a head", async (_name, bytes) => {
    const server = await raw(({ socket }) => void socket.end(bytes));
    const answer = await client().send(post(server.port), NEVER);
    expect(answer.kind).toBe("no-answer");
    expect(answer.kind === "no-answer" && answer.message).toMatch(/^http:\/\/127\.0\.0\.1:\d+: .+/);
    // The request went out once: only the dispatcher decides whether a model works on it again.
    expect(server.requests).toHaveLength(1);
  });

  it("a reset, on a new connection and on a kept one, is not repeated here", async () => {
    const server = await raw(({ socket, index }) => {
      if (index % 2 === 0) socket.write(answerBytes(200, "ok"));
      else socket.resetAndDestroy();
    });
    const sender = client();
    for (const kind of ["response", "no-answer", "response", "no-answer"])
      expect((await sender.send(post(server.port), NEVER)).kind).toBe(kind);
    expect(server.requests).toHaveLength(4);
    expect(server.sockets).toHaveLength(2);
  });

  it.each<[string, (socket: Socket) => void]>([
    ["by an end", (socket) => socket.end()],
    ["by a reset", (socket) => setImmediate(() => socket.resetAndDestroy())],
    ["by a broken chunk", (socket) => socket.end("zz\r\n")],
  ])("A-79: a body that breaks off %s keeps status and Retry-After", async (_name, cut) => {
    const server = await raw(({ socket }) => {
      const head = "HTTP/1.1 503 X\r\nretry-after: 9\r\ntransfer-encoding: chunked\r\n\r\n";
      socket.write(head + chunkBytes("half"), () => cut(socket));
    });
    expect(await client().send(post(server.port), NEVER)).toMatchObject({
      kind: "truncated",
      status: 503,
      retryAfterMs: 9000,
      tooLong: false,
      message: expect.stringContaining("the answer ended early: http://127.0.0.1:"),
    });
  });

  it("fewer bytes than announced", async () => {
    const server = await raw(({ socket }) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"));
    expect(await client().send(post(server.port), NEVER)).toMatchObject({ kind: "truncated", status: 200 });
  });

  it("bytes that nobody asked for do not become the next answer", async () => {
    const server = await raw(({ socket }) => socket.write(answerBytes(200, "right") + answerBytes(200, "wrong")));
    const sender = client();
    for (let i = 0; i < 3; i++) {
      const answer = await sender.send(post(server.port), NEVER);
      if (answer.kind === "response") expect(textOf(answer)).toBe("right");
      else expect(answer.kind).toBe("no-answer");
    }
  });
});

describe("A-80: time", () => {
  it("the whole attempt has one limit, from connecting to the last byte", async () => {
    const clock = new VirtualClock();
    const server = await raw(({ socket, index }) => {
      if (index === 1) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
    });
    const sender = client({ clock });
    for (const _phase of ["before the head", "in the body"]) {
      const before = server.requests.length;
      let answer: GatewayAnswer | undefined;
      const sent = sender.send(post(server.port, { timeoutMs: 5000 }), NEVER).then((given) => {
        answer = given;
      });
      await poll("it arrives", () => server.requests.length > before);
      clock.advance(4999);
      await nextTurn();
      expect(answer).toBeUndefined();
      clock.advance(101);
      await sent;
      expect(answer).toEqual({
        kind: "timeout",
        message: `http://127.0.0.1:${server.port}: no complete answer within 5000 ms`,
      });
      await poll("the connection is cut", () => server.open() === 0);
    }
    await sender.close();
    clock.run(10_000);
    expect(clock.pending).toBe(0);
  });

  it("a connection that does not come, or no TLS on it: no answer, long before the limit", async () => {
    const clock = new VirtualClock();
    const silent = await raw(() => {});
    const url = new URL(`https://127.0.0.1:${silent.port}/`);
    const waiting = client({ clock, connectTimeoutMs: 1000 }).send({ ...post(silent.port), url }, NEVER);
    await poll("it connects", () => silent.sockets.length > 0);
    clock.advance(1100);
    expect(await waiting).toEqual({ kind: "no-answer", message: `${url.origin}: no connection within 1000 ms` });
    await poll("the attempt to connect is given up", () => silent.open() === 0);
  });

  it("without time left nothing is sent", async () => {
    const server = await serve((_request, response) => void response.end("ok"));
    for (const timeoutMs of [0, -5])
      expect(await client().send(post(server.port, { timeoutMs }), NEVER)).toMatchObject({ kind: "timeout" });
    expect(server.sockets).toHaveLength(0);
  });

  it("a request that is connected is not bound by the time to connect", async () => {
    const clock = new VirtualClock();
    const server = await raw(() => {});
    const sent = client({ clock, connectTimeoutMs: 1000 }).send(post(server.port), NEVER);
    await poll("it arrives", () => server.requests.length === 1);
    clock.advance(5000);
    server.requests[0]!.socket.write(answerBytes(200, "late"));
    expect(textOf(await sent)).toBe("late");
  });
});

describe("giving up", () => {
  it("one signal ends all that it was given to, and nothing else", async () => {
    const server = await raw(({ socket, head }) => {
      if (head.includes("x-quick")) socket.write(answerBytes(200, "ok"));
    });
    const sender = client();
    const stop = new AbortController();
    const stopped = [1, 2, 3].map(() => sender.send(post(server.port), stop.signal));
    const other = new AbortController();
    const waiting = sender.send(post(server.port), other.signal);
    await poll("all arrive", () => server.requests.length === 4);
    expect(textOf(await sender.send(post(server.port, { headers: ["x-quick", "1"] }), stop.signal))).toBe("ok");
    stop.abort();
    expect(await Promise.all(stopped)).toEqual([{ kind: "aborted" }, { kind: "aborted" }, { kind: "aborted" }]);
    await poll("their connections are cut", () => server.open() === 2);
    expect(await sender.send(post(server.port), stop.signal)).toEqual({ kind: "aborted" });
    expect(server.requests).toHaveLength(5);
    server.requests[3]!.socket.write(answerBytes(200, "still there"));
    expect(textOf(await waiting)).toBe("still there");
    other.abort();
  });

  it("nobody listens to a signal whose requests are over", async () => {
    const server = await serve((_request, response) => void response.end("ok"));
    const sender = client();
    const { signal } = new AbortController();
    const sent = [1, 2, 3].map(() => sender.send(post(server.port), signal));
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    await Promise.all(sent);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("while it connects", async () => {
    const server = await raw(() => {});
    const stop = new AbortController();
    const sent = client().send(
      { ...post(server.port), url: new URL(`https://127.0.0.1:${server.port}/`) },
      stop.signal,
    );
    await poll("it connects", () => server.sockets.length > 0);
    stop.abort();
    expect(await sent).toEqual({ kind: "aborted" });
    await poll("the attempt to connect is given up", () => server.open() === 0);
  });

  it("an answer that was there before stays", async () => {
    const server = await serve((_request, response) => void response.end("done"));
    const stop = new AbortController();
    const sent = client().send(post(server.port), stop.signal);
    const answer = await sent;
    stop.abort();
    expect(textOf(answer)).toBe("done");
  });

  it("closing ends what is under way and refuses more", async () => {
    const server = await raw(() => {});
    const sender = client();
    const sent = sender.send(post(server.port), NEVER);
    await poll("it arrives", () => server.requests.length === 1);
    await sender.close();
    expect(await sent).toEqual({ kind: "aborted" });
    expect(await sender.send(post(server.port), NEVER)).toEqual({ kind: "aborted" });
    await poll("no connection is left", () => server.open() === 0);
  });

  it("whatever a request holds, the promise is kept", async () => {
    const server = await serve((_request, response) => void response.end());
    const sender = client();
    for (const headers of [["bad name", "x"], ["x"], ["x", "a\nb"], ["transfer-encoding", "chunked"], ["expect", "x"]])
      expect((await sender.send(post(server.port, { headers }), NEVER)).kind).toBe("no-answer");
    expect(textOf(await sender.send(post(server.port), NEVER))).toBe("");
  });
});

describe("A-82: connections", () => {
  it("1,024 requests at a time need 1,024 connections, however often they come", async () => {
    let waiting: ServerResponse[] = [];
    const server = await serve((_request, response) => void waiting.push(response));
    const sender = client({ totalWorkers: 1024 });
    for (let round = 0; round < 3; round++) {
      const sent = Array.from({ length: 1024 }, () => sender.send(post(server.port), NEVER));
      await poll("all are there at once", () => waiting.length === 1024);
      for (const response of waiting.splice(0)) response.end("ok");
      for (const answer of await Promise.all(sent)) expect(answer.kind).toBe("response");
    }
    waiting = [];
    expect(server.sockets).toHaveLength(1024);
    expect(server.sockets.filter((socket) => socket.destroyed)).toHaveLength(0);
  });

  it("one after the other need one", async () => {
    const server = await serve((_request, response) => void response.end("ok"));
    const sender = client();
    for (let i = 0; i < 50; i++) await sender.send(post(server.port), NEVER);
    expect(server.sockets).toHaveLength(1);
  });

  it("no more idle ones than workers are kept", async () => {
    const waiting: ServerResponse[] = [];
    const server = await serve((_request, response) => void waiting.push(response));
    const sender = client({ totalWorkers: 3 });
    const sent = Array.from({ length: 10 }, () => sender.send(post(server.port), NEVER));
    await poll("all are there", () => waiting.length === 10);
    for (const response of waiting) response.end();
    await Promise.all(sent);
    await poll("the others are closed", () => server.sockets.filter((socket) => !socket.destroyed).length === 3);
  });

  it("one that the server closes is forgotten, and the next request makes a new one", async () => {
    const server = await raw(({ socket }) => socket.write(answerBytes(200, "ok")));
    const sender = client();
    for (let i = 1; i <= 3; i++) {
      expect(textOf(await sender.send(post(server.port), NEVER))).toBe("ok");
      await nextTurn();
      for (const socket of server.sockets) socket.end();
      await poll("it is closed", () => server.open() === 0);
      expect(server.sockets).toHaveLength(i);
    }
  });

  it("Connection: close is obeyed", async () => {
    const server = await serve((_request, response) => void response.writeHead(200, { connection: "close" }).end("ok"));
    const sender = client();
    for (let i = 0; i < 3; i++) expect(textOf(await sender.send(post(server.port), NEVER))).toBe("ok");
    expect(server.sockets).toHaveLength(3);
  });

  it("of 70 gateways the idle connections to at most 64 are kept", async () => {
    const servers: HttpServer[] = [];
    const sender = client();
    for (let i = 0; i < 70; i++) {
      const server = await serve((_request, response) => void response.end("ok"));
      servers.push(server);
      expect(textOf(await sender.send(post(server.port), NEVER))).toBe("ok");
    }
    const open = (): number => servers.filter(({ sockets }) => !sockets[0]!.destroyed).length;
    await poll("the first are closed", () => open() === 64);
    expect(textOf(await sender.send(post(servers[0]!.port), NEVER))).toBe("ok");
  });

  it("no proxy of the environment is asked", async () => {
    const proxied: string[] = [];
    const proxy = await serve((request, response) => {
      proxied.push(request.url!);
      response.end("proxy");
    });
    const server = await serve((_request, response) => void response.end("direct"));
    const names = ["HTTP_PROXY", "http_proxy", "ALL_PROXY"];
    const before = names.map((name) => process.env[name]);
    try {
      for (const name of names) process.env[name] = `http://127.0.0.1:${proxy.port}`;
      expect(textOf(await client().send(post(server.port), NEVER))).toBe("direct");
    } finally {
      for (const [i, name] of names.entries()) {
        if (before[i] === undefined) delete process.env[name];
        else process.env[name] = before[i];
      }
    }
    expect(proxied).toEqual([]);
  });
});
