import { describe, expect, it } from "vitest";
import { endpointOf, requestOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../../base/clock/random.ts";
import { VirtualClock } from "../../../../base/clock/virtual.ts";
import { hostPort } from "../../../../base/inference/endpoint.ts";
import { HeaderList } from "../../../../base/inference/headers.ts";
import { Rejection } from "../../../../base/inference/outcomes.ts";
import { PluginRegistry } from "../../../../base/plugin/registry.ts";
import { described, planOfOne } from "../../build.ts";
import { Scheduler } from "../../scheduler.ts";
import { maxScorePicker } from "../pickers/max-score-picker.ts";
import { headerBasedTestingFilter } from "./header-based-testing-filter.ts";

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
