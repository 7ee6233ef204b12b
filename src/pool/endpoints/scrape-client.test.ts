import { createPrivateKey, webcrypto } from "node:crypto";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from "node:net";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it } from "vitest";
import { deadPort } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { fixedLimit } from "../../../test/support/slowness.ts";
import { loadX509 } from "../../../test/support/x509.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { selfSignedPair } from "../../base/grpc/self-signed.ts";
import type { TlsPair } from "../../base/grpc/tls.ts";
import { Collector } from "./collector.ts";
import { Dialects } from "./dialects/dialects.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import { EndpointRegistry } from "./registry.ts";
import { ScrapeClient } from "./scrape-client.ts";
import type { MetricsPage } from "./scraper.ts";
import { EndpointsView } from "./view.ts";

const PAGE = `# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting 3
vllm:num_requests_running 4
vllm:kv_cache_usage_perc 0.5
vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1
`;

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function listen(server: Server | TcpServer, port = 0): Promise<number> {
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
  });
  cleanUps.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

function http(answer: RequestListener): Promise<number> {
  return listen(createServer(answer));
}

function tcp(onConnection: (socket: Socket) => void): Promise<number> {
  return listen(createTcpServer(onConnection));
}

/** A port where connections stay pending: its queue of connections to accept is full, and nobody accepts any. */
async function neverAccepting(): Promise<number> {
  const source = `
    const { parentPort } = require("node:worker_threads");
    const server = require("node:net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
      parentPort.postMessage(server.address().port);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    });`;
  const worker = new Worker(source, { eval: true });
  cleanUps.push(() => worker.terminate());
  const port = await new Promise<number>((resolve) => worker.once("message", resolve));
  let open = 0;
  for (let i = 0; i < 4; i++) {
    const socket = connect(port, "127.0.0.1", () => open++).on("error", () => {});
    cleanUps.push(() => socket.destroy());
  }
  await poll("a full queue", () => open === 2);
  return port;
}

/** A certificate for an address, signed by itself. */
async function namedPair(address: string): Promise<TlsPair> {
  const x509 = await loadX509();
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: "01",
    name: `CN=${address}`,
    signingAlgorithm: algorithm,
    keys,
    extensions: [new x509.SubjectAlternativeNameExtension([{ type: "ip", value: address }])],
  });
  const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey));
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" }).export({ format: "pem", type: "pkcs8" });
  return { cert: certificate.toString("pem"), key: String(key) };
}

/** Milliseconds for a scrape that nobody keeps waiting: what ends it is the server's doing. */
const AMPLE = fixedLimit(1000);

/** A pool with one endpoint per port, scraped every 50 ms. */
function scrape(
  ports: readonly number[],
  timeout = AMPLE,
  page: MetricsPage = {},
  connectTimeout = Math.max(1000, timeout),
) {
  const registry = new EndpointRegistry({ clock: realClock, random: new SeededRandom(1) });
  const counted = { poll: 0, extract: 0 };
  const collector = new Collector({
    clock: realClock,
    random: new SeededRandom(2),
    registry,
    scraper: new ScrapeClient(realClock, new Dialects(), page, connectTimeout),
    metrics: { pollFailed: () => void counted.poll++, extractFailed: () => void counted.extract++ },
    fixed: true,
    timeout,
  });
  collector.start();
  cleanUps.push(() => collector.close());
  const endpoints = ports.map((port, i) => {
    const spec = { namespace: "default", name: `e${i}`, address: "127.0.0.1", port, rank: 0, labels: {} };
    return registry.upsert(spec)!;
  });
  return { registry, collector, endpoints, first: endpoints[0]!, counted };
}

function scraped(endpoint: PoolEndpoint): Promise<boolean> {
  return poll("first scrape", () => endpoint.cause !== "not scraped yet");
}

