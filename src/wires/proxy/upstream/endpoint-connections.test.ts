import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import {
  answerBytes,
  chunkBytes,
  type RawRequest,
  type RawServer,
  rawServer,
} from "../../../../test/support/loopback.ts";
import { poll } from "../../../../test/support/poll.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { connector, type SocketOpener } from "../../../base/grpc/server-connector.ts";
import { BeginQueue } from "../begin-queue.ts";
import { EndpointConnections } from "./endpoint-connections.ts";
import type { UpstreamController, UpstreamHandler } from "./transport.ts";

/** Bytes of an answer, more than the buffers of a system hold. */
const MANY = 64 * 1024 * 1024;

let clock = new VirtualClock();
const servers: RawServer[] = [];
const transports: EndpointConnections[] = [];
afterEach(async () => {
  for (const transport of transports.splice(0)) await transport.destroy();
  for (const server of servers.splice(0)) await server.close();
  clock = new VirtualClock();
});

const ok = ({ socket }: RawRequest): void => void socket.write(answerBytes(200, "ok"));

async function world(answer: (request: RawRequest) => void): Promise<{ server: RawServer; own: EndpointConnections }> {
  const server = await rawServer(answer);
  servers.push(server);
  return { server, own: connections(server.port) };
}

function connections(port: number, open: SocketOpener = connector({ clock, timeout: 2000 })): EndpointConnections {
  const own = new EndpointConnections(`127.0.0.1:${port}`, {
    clock,
    open,
    beginnings: new BeginQueue(clock),
    keepAlive: 60_000,
    headerBytes: 60_000,
  });
  transports.push(own);
  return own;
}

/** Keeps what happens to a request. */
class Kept implements UpstreamHandler {
  controller: UpstreamController | undefined;
  readonly chunks: string[] = [];
  /** Of each chunk. */
  readonly parts: number[] = [];
  headers: readonly string[] = [];
  end: string | undefined;
  /** Called with each chunk. */
  onChunk = (): void => {};
  /** Called with the head. */
  onHead = (): void => {};

  onRequestStart(controller: UpstreamController): void {
    this.controller = controller;
  }
  onRequestSent(): void {}
  onResponseStarted(): void {}
  onResponseStart(_status: number, headers: readonly string[]): void {
    this.headers = headers;
    this.onHead();
  }
  onResponseData(chunk: Buffer, parts: number): void {
    this.chunks.push(chunk.toString());
    this.parts.push(parts);
    this.onChunk();
  }
  onResponseEnd(): void {
    this.end = "complete";
  }
  onResponseError(error: Error): void {
    this.end = error.message;
  }
}

function ask(own: EndpointConnections): Kept {
  const kept = new Kept();
  own.dispatch({ method: "GET", path: "/", headers: ["host", "model"] }, kept);
  clock.advance(0);
  return kept;
}

async function answered(own: EndpointConnections): Promise<Kept> {
  const kept = ask(own);
  await poll("the answer", () => kept.end !== undefined);
  return kept;
}

/** Another request passes, so the process has read what came before it. */
async function turn(own: EndpointConnections): Promise<void> {
  const other = ask(own);
  await poll("another answer", () => other.chunks.length > 0);
}

