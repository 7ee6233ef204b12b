import { describe, expect, it } from "vitest";
import { CaseFolder } from "../../../../test/support/brokers/sqlite/fixture.cases.ts";
import { createProducer, createRequester, type Producer, type ProducerOptions } from "./index.ts";

describe("createProducer", () => {
  it("puts requests into a file and takes results out of it", async () => {
    const folder = new CaseFolder();
    const sqlite = { path: folder.path };
    const producer: Producer = await createProducer({ sqlite, requestQueueName: "q", resultQueueName: "r" });
    await producer.submitRequest({ id: "a", deadline: 4_000_000_000, payload: { prompt: "x" } });
    expect(await producer.requestQueueDepth()).toBe(1);
    await producer.close();
    const requester = await createRequester({ sqlite, requestQueueName: "q" });
    const asked = requester.request({}, { deadline: 4_000_000_000 });
    await requester.close();
    await expect(asked).rejects.toMatchObject({ code: "PRODUCER_CLOSED" });
    folder.remove();
  });

  it("says what is wrong with the options, also to callers without types", async () => {
    const good = { sqlite: { path: "x" }, requestQueueName: "q", resultQueueName: "r" };
    for (const [options, problem] of [
      [undefined, /^options are required/],
      [{ ...good, resultQueuName: "r" }, /^there is no option "resultQueuName"; did you mean `resultQueueName`\?/],
      [{ ...good, redis: { url: "redis://x" } }, /^give either redis:/],
      [{ resultQueueName: "r" }, /^give either redis:/],
      [{ ...good, sqlite: {} }, /^sqlite\.path is required/],
      [{ redis: { url: "" }, resultQueueName: "r" }, /^redis\.url is required/],
      [{ ...good, resultQueueName: "" }, /^resultQueueName is required/],
      [{ ...good, requestQueueName: undefined }, /^with sqlite, requestQueueName is required/],
      [{ ...good, requestQueueName: 5 }, /^requestQueueName must be a string/],
    ] as const)
      await expect(createProducer(options as ProducerOptions)).rejects.toMatchObject({
        code: "PRODUCER_INVALID",
        message: expect.stringMatching(problem),
      });
    await expect(createRequester({ ...good, maxWait: 1 } as ProducerOptions)).rejects.toThrow(
      "did you mean `maxWaiting`?",
    );
    await expect(createProducer({ redis: { url: "http://x" }, resultQueueName: "r" })).rejects.toMatchObject({
      code: "REDIS_URL_INVALID",
    });
  });
});
