import { afterEach, describe, expect, it } from "vitest";
import { answerBytes, chunkBytes } from "../../../test/support/loopback.ts";
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

async function echoing(): Promise<void> {
  const model = await harness.model(({ socket, head, body }) => socket.write(answerBytes(200, `${head}\n\n${body}`)));
  await harness.start({ endpoints: [model.endpoint] });
}

describe("a request through the proxy", () => {
  it("reaches the first endpoint with its body and comes back", async () => {
    await echoing();
    const text = await harness.ask(post("hello"));
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text).toContain("POST /v1/completions HTTP/1.1");
    expect(text).toContain("content-length: 5");
    expect(text).toMatch(/hello$/);
    expect(harness.exchange.ends).toEqual(["complete"]);
    expect(harness.exchange.text).toBe("");
    expect(harness.exchange.bodyReleased).toBeGreaterThan(0);
  });

  it("D-51 D-26: connection, Connection-listed and control headers stay behind, the rest arrives", async () => {
    await echoing();
    const text = await harness.ask(
      post(
        "{}",
        "connection: close, x-listed\r\nx-listed: 1\r\nkeep-alive: 5\r\nproxy-authorization: x\r\ntrailer: y\r\n" +
          "te: gzip\r\nX-Gateway-Destination-Endpoint: 1.2.3.4:5\r\nx-prefiller-host-port: 1.2.3.4:5\r\n" +
          "x-llm-d-inference-objective: gold\r\nX-Kept: a\r\nx-kept: b\r\nauthorization: Bearer t\xfc\r\n",
      ),
    );
    for (const gone of [
      "x-listed",
      "keep-alive: 5",
      "proxy-auth",
      "trailer",
      "\r\nte: ",
      "destination",
      "prefiller",
      "objective",
    ])
      expect(text).not.toContain(gone);
    expect(text).toContain("x-kept: a\r\nx-kept: b\r\nauthorization: Bearer t");
    expect(text).toContain("host: gw");
    // The exchange decides with them, though.
    expect(harness.exchange.headers?.get("x-llm-d-inference-objective")).toBe("gold");
    expect(harness.exchange.headers?.keys.slice(0, 4)).toEqual([":method", ":path", ":authority", ":scheme"]);
    expect(harness.exchange.headers?.get("authorization")).toBe("Bearer t\xfc");
  });

  it.each(["a", "b, a", "A ,b"])("D-51: every hop-by-hop header stays behind, with Connection: %s", async (listed) => {
    await echoing();
    const hops = ["keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "trailer", "upgrade"];
    const lines = [
      ...hops.map((name) => `${name}: hop`),
      "A: hop",
      "TE: hop",
      `Connection: close, ${listed}`,
      "c: kept",
    ];
    const text = await harness.ask(post("{}", `${lines.join("\r\n")}\r\n`));
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text).toContain("c: kept");
    expect(text).not.toContain(": hop");
    for (const name of [...hops, "te", "a"]) expect(harness.exchange.headers?.get(name)).toBeUndefined();
  });

  it("D-51: te: trailers is end to end; two Connection headers count both", async () => {
    await echoing();
    const text = await harness.ask(
      post("{}", "te: trailers\r\nconnection: close\r\nconnection: x-one\r\nx-one: hop\r\nx-two: kept\r\n"),
    );
    expect(text).toContain("te: trailers");
    expect(text).toContain("x-two: kept");
    expect(text).not.toContain("hop");
  });

  it("adds the request id of the exchange and the forwarding headers", async () => {
    await echoing();
    const first = await harness.ask(post("{}", "connection: close\r\nx-forwarded-for: 9.9.9.9\r\n"));
    expect(first).toContain("x-forwarded-for: 9.9.9.9, 127.0.0.1");
    expect(first).toContain("x-forwarded-proto: http");
    expect(first).toContain("x-request-id: generated-id");
    const second = await harness.ask(post("{}", "connection: close\r\nx-request-id: mine\r\n"));
    expect(second).toContain("x-request-id: mine");
    expect(second.match(/x-request-id/g)).toHaveLength(1);
  });

  it("D-59: a header-only request is decided with its headers", async () => {
    await echoing();
    const text = await harness.ask(get("/v1/models?a=b"));
    expect(text).toContain("GET /v1/models?a=b HTTP/1.1");
    expect(harness.exchange.headersEnded).toBe(true);
    expect(harness.exchange.body).toEqual([]);
    const options = await harness.ask(get("/v1/models", "connection: close\r\n", "OPTIONS"));
    expect(options).toContain("OPTIONS /v1/models HTTP/1.1");
    await harness.ask(post("", "connection: close\r\n"));
    expect(harness.exchange.headersEnded).toBe(true);
  });

  it("D-59: answers to HEAD and with 204 and 304 have no body", async () => {
    const answers = [
      "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n",
      "HTTP/1.1 204 No Content\r\n\r\n",
      'HTTP/1.1 304 Not Modified\r\netag: "a"\r\n\r\n',
    ];
    const model = await harness.model(({ socket, index }) => socket.write(answers[index]!));
    await harness.start({ endpoints: [model.endpoint] });
    const head = await harness.ask(get("/v1/models", "connection: close\r\n", "HEAD"));
    expect(head).toContain("content-length: 99");
    for (const text of [head, await harness.ask(get()), await harness.ask(get())]) {
      expect(text.split("\r\n\r\n")[1]).toBe("");
      expect(text).not.toContain("transfer-encoding");
      expect(harness.exchange.answerEnded).toBe(true);
    }
    expect(harness.exchanges.map(({ status }) => status)).toEqual([200, 204, 304]);
  });

  it("D-51: repeated answer headers stay repeated, those of the connection go", async () => {
    const model = await harness.model(({ socket }) =>
      socket.write(
        answerBytes(
          201,
          "ok",
          "Set-Cookie: a=1\r\nset-cookie: b=2\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=9\r\nx-bytes: \xe9\r\n",
        ),
      ),
    );
    await harness.start({ endpoints: [model.endpoint] });
    const text = await harness.ask(post("{}"));
    expect(text).toMatch(/^HTTP\/1\.1 201 /);
    expect(text).toContain("set-cookie: a=1\r\nset-cookie: b=2");
    expect(text).toContain("content-length: 2");
    expect(text).toContain("x-bytes: ");
    expect(text).not.toContain("x-hop");
    expect(text).not.toContain("timeout=9");
    expect(harness.exchange.answerHeaders?.get("x-bytes")).toBe("\u00c3\u00a9");
  });

  it("D-51: every hop-by-hop header of an answer stays behind, Connection-listed ones too", async () => {
    const hops = [
      "keep-alive",
      "proxy-connection",
      "proxy-authenticate",
      "proxy-authorization",
      "te",
      "trailer",
      "upgrade",
    ];
    const headers = [
      ...hops.map((name) => `${name}: hop`),
      "connection: X-Listed",
      "connection: close",
      "x-listed: hop",
    ];
    const model = await harness.model(({ socket }) =>
      socket.write(
        `HTTP/1.1 200 OK\r\n${headers.join("\r\n")}\r\nx-kept: 1\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("ok")}0\r\n\r\n`,
      ),
    );
    await harness.start({ endpoints: [model.endpoint] });
    const client = await harness.client();
    client.send(post("{}", ""));
    await poll("the end", () => client.text().endsWith("0\r\n\r\n"));
    expect(client.text()).toContain("x-kept: 1");
    expect(client.text()).not.toContain("hop");
    for (const name of [...hops, "x-listed", "connection", "transfer-encoding"])
      expect(harness.exchange.answerHeaders?.get(name)).toBeUndefined();
    // The connection the server wanted closed is its own: the client's goes on.
    expect(client.closed()).toBe(false);
    await poll("the model server's connection ends", () => model.open() === 0);
  });

  it("D-59: both connections are used again", async () => {
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "ok")));
    await harness.start({ endpoints: [model.endpoint] });
    const client = await harness.client();
    for (let n = 1; n <= 3; n++) {
      client.send(post("{}", ""));
      await poll(`answer ${n}`, () => client.text().split("HTTP/1.1 200").length === n + 1);
    }
    expect(model.sockets).toHaveLength(1);
    expect(client.closed()).toBe(false);
    expect(harness.proxy.connections).toBe(1);
  });

  it("pipelined requests are served one after the other, in order", async () => {
    const open: string[] = [];
    const model = await harness.model(({ socket, body }) => {
      open.push(body.toString());
      setImmediate(() => socket.write(answerBytes(200, `answer to ${open.at(-1)}`)));
    });
    await harness.start({ endpoints: [model.endpoint] });
    const client = await harness.client();
    client.send(["one", "two", "three"].map((body) => post(body, "")).join("") + get());
    await poll("the end", client.closed);
    expect(client.text().match(/answer to (?:one|two|three|)/g)).toEqual([
      "answer to one",
      "answer to two",
      "answer to three",
      "answer to ",
    ]);
  });

  it("a client that pipelines without end is cut", async () => {
    const model = await harness.model(() => {});
    await harness.start({ endpoints: [model.endpoint] }, { limits: { pipelined: 8 } });
    const client = await harness.client();
    client.send(get("/", "").repeat(9));
    await poll("the first request arrives", () => model.requests.length === 1);
    expect(client.closed()).toBe(false);
    expect(await harness.ask(get("/", "").repeat(20))).toBe("");
    expect(harness.exchanges).toHaveLength(1);
  });

  it("D-59: 100 Continue comes once the headers are accepted, and not when they are refused", async () => {
    await echoing();
    const head = "POST / HTTP/1.1\r\nhost: gw\r\nconnection: close\r\ncontent-length: 4\r\nexpect: 100-continue\r\n";
    const client = await harness.client();
    client.send(`${head}\r\n`);
    await poll("the 100", () => client.text().startsWith("HTTP/1.1 100 Continue\r\n\r\n"));
    client.send("body");
    await poll("the end", client.closed);
    expect(client.text()).toMatch(/body$/);
    expect(client.text()).not.toContain("expect");
    const refused = await harness.ask(`${head.replace("length: 4", "length: 99999999999")}\r\n`);
    expect(refused).toMatch(/^HTTP\/1\.1 413 /);
    const unknown = await harness.ask(get("/", "expect: cake\r\n"));
    expect(unknown).toMatch(/^HTTP\/1\.1 417 /);
  });

  it("chunked request bodies arrive with a length", async () => {
    await echoing();
    const text = await harness.ask(
      `POST / HTTP/1.1\r\nhost: gw\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("abc")}${chunkBytes("def")}0\r\n\r\n`,
    );
    expect(text).toContain("content-length: 6");
    expect(text).not.toContain("transfer-encoding");
    expect(text).toMatch(/abcdef$/);
  });

  it("a routed body in several pieces goes out as one", async () => {
    const model = await harness.model(({ socket, head, body }) => socket.write(answerBytes(200, `${head}\n${body}`)));
    const pieces = ["ab", "cde", "f"].map((text) => Buffer.from(text));
    await harness.start({
      decide: (exchange) => ({ ...exchange.route([model.endpoint]), body: pieces, bodyLength: 6 }),
    });
    const text = await harness.ask(post("original"));
    expect(text).toContain("content-length: 6");
    expect(text).toMatch(/abcdef$/);
  });

  it("an HTTP/1.0 client gets an answer that ends with the connection", async () => {
    const model = await harness.model(({ socket }) =>
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("abc")}0\r\n\r\n`),
    );
    await harness.start({ endpoints: [model.endpoint] });
    const text = await harness.ask("GET / HTTP/1.0\r\nhost: gw\r\n\r\n");
    expect(text.split("\r\n\r\n")[1]).toBe("abc");
    expect(text).not.toContain("chunked");
  });

  it("the absolute form for our own authority is a path", async () => {
    await echoing();
    const text = await harness.ask(get("http://GW/v1/models"));
    expect(text).toContain("GET /v1/models HTTP/1.1");
  });

  it("the exchange may hold the body back and let it go on", async () => {
    const model = await harness.model(({ socket, body }) => socket.write(answerBytes(200, String(body.length))));
    let holding = true;
    await harness.start(
      {
        endpoints: [model.endpoint],
        atChunk(exchange) {
          if (holding) exchange.wire.pauseRequest();
          return undefined;
        },
      },
      { limits: { bodyBytes: 64 * 1024 * 1024 } },
    );
    const client = await harness.client();
    const body = Buffer.alloc(8 * 1024 * 1024, "x");
    client.send(`POST / HTTP/1.1\r\nhost: gw\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n`);
    client.send(body);
    await poll("the first piece", () => harness.exchange?.body.length === 1);
    const held = harness.exchange.body[0]!.length;
    // Nothing moves while it is held: the client cannot hand over its body.
    expect(client.socket.writableLength).toBeGreaterThan(0);
    expect(harness.exchange.body).toHaveLength(1);
    expect(held).toBeLessThan(1024 * 1024);
    holding = false;
    harness.exchange.wire.resumeRequest();
    await poll("the answer", client.closed);
    expect(client.text()).toMatch(new RegExp(`${body.length}$`));
  });
});

describe("refusals", () => {
  it("a body that the exchange has stopped and lets go gets its answer, and the connection ends", async () => {
    await harness.start({
      atChunk(exchange) {
        exchange.wire.pauseRequest();
        return undefined;
      },
    });
    const client = await harness.client();
    client.send("POST / HTTP/1.1\r\nhost: gw\r\ncontent-length: 100\r\n\r\nfirst piece");
    await poll("the first piece", () => harness.exchange?.body.length === 1);
    harness.exchange.wire.evict(new Rejection("body_stalled", "too slow"));
    await poll("the answer", () => client.text().includes("}}"));
    expect(client.text()).toMatch(/^HTTP\/1\.1 408 /);
    expect(client.text()).toMatch(/\r\nconnection: close\r\n/i);
    expect([harness.exchange.ends, harness.exchange.breaches]).toEqual([["rejected"], []]);
  });

  it("a rejection is answered in the OpenAI shape with its slug and the dropped-reason header", async () => {
    await harness.start({ decide: () => new Rejection("saturated", "too busy") });
    const client = await harness.client();
    client.send(post("{}", ""));
    await poll("the answer", () => client.text().includes("}}"));
    const [head, body] = client.text().split("\r\n\r\n");
    expect(head).toMatch(/^HTTP\/1\.1 429 /);
    expect(head).toContain("content-type: application/json");
    expect(head).toContain("x-gateway-error: saturated");
    expect(head).toContain("x-llm-d-request-dropped-reason: rejected-saturated");
    expect(JSON.parse(body!)).toEqual({
      error: {
        message: "too busy",
        type: "overloaded_error",
        param: null,
        help: "docs/reference/errors.md#saturated",
        code: 429,
      },
    });
    expect(harness.exchange.ends).toEqual(["rejected"]);
    // The request was read completely: the connection goes on.
    expect(client.closed()).toBe(false);
  });

  it("a header-only request can be refused, and one at its headers or in its body", async () => {
    const none = new Rejection("no_endpoints", "no endpoint");
    await harness.start({ decide: () => none, atHeaders: () => none }, { timers: { linger: 40 } });
    expect(await harness.ask(get())).toContain("x-gateway-error: no-endpoint");
    const head = await harness.ask(get("/", "connection: close\r\n", "HEAD"));
    expect(head).toMatch(/^HTTP\/1\.1 503 /);
    expect(head.split("\r\n\r\n")[1]).toBe("");
    const early = await harness.ask("POST / HTTP/1.1\r\nhost: gw\r\ncontent-length: 100\r\n\r\npart");
    expect(early).toMatch(/^HTTP\/1\.1 503 /);
    expect(early).toContain("connection: close".replace("c", "C"));
  });

  it("a decision that waits may be a rejection, or come too late for the client", async () => {
    const waiting: ((rejection: Rejection) => void)[] = [];
    await harness.start({ decide: () => new Promise((resolve) => waiting.push(resolve)) });
    const asked = harness.ask(post("{}"));
    await poll("the queue", () => waiting.length === 1);
    waiting[0]!(new Rejection("saturated", "waited in vain"));
    expect(await asked).toContain("waited in vain");
    const client = await harness.client();
    client.send(post("{}", ""));
    await poll("the queue", () => waiting.length === 2);
    client.socket.destroy();
    await poll("the end", () => harness.exchange.ended);
    expect(harness.exchange.ends).toEqual(["client-gone"]);
    waiting[1]!(new Rejection("saturated", "nobody hears this"));
  });

  it("a failure of our own is a 500, told to the caller, and the process goes on", async () => {
    await harness.start({
      decide(exchange) {
        if (exchange.text === "reject") return Promise.reject(new Error("bug two"));
        throw new Error("bug one");
      },
    });
    expect(await harness.ask(post("throw"))).toMatch(/^HTTP\/1\.1 500 .*bug one/s);
    expect(await harness.ask(post("reject"))).toMatch(/^HTTP\/1\.1 500 .*bug two/s);
    expect(await harness.ask(get())).toMatch(/^HTTP\/1\.1 500 .*bug one/s);
    expect(harness.errors).toHaveLength(3);
    expect(harness.exchanges.map(({ ends }) => ends)).toEqual([["error"], ["error"], ["error"]]);
  });

  it("a failure of our own in the middle of an answer cuts it", async () => {
    const model = await harness.model(({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("fine")}`);
    });
    await harness.start({
      endpoints: [model.endpoint],
      atAnswer(_exchange, chunk) {
        if (Buffer.from(chunk).includes("bad")) throw new Error("bug three");
        return chunk;
      },
    });
    const client = await harness.client();
    client.send(post("{}", ""));
    await poll("the answer begins", () => client.text().includes("fine"));
    model.sockets[0]!.write(chunkBytes("bad"));
    await poll("the cut", client.closed);
    const text = client.text();
    expect(text).not.toContain("bad");
    expect(text).not.toMatch(/0\r\n\r\n$/);
    expect(harness.exchange.ends).toEqual(["error"]);
    expect(harness.errors).toHaveLength(1);
  });
});

