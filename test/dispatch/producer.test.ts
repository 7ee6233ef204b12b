import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createProducer, createRequester } from "../../src/async/brokers/producer/index.ts";
import type { RedisStore } from "../support/dispatch-store.ts";
import { fixedLimit } from "../support/slowness.ts";
import { Desk } from "./setup.ts";

describe("an application's producer on Redis", () => {
  let desk: Desk;
  let redis: { readonly url: string };

  beforeAll(async () => {
    desk = await Desk.open("Redis");
    redis = { url: (desk.store as RedisStore).server.url };
    await desk.dispatch();
  });
  afterAll(() => desk?.close());

  const deadline = (): number => Math.floor(Date.now() / 1000) + 600;

  it("requesters side by side each get the results of their own requests", async () => {
    const requesters = await Promise.all([1, 2, 3].map(() => createRequester({ redis, requestQueueName: "q" })));
    const asked = requesters.flatMap((requester, of) =>
      Array.from({ length: 40 }, async (_, at) => {
        const id = `r${of}-${at}`;
        const result = await requester.request({ at }, { id, deadline: deadline() });
        expect(result).toMatchObject({ id, statusCode: 200, errorCode: "" });
      }),
    );
    await Promise.all(asked);
    for (const requester of requesters) await requester.close();
  });

  it("submits many and takes their results, whoever waits first", async () => {
    const producer = await createProducer({ redis, requestQueueName: "q", resultQueueName: "mine" });
    const ids = Array.from({ length: 250 }, (_, at) => `m${at}`);
    await producer.submitRequests(ids.map((id) => ({ id, deadline: deadline(), payload: { prompt: id } })));
    const results = await Promise.all(ids.map(() => producer.getResult(AbortSignal.timeout(fixedLimit(60_000)))));
    expect(results.map(({ id }) => id).sort()).toEqual([...ids].sort());
    await expect(producer.getResult(AbortSignal.timeout(50))).rejects.toMatchObject({ name: "TimeoutError" });
    await producer.close();
  });
});
