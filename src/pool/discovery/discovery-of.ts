import type { Clock } from "../../base/clock/clock.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { FileDiscovery } from "../endpoints/file-discovery.ts";
import { DnsDiscovery } from "./dns-discovery.ts";
import type { EndpointsSettings } from "./endpoints-settings.ts";
import { type DiscoveredPool, PoolFiller, type RunningDiscovery } from "./pool-filler.ts";
import { SlurmDiscovery } from "./slurm-discovery.ts";

export interface DiscoverySurroundings {
  readonly pool: DiscoveredPool;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly log: Logger;
  /** See `DnsDiscoveryOptions`. */
  readonly needsAnswers: boolean;
}

/** The discovery of a section `endpoints`, not started. */
export function discoveryOf(settings: EndpointsSettings, around: DiscoverySurroundings): RunningDiscovery {
  const { pool, clock, log } = around;
  switch (settings.kind) {
    case "file": {
      const lines = { warn: (text: string) => log.warn({}, text), info: (text: string) => log.info({}, text) };
      const { path } = settings;
      return new FileDiscovery({ path, watchFile: true, flavour: "lenient", registry: pool, clock, log: lines });
    }
    case "list":
      return {
        async start() {
          new PoolFiller(pool, log, "list").fill(settings.endpoints);
        },
        close() {},
      };
    case "dns":
      return new DnsDiscovery({ ...around, settings });
    case "slurm":
      return new SlurmDiscovery({ ...around, settings });
  }
}
