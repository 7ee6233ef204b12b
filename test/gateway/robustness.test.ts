import { renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS, load } from "../support/client.ts";
import { type ShownEndpoint, startGateway, type TestGateway } from "../support/gateway.ts";
import { growthMiB } from "../support/growth.ts";
import { rawClient } from "../support/loopback.ts";
import { poll } from "../support/poll.ts";
import { sluice } from "../support/process.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

describe("a gateway among bad inputs stays up and says what is wrong", () => {
  let sims: Sim[];
  let gateway: TestGateway;
  let file: string;

  beforeAll(async () => {
    sims = await startSims(2, ["--inter-token-latency", "1"]);
    file = endpointsFile(sims.map((sim) => sim.port));
    gateway = await startGateway(file, ["--allow-path", "/unknown/*"]);
  });
  afterAll(async () => {
    await gateway?.process.stop();
    await Promise.all((sims ?? []).map((sim) => sim.process.stop()));
  });

  const chatPath = () => `${gateway.url}/v1/chat/completions`;
  const alive = async () =>
    expect((await ask(chatPath(), { headers: JSON_HEADERS, body: chat("alive?") })).status).toBe(200);

  it.each([
    ["malformed JSON", "{", 400, /is empty or ends too early/],
    ["an array", "[]", 400, /must be a JSON object, but is an array/],
    ["no model", '{"messages":[{"role":"user","content":"x"}]}', 400, /model not found in request body/],
    ["no messages", '{"model":"m"}', 400, /must have valid messages field/],
    ["an empty body with a length", "", 400, /is empty or ends too early/],
  ])("answers %s with an OpenAI-shaped error", async (_, body, status, message) => {
    const answer = await ask(chatPath(), {
      method: "POST",
      headers: { ...JSON_HEADERS, "transfer-encoding": "chunked" },
      body,
    });
    expect(answer.status).toBe(status);
    expect(answer.headers["content-type"]).toMatch(/^application\/json/);
    const { error } = JSON.parse(answer.text);
    expect(error.message).toMatch(message);
    expect(error.code).toBe(status);
    await alive();
  });

  it("tells a client that sent no request id which one to ask about", async () => {
    const answer = await ask(chatPath(), { headers: JSON_HEADERS, body: chat("whose?") });
    const id = answer.headers["x-request-id"];
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    const explained = await getJson<{ requestId: string }>(`${gateway.adminUrl}/debug/decisions/${id}`);
    expect(explained.requestId).toBe(id);
    const own = await ask(chatPath(), { headers: { ...JSON_HEADERS, "x-request-id": "mine" }, body: chat("mine") });
    expect(own.headers["x-request-id"]).toBeUndefined();
  });

  it("D-57: answers absurd headers", async () => {
    const many = Object.fromEntries(Array.from({ length: 150 }, (_, i) => [`h${i}`, "v"]));
    expect((await ask(`${gateway.url}/v1/models`, { headers: many })).status).toBe(431);
    expect((await ask(`${gateway.url}/v1/models`, { headers: { big: "x".repeat(100_000) } })).status).toBe(431);
    expect((await ask(`${gateway.url}/v1/${"x".repeat(10_000)}`)).status).toBe(414);
    await alive();
  });

  it("D-57: a body of 32 MiB passes, one byte more is answered 413: at once if announced, else while it streams", async () => {
    const limit = 32 * 1024 * 1024;
    const begin = '{"model":"sim","max_tokens":1,"prompt":"';
    const body = Buffer.concat([Buffer.from(begin), Buffer.alloc(limit - begin.length - 2, "x"), Buffer.from('"}')]);
    const passed = await ask(`${gateway.url}/v1/completions`, { headers: JSON_HEADERS, body });
    // Whatever the simulator makes of a word of that size.
    expect(passed.headers["x-inference-port"]).toMatch(/^\d+$/);
    const head = "POST /v1/completions HTTP/1.1\r\nhost: a\r\n";
    const announced = await rawClient(gateway.port);
    announced.send(`${head}content-length: ${limit + 1}\r\n\r\n`);
    await poll("the refusal of the length", () => announced.text().startsWith("HTTP/1.1 413 "));
    announced.socket.destroy();
    const streaming = await rawClient(gateway.port);
    streaming.send(`${head}transfer-encoding: chunked\r\n\r\n`);
    streaming.send(`${limit.toString(16)}\r\n`);
    streaming.send(body);
    streaming.send("\r\n1\r\nx\r\n");
    await poll("the refusal of the last byte", () => streaming.text().startsWith("HTTP/1.1 413 "));
    expect(streaming.text()).toContain("x-gateway-error: too-large");
    await poll("its end", streaming.closed);
    await alive();
  });

  it("survives bytes that are no HTTP", async () => {
    for (const bytes of [
      "\u0000\u0001\u0002",
      "GET",
      `${"A".repeat(70_000)}\r\n\r\n`,
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ]) {
      await new Promise<void>((resolve) => {
        const socket = connect(gateway.port, "127.0.0.1", () => socket.end(bytes));
        socket.on("error", () => {});
        socket.on("close", () => resolve());
        socket.resume();
      });
    }
    await alive();
  });

  it("does not let a client that reads slowly hurt the others", async () => {
    const slow = connect(gateway.port, "127.0.0.1");
    const body = chat("slow", { stream: true, max_tokens: 20_000 });
    slow.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    slow.on("error", () => {});
    await new Promise<void>((resolve) => slow.once("readable", () => resolve()));
    slow.pause();
    await alive();
    slow.destroy();
    await poll("its slot to be freed", async () => {
      const { endpoints } = await getJson<{ endpoints: ShownEndpoint[] }>(`${gateway.adminUrl}/debug/endpoints`);
      return endpoints.every((endpoint) => endpoint.inFlight.requests === 0);
    });
  });

  it("keeps the endpoints of the last good file when the file breaks", async () => {
    const good = `endpoints:\n${sims.map((sim, i) => `- { name: server-${i + 1}, address: 127.0.0.1, port: ${sim.port} }\n`).join("")}`;
    /** As a whole: nobody reads half of it. */
    const replace = (text: string): void => {
      writeFileSync(`${file}.new`, text);
      renameSync(`${file}.new`, file);
    };
    replace("endpoints: [ {");
    await poll("the broken file to be noticed", () => /endpoints\.yaml:1:/.test(gateway.process.stderr));
    await alive();
    replace(`${good}- { name: server-3, address: 127.0.0.1, port: 1 }\n`);
    await poll("the repaired file to be read", async () => {
      const { endpoints } = await getJson<{ endpoints: ShownEndpoint[] }>(`${gateway.adminUrl}/debug/endpoints`);
      return endpoints.length === 3;
    });
    replace(good);
    await poll("the third endpoint to leave", async () => {
      const { endpoints } = await getJson<{ endpoints: ShownEndpoint[] }>(`${gateway.adminUrl}/debug/endpoints`);
      return endpoints.length === 2;
    });
  });

  it("does not grow with bad requests: by at most 32 MiB in one of three rounds of 10,000", async () => {
    const bodies = [
      "{",
      "[]",
      '{"model":1}',
      "\u0000".repeat(1000),
      `{"model":"${"m".repeat(2000)}","messages":[]}`,
      '{"model":"m","messages":[{"role":"user"',
    ];
    const bad = (count: number) =>
      load({
        url: gateway.url,
        connections: 16,
        requests: count,
        make: (n) => ({
          method: "POST",
          path: n % 7 === 0 ? `/unknown/${n}` : n % 7 === 1 ? `/refused/${n}` : "/v1/chat/completions",
          headers: { ...JSON_HEADERS, "x-request-id": `bad-${n}`, "x-llm-d-inference-fairness-id": `tenant-${n}` },
          body: bodies[n % bodies.length]!,
        }),
      });
    // Bodies and paths that are refused here, and allowed paths that nobody serves: those are for the model server to refuse.
    const refusals = (tally: ReadonlyMap<number, number>): number[] => [...tally.keys()].sort();
    expect(refusals(await bad(1000))).toEqual([400, 403, 404]);
    const grown = await growthMiB(gateway.process.pid, 32, async () => {
      expect(refusals(await bad(10_000))).toEqual([400, 403, 404]);
    });
    expect(grown).toBeLessThanOrEqual(32);
    await alive();
  });
});

