import { afterEach, describe, expect, it } from "vitest";
import { answerBytes } from "../../../test/support/loopback.ts";
import { get, ProxyHarness, pathTable, post } from "../../../test/support/proxy-harness.ts";
import { HOP_BY_HOP_HEADERS } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { NOT_FORWARDED } from "./forwarded-headers.ts";
import { allowedPath } from "./path-pattern.ts";
import { PATH_ROWS } from "./path-rows.ts";
import { PathTable, printedPaths } from "./path-table.ts";

/** The status of the answer to a request; 0 = it passes. */
function statusOf(method: string, target: string, table = pathTable()): number {
  return table.judge(method, target)?.status ?? 0;
}

describe("the table of paths", () => {
  it.each([
    ["POST", "/v1/chat/completions"],
    ["POST", "/v1/chat/completions/"],
    ["POST", "/v1/completions?x=/metrics"],
    ["POST", "/tenants/a/v1/responses"],
    ["POST", "/tenants/a%40b/v1/responses"],
    ["POST", "/v1/messages/count_tokens"],
    ["POST", "/inference/v1/generate"],
    ["POST", "/generate"],
    ["POST", "/v1/rerank"],
    ["POST", "/v2/models/m/versions/1/infer"],
    ["POST", "/v2/models/stats/infer"],
    ["POST", "/tokenize"],
    ["OPTIONS", "/v1/chat/completions"],
    ["OPTIONS", "/v1/models"],
    ["GET", "/v1/models"],
    ["HEAD", "/v1/models"],
    ["GET", "/v1/models/"],
    ["GET", "/v1/models/org/name"],
    ["GET", "/v1/models/org:name%2Dx"],
    ["GET", "/v2/models/m"],
    ["GET", "/v2/models/m/ready"],
    ["GET", "/health"],
  ])("passes %s %s", (method, target) => {
    expect(statusOf(method, target)).toBe(0);
  });

  it.each([
    ["GET", "/v1/chat/completions"],
    ["PUT", "/v1/chat/completions"],
    ["HEAD", "/v1/chat/completions"],
    ["DELETE", "/v1/models/m"],
    ["POST", "/v1/models"],
    ["GET", "/tokenize"],
    ["GET", "/"],
    ["GET", "/metrics"],
    ["GET", "/metrics/"],
    ["GET", "/METRICS"],
    ["GET", "/%6detrics"],
    ["OPTIONS", "/metrics"],
    ["TRACE", "/v1/models"],
    ["POST", "/v1/load_lora_adapter"],
    ["POST", "/adapters/v1/completions"],
    // Servers answer with their metrics to everything that begins like this.
    ["POST", "/metrics/v1/chat/completions"],
    ["POST", "/metrics-/v1/messages"],
    ["POST", "/prometheus/metrics/v1/completions"],
    ["POST", "/prometheus/metricsx/v1/completions"],
    ["POST", "/v1/load_lora_adapter/v1/completions"],
    ["POST", "/sleep/v1/completions/"],
    ["POST", "/v2/repository/models/m/load"],
    ["GET", "/v2/models/stats"],
    ["POST", "/v2/models/m"],
    ["GET", "/v1/responses/resp_1"],
    ["POST", "/v1/responses/resp_1/cancel"],
    ["GET", "/v1/modelsx"],
    ["GET", "/unheard/of"],
  ])("refuses %s %s with 403", (method, target) => {
    expect(statusOf(method, target)).toBe(403);
  });

  it.each([
    ["GET", "//v1/models"],
    ["GET", "//metrics"],
    ["GET", "/metrics;x"],
    ["POST", "/metrics;/v1/completions"],
    ["POST", "/metrics%3b/v1/completions"],
    ["POST", "/metrics%3F/v1/completions"],
    ["POST", "/metrics%23/v1/completions"],
    ["POST", "/metrics%0d%0a/v1/completions"],
    ["POST", "/metrics%252f/v1/completions"],
    ["GET", "/v1/models/%252e%252e/metrics"],
    ["GET", "/v1/models/..%2fmetrics"],
    ["GET", "/v1/models/%c0%ae%c0%ae/metrics"],
    ["GET", "/v1/models/%zz"],
    ["POST", "/v1/complet%69ons"],
    ["POST", "/%6detrics/v1/completions"],
    ["GET", "/v1%2fmodels"],
    ["POST", "/v1//completions"],
    ["GET", "/v1/models/a|b"],
  ])("refuses %s %s, which servers may read in several ways, with 400", (method, target) => {
    expect(statusOf(method, target)).toBe(400);
  });

  it("refuses in linear time", () => {
    expect(statusOf("GET", `/v1/models/${"%25".repeat(2700)}`)).toBe(400);
    expect(statusOf("GET", `/${"a/".repeat(4000)}`)).toBe(403);
  });

  it("says what is refused, in one short line", () => {
    const refusal = pathTable().judge("GET", `/secret/${"a".repeat(8000)}?key=1`);
    expect(refusal).toBeInstanceOf(Rejection);
    const { reason, detail } = refusal as Rejection;
    expect(reason).toBe("path_not_allowed");
    expect(detail).toMatch(/^this gateway does not pass GET \/secret\/a+\.\.\. to model servers$/);
    expect(detail.length).toBeLessThan(1200);
  });

  it("has no path twice, and no row of one kind within another that would win", () => {
    const paths = PATH_ROWS.flatMap((row) => row.paths);
    expect(new Set(paths).size).toBe(paths.length);
    const table = pathTable();
    for (const { kind, method, paths: own } of PATH_ROWS) {
      for (const path of own) {
        const asked = path.replace(/\{\w+\}/g, "a").replace("*", "b/c");
        expect([path, table.kindOf(method === "*" ? "POST" : method, asked)]).toEqual([path, kind]);
      }
    }
  });

  it("asks the parsers in force, and never lets them open administration", () => {
    let claimed = "/own/chat";
    const table = new PathTable((path) => path === claimed || path === "/sleep", []);
    expect([statusOf("POST", "/own/chat", table), statusOf("GET", "/own/chat", table)]).toEqual([0, 403]);
    expect(statusOf("POST", "/sleep", table)).toBe(403);
    claimed = "/other";
    expect(statusOf("POST", "/own/chat", table)).toBe(403);
  });
});

