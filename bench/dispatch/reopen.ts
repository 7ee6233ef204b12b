import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { realClock } from "../../src/base/clock/real.ts";
import { FakePrometheus } from "../../test/support/fake-prometheus.ts";
import { pause, requests, withRig } from "./rig.ts";

/** Milliseconds between looks of the fake Prometheus at the load, as a scrape has it. */
export const SCRAPE = 2000;

/** The load of a pool, and who tells it. */
interface Load {
  readonly queue: Readonly<Record<string, unknown>>;
  readonly args: readonly string[];
  /** 0 idle, 1 full. */
  set(load: number): void;
  close(): Promise<unknown>;
}

async function metricsPage(): Promise<Load> {
  let load = 1;
  const server = createServer((_, response) =>
    response.setHeader("content-type", "text/plain").end(`# TYPE load gauge\nload ${load}\n`),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`;
  return {
    queue: { gate_type: "endpoint-scrape", gate_params: { url, metric: "load" } },
    args: [],
    set(value) {
      load = value;
    },
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

async function scrapedPrometheus(): Promise<Load> {
  const fake = await FakePrometheus.start(realClock);
  let load = 1;
  let scraped = load;
  let at = realClock.wall();
  const scrape = setInterval(() => {
    scraped = load;
    at = realClock.wall();
  }, SCRAPE);
  // What a saturation query asks for is the free share.
  fake.reply = () => {
    fake.stale = realClock.wall() - at;
    fake.sampleAge = fake.stale;
    return [1 - scraped];
  };
  return {
    queue: { gate_type: "prometheus-saturation", gate_params: { pool: "pool", threshold: "0.8" } },
    args: ["--prometheus-url", fake.url],
    set(value) {
      load = value;
    },
    close() {
      clearInterval(scrape);
      return fake.close();
    },
  };
}

/** Longest of `times` milliseconds from a load that falls until the first request behind the gate leaves (P-10). */
export async function measureReopen(source: "page" | "prometheus", times: number): Promise<number> {
  const load = source === "page" ? await metricsPage() : await scrapedPrometheus();
  try {
    return await withRig("Redis", async ({ store, gateway, start }) => {
      // A short cache lets the gate notice sooner that it must close; a closed one passes the cache over.
      await start({ queue: load.queue, args: [...load.args, "--prometheus-cache-ttl", "500ms"] });
      let longest = 0;
      let sent = 0;
      for (let i = 0; i < times; i++) {
        load.set(1);
        // Closed, in whatever phase of its looks: what waits cannot leave.
        await pause(SCRAPE + 1200 + 370 * i);
        await store.submit(requests(1, 256, `i${i}-`));
        await pause(300);
        if ((await gateway.stats()).requests > sent) throw new Error("the gate was open although the pool is full");
        load.set(0);
        const started = performance.now();
        await gateway.reaches(++sent);
        longest = Math.max(longest, performance.now() - started);
      }
      return longest;
    });
  } finally {
    await load.close();
  }
}