describe("a connection without a request", () => {
  it("closes when bytes arrive that answer nothing", async () => {
    const { server, own } = await world(ok);
    await answered(own);
    server.sockets[0]!.write(answerBytes(200, "not asked for"));
    await poll("the connection closes", () => server.open() === 0);
    expect((await answered(own)).chunks).toEqual(["ok"]);
    expect(server.sockets).toHaveLength(2);
  });

  it("closes two seconds before the server would close it", async () => {
    const { server, own } = await world(({ socket }) =>
      socket.write(answerBytes(200, "ok", "keep-alive: timeout=5\r\n")),
    );
    await answered(own);
    clock.advance(2999);
    await answered(own);
    expect(server.sockets).toHaveLength(1);
    clock.advance(3000);
    await poll("the connection closes", () => server.open() === 0);
  });

  it("is not used when the server says that it closes it within two seconds", async () => {
    const { server, own } = await world(({ socket }) =>
      socket.write(answerBytes(200, "ok", "keep-alive: timeout=2\r\n")),
    );
    await answered(own);
    await answered(own);
    expect(server.sockets).toHaveLength(2);
  });

  it("is not used once the server has closed it, and the request goes over a new one", async () => {
    const { server, own } = await world(ok);
    await answered(own);
    const kept = new Kept();
    own.dispatch({ method: "GET", path: "/", headers: ["host", "model"] }, kept);
    server.sockets[0]!.end();
    await poll("the connection closes", () => server.sockets[0]!.destroyed);
    // Only now does the request begin.
    clock.advance(0);
    await poll("the answer", () => kept.end !== undefined);
    expect(kept.end).toBe("complete");
    expect(server.requests.map(({ connection }) => connection)).toEqual([0, 1]);
  });
});

describe("an answer that rests", () => {
  /** A request that rests after its first chunk; its server has sent two chunks of the answer in one piece. */
  async function resting() {
    const { server, own } = await world(({ socket }) =>
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("one")}${chunkBytes("two")}`),
    );
    const kept = new Kept();
    kept.onChunk = () => {
      if (kept.chunks.length === 1) kept.controller!.rest();
    };
    own.dispatch({ method: "GET", path: "/", headers: ["host", "model"] }, kept);
    await poll("the first piece", () => kept.chunks.length > 0);
    expect(kept.chunks).toEqual(["onetwo"]);
    expect(kept.parts).toEqual([2]);
    return { server, own, kept, socket: server.sockets[0]! };
  }

  it("passes the rest of its piece, and no further byte until it wakes", async () => {
    const { own, kept, socket } = await resting();
    socket.write(`${chunkBytes("three")}0\r\n\r\n`);
    await turn(own);
    expect(kept.chunks).toHaveLength(1);
    kept.controller!.wake();
    await poll("the answer", () => kept.end !== undefined);
    expect(kept.chunks).toEqual(["onetwo", "three"]);
  });

  it("is not read while it is paused and rests, whichever ends first", async () => {
    const { own, kept, socket } = await resting();
    kept.controller!.pause();
    socket.write(chunkBytes("three"));
    kept.controller!.resume();
    await turn(own);
    expect(kept.chunks).toHaveLength(1);
    kept.controller!.pause();
    kept.controller!.wake();
    await turn(own);
    expect(kept.chunks).toHaveLength(1);
    kept.controller!.resume();
    await poll("the third chunk", () => kept.chunks.length === 2);
  });

  it("leaves its connection to the next request when it ends within its piece", async () => {
    const { server, own } = await world(({ socket }) => socket.write(answerBytes(200, "ok")));
    const first = new Kept();
    first.onChunk = () => first.controller!.rest();
    own.dispatch({ method: "GET", path: "/", headers: ["host", "model"] }, first);
    await poll("the answer", () => first.end !== undefined);
    first.controller!.wake();
    expect((await answered(own)).end).toBe("complete");
    expect(server.sockets).toHaveLength(1);
  });

  it("comes in order from a socket that reads ahead", async () => {
    const text = "x".repeat(400_000);
    const { server } = await world(({ socket }) =>
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("one")}`),
    );
    const open = connector({ clock, timeout: 2000 });
    const own = connections(server.port, ({ onread: _, ...target }, opened) => open(target, opened));
    const kept = new Kept();
    kept.onChunk = () => {
      if (kept.chunks.length === 1) kept.controller!.rest();
    };
    own.dispatch({ method: "GET", path: "/", headers: ["host", "model"] }, kept);
    await poll("the first piece", () => kept.chunks.length === 1);
    server.sockets[0]!.write(`${chunkBytes(text)}0\r\n\r\n`);
    await turn(own);
    kept.controller!.wake();
    await poll("the answer", () => kept.end !== undefined);
    expect(kept.end).toBe("complete");
    expect(kept.chunks.join("") === `one${text}`).toBe(true);
  });

  it("ends with an error that its server causes, once it wakes", async () => {
    const { kept, socket } = await resting();
    socket.destroy();
    kept.controller!.wake();
    await poll("the end", () => kept.end !== undefined);
    expect(kept.end).not.toBe("complete");
  });
});

