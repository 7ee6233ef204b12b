import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { queueClientCases } from "../../../../test/support/brokers/queue-client.cases.ts";
import { CaseFolder, NO_EVENTS } from "../../../../test/support/brokers/sqlite/fixture.cases.ts";
import { sqliteBroker } from "./broker.ts";
import { sqliteQueueClient } from "./queue-client.ts";

queueClientCases("sqlite", async () => {
  const folder = new CaseFolder();
  const client = sqliteQueueClient(folder.path, folder, true);
  const broker = sqliteBroker(folder.settings(), folder);
  broker.start(NO_EVENTS);
  return {
    ...{ client, broker },
    async injectResult(queueName, entry) {
      const raw = new DatabaseSync(folder.path);
      raw.prepare("INSERT INTO results (queue, body) VALUES (?, ?)").run(queueName, entry);
      raw.close();
    },
    async close() {
      client.close();
      await broker.close();
      folder.remove();
    },
  };
});

describe("the client of a queue file", () => {
  it("lists the queues that are there", async () => {
    const folder = new CaseFolder();
    const client = sqliteQueueClient(folder.path, folder, true);
    expect(await client.names()).toEqual({ queues: [], results: [] });
    for (const name of ["b", "a"]) {
      const producer = await client.producer(name, "r");
      await producer.submitRequest({ id: "1", deadline: folder.inSeconds(9), payload: {} });
      await producer.close();
    }
    expect(await client.names()).toEqual({ queues: ["a", "b"], results: [] });
    client.close();
    folder.remove();
  });

  it("makes no file where none is wanted", () => {
    const folder = new CaseFolder();
    expect(() => sqliteQueueClient(folder.path, folder, false)).toThrow(
      expect.objectContaining({ code: "BROKER_UNAVAILABLE", message: `there is no queue file ${folder.path}` }),
    );
    expect(existsSync(folder.path)).toBe(false);
    folder.remove();
  });
});
