import { describe, expect, it } from "vitest";
import { endpointOf, instanceOf, requestOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { disaggHeadersHandler, prefillHeaderHandler } from "./disagg-headers-handler.ts";

function headersFor(profiles: Readonly<Record<string, readonly Endpoint[]>>, parameters: object = {}) {
  const set: Record<string, string> = {};
  const removed: string[] = [];
  instanceOf(disaggHeadersHandler, parameters).preRequest!({
    request: requestOf("p"),
    endpoints: profiles["decode"] ?? [],
    profiles: new Map(Object.entries(profiles)),
    setHeader: (name, value) => {
      set[name] = value;
    },
    removeHeader: (name) => removed.push(name),
    setMetadata: () => {},
  });
  return { set, removed };
}

const decode = [endpointOf(2)];
const [one, two] = [endpointOf(0), endpointOf(1)];

describe("disagg-headers-handler (scheduling 3.7.1)", () => {
  it("S-47 names the first that prefills and all that encode, and removes what a client wrote", () => {
    const { set, removed } = headersFor({ decode, prefill: [one, two], encode: [one, two] });
    expect(set).toEqual({
      "x-prefiller-host-port": "10.0.0.0:8000",
      "x-encoder-hosts-ports": "10.0.0.0:8000,10.0.0.1:8000",
    });
    expect(removed).toEqual(["x-prefiller-host-port", "x-encoder-hosts-ports"]);
  });

  it("S-47 sets nothing where no such stage ran", () => {
    const { set, removed } = headersFor({ decode });
    expect(set).toEqual({});
    expect(removed).toHaveLength(2);
  });

  it("names no endpoint that is down: the decode endpoint does its work", () => {
    const down = endpointOf(3, { state: "down" });
    expect(headersFor({ decode, prefill: [down], encode: [down] }).set).toEqual({});
    expect(headersFor({ decode, prefill: [down, one], encode: [down, two] }).set).toEqual({
      "x-prefiller-host-port": "10.0.0.0:8000",
      "x-encoder-hosts-ports": "10.0.0.1:8000",
    });
  });

  it("writes IPv6 addresses in brackets", () => {
    const prefill = [endpointOf(0, { address: "fd00::1", hostPort: "[fd00::1]:8000" })];
    expect(headersFor({ decode, prefill }).set).toEqual({ "x-prefiller-host-port": "[fd00::1]:8000" });
  });

  it("goes by the names of the profiles", () => {
    const profiles = { decode, prefill: [one], p: [two], e: [one] };
    expect(headersFor(profiles, { prefillProfile: "p", encodeProfile: "e" }).set).toEqual({
      "x-prefiller-host-port": "10.0.0.1:8000",
      "x-encoder-hosts-ports": "10.0.0.0:8000",
    });
  });

  it("has an older name that takes the same parameters", () => {
    expect(prefillHeaderHandler.parameters).toBe(disaggHeadersHandler.parameters);
    expect(prefillHeaderHandler.type).toBe("prefill-header-handler");
    expect(prefillHeaderHandler.deprecated).toContain("disagg-profile-handler");
  });
});
