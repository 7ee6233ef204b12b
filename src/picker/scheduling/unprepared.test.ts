import { describe, expect, it } from "vitest";
import { SluiceError } from "../../base/inference/errors.ts";
import { missingReason } from "./unprepared.ts";

describe("missingReason", () => {
  it.each([
    ["PREPARE_TIMEOUT", "late"],
    ["RENDER_TIMEOUT", "late"],
    ["RENDER_LIMIT", "limit"],
    ["BURST_FULL", "limit"],
    ["RENDER_FAILED", "failed"],
  ] as const)("%s is %s", (code, reason) => {
    expect(missingReason(new SluiceError(code, "text"))).toBe(reason);
  });

  it("any other error is a failure", () => {
    expect(missingReason(new Error("text"))).toBe("failed");
  });
});