describe("starting and ending", () => {
  it("a taken port is a typed error that names it", async () => {
    await harness.start();
    const again = harness.start({}, { listeners: [{ host: "127.0.0.1", port: harness.proxy.port }] });
    await expect(again).rejects.toMatchObject({ code: "LISTEN_FAILED" });
    await expect(again).rejects.toThrow(`127.0.0.1:${harness.proxy.port}`);
  });

  it("drain lets the answers in progress end, closes idle connections and takes no new ones", async () => {
    const model = await harness.model(({ socket }) =>
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("begun")}`),
    );
    await harness.start({ endpoints: [model.endpoint] });
    const idle = await harness.client();
    const busy = await harness.client();
    busy.send(post("{}", ""));
    await poll("the answer begins", () => busy.text().includes("begun"));
    const drained = harness.proxy.drain();
    await poll("the idle connection ends", idle.closed);
    expect(busy.closed()).toBe(false);
    await expect(harness.client()).rejects.toThrow("ECONNREFUSED");
    model.sockets[0]!.write(`${chunkBytes("ended")}0\r\n\r\n`);
    await drained;
    await poll("the busy connection ends", busy.closed);
    expect(busy.text()).toContain("ended\r\n0\r\n\r\n");
    expect(harness.exchange.ends).toEqual(["complete"]);
  });

  it("closeAfterAnswers still takes connections and requests, and each answer ends its connection", async () => {
    const model = await harness.model(({ socket }) => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
    await harness.start({ endpoints: [model.endpoint] });
    const idle = await harness.client();
    harness.proxy.closeAfterAnswers();
    const later = await harness.client();
    for (const client of [idle, later]) {
      client.send(post("{}", ""));
      await poll("the connection ends with its answer", client.closed);
      expect(client.text()).toMatch(/^HTTP\/1.1 200 OK\r\n(.*\r\n)*connection: close\r\n/i);
      expect(client.text()).toContain("\r\n\r\nok");
    }
    expect(harness.exchanges.map(({ ends }) => ends)).toEqual([["complete"], ["complete"]]);
  });

  it("close cuts what is in progress", async () => {
    const model = await harness.model(() => {});
    await harness.start({ endpoints: [model.endpoint] });
    const client = await harness.client();
    client.send(post("{}", ""));
    await poll("the request arrives", () => model.requests.length === 1);
    await harness.proxy.close();
    await poll("the cut", client.closed);
    await poll("the model's connection ends", () => model.open() === 0);
    expect(harness.exchange.ends).toEqual(["client-gone"]);
  });
});
