import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { Routed } from "../exchange/wire.ts";

const CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: data-parallel-profile-handler, parameters: {primaryPort: 8000}}
- {type: active-request-scorer}
- {type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}
`;

/** One pod with ranks at the ports 8000, 8001 and 8002. */
function ranks(): TestCore {
  const core = new TestCore({ endpoints: 0, config: CONFIG });
  for (const rank of [0, 1, 2])
    core.endpoints.upsert({
      ...{ namespace: "default", name: `pod-rank-${rank}`, address: "10.0.0.1" },
      ...{ port: 8000 + rank, rank, labels: {} },
    });
  return core;
}

function send(core: TestCore) {
  const exchange = core.openExchange(NO_WIRE);
  const forged = [
    [":path", "/v1/chat/completions"],
    ["x-data-parallel-host-port", "6.6.6.6:1"],
  ] as const;
  exchange.requestHeaders(HeaderList.of(forged), false);
  const route = exchange.requestBody(Buffer.from(chatBody()), true) as Routed;
  const header = route.headers!.values[route.headers!.keys.indexOf("x-data-parallel-host-port")]!;
  return { exchange, route, header };
}

describe("data-parallel-profile-handler, with everything real but wire and clock (scheduling 3.7)", () => {
  it("sends each request to the port of the sidecar, which learns the rank", () => {
    const core = ranks();
    const sent = [send(core), send(core), send(core)];
    expect(sent.map(({ route }) => route.via)).toEqual(Array(3).fill("10.0.0.1:8000"));
    // The load is counted for the ranks, so three requests go to three of them.
    expect(sent.map(({ header }) => header).sort()).toEqual(["10.0.0.1:8000", "10.0.0.1:8001", "10.0.0.1:8002"]);
    for (const { route, header } of sent) {
      expect(route.endpoints[0]!.hostPort).toBe(header);
      // The sidecar would pass a request for another endpoint to the rank of the first.
      expect([route.endpoints.length, route.offered]).toEqual([1, 1]);
    }
  });

  it("counts a request for its rank although the proxy reports the sidecar's port", () => {
    const core = ranks();
    // A rank of another port: that of the sidecar is also the port of rank 0.
    const { exchange, route } = [send(core), send(core)].find(({ header }) => header !== "10.0.0.1:8000")!;
    const rank = core.endpoints.get(route.endpoints[0]!.id)!;
    exchange.servedBy("10.0.0.1:8000");
    expect(rank.inFlight.requests).toBe(1);
    exchange.responseHeaders(200, new HeaderList(), true);
    expect([rank.inFlight.requests, core.inFlight]).toEqual([0, 1]);
    expect(route.record!.served).toBeUndefined();
  });

  it("has no other endpoint to try when the sidecar fails", () => {
    const core = ranks();
    const { exchange, route } = send(core);
    expect(exchange.attemptFailed(route.endpoints[0]!, "connect", "refused")).toBeInstanceOf(Rejection);
  });
});
