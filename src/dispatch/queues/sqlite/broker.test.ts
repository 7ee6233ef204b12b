import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { SeededRandom } from "../../../clock/random.ts";
import { VirtualClock } from "../../../clock/virtual.ts";
import { silentLogger } from "../../../telemetry/logger.ts";
import { type BrokerHarness, brokerCases, type CaseSettings } from "../broker.cases.ts";
import { sqliteBroker } from "./broker.ts";
import { SqliteInspector } from "./inspector.ts";
import { sqliteProducer } from "./producer.ts";

/** Time that stands still while real events (of the file system) happen. */
class CaseClock extends VirtualClock {
  override soon(callback: () => void): void {
    setImmediate(callback);
  }
}

async function harness(settings: CaseSettings): Promise<BrokerHarness> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-sqlite-"));
  const path = join(folder, "queue.db");
  const clock = new CaseClock(1_800_000_000_000);
  const deps = { clock, random: new SeededRandom(1), log: silentLogger };
  const sqlite = { ...settings, transport: "sqlite" as const, path, batchCap: undefined };
  const broker = sqliteBroker(sqlite, deps);
  const inspector = new SqliteInspector(path, deps);
  const raw = new DatabaseSync(path);
  return {
    broker,
    peer: () => sqliteBroker(sqlite, deps),
    producer: (requestQueueName, resultQueueName) => sqliteProducer({ path, requestQueueName, resultQueueName }, deps),
    inspector,
    async inject(queueName, entry, score) {
      raw.prepare("INSERT OR IGNORE INTO queues (name) VALUES (?)").run(queueName);
      const id = raw.prepare("SELECT id FROM queues WHERE name = ?").get(queueName)!["id"]!;
      const message = raw.prepare("INSERT INTO messages (queue, score, published, request) VALUES (?, ?, ?, '')");
      const { lastInsertRowid } = message.run(id, score, clock.wall());
      raw.prepare("INSERT INTO entries (seq, body) VALUES (?, ?)").run(lastInsertRowid, entry);
    },
    async injectResult(queueName, entry) {
      raw.prepare("INSERT INTO results (queue, body) VALUES (?, ?)").run(queueName, entry);
    },
    results: async (queueName) =>
      raw
        .prepare("SELECT body FROM results WHERE queue = ? ORDER BY seq")
        .all(queueName)
        .map(({ body }) => String(body)),
    now: () => clock.wall(),
    async until(what, ms, probe) {
      // Virtual time for leases and retries, real time for what the file system tells.
      for (let step = 0; step < 20; step++) {
        if (await probe()) return;
        await clock.advanceAsync(ms / 20);
      }
      for (let turn = 0; turn < 500; turn++) {
        if (await probe()) return;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      throw new Error(`${what}: not within ${ms} ms`);
    },
    async close() {
      inspector.close();
      raw.close();
      rmSync(folder, { recursive: true });
    },
  };
}

brokerCases("sqlite", harness);
