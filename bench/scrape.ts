/**
 * What reading model servers costs: CPU per scrape of vLLM's 63 KB page beside a bare fetch of the same page by undici's
 * dispatch in the same run, and cores for idle pools.
 *
 *   node bench/scrape.ts
 *
 * One child process serves the page on every loopback address; endpoints are 127.x.y.z on its port. CPU is this process's
 * own (user and system), so the server is not in it. The last columns say how much scraping delays a decision on the same thread.
 * Takes about 60 s. Ends with PASS or FAIL: a scrape at most 1.5 times the bare fetch, 100 idle endpoints at most 0.05 core.
 */
import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Client, type Dispatcher } from "undici";
import { SeededRandom } from "../src/base/clock/random.ts";
import { realClock } from "../src/base/clock/real.ts";
import { UNKNOWN_METRICS } from "../src/base/inference/endpoint.ts";
import { Collector } from "../src/pool/endpoints/collector.ts";
import { Dialects } from "../src/pool/endpoints/dialects/dialects.ts";
import type { PoolEndpoint } from "../src/pool/endpoints/pool-endpoint.ts";
import { EndpointRegistry } from "../src/pool/endpoints/registry.ts";
import { ScrapeClient } from "../src/pool/endpoints/scrape-client.ts";
import type { ScrapeResult } from "../src/pool/endpoints/scraper.ts";

const SCRAPE_LIMIT = 1.5;
const IDLE_LIMIT = 0.05;
/** The reference's cost of one scrape of this page, microseconds of CPU. */
const REFERENCE_MICROS = 1800;

const WARM_UP = 20;
const ROUNDS = 150;
const PER_ROUND = 100;

/** Load figures differ from page to page, as those of a busy server do. */
function serve(): void {
  const page = readFileSync(new URL("./data/vllm-metrics.txt", import.meta.url), "utf8");
  const pages = Array.from({ length: 64 }, (_, i) =>
    Buffer.from(
      page
        .replace("@WAIT@", `${i % 9}.0`)
        .replace("@RUNN@", `${(7 * i) % 30}.0`)
        .replace("@KVUS@", `${(0.01 * i).toFixed(4)}`),
    ),
  );
  let at = 0;
  const server = createServer((_, response) => {
    const bytes = pages[at++ % pages.length]!;
    const type = "text/plain; version=0.0.4; charset=utf-8";
    response.writeHead(200, { "content-type": type, "content-length": bytes.length }).end(bytes);
  });
  server.keepAliveTimeout = 60_000;
  server.listen({ port: 0, host: "0.0.0.0", backlog: 1024 }, () =>
    process.send?.((server.address() as AddressInfo).port),
  );
  process.on("disconnect", () => process.exit());
}

/** Microseconds of CPU this process has used. */
function cpu(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Gets the page and drops it: what any scraper has to pay. */
class BareFetch implements Dispatcher.DispatchHandler {
  bytes = 0;
  readonly #done: () => void;

  constructor(done: () => void) {
    this.#done = done;
  }

  onRequestStart(): void {}
  onResponseStart(): void {}
  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.bytes += chunk.length;
  }
  onResponseEnd(): void {
    if (this.bytes < 60_000) throw new Error(`the page has only ${this.bytes} bytes`);
    this.#done();
  }
  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    throw error;
  }
}

/** Runs `once` `count` times, one after the other; microseconds of CPU per run. */
async function measure(count: number, once: (done: () => void) => void): Promise<number> {
  const before = cpu();
  await new Promise<void>((resolve) => {
    let left = count;
    const next = (): void => {
      if (left-- === 0) resolve();
      else once(next);
    };
    next();
  });
  return (cpu() - before) / count;
}

function poolOf(count: number, port: number): EndpointRegistry {
  const registry = new EndpointRegistry({ clock: realClock, random: new SeededRandom(1) });
  for (let i = 0; i < count; i++) {
    const address = `127.1.${Math.floor(i / 250)}.${(i % 250) + 1}`;
    registry.upsert({ namespace: "bench", name: `e${i}`, address, port, rank: 0, labels: {} });
  }
  return registry;
}

/**
 * The same number of pages by either way in short alternating rounds, so that the machine's moods hit both alike, over
 * one warm connection each. The tenth percentile counts: a neighbour on
 * the core makes a round up to five times dearer and never cheaper.
 */
async function perScrape(port: number): Promise<{ bare: number; scrape: number }> {
  const endpoint = poolOf(1, port).list()[0]!;
  const scraper = new ScrapeClient(realClock, new Dialects());
  const client = new Client(`http://${endpoint.hostPort}`, { headersTimeout: 0, bodyTimeout: 0 });
  const request = { path: "/metrics", method: "GET" } as const;
  const bare: number[] = [];
  const scrape: number[] = [];
  for (let round = -WARM_UP; round < ROUNDS; round++) {
    const fetched = await measure(PER_ROUND, (done) => client.dispatch(request, new BareFetch(done)));
    const scraped = await measure(PER_ROUND, (done) => scraper.scrape(endpoint, take(endpoint, done)));
    if (round < 0) continue;
    bare.push(fetched);
    scrape.push(scraped);
  }
  await Promise.all([scraper.close(), client.close()]);
  return { bare: bestTenth(bare), scrape: bestTenth(scrape) };
}

