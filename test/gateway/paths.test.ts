import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { PATH_ROWS } from "../../src/wires/proxy/path-rows.ts";
import { ask } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { rawClient } from "../support/loopback.ts";
import { poll } from "../support/poll.ts";
import { sluice } from "../support/process.ts";
import { endpointsFile } from "../support/stack.ts";

describe("what passes through sluice gateway", () => {
  let server: Server;
  let gateway: TestGateway;
  let opened: TestGateway;
  /** Method and target of each request that reached the server, its scrapes apart. */
  let reached: string[] = [];
  const scraped: string[] = [];

  beforeAll(async () => {
    server = createServer((request, response) => {
      request.resume();
      const seen = `${request.method} ${request.url}`;
      // Only what comes through a gateway has this header.
      if (request.headers["x-forwarded-for"] === undefined) scraped.push(seen);
      else reached.push(seen);
      if (request.url === "/metrics")
        response.setHeader("content-type", "text/plain").end("vllm:num_requests_waiting 0\n");
      else response.setHeader("content-type", "application/json").end("{}");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const file = endpointsFile([(server.address() as AddressInfo).port]);
    gateway = await startGateway(file);
    opened = await startGateway(file, ["--allow-path", "/v1/load_lora_adapter", "--allow-path", "/adapters/*"]);
  });
  afterAll(async () => {
    for (const { process } of [gateway, opened]) await process?.stop();
    server.close();
    server.closeAllConnections();
  });
  beforeEach(() => {
    reached = [];
  });

  const BODY = '{"model":"m","prompt":"p","messages":[{"role":"user","content":"c"}],"token_ids":[1],"input":"i"}';

  async function send(base: string, method: string, path: string): Promise<number> {
    const body = method === "POST" ? { body: BODY, headers: { "content-type": "application/json" } } : {};
    return (await ask(`${base}${path}`, { method, ...body })).status;
  }

  /** The requests of the rows of one kind. */
  function requests(kinds: readonly string[]): readonly (readonly [method: string, path: string])[] {
    return PATH_ROWS.filter(({ kind }) => kinds.includes(kind)).flatMap(({ method, paths }) =>
      paths.flatMap((path) =>
        (method === "*" ? ["GET", "POST"] : [method]).map(
          (each) => [each, path.replace(/\{\w+\}/g, "a").replace("*", "b/c")] as const,
        ),
      ),
    );
  }

  it("each path of inference and each harmless path arrives", async () => {
    const parsed = ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/messages"];
    const sent = [...requests(["inference", "harmless"]), ...parsed.map((path) => ["POST", path] as const)];
    for (const [method, path] of sent) expect([path, await send(gateway.url, method, path)]).toEqual([path, 200]);
    expect(reached).toEqual(sent.map(([method, path]) => `${method} ${path}`));
  });

  it("no path of administration arrives, nor one that no list names", async () => {
    const sent = [
      ...requests(["administration"]),
      ["GET", "/"],
      ["GET", "/v1/chat/completions"],
      ["PUT", "/x"],
    ] as const;
    for (const [method, path] of sent) expect([path, await send(gateway.url, method, path)]).toEqual([path, 403]);
    expect(reached).toEqual([]);
    // The gateway itself still reads the metrics.
    expect(scraped).toContain("GET /metrics");
  });

  it("only the allowed paths arrive as well", async () => {
    for (const path of ["/v1/load_lora_adapter", "/adapters/a"]) expect(await send(opened.url, "POST", path)).toBe(200);
    for (const path of ["/load_lora_adapter", "/adapters", "/v1/unload_lora_adapter", "/metrics"])
      expect(await send(opened.url, "POST", path)).toBe(403);
    expect(reached).toEqual(["POST /v1/load_lora_adapter", "POST /adapters/a"]);
  });

  it.each([
    ["//metrics", 400],
    ["/%6detrics", 403],
    ["/v1/../metrics", 400],
    ["/v1/%2e%2e/metrics", 400],
    ["/v1/models/%252e%252e/%252e%252e/metrics", 400],
    ["/metrics;x", 400],
    ["/metrics/", 403],
    ["/METRICS", 403],
    ["/metrics?x=/v1/models", 403],
    ["/metrics#/v1/models", 400],
    ["http://gw/metrics", 403],
    ["http://other/v1/models", 400],
    ["*", 400],
    ["/v1\\models", 400],
    ["/v1/models\\..\\..\\metrics", 400],
    ["/metrics\0/v1/models", 400],
    ["/metrics\x01", 400],
    [`/v1/models/${"a".repeat(9000)}`, 414],
  ] as const)("the target %j does not arrive", async (target, status) => {
    const client = await rawClient(gateway.port);
    client.send(`GET ${target} HTTP/1.1\r\nhost: gw\r\nconnection: close\r\n\r\n`);
    await poll("an answer", client.closed);
    expect(client.text()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(reached).toEqual([]);
  });

  it.each([
    ["a WebSocket", "GET /v1/realtime HTTP/1.1\r\nhost: gw\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"],
    [
      "an upgrade of a path that passes",
      "GET /v1/models HTTP/1.1\r\nhost: gw\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
    ],
    ["CONNECT", "CONNECT gw:80 HTTP/1.1\r\nhost: gw:80\r\n\r\n"],
  ])("%s does not arrive", async (_what, bytes) => {
    const client = await rawClient(gateway.port);
    client.send(bytes);
    await poll("an answer", client.closed);
    expect(client.text()).toMatch(/^HTTP\/1\.1 501 /);
    expect(reached).toEqual([]);
  });

  it("--print-paths prints the table without endpoints, with the paths of the configuration and the allowed ones", async () => {
    const process = sluice(
      ...["gateway", "--print-paths", "--config-file", "examples/config.yaml", "--allow-path", "/metrics"],
    );
    expect((await process.ended()).code).toBe(0);
    const lines = process.stdout.split("\n").map((line) => line.trim().split(/ {2,}/));
    expect(lines[0]).toEqual(["METHODS", "PATH", "KIND", "RESULT"]);
    expect(lines).toContainEqual(["POST OPTIONS", "*/chat/completions", "inference", "passes"]);
    expect(lines).toContainEqual(["GET HEAD OPTIONS", "/v1/models", "harmless", "passes"]);
    expect(lines).toContainEqual(["*", "/metrics", "allowed", "passes"]);
    expect(lines).toContainEqual(["*", "/load_lora_adapter", "administration", "403"]);
    expect(lines.at(-2)).toEqual(["*", "/*", "administration", "403"]);
  });

  it("a wrong value of --allow-path is an error", async () => {
    const process = sluice("gateway", "--print-paths", "--allow-path", "metrics");
    expect((await process.ended()).code).toBe(2);
    expect(process.stderr).toMatch(/^sluice: --allow-path is "metrics"; give a path .*\n {2}FLAG_VALUE: /);
  });
});
