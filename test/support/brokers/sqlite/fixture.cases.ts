import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BrokerEvents } from "../../../../src/async/brokers/broker.ts";
import type { LeaseSettings, SqliteSettings } from "../../../../src/async/brokers/settings.ts";
import type { Random } from "../../../../src/base/clock/random.ts";
import { SeededRandom } from "../../../../src/base/clock/random.ts";
import { realClock } from "../../../../src/base/clock/real.ts";
import { VirtualClock } from "../../../../src/base/clock/virtual.ts";
import { silentLogger } from "../../../../src/base/telemetry/logger.ts";
import { queueOf } from "../broker.cases.ts";

/** Time that stands still while real events (of the file system) happen. */
export class CaseClock extends VirtualClock {
  constructor() {
    super(1_800_000_000_000);
  }

  override soon(callback: () => void): void {
    realClock.soon(callback);
  }
}

/** A folder for one test, with what brokers on it are made with. */
export class CaseFolder {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-sqlite-"));
  readonly path = join(this.folder, "queue.db");
  readonly clock = new CaseClock();
  readonly random: Random = new SeededRandom(1);
  readonly log = silentLogger;

  readonly deps = { clock: this.clock, random: this.random, log: this.log };

  settings(leases: Partial<LeaseSettings> = {}): SqliteSettings {
    return {
      transport: "sqlite",
      path: this.path,
      queues: [queueOf("q")],
      resultQueueName: "results",
      pollInterval: 500,
      batchCap: undefined,
      leases: { claimTtl: 60_000, reclaimInterval: 5000, maxAttempts: 0, ...leases },
    };
  }

  /** Unix seconds, whole. */
  inSeconds(seconds: number): number {
    return Math.floor(this.clock.wall() / 1000) + seconds;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }
}

export const NO_EVENTS: BrokerEvents = {
  available() {},
  deadLettered() {},
  reclaimed() {},
  writeRetried() {},
  forgotten() {},
  async doubted() {},
};
