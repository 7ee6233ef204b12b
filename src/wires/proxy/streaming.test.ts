import { connect, createServer, Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { loopbackEndpoint } from "../../../test/support/fake-exchange.ts";
import { answerBytes, chunkBytes, type RawClient } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { get, ProxyHarness, post } from "../../../test/support/proxy-harness.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";

let harness = new ProxyHarness();
afterEach(async () => {
  const { exchanges } = harness;
  await harness.close();
  harness = new ProxyHarness();
  for (const exchange of exchanges) {
    expect(exchange.breaches).toEqual([]);
    expect(exchange.ends).toHaveLength(1);
  }
});

const SSE = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const PLAIN = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const event = (n: number): string => `data: {"n":${n}}\n\n`;

/** A model server whose only answer the test writes itself, and a client that has sent its request. */
async function conversation(request = post("body", ""), options: { paused?: boolean } = {}) {
  const model = await harness.model(() => {});
  await harness.start({ endpoints: [model.endpoint] });
  const client = await harness.client(options);
  client.send(request);
  await poll("the request arrives", () => model.requests.length === 1);
  return { model, client, server: model.requests[0]!.socket };
}

function seen(client: RawClient, text: string): Promise<unknown> {
  return poll(`the client sees ${JSON.stringify(text)}`, () => client.text().endsWith(text));
}

describe("D-51: an answer passes as it comes", () => {
  it("the head before the first byte of the body, then every event by itself", async () => {
    const { client, server } = await conversation();
    server.write(SSE);
    await poll("the head", () => client.text().includes("\r\n\r\n"));
    expect(client.text()).toContain("content-type: text/event-stream; charset=utf-8");
    expect(client.text()).toMatch(/transfer-encoding: chunked/i);
    for (let n = 0; n < 5; n++) {
      server.write(chunkBytes(event(n)));
      await seen(client, chunkBytes(event(n)));
    }
    server.write("0\r\n\r\n");
    await seen(client, "0\r\n\r\n");
    expect(harness.exchange.ends).toEqual(["complete"]);
    expect(client.closed()).toBe(false);
  });

  it("the events of a fast stream of a busy gateway come together after a rest", async () => {
    const clock = new VirtualClock();
    // The clock stands still but where the test moves it; requests begin in their own time.
    const soon = {
      now: () => clock.now(),
      wall: () => clock.wall(),
      after: clock.after.bind(clock),
      soon: setImmediate,
    };
    const model = await harness.model(() => {});
    await harness.start(
      { endpoints: [model.endpoint] },
      { clock: soon, limits: { restlessStreams: 1 }, timers: { streamRest: 10 } },
    );
    const client = await harness.client();
    client.send(post("body", ""));
    await poll("the request arrives", () => model.requests.length === 1);
    const server = model.requests[0]!.socket;
    server.write(SSE);
    for (let n = 0; n < 2; n++) {
      server.write(chunkBytes(event(n)));
      await seen(client, chunkBytes(event(n)));
    }
    const before = client.text();
    for (let n = 2; n < 5; n++) {
      server.write(chunkBytes(event(n)));
      // Another request passes, so the process has turned.
      const other = await harness.client();
      other.send(post("other", ""));
      await poll("another request", () => model.requests.length === n);
    }
    expect(client.text()).toBe(before);
    clock.advance(10);
    const all = event(2) + event(3) + event(4);
    await seen(client, chunkBytes(all));
    server.write("0\r\n\r\n");
    clock.advance(10);
    await seen(client, "0\r\n\r\n");
    expect(harness.exchanges[0]!.ends).toEqual(["complete"]);
  });

  it("pieces of a body with a length, too", async () => {
    const { client, server } = await conversation();
    server.write("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabc");
    await seen(client, "abc");
    expect(client.text()).toContain("content-length: 6");
    server.write("def");
    await seen(client, "abcdef");
    await poll("the books close", () => harness.exchange.ended);
  });

  it("a body that ends with the connection of the model server becomes a chunked one", async () => {
    const { client, server } = await conversation();
    server.end("HTTP/1.1 200 OK\r\n\r\nall of it");
    await seen(client, "9\r\nall of it\r\n0\r\n\r\n");
    expect(harness.exchange.ends).toEqual(["complete"]);
  });

  it("what the exchange makes of the bytes is what the client gets", async () => {
    const model = await harness.model(({ socket }) => socket.write(`${PLAIN}${chunkBytes("lower")}0\r\n\r\n`));
    await harness.start({
      endpoints: [model.endpoint],
      atAnswer: (_exchange, chunk) => Buffer.from(Buffer.from(chunk).toString().toUpperCase()),
    });
    expect(await harness.ask(post("body"))).toContain("LOWER");
  });
});

describe("D-52: a client that leaves", () => {
  it.each(["destroy", "resetAndDestroy"] as const)(
    "by %s in the middle of the answer ends it upstream",
    async (how) => {
      const { model, client, server } = await conversation();
      server.write(`${SSE}${chunkBytes(event(0))}`);
      await seen(client, chunkBytes(event(0)));
      client.socket[how]();
      await poll("the model server's connection ends", () => model.open() === 0);
      expect(harness.exchange.ends).toEqual(["client-gone"]);
      expect(harness.metrics.gone).toBe(1);
      // The connection is not used again.
      const next = await harness.client();
      next.send(get());
      await poll("the next request", () => model.requests.length === 2);
      expect(model.requests[1]!.connection).toBe(1);
    },
  );

  it("before the first byte of the answer", async () => {
    const { model, client } = await conversation();
    client.socket.destroy();
    await poll("the model server's connection ends", () => model.open() === 0);
    expect(harness.exchange.ends).toEqual(["client-gone"]);
    expect(harness.exchange.failures).toEqual([]);
  });

  it("while the connection upstream is being made", async () => {
    let connecting = 0;
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "late")));
    const late: (() => void)[] = [];
    await harness.start(
      { endpoints: [model.endpoint] },
      {
        connect(options) {
          connecting++;
          if (connecting > 1) return connect(options);
          const socket = new Socket();
          late.push(() => socket.connect(options));
          return socket;
        },
      },
    );
    const client = await harness.client();
    client.send(post("body", ""));
    await poll("the attempt", () => connecting === 1);
    client.socket.destroy();
    await poll("the books close", () => harness.exchange.ended);
    late[0]!();
    await poll("the late connection is made and destroyed", () => model.sockets.length === 1 && model.open() === 0);
    expect(model.requests).toHaveLength(0);
    expect(harness.exchange.ends).toEqual(["client-gone"]);
  });

  it("in the middle of its body", async () => {
    await harness.start();
    const client = await harness.client();
    client.send(post("0123456789", "").slice(0, -5));
    await poll("the first half", () => harness.exchange?.text === "01234");
    client.socket.end();
    await poll("the books close", () => harness.exchange.ended);
    expect(harness.exchange.ends).toEqual(["client-gone"]);
    await poll("the connection goes", () => harness.proxy.connections === 0);
  });

  it("after the answer was complete changes nothing", async () => {
    const { client, server } = await conversation();
    server.write(answerBytes(200, "done"));
    await seen(client, "done");
    client.socket.destroy();
    await poll("the connection goes", () => harness.proxy.connections === 0);
    expect(harness.exchange.ends).toEqual(["complete"]);
    expect(harness.metrics.gone).toBe(0);
  });
});

