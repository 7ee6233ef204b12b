import { dirname } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import { FolderWatch, fileSignature } from "../../base/document/folder-watch.ts";
import { readText } from "../../base/document/read.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { expandHosts, MAX_HOST_LIST } from "./host-list.ts";
import { type DiscoveredPool, foundEndpoint, PoolFiller, type RunningDiscovery } from "./pool-filler.ts";
import type { SlurmSettings } from "./slurm-settings.ts";

export interface SlurmDiscoveryOptions {
  readonly settings: SlurmSettings;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pool: DiscoveredPool;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The endpoints of a host list: text, environment variable or file. It follows the file. A file that is wrong leaves the
 * endpoints as they are.
 */
export class SlurmDiscovery implements RunningDiscovery {
  readonly #options: SlurmDiscoveryOptions;
  readonly #filler: PoolFiller;
  #watch: FolderWatch | undefined;
  #closed = false;

  constructor(options: SlurmDiscoveryOptions) {
    const { settings, pool, log } = options;
    this.#options = options;
    this.#filler = new PoolFiller(pool, log, settings.file ?? settings.env ?? "host list");
  }

  async start(): Promise<void> {
    const { settings, env, clock, log } = this.#options;
    const { file } = settings;
    if (file === undefined) {
      const name = settings.env;
      const text = name === undefined ? (settings.hosts ?? "") : (env[name] ?? "");
      this.#fill(hostsOf(text, name === undefined ? "the host list" : `the environment variable ${name}`));
      return;
    }
    const seen = await fileSignature(file);
    this.#fill(await hostsIn(file));
    if (this.#closed) return;
    this.#watch = new FolderWatch({
      folder: dirname(file),
      clock,
      signature: () => fileSignature(file),
      changed: () => this.#reload(file),
      unwatchable: (text) => log.warn({ file }, `host list: ${text}`),
    });
    await this.#watch.start(seen);
  }

  close(): void {
    this.#closed = true;
    this.#watch?.close();
  }

  async #reload(file: string): Promise<void> {
    try {
      const hosts = await hostsIn(file);
      if (!this.#closed) this.#fill(hosts);
    } catch (error) {
      if (!this.#closed)
        this.#options.log.error(
          { file, problem: messageOf(error) },
          "the host list is invalid; the endpoints do not change",
        );
    }
  }

  #fill(hosts: readonly string[]): void {
    const { settings } = this.#options;
    this.#filler.fill(hosts.flatMap((host) => settings.ports.map((port) => foundEndpoint(host, port, settings))));
  }
}

/** @throws SluiceError DOCUMENT_... */
async function hostsIn(file: string): Promise<readonly string[]> {
  const text = await readText(file, { maxBytes: MAX_HOST_LIST });
  // Blanks in place of a comment, so that the places in the rest are true.
  return hostsOf(
    text.replace(/#[^\r\n]*/g, (comment) => " ".repeat(comment.length)),
    file,
    true,
  );
}

/**
 * @param source for the message
 * @param lines name the place as `source:line:column`
 * @throws SluiceError DOCUMENT_INVALID
 */
function hostsOf(text: string, source: string, lines = false): readonly string[] {
  const list = expandHosts(text);
  if ("hosts" in list) return list.hosts;
  const before = text.slice(0, list.at).split("\n");
  const column = before.at(-1)!.length + 1;
  const place = lines ? `${source}:${before.length}:${column}` : `${source}, character ${column}`;
  throw new SluiceError("DOCUMENT_INVALID", `${place}: ${list.problem}`);
}
