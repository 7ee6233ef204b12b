import type { Clock, Timer } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import {
  type DnsClient,
  dnsClient,
  type FoundServer,
  HostNameLookup,
  type NameLookup,
  SrvLookup,
} from "./dns-lookup.ts";
import type { DnsName, DnsSettings } from "./dns-settings.ts";
import { type DiscoveredPool, foundEndpoint, PoolFiller, type RunningDiscovery } from "./pool-filler.ts";

/** The longest pause in milliseconds while a name has had no answer at all. */
const SOON = 5000;

export interface DnsDiscoveryOptions {
  readonly settings: DnsSettings;
  /**
   * Whether `start` fails where a name has no answer. Otherwise Sluice starts with the other names, and asks again: DNS may
   * come up after it.
   */
  readonly needsAnswers: boolean;
  readonly pool: DiscoveredPool;
  readonly clock: Clock;
  readonly log: Logger;
}

/** One configured name with its last answer. */
interface Name {
  readonly settings: DnsName;
  readonly lookup: NameLookup;
  servers: readonly FoundServer[] | undefined;
  problem: string;
}

/**
 * The endpoints that DNS names. It asks each name again at an interval. An answer without records, or none, leaves the endpoints
 * of its name as they are: a fault of DNS must not empty the pool, and a server that is gone is down soon.
 */
export class DnsDiscovery implements RunningDiscovery {
  readonly #options: DnsDiscoveryOptions;
  readonly #client: DnsClient;
  readonly #names: readonly Name[];
  readonly #filler: PoolFiller;
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: DnsDiscoveryOptions) {
    const { settings, pool, log } = options;
    this.#options = options;
    const client = dnsClient(settings.servers);
    this.#client = client;
    this.#filler = new PoolFiller(pool, log, "DNS");
    this.#names = settings.names.map((name) => ({
      settings: name,
      lookup: name.kind === "srv" ? new SrvLookup(client, name.name) : new HostNameLookup(client, name.name, name.port),
      servers: undefined,
      problem: "",
    }));
  }

  /** @throws SluiceError DISCOVERY_DNS where every name needs an answer and one has none */
  async start(): Promise<void> {
    await this.#look();
    const silent = this.#names.find(({ servers }) => servers === undefined);
    if (silent !== undefined && this.#options.needsAnswers) {
      this.close();
      throw new SluiceError("DISCOVERY_DNS", `DNS has no endpoints for ${silent.settings.name}: ${silent.problem}`);
    }
    this.#fill();
    this.#again();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#client.cancel();
  }

  #again(): void {
    if (this.#closed) return;
    const { interval } = this.#options.settings;
    const isSilent = this.#names.some(({ servers }) => servers === undefined);
    this.#timer = this.#options.clock.after(
      isSilent ? Math.min(SOON, interval) : interval,
      () => void this.#round(),
      true,
    );
  }

  async #round(): Promise<void> {
    try {
      await this.#look();
      if (!this.#closed) this.#fill();
    } catch (error) {
      this.#options.log.error({ problem: messageOf(error) }, "a DNS request failed; the endpoints do not change");
    }
    this.#again();
  }

  /** Asks all names at the same time. */
  async #look(): Promise<void> {
    await Promise.all(
      this.#names.map(async (name) => {
        const found = await name.lookup.look();
        if (this.#closed) return;
        name.servers = found.servers;
        if (found.problem !== name.problem) this.#tell(name, found.problem);
        name.problem = found.problem;
      }),
    );
  }

  /** One line for each change: a name that fails for hours has one line. */
  #tell({ settings: { name }, servers }: Name, problem: string): void {
    const { log } = this.#options;
    const endpoints = servers?.length ?? 0;
    if (problem === "") log.info({ name, endpoints }, "DNS answers for the name again");
    else
      log.warn(
        { name, endpoints, problem },
        "DNS has no complete answer for the name; Sluice keeps its last endpoints",
      );
  }

  #fill(): void {
    const specs = this.#names.flatMap(({ settings, servers = [] }) =>
      servers.map(({ address, port }) => foundEndpoint(address, port, settings)),
    );
    // Of two names for one server, the first counts.
    const byId = new Map([...specs].reverse().map((spec) => [spec.name, spec]));
    this.#filler.fill(specs.filter((spec) => byId.get(spec.name) === spec));
  }
}
