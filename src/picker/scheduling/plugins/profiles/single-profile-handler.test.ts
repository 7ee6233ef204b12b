import { describe, expect, it } from "vitest";
import { decide, handlerOf } from "../../../../../test/support/scheduling/plugins/profiles/handlers.cases.ts";
import { Rejection } from "../../../../base/inference/outcomes.ts";
import { singleProfileHandler } from "./single-profile-handler.ts";

describe("single-profile-handler (3.7)", () => {
  it("takes no parameters", () => {
    expect(singleProfileHandler.kind).toBe("profile-handler");
    expect(singleProfileHandler.parameters.safeParse({}).success).toBe(true);
    expect(singleProfileHandler.parameters.safeParse({ primary: "x" }).success).toBe(false);
  });

  it("runs the only profile once, and what it comes to is the answer", () => {
    const handler = handlerOf(singleProfileHandler);
    expect(decide(handler, { any: [3, 1] })).toEqual({ steps: [["any"]], primary: "any", decision: undefined });
    expect(decide(handler, { any: undefined }).primary).toEqual(new Rejection("no_target", "any has none"));
  });
});
