import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { prometheus as findPrometheus } from "../../scripts/test-parts.ts";
import { freePort, onFreePorts } from "./free-port.ts";
import { poll } from "./poll.ts";
import { TestProcess } from "./process.ts";

export interface PrometheusOptions {
  /** `host:port` of the pages it reads, each from `/metrics`. */
  readonly targets: readonly string[];
  /** Milliseconds between scrapes, default 1000; the timeout of a scrape is the same. */
  readonly scrapeIntervalMs?: number;
  /** Labels that every target's series get. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** A real Prometheus of this test's own, on a loopback port that it keeps over restarts. */
export interface RunningPrometheus {
  /** As `--prometheus-url` takes it. */
  readonly url: string;
  /** Its current process; another one after `restart`. */
  process(): TestProcess;
  /** Waits until an instant query gives at least one sample, and returns their values. */
  values(query: string): Promise<readonly number[]>;
  /** Ends it at once, as a crash would. */
  kill(): Promise<void>;
  /** Starts it again with its data and waits until it is ready. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts Prometheus and waits until it is ready to answer; what it has scraped by then is another question. */
export function startPrometheus(options: PrometheusOptions): Promise<RunningPrometheus> {
  return onFreePorts(() => startOnce(options));
}

async function startOnce(options: PrometheusOptions): Promise<RunningPrometheus> {
  const home = mkdtempSync(join(tmpdir(), "sluice-prometheus-"));
  const config = join(home, "prometheus.yml");
  writeFileSync(config, configuration(options));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const start = async (): Promise<TestProcess> => {
    const process = new TestProcess(findPrometheus(), [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(home, "data")}`,
      `--web.listen-address=127.0.0.1:${port}`,
      "--log.level=warn",
    ]);
    await process.until("Prometheus to be ready", async () => (await fetch(`${url}/-/ready`)).ok, 30_000);
    return process;
  };
  let process = await start();
  return {
    url,
    process: () => process,
    values: (query) =>
      poll(`an answer to ${query}`, async () => {
        const answer = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(query)}`);
        const body = (await answer.json()) as { error?: string; data?: { result: { value: [number, string] }[] } };
        if (body.data === undefined) throw new Error(body.error);
        return body.data.result.length > 0 ? body.data.result.map(({ value }) => Number(value[1])) : undefined;
      }),
    kill: () => process.stop("SIGKILL"),
    async restart() {
      await process.stop("SIGKILL");
      process = await start();
    },
    stop: () => process.stop("SIGTERM"),
  };
}

function configuration({ targets, scrapeIntervalMs = 1000, labels = {} }: PrometheusOptions): string {
  // Prometheus reads YAML, of which JSON is a part.
  return JSON.stringify({
    global: { scrape_interval: `${scrapeIntervalMs}ms`, scrape_timeout: `${scrapeIntervalMs}ms` },
    scrape_configs: [{ job_name: "test", static_configs: [{ targets, labels }] }],
  });
}
