import { afterEach, describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { answerBytes, chunkBytes } from "../../../test/support/loopback.ts";
import { get, ProxyHarness, post } from "../../../test/support/proxy-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { RequestHook } from "../../base/plugin/kinds.ts";

let harness = new ProxyHarness();
afterEach(async () => {
  await harness.close();
  harness = new ProxyHarness();
});

/** A proxy before one model server that answers with the request it got; plugins set these headers on what it gets. */
async function setting(pairs: Iterable<readonly [string, string]>): Promise<{ requests: unknown[] }> {
  const model = await harness.model(({ socket, head, body }) => socket.write(answerBytes(200, `${head}\n\n${body}`)));
  await harness.start({
    decide: (exchange) => ({ ...exchange.route([model.endpoint]), headers: HeaderList.of(pairs) }),
  });
  return model;
}

describe("D-50: headers that plugins set on the forwarded request", () => {
  it("are set, once, in place of the client's; the request id and control headers, too", async () => {
    await setting([
      ["x-new", "1"],
      ["X-Kept", "2"],
      ["x-request-id", "theirs"],
      ["x-prefiller-host-port", "10.0.0.9:80"],
    ]);
    const text = await harness.ask(
      post("{}", "connection: close\r\nx-request-id: mine\r\nx-kept: a\r\nx-kept: b\r\nx-other: c\r\n"),
    );
    expect(text).toContain("x-new: 1");
    expect(text.match(/x-kept: .*/g)).toEqual(["x-kept: 2"]);
    expect(text.match(/x-request-id: .*/g)).toEqual(["x-request-id: theirs"]);
    expect(text).toContain("x-other: c");
    expect(text).toContain("x-prefiller-host-port: 10.0.0.9:80");
  });

  it("S-47 those that plugins remove are left out, but for what the message needs", async () => {
    const model = await harness.model(({ socket, head, body }) => socket.write(answerBytes(200, `${head}\n\n${body}`)));
    const removed = ["x-gone", "host", "content-length", "x-request-id", "x-envoy-a", "x-never-sent"];
    await harness.start({ decide: (exchange) => ({ ...exchange.route([model.endpoint]), removed }) });
    const text = await harness.ask(
      post("{}", "connection: close\r\nX-Gone: a\r\nx-gone: b\r\nx-kept: c\r\nx-request-id: mine\r\nx-envoy-a: d\r\n"),
    );
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text).not.toMatch(/x-gone/i);
    for (const line of ["x-kept: c", "x-request-id: mine", "x-envoy-a: d", "host: gw", "content-length: 2"])
      expect(text).toContain(line);
  });

  it("S-99 do not replace what carries the trace, which takes the place of the client's and counts in nobody's limit", async () => {
    const model = await harness.model(({ socket, head, body }) => socket.write(answerBytes(200, `${head}\n\n${body}`)));
    await harness.start({
      decide: (exchange) => ({
        ...exchange.route([model.endpoint]),
        headers: HeaderList.of([...many(99), ["traceparent", "theirs"]]),
        removed: ["tracestate"],
        trace: HeaderList.of([
          ["traceparent", "ours"],
          ["baggage", "ours"],
        ]),
      }),
    });
    const text = await harness.ask(
      post("{}", "connection: close\r\nTraceparent: a\r\ntracestate: b\r\nbaggage: c\r\nbaggage: d\r\n"),
    );
    expect(text.match(/^(trace|baggage).*/gim)).toEqual(["traceparent: ours", "baggage: ours"]);
  });

  it(":path is applied", async () => {
    await setting([[":path", "/v2/completions?a=b"]]);
    expect(await harness.ask(post("{}"))).toContain("POST /v2/completions?a=b HTTP/1.1");
  });

  it("host, :authority, :scheme, :method, x-envoy-* and what frames the message are ignored", async () => {
    await setting([
      ["host", "evil"],
      [":authority", "evil"],
      [":scheme", "evil"],
      [":method", "EVIL"],
      ["x-envoy-original-dst-host", "evil"],
      ["content-length", "99999"],
      ["transfer-encoding", "chunked, evil"],
      ["connection", "evil"],
      ["upgrade", "evil"],
    ]);
    const text = await harness.ask(post("body", "connection: close\r\nx-envoy-original-dst-host: mine\r\n"));
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text).not.toMatch(/evil/i);
    expect(text).toContain("POST /v1/completions HTTP/1.1");
    expect(text).toContain("host: gw");
    expect(text).toContain("x-envoy-original-dst-host: mine");
    expect(text).toContain("content-length: 4");
    expect(text).toMatch(/\n\nbody$/);
  });

  const many = (count: number) => Array.from({ length: count }, (_, n) => [`x-${n}`, "v"] as const);

  it("up to 100 headers and 60 KiB they pass, with the client's", async () => {
    await setting(many(50));
    // With Host exactly 100; what the proxy adds itself is not counted.
    const text = await harness.ask(post("{}", `connection: close\r\n${"a: b\r\n".repeat(49)}`));
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text.match(/\bx-\d+: v/g)).toHaveLength(50);
  });

  it.each([
    ["101 headers", many(101), "", /more than 100 headers/],
    ["60 headers with 50 of the client", many(60), "a: b\r\n".repeat(50), /more than 100 headers/],
    ["60 KiB in one", [["x", "y".repeat(61_440)]], "", /61440 bytes/],
    ["60 KiB with those of the client", [["x", "y".repeat(31_000)]], `a: ${"b".repeat(31_000)}\r\n`, /61440 bytes/],
    ["a line feed in a value", [["x", "a\nb: c"]], "", /invalid x header/],
    ["a blank in a name", [["x y", "a"]], "", /invalid header key/],
    ["a path that is none", [[":path", "v1"]], "", /must be a path/],
    ["a path out of its folder", [[":path", "/v1/../admin"]], "", /dot segment/],
    ["a path of 9 KiB", [[":path", `/${"a".repeat(9_000)}`]], "", /8192 bytes/],
    [
      "a path of administration",
      [[":path", "/v1/load_lora_adapter"]],
      "",
      /does not pass POST \/v1\/load_lora_adapter/,
    ],
    ["a path that servers read in several ways", [[":path", "//v1/completions"]], "", /several ways/],
  ] as const)("%s is a failure of our own: 500, and nothing is sent", async (_name, pairs, client, message) => {
    const model = await setting(pairs);
    const text = await harness.ask(post("{}", `connection: close\r\n${client}`));
    expect(text).toMatch(/^HTTP\/1\.1 500 /);
    expect(text).toMatch(message);
    expect(model.requests).toHaveLength(0);
    expect(harness.exchange.ends).toEqual(["error"]);
    expect(harness.errors).toHaveLength(1);
  });
});