describe("a request that is paused", () => {
  it("gets no byte until it is resumed, and then each in order", async () => {
    const texts = ["one", "two", "three"];
    const { server, own } = await world(({ socket }) =>
      socket.write(`HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes(texts[0]!)}`),
    );
    const kept = ask(own);
    kept.onChunk = () => kept.controller!.pause();
    for (let n = 1; n <= 3; n++) {
      await poll("a chunk", () => kept.chunks.length === n);
      server.sockets[0]!.write(n < 3 ? chunkBytes(texts[n]!) : "0\r\n\r\n");
      await turn(own);
      expect(kept.chunks).toEqual(texts.slice(0, n));
      expect(kept.end).toBeUndefined();
      kept.controller!.resume();
    }
    await poll("the end", () => kept.end === "complete");
  });

  it("leaves its connection to the next request when it ends within the piece that paused it", async () => {
    const { server, own } = await world(({ socket }) => socket.write(answerBytes(200, "ok")));
    const first = ask(own);
    first.onChunk = () => first.controller!.pause();
    await poll("the answer", () => first.end !== undefined);
    expect((await answered(own)).end).toBe("complete");
    expect(server.sockets).toHaveLength(1);
  });

  it("is not cut short when it is resumed within the chunk that paused it", async () => {
    const { server, own } = await world(({ socket }) => socket.write("HTTP/1.1 200 X\r\ncontent-length: 6\r\n\r\none"));
    const kept = ask(own);
    kept.onChunk = () => {
      kept.controller!.pause();
      kept.controller!.resume();
    };
    await poll("a chunk", () => kept.chunks.length === 1);
    server.sockets[0]!.write("two");
    await poll("the end", () => kept.end === "complete");
    expect(kept.chunks).toEqual(["one", "two"]);
  });
});

/** The method, headers and body of a request. */
function send(own: EndpointConnections, method: string, headers: readonly string[] = [], body?: Uint8Array): Kept {
  const kept = new Kept();
  own.dispatch({ method, path: "/", headers: ["host", "model", ...headers], body }, kept);
  clock.advance(0);
  return kept;
}

