import { constants } from "node:http2";
import { connect } from "node:net";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { type ClientAuthority, clientAuthority } from "../../../test/support/certificates.ts";
import type { FakePlan } from "../../../test/support/fake-exchange.ts";
import { field, frame, u32 } from "../../../test/support/h2-peer.ts";
import { answerBytes, chunkBytes } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { ProxyHarness } from "../../../test/support/proxy-harness.ts";
import {
  askSession,
  h2Session,
  type RawTls,
  rawTls,
  replyOf,
  type TlsClientOptions,
} from "../../../test/support/tls-client.ts";
import { FRAME, PREFACE } from "../../base/grpc/h2/protocol.ts";
import { jsonAnswer, type OwnAnswer } from "./local-answer.ts";
import type { ProxyOptions } from "./options.ts";

let authority: ClientAuthority;
beforeAll(async () => {
  authority = await clientAuthority();
});

let harness: ProxyHarness;
const cleanUps: (() => void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
  await harness?.close();
});

async function start(
  plan: FakePlan = {},
  options: Partial<ProxyOptions> = {},
  clientCa?: string,
): Promise<TlsClientOptions> {
  harness = harness ?? new ProxyHarness();
  const tls = { ...authority.server, clientCa };
  await harness.start(plan, { listeners: [{ host: "127.0.0.1", port: 0, tls }], ...options });
  return { port: harness.proxy.port, ca: authority.ca };
}

/** Starts the proxy in front of a model server that answers with `answer`. */
async function serving(
  answer: string | ((request: { head: string; body: Buffer; socket: import("node:net").Socket }) => void),
  options: Partial<ProxyOptions> = {},
  plan: FakePlan = {},
) {
  harness = new ProxyHarness();
  const model = await harness.model((request) =>
    typeof answer === "string" ? void request.socket.write(answer) : answer(request),
  );
  const client = await start({ endpoints: [model.endpoint], ...plan }, options);
  return { model, client };
}

function session(client: TlsClientOptions, more: object = {}) {
  const made = h2Session(client, more);
  cleanUps.push(() => made.destroy());
  return made;
}

const POST = { ":method": "POST", ":path": "/v1/completions" };

