import { describe, expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import type { ServerFacts } from "../../lab/check/server-facts.ts";
import { gatewayFileOf } from "../../wires/gateway/gateway-file.ts";
import { foundText, nextText } from "./found-text.ts";
import { gatewayText } from "./gateway-text.ts";
import { targets } from "./targets.ts";

const server = (origin: string, more: Partial<ServerFacts> = {}): ServerFacts => ({
  ...{ origin, problem: undefined, engine: "vllm", version: "0.11.0", isSimulator: false, models: ["m"] },
  ...{ adapters: [], modelsProblem: undefined, missing: [], metricsProblem: undefined, blockSize: 16, blocks: 100 },
  ...{ prefixCaching: undefined, skew: undefined },
  ...more,
});
const WHERE = { listen: "127.0.0.1:8080", admin: "127.0.0.1:19001" };
const read = (text: string) => gatewayFileOf(parseDocument(text, { file: "gateway.yaml" }), "/").settings;

describe("targets", () => {
  it("reads URLs, addresses and ranges, each server once", () => {
    expect(
      targets(["http://10.0.0.1:8000/v1", "10.0.0.1:8000", "http://h"], ["gpu[01-02]:8000-8001", "[::1]:9"]),
    ).toEqual([
      ...["http://10.0.0.1:8000", "http://h:80", "http://gpu01:8000", "http://gpu01:8001", "http://gpu02:8000"],
      ...["http://gpu02:8001", "http://[::1]:9"],
    ]);
  });

  it.each([
    ["h", /write hosts:ports/],
    ["h:0", /write hosts:ports/],
    ["h:9-8", /write hosts:ports/],
    ["h:1-70000", /write hosts:ports/],
    ["http://h:1-2", /write hosts:ports/],
    ["h[a-]:1", /is not a number or a range/],
    ["h:1-1000", /names 1000 servers; give at most 256/],
    ["u:secret@h:1-2x", /^(?!.*secret)/],
  ])("refuses %s", (text, message) => expect(() => targets([], [text])).toThrow(message));

  it("refuses a mixture of TLS and none, and too many servers", () => {
    expect(() => targets(["https://a", "http://b"], [])).toThrow(
      /https:\/\/a:443 has TLS and http:\/\/b:80 has no TLS/,
    );
    expect(() => targets(["http://a"], ["h:1-256"])).toThrow(/257 servers/);
  });
});

describe("gatewayText", () => {
  it("is a gateway.yaml with the servers, their engines and the line for editors", () => {
    const text = gatewayText(
      [
        server("http://10.0.0.1:8000"),
        server("http://[::1]:8001", { engine: "sglang" }),
        server("http://h:80", { engine: undefined, problem: "connect ECONNREFUSED" }),
      ],
      WHERE,
    );
    expect(text).toContain("\n# yaml-language-server: $schema=gateway.schema.json\n");
    expect(text).toContain("# did not answer when this file was written: connect ECONNREFUSED\n");
    const { endpoints, listeners } = read(text);
    expect(listeners).toMatchObject([{ address: { host: "127.0.0.1", port: 8080 } }]);
    expect(endpoints).toMatchObject({
      kind: "list",
      endpoints: [
        { name: "vllm-0", address: "10.0.0.1", port: 8000, labels: {} },
        { name: "sglang-0", address: "::1", port: 8001, labels: { "llm-d.ai/engine-type": "sglang" } },
        { name: "server-0", address: "h", port: 80 },
      ],
    });
  });

  it("gives nothing that a server says a meaning in YAML", () => {
    const evil = 'm\nkeys: { open: true }\r\u2028keys: { open: true }\u0085# "';
    const text = gatewayText(
      [server("http://h:1", { models: [evil], modelsProblem: evil, metricsProblem: evil, version: evil })],
      { ...WHERE, listen: ":8080" },
    );
    expect(read(text)).toMatchObject({ keys: { open: false }, endpoints: { endpoints: [{ name: "vllm-0" }] } });
    expect(gatewayText([server("http://h:1", { problem: evil })], WHERE)).not.toMatch(/^keys/m);
  });

  it("has TLS to servers with https", () => {
    expect(read(gatewayText([server("https://h:443")], WHERE))).toMatchObject({
      servers: { tls: {} },
      endpoints: { endpoints: [{ address: "h", port: 443 }] },
    });
  });
});

describe("what is said", () => {
  it("names what is there and what is missing", () => {
    const text = foundText(
      server("http://h:1", {
        ...{ adapters: [{ name: "sql", parent: "m" }], missing: ["kvUsage"], prefixCaching: false },
        skew: { ms: -9000, error: 500 },
      }),
      "vllm-0",
    );
    for (const part of ["vllm 0.11.0", "adapters  sql", "missing: KV cache usage", "prefix caching off", "9 s behind"])
      expect(text).toContain(part);
    expect(foundText(server("http://h:1", { metricsProblem: "404" }), "x")).toContain("metrics   none: 404");
    expect(foundText(server("http://h:1", { modelsProblem: "401" }), "x")).toContain("models    none: 401");
    expect(foundText(server("http://h:1", { problem: "timed out" }), "x")).toContain("does not answer: timed out");
  });

  it("prints commands that a shell reads as they are meant", () => {
    expect(nextText("a b.yaml", "127.0.0.1:1", "it's $(x)")).toContain(`validate 'a b.yaml'\n`);
    expect(nextText("g.yaml", "127.0.0.1:1", "it's $(x)")).toContain(`-d '{"model":"it'\\''s $(x)",`);
  });
});
