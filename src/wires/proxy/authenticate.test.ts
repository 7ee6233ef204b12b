import { afterEach, describe, expect, it } from "vitest";
import { FakeExchange } from "../../../test/support/fake-exchange.ts";
import { answerBytes } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { ProxyHarness, post } from "../../../test/support/proxy-harness.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { Wire } from "../../picker/exchange/wire.ts";
import type { Authenticate, Verdict } from "./options.ts";

const CALLER = { id: "k", name: "team-a" } as Caller;
const REFUSAL = new Rejection("key_invalid", "no such key");

let harness = new ProxyHarness();
afterEach(async () => {
  await harness.close();
  harness = new ProxyHarness();
});

/** A proxy whose door asks `authenticate`. */
async function start(authenticate: Authenticate) {
  const model = await harness.model(({ socket }) => void socket.write(answerBytes(200, "served")));
  const callers: (Caller | undefined)[] = [];
  const openExchange = (wire: Wire): FakeExchange => {
    callers.push(wire.caller);
    const exchange = new FakeExchange({ endpoints: [model.endpoint] }, wire);
    harness.exchanges.push(exchange);
    return exchange;
  };
  await harness.start({}, { authenticate, openExchange });
  return { model, callers };
}

/** A verdict that the test gives later. */
function later() {
  const { promise, resolve } = Promise.withResolvers<Verdict>();
  let asked = 0;
  const authenticate: Authenticate = () => {
    asked++;
    return promise;
  };
  return { authenticate, resolve, asked: () => asked };
}

describe("an internal error before there is an exchange", () => {
  const broken = () => {
    throw new Error("broken");
  };

  it.each([
    ["the door", { authenticate: broken }],
    ["an own answer", { ownAnswer: broken }],
    ["an own answer after a late verdict", { authenticate: async () => CALLER, ownAnswer: broken }],
  ])("of %s gets 500, is reported, and ends nothing else", async (_part, options) => {
    const errors: unknown[] = [];
    await harness.start({}, { ...options, onError: (error) => errors.push(error) });
    const answers = await Promise.all([harness.ask(post("{}")), harness.ask(post("{}"))]);
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 500 [\s\S]*broken/);
    expect(errors).toHaveLength(2);
  });
});

describe("the door of the proxy", () => {
  it("tells the exchange who sends the request", async () => {
    const { callers } = await start(() => CALLER);
    expect(await harness.ask(post("{}"))).toMatch(/^HTTP\/1\.1 200 /);
    expect(callers).toEqual([CALLER]);
  });

  it("refuses before the path is judged, and the next request of the connection is asked again", async () => {
    let asked = 0;
    const { model, callers } = await start(() => (asked++ === 0 ? REFUSAL : CALLER));
    const client = await harness.client();
    client.send("POST /sleep HTTP/1.1\r\nhost: gw\r\ncontent-length: 0\r\n\r\n");
    await poll("the refusal", () => client.text().includes("no such key"));
    expect(client.text()).toMatch(
      /^HTTP\/1\.1 401 [\s\S]*x-gateway-error: key-invalid\r\n[\s\S]*www-authenticate: Bearer\r\n/,
    );
    client.send(post("{}"));
    await poll("the answer", () => client.text().includes("served"));
    expect([callers, model.requests.length, asked]).toEqual([[CALLER], 1, 2]);
    expect(harness.metrics.bad).toEqual(["key-invalid"]);
  });

  it("holds a request, its body and those behind it until a promise is settled", async () => {
    const { authenticate, resolve, asked } = later();
    const { model, callers } = await start(authenticate);
    const client = await harness.client();
    const body = "x".repeat(300_000);
    client.send(post(body, "") + post("second"));
    await poll("the question", () => asked() === 1);
    expect(harness.exchanges).toEqual([]);
    resolve(CALLER);
    await poll("both answers", () => client.text().split("served").length === 3);
    expect(model.requests.map((request) => request.body.length)).toEqual([body.length, "second".length]);
    expect(callers).toEqual([CALLER, CALLER]);
  });

  it("answers a refusal that comes later, and an internal error with 500", async () => {
    const refused = later();
    await start(refused.authenticate);
    refused.resolve(REFUSAL);
    expect(await harness.ask(post("{}"))).toMatch(/^HTTP\/1\.1 401 /);
    await harness.close();
    harness = new ProxyHarness();
    await start(async () => {
      throw new Error("the check broke");
    });
    expect(await harness.ask(post("{}"))).toMatch(/^HTTP\/1\.1 500 /);
    expect(harness.errors).toEqual([new Error("the check broke")]);
  });

  it("opens nothing for a client that left while it was asked for", async () => {
    const { authenticate, resolve, asked } = later();
    const { model } = await start(authenticate);
    const client = await harness.client();
    client.send(post("{}"));
    await poll("the question", () => asked() === 1);
    client.socket.destroy();
    await poll("the connection is gone", () => harness.proxy.connections === 0);
    resolve(CALLER);
    // A request that came later is over, so what the first one caused would be seen.
    const second = await harness.client();
    second.send(post("{}"));
    await poll("the answer", () => second.text().includes("served"));
    expect([harness.exchanges.length, model.requests.length, harness.errors]).toEqual([1, 1, []]);
  });
});
