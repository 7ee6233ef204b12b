import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { QueueSettings, TransportSettings } from "../../async/brokers/settings.ts";
import { sqliteProducer } from "../../async/brokers/sqlite/producer.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { dispatchMessages } from "./dispatch-messages.ts";

const deps = { clock: realClock, random: new SeededRandom(1), log: silentLogger };
const DEADLINE = 4_000_000_000;
const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const settings = (over: object): TransportSettings =>
  ({
    queues: [{ name: "q", id: "q" } as QueueSettings],
    ...{ resultQueueName: "results", retryQueueName: "retries", ...over },
  }) as unknown as TransportSettings;

describe("the queued messages of a dispatcher", () => {
  it("are listed in their order without their contents, and cancelled by id", async () => {
    const path = join(mkdtempSync(join(tmpdir(), "sluice-messages-")), "queue.db");
    const producer = await sqliteProducer({ path, requestQueueName: "q", resultQueueName: "results" }, deps);
    ends.push(() => producer.close());
    const ids = Array.from({ length: 25 }, (_, n) => `m${n}`);
    await producer.submitRequests(
      ids.map((id, n) => ({ id, deadline: DEADLINE + n, payload: { secret: "s3cret-prompt" } })),
    );
    const { source, close } = dispatchMessages(settings({ transport: "sqlite", path }), deps);
    ends.push(close);
    expect(source.unable).toBeUndefined();
    const listed = (await source.next("q"))!;
    expect(listed.map(({ id }) => id)).toEqual(ids.slice(0, 20));
    expect(listed[0]).toMatchObject({ id: "m0", deadline: DEADLINE, retries: 0, bytes: expect.any(Number) });
    expect(JSON.stringify(listed)).not.toContain("s3cret");
    expect(await source.next("other")).toBeUndefined();
    expect(await source.cancel("m3")).toBe(true);
    expect(await source.cancel("m99")).toBe(false);
  });

  it("are asked for again after a store was away", async () => {
    const path = join(mkdtempSync(join(tmpdir(), "sluice-messages-")), "queue.db");
    const { source, close } = dispatchMessages(settings({ transport: "sqlite", path }), deps);
    ends.push(close);
    await expect(source.next("q")).rejects.toThrow();
    const producer = await sqliteProducer({ path, requestQueueName: "q", resultQueueName: "results" }, deps);
    ends.push(() => producer.close());
    await producer.submitRequest({ id: "m0", deadline: DEADLINE, payload: {} });
    expect((await source.next("q"))!.map(({ id }) => id)).toEqual(["m0"]);
  });

  it.each(["redis-pubsub", "gcp-pubsub"] as const)(
    "of %s are out of reach, and the page says why",
    async (transport) => {
      const { source, close } = dispatchMessages(settings({ transport }), deps);
      expect(source.unable).toMatch(/\w+ .*deadline/);
      expect(await source.cancel("m0")).toBe(false);
      await close();
    },
  );
});
