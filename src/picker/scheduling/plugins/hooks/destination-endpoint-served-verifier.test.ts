import { describe, expect, it } from "vitest";
import { instanceOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { HeaderList } from "../../../../base/inference/headers.ts";
import { destinationEndpointServedVerifier } from "./destination-endpoint-served-verifier.ts";

function headersFor(metadata: Record<string, unknown> | undefined): [string, string][] {
  const set: [string, string][] = [];
  instanceOf(destinationEndpointServedVerifier).responseReceived!({
    request: undefined,
    endpoint: undefined,
    status: 200,
    headers: new HeaderList(),
    metadata,
    setHeader: (name, value) => set.push([name, value]),
  });
  return set;
}

describe("destination-endpoint-served-verifier (R-52)", () => {
  it.each([
    [{ "x-gateway-destination-endpoint-served": "10.0.0.1:3000" }, "10.0.0.1:3000"],
    [{ "x-gateway-destination-endpoint-served": "[fd00::1]:3000", other: 1 }, "[fd00::1]:3000"],
    [undefined, "fail: missing envoy lb metadata"],
    [{}, "fail: missing destination endpoint served metadata"],
    [{ "x-gateway-destination-endpoint-served": 7 }, "fail: missing destination endpoint served metadata"],
  ])("E-75, E-77: %j gives %j, once", (metadata, value) => {
    expect(headersFor(metadata)).toEqual([["x-conformance-test-served-endpoint", value]]);
  });
});