describe("HTTP/2", () => {
  it("carries request and answer, and says that the client came over TLS", async () => {
    const { model, client } = await serving(
      answerBytes(201, "made", "x-own: 1\r\nx-own: 2\r\nconnection: x-hop\r\nx-hop: 1\r\n"),
    );
    const reply = await askSession(
      session(client),
      { ...POST, ":authority": "gw.example", "x-a": "1", cookie: ["a=1", "b=2"], te: "trailers" },
      "body",
    );
    expect(reply.code).toBe(0);
    expect(reply.headers).toMatchObject({ ":status": 201, "x-own": "1, 2" });
    expect(reply.headers["x-hop"]).toBeUndefined();
    expect(reply.text).toBe("made");
    const { head, body } = model.requests[0]!;
    expect(body.toString()).toBe("body");
    for (const line of [
      "host: gw.example",
      "x-a: 1",
      "cookie: a=1; b=2",
      "x-forwarded-proto: https",
      "x-forwarded-for: 127.0.0.1",
    ])
      expect(head.split("\r\n")).toContain(line);
    expect(harness.exchange.headers!.get(":scheme")).toBe("https");
    expect(harness.exchange.ends).toEqual(["complete"]);
    expect(harness.exchange.breaches).toEqual([]);
  });

  it("a request without a body ends with its headers, and HEAD gets no body", async () => {
    const { client } = await serving(answerBytes(200, "got"));
    const one = session(client);
    expect((await askSession(one, { ":path": "/v1/models" })).text).toBe("got");
    expect(harness.exchange.headersEnded).toBe(true);
    const head = await askSession(one, { ":method": "HEAD", ":path": "/v1/models" });
    expect(head.headers).toMatchObject({ ":status": 200, "content-length": "3" });
    expect(head.text).toBe("");
  });

  it("HEAD gets no body of an answer of the gateway, either", async () => {
    const ownAnswer: OwnAnswer = (_head, { requestId }) => jsonAnswer({ data: [] }, requestId);
    const { client } = await serving("", { ownAnswer });
    const head = await askSession(session(client), { ":method": "HEAD", ":path": "/v1/models" });
    expect(head.headers).toMatchObject({ ":status": 200, "content-length": "11" });
    expect(head.text).toBe("");
    expect(harness.errors).toEqual([]);
  });

  it("many requests at a time on one connection do not wait for one another", async () => {
    const held: import("node:net").Socket[] = [];
    const { client } = await serving(({ head, socket }) => {
      if (head.includes("/slow")) held.push(socket);
      else socket.write(answerBytes(200, "quick"));
    });
    const one = session(client);
    const slow = Array.from({ length: 20 }, () =>
      askSession(one, { ":path": "/", ":method": "POST", "x-kind": "/slow" }, "x"),
    );
    await poll("all are there", () => held.length === 20);
    expect((await askSession(one, POST, "y")).text).toBe("quick");
    for (const socket of held) socket.write(answerBytes(200, "late"));
    expect((await Promise.all(slow)).map(({ text }) => text)).toEqual(Array(20).fill("late"));
  });

  it("a reset of the client cancels its exchange once, and the connection goes on", async () => {
    const { model, client } = await serving(({ head, socket }) => {
      if (head.includes("x-hold"))
        socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("first")}`);
      else socket.write(answerBytes(200, "next"));
    });
    const one = session(client);
    const stream = one.request({ ...POST, "x-hold": "1" }, { endStream: false });
    stream.on("error", () => {});
    stream.end("x");
    await new Promise((resolve) => stream.once("data", resolve));
    stream.close(constants.NGHTTP2_CANCEL);
    await poll("the model server is free", () => model.open() === 0);
    expect(harness.exchanges[0]!.ends).toEqual(["client-gone"]);
    expect((await askSession(one, POST, "y")).text).toBe("next");
    expect(harness.exchanges[0]!.ends).toEqual(["client-gone"]);
    expect(harness.exchanges[0]!.breaches).toEqual([]);
  });

  it("a client that leaves cancels every exchange of its connection once", async () => {
    const { model, client } = await serving(() => {});
    const one = session(client);
    for (let n = 0; n < 5; n++) void askSession(one, POST, "x");
    await poll("they wait", () => model.requests.length === 5);
    one.destroy();
    await poll("the model server is free", () => model.open() === 0 && harness.proxy.connections === 0);
    expect(harness.exchanges.map(({ ends }) => ends)).toEqual(Array(5).fill(["client-gone"]));
  });

  it("a model server that is lost in its answer leaves a reset stream, and the connection goes on", async () => {
    const { client } = await serving(({ head, socket }) => {
      if (head.includes("x-break")) {
        socket.write(
          "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" +
            chunkBytes("data: 1\n\n"),
        );
        socket.end();
      } else socket.write(answerBytes(200, "whole"));
    });
    const one = session(client);
    const broken = await askSession(one, { ...POST, "x-break": "1" }, "x");
    expect(broken.code).toBe(constants.NGHTTP2_INTERNAL_ERROR);
    expect(broken.text).toMatch(/^data: 1\n\ndata: \{"error"/);
    expect((await askSession(one, POST, "x")).text).toBe("whole");
  });

  it("a client that does not read stops its model server, and no other stream", async () => {
    const { model, client } = await serving(({ head, socket }) => {
      if (!head.includes("x-big")) socket.write(answerBytes(200, "small"));
      else socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${1 << 28}\r\n\r\n`);
    });
    const one = session(client);
    const stream = one.request({ ...POST, "x-big": "1" }, { endStream: true });
    stream.on("error", () => {});
    await new Promise((resolve) => stream.once("response", resolve));
    const server = model.requests[0]!.socket;
    let last = -1;
    await poll("everything stands still", () => {
      for (let n = 0; n < 100 && !server.writableNeedDrain; n++) server.write(Buffer.alloc(1 << 16));
      const now = harness.exchange.answerBytes;
      const still = now === last && now > 0 && server.writableNeedDrain;
      last = now;
      return still;
    });
    // The window of the client is 64 KiB; the rest is one piece that was read, node's buffers, and the buffers of the system.
    expect(harness.exchange.answerBytes).toBeLessThan(1 << 20);
    expect((await askSession(one, POST, "x")).text).toBe("small");
  });

  it("100-continue is answered, other expectations are refused", async () => {
    const { client } = await serving(({ body, socket }) => socket.write(answerBytes(200, `got ${body.length}`)));
    const one = session(client);
    const stream = one.request({ ...POST, expect: "100-continue" });
    const reply = replyOf(stream);
    await new Promise((resolve) => stream.once("continue", resolve));
    stream.end("body");
    expect((await reply).text).toBe("got 4");
    expect((await askSession(one, { ...POST, expect: "the-unexpected" }, "x")).headers[":status"]).toBe(417);
  });

  it("trailers of a request are dropped", async () => {
    const { model, client } = await serving(answerBytes(200, "ok"));
    const stream = session(client).request(POST, { waitForTrailers: true, endStream: false });
    stream.on("wantTrailers", () => stream.sendTrailers({ "x-late": "1" }));
    const reply = replyOf(stream);
    stream.end("body");
    expect((await reply).text).toBe("ok");
    expect(model.requests[0]!.head).not.toContain("x-late");
    expect(model.requests[0]!.head.match(/content-length/g)).toHaveLength(1);
  });

  it("drain: GOAWAY, running streams end, then the connection closes", async () => {
    const { model, client } = await serving(() => {});
    const one = session(client);
    let goaway = false;
    one.on("goaway", () => {
      goaway = true;
    });
    const running = askSession(one, POST, "x");
    await poll("it runs", () => model.requests.length === 1);
    const drained = harness.proxy.drain();
    await poll("the client is told", () => goaway);
    model.requests[0]!.socket.write(answerBytes(200, "end"));
    expect(await running).toMatchObject({ text: "end", code: 0 });
    await drained;
    await poll("the connection is gone", () => harness.proxy.connections === 0);
  });

  it("a client that leaves with two GOAWAY frames, as a graceful one does, gets the answer that runs", async () => {
    const { model, client } = await serving(() => {});
    const one = session(client);
    const running = askSession(one, POST, "x");
    await poll("it runs", () => model.requests.length === 1);
    one.goaway(constants.NGHTTP2_NO_ERROR, 2 ** 31 - 2);
    one.goaway(constants.NGHTTP2_NO_ERROR, 0);
    // Behind them on the connection: the proxy has read both when the answer to this comes.
    await new Promise((resolve) => one.ping(resolve));
    model.requests[0]!.socket.write(answerBytes(200, "end"));
    expect(await running).toMatchObject({ text: "end", code: 0 });
    await poll("the connection is gone", () => harness.proxy.connections === 0);
  });

  it("closeAfterAnswers: connections are asked to leave, and new ones are still accepted and asked after their answers", async () => {
    const { model, client } = await serving(answerBytes(200, "ok"));
    const idle = session(client);
    expect(await askSession(idle, POST, "x")).toMatchObject({ text: "ok" });
    harness.proxy.closeAfterAnswers();
    await poll("the idle connection leaves", () => idle.closed);
    const later = session(client);
    expect(await askSession(later, POST, "x")).toMatchObject({ text: "ok", code: 0 });
    await poll("the later connection leaves", () => later.closed);
    expect(model.requests.length).toBe(2);
    await poll("no connection is left", () => harness.proxy.connections === 0);
  });

  it("an idle connection is asked to leave, one without a request is cut", async () => {
    const { client } = await serving(answerBytes(200, "ok"), {
      timers: { clientKeepAlive: 60, requestHeaders: 60, linger: 40 },
    });
    const [used, silent] = [session(client), await raw(client)];
    let goaway: number | undefined;
    used.on("goaway", (code) => {
      goaway = code;
    });
    await askSession(used, POST, "x");
    await poll("both are gone", () => used.closed && silent.closed() && harness.proxy.connections === 0);
    expect(goaway).toBe(constants.NGHTTP2_NO_ERROR);
  });

  it("an upload that stalls gets 408", async () => {
    const { client } = await serving("", { timers: { bodyIdle: 60, linger: 1_000 } });
    const stream = session(client).request(POST);
    const reply = replyOf(stream);
    stream.write("a");
    expect(await reply).toMatchObject({ headers: { ":status": 408, "x-gateway-error": "request-timeout" } });
  });

  it("a body that is too large gets 413 while it comes", async () => {
    const { client } = await serving("", { limits: { bodyBytes: 100_000 } });
    const stream = session(client).request(POST);
    const reply = replyOf(stream);
    stream.write(Buffer.alloc(200_000));
    expect(await reply).toMatchObject({ headers: { ":status": 413 }, code: constants.NGHTTP2_NO_ERROR });
    expect(harness.exchange.ends).toEqual(["rejected"]);
  });

  it("headers and targets above the limits get 431 and 414", async () => {
    const { client } = await serving("");
    const one = session(client, { maxSendHeaderBlockLength: 1 << 20 });
    const many = Object.fromEntries(Array.from({ length: 120 }, (_, n) => [`x-${n}`, "1"]));
    expect((await askSession(one, { ...POST, ...many })).headers[":status"]).toBe(431);
    expect((await askSession(one, { ...POST, "x-big": "a".repeat(62_000) })).headers[":status"]).toBe(431);
    expect((await askSession(one, { ...POST, ":path": `/${"a".repeat(9_000)}` })).headers[":status"]).toBe(414);
    expect(harness.exchanges).toEqual([]);
  });

  it("more streams at a time than the limit are refused, and may be sent again", async () => {
    const { model, client } = await serving(() => {}, { limits: { streams: 2 } });
    const wire = await raw(client);
    wire.socket.write(Buffer.concat([1, 3, 5].map((id) => request(id, BASE))));
    await poll("two run", () => model.requests.length === 2);
    await poll("the third is refused", () =>
      framesOf(wire).some(
        ({ type, id, code }) => type === FRAME.rstStream && id === 5 && code === constants.NGHTTP2_REFUSED_STREAM,
      ),
    );
    expect(harness.exchanges).toHaveLength(2);
  });
});