describe("a connection whose answer leaves a doubt", () => {
  it.each([
    ["a 204 that announces a body", "GET", "HTTP/1.1 204 X\r\ncontent-length: 5\r\n\r\n"],
    ["a 304 in chunks", "GET", "HTTP/1.1 304 X\r\ntransfer-encoding: chunked\r\n\r\n"],
    ["an answer to HEAD", "HEAD", "HTTP/1.1 200 X\r\ncontent-length: 5\r\n\r\n"],
  ])("carries no further request: %s", async (_what, method, answer) => {
    const { server, own } = await world(({ socket }) => socket.write(answer));
    for (let n = 1; n <= 2; n++) {
      const kept = send(own, method);
      await poll("the end", () => kept.end === "complete");
      expect([kept.chunks, server.sockets.length]).toEqual([[], n]);
    }
  });

  it("carries no further request: the server answered before it had the whole body", async () => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => {
      sockets.push(socket);
      socket.on("error", () => {});
      socket.once("data", () => {
        socket.pause();
        socket.write(answerBytes(200, "early"));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const own = connections((server.address() as AddressInfo).port);
    for (let n = 1; n <= 2; n++) {
      // More than the buffers of a system hold.
      const kept = send(own, "POST", [], Buffer.alloc(64 * 1024 * 1024));
      await poll("the end", () => kept.end === "complete");
      expect([kept.chunks, sockets.length]).toEqual([["early"], n]);
    }
    await own.destroy();
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
});

it("the trailers of an answer are not headers of the next one", async () => {
  const { server, own } = await world(({ socket, index }) =>
    socket.write(
      index === 0 ? "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-t: 1\r\n\r\n" : answerBytes(200, "ok"),
    ),
  );
  await answered(own);
  const { headers } = await answered(own);
  expect([headers, server.sockets.length]).toEqual([["content-length", "2"], 1]);
});

describe("a client that does not read", () => {
  it.each(["head", "first piece"])("stops the reads from its server after the %s", async (what) => {
    const piece = Buffer.alloc(1024 * 1024);
    let sent = 0;
    const { own } = await world(({ socket }) => {
      const next = (): void => {
        for (; sent < MANY && socket.write(piece); sent += piece.length);
      };
      socket.write(`HTTP/1.1 200 X\r\ncontent-length: ${MANY}\r\n\r\n`);
      socket.on("drain", () => {
        sent += piece.length;
        next();
      });
      next();
    });
    const kept = ask(own);
    kept[what === "head" ? "onHead" : "onChunk"] = () => kept.controller!.pause();
    const pieces = what === "head" ? 0 : 1;
    await poll(what, () => kept.headers.length > 0 && kept.chunks.length === pieces);
    let before = -1;
    let still = 0;
    await poll("a standstill", () => {
      still = sent === before ? still + 1 : 0;
      before = sent;
      return still === 20;
    });
    expect(sent).toBeLessThan(MANY / 2);
    expect(kept.chunks).toHaveLength(pieces);
  });

  it("gets its bytes whole, whatever other connections read meanwhile", async () => {
    const { own } = await world(({ socket, index }) =>
      socket.write(
        index === 0
          ? `HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n${["one", "two"].map(chunkBytes).join("")}0\r\n\r\n`
          : answerBytes(200, "x".repeat(1000)),
      ),
    );
    const kept = ask(own);
    kept.onHead = () => kept.controller!.pause();
    await poll("the head", () => kept.headers.length > 0);
    await answered(own);
    expect(kept.chunks).toEqual([]);
    kept.controller!.resume();
    await poll("the end", () => kept.end === "complete");
    expect(kept.chunks).toEqual(["onetwo"]);
  });
});

it("a connection whose time is over carries no request, also while timers are late", async () => {
  const { server, own } = await world(ok);
  clock.after = () => ({ cancel() {} });
  await answered(own);
  clock.advance(60_000);
  await answered(own);
  expect(server.sockets).toHaveLength(2);
});

describe("the end of all connections", () => {
  it("fails the requests that wait for an answer, and those that wait for a connection", async () => {
    const { server, own } = await world(() => {});
    const first = ask(own);
    await poll("the request", () => server.requests.length === 1);
    const second = ask(own);
    await own.destroy();
    expect([first.end, second.end]).toEqual(Array(2).fill("the connections to the endpoint are closed"));
    await poll("no connection is open", () => server.open() === 0);
  });

  it("waits for the answer of a request when they only close", async () => {
    const { server, own } = await world(() => {});
    const kept = ask(own);
    await poll("the request", () => server.requests.length === 1);
    own.close();
    server.sockets[0]!.write(answerBytes(200, "late"));
    await poll("the answer", () => kept.end === "complete");
    expect(kept.chunks).toEqual(["late"]);
    await poll("the connection closes", () => server.open() === 0);
  });

  it("leaves a request alone that is over, whoever gives it up later", async () => {
    const { server, own } = await world(ok);
    const first = await answered(own);
    const second = ask(own);
    first.controller!.abort(new Error("too late"));
    await poll("the answer", () => second.end !== undefined);
    expect(second.end).toBe("complete");
    expect(server.sockets).toHaveLength(1);
  });
});
