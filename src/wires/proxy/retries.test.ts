import { createServer, Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { loopbackEndpoint } from "../../../test/support/fake-exchange.ts";
import { answerBytes, chunkBytes, type RawRequest } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { deadEndpoint, get, ProxyHarness, post } from "../../../test/support/proxy-harness.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { connector } from "../../base/grpc/server-connector.ts";

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

const serve = ({ socket, body }: RawRequest): void => void socket.write(answerBytes(200, `served ${body}`));
const busy = ({ socket }: RawRequest): void => void socket.write(answerBytes(503, "busy", "x-who: me\r\n"));
const reset = ({ socket }: RawRequest): void => void socket.resetAndDestroy();
const hangUp = ({ socket }: RawRequest): void => void socket.end();

describe("D-48: what moves on to the next endpoint", () => {
  it("a refused connection", async () => {
    const dead = await deadEndpoint();
    const good = await harness.model(serve);
    await harness.start({ endpoints: [dead, good.endpoint] });
    expect(await harness.ask(post("body"))).toContain("served body");
    expect(harness.exchange.failures).toMatchObject([{ endpoint: dead, failure: "connect" }]);
    expect(harness.exchange.failures[0]!.detail).toContain("ECONNREFUSED");
    expect(harness.metrics.retries).toEqual(["connect"]);
    expect(harness.exchange.ends).toEqual(["complete"]);
  });

  it("a host name that does not exist", async () => {
    const nowhere = { ...loopbackEndpoint(1), address: "nowhere.invalid", hostPort: "nowhere.invalid:80" };
    const good = await harness.model(serve);
    await harness.start(
      { endpoints: [nowhere, good.endpoint] },
      {
        connect: (options) => {
          const socket = new Socket();
          if ("host" in options && options.host === "nowhere.invalid") {
            process.nextTick(() =>
              socket.destroy(Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" })),
            );
            return socket;
          }
          return socket.connect(options);
        },
      },
    );
    expect(await harness.ask(post("body"))).toContain("served body");
    expect(harness.exchange.failures).toMatchObject([{ failure: "connect" }]);
  });

  it.each([
    ["reset", reset],
    ["closed", hangUp],
  ])("a new connection that is %s before a byte of the answer", async (_name, fault) => {
    const bad = await harness.model(fault);
    const good = await harness.model(serve);
    await harness.start({ endpoints: [bad.endpoint, good.endpoint] });
    expect(await harness.ask(post("body"))).toContain("served body");
    expect(harness.exchange.failures).toMatchObject([{ endpoint: bad.endpoint, failure: "reset" }]);
    expect(bad.requests).toHaveLength(1);
  });

  it("a reused connection that ends before a byte of the answer", async () => {
    const first = await harness.model((request) => (request.index === 0 ? serve(request) : reset(request)));
    const second = await harness.model(serve);
    await harness.start({ endpoints: [first.endpoint, second.endpoint] });
    expect(await harness.ask(post("one"))).toContain("served one");
    expect(await harness.ask(post("two"))).toContain("served two");
    expect(first.sockets).toHaveLength(1);
    expect(second.requests).toHaveLength(1);
  });

  it("a 503, whose answer is dropped and whose connection is not used again", async () => {
    const bad = await harness.model(busy);
    const good = await harness.model(serve);
    await harness.start({ endpoints: [bad.endpoint, good.endpoint] });
    const text = await harness.ask(post("body"));
    expect(text).toContain("served body");
    expect(text).not.toContain("x-who");
    expect(harness.exchange.failures).toMatchObject([{ failure: "status" }]);
    expect(harness.exchange.status).toBe(200);
    await poll("the connection is gone", () => bad.open() === 0);
  });

  it.each([1, 3])("the whole body is sent again, once to each, in %i pieces", async (pieces) => {
    const body = "0123456789".repeat(30_000);
    const bodies: string[] = [];
    const bad = await harness.model((request) => {
      bodies.push(request.body.toString());
      reset(request);
    });
    const good = await harness.model((request) => {
      bodies.push(request.body.toString());
      serve(request);
    });
    const endpoints = [bad.endpoint, good.endpoint];
    await harness.start({
      endpoints,
      decide(exchange) {
        const routed = exchange.route(endpoints);
        if (pieces === 1) return routed;
        // As where a model name was spliced: a small piece between two large ones.
        const whole = Buffer.concat(exchange.body);
        return { ...routed, body: [whole.subarray(0, 100), whole.subarray(100, 120), whole.subarray(120)] };
      },
    });
    const text = await harness.ask(post(body));
    expect(text).toContain("served 0123");
    expect(bodies).toEqual([body, body]);
    for (const { head } of [...bad.requests, ...good.requests]) {
      expect(head.match(/content-length: (.*)/g)).toEqual([`content-length: ${body.length}`]);
      expect(head).not.toContain("transfer-encoding");
    }
  });

  it("header-only requests, too", async () => {
    const good = await harness.model(serve);
    await harness.start({ endpoints: [await deadEndpoint(), good.endpoint] });
    expect(await harness.ask(get())).toContain("served");
  });

  it("only as often as allowed, one endpoint each", async () => {
    const servers = [];
    for (let n = 0; n < 5; n++) servers.push(await harness.model(reset));
    await harness.start({ endpoints: servers.map(({ endpoint }) => endpoint) }, { maxRetries: 3 });
    const text = await harness.ask(post("body"));
    expect(text).toMatch(/^HTTP\/1\.1 502 /);
    expect(text).toContain("x-gateway-error: upstream-reset");
    expect(servers.map(({ requests }) => requests.length)).toEqual([1, 1, 1, 1, 0]);
    expect(harness.exchange.failures).toHaveLength(4);
    expect(harness.exchange.ends).toEqual(["rejected"]);
  });

  it("not at all with no retries", async () => {
    const good = await harness.model(serve);
    await harness.start({ endpoints: [await deadEndpoint(), good.endpoint] }, { maxRetries: 0 });
    const text = await harness.ask(post("body"));
    expect(text).toMatch(/^HTTP\/1\.1 503 /);
    expect(text).toContain("x-gateway-error: upstream-connect");
    expect(harness.exchange.failures).toHaveLength(1);
    expect(good.requests).toHaveLength(0);
  });
});

describe("when nobody is left", () => {
  it("connect failures end in the rejection of the exchange", async () => {
    await harness.start({ endpoints: [await deadEndpoint(), await deadEndpoint()] });
    const text = await harness.ask(post("body"));
    expect(text).toMatch(/^HTTP\/1\.1 503 /);
    expect(text).toContain("x-gateway-error: upstream-connect");
    expect(JSON.parse(text.split("\r\n\r\n")[1]!)).toMatchObject({
      error: { type: "upstream_error", param: null, code: 503 },
    });
    expect(harness.exchange.ends).toEqual(["rejected"]);
  });

  it("the last 503 is relayed as it came, by the list or by the number of retries", async () => {
    const servers = [];
    for (let n = 0; n < 4; n++) servers.push(await harness.model(busy));
    await harness.start({ endpoints: servers.map(({ endpoint }) => endpoint) });
    const text = await harness.ask(post("body"));
    expect(text).toMatch(/^HTTP\/1\.1 503 /);
    expect(text).toContain("x-who: me");
    expect(text).toMatch(/busy$/);
    expect(text).not.toContain("x-gateway-error");
    expect(servers.map(({ requests }) => requests.length)).toEqual([1, 1, 1, 0]);
    expect(harness.exchange.status).toBe(503);
    expect(harness.exchange.ends).toEqual(["complete"]);
  });

  it("a 503 from the only endpoint is relayed", async () => {
    const only = await harness.model(busy);
    await harness.start({ endpoints: [only.endpoint] });
    expect(await harness.ask(post("body"))).toContain("x-who: me");
    expect(only.requests).toHaveLength(1);
  });
});

describe("D-48: what does not move on", () => {
  it.each([200, 400, 404, 429, 500, 502, 504])("a %i", async (status) => {
    const first = await harness.model(({ socket }) => socket.write(answerBytes(status, "final")));
    const second = await harness.model(serve);
    await harness.start({ endpoints: [first.endpoint, second.endpoint] });
    expect(await harness.ask(post("body"))).toMatch(new RegExp(`^HTTP/1\\.1 ${status} .*final$`, "s"));
    expect(second.requests).toHaveLength(0);
  });

  it("statuses are configurable", async () => {
    const first = await harness.model(({ socket }) => socket.write(answerBytes(429, "full")));
    const second = await harness.model(busy);
    await harness.start({ endpoints: [first.endpoint, second.endpoint] }, { retryStatuses: [429] });
    expect(await harness.ask(post("body"))).toMatch(/^HTTP\/1\.1 503 /);
  });

  it.each([
    ["half a status line", "HTTP/1.1 2"],
    ["half the headers", "HTTP/1.1 200 OK\r\nx-a: b\r\n"],
    ["an interim answer", "HTTP/1.1 102 Processing\r\n\r\n"],
    ["no HTTP", "hello\r\n"],
  ])("a connection that ends after %s", async (_name, bytes) => {
    const first = await harness.model(({ socket }) => socket.end(bytes));
    const second = await harness.model(serve);
    await harness.start({ endpoints: [first.endpoint, second.endpoint] });
    const text = await harness.ask(post("body"));
    expect(text).toMatch(/^HTTP\/1\.1 502 /);
    expect(text).toContain("x-gateway-error: upstream-reset");
    expect(second.requests).toHaveLength(0);
    expect(harness.exchange.ends).toEqual(["rejected"]);
  });

  it.each([
    ["a length", "content-length: 10\r\n\r\n"],
    ["chunks", "transfer-encoding: chunked\r\n\r\n"],
    ["events", "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"],
  ])("a connection that is reset right behind the header of a 200 with %s", async (_name, headers) => {
    const first = await harness.model(({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\n${headers}`);
    });
    const second = await harness.model(serve);
    await harness.start({ endpoints: [first.endpoint, second.endpoint] });
    const client = await harness.client();
    client.send(post("body"));
    await poll("the header", () => client.text().includes("\r\n\r\n"));
    first.sockets[0]!.resetAndDestroy();
    await poll("the cut", client.closed);
    expect(client.text().match(/HTTP\/1\.1 200/g)).toHaveLength(1);
    expect(client.text()).not.toContain("served");
    expect(client.text()).not.toContain("0\r\n\r\n");
    expect(second.requests).toHaveLength(0);
    expect(harness.exchange.failures).toEqual([]);
    expect(harness.exchange.ends).toEqual(["interrupted"]);
  });

  it("an answer that is not HTTP is a 502", async () => {
    const model = await harness.model(({ socket }) => socket.write("HTTP/1.1 999999 X\r\ncontent-length: 0\r\n\r\n"));
    await harness.start({ endpoints: [model.endpoint] });
    expect(await harness.ask(post("body"))).toMatch(/^HTTP\/1\.1 502 /);
  });

  it("an interim answer alone does not count as the answer", async () => {
    const model = await harness.model(({ socket }) =>
      socket.write(`HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${answerBytes(200, "real")}`),
    );
    await harness.start({ endpoints: [model.endpoint] });
    const text = await harness.ask(post("body"));
    expect(text).toMatch(/^HTTP\/1\.1 200 .*real$/s);
    expect(text).not.toContain("link: x");
  });

  it("D-49: a body that does not fit the replay buffer; the first error is the answer", async () => {
    const good = await harness.model(serve);
    await harness.start({ endpoints: [await deadEndpoint(), good.endpoint] }, { limits: { replayBytes: 100 } });
    expect(await harness.ask(post("x".repeat(100)))).toContain("served x");
    expect(harness.exchange.ends).toEqual(["complete"]);
    const text = await harness.ask(post("x".repeat(101)));
    expect(text).toMatch(/^HTTP\/1\.1 503 /);
    expect(text).toContain("ECONNREFUSED");
    expect(good.requests).toHaveLength(1);
    // It is not even kept, though the endpoint that failed is still reported.
    expect(harness.exchange.bodyReleased).toBeGreaterThan(0);
    expect(harness.exchange.failures).toHaveLength(1);
  });

  it("a body that cannot be sent again leaves the byte budget while its answer is waited for", async () => {
    const late = await harness.model(() => {});
    await harness.start({ endpoints: [late.endpoint] }, { limits: { replayBytes: 2 } });
    const client = await harness.client();
    client.send(post("long"));
    await poll("the server to have it", () => late.requests.length === 1);
    expect(harness.exchange.bodyReleased).toBeGreaterThan(0);
    expect(harness.exchange.status).toBeUndefined();
  });

  describe("a long body leaves the byte budget while its answer is waited for", () => {
    const long = "x".repeat(300_000);
    const lengthOf = ({ body }: { readonly body: Buffer }) => body.length;

    it.each([
      ["in several pieces", {}],
      ["in one piece", { routed: { body: [Buffer.from(long)], bodyLength: long.length } }],
    ])("where there is no second endpoint: %s", async (_, plan) => {
      const late = await harness.model(() => {});
      await harness.start({ endpoints: [late.endpoint], ...plan });
      const client = await harness.client();
      client.send(post(long));
      await poll("the server to have it", () => late.requests.length === 1);
      await poll("it to be let go", () => harness.exchange.bodyReleased === 1);
      expect([lengthOf(late.requests[0]!), harness.exchange.status]).toEqual([300_000, undefined]);
      expect(late.requests[0]!.head.match(/content-length: 300000/gi)).toHaveLength(1);
      late.requests[0]!.socket.write(answerBytes(200, "done"));
      await poll("the answer", () => client.text().includes("done"));
      expect(harness.exchange.breaches).toEqual([]);
    });

    it("with the last retry, and not before it", async () => {
      const full = await harness.model(({ socket }) => setImmediate(() => socket.write(answerBytes(503, "busy"))));
      const late = await harness.model(() => {});
      let before = -1;
      await harness.start({
        endpoints: [full.endpoint, late.endpoint],
        atChunk: (exchange) => {
          before = exchange.bodyReleased;
          return undefined;
        },
      });
      const client = await harness.client();
      client.send(post(long));
      await poll("the second server to have it", () => late.requests.length === 1);
      await poll("it to be let go", () => harness.exchange.bodyReleased === 1);
      expect([before, lengthOf(full.requests[0]!), lengthOf(late.requests[0]!)]).toEqual([0, 300_000, 300_000]);
      expect(harness.exchange.status).toBeUndefined();
    });

    it("not where another endpoint may be asked", async () => {
      const late = await harness.model(() => {});
      const next = await harness.model(serve);
      await harness.start({ endpoints: [late.endpoint, next.endpoint] });
      const client = await harness.client();
      client.send(post(long));
      await poll("the server to have it", () => late.requests.length === 1);
      expect(harness.exchange.bodyReleased).toBe(0);
      late.requests[0]!.socket.resetAndDestroy();
      await poll("the answer of the next", () => client.text().includes("served x"));
      expect(lengthOf(next.requests[0]!)).toBe(300_000);
    });

    it("not where it is short: that would cost more than it gives", async () => {
      const late = await harness.model(() => {});
      await harness.start({ endpoints: [late.endpoint] });
      const client = await harness.client();
      client.send(post("short"));
      await poll("the server to have it", () => late.requests.length === 1);
      expect(harness.exchange.bodyReleased).toBe(0);
    });
  });

  it("D-49: a 503 for a body that was not kept is relayed", async () => {
    const first = await harness.model(busy);
    const second = await harness.model(serve);
    await harness.start({ endpoints: [first.endpoint, second.endpoint] }, { limits: { replayBytes: 2 } });
    expect(await harness.ask(post("long"))).toContain("x-who: me");
    expect(second.requests).toHaveLength(0);
  });

  it("a request nobody can be sent blames no endpoint", async () => {
    const model = await harness.model(serve);
    await harness.start({
      decide: (exchange) => {
        exchange.requestId = "not\nvalid";
        return exchange.route([model.endpoint]);
      },
    });
    expect(await harness.ask(post("body"))).toMatch(/^HTTP\/1\.1 400 /);
    expect(harness.exchange.failures).toEqual([]);
    expect(model.requests).toHaveLength(0);
  });
});

describe("how fast it moves on", () => {
  /** A clock whose timers fire when told; `soon` is served while polling. */
  async function until(clock: VirtualClock, what: string, probe: () => unknown): Promise<void> {
    await poll(what, () => {
      clock.advance(0);
      return probe();
    });
  }

  it("a 503 is followed by a pause that doubles, with jitter; a dead connection by none", async () => {
    const clock = new VirtualClock();
    const servers = [await harness.model(busy), await harness.model(busy), await harness.model(serve)];
    const dead = await deadEndpoint();
    await harness.start(
      { endpoints: [dead, ...servers.map(({ endpoint }) => endpoint)] },
      { clock, random: new SeededRandom(7), maxRetries: 5 },
    );
    const client = await harness.client();
    client.send(post("body"));
    // No time passes until the first 503 was seen.
    await until(clock, "the first 503", () => harness.exchange?.failures.length === 2);
    expect(servers[1]!.requests).toHaveLength(0);
    // The second retry of the request: 50 ms, of which the jitter leaves 25 to 50.
    clock.advance(24);
    expect(servers[1]!.requests).toHaveLength(0);
    clock.advance(26);
    await until(clock, "the second 503", () => harness.exchange.failures.length === 3);
    clock.advance(49);
    expect(servers[2]!.requests).toHaveLength(0);
    clock.advance(51);
    await until(clock, "the answer", () => client.text().includes("served body"));
    await poll("the end", client.closed);
  });

  it("a client that leaves during the pause gets no further attempt", async () => {
    const clock = new VirtualClock();
    const bad = await harness.model(busy);
    const good = await harness.model(serve);
    await harness.start({ endpoints: [bad.endpoint, good.endpoint] }, { clock });
    const client = await harness.client();
    client.send(post("body", ""));
    await until(clock, "the 503", () => harness.exchange?.failures.length === 1);
    client.socket.destroy();
    await until(clock, "the end", () => harness.exchange.ended);
    clock.advance(1_000);
    await poll("no connection", () => bad.open() === 0);
    expect(good.requests).toHaveLength(0);
    expect(harness.exchange.ends).toEqual(["client-gone"]);
  });

  it("D-48 D-60: a connection that is not there after 2 s moves on", async () => {
    const clock = new VirtualClock();
    const silent: Socket[] = [];
    const good = await harness.model(serve);
    const nowhere = loopbackEndpoint(9);
    await harness.start(
      { endpoints: [nowhere, good.endpoint] },
      {
        clock,
        connect(options) {
          const socket = new Socket();
          if ("port" in options && options.port === 9) silent.push(socket);
          else socket.connect(options);
          return socket;
        },
      },
    );
    const client = await harness.client();
    client.send(post("body"));
    await until(clock, "the attempt", () => silent.length === 1);
    clock.advance(1_999);
    expect(harness.exchange.failures).toHaveLength(0);
    clock.advance(1);
    await until(clock, "the answer", () => client.text().includes("served body"));
    expect(harness.exchange.failures).toMatchObject([{ endpoint: nowhere, failure: "timeout" }]);
    expect(silent[0]!.destroyed).toBe(true);
    await poll("the end", client.closed);
  });

  it("D-48: refused, never connected, reset and busy: one after the other, in the order of the list", async () => {
    const clock = new VirtualClock();
    const silent: Socket[] = [];
    const servers = [await harness.model(reset), await harness.model(busy), await harness.model(serve)];
    const nowhere = loopbackEndpoint(9);
    const list = [await deadEndpoint(), nowhere, ...servers.map(({ endpoint }) => endpoint)];
    await harness.start(
      { endpoints: list },
      {
        clock,
        maxRetries: 4,
        connect(options) {
          const socket = new Socket();
          if ("port" in options && options.port === 9) silent.push(socket);
          else socket.connect(options);
          return socket;
        },
      },
    );
    const client = await harness.client();
    client.send(post("body"));
    await until(clock, "the attempt", () => silent.length === 1);
    clock.advance(2_000);
    await until(clock, "the 503", () => harness.exchange.failures.length === 4);
    clock.advance(250);
    await until(clock, "the answer", () => client.text().includes("served body"));
    expect(harness.exchange.failures.map(({ endpoint, failure }) => [endpoint.port, failure])).toEqual(
      (["connect", "timeout", "reset", "status"] as const).map((failure, n) => [list[n]!.port, failure]),
    );
    expect(harness.metrics.retries).toEqual(["connect", "timeout", "reset", "status"]);
    expect(servers.map(({ requests }) => requests.map(({ body }) => body.toString()))).toEqual(Array(3).fill(["body"]));
    await poll("the end", client.closed);
  });

  it("a connection that is there when the time is up counts: this process stood still, not the server", () => {
    const clock = new VirtualClock();
    const socket = new Socket();
    const outcomes: unknown[] = [];
    const open = connector({ clock, timeout: 2_000, connect: () => socket });
    open({ hostname: "127.0.0.1", port: "9" }, (...outcome) => outcomes.push(outcome));
    // At the same moment, after the timer.
    clock.after(2_000, () => socket.emit("connect"));
    clock.advance(5_000);
    expect(outcomes).toEqual([[null, socket]]);
    expect(socket.destroyed).toBe(false);
    socket.destroy();
  });

  it("the connection attempt's timer does not outlive it", async () => {
    const clock = new VirtualClock();
    const server = createServer((socket) => socket.end());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const open = connector({ clock, timeout: 2_000 });
    const options = { hostname: "127.0.0.1", port: String(port) };
    const socket = await new Promise<Socket>((resolve, reject) =>
      open(options, (...outcome) => (outcome[0] === null ? resolve(outcome[1]) : reject(outcome[0]))),
    );
    expect(clock.pending).toBe(0);
    socket.destroy();
    await new Promise((resolve) => server.close(resolve));
    await expect(
      new Promise((_resolve, reject) => open(options, (...outcome) => reject(outcome[0]))),
    ).rejects.toMatchObject({
      code: "ECONNREFUSED",
    });
    expect(clock.pending).toBe(0);
  });
});

describe("answers in pieces after a retry", () => {
  it("the answer of the second endpoint streams", async () => {
    const bad = await harness.model(hangUp);
    const good = await harness.model(({ socket }) =>
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("a")}`),
    );
    await harness.start({ endpoints: [bad.endpoint, good.endpoint] });
    const client = await harness.client();
    client.send(post("body"));
    await poll("the first piece", () => client.text().endsWith("1\r\na\r\n"));
    good.sockets[0]!.write(`${chunkBytes("b")}0\r\n\r\n`);
    await poll("the end", client.closed);
    expect(client.text()).toMatch(/1\r\na\r\n1\r\nb\r\n0\r\n\r\n$/);
  });
});