async function raw(client: TlsClientOptions): Promise<RawTls> {
  const wire = await rawTls(client, "h2");
  cleanUps.push(() => wire.socket.destroy());
  wire.socket.write(Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0)]));
  return wire;
}

const BASE: readonly (readonly [string, string])[] = [
  [":method", "POST"],
  [":path", "/v1/completions"],
  [":authority", "gw"],
  [":scheme", "https"],
];
const [END_STREAM, END_HEADERS] = [1, 4];

function request(id: number, fields: readonly (readonly [string, string])[], body?: string): Buffer {
  const block = Buffer.concat(fields.map(([name, value]) => field(name, value)));
  const head = frame(FRAME.headers, END_HEADERS | (body === undefined ? END_STREAM : 0), id, block);
  return body === undefined ? head : Buffer.concat([head, frame(FRAME.data, END_STREAM, id, Buffer.from(body))]);
}

function framesOf(wire: RawTls) {
  const bytes = wire.bytes();
  const frames: { type: number; id: number; code: number }[] = [];
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    const type = bytes[at + 3]!;
    const payload = at + 9 + (type === FRAME.goaway ? 4 : 0);
    const code = bytes.length >= payload + 4 ? bytes.readUInt32BE(payload) : -1;
    frames.push({ type, id: bytes.readUInt32BE(at + 5), code });
  }
  return frames;
}