function bestTenth(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 10)]!;
}

function take(endpoint: PoolEndpoint, done: () => void): (result: ScrapeResult) => void {
  return (result) => {
    if (result.kind !== "read" || result.partial) throw new Error(`not read: ${JSON.stringify(result)}`);
    endpoint.metrics = result.metrics;
    done();
  };
}

/** What scraping a pool takes of the thread that decides. */
interface Load {
  readonly cores: number;
  /** Scrapes per second. */
  readonly rate: number;
  /** Milliseconds that a timer of 1 ms comes late, as a decision would: 50th and 99th percentile, and the most. */
  readonly late: readonly [p50: number, p99: number, most: number];
}

/** The load of a pool without traffic, of one with a request in flight everywhere, or of one that is not scraped. */
async function pool(count: number, port: number, busy: boolean, scraped = true): Promise<Load> {
  const registry = poolOf(count, port);
  const scraper = new ScrapeClient(realClock, new Dialects());
  const collector = new Collector({ clock: realClock, random: new SeededRandom(2), registry, scraper });
  let scrapes = 0;
  const original = scraper.scrape.bind(scraper);
  scraper.scrape = (endpoint, done) => {
    scrapes++;
    return original(endpoint, done);
  };
  if (scraped) collector.start();
  if (busy) for (const endpoint of registry.list()) registry.inFlight.open(endpoint, 0);
  // Connections are made and, when idle, intervals have grown.
  await pause(3500);
  const notUp = registry.list().filter((endpoint) => endpoint.metrics === UNKNOWN_METRICS);
  if (scraped && notUp.length > 0)
    throw new Error(`${notUp.length} of ${count} endpoints were not read: ${notUp[0]?.cause}`);
  scrapes = 0;
  const before = cpu();
  const started = realClock.now();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await pause(4000);
  delay.disable();
  const elapsed = realClock.now() - started;
  const late = [delay.percentile(50), delay.percentile(99), delay.max].map((ns) => Math.max(0, ns / 1e6 - 1));
  const result: Load = {
    cores: (cpu() - before) / 1000 / elapsed,
    rate: (1000 * scrapes) / elapsed,
    late: late as unknown as Load["late"],
  };
  await collector.close();
  return result;
}

async function main(): Promise<void> {
  const child = fork(import.meta.filename, ["serve"]);
  const port = await new Promise<number>((resolve) => child.once("message", (message) => resolve(message as number)));
  const { bare, scrape } = await perScrape(port);
  const ratio = scrape / bare;
  console.log("CPU per page of 63 KB, microseconds");
  console.log(`  bare fetch         ${bare.toFixed(0).padStart(6)}`);
  console.log(`  scrape             ${scrape.toFixed(0).padStart(6)}   ${ratio.toFixed(2)} x the bare fetch`);
  const share = `1/${(REFERENCE_MICROS / scrape).toFixed(0)} of it`;
  console.log(`  reference          ${String(REFERENCE_MICROS).padStart(6)}   a scrape here takes ${share}`);
  console.log("\npool                 cores   scrapes/s   us of CPU per scrape   ms late: p50     p99    most");
  let idle100 = Number.POSITIVE_INFINITY;
  for (const [count, busy, scraped] of [
    [10, false, true],
    [100, false, true],
    [500, false, true],
    [10, true, true],
    [100, true, true],
    [1000, true, true],
    [1000, true, false],
  ] as const) {
    const { cores, rate, late } = await pool(count, port, busy, scraped);
    if (count === 100 && !busy) idle100 = cores;
    const name = `${count} ${scraped ? (busy ? "busy" : "idle") : "not scraped"}`.padEnd(18);
    const each = (rate === 0 ? "" : ((cores * 1e6) / rate).toFixed(0)).padStart(8);
    const [p50, p99, most] = late.map((ms) => ms.toFixed(2).padStart(7));
    console.log(
      `${name}  ${cores.toFixed(3).padStart(6)}   ${rate.toFixed(0).padStart(9)}   ${each}${" ".repeat(22)} ${p50} ${p99} ${most}`,
    );
  }
  const passed = ratio <= SCRAPE_LIMIT && idle100 <= IDLE_LIMIT;
  console.log(
    `\n${passed ? "PASS" : "FAIL"}: scrape ${ratio.toFixed(2)} x bare fetch (limit ${SCRAPE_LIMIT}), ` +
      `100 idle endpoints ${idle100.toFixed(3)} core (limit ${IDLE_LIMIT})`,
  );
  child.disconnect();
  process.exitCode = passed ? 0 : 1;
}

if (process.argv[2] === "serve") serve();
else await main();
