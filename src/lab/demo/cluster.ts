import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { CacheCounters } from "./cache-counters.ts";
import { freePort } from "./free-port.ts";
import { type ModelServer, modelServerArgs } from "./model-server.ts";
import { PartProcess } from "./part-process.ts";

const FIRST_PORT = 8000;
/** A server that says nothing for this long is left out, milliseconds. */
const ASK_LIMIT_MS = 2000;
/** How long a killed server stays away, in milliseconds. */
const ABSENCE_MS = 3000;

export interface ClusterOptions {
  readonly servers: number;
  readonly modelServer: ModelServer;
  readonly seed: number;
  /** What runs `sluice` in a child process. */
  readonly program: readonly string[];
  readonly clock: Clock;
  say(line: string): void;
}

/** The simulated model servers of the demo, and the folder with the endpoints file that names them. */
export class Cluster {
  readonly servers: readonly PartProcess[];
  readonly caches = new CacheCounters();
  readonly #options: ClusterOptions;
  /** For files of the demo; it goes with the servers. */
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

  /** Starts all of them, on ports from 8000 up that are free, and writes the endpoints file. @returns its path */
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

  /** Empties the prefix caches and counts hits from here. */
  async reset(): Promise<void> {
    await this.#each((url) =>
      fetch(`${url}/admin/reset`, { method: "POST", signal: AbortSignal.timeout(ASK_LIMIT_MS) }),
    );
    await this.readCaches();
    this.caches.restart();
  }

  /** Takes the cache counters of the servers that answer. */
  async readCaches(): Promise<void> {
    await this.#each(async (url, server) =>
      this.caches.add(
        server.name,
        await (await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(ASK_LIMIT_MS) })).text(),
      ),
    );
  }

  /** Kills one server, never the last; it comes back by itself. */
  killOne(random: Random): void {
    const alive = this.servers.filter((server) => server.pid !== undefined);
    if (alive.length > 1) alive[random.below(alive.length)]!.kill();
    else this.#options.say("only one server is left; it stays");
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()));
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Asks every server something; one that is away just now is left out. */
  async #each(ask: (url: string, server: PartProcess) => Promise<unknown>): Promise<void> {
    await Promise.all(
      this.servers.map((server) => ask(`http://127.0.0.1:${server.port}`, server).catch(() => undefined)),
    );
  }
}