describe("D-53: a model server lost in the middle of its answer", () => {
  it.each(["resetAndDestroy", "end"] as const)(
    "an event stream gets one error event, no final chunk (%s)",
    async (how) => {
      const { client, server } = await conversation();
      server.write(`${SSE}${chunkBytes(event(0))}`);
      await seen(client, chunkBytes(event(0)));
      server[how]();
      await poll("the cut", client.closed);
      const body = client.text().split("\r\n\r\n").slice(1).join("\r\n\r\n");
      const events = body.split("\n").filter((line) => line.startsWith("data: "));
      expect(events).toHaveLength(2);
      expect(JSON.parse(events[1]!.slice(6))).toEqual({
        error: {
          message: expect.stringContaining("lost"),
          type: "upstream_error",
          param: null,
          code: 502,
          help: "docs/reference/errors.md#upstream_reset",
        },
      });
      expect(body).not.toContain("[DONE]");
      expect(body).not.toContain("0\r\n\r\n");
      expect(harness.exchange.ends).toEqual(["interrupted"]);
      expect(harness.metrics.lost).toBe(1);
      expect(harness.exchange.failures).toEqual([]);
    },
  );

  it("an event that was not complete is ended before the error event", async () => {
    const { client, server } = await conversation();
    server.write(`${SSE}${chunkBytes(`${event(0)}data: {"n":`)}`);
    await seen(client, 'data: {"n":\r\n');
    server.destroy();
    await poll("the cut", client.closed);
    expect(client.text()).toMatch(/data: \{"n":\r\n[0-9a-f]+\r\n\n\ndata: \{"error":[^\n]*\}\n\n\r\n$/);
  });

  it("an event stream that had not sent anything gets the event alone", async () => {
    const { client, server } = await conversation();
    server.write(SSE);
    await poll("the head", () => client.text().includes("\r\n\r\n"));
    server.destroy();
    await poll("the cut", client.closed);
    expect(client.text()).toMatch(/\r\n\r\n[0-9a-f]+\r\ndata: \{"error":[^\n]*\}\n\n\r\n$/);
  });

  it("any other answer is just cut: chunked, with a length, compressed events", async () => {
    const compressed = SSE.replace("content-type", "content-encoding: gzip\r\ncontent-type");
    for (const bytes of [
      `${PLAIN}${chunkBytes("half")}`,
      "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
      `${compressed}${chunkBytes("half")}`,
    ]) {
      const { client, server } = await conversation();
      server.write(bytes);
      await poll("the half", () => client.text().includes("half"));
      server.destroy();
      await poll("the cut", client.closed);
      expect(client.text()).not.toContain("error");
      expect(client.text()).not.toContain("0\r\n\r\n");
      expect(harness.exchange.ends).toEqual(["interrupted"]);
      await harness.close();
      harness = new ProxyHarness();
    }
  });

  it("an HTTP/1.0 client, which has no framing, sees a reset", async () => {
    const { client, server } = await conversation("GET / HTTP/1.0\r\nhost: gw\r\n\r\n");
    server.write(`${PLAIN}${chunkBytes("half")}`);
    await seen(client, "half");
    server.destroy();
    await poll("the reset", client.wasReset);
    expect(harness.exchange.ends).toEqual(["interrupted"]);
  });

  it("a server that breaks its framing is lost, too", async () => {
    const { client, server } = await conversation();
    server.write(`${PLAIN}${chunkBytes("half")}ZZ\r\n`);
    await poll("the cut", client.closed);
    expect(harness.exchange.ends).toEqual(["interrupted"]);
  });

  it("other requests go on", async () => {
    const { model, client, server } = await conversation();
    const other = await harness.client();
    other.send(post("other", ""));
    await poll("the other request", () => model.requests.length === 2);
    server.write(`${PLAIN}${chunkBytes("half")}`);
    await poll("the half", () => client.text().includes("half"));
    server.destroy();
    await poll("the cut", client.closed);
    model.requests[1]!.socket.write(answerBytes(200, "fine"));
    await seen(other, "fine");
  });
});

describe("D-54: back-pressure", () => {
  it("clients that do not read pause the model server; when they read, 100 MiB arrive unchanged", async () => {
    const total = 100 * 1024 * 1024;
    const clients = 10;
    const piece = Buffer.alloc(256 * 1024);
    for (let i = 0; i < piece.length; i++) piece[i] = i % 251;
    let written = 0;
    const model = await harness.model(({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`);
      let left = total;
      const pump = (): void => {
        while (left > 0) {
          left -= piece.length;
          written += piece.length;
          if (!socket.write(piece)) return;
        }
      };
      socket.on("drain", pump);
      pump();
    });
    await harness.start({ endpoints: [model.endpoint] });
    const before = process.memoryUsage().arrayBuffers;
    const slow: RawClient[] = [];
    for (let n = 0; n < clients; n++) {
      const client = await harness.client({ paused: true });
      client.send(post("body", ""));
      slow.push(client);
    }
    await poll(
      "all answers begin",
      () => harness.exchanges.filter(({ answerBytes }) => answerBytes > 0).length === clients,
    );
    let last = -1;
    await poll("everything stands still", () => {
      const still = written === last;
      last = written;
      return still;
    });
    expect(written).toBeLessThan((clients * total) / 4);
    // The pieces the server sends are one buffer: what grew is what the proxy holds (and garbage).
    const held = (process.memoryUsage().arrayBuffers - before) / clients;
    expect(held).toBeLessThan(5 * 1024 * 1024);

    const reader = slow.pop()!;
    for (const client of slow) client.socket.destroy();
    let received = 0;
    let wrong = 0;
    let head = true;
    reader.socket.removeAllListeners("data");
    reader.socket.on("data", (chunk: Buffer) => {
      const body = head ? chunk.subarray(chunk.indexOf("\r\n\r\n") + 4) : chunk;
      head = false;
      if (body.length > 0 && body[0] !== (received % piece.length) % 251) wrong++;
      received += body.length;
    });
    reader.socket.resume();
    await poll("the last byte", () => received === total);
    expect(wrong).toBe(0);
    await poll("the books close", () => harness.exchanges.every(({ ended }) => ended));
    expect(harness.exchange.ends).toEqual(["complete"]);
    expect(harness.exchanges.slice(0, -1).map(({ ends }) => ends[0])).toEqual(Array(clients - 1).fill("client-gone"));
  });

  it("a client that reads in fits and starts gets every byte of a chunked answer", async () => {
    const sizes = [1, 100, 16_000, 65_536, 70_000, 300_000, 7];
    const total = 24 * 1024 * 1024;
    const { client, server } = await conversation(post("body"), { paused: true });
    server.write(PLAIN);
    let sum = 0;
    for (let n = 0; sum < total; n++) {
      const size = sizes[n % sizes.length]!;
      sum += size;
      server.write(chunkBytes("x".repeat(size)));
    }
    server.write("0\r\n\r\n");
    client.socket.on("data", () => {
      client.socket.pause();
      setImmediate(() => client.socket.resume());
    });
    client.socket.resume();
    await poll("the end", client.closed);
    const text = client.text();
    expect(text.endsWith("0\r\n\r\n")).toBe(true);
    expect(text.slice(text.indexOf("\r\n\r\n")).match(/x+/g)!.join("").length).toBe(sum);
    expect(harness.exchange.answerBytes).toBe(sum);
  });

  it("a model server that reads slowly gets its whole request", async () => {
    const body = Buffer.alloc(16 * 1024 * 1024, "abcdefg");
    let received = 0;
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.on("data", (chunk: Buffer) => {
        received += chunk.length;
        socket.pause();
        setImmediate(() => socket.resume());
        if (chunk.subarray(-7).toString() === body.subarray(-7).toString() && received > body.length) {
          socket.write(answerBytes(200, "all"));
        }
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    await harness.start({ endpoints: [loopbackEndpoint((server.address() as { port: number }).port)] });
    const client = await harness.client();
    client.send(`POST / HTTP/1.1\r\nhost: gw\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n`);
    client.send(body);
    await poll("the answer", client.closed);
    expect(client.text()).toMatch(/all$/);
    server.close();
  });
});