describe("what HTTP/2 must not smuggle into HTTP/1.1", () => {
  const without = (name: string) => BASE.filter(([key]) => key !== name);
  const withPath = (path: string) => [...without(":path"), [":path", path] as const].sort();
  it.each<[string, readonly (readonly [string, string])[], string?]>([
    ["content-length above the body", [...BASE, ["content-length", "30"]], "short"],
    ["content-length below the body", [...BASE, ["content-length", "3"]], "longer"],
    ["content-length without a body", [...BASE, ["content-length", "3"]]],
    ["content-length twice", [...BASE, ["content-length", "4"], ["content-length", "4"]], "body"],
    ["content-length that is no number", [...BASE, ["content-length", "+4"]], "body"],
    ["transfer-encoding", [...BASE, ["transfer-encoding", "chunked"]], "0\r\n\r\n"],
    ["connection", [...BASE, ["connection", "x-a"]]],
    ["keep-alive", [...BASE, ["keep-alive", "1"]]],
    ["upgrade", [...BASE, ["upgrade", "h2c"]]],
    ["proxy-connection", [...BASE, ["proxy-connection", "close"]]],
    ["te with a coding", [...BASE, ["te", "gzip"]]],
    ["a name in upper case", [...BASE, ["X-Upper", "1"]]],
    ["an unknown pseudo header", [...BASE, [":foo", "1"]]],
    ["a pseudo header after others", [["x-a", "1"], ...BASE]],
    ["a path twice", [...BASE, [":path", "/other"]]],
    ["no path", without(":path")],
    ["no method", without(":method")],
    ["no scheme", without(":scheme")],
    ["a path with a line break", withPath("/a\r\nx-b: 1")],
    ["a path with a blank", withPath("/a b HTTP/1.1")],
    ["a method with a blank", [...without(":method"), [":method", "GET /x"] as const].reverse()],
    ["an authority with a line break", [...without(":authority"), [":authority", "gw\r\nx: y"] as const].sort()],
    ["status, which is for answers", [...BASE, [":status", "200"]]],
    ["extended CONNECT", [[":protocol", "websocket"], [":method", "CONNECT"], ...without(":method")]],
  ])("a request with %s is reset, and nothing goes upstream", async (_what, fields, body) => {
    const { model, client } = await serving(answerBytes(200, "served"));
    const wire = await raw(client);
    wire.socket.write(request(1, fields, body));
    await poll("the reset", () => framesOf(wire).some(({ type }) => type === FRAME.rstStream || type === FRAME.goaway));
    expect(model.requests).toEqual([]);
    for (const { ends } of harness.exchanges) expect(ends).toEqual(["client-gone"]);
  });

  it.each<[string, readonly (readonly [string, string])[]]>([
    ["Host that differs from :authority", [...BASE, ["host", "other"]]],
    ["no authority at all", without(":authority")],
    ["an absolute path", withPath("http://gw/v1/completions")],
    ["a path with dot segments", withPath("/v1/../admin")],
    ["a name with _", [...BASE, ["x_a", "1"]]],
    ["two authorities in one", [...without(":authority"), [":authority", "gw,other"] as const].sort()],
  ])("a request with %s gets 400 or a reset", async (_what, fields) => {
    const { model, client } = await serving(answerBytes(200, "served"));
    const one = await raw(client);
    one.socket.write(request(1, fields));
    await poll("an end of the stream", () =>
      framesOf(one).some(({ type, id }) => id === 1 && (type === FRAME.headers || type === FRAME.rstStream)),
    );
    expect(model.requests).toEqual([]);
    expect(harness.exchanges).toEqual([]);
  });

  it("Host alone names the host, and Host like :authority is no fault", async () => {
    const { model, client } = await serving(answerBytes(200, "served"));
    const wire = await raw(client);
    wire.socket.write(
      Buffer.concat([request(1, [...without(":authority"), ["host", "alone"]]), request(3, [...BASE, ["host", "GW"]])]),
    );
    await poll("both", () => model.requests.length === 2);
    expect(model.requests.map(({ head }) => /\r\nhost: (\w+)/.exec(head)![1])).toEqual(["alone", "GW"]);
  });

  it.each(["a\r\nx-smuggled: 1", "a\nx-smuggled: 1", "a\0b"])(
    "a value with a control character (%j) reaches no server",
    async (value) => {
      const { model, client } = await serving(answerBytes(200, "served"));
      const wire = await raw(client);
      wire.socket.write(request(1, [...BASE, ["x-value", value]]));
      await poll("the answer", () =>
        framesOf(wire).some(({ type, id }) => id === 1 && (type === FRAME.headers || type === FRAME.rstStream)),
      );
      for (const { head } of model.requests) expect(head).not.toMatch(/x-smuggled|x-value/);
    },
  );

  it("CONNECT gets 501", async () => {
    const { client } = await serving("");
    const stream = session(client).request({ ":method": "CONNECT", ":authority": "gw:443" });
    expect((await replyOf(stream)).headers).toMatchObject({ ":status": 501, "x-gateway-error": "not-supported" });
  });
});

