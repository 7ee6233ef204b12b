import { beforeEach, describe, expect, it } from "vitest";
import { MemoryProducer } from "../../../../test/support/brokers/memory/producer.ts";
import { answer, Harness } from "../../../../test/support/dispatch/harness.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { silentLogger } from "../../../base/telemetry/logger.ts";
import type { ResultMessage } from "../messages/message.ts";
import { ResultRequester } from "./result-requester.ts";

let h: Harness;
let strays: ResultMessage[];
let requester: ResultRequester;

beforeEach(() => {
  h = new Harness();
  h.gateway.latency = 100;
  h.gateway.reply = (request) => answer(200, { body: Buffer.from(request.body) });
  strays = [];
  requester = new ResultRequester(
    new MemoryProducer({ requestQueueName: "q", resultQueueName: "mine" }, h.store, new SeededRandom(1)),
    { clock: h.clock, log: silentLogger, maxWaiting: 3, onStray: (result) => strays.push(result) },
  );
});

const ask = (prompt: string, more: object = {}): Promise<unknown> =>
  requester.request({ prompt }, { deadline: h.in(60), ...more }).then(
    ({ payload }) => JSON.parse(Buffer.from(payload).toString()).prompt,
    (error) => error,
  );

describe("ResultRequester", () => {
  it("hands each result to whoever waits for it", async () => {
    h.start();
    const all = Promise.all(["a", "b", "c"].map((prompt) => ask(prompt)));
    await h.run(10);
    expect(requester.waiting).toBe(3);
    await h.run(500);
    expect(await all).toEqual(["a", "b", "c"]);
    const later = ask("d");
    await h.run(500);
    expect(await later).toBe("d");
    expect(requester.waiting).toBe(0);
    expect(h.store.results("mine")).toEqual([]);
    await requester.close();
  });

  it("takes nothing that was not meant for it, and hands on what nobody waits for", async () => {
    h.start();
    await h.submit("other");
    h.store.pushResult("mine", '{"id":"earlier","status_code":200,"payload":"{}"}');
    h.store.pushResult("mine", "garbage");
    const asked = ask("a");
    await h.run(3000);
    expect(await asked).toBe("a");
    expect(strays.map(({ id }) => id)).toEqual(["earlier"]);
    expect(h.resultOf("other")?.statusCode).toBe(200);
  });

  it("a request that is given up is cancelled, and its result is a stray", async () => {
    const abort = new AbortController();
    const asked = ask("a", { signal: abort.signal, id: "one" });
    await h.run(10);
    abort.abort(new Error("no longer wanted"));
    expect(await asked).toMatchObject({ message: "no longer wanted" });
    h.start();
    const other = ask("b");
    await h.run(1000);
    expect(await other).toBe("b");
    expect(strays).toMatchObject([{ id: "one", errorCode: "CANCELLED" }]);
    expect(h.gateway.requests).toHaveLength(1);
    expect(await ask("c", { signal: abort.signal })).toMatchObject({ message: "no longer wanted" });
  });

  it("refuses what it cannot keep, and what waits already", async () => {
    const waiting = ["a", "b", "c"].map((id) => ask(id, { id }));
    expect(await ask("d")).toMatchObject({ code: "REQUESTER_FULL" });
    await h.run(1);
    await requester.close();
    expect(await Promise.all(waiting)).toMatchObject(Array.from({ length: 3 }, () => ({ code: "PRODUCER_CLOSED" })));
    expect(await ask("e")).toMatchObject({ code: "PRODUCER_CLOSED" });
    expect(requester.waiting).toBe(0);
  });

  it("tells at once what is wrong with a request, and a twin", async () => {
    expect(await ask("a", { deadline: 5 })).toMatchObject({ code: "REQUEST_INVALID" });
    const first = ask("a", { id: "one" });
    expect(await ask("b", { id: "one" })).toMatchObject({
      code: "REQUEST_INVALID",
      message: expect.stringMatching(/already waits for its result/),
    });
    h.start();
    await h.run(500);
    expect(await first).toBe("a");
  });

  it("without a dispatcher nobody waits for ever, however far the deadline", async () => {
    const soon = ask("a");
    const late = ask("b", { deadline: h.in(40 * 86_400) });
    await h.run(89_000);
    expect(requester.waiting).toBe(2);
    await h.run(2000);
    expect(await soon).toMatchObject({
      code: "RESULT_MISSING",
      message: expect.stringMatching(/does a dispatcher serve its queue/),
    });
    await h.run(30 * 86_400_000);
    expect(requester.waiting).toBe(1);
    await h.run(10 * 86_400_000);
    expect(await late).toMatchObject({ code: "RESULT_MISSING" });
  });

  it("an outage while it waits costs no result", async () => {
    h.start();
    const asked = ask("a");
    await h.run(10);
    h.store.fault = "away";
    await h.run(5000);
    h.store.fault = "none";
    await h.run(20_000);
    expect(await asked).toBe("a");
  });
});
