import { afterEach, describe, expect, it } from "vitest";
import type { FakePlan } from "../../../test/support/fake-exchange.ts";
import { answerBytes, chunkBytes } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { get, ProxyHarness, post } from "../../../test/support/proxy-harness.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { DEFAULT_LIMITS, DEFAULT_TIMERS, type ProxyTimers } from "./options.ts";

let harness = new ProxyHarness();
let clock = new VirtualClock();
afterEach(async () => {
  const { exchanges } = harness;
  await harness.close();
  harness = new ProxyHarness();
  clock = new VirtualClock();
  for (const exchange of exchanges) {
    expect(exchange.breaches).toEqual([]);
    expect(exchange.ends).toHaveLength(1);
  }
});

/** Polls without letting time pass; what waits for the end of the turn goes on. */
function until(what: string, probe: () => unknown): Promise<unknown> {
  return poll(what, () => {
    clock.advance(0);
    return probe();
  });
}

/** A proxy in virtual time before a model server that is silent unless told otherwise. */
async function start(timers: Partial<ProxyTimers> = {}, plan: FakePlan = {}) {
  const model = await harness.model(() => {});
  await harness.start({ endpoints: [model.endpoint], ...plan }, { clock, timers });
  return model;
}

describe("D-60: timers of a request, in virtual time", () => {
  it("60 s without a byte of the body: 408; a byte in time is enough", async () => {
    await start();
    const client = await harness.client();
    client.send(post("0123456789", "").slice(0, -8));
    await until("the first bytes", () => harness.exchange?.text === "01");
    clock.advance(59_000);
    expect(harness.exchange.ended).toBe(false);
    client.send("2");
    await until("one more", () => harness.exchange.text === "012");
    clock.advance(59_000);
    expect(harness.exchange.ended).toBe(false);
    clock.advance(1_500);
    await until("the answer", () => client.text().startsWith("HTTP/1.1 408 "));
    expect(client.text()).toContain("x-gateway-error: request-timeout");
    expect(harness.exchange.ends).toEqual(["client-gone"]);
    expect(harness.metrics.bad).toEqual([]);
    clock.advance(5_000);
    await until("the connection ends", client.closed);
  });

  it("a byte now and then: 408 once the upload is slower than 1 KiB/s on average", async () => {
    await start();
    const client = await harness.client();
    client.send("POST /v1/completions HTTP/1.1\r\nhost: gw\r\ncontent-length: 100000\r\n\r\n0");
    await until("the first byte", () => harness.exchange?.text === "0");
    for (const text of ["01", "012"]) {
      clock.advance(50_000);
      client.send(text.slice(-1));
      await until("one more", () => harness.exchange.text === text);
    }
    expect(harness.exchange.ended).toBe(false);
    clock.advance(22_000);
    await until("the answer", () => client.text().startsWith("HTTP/1.1 408 "));
    expect(harness.exchange.ends).toEqual(["client-gone"]);
  });

  it("a body that never begins, after 100 Continue or without", async () => {
    await start();
    for (const expectation of ["", "expect: 100-continue\r\n"]) {
      const client = await harness.client();
      client.send(post("body", expectation).slice(0, -4));
      await until(
        "it is taken up",
        () => harness.proxy.connections > 0 && clock.pending > 0 && (expectation === "" || client.text()),
      );
      // The request may still be on its way: let time pass in steps until it is answered.
      await poll("the answer", () => {
        clock.advance(30_000);
        return client.text().includes("HTTP/1.1 408 ");
      });
    }
  });

  it("a body that the exchange holds back is not timed", async () => {
    await start(
      {},
      { atChunk: (exchange, chunk) => void (chunk.length > 0 && exchange.wire.pauseRequest()) as undefined },
    );
    const client = await harness.client();
    client.send(post("0123456789", "").slice(0, -8));
    await until("the first bytes", () => harness.exchange?.text === "01");
    clock.advance(3_600_000);
    expect(harness.exchange.ended).toBe(false);
    harness.exchange.wire.resumeRequest();
    clock.advance(59_000);
    expect(harness.exchange.ended).toBe(false);
    clock.advance(1_500);
    await until("the answer", () => client.text().startsWith("HTTP/1.1 408 "));
  });

  it("600 s without a decision: 504", async () => {
    await start({}, { decide: () => new Promise(() => {}) });
    const client = await harness.client();
    client.send(post("body", ""));
    await until("it waits", () => harness.exchange?.bodyEnded);
    clock.advance(599_000);
    expect(harness.exchange.ended).toBe(false);
    clock.advance(1_500);
    await until("the answer", () => client.text().startsWith("HTTP/1.1 504 "));
    expect(harness.exchange.ends).toEqual(["rejected"]);
  });

  it("the first byte: off by default, else 504 without a retry, and the connection is cut", async () => {
    const model = await start({ firstByte: 10_000 });
    const client = await harness.client();
    client.send(post("body", ""));
    await until("the request arrives", () => model.requests.length === 1);
    clock.advance(9_000);
    expect(harness.exchange.ended).toBe(false);
    clock.advance(1_500);
    await until("the answer", () => client.text().startsWith("HTTP/1.1 504 "));
    expect(client.text()).toContain("x-gateway-error: upstream-timeout");
    expect(harness.exchange.failures).toEqual([]);
    await until("the connection is cut", () => model.open() === 0);
    expect(harness.exchange.ends).toEqual(["rejected"]);
  });

  it("with the first byte off, an hour of silence is allowed and no more", async () => {
    const model = await start();
    const client = await harness.client();
    client.send(post("body", ""));
    await until("the request arrives", () => model.requests.length === 1);
    clock.advance(3_599_000);
    expect(harness.exchange.ended).toBe(false);
    clock.advance(1_500);
    await until("the answer", () => client.text().startsWith("HTTP/1.1 504 "));
  });

  it("an answer without a byte either way is cut on both sides; bytes keep it alive", async () => {
    const model = await start({ responseIdle: 100_000 });
    const client = await harness.client();
    client.send(post("body", ""));
    await until("the request arrives", () => model.requests.length === 1);
    const server = model.requests[0]!.socket;
    server.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("a")}`);
    await until("the first piece", () => client.text().endsWith("a\r\n"));
    clock.advance(99_000);
    server.write(chunkBytes("b"));
    await until("the second piece", () => client.text().endsWith("b\r\n"));
    clock.advance(99_000);
    expect(harness.exchange.ended).toBe(false);
    clock.advance(1_500);
    await until("the client is cut", client.closed);
    await until("the model server is cut", () => model.open() === 0);
    expect(client.text()).not.toContain("0\r\n\r\n");
    expect(harness.exchange.ends).toEqual(["interrupted"]);
    expect(harness.metrics.lost).toBe(1);
  });

  it("a client that takes nothing for that long is cut, and it is its own fault", async () => {
    const model = await start({ clientStalled: 100_000 });
    const client = await harness.client({ paused: true });
    client.send(post("body", ""));
    await until("the request arrives", () => model.requests.length === 1);
    const server = model.requests[0]!.socket;
    server.write(`HTTP/1.1 200 OK\r\ncontent-length: ${1 << 28}\r\n\r\n`);
    let last = -1;
    await until("everything stands still", () => {
      for (let n = 0; n < 100 && !server.writableNeedDrain; n++) server.write(Buffer.alloc(1 << 16));
      const now = harness.exchange.answerBytes;
      const still = now === last && now > 0 && server.writableNeedDrain;
      last = now;
      return still;
    });
    clock.advance(101_000);
    await until("the model server is cut", () => model.open() === 0);
    expect(harness.exchange.ends).toEqual(["client-gone"]);
    clock.advance(5_000);
    await until("the client is cut", () => harness.proxy.connections === 0);
  });

  it("a client that takes nothing of a complete answer is cut, too", async () => {
    const model = await start({ clientStalled: 100_000 });
    const client = await harness.client({ paused: true });
    client.send(post("body", ""));
    await until("the request arrives", () => model.requests.length === 1);
    const body = Buffer.alloc(16 << 20);
    const server = model.requests[0]!.socket;
    server.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`);
    server.write(body);
    await until("the answer begins", () => harness.exchange.answerBytes > 0);
    await poll("it is given up", () => {
      clock.advance(101_000);
      return harness.proxy.connections === 0;
    });
    expect(harness.exchange.answerBytes).toBeLessThan(body.length);
  });

  it("deadlines are kept for nobody once all is done", async () => {
    const model = await start();
    const client = await harness.client();
    client.send(post("body"));
    await until("the request arrives", () => model.requests.length === 1);
    model.requests[0]!.socket.write(answerBytes(200, "done"));
    await until("the end", client.closed);
    await harness.proxy.close();
    clock.run(10_000);
    expect(clock.pending).toBe(0);
  });
});

