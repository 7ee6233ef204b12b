import { describe, expect, it } from "vitest";
import {
  decide,
  deciderSaying,
  handlerOf,
  type Outcomes,
} from "../../../../../test/support/scheduling/plugins/profiles/handlers.cases.ts";
import type { Rejection } from "../../../../base/inference/outcomes.ts";
import { pdProfileHandler } from "./profile-handlers.ts";

const TWO: Outcomes = { decode: [1], prefill: [0] };
const parse = (parameters: object) => pdProfileHandler.parameters.safeParse(parameters);

function run(outcomes: Outcomes, says: boolean, parameters: object = {}, decider = "prefix-based-pd-decider") {
  return decide(handlerOf(pdProfileHandler, parameters, [deciderSaying(decider, says).definition]), outcomes);
}

describe("pd-profile-handler (scheduling 3.7)", () => {
  it("is deprecated, and says what to write instead", () => {
    expect(pdProfileHandler.deprecated).toContain("disagg-profile-handler");
  });

  it("runs decode, then prefill if the decider says so", () => {
    expect(run(TWO, true)).toEqual({
      steps: [["decode"], ["prefill"]],
      primary: "decode",
      decision: "prefill-decode",
    });
    expect(run(TWO, false)).toMatchObject({ steps: [["decode"]], decision: "decode-only" });
    // It knows nothing of encoding.
    expect(run({ ...TWO, encode: [2] }, true).steps).toEqual([["decode"], ["prefill"]]);
  });

  it("S-48 tolerates a missing prefill endpoint, not a missing decode endpoint", () => {
    expect(run({ ...TWO, prefill: undefined }, true)).toMatchObject({ primary: "decode", decision: "decode-only" });
    const { primary } = run({ ...TWO, decode: undefined }, true);
    expect([(primary as Rejection).status, (primary as Rejection).detail]).toEqual([
      429,
      "failed to find available decode workers: decode has none",
    ]);
  });

  it("takes other names for profiles and decider, and tells the headers", () => {
    const parameters = { decodeProfile: "d", prefillProfile: "p", deciderPluginName: "mine" };
    expect(run({ d: [1], p: [0] }, true, parameters, "mine").steps).toEqual([["d"], ["p"]]);
    expect(pdProfileHandler.references!(parse(parameters).data)).toEqual([
      { path: ["deciderPluginName"], name: "mine", kind: "decider" },
    ]);
    expect(pdProfileHandler.companions!(parse(parameters).data)[0]!.parameters).toEqual({ prefillProfile: "p" });
  });

  it("sends requests to the port of a sidecar where it is told one", () => {
    const companions = (given: object) =>
      pdProfileHandler.companions!(parse(given).data).map((one) => one.definition.type);
    expect(companions({})).toEqual(["disagg-headers-handler"]);
    expect(companions({ primaryPort: 8000 })).toEqual(["disagg-headers-handler", "data-parallel-header-handler"]);
    const port = (given: object) =>
      handlerOf(pdProfileHandler, given, [deciderSaying("prefix-based-pd-decider", true).definition]).primaryPort;
    expect([port({}), port({ primaryPort: 9000 })]).toEqual([undefined, 9000]);
  });

  it("takes what older configurations say", () => {
    expect(parse({ prefixPluginName: "x", prefixPluginType: "y", prefixMatchInfoProducerName: "z" }).success).toBe(
      true,
    );
    expect(parse({ primaryPort: 0 }).success).toBe(true);
    expect(parse({ primaryPort: 65536 }).success).toBe(false);
    expect(parse({ decodeProfile: "prefill" }).error!.issues[0]!.path).toEqual(["prefillProfile"]);
    expect(parse({ deciderPluginName: "" }).success).toBe(false);
  });
});
