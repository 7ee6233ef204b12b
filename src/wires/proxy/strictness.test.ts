import { connect } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, it } from "vitest";
import { answerBytes } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { get, ProxyHarness, post } from "../../../test/support/proxy-harness.ts";
import { SeededRandom } from "../../base/clock/random.ts";

let harness = new ProxyHarness();
afterEach(async () => {
  await harness.close();
  harness = new ProxyHarness();
});

/** A POST with these headers and this body, exactly. */
function raw(headers: string, body = "", start = "POST /v1/completions HTTP/1.1"): string {
  return `${start}\r\n${headers}\r\n\r\n${body}`;
}
const CHUNKED = "host: gw\r\ntransfer-encoding: chunked";
const HIDDEN = "GET /admin HTTP/1.1\r\nhost: gw\r\n\r\n";

/** D-56: each must be answered 400, end the connection, and reach nothing. */
const CORPUS: Record<string, string> = {
  "CL+TE": raw("host: gw\r\ncontent-length: 6\r\ntransfer-encoding: chunked", `0\r\n\r\n${HIDDEN}`),
  "TE+CL": raw("host: gw\r\ntransfer-encoding: chunked\r\ncontent-length: 6", `0\r\n\r\n${HIDDEN}`),
  "two CL": raw("host: gw\r\ncontent-length: 5\r\ncontent-length: 6", "hello!"),
  "two equal CL": raw("host: gw\r\ncontent-length: 5\r\ncontent-length: 5", "hello"),
  "CL list": raw("host: gw\r\ncontent-length: 5, 5", "hello"),
  "CL with sign": raw("host: gw\r\ncontent-length: +5", "hello"),
  "negative CL": raw("host: gw\r\ncontent-length: -5", "hello"),
  "hexadecimal CL": raw("host: gw\r\ncontent-length: 0x5", "hello"),
  "empty CL": raw("host: gw\r\ncontent-length: ", "hello"),
  "CL beyond 64 bits": raw("host: gw\r\ncontent-length: 99999999999999999999", "hello"),
  "TE.TE, second unknown": raw(`${CHUNKED}\r\ntransfer-encoding: x`, `0\r\n\r\n${HIDDEN}`),
  "TE.TE, both chunked": raw(`${CHUNKED}\r\ntransfer-encoding: chunked`, `0\r\n\r\n${HIDDEN}`),
  "TE list": raw("host: gw\r\ntransfer-encoding: gzip, chunked", "0\r\n\r\n"),
  "TE not last": raw("host: gw\r\ntransfer-encoding: chunked, identity", "0\r\n\r\n"),
  "TE unknown": raw("host: gw\r\ntransfer-encoding: xchunked", "0\r\n\r\n"),
  "TE empty": raw("host: gw\r\ntransfer-encoding:", "0\r\n\r\n"),
  "TE after vertical tab": raw("host: gw\r\ntransfer-encoding:\x0bchunked", "0\r\n\r\n"),
  "TE in HTTP/1.0": raw(CHUNKED, "0\r\n\r\n", "POST / HTTP/1.0"),
  "TE with underscore": raw("host: gw\r\ntransfer_encoding: chunked\r\ncontent-length: 5", "hello"),
  "space before colon": raw("host: gw\r\ntransfer-encoding : chunked", "0\r\n\r\n"),
  "obs-fold": raw("host: gw\r\nx: a\r\n b", ""),
  "obs-fold of TE": raw("host: gw\r\ntransfer-encoding:\r\n chunked", "0\r\n\r\n"),
  "space after start line": raw(" host: gw\r\nx: a"),
  "bare LF after start line": "GET / HTTP/1.1\nhost: gw\n\n",
  "bare LF in headers": "GET / HTTP/1.1\r\nhost: gw\nx: a\r\n\r\n",
  "bare CR in value": raw("host: gw\r\nx: a\rb"),
  "NUL in value": raw("host: gw\r\nx: a\0b"),
  "NUL in name": raw("host: gw\r\nx\0: a"),
  "NUL in target": raw("host: gw", "", "GET /\0 HTTP/1.1"),
  "control character in value": raw("host: gw\r\nx: a\x01b"),
  "empty name": raw("host: gw\r\n: a"),
  "no colon": raw("host: gw\r\nfoo"),
  "bare LF in chunk extension": raw(CHUNKED, `5;a\nhello\r\n0\r\n\r\n${HIDDEN}`),
  "bare CR in chunk extension": raw(CHUNKED, `5;a\rxhello\r\n0\r\n\r\n${HIDDEN}`),
  "endless chunk extension": raw(CHUNKED, `5;${"a".repeat(20_000)}\r\nhello\r\n0\r\n\r\n`),
  "bare LF after chunk size": raw(CHUNKED, `5\nhello\r\n0\r\n\r\n`),
  "no CRLF after chunk": raw(CHUNKED, `5\r\nhelloX0\r\n\r\n${HIDDEN}`),
  "chunk size with sign": raw(CHUNKED, "-5\r\nhello\r\n0\r\n\r\n"),
  "chunk size with 0x": raw(CHUNKED, "0x5\r\nhello\r\n0\r\n\r\n"),
  "chunk size with space": raw(CHUNKED, "5 \r\nhello\r\n0\r\n\r\n"),
  "chunk size beyond 64 bits": raw(CHUNKED, "FFFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n"),
  "CL in trailers": raw(CHUNKED, "0\r\ncontent-length: 5\r\n\r\n"),
  "garbage after a good chunk": raw(CHUNKED, "5\r\nhello\r\nZZ\r\n"),
  "no Host": raw("x: a", "", "GET / HTTP/1.1"),
  "empty Host": raw("host: ", "", "GET / HTTP/1.1"),
  "two Hosts": raw("host: gw\r\nhost: other", "", "GET / HTTP/1.1"),
  "Host with a path": raw("host: gw/x", "", "GET / HTTP/1.1"),
  "Host with a user": raw("host: a@gw", "", "GET / HTTP/1.1"),
  "other authority": raw("host: gw", "", "GET http://other/ HTTP/1.1"),
  "https target": raw("host: gw", "", "GET https://gw/ HTTP/1.1"),
  "asterisk form": raw("host: gw", "", "OPTIONS * HTTP/1.1"),
  "dot segment": raw("host: gw", "", "GET /v1/../admin HTTP/1.1"),
  "encoded dot segment": raw("host: gw", "", "GET /v1/%2e%2E/admin HTTP/1.1"),
  "encoded slash": raw("host: gw", "", "GET /v1%2Fadmin HTTP/1.1"),
  "encoded backslash": raw("host: gw", "", "GET /v1%5cadmin HTTP/1.1"),
  backslash: raw("host: gw", "", "GET /v1\\admin HTTP/1.1"),
  "fragment in target": raw("host: gw", "", "GET /v1#x HTTP/1.1"),
  "space in target": raw("host: gw", "", "GET /v1 /x HTTP/1.1"),
  "byte above 127 in target": raw("host: gw", "", "GET /\xe9 HTTP/1.1"),
  "HTTP/2.0": raw("host: gw", "", "GET / HTTP/2.0"),
  "HTTP/0.9": "GET /\r\n\r\n",
  "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "unknown method": raw("host: gw", "", "FOO / HTTP/1.1"),
  "no HTTP": "\x16\x03\x01\x02\x00\x01\x00",
  "CL 0+TE": raw(`${CHUNKED}\r\ncontent-length: 0`, `0\r\n\r\n${HIDDEN}`),
  "CL list, different": raw("host: gw\r\ncontent-length: 5, 6", "hello!"),
  "CL with a comma behind": raw("host: gw\r\ncontent-length: 5,", "hello"),
  "CL of two words": raw("host: gw\r\ncontent-length: 5 5", "hello"),
  "CL with underscore": raw("host: gw\r\ncontent-length: 1_0", "hellohello"),
  "fractional CL": raw("host: gw\r\ncontent-length: 5.0", "hello"),
  "space before colon of CL": raw("host: gw\r\ncontent-length : 5", "hello"),
  "tab before colon": raw("host: gw\r\ntransfer-encoding\t: chunked", "0\r\n\r\n"),
  "TE identity": raw("host: gw\r\ntransfer-encoding: identity", "hello"),
  "TE identity+CL": raw("host: gw\r\ntransfer-encoding: identity\r\ncontent-length: 5", "hello"),
  "TE chunked twice in a list": raw("host: gw\r\ntransfer-encoding: chunked, chunked", "0\r\n\r\n"),
  "TE with an empty element": raw("host: gw\r\ntransfer-encoding: , chunked", "0\r\n\r\n"),
  "TE with a parameter": raw("host: gw\r\ntransfer-encoding: chunked;q=1", "0\r\n\r\n"),
  "TE in quotes": raw('host: gw\r\ntransfer-encoding: "chunked"', "0\r\n\r\n"),
  "TE with a tab inside": raw("host: gw\r\ntransfer-encoding: chun\tked", "0\r\n\r\n"),
  "TE with NUL behind": raw("host: gw\r\ntransfer-encoding: chunked\0", "0\r\n\r\n"),
  "TE.TE, first unknown": raw(`host: gw\r\ntransfer-encoding: x\r\ntransfer-encoding: chunked`, "0\r\n\r\n"),
  "obs-fold with a tab": raw("host: gw\r\nx: a\r\n\tb"),
  "obs-fold of CL": raw("host: gw\r\ncontent-length:\r\n 5", "hello"),
  "obs-fold in trailers": raw(CHUNKED, "0\r\nx: a\r\n b\r\n\r\n"),
  "bare LF ends the headers": "GET / HTTP/1.1\r\nhost: gw\r\n\n",
  "bare CR for line ends": "GET / HTTP/1.1\rhost: gw\r\r",
  "bare LF after chunk data": raw(CHUNKED, "5\r\nhello\n0\r\n\r\n"),
  "bare LF after the last chunk": raw(CHUNKED, `5\r\nhello\r\n0\n\n${HIDDEN}`),
  "bare LF in trailers": raw(CHUNKED, `0\r\nx: a\n\n${HIDDEN}`),
  "NUL in chunk size": raw(CHUNKED, "5\0\r\nhello\r\n0\r\n\r\n"),
  "NUL in chunk extension": raw(CHUNKED, "5;a=\0\r\nhello\r\n0\r\n\r\n"),
  "NUL in trailers": raw(CHUNKED, "0\r\nx: a\0\r\n\r\n"),
  "line end in a quoted chunk extension": raw(CHUNKED, `5;a="\r\n"\r\nhello\r\n0\r\n\r\n${HIDDEN}`),
  "unfinished quote in chunk extension": raw(CHUNKED, `5;a="b\r\nhello\r\n0\r\n\r\n`),
  "chunk without a size": raw(CHUNKED, "\r\nhello\r\n0\r\n\r\n"),
  "chunk extension without a size": raw(CHUNKED, ";a=b\r\nhello\r\n0\r\n\r\n"),
  "chunk size with underscore": raw(CHUNKED, "1_0\r\nhellohello\r\n0\r\n\r\n"),
  "chunk size with plus": raw(CHUNKED, "+5\r\nhello\r\n0\r\n\r\n"),
  "chunk data too short": raw(CHUNKED, `6\r\nhello\r\n0\r\n\r\n${HIDDEN}`),
  "TE in trailers": raw(CHUNKED, "0\r\ntransfer-encoding: chunked\r\n\r\n"),
  "two equal Hosts": raw("host: gw\r\nHost: gw", "", "GET / HTTP/1.1"),
  "Host with NUL": raw("host: g\0w", "", "GET / HTTP/1.1"),
};

