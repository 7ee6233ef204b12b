import { createServer, type Server } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS, load } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import { type ShownEndpoint, startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

let gateway: TestGateway | undefined;
let sims: Sim[] = [];
let servers: Server[] = [];

afterEach(async () => {
  await gateway?.process.stop();
  await Promise.all(sims.map((sim) => sim.process.stop()));
  for (const server of servers) {
    server.close();
    server.closeAllConnections();
  }
  gateway = undefined;
  sims = [];
  servers = [];
});

const shown = async (): Promise<ShownEndpoint[]> =>
  (await getJson<{ endpoints: ShownEndpoint[] }>(`${gateway!.adminUrl}/debug/endpoints`)).endpoints;

describe("five live and five dead servers in one file", () => {
  it("sends the dead nothing after their first failure, fails nobody, and shows why", async () => {
    sims = await startSims(5);
    const dead = await Promise.all(Array.from({ length: 5 }, () => freePort()));
    // Enough for one request that meets all of the dead before anything else has tried them.
    const file = endpointsFile([...sims.map((sim) => sim.port), ...dead]);
    gateway = await startGateway(file, ["--max-retries", `${dead.length}`]);
    const { url, adminUrl } = gateway;
    const send = async (connections: number, requests: number) =>
      load({
        ...{ url, connections, requests },
        make: (n) => ({
          method: "POST",
          path: "/v1/chat/completions",
          headers: JSON_HEADERS,
          body: chat(`question ${n} of ${requests}`),
        }),
      });
    // One by one at first: then each of the dead has one first failure.
    expect(Object.fromEntries(await send(1, 20))).toEqual({ 200: 20 });
    const deadOnes = await poll("the dead to be known", async () => {
      const endpoints = (await shown()).filter(({ hostPort }) => dead.includes(Number(hostPort.split(":")[1])));
      return endpoints.length === dead.length && endpoints.every(({ state }) => state === "down")
        ? endpoints
        : undefined;
    });
    expect(Object.fromEntries(await send(10, 280))).toEqual({ 200: 280 });
    const down = (await shown()).filter((endpoint) => endpoint.state === "down");
    expect(down.map(({ id }) => id).sort()).toEqual(deadOnes.map(({ id }) => id).sort());
    for (const endpoint of down) expect(endpoint.cause).toMatch(/ECONNREFUSED/);
    const decisions = await getJson<{ endpoint: string }[]>(`${adminUrl}/debug/decisions`);
    const downIds = new Set(down.map((endpoint) => endpoint.id));
    // The first requests may have met a server that nobody had tried yet; the latest hundred did not.
    expect(decisions.filter((decision) => downIds.has(decision.endpoint))).toEqual([]);
    // A page that counted all of them; what it does not say about retries was none (retries.test.ts proves the name).
    const page = await poll("the end of all exchanges", async () => {
      const { text } = await ask(`${adminUrl}/metrics`);
      return text.includes('\nsluice_exchanges_total{outcome="complete"} 300\n') ? text : undefined;
    });
    const retries = [...page.matchAll(/^sluice_gateway_retries_total\{cause="(.*)"\} (\d+)$/gm)];
    for (const [, cause, count] of retries) if (count !== "0") expect(cause).toBe("connect");
    expect(retries.reduce((sum, match) => sum + Number(match[2]), 0)).toBeLessThanOrEqual(dead.length);
  });

  it("takes a server back when it appears", async () => {
    const port = await freePort();
    sims = await startSims(1);
    gateway = await startGateway(endpointsFile([sims[0]!.port, port]));
    await poll("it to be found down", async () => (await shown()).some((endpoint) => endpoint.state === "down"));
    sims.push(...(await startSims(1, ["--port", String(port)])));
    await poll("it to be back", async () => (await shown()).every((endpoint) => endpoint.state === "up"));
  });
});

describe("servers without any metrics", () => {
  it("are chosen by what is in flight here", async () => {
    const held: { release(): void }[][] = [[], [], []];
    const ports = await Promise.all(
      held.map(
        (waiting) =>
          new Promise<number>((resolve) => {
            const server = createServer((request, response) => {
              if (request.method === "GET") {
                response.writeHead(404).end();
                return;
              }
              request.resume();
              waiting.push({ release: () => response.setHeader("content-type", "application/json").end("{}") });
            });
            servers.push(server);
            server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
          }),
      ),
    );
    gateway = await startGateway(endpointsFile(ports));
    const { url } = gateway;
    const answers = Array.from({ length: 9 }, (_, n) =>
      ask(`${url}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat(`held ${n}`) }),
    );
    await poll("all nine to be held", () => held.flat().length === 9);
    expect(held.map((waiting) => waiting.length)).toEqual([3, 3, 3]);
    for (const waiting of held.flat()) waiting.release();
    for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200);
  });
});

describe("bytes per token", () => {
  it.each([
    ["true", 1],
    ["false", 0],
  ])("are learned with --learn-bytes-per-token=%s from %d models", async (value, models) => {
    sims = await startSims(1, [
      "--time-to-first-token",
      "0",
      "--inter-token-latency",
      "0",
      "--max-model-len",
      "100000",
    ]);
    gateway = await startGateway(endpointsFile([sims[0]!.port]), [`--learn-bytes-per-token=${value}`]);
    const answer = await ask(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: JSON_HEADERS,
      body: chat("some words ".repeat(1000)),
    });
    expect(answer.status).toBe(200);
    // What is learned from an answer is known when its end has been passed on.
    await poll("the end of the exchange", async () =>
      (await ask(`${gateway!.adminUrl}/metrics`)).text.includes('sluice_exchanges_total{outcome="complete"} 1'),
    );
    const shown = await getJson<{ models: object[]; otherBytesPerToken: number }>(`${gateway.adminUrl}/debug/models`);
    expect([shown.models.length, shown.otherBytesPerToken]).toEqual([models, 4]);
  });
});
