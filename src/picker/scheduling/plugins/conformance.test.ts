import { describe, expect, it } from "vitest";
import { endpointOf, instanceOf, requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { hostPort } from "../../../base/inference/endpoint.ts";
import { HeaderList } from "../../../base/inference/headers.ts";
import { Rejection } from "../../../base/inference/outcomes.ts";
import { PluginRegistry } from "../../../base/plugin/registry.ts";
import { described, planOfOne } from "../build.ts";
import { Scheduler } from "../scheduler.ts";
import { destinationEndpointServedVerifier, headerBasedTestingFilter } from "./conformance.ts";
import { maxScorePicker } from "./pickers.ts";

const POOL = [
  ["10.0.0.1", 3000],
  ["10.0.0.1", 3002],
  ["10.0.0.2", 3000],
  ["10.0.0.2", 3002],
  ["fd00::1", 3000],
] as const;

const endpoints = POOL.map(([address, port], slot) =>
  endpointOf(slot, { address, port, hostPort: hostPort(address, port) }),
);

/** What a scheduler with this filter answers a request that carries the header. */
function scheduled(header: string | undefined): string[] | Rejection {
  const clock = new VirtualClock();
  const random = new SeededRandom(3);
  const plan = planOfOne({
    plugins: [described(headerBasedTestingFilter), described(maxScorePicker)],
    registry: new PluginRegistry([]),
    clock,
    random,
  });
  const headers = HeaderList.of(header === undefined ? [] : [["test-epp-endpoint-selection", header]]);
  const result = new Scheduler({ plan, clock, random }).schedule(requestOf("p", { headers }), endpoints, 0);
  return result instanceof Rejection ? result : result.endpoints.map((endpoint) => endpoint.hostPort).sort();
}

describe("header-based-testing-filter (R-52)", () => {
  it.each([
    ["10.0.0.2", ["10.0.0.2:3000"]],
    ["10.0.0.1:3002", ["10.0.0.1:3002"]],
    ["10.0.0.1:3002, 10.0.0.2:3000 ,", ["10.0.0.1:3002", "10.0.0.2:3000"]],
    ["10.0.0.1:3002,10.0.0.1:3000,10.0.0.1", ["10.0.0.1:3002"]],
    ["10.0.0.9,10.0.0.1:9999,10.0.0.1:3002", ["10.0.0.1:3002"]],
    ["[fd00::1]:3000", ["[fd00::1]:3000"]],
    ["FD00:0::1", ["[fd00::1]:3000"]],
    ["[fd00:0:0::1]", ["[fd00::1]:3000"]],
  ])("%j keeps %j: bare addresses, ports, the first per address, unknown ones passed over", (header, kept) => {
    expect(scheduled(header)).toEqual(kept);
  });

  it.each([undefined, "", "  ", " , ,", "10.0.0.9", "10.0.0.1:9999", "nonsense:::", "[fd00::1"])(
    "%j keeps nothing: the client is answered 429",
    (header) => {
      const outcome = scheduled(header);
      expect(outcome).toBeInstanceOf(Rejection);
      expect(outcome).toMatchObject({ reason: "no_target", status: 429 });
    },
  );

  it("reads the first 256 entries", () => {
    const entries = (blanks: number) => `${"10.9.9.9,".repeat(blanks)}10.0.0.2`;
    expect(scheduled(entries(255))).toEqual(["10.0.0.2:3000"]);
    expect(scheduled(entries(256))).toBeInstanceOf(Rejection);
  });
});

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