describe("--allow-path", () => {
  it("opens a path for every method, and nothing near it", () => {
    const table = pathTable("/load_lora_adapter");
    for (const method of ["POST", "DELETE"]) expect(statusOf(method, "/load_lora_adapter?a", table)).toBe(0);
    expect(statusOf("POST", "/load_lora_adapter/", table)).toBe(0);
    for (const near of ["/load_lora_adapter/x", "/unload_lora_adapter", "/load_lora_adapte", "/Load_lora_adapter"])
      expect(statusOf("POST", near, table)).toBe(403);
    for (const odd of ["//load_lora_adapter", "/load%5Flora_adapter", "/load_lora_adapter;x"])
      expect(statusOf("POST", odd, table)).toBe(400);
  });

  it("opens all paths under a beginning, which may be every path, as it is", () => {
    const table = pathTable("/v1/files/*");
    for (const path of ["/v1/files/a", "/v1/files/a/b"]) expect(statusOf("GET", path, table)).toBe(0);
    for (const path of ["/v1/files", "/v1/files/", "/v1/filesx/a"]) expect(statusOf("GET", path, table)).toBe(403);
    expect(statusOf("GET", "/v1/files/%252e%252e/metrics", table)).toBe(400);
    for (const path of ["/", "//metrics", "/a;b", "/METRICS"]) expect(statusOf("PUT", path, pathTable("/*"))).toBe(0);
  });

  it.each([
    "",
    "*",
    "metrics",
    "/a?b",
    "/a b",
    "/a/../b",
    "/a//b",
    "//*",
    "/a/",
    "/a*",
    "/*/a",
    "/%61",
    "/a;b",
    "/a/*/*",
  ])("refuses the value %j", (value) => {
    expect(() => allowedPath(value)).toThrow(expect.objectContaining({ code: "FLAG_VALUE" }));
  });

  it.each(["/", "/*", "/metrics", "/v1/files/*", "/a.b/~c"])("takes the value %j", (value) => {
    expect(allowedPath(value).text).toBe(value);
  });
});