describe("D-60: timers of a connection between requests, in virtual time", () => {
  const HALF = "POST / HTTP/1.1\r\nhost: g";

  it("a client that sends nothing gets 408 after 30 s, and 2 s to go", async () => {
    await start();
    const client = await harness.client();
    client.socket.allowHalfOpen = true;
    await until("it is taken up", () => harness.proxy.connections === 1);
    clock.advance(29_000);
    expect(client.text()).toBe("");
    clock.advance(1_500);
    await until("the answer", () => client.text().startsWith("HTTP/1.1 408 "));
    expect(harness.metrics.bad).toEqual(["request-timeout"]);
    await until("the client has all of it", client.closed);
    clock.advance(1_500);
    expect(harness.proxy.connections).toBe(1);
    clock.advance(1_500);
    await until("the connection ends", () => harness.proxy.connections === 0);
  });

  it("bytes of a head now and then do not make its time longer", async () => {
    await start();
    const client = await harness.client();
    client.send(HALF);
    await until("it is taken up", () => harness.proxy.connections === 1);
    // The bytes may still be on their way.
    for (let n = 0; n < 100; n++) await new Promise((resolve) => setImmediate(resolve));
    for (let n = 0; n < 5; n++) {
      clock.advance(6_000);
      client.send("w");
      for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
    clock.advance(1_500);
    await until("the answer", () => client.text().startsWith("HTTP/1.1 408 "));
    expect(harness.exchanges).toHaveLength(0);
  });

  it("an idle connection ends after 76 s, which is 1 s more than its answers say; a head in time is served", async () => {
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "ok")));
    await harness.start({ endpoints: [model.endpoint] }, { clock });
    const client = await harness.client();
    for (const count of [1, 2]) {
      client.send(get("/", ""));
      await until("an answer", () => client.text().split("ok").length === count + 1);
      expect(client.text()).toContain("Keep-Alive: timeout=75\r\n");
      clock.advance(74_500);
      expect(harness.proxy.connections).toBe(1);
    }
    clock.advance(2_500);
    await until("the end", client.closed);
    expect(harness.proxy.connections).toBe(0);
  });

  it("a head behind a request has 30 s, too; its connection is cut without an answer to it", async () => {
    const model = await start();
    const client = await harness.client();
    client.send(get("/", "") + HALF);
    await until("the request arrives", () => model.requests.length === 1);
    clock.advance(29_000);
    expect(harness.exchange.ended).toBe(false);
    clock.advance(1_500);
    await until("the end", client.closed);
    expect(client.text()).toBe("");
    expect(harness.exchange.ends).toEqual(["client-gone"]);
  });

  it("a head is not late while the proxy does not read it, nor once it is complete", async () => {
    const model = await start();
    const client = await harness.client();
    client.send(`${get("/", "")}${get("/", "")}${HALF}`);
    await until("the request arrives", () => model.requests.length === 1);
    clock.advance(60_000);
    model.requests[0]!.socket.write(answerBytes(200, "first"));
    await until("the second request arrives", () => model.requests.length === 2);
    clock.advance(29_000);
    client.send("w\r\ncontent-length: 0\r\n\r\n");
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    clock.advance(60_000);
    model.requests[1]!.socket.write(answerBytes(200, "second"));
    await until("the third request arrives", () => model.requests.length === 3);
    model.requests[2]!.socket.write(answerBytes(200, "third"));
    await until("all answers", () => client.text().endsWith("third"));
  });

  it("a client that closed its half and reads nothing is cut after 300 s", async () => {
    const model = await start();
    const client = await harness.client({ paused: true });
    client.send(get("/", ""));
    await until("the request arrives", () => model.requests.length === 1);
    const body = Buffer.alloc(16 << 20);
    model.requests[0]!.socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`);
    model.requests[0]!.socket.write(body);
    let last = -1;
    await until("it stands still", () => {
      const now = harness.exchange.answerBytes;
      const still = now === last && now > 0;
      last = now;
      return still;
    });
    client.socket.end();
    await until("the books close", () => harness.exchange.ended);
    clock.advance(299_000);
    await until("it stays", () => harness.proxy.connections === 1);
    clock.advance(2_000);
    await until("the cut", () => harness.proxy.connections === 0);
  });
});

describe("D-60: timers of connections, with shrunk values", () => {
  it("D-57: the defaults are those of the specification", () => {
    expect(DEFAULT_TIMERS).toMatchObject({
      requestHeaders: 30_000,
      bodyIdle: 60_000,
      picking: 600_000,
      connect: 2_000,
      firstByte: 0,
      responseIdle: 3_600_000,
      clientStalled: 300_000,
      clientKeepAlive: 75_000,
      upstreamKeepAlive: 60_000,
    });
    expect(DEFAULT_LIMITS).toMatchObject({
      headerBytes: 61_440,
      headerCount: 100,
      targetBytes: 8_192,
      bodyBytes: 33_554_432,
      replayBytes: 33_554_432,
      connections: 10_000,
    });
  });

  it("request headers that do not come: 408 and the end", async () => {
    await harness.start({}, { timers: { requestHeaders: 60, linger: 40 } });
    const text = await harness.ask("POST / HTTP/1.1\r\nhost: g");
    expect(text).toMatch(/^HTTP\/1\.1 408 /);
    expect(text).toContain("x-gateway-error: request-timeout");
    expect(harness.exchanges).toHaveLength(0);
  });

  it("an idle client connection ends", async () => {
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "ok")));
    await harness.start({ endpoints: [model.endpoint] }, { timers: { clientKeepAlive: 40 } });
    const text = await harness.ask(get("/", ""));
    expect(text).toMatch(/^HTTP\/1\.1 200 .*ok$/s);
  });

  it("an idle connection to an endpoint ends, and the next request makes a new one", async () => {
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "ok")));
    await harness.start({ endpoints: [model.endpoint] }, { timers: { upstreamKeepAlive: 40 } });
    await harness.ask(get());
    await poll("it ends", () => model.open() === 0);
    expect(await harness.ask(get())).toContain("ok");
    expect(model.sockets).toHaveLength(2);
  });
});
