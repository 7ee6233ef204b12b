import { afterEach, describe, expect, it } from "vitest";
import { FakeExchange } from "../../../test/support/fake-exchange.ts";
import { answerBytes, chunkBytes, type RawRequest } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { get, ProxyHarness, post } from "../../../test/support/proxy-harness.ts";
import { Rejection } from "../../base/inference/outcomes.ts";

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

const echo = ({ socket, body }: RawRequest): void => void socket.write(answerBytes(200, `got ${body}.`));

/** Lets everything that is on its way arrive: both sides run in this process. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve));
}

describe("the requests of a connection", () => {
  it("are served in order with their bodies, whole or byte by byte, with trailers and extensions", async () => {
    const model = await harness.model(echo);
    await harness.start({ endpoints: [model.endpoint] });
    const chunked = `POST /v1/completions HTTP/1.1\r\nhost: gw\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("two")}1;x=y\r\n!\r\n0\r\nx-t: 1\r\n\r\n`;
    const bytes = `\r\n${post("one", "")}${chunked}${post("three", "")}${get()}`;
    const answers = ["got one.", "got two!.", "got three.", "got ."];
    expect((await harness.ask(bytes)).match(/got .*?\./g)).toEqual(answers);
    const client = await harness.client();
    for (const byte of bytes) {
      client.send(byte);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await poll("the end", client.closed);
    expect(client.text().match(/got .*?\./g)).toEqual(answers);
  });

  it("leave one write for an answer that comes at once, with head and body", async () => {
    const model = await harness.model(echo);
    await harness.start({ endpoints: [model.endpoint] });
    const client = await harness.client();
    const pieces: string[] = [];
    client.socket.on("data", (piece: Buffer) => pieces.push(piece.toString("latin1")));
    for (let n = 1; n <= 5; n++) {
      client.send(post("x", ""));
      await poll("the answer", () => client.text().split("got x.").length === n + 1);
    }
    expect(pieces).toHaveLength(5);
  });

  it("wait in the system, not in the proxy, while an earlier one is served", async () => {
    let served = 0;
    const model = await harness.model(() => void served++);
    await harness.start({ endpoints: [model.endpoint] });
    const client = await harness.client();
    client.send(get("/", "").repeat(2));
    await poll("the first request", () => served === 1);
    const body = Buffer.alloc(8 << 20, "x");
    client.send(`POST / HTTP/1.1\r\nhost: gw\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n`);
    client.send(body);
    await settle();
    expect(client.socket.writableLength).toBeGreaterThan(0);
    model.requests[0]!.socket.write(answerBytes(200, "first"));
    await poll("the second request", () => served === 2);
    model.requests[1]!.socket.write(answerBytes(200, "second"));
    await poll("the third request", () => served === 3);
    expect(model.requests[2]!.body.length).toBe(body.length);
    model.requests[2]!.socket.write(answerBytes(200, "third"));
    await poll("the end", client.closed);
  });

  it("that nobody has begun to read hold little of their bodies", async () => {
    await harness.start({}, { authenticate: () => new Promise(() => {}) });
    const client = await harness.client();
    const body = Buffer.alloc(16 << 20, "x");
    client.send(`POST / HTTP/1.1\r\nhost: gw\r\ncontent-length: ${body.length}\r\n\r\n`);
    client.send(body);
    await settle();
    expect(client.socket.writableLength).toBeGreaterThan(8 << 20);
  });

  it("of HTTP/1.0 keep the connection where the client asks for it and the length is known", async () => {
    const model = await harness.model(({ socket, head }) =>
      socket.write(
        head.includes("chunked ")
          ? `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("end")}0\r\n\r\n`
          : answerBytes(200, "ok"),
      ),
    );
    await harness.start({ endpoints: [model.endpoint] });
    const client = await harness.client();
    const ask = (path: string): string => `GET ${path} HTTP/1.0\r\nhost: gw\r\nconnection: keep-alive\r\n\r\n`;
    client.send(ask("/"));
    await poll("an answer", () => client.text().endsWith("ok"));
    expect(client.text()).toContain("Connection: keep-alive\r\n");
    client.send(ask("/?chunked"));
    await poll("the end", client.closed);
    expect(client.text()).toMatch(/Connection: close\r\n\r\nend$/);
    expect(await harness.ask("GET / HTTP/1.0\r\nhost: gw\r\n\r\n")).toMatch(/Connection: close\r\n\r\nok$/);
  });

  it("may expect 100-continue and send the body all the same", async () => {
    const model = await harness.model(echo);
    await harness.start({ endpoints: [model.endpoint] });
    const text = await harness.ask(post("body", "connection: close\r\nexpect: 100-continue\r\n"));
    expect(text).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 .*got body\.$/s);
    // HTTP/1.0 knows no expectation.
    const old = post("body", "expect: cake\r\n").replace("HTTP/1.1", "HTTP/1.0");
    expect(await harness.ask(old)).toMatch(/^HTTP\/1\.1 200 .*got body\.$/s);
  });
});

describe("bytes that break HTTP", () => {
  it("behind a request whose answer has begun cut the connection", async () => {
    const model = await harness.model(({ socket }) =>
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("begun")}`),
    );
    await harness.start({ endpoints: [model.endpoint] });
    const client = await harness.client();
    client.send(post("x", ""));
    await poll("the answer begins", () => client.text().includes("begun"));
    client.send("GARBAGE\r\n\r\n");
    await poll("the cut", client.closed);
    expect(client.text().match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(client.text()).not.toMatch(/0\r\n\r\n$/);
    expect(harness.exchange.ends).toEqual(["client-gone"]);
  });

  it("and an upgrade behind a request cut the connection, too", async () => {
    const model = await harness.model(() => {});
    await harness.start({ endpoints: [model.endpoint] });
    const client = await harness.client();
    client.send(post("x", ""));
    await poll("the request arrives", () => model.requests.length === 1);
    client.send(get("/", "connection: upgrade\r\nupgrade: websocket\r\n"));
    await poll("the cut", client.closed);
    expect(client.text()).toBe("");
  });

  it("are followed by none that count: a second fault, a request, a flood", async () => {
    const model = await harness.model(echo);
    await harness.start({ endpoints: [model.endpoint] }, { timers: { linger: 200 } });
    const client = await harness.client();
    client.send("HELLO\r\n\r\n");
    await poll("the answer", () => client.text().includes("}}"));
    for (const bytes of ["HELLO\r\n\r\n", get(), "x".repeat(1 << 20)]) client.send(bytes);
    await poll("the end", () => harness.proxy.connections === 0);
    expect(client.text().match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(harness.metrics.bad).toEqual(["bad-request"]);
    expect(model.requests).toHaveLength(0);
  });

  it("in the rest of a refused request are dropped", async () => {
    await harness.start({ atHeaders: () => new Rejection("saturated", "busy") }, { timers: { linger: 200 } });
    const client = await harness.client();
    client.send("POST / HTTP/1.1\r\nhost: gw\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n");
    await poll("the answer", () => client.text().includes("}}"));
    client.send("ZZ\r\n");
    await poll("the end", () => harness.proxy.connections === 0);
    expect(client.text().match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(client.text()).toContain("Connection: close\r\n");
    expect(harness.exchange.ends).toEqual(["rejected"]);
  });

  it("a body behind a refused head is dropped, and its end is the end of the connection", async () => {
    await harness.start({}, { timers: { linger: 600_000 } });
    const client = await harness.client();
    client.send("POST / HTTP/1.1\r\nhost: gw\r\na_b: c\r\ncontent-length: 4\r\n\r\na");
    await poll("the answer", () => client.text().includes("}}"));
    client.send("bc");
    await settle();
    expect(client.closed()).toBe(false);
    client.send("d");
    await poll("the end", client.closed);
    expect(client.text()).toMatch(/^HTTP\/1\.1 400 /);
    expect(harness.exchanges).toEqual([]);
  });

  it("the rest of a refused request ends its connection, and what follows is not served", async () => {
    const model = await harness.model(echo);
    // Not by the end of that time.
    const timers = { linger: 600_000 };
    await harness.start(
      { endpoints: [model.endpoint], atHeaders: () => new Rejection("saturated", "busy") },
      { timers },
    );
    const client = await harness.client();
    client.send("POST / HTTP/1.1\r\nhost: gw\r\ncontent-length: 4\r\n\r\na");
    await poll("the answer", () => client.text().includes("}}"));
    expect(client.closed()).toBe(false);
    client.send(`bcd${get()}`);
    await poll("the end", client.closed);
    expect(harness.errors).toEqual([]);
    expect(client.text().match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(model.requests).toHaveLength(0);
  });
});

describe("the ends of a connection", () => {
  it("a client that has closed its half gets what was written", async () => {
    const body = "x".repeat(1 << 20);
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, body)));
    await harness.start({ endpoints: [model.endpoint] });
    const client = await harness.client({ paused: true });
    client.send(get("/", ""));
    await poll("the answer is complete", () => harness.exchange?.ended);
    client.socket.end();
    await settle();
    client.socket.resume();
    await poll("all of it", () => client.text().split("\r\n\r\n")[1]?.length === body.length);
    await poll("the end", client.closed);
    await poll("nothing is left", () => harness.proxy.connections === 0);
    expect(harness.exchange.ends).toEqual(["complete"]);
  });

  it("a client that leaves in the middle of a head leaves nothing behind", async () => {
    await harness.start();
    for (const how of ["end", "destroy", "resetAndDestroy"] as const) {
      const client = await harness.client();
      client.send("POST / HTTP/1.1\r\nhost: g");
      await poll("it is there", () => harness.proxy.connections === 1);
      client.socket[how]();
      await poll("it is gone", () => harness.proxy.connections === 0);
      expect(client.text()).toBe("");
    }
    expect(harness.metrics.bad).toEqual([]);
  });

  it("a client that leaves between its request and the beginning of that opens no exchange", async () => {
    let client = await harness.start().then(() => harness.client());
    for (let n = 0; n < 20; n++) {
      client.send(post("x", ""));
      client.socket.resetAndDestroy();
      await poll("it is gone", () => harness.proxy.connections === 0);
      client = await harness.client();
    }
    for (const exchange of harness.exchanges) expect(exchange.ends).toHaveLength(1);
  });

  it("drain ends a connection whose answer has promised to go on, even if its client stays", async () => {
    const model = await harness.model(({ socket }) => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no"));
    await harness.start({ endpoints: [model.endpoint] }, { timers: { linger: 100 } });
    const client = await harness.client();
    client.send(get("/", ""));
    await poll("the answer begins", () => client.text().endsWith("o"));
    expect(client.text()).toContain("Connection: keep-alive\r\n");
    client.socket.removeAllListeners("end");
    client.socket.allowHalfOpen = true;
    const drained = harness.proxy.drain();
    model.sockets[0]!.write("k");
    await drained;
    expect(client.text()).toMatch(/ok$/);
  });

  it("a plugin's header that is not valid HTTP becomes a 500, and the connection goes on", async () => {
    const model = await harness.model(echo);
    let broken = true;
    await harness.start(
      {},
      {
        openExchange(wire) {
          const exchange = new FakeExchange({ endpoints: [model.endpoint] }, wire);
          harness.exchanges.push(exchange);
          const respond = exchange.responseHeaders.bind(exchange);
          exchange.responseHeaders = (...args) => {
            const set = respond(...args);
            args[1].append("x-a", broken ? "1\r\nx-b: 2" : "1");
            return set;
          };
          return exchange;
        },
      },
    );
    const client = await harness.client();
    client.send(post("x", ""));
    await poll("the answer", () => client.text().includes("}}"));
    expect(client.text()).toMatch(/^HTTP\/1\.1 500 /);
    expect(client.text()).not.toContain("x-b: 2\r\n");
    broken = false;
    client.send(post("x", ""));
    await poll("the next answer", () => client.text().endsWith("got x."));
  });
});