describe("ScrapeClient", () => {
  it("reads pages over one kept connection", async () => {
    let connections = 0;
    let requests = 0;
    const server = createServer((request, response) => {
      requests++;
      expect(request.url).toBe("/metrics");
      response.end(PAGE);
    });
    server.on("connection", () => connections++);
    const { first } = scrape([await listen(server)]);
    await poll("ten scrapes", () => requests >= 10);
    expect(connections).toBe(1);
    expect(first).toMatchObject({ state: "up", cause: "metrics page read" });
    expect(first.metrics).toMatchObject({ waiting: 3, running: 4, kvUsage: 0.5, blockSize: 16, blocks: 100 });
    expect(realClock.now() - first.metrics.scrapedAt).toBeGreaterThanOrEqual(0);
  });

  it("puts a page together that comes in many pieces and is long", async () => {
    const filler = `other_metric{x="${"y".repeat(990)}"} 1\n`;
    const { first } = scrape([
      await http((_, response) => {
        response.write(filler.repeat(500));
        for (let at = 0; at < PAGE.length; at += 7) response.write(PAGE.slice(at, at + 7));
        response.end(filler.repeat(500));
      }),
    ]);
    await scraped(first);
    expect(first.metrics).toMatchObject({ waiting: 3, running: 4, kvUsage: 0.5 });
  });

  it("calls a server blind that answers with anything but a page of values, and keeps its connection (S-8)", async () => {
    const cases: [RequestListener, string, "poll" | "extract"][] = [
      [(_, response) => response.writeHead(500).end("broken"), "scrape: HTTP 500 from /metrics", "poll"],
      [(_, response) => response.writeHead(404).end(), "scrape: HTTP 404 from /metrics", "poll"],
      [(_, response) => response.writeHead(302, { location: "/x" }).end(), "scrape: HTTP 302 from /metrics", "poll"],
      [(_, response) => response.writeHead(204).end(), "scrape: HTTP 204 from /metrics", "poll"],
      [
        (_, response) => response.end("<html>hello</html>"),
        "scrape: the page has none of vllm:num_requests",
        "extract",
      ],
      [(_, response) => response.end(), "scrape: the page has none of vllm:num_requests_waiting", "extract"],
    ];
    for (const [answer, cause, counter] of cases) {
      let connections = 0;
      const server = createServer(answer);
      server.on("connection", () => connections++);
      const { first, counted } = scrape([await listen(server)]);
      await poll("three scrapes", () => counted[counter] >= 3);
      expect(first.state).toBe("blind");
      expect(first.cause).toContain(cause);
      expect(counted[counter === "poll" ? "extract" : "poll"]).toBe(0);
      expect(connections).toBe(1);
    }
  });

  it("reads at most 4 MiB", async () => {
    const { first } = scrape([
      await http((_, response) => {
        response.on("error", () => {});
        const flood = (): void => {
          while (!response.destroyed && response.write(PAGE.repeat(500)));
        };
        response.on("drain", flood);
        flood();
      }),
    ]);
    await scraped(first);
    expect(first.state).toBe("blind");
    expect(first.cause).toContain("the page /metrics has more than 4194304 bytes");
  });

  it("calls what does not speak HTTP blind: it answers", async () => {
    const { first } = scrape([await tcp((socket) => socket.on("data", () => socket.write("+PONG\r\n")))]);
    await scraped(first);
    expect(first.state).toBe("blind");
    expect(first.cause).toContain("not HTTP");
  });

  it("calls a server down that refuses, resets, cuts the page or never accepts, and says which (S-7)", async () => {
    const cases: [number, RegExp][] = [
      [await deadPort(), /^scrape could not connect: .*ECONNREFUSED 127\.0\.0\.1:\d+/],
      [await tcp((socket) => socket.on("data", () => socket.resetAndDestroy())), /^scrape connection was reset: ./],
      [await tcp((socket) => socket.end()), /^scrape connection was reset: ./],
      [
        await http((_, response) => {
          response.writeHead(200, { "content-length": 100_000 }).write(PAGE);
          response.socket?.end();
        }),
        /^scrape connection was reset: ./,
      ],
    ];
    const { endpoints, collector } = scrape(cases.map(([port]) => port));
    for (const [i, endpoint] of endpoints.entries()) {
      await scraped(endpoint);
      expect([endpoint.name, endpoint.state]).toEqual([`e${i}`, "down"]);
      expect(endpoint.cause).toMatch(cases[i]![1]);
    }
    expect(collector.active).toBeLessThanOrEqual(cases.length);
    const { first } = scrape([await neverAccepting()], 150);
    await scraped(first);
    expect(first).toMatchObject({
      state: "down",
      cause: "scrape timed out: no complete metrics page within 150 ms",
    });
  });

  it("calls a server blind that accepts the connection and brings no page in time: it may be busy", async () => {
    const cases: [number, MetricsPage][] = [
      [await tcp(() => {}), {}],
      [await http((_, response) => void response.write(PAGE)), {}],
      // Nobody answers the TLS handshake, but the connection stands.
      [await tcp(() => {}), { scheme: "https" }],
    ];
    for (const [port, page] of cases) {
      const { first, registry, counted } = scrape([port], 150, page);
      const states: string[] = [];
      registry.onStateChanged(({ state }) => states.push(state));
      await poll("several scrapes", () => counted.poll > 2);
      expect(states).toEqual(["blind"]);
      expect(first.cause).toBe("scrape: no complete metrics page within 150 ms");
      expect(counted.extract).toBe(0);
    }
  });

  it("calls a server blind whose TLS handshake outlasts the time to connect", async () => {
    const port = await tcp(() => {});
    const { first } = scrape([port], AMPLE, { scheme: "https" }, 1000);
    await poll("the time to connect to be over", () => first.state !== "up");
    expect(first.state).toBe("blind");
  });

  it("sees that a server is gone behind a page that was late before", async () => {
    const server = createServer(() => {});
    const port = await listen(server);
    const { first } = scrape([port], 150);
    await poll("blind", () => first.state === "blind");
    server.close();
    server.closeAllConnections();
    // Where 150 ms go by before the refusal is read, the next attempt tells more.
    await poll("down", () => first.state === "down" && first.cause.includes("ECONNREFUSED"));
  });

  it("is not fooled by a kept connection that the server closes just then", async () => {
    let connections = 0;
    const served = new WeakMap<Socket, number>();
    const server = createServer((request, response) => {
      const count = (served.get(request.socket) ?? 0) + 1;
      served.set(request.socket, count);
      if (count < 3) response.end(PAGE);
      else request.socket.destroy();
    });
    server.on("connection", () => connections++);
    const { first, registry, counted } = scrape([await listen(server)]);
    const states: string[] = [];
    registry.onStateChanged((endpoint) => states.push(endpoint.state));
    await poll("several connections", () => connections >= 4);
    expect(states).toEqual([]);
    expect(counted.poll).toBe(0);
    expect(first.state).toBe("up");
  });

  it("says nothing about the serving port when another one for metrics is silent", async () => {
    const { first } = scrape([await listen(createServer())], AMPLE, { port: await deadPort() });
    await poll("a scrape", () => first.state === "blind");
    expect(first.cause).toMatch(/metrics port: .*ECONNREFUSED/);
  });

  it("reads the page where the endpoint says it is, and follows it when it moves (R-57)", async () => {
    const page = (waiting: number): RequestListener => {
      return (_request, response) => response.end(PAGE.replace("waiting 3", `waiting ${waiting}`));
    };
    const [serving, there, then] = [await http(page(1)), await http(page(2)), await http(page(5))];
    const { registry, first } = scrape([serving]);
    const { namespace, name, address, port, rank, labels } = first;
    const move = (metricsHost?: { address: string; port: number }) =>
      registry.upsert({ namespace, name, address, port, rank, labels, ...(metricsHost && { metricsHost }) });
    for (const [metrics, waiting] of [
      [{ address: "localhost", port: there }, 2],
      [{ address: "127.0.0.1", port: then }, 5],
      [undefined, 1],
    ] as const) {
      expect(move(metrics)).toBe(first);
      await poll("the page of the new place", () => first.metrics.waiting === waiting);
    }
    move({ address: "localhost", port: await deadPort() });
    await poll("a scrape in vain", () => first.state === "blind");
    expect(first.cause).toMatch(/metrics address: .*ECONNREFUSED/);
  });

  it("lets a port that is configured for all pages come before that of an endpoint (R-57)", async () => {
    const { registry, first } = scrape([await deadPort()], AMPLE, {
      port: await http((_request, response) => response.end(PAGE)),
    });
    const { namespace, name, address, port, rank, labels } = first;
    registry.upsert({ namespace, name, address, port, rank, labels, metricsHost: { address, port: await deadPort() } });
    await poll("a page", () => first.metrics.waiting === 3);
  });

  it("survives an address that is none", async () => {
    const { registry } = scrape([await deadPort()]);
    const odd = { namespace: "default", name: "odd", address: "10.0.0.256", port: 80, rank: 0, labels: {} };
    const endpoint = registry.upsert(odd)!;
    await scraped(endpoint);
    expect(endpoint.state).toBe("down");
    expect(endpoint.cause).toContain("Invalid URL");
  });

  it("closes the connection of an endpoint that leaves the pool", async () => {
    let closed = 0;
    const server = createServer((_, response) => response.end(PAGE));
    server.on("connection", (socket) => socket.on("close", () => closed++));
    const { first, registry } = scrape([await listen(server)]);
    await scraped(first);
    registry.remove(first.id);
    await poll("connection closed", () => closed === 1);
  });

  it("finds the five dead of ten and takes each back when it returns", async () => {
    const live = await Promise.all(Array.from({ length: 5 }, () => http((_, response) => void response.end(PAGE))));
    const dead = await Promise.all(Array.from({ length: 5 }, deadPort));
    const { registry, endpoints } = scrape([...live, ...dead]);
    await poll("states", () => registry.candidates().down.length === 5);
    expect(registry.candidates().endpoints.map((endpoint) => endpoint.port)).toEqual(live);
    await scraped(endpoints[4]!);
    for (const row of new EndpointsView(registry, realClock).pool().endpoints.slice(5))
      expect(row.cause).toContain("ECONNREFUSED");
    for (const port of dead)
      await listen(
        createServer((_, response) => response.end(PAGE)),
        port,
      );
    await poll("recovery", () => registry.candidates().endpoints.length === 10);
    expect(endpoints.every((endpoint) => endpoint.metrics.waiting === 3)).toBe(true);
  });

  it("asks for the path and at the port it is told, whatever the endpoint's own", async () => {
    const asked: (string | undefined)[] = [];
    const port = await http((request, response) => {
      asked.push(request.url);
      response.end(PAGE);
    });
    const { first } = scrape([await deadPort()], AMPLE, { path: "/stats?x=1", port });
    await scraped(first);
    expect(first).toMatchObject({ state: "up", metrics: { waiting: 3 } });
    expect(new Set(asked)).toEqual(new Set(["/stats?x=1"]));
    const missing = await http((_, response) => response.writeHead(404).end());
    const { first: second } = scrape([missing], AMPLE, { path: "/stats" });
    await scraped(second);
    expect(second.cause).toBe("scrape: HTTP 404 from /stats");
  });

  it("reads each endpoint in the dialect of its label, and in another one once that changes (S-12)", async () => {
    const port = await http((_, response) => void response.end(`${PAGE}sglang:num_queue_reqs 11\n`));
    const { registry, first } = scrape([port]);
    await poll("vLLM's queue", () => first.metrics.waiting === 3);
    const labels = { "llm-d.ai/engine-type": "sglang" };
    registry.upsert({ namespace: "default", name: "e0", address: "127.0.0.1", port, rank: 0, labels });
    await poll("SGLang's queue", () => first.metrics.waiting === 11);
    expect(first.metrics.running).toBeNaN();
  });

  it("reads pages over TLS, and checks the certificate when it is told to", async () => {
    const served = await selfSignedPair(realClock);
    const port = await listen(createTlsServer(served, (_, response) => void response.end(PAGE)));
    const { first: trusting } = scrape([port], AMPLE, { scheme: "https" });
    await scraped(trusting);
    expect(trusting).toMatchObject({ state: "up", metrics: { waiting: 3 } });
    const checked = { scheme: "https", insecureSkipVerify: false } as const;
    const { first: checking } = scrape([port], AMPLE, checked);
    await scraped(checking);
    expect(checking.state).toBe("blind");
    expect(checking.cause).toContain("scrape: TLS: self-signed certificate");
    // Trusted, it gets as far as its names, of which it has none.
    const named = await namedPair("127.0.0.1");
    const before = getCACertificates();
    setDefaultCACertificates([...before, served.cert, named.cert]);
    try {
      const other = await listen(createTlsServer(named, (_, response) => void response.end(PAGE)));
      const { endpoints } = scrape([port, other], AMPLE, checked);
      const [nameless, right] = endpoints as [PoolEndpoint, PoolEndpoint];
      await scraped(nameless);
      await scraped(right);
      expect(nameless.state).toBe("blind");
      expect(nameless.cause).toContain("scrape: TLS: Hostname/IP does not match certificate's altnames");
      expect(right).toMatchObject({ state: "up", metrics: { waiting: 3 } });
    } finally {
      setDefaultCACertificates(before);
    }
    const plain = await http((_, response) => void response.end(PAGE));
    const { first: disappointed } = scrape([plain], AMPLE, { scheme: "https" });
    await scraped(disappointed);
    expect(disappointed).toMatchObject({ state: "blind" });
    expect(disappointed.cause).toContain("scrape: TLS: ");
  });
});
