import { describe, expect, it } from "vitest";
import { answered, type CaseContext, LONG, Q } from "./context.cases.ts";
import { queueOf } from "./harness.cases.ts";

/** The producer of the same store. */
export function producerCases(c: CaseContext): void {
  describe("producer", () => {
    it("takes results in the order they were written, each once", async () => {
      await c.begin();
      for (const id of ["a", "b", "c"]) await c.submit(id);
      for (const each of await c.claim(3)) await c.broker.settle([answered(each)]);
      expect(await c.producer.resultQueueDepth()).toBe(3);
      expect((await c.producer.getResult()).id).toBe("a");
      const others = await Promise.all([c.producer.getResult(), c.producer.getResult()]);
      expect(others.map(({ id }) => id).sort()).toEqual(["b", "c"]);
      expect(await c.producer.resultQueueDepth()).toBe(0);
    });

    it("waits for a result that is not there yet", async () => {
      await c.begin();
      await c.submit("a");
      const result = c.producer.getResult();
      await c.broker.settle((await c.claim(1)).map(answered));
      expect(await result).toMatchObject({ id: "a", statusCode: 200 });
    });

    it("stops waiting when told to, and takes no result with it", async () => {
      await c.begin();
      const end = new AbortController();
      const result = c.producer.getResult(end.signal);
      end.abort(new Error("enough"));
      await expect(result).rejects.toThrow("enough");
      await expect(c.producer.getResult(end.signal)).rejects.toThrow("enough");
      await c.submit("a");
      await c.broker.settle((await c.claim(1)).map(answered));
      expect(await c.producer.getResult()).toMatchObject({ id: "a" });
    });

    it("an entry that is no result is an error, and out of the way", async () => {
      await c.begin();
      await c.harness.injectResult("results", "garbage");
      await c.harness.injectResult("results", JSON.stringify({ payload: "{}" }));
      await c.harness.injectResult("results", JSON.stringify({ id: "a", payload: "{}" }));
      await expect(c.producer.getResult()).rejects.toMatchObject({ code: "RESULT_INVALID" });
      await expect(c.producer.getResult()).rejects.toThrow("result missing 'id' field");
      expect(await c.producer.getResult()).toMatchObject({ id: "a" });
    });

    it("A-37 queues nothing when one of many is not valid", async () => {
      await c.begin();
      const good = c.request("a");
      await expect(c.producer.submitRequests([good, { ...good, id: "" }])).rejects.toThrow("request ID is required");
      const late = { ...good, deadline: c.inSeconds(-5) };
      await expect(c.producer.submitRequest(late)).rejects.toMatchObject({
        code: "REQUEST_INVALID",
        message: "deadline has already expired",
      });
      expect(await c.producer.requestQueueDepth()).toBe(0);
    });

    it("knows depths and clears queues", async () => {
      await c.begin();
      for (const id of ["a", "b", "c"]) await c.submit(id);
      await c.broker.settle((await c.claim(1)).map(answered));
      expect(await c.producer.requestQueueDepth()).toBe(2);
      await c.producer.clearRequestQueue();
      await c.producer.clearResultQueue();
      expect(await c.producer.requestQueueDepth()).toBe(0);
      expect(await c.producer.resultQueueDepth()).toBe(0);
      expect(await c.claim(5)).toEqual([]);
    });

    it("sends a request to another queue, its result to another result queue", async () => {
      const other = queueOf("other");
      await c.begin(LONG, [Q, other]);
      await c.submit("a", 600, { requestQueueName: "other", resultQueueName: "elsewhere" });
      expect(await c.claim(1)).toEqual([]);
      await c.broker.settle((await c.claim(1, c.broker, other)).map(answered));
      expect(await c.results("elsewhere")).toHaveLength(1);
    });
  });
}