/** A proxy with real exchanges before one model server; this hook is configured. */
async function hooked(plugin: RequestHook, answer: string): Promise<TestCore> {
  const model = await harness.model(({ socket }) => socket.write(answer));
  const core = new TestCore({
    endpoints: [{ address: "127.0.0.1", port: model.port }],
    hooks: [{ name: "hook", plugin }],
  });
  await harness.start({}, { openExchange: (wire) => core.openExchange(wire) });
  return core;
}

const CHAT = '{"model":"m","messages":[{"role":"user","content":"x"}]}';
const chat = post(CHAT).replace("/v1/completions", "/v1/chat/completions");

describe("D-50: headers that plugins set on the answer", () => {
  it("are set in place of the server's; what frames the answer is ignored", async () => {
    const core = await hooked(
      {
        responseReceived({ setHeader }) {
          setHeader("X-Old", "new");
          setHeader(":status", "201");
          setHeader("content-length", "1");
          setHeader("transfer-encoding", "chunked");
          setHeader("connection", "x-old");
          setHeader("x-envoy-upstream", "evil");
        },
      },
      answerBytes(200, "whole", "x-old: a\r\nx-old: b\r\n"),
    );
    const text = await harness.ask(chat);
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text.match(/x-old: .*/g)).toEqual(["x-old: new"]);
    expect(text).toContain("content-length: 5");
    expect(text).not.toMatch(/transfer-encoding|x-envoy|:status/i);
    expect(text).toMatch(/whole$/);
    expect(core.errors).toEqual([]);
  });

  it("one that cannot be written is a 500, and the server's answer is given up", async () => {
    const core = await hooked(
      { responseReceived: ({ setHeader }) => setHeader("x", "a\nb") },
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunkBytes("begun")}`,
    );
    const text = await harness.ask(chat);
    expect(text).toMatch(/^HTTP\/1\.1 500 /);
    expect(text).not.toContain("begun");
    expect(harness.errors).toHaveLength(1);
    expect(core.inFlight).toBe(0);
  });

  it("none are lost on a request without a body", async () => {
    await hooked({ responseReceived: ({ setHeader }) => setHeader("x-new", "1") }, answerBytes(200, "list"));
    expect(await harness.ask(get())).toContain("x-new: 1");
  });
});