describe("a server whose metrics page is garbage", () => {
  it("is blind, says so, and is still used", async () => {
    const server = createServer((request, response) => {
      if (request.url === "/metrics") response.end("<html>not metrics</html>");
      else response.setHeader("content-type", "application/json").end('{"object":"list","data":[]}');
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const gateway = await startGateway(endpointsFile([port]));
    try {
      await poll("it to be found blind", async () => {
        const { endpoints } = await getJson<{ endpoints: ShownEndpoint[] }>(`${gateway.adminUrl}/debug/endpoints`);
        return endpoints[0]?.state === "blind" && endpoints[0].cause !== "";
      });
      expect((await ask(`${gateway.url}/v1/models`)).status).toBe(200);
    } finally {
      await gateway.process.stop();
      server.close();
      server.closeAllConnections();
    }
  });
});

describe("a start that cannot work ends with one clear line", () => {
  it.each([
    ["no endpoints file", ["gateway"], /give --endpoints FILE/, 2],
    ["a missing file", ["gateway", "--endpoints", "/nowhere/endpoints.yaml"], /\/nowhere\/endpoints\.yaml/, 1],
    ["a mistyped flag", ["gateway", "--endpoint", "x"], /did you mean --endpoints\?/, 2],
    [
      "a bad address",
      ["gateway", "--endpoints", "examples/endpoints.yaml", "--listen", "nowhere"],
      /--listen "nowhere" is not an address/,
      2,
    ],
    ["an unknown command", ["gatewy"], /did you mean gateway\?/, 2],
    [
      "an epp for a pool where there is no Kubernetes",
      ["epp", "--pool-name", "p"],
      /Sluice finds no Kubernetes: .* without Kubernetes give --endpoints/,
      1,
    ],
    ["a mistyped epp flag", ["epp", "--grpc-prt", "1"], /grpc-port/, 2],
  ])("%s", async (_, args, message, code) => {
    const process = sluice(...args);
    const exit = await process.ended();
    expect(process.stderr).toMatch(message);
    expect(process.stderr).not.toMatch(/\n\s+at /);
    expect(exit.code).toBe(code);
  });
});
