import { describe, expect, it } from "vitest";
import { requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import {
  decide,
  handlerOf,
  type Outcomes,
} from "../../../../test/support/scheduling/plugins/profiles/handlers.cases.ts";
import { HeaderList } from "../../../base/inference/headers.ts";
import { Rejection } from "../../../base/inference/outcomes.ts";
import { headerProfileHandler, singleProfileHandler } from "./profile-handlers.ts";

describe("single-profile-handler (scheduling 3.7)", () => {
  it("takes no parameters", () => {
    expect(singleProfileHandler.kind).toBe("profile-handler");
    expect(singleProfileHandler.parameters.safeParse({}).success).toBe(true);
    expect(singleProfileHandler.parameters.safeParse({ primary: "x" }).success).toBe(false);
  });

  it("runs the only profile once and returns its result", () => {
    const handler = handlerOf(singleProfileHandler);
    expect(decide(handler, { any: [3, 1] })).toEqual({ steps: [["any"]], primary: "any", decision: undefined });
    expect(decide(handler, { any: undefined }).primary).toEqual(new Rejection("no_target", "any has none"));
  });
});

const THREE: Outcomes = { encode: [0], prefill: [1], decode: [2] };

function run(outcomes: Outcomes, headers: readonly (readonly [string, string])[], parameters: object = {}) {
  const request = requestOf("p", { headers: HeaderList.of(headers) });
  return decide(handlerOf(headerProfileHandler, parameters), outcomes, request);
}

describe("header-profile-handler (scheduling 3.7)", () => {
  it.each([
    ["the one the header names", [["EPP-Profile", "prefill"]], {}, "prefill"],
    ["decode without a header", [], {}, "decode"],
    ["decode with a blank header", [["epp-profile", " "]], {}, "decode"],
    ["another default", [], { defaultProfile: "encode" }, "encode"],
    ["by another header, however it is written", [["x-stage", "encode"]], { headerName: "X-STAGE" }, "encode"],
  ] as const)("runs %s, and no other", (_, headers, parameters, name) => {
    expect(run(THREE, headers, parameters)).toMatchObject({ steps: [[name]], primary: name });
  });

  it("runs the only profile whatever the header says", () => {
    expect(run({ sole: [0] }, [["epp-profile", "prefill"]])).toMatchObject({ steps: [["sole"]], primary: "sole" });
    expect(run({ sole: [0] }, [])).toMatchObject({ primary: "sole" });
  });

  it.each([
    [[["epp-profile", "Decode"]], "the header epp-profile names the profile Decode, which does not exist"],
    [[["epp-profile", "a\nb"]], "the header epp-profile names the profile a b, which does not exist"],
  ] as const)("refuses a name that no profile has with 429, and says which: %j", (headers, text) => {
    const { steps, primary } = run(THREE, headers);
    expect(steps).toEqual([]);
    expect(primary).toBeInstanceOf(Rejection);
    expect((primary as Rejection).status).toBe(429);
    // Nothing is saturated: the client need not come back.
    expect((primary as Rejection).droppedHeader).toBeUndefined();
    expect((primary as Rejection).detail).toBe(`failed to find target endpoint: ${text}`);
  });

  it("says so when the default does not exist", () => {
    const { primary } = run({ a: [0], b: [1] }, []);
    expect((primary as Rejection).detail).toContain("without the header epp-profile the profile is decode");
  });

  it("returns the reason why its profile found no endpoint", () => {
    const { primary } = run({ ...THREE, prefill: undefined }, [["epp-profile", "prefill"]]);
    expect(primary).toEqual(new Rejection("no_target", "prefill has none"));
  });

  it("names the header for full records and refuses what is no header's name", () => {
    const parsed = headerProfileHandler.parameters.parse({ headerName: "X-Stage" });
    expect(headerProfileHandler.headers!(parsed)).toEqual(["x-stage"]);
    for (const wrong of [{ headerName: "" }, { headerName: "a b" }, { defaultProfile: "" }, { header: "x" }])
      expect(headerProfileHandler.parameters.safeParse(wrong).success).toBe(false);
  });
});