describe("D-56: what could be read in two ways is refused", () => {
  it.each(Object.entries(CORPUS))("%s", async (_name, bytes) => {
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "served")));
    await harness.start({ endpoints: [model.endpoint] }, { timers: { linger: 40 } });
    const text = await harness.ask(bytes);
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    expect(text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(text).toMatch(/connection: close/i);
    expect(text).toContain("x-gateway-error: bad-request");
    expect(JSON.parse(text.split("\r\n\r\n")[1]!)).toMatchObject({
      error: { type: "invalid_request_error", code: 400, help: "docs/reference/errors.md#bad-http-requests" },
    });
    expect(harness.exchanges).toHaveLength(0);
    expect(model.sockets).toHaveLength(0);
    expect(harness.metrics.bad).toEqual(["bad-request"]);
  });

  it("in pieces of any size, too: one 400 at most, and nothing goes upstream", async () => {
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "served")));
    await harness.start({ endpoints: [model.endpoint] }, { timers: { linger: 40 } });
    const random = new SeededRandom(1);
    let answered = 0;
    await Promise.all(
      Object.entries(CORPUS).map(async ([name, bytes]) => {
        const client = await harness.client();
        for (let at = 0; at < bytes.length && !client.closed(); ) {
          const size = 1 + random.below(Math.ceil(bytes.length / 3));
          client.send(bytes.slice(at, at + size));
          at += size;
          await new Promise((resolve) => setImmediate(resolve));
        }
        await poll(`the end of ${name}`, client.closed);
        const statuses = client.text().match(/HTTP\/1\.1 \d+/g) ?? [];
        // A fault behind a request that is complete cuts the connection: an answer would be taken for that request's.
        expect([name, statuses]).toEqual([name, statuses.length === 0 ? [] : ["HTTP/1.1 400"]]);
        answered += statuses.length;
      }),
    );
    expect(answered).toBeGreaterThan(0.9 * Object.keys(CORPUS).length);
    expect(model.sockets).toHaveLength(0);
    for (const exchange of harness.exchanges) expect(exchange.ends).toEqual(["client-gone"]);
  });

  it("a body that breaks HTTP later ends its exchange, and nothing goes upstream", async () => {
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "served")));
    await harness.start({ endpoints: [model.endpoint] }, { timers: { linger: 40 } });
    const client = await harness.client();
    client.send(raw(CHUNKED, "5\r\nhello\r\n"));
    await poll("the first piece", () => harness.exchange?.text === "hello");
    client.send(`ZZ\r\n${HIDDEN}`);
    await poll("the end", client.closed);
    expect(client.text()).toMatch(/^HTTP\/1\.1 400 /);
    expect(harness.exchange.ends).toEqual(["client-gone"]);
    expect(harness.exchanges).toHaveLength(1);
    expect(model.sockets).toHaveLength(0);
  });

  it.each([post("hello", ""), get("/", "")])("a good request with garbage behind it is not served", async (good) => {
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "served")));
    await harness.start({ endpoints: [model.endpoint] });
    const text = await harness.ask(`${good}GARBAGE\r\n\r\n`);
    expect(text).toBe("");
    expect(harness.exchanges).toHaveLength(0);
    expect(model.sockets).toHaveLength(0);
  });

  it("a request that was refused hides nothing behind it", async () => {
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "served")));
    await harness.start({ endpoints: [model.endpoint] }, { timers: { linger: 40 } });
    const text = await harness.ask(raw("host: gw\r\na_b: c\r\ncontent-length: 5", `hello${HIDDEN}`));
    expect(text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(model.sockets).toHaveLength(0);
  });

  it("header names with _ pass when they are allowed", async () => {
    const model = await harness.model(({ socket, head }) => socket.write(answerBytes(200, head)));
    await harness.start({ endpoints: [model.endpoint] }, { allowUnderscores: true });
    expect(await harness.ask(get("/", "connection: close\r\na_b: c\r\n"))).toContain("a_b: c");
  });

  it("harmless chunk extensions and trailers are dropped", async () => {
    const model = await harness.model(({ socket, head, body }) => socket.write(answerBytes(200, head + body)));
    await harness.start({ endpoints: [model.endpoint] });
    const text = await harness.ask(
      raw(`${CHUNKED}\r\nconnection: close`, "5;a=b\r\nhello\r\n0\r\nx-trailer: 1\r\n\r\n"),
    );
    expect(text).toMatch(/hello$/);
    expect(text).not.toContain("x-trailer");
  });

  it.each([
    ["Upgrade", get("/", "connection: upgrade\r\nupgrade: websocket\r\n")],
    ["CONNECT", "CONNECT gw:80 HTTP/1.1\r\nhost: gw:80\r\n\r\n"],
  ])("%s is answered 501 and ends the connection", async (_name, bytes) => {
    await harness.start();
    const text = await harness.ask(bytes);
    expect(text).toMatch(/^HTTP\/1\.1 501 /);
    expect(text).toContain("x-gateway-error: not-supported");
    expect(harness.exchanges).toHaveLength(0);
  });
});