describe("attacks over HTTP/2 end the attacker's connection, and no other", () => {
  const CALL = Buffer.concat(BASE.map(([name, value]) => field(name, value)));
  const ids = (from: number, count: number) => Array.from({ length: count }, (_, n) => from + 2 * n);
  it.each<[string, (round: number) => Buffer]>([
    [
      "rapid reset",
      (round) =>
        Buffer.concat(
          ids(1 + 1000 * round, 500).flatMap((id) => [
            frame(FRAME.headers, END_HEADERS, id, CALL),
            frame(FRAME.rstStream, 0, id, u32(constants.NGHTTP2_CANCEL)),
          ]),
        ),
    ],
    ["pings", () => Buffer.concat(Array.from({ length: 5000 }, () => frame(FRAME.ping, 0, 0, Buffer.alloc(8))))],
    ["settings", () => Buffer.concat(Array.from({ length: 5000 }, () => frame(FRAME.settings, 0, 0)))],
    [
      "continuation without end",
      (round) =>
        Buffer.concat([
          ...(round === 0 ? [frame(FRAME.headers, 0, 1, CALL)] : []),
          ...Array.from({ length: 1000 }, () => frame(FRAME.continuation, 0, 1, field("x-a", "b"))),
        ]),
    ],
    [
      "empty pieces of a body",
      (round) =>
        Buffer.concat([
          ...(round === 0 ? [frame(FRAME.headers, END_HEADERS, 1, CALL)] : []),
          ...Array.from({ length: 5000 }, () => frame(FRAME.data, 0, 1)),
        ]),
    ],
    [
      "window updates that make the proxy reset streams",
      (round) =>
        Buffer.concat(
          ids(1 + 1000 * round, 500).flatMap((id) => [
            frame(FRAME.headers, END_HEADERS, id, CALL),
            frame(FRAME.windowUpdate, 0, id, u32(0)),
          ]),
        ),
    ],
    ["bytes that are no frames", () => Buffer.alloc(1 << 16, 0xff)],
  ])("%s", async (_what, attack) => {
    const { client } = await serving(answerBytes(200, "served"));
    const other = session(client);
    expect((await askSession(other, POST, "before")).text).toBe("served");
    const attacker = await raw(client);
    attacker.socket.resume();
    let round = 0;
    await poll("the attacker is cut", () => {
      if (!attacker.socket.writableNeedDrain && !attacker.closed()) attacker.socket.write(attack(round++));
      return attacker.closed();
    });
    expect((await askSession(other, POST, "after")).text).toBe("served");
    await poll("its exchanges have ended", () => harness.exchanges.every(({ ends }) => ends.length === 1));
    expect(harness.proxy.connections).toBe(1);
  });

  // After the first one, node closes a connection without streams.
  it("GOAWAY frames while a stream is open", async () => {
    const { model, client } = await serving(() => {});
    const attacker = await raw(client);
    attacker.socket.resume();
    attacker.socket.write(frame(FRAME.headers, END_HEADERS | END_STREAM, 1, CALL));
    await poll("the stream is open", () => model.requests.length === 1);
    const flood = Buffer.concat(Array.from({ length: 100 }, () => frame(FRAME.goaway, 0, 0, Buffer.alloc(8))));
    const cut = (): boolean => {
      if (!attacker.socket.writableNeedDrain && !attacker.closed()) attacker.socket.write(flood);
      return attacker.closed();
    };
    await poll("the attacker is cut", cut, 5_000);
    await poll("its exchange has ended", () => harness.exchange.ends.length === 1);
    expect(harness.exchange.ends).toEqual(["client-gone"]);
  });
});

