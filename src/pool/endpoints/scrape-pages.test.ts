import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { clientAuthority } from "../../../test/support/certificates.ts";
import { deadPort } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { fixedLimit } from "../../../test/support/slowness.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { selfSignedPair } from "../../base/grpc/self-signed.ts";
import { Collector } from "./collector.ts";
import { Dialects } from "./dialects/dialects.ts";
import { EndpointRegistry } from "./registry.ts";
import { ScrapeClient } from "./scrape-client.ts";
import type { MetricsPage } from "./scraper.ts";

const QUEUE = "vllm:num_requests_waiting";
const RUNNING = "vllm:num_requests_running";
const LORA = 'vllm:lora_requests_info{max_lora="4",running_lora_adapters="a",waiting_lora_adapters=""}';

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanUps.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Answers with the page of a path, 500 for an empty one, not at all for undefined; counts how often each was asked for. */
async function server(
  pages: Record<string, string | undefined>,
): Promise<{ port: number; asked: (path: string) => number }> {
  const asked = new Map<string, number>();
  const answer: RequestListener = (request, response) => {
    const path = request.url!;
    asked.set(path, (asked.get(path) ?? 0) + 1);
    const page = pages[path];
    if (page !== undefined) response.writeHead(page === "" ? 500 : 200).end(page);
  };
  return { port: await listen(createServer(answer)), asked: (path) => asked.get(path) ?? 0 };
}

/** One endpoint, scraped every 50 ms. */
function scrape(port: number, page: MetricsPage, timeout = fixedLimit(1000)) {
  const registry = new EndpointRegistry({ clock: realClock, random: new SeededRandom(1) });
  const counted = { poll: 0, extract: 0 };
  const scraper = new ScrapeClient(realClock, new Dialects(), page, Math.max(1000, timeout));
  const metrics = { pollFailed: () => void counted.poll++, extractFailed: () => void counted.extract++ };
  const options = { clock: realClock, random: new SeededRandom(2), registry, scraper, metrics, timeout };
  const collector = new Collector({ ...options, fixed: true });
  collector.start();
  cleanUps.push(() => collector.close());
  const spec = { namespace: "default", name: "e", address: "127.0.0.1", port, rank: 0, labels: {} };
  return { endpoint: registry.upsert(spec)!, registry, counted };
}

const dialects = new Dialects();
/** Of vLLM's metrics only some. */
const only = (mapping: object) => new Dialects([{ name: "vllm", ...mapping }]);

