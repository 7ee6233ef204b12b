import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { ExpositionReader } from "../../base/telemetry/exposition-reader.ts";
import { DEFAULT_LATENCY } from "../simulator/latency.ts";
import { freePort, PartProcess } from "./part-process.ts";

const FIRST_PORT = 8000;
/** Milliseconds without an answer after which a server is left out. */
const ASK_LIMIT_MS = 2000;
/** Milliseconds between the kill of a server and its restart. */
const ABSENCE_MS = 3000;

interface ClusterOptions {
  readonly servers: number;
  readonly modelServer: ModelServer;
  readonly seed: number;
  /** Program and arguments that run `sluice` in a child process. */
  readonly program: readonly string[];
  readonly clock: Clock;
  say(line: string): void;
}

/** The simulated model servers of the demo, and the folder with the endpoints file that names them. */
export class Cluster {
  readonly servers: readonly PartProcess[];
  readonly caches = new CacheCounters();
  readonly #options: ClusterOptions;
  /** The folder for files of the demo; deleted with the servers. */
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-demo-"));

  constructor(options: ClusterOptions) {
    this.#options = options;
    this.servers = Array.from(
      { length: options.servers },
      (_, i) =>
        new PartProcess({
          name: `server-${i + 1}`,
          program: options.program,
          command: "sim",
          flags: (port) => [
            ...["--port", String(port), ...modelServerArgs(options.modelServer), "--host", "127.0.0.1"],
            ...["--seed", String(options.seed + i), "--pod-name", `server-${i + 1}`],
          ],
          ready: "sim",
          absence: ABSENCE_MS,
          clock: options.clock,
          onChange: options.say,
        }),
    );
  }

  /** Starts all servers, on free ports from 8000 up, and writes the endpoints file. @returns its path */
  async start(): Promise<string> {
    const starts: Promise<void>[] = [];
    let port = FIRST_PORT;
    for (const server of this.servers) {
      port = await freePort("127.0.0.1", port);
      starts.push(server.start(port++));
    }
    await Promise.all(starts);
    const file = join(this.folder, "endpoints.yaml");
    const entries = this.servers.map(
      (server) => `- { name: ${server.name}, address: 127.0.0.1, port: ${server.port} }\n`,
    );
    writeFileSync(file, `endpoints:\n${entries.join("")}`);
    return file;
  }

  /** Empties the prefix caches and sets the hit counts to 0. */
  async reset(): Promise<void> {
    await this.#each((url) =>
      fetch(`${url}/admin/reset`, { method: "POST", signal: AbortSignal.timeout(ASK_LIMIT_MS) }),
    );
    await this.readCaches();
    this.caches.restart();
  }

  /** Reads the cache counters of the servers that answer. */
  async readCaches(): Promise<void> {
    await this.#each(async (url, server) =>
      this.caches.add(
        server.name,
        await (await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(ASK_LIMIT_MS) })).text(),
      ),
    );
  }

  /** Kills one server, but never the last one; the server then restarts. */
  killOne(random: Random): void {
    const alive = this.servers.filter((server) => server.pid !== undefined);
    if (alive.length > 1) alive[random.below(alive.length)]!.kill();
    else this.#options.say("only one server is left; it stays");
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()));
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Asks every server; leaves out a server that does not run at the moment. */
  async #each(ask: (url: string, server: PartProcess) => Promise<unknown>): Promise<void> {
    await Promise.all(
      this.servers.map((server) => ask(`http://127.0.0.1:${server.port}`, server).catch(() => undefined)),
    );
  }
}

const HITS = "vllm:prefix_cache_hits_total";
const QUERIES = "vllm:prefix_cache_queries_total";

/**
 * The prefix-cache counters of the simulators, summed over restarts. A counter that is lower than before has restarted at zero.
 */
export class CacheCounters {
  readonly #last = new Map<string, { hits: number; queries: number }>();
  readonly #reader = new ExpositionReader([HITS, QUERIES]);
  #hits = 0;
  #queries = 0;

  /** @param server any name @param page the server's metrics page */
  add(server: string, page: string): void {
    const now = { hits: 0, queries: 0 };
    const bytes = Buffer.from(page);
    this.#reader.read(bytes, bytes.length, ({ index, value }) => {
      if (index === 0) now.hits += value;
      else now.queries += value;
    });
    const last = this.#last.get(server);
    this.#last.set(server, now);
    if (last === undefined) return;
    this.#hits += now.hits >= last.hits ? now.hits - last.hits : now.hits;
    this.#queries += now.queries >= last.queries ? now.queries - last.queries : now.queries;
  }

  /** Cached prompt tokens divided by all prompt tokens since the start or the last `restart`, 0..1. */
  get hitRate(): number {
    return this.#queries === 0 ? 0 : this.#hits / this.#queries;
  }

  /** Sets the counts to 0. */
  restart(): void {
    this.#hits = 0;
    this.#queries = 0;
  }
}

/**
 * One server of the demo. 768 blocks of 16 tokens hold six of the twelve prefixes: three servers hold all of them, one does
 * not. Prefill is slow enough to notice: 0.4 s for a prefix that is not in the cache, 10 ms for one that is.
 */
export const MODEL_SERVER = {
  kvCacheSize: 768,
  blockSize: 16,
  maxNumSeqs: 16,
  latency: { ...DEFAULT_LATENCY, prefillTimePerToken: 0.2, prefillOverhead: 8, interTokenLatency: 12 },
};

/** The settings of a server of a demo. */
export type ModelServer = typeof MODEL_SERVER;

/**
 * One server of the demo with a backlog, where slots are the bottleneck. All prompts are short. Tokens are slow, so a small
 * machine can serve all slots of three servers at once.
 */
export const SLOT_SERVER: ModelServer = {
  kvCacheSize: 2048,
  blockSize: 16,
  maxNumSeqs: 16,
  latency: { ...DEFAULT_LATENCY, prefillTimePerToken: 0.05, prefillOverhead: 20, interTokenLatency: 25 },
};

/** The settings as arguments of `sluice sim`. */
function modelServerArgs({ kvCacheSize, blockSize, maxNumSeqs, latency }: ModelServer): readonly string[] {
  return [
    ...["--kv-cache-size", String(kvCacheSize), "--block-size", String(blockSize)],
    ...["--max-num-seqs", String(maxNumSeqs)],
    ...["--prefill-time-per-token", `${latency.prefillTimePerToken}ms`],
    ...["--prefill-overhead", `${latency.prefillOverhead}ms`],
    ...["--inter-token-latency", `${latency.interTokenLatency}ms`],
  ];
}