describe("a listener with TLS", () => {
  it("speaks HTTP/1.1 with clients that want it", async () => {
    const { model, client } = await serving(answerBytes(200, "served"));
    const wire = await rawTls(client, "http/1.1");
    cleanUps.push(() => wire.socket.destroy());
    wire.socket.write(
      "POST https://gw/v1/completions HTTP/1.1\r\nhost: gw\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx",
    );
    await poll("the end", wire.closed);
    expect(wire.bytes().toString()).toMatch(/^HTTP\/1\.1 200 [\s\S]*served$/);
    expect(model.requests[0]!.head).toContain("x-forwarded-proto: https");
  });

  it("answers plain HTTP with what to do, and closes", async () => {
    const { client } = await serving("");
    const socket = connect(client.port, "127.0.0.1");
    cleanUps.push(() => socket.destroy());
    let text = "";
    let ended = false;
    socket.on("data", (part) => {
      text += part;
    });
    socket.on("end", () => {
      ended = true;
    });
    socket.write("GET / HTTP/1.1\r\nhost: gw\r\n\r\n");
    await poll("the end", () => ended);
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    expect(text).toContain("use https://");
    expect(harness.metrics.bad).toEqual(["bad-request"]);
  });

  it("with authorities for clients, lets in only those with a certificate", async () => {
    const stranger = await clientAuthority();
    harness = new ProxyHarness();
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "served")));
    const refused: string[] = [];
    const client = await start(
      { endpoints: [model.endpoint] },
      { onClientRefused: (problem) => refused.push(problem) },
      authority.ca,
    );
    const known = session({ ...client, client: authority.client });
    expect((await askSession(known, POST, "x")).text).toBe("served");
    for (const shown of [undefined, stranger.client]) {
      const unknown = session({ ...client, client: shown });
      await poll("the end", () => unknown.destroyed);
    }
    expect(refused).toHaveLength(2);
    expect(refused[0]).toBe("the client sent no certificate");
    expect(refused[1]).toMatch(/^its certificate is not accepted/);
    expect(harness.exchanges).toHaveLength(1);
  });

  it("gives a new certificate to new connections, and keeps the open ones", async () => {
    const { client } = await serving(answerBytes(200, "served"));
    const old = session(client);
    await askSession(old, POST, "x");
    const next = await clientAuthority();
    harness.proxy.listeners[0]!.useTls(next.server);
    const fresh = session({ ...client, ca: next.ca });
    expect((await askSession(fresh, POST, "x")).text).toBe("served");
    expect((await askSession(old, POST, "x")).text).toBe("served");
    expect(() => harness.proxy.listeners[0]!.useTls({ cert: "no", key: "no" })).toThrow();
    expect((await askSession(session({ ...client, ca: next.ca }), POST, "x")).text).toBe("served");
  });

  it("a prior-knowledge preface on a plain port gets 400 and the end", async () => {
    harness = await new ProxyHarness().start();
    expect(await harness.ask(PREFACE)).toMatch(/^HTTP\/1\.1 (400|505) /);
  });
});
