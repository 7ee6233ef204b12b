import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { HEADERS, NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { PoolEndpoint } from "../../pool/endpoints/pool-endpoint.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { Attempts } from "./attempts.ts";

/** An exchange that two endpoints can answer, and for which two others compute 300 and 20 tokens before that. */
function open({ keepsTokens = false } = {}) {
  const pool = new EndpointRegistry({ clock: new VirtualClock(), random: new SeededRandom(1) });
  const endpoints = Array.from({ length: 4 }, (_, i) => {
    const spec = { namespace: "default", name: `e${i}`, address: `10.0.0.${i}`, port: 8000, rank: 0, labels: {} };
    return pool.upsert(spec)!;
  });
  const [first, second, prefill, encode] = endpoints as [PoolEndpoint, PoolEndpoint, PoolEndpoint, PoolEndpoint];
  const attempts = Attempts.open(pool, {
    endpoints: [first, second],
    uncachedTokens: 100,
    keepsTokens,
    record: {} as DecisionRecord,
    sideLoads: [
      { endpoint: prefill, uncachedTokens: 300 },
      { endpoint: encode, uncachedTokens: 20 },
    ],
  });
  const load = () => endpoints.map(({ inFlight: { requests, tokens } }) => [requests, tokens]);
  return { attempts, first, load };
}

const NONE = [0, 0];

describe("the load on endpoints of other profiles (scheduling 3.12)", () => {
  it("counts from routing on", () => {
    expect(open().load()).toEqual([[1, 100], NONE, [1, 300], [1, 20]]);
  });

  it("is gone completely with the first byte of the answer, once", () => {
    const { attempts, load } = open();
    attempts.answered();
    expect(load()).toEqual([[1, 0], NONE, NONE, NONE]);
    attempts.answered();
    attempts.release();
    attempts.release();
    expect(load()).toEqual([NONE, NONE, NONE, NONE]);
  });

  it("is gone then also where the tokens of the one that answers stay until the end", () => {
    const { attempts, first, load } = open({ keepsTokens: true });
    attempts.answered();
    expect(load()).toEqual([[1, 100], NONE, NONE, NONE]);
    attempts.failed(first, "connect", "refused");
    expect(load()).toEqual([NONE, [1, 100], NONE, NONE]);
    attempts.release();
    expect(load()).toEqual([NONE, NONE, NONE, NONE]);
  });

  it("is gone with an exchange that ends before it was answered", () => {
    const { attempts, load } = open();
    attempts.release();
    expect(load()).toEqual([NONE, NONE, NONE, NONE]);
  });

  it("stays where it is when another endpoint is tried", () => {
    const { attempts, first, load } = open();
    attempts.failed(first, "connect", "refused");
    expect(load()).toEqual([NONE, [1, 100], [1, 300], [1, 20]]);
  });
});

describe("the tokens of the endpoint that answers (scheduling 3.12)", () => {
  it.each([
    ["with its first byte", false],
    ["with its last byte where they include what is generated", true],
  ])("are gone %s", (_, addEstimatedOutputTokens) => {
    const plugins = [{ type: "inflight-load-producer", parameters: { addEstimatedOutputTokens } }];
    const config = JSON.stringify({ apiVersion: "llm-d.ai/v1alpha1", kind: "EndpointPickerConfig", plugins });
    const core = new TestCore({ endpoints: 1, config });
    const { inFlight } = core.endpoint(1);
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(HEADERS, false);
    const messages = [{ role: "user", content: "x".repeat(400) }];
    exchange.requestBody(Buffer.from(JSON.stringify({ model: "m", messages, max_tokens: 60 })), true);
    const all = inFlight.tokens;
    expect(all).toBeGreaterThan(addEstimatedOutputTokens ? 160 : 100);
    exchange.responseHeaders(200, HeaderList.of([]), false);
    exchange.responseBody(Buffer.from("{"), false);
    expect(inFlight).toEqual({ requests: 1, tokens: addEstimatedOutputTokens ? all : 0 });
    exchange.responseBody(Buffer.from("}"), true);
    expect(inFlight).toEqual({ requests: 0, tokens: 0 });
  });
});