describe("the printed table", () => {
  const lines = (...allowed: string[]) =>
    printedPaths(["/own", "*/chat/completions"], allowed.map(allowedPath)).map(
      ({ methods, path, kind }) => `${methods} ${path} ${kind}`,
    );

  it("has the paths of parsers first and all other paths last", () => {
    const all = lines();
    expect(all.slice(0, 2)).toEqual(["POST OPTIONS /own inference", "POST OPTIONS */chat/completions inference"]);
    expect(all).toContain("GET HEAD OPTIONS /v1/models harmless");
    expect(all).toContain("* /load_lora_adapter administration");
    expect(all.at(-1)).toBe("* /* administration");
  });

  it("shows what is allowed as allowed alone", () => {
    expect(lines("/metrics").filter((line) => line.includes(" /metrics "))).toEqual(["* /metrics allowed"]);
    expect(lines("/adapters/*").filter((line) => line.includes(" /adapters"))).toEqual([
      "* /adapters/* allowed",
      "* /adapters administration",
    ]);
    const everything = lines("/*");
    expect(everything.filter((line) => line.endsWith("administration"))).toEqual([]);
    expect(everything.at(-1)).toBe("* /* allowed");
  });
});

describe("a proxy with the table", () => {
  let harness = new ProxyHarness();
  afterEach(async () => {
    await harness.close();
    harness = new ProxyHarness();
  });

  async function echoing(): Promise<{ heads: string[] }> {
    const heads: string[] = [];
    const model = await harness.model(({ socket, head }) => {
      heads.push(head);
      socket.write(answerBytes(200, head));
    });
    await harness.start({ endpoints: [model.endpoint] });
    return { heads };
  }

  it("refuses in OpenAI's shape, opens no exchange, and keeps the connection", async () => {
    const { heads } = await echoing();
    const text = await harness.ask(get("/metrics", "x-request-id: mine\r\n") + get());
    expect(text).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n/);
    expect(text).toContain("x-gateway-error: path-not-allowed");
    expect(text).toContain("x-request-id: mine");
    expect(text).toContain(
      '{"error":{"message":"this gateway does not pass GET /metrics to model servers","type":"invalid_request_error",' +
        '"param":null,"code":403,"help":"docs/reference/errors.md#path_not_allowed"}}',
    );
    expect(text).toContain("HTTP/1.1 200 OK");
    expect([heads.length, harness.exchanges.length]).toEqual([1, 1]);
    expect(harness.metrics.bad).toEqual(["path-not-allowed"]);
  });

  it("ends the connection of a refused request whose body is not complete, and asks for no body", async () => {
    await echoing();
    const early = await harness.ask("POST /sleep HTTP/1.1\r\nhost: gw\r\ncontent-length: 100\r\n\r\npart");
    expect(early).toMatch(/^HTTP\/1\.1 403 /);
    expect(early).toMatch(/^connection: close$/im);
    const expecting = await harness.ask(
      "POST /sleep HTTP/1.1\r\nhost: gw\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n",
    );
    expect(expecting).toMatch(/^HTTP\/1\.1 403 /);
    expect(expecting).not.toContain("100 Continue");
    expect(harness.exchanges).toHaveLength(0);
  });

  it("forwards no header that names another target or method", async () => {
    const { heads } = await echoing();
    const others = [...NOT_FORWARDED].filter((name) => !HOP_BY_HOP_HEADERS.has(name));
    expect(others).toContain("x-original-url");
    const lines = others.map((name) => `${name.toUpperCase()}: /metrics\r\n`).join("");
    await harness.ask(post("{}", `connection: close\r\nx-forwarded-host: a\r\n${lines}`));
    expect(heads[0]).toContain("x-forwarded-host: a");
    for (const name of others) expect(heads[0]!.toLowerCase()).not.toContain(`${name}:`);
    expect(heads[0]).not.toContain("/metrics");
    expect(harness.exchange.headers?.keys.some((key) => others.includes(key))).toBe(false);
  });
});