describe("several pages of one server", () => {
  it("make one set of values, and each is fetched at its own pace (S-6)", async () => {
    const { port, asked } = await server({
      "/fast": `${QUEUE} 3\n${RUNNING} 1\n`,
      "/slow": `${RUNNING} 2\nvllm:kv_cache_usage_perc 0.5\n${LORA} 1\n`,
    });
    const { endpoint, counted } = scrape(port, { path: "/fast", also: [{ dialects, path: "/slow", every: 4 }] });
    // A scrape of both pages ends with the slow page's 2, the next one of the fast page alone with 1.
    await poll("scrapes", () => asked("/fast") >= 18 && endpoint.metrics.running === 1);
    // The first scrape fetches both, as do the 5th, the 9th, the 13th, the 17th.
    // While a scrape is under way, the server may have seen either page of it first.
    expect(Math.abs(Math.ceil(asked("/fast") / 4) - asked("/slow"))).toBeLessThanOrEqual(1);
    expect(endpoint).toMatchObject({ state: "up", metrics: { waiting: 3, running: 1, kvUsage: 0.5, maxLora: 4 } });
    expect(endpoint.metrics.loraRunning).toEqual(new Set(["a"]));
    expect(counted.poll).toBe(0);
  });

  it("leave the page that is named last the last word where several know a value", async () => {
    const { port } = await server({ "/a": `${QUEUE} 1\n${RUNNING} 7\n`, "/b": `${QUEUE} 2\n` });
    const { endpoint } = scrape(port, {
      path: "/a",
      also: [{ dialects: only({ queued: QUEUE }), path: "/b", every: 1 }],
    });
    await poll("both", () => endpoint.metrics.running === 7);
    expect([1, 2]).toContain(endpoint.metrics.waiting);
    await poll("the last word", () => endpoint.metrics.waiting === 2);
  });

  it("count a page that fails, and drop what it had said as long as another can be read (S-8)", async () => {
    const pages: Record<string, string> = { "/a": `${QUEUE} 3\n`, "/b": `${RUNNING} 2\n` };
    const { port } = await server(pages);
    const mapped = { dialects: only({ running: RUNNING }), path: "/b" };
    const { endpoint, counted } = scrape(port, { path: "/a", also: [mapped] });
    await poll("both", () => endpoint.metrics.running === 2);
    pages["/b"] = "";
    await poll("the failure", () => Number.isNaN(endpoint.metrics.running));
    expect(endpoint).toMatchObject({ state: "up", metrics: { waiting: 3 } });
    expect(counted.poll).toBeGreaterThan(0);
    pages["/a"] = "";
    await poll("blind", () => endpoint.state === "blind");
    expect(endpoint).toMatchObject({ cause: "scrape: HTTP 500 from /a", metrics: { waiting: 3 } });
    pages["/b"] = `${RUNNING} 5\n`;
    await poll("the other one alone", () => endpoint.metrics.running === 5);
    expect(endpoint.state).toBe("up");
    expect(endpoint.metrics.waiting).toBeNaN();
  });

  it("do not wait for one that hangs: what came in time counts", async () => {
    const { port } = await server({ "/a": `${QUEUE} 3\n` });
    const elsewhere = await server({});
    const page = { dialects: only({ running: RUNNING }), port: elsewhere.port };
    const { endpoint, counted } = scrape(port, { path: "/a", also: [page] }, 150);
    await poll("what came", () => endpoint.metrics.waiting === 3);
    expect(endpoint.state).toBe("up");
    expect(counted.poll).toBeGreaterThan(0);
  });

  it("say that an endpoint is down when its serving port is silent, whatever is read elsewhere", async () => {
    const elsewhere = await server({ "/metrics": `${QUEUE} 3\n` });
    const { endpoint } = scrape(await deadPort(), { also: [{ dialects, port: elsewhere.port }] });
    await poll("down", () => endpoint.state === "down");
    expect(elsewhere.asked("/metrics")).toBeGreaterThan(0);
  });

  it("are all left alone when the endpoint leaves the pool", async () => {
    const { port, asked } = await server({ "/a": `${QUEUE} 3\n` });
    const { endpoint, registry } = scrape(port, { path: "/a", also: [{ dialects, path: "/hangs" }] });
    await poll("under way", () => asked("/hangs") === 1);
    registry.remove(endpoint.id);
    const again = scrape(port, { path: "/a" });
    await poll("others go on", () => again.endpoint.state === "up" && asked("/a") > 5);
    expect([asked("/hangs"), endpoint.state]).toEqual([1, "up"]);
  });
});

describe("a metrics page at a port of its own", () => {
  it("that hangs makes the endpoint blind, not down (S-7)", async () => {
    const { port } = await server({});
    const { endpoint, counted } = scrape(await deadPort(), { port }, 100);
    await poll(
      "blind",
      () =>
        endpoint.state === "blind" && endpoint.cause === "scrape: metrics port: no complete metrics page within 100 ms",
    );
    expect(counted).toMatchObject({ extract: 0 });
    expect(counted.poll).toBeGreaterThan(0);
  });
});

describe("metrics pages over TLS", () => {
  it("are read from a server whose certificate the given authority has signed, and from no other", async () => {
    const { ca, server: pair } = await clientAuthority();
    const answer: RequestListener = (_, response) => void response.end(`${QUEUE} 3\n`);
    const page: MetricsPage = { scheme: "https", insecureSkipVerify: false, ca };
    const { endpoint } = scrape(await listen(createTlsServer(pair, answer)), page);
    await poll("read", () => endpoint.metrics.waiting === 3);
    expect(endpoint.state).toBe("up");
    const { endpoint: stranger } = scrape(await listen(createTlsServer(await selfSignedPair(realClock), answer)), page);
    await poll("refused", () => stranger.state === "blind");
    expect(stranger.cause).toContain("scrape: TLS: ");
  });

  it("are read from a server that asks for a certificate, with ours", async () => {
    const { ca, client, server: pair } = await clientAuthority();
    const wants = { ...pair, ca, requestCert: true, rejectUnauthorized: true };
    const port = await listen(createTlsServer(wants, (_, response) => void response.end(`${QUEUE} 3\n`)));
    const page: MetricsPage = { scheme: "https", insecureSkipVerify: false, ca };
    const { endpoint } = scrape(port, { ...page, client });
    await poll("read", () => endpoint.metrics.waiting === 3);
    const { endpoint: nameless } = scrape(port, page);
    await poll("refused", () => nameless.state !== "up");
    expect(nameless.metrics.waiting).toBeNaN();
  });
});