describe("D-57: limits", () => {
  const limits = { bodyBytes: 100_000, connections: 4, connectionsPerAddress: 4 };
  async function serving(): Promise<void> {
    const model = await harness.model(({ socket, body }) => socket.write(answerBytes(200, `got ${body.length}`)));
    await harness.start({ endpoints: [model.endpoint] }, { limits, timers: { linger: 40 } });
  }

  it("431 for headers above 60 KiB or 100 lines; at the limit they pass", async () => {
    await serving();
    const base = `connection: close\r\nx: `;
    // host: gw and connection: close are 4+2+10+5 bytes, x is 1.
    const fits = 60 * 1024 - 22;
    expect(await harness.ask(get("/", `${base}${"a".repeat(fits)}\r\n`))).toMatch(/^HTTP\/1\.1 200 /);
    for (const size of [fits + 1, fits + 20_000, 200_000]) {
      const text = await harness.ask(get("/", `${base}${"a".repeat(size)}\r\n`));
      expect(text).toMatch(/^HTTP\/1\.1 431 /);
      expect(text).toContain("x-gateway-error: headers-too-large");
    }
    expect(await harness.ask(get("/", `connection: close\r\n${"x: y\r\n".repeat(98)}`))).toMatch(/^HTTP\/1\.1 200 /);
    expect(await harness.ask(get("/", `connection: close\r\n${"x: y\r\n".repeat(99)}`))).toMatch(/^HTTP\/1\.1 431 /);
    expect(harness.exchanges).toHaveLength(2);
  });

  it("431 for trailers above the limit of headers, and nothing goes upstream", async () => {
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "served")));
    await harness.start({ endpoints: [model.endpoint] }, { timers: { linger: 40 } });
    expect(await harness.ask(raw(CHUNKED, `0\r\nx: ${"y".repeat(100_000)}\r\n\r\n`))).toMatch(/^HTTP\/1\.1 431 /);
    expect(model.sockets).toHaveLength(0);
  });

  it("414 for a target above 8 KiB; at the limit it passes", async () => {
    await serving();
    expect(await harness.ask(get(`/v1/models/${"a".repeat(8181)}`))).toMatch(/^HTTP\/1\.1 200 /);
    const text = await harness.ask(get(`/v1/models/${"a".repeat(8182)}`));
    expect(text).toMatch(/^HTTP\/1\.1 414 /);
    expect(text).toContain("x-gateway-error: uri-too-long");
    expect(harness.exchanges).toHaveLength(1);
  });

  it("413 at once for an announced body above the limit, and while a chunked one streams in", async () => {
    await serving();
    expect(await harness.ask(post("a".repeat(100_000)))).toMatch(/^HTTP\/1\.1 200 .*got 100000/s);
    const announced = await harness.ask(post("a".repeat(100_001)));
    expect(announced).toMatch(/^HTTP\/1\.1 413 /);
    expect(announced).toContain("x-gateway-error: too-large");
    expect(harness.exchanges).toHaveLength(1);
    const client = await harness.client();
    client.send(raw(CHUNKED));
    // Never ends by itself: the answer comes while it streams.
    for (let sent = 0; sent <= 100_000; sent += 10_000) client.send(`2710\r\n${"a".repeat(10_000)}\r\n`);
    await poll("the answer", () => client.text().startsWith("HTTP/1.1 413 "));
    await poll("the end", client.closed);
    expect(harness.exchange.ends).toEqual(["rejected"]);
  });

  it("a connection beyond the cap takes the place of one without a request, the oldest first", async () => {
    await serving();
    const clients = [];
    for (let n = 0; n <= limits.connections; n++) clients.push(await harness.client());
    await poll("the first one is closed", clients[0]!.closed);
    expect(harness.metrics.refused).toBe(1);
    expect(harness.proxy.connections).toBe(limits.connections);
    for (const client of clients.slice(1)) client.send(get());
    for (const client of clients.slice(1)) await poll("an answer", () => client.text().startsWith("HTTP/1.1 200 "));
  });

  it("connections with requests keep their places, so a further one is closed", async () => {
    const model = await harness.model(() => {});
    await harness.start({ endpoints: [model.endpoint] }, { limits });
    const clients = await Promise.all(Array.from({ length: limits.connections }, () => harness.client()));
    for (const client of clients) client.send(get());
    await poll("they are busy", () => model.requests.length === limits.connections);
    const extra = await harness.client();
    await poll("the extra one is closed", extra.closed);
    expect(clients.map((client) => client.closed())).toEqual(clients.map(() => false));
    expect(harness.metrics.refused).toBe(1);
  });

  it("one address never has all connections", async () => {
    await harness.start({}, { limits: { connections: 8, connectionsPerAddress: 2 } });
    const clients = [await harness.client(), await harness.client(), await harness.client()];
    await poll("the first one is closed", clients[0]!.closed);
    // Not by its deadline, which would close it, too.
    expect(harness.metrics.refused).toBe(1);
    expect(harness.proxy.connections).toBe(2);
  });

  it("10,000 bad requests leave nothing behind", async () => {
    await harness.start({}, { timers: { linger: 40 } });
    const bad = Object.values(CORPUS);
    setFlagsFromString("--expose-gc");
    const collectGarbage = runInNewContext("gc") as () => void;
    const heldAfter = async (count: number): Promise<number> => {
      let next = 0;
      const worker = async (): Promise<void> => {
        while (next < count) {
          const socket = connect({ port: harness.proxy.port, host: "127.0.0.1" });
          socket.on("error", () => {});
          socket.resume();
          socket.write(bad[next++ % bad.length]!, "latin1");
          await new Promise((resolve) => socket.once("close", resolve));
        }
      };
      await Promise.all(Array.from({ length: 50 }, worker));
      await poll("no connection is left", () => harness.proxy.connections === 0);
      collectGarbage();
      const { heapUsed, arrayBuffers } = process.memoryUsage();
      return heapUsed + arrayBuffers;
    };
    const before = await heldAfter(1_000);
    const after = await heldAfter(9_000);
    expect(harness.metrics.bad).toHaveLength(10_000);
    expect(harness.exchanges).toHaveLength(0);
    expect(after - before).toBeLessThan(4 * 1024 * 1024);
  });
});
