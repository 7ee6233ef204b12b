import { describe, expect, it } from "vitest";
import { environmentMarkdown, readEnvironment } from "./epp-environment.ts";

describe("the environment (epp-protocol 13.4)", () => {
  it.each([
    [{}, true],
    [{ USE_STREAMING: "true" }, true],
    [{ USE_STREAMING: "false" }, false],
    [{ USE_STREAMING: "0" }, false],
    [{ USE_STREAMING: "" }, true],
  ])("%j", (env, streaming) => {
    expect(readEnvironment(env)).toEqual({ streaming, warnings: [] });
  });

  it("warns of a malformed value and goes on with the default", () => {
    const { streaming, warnings } = readEnvironment({ USE_STREAMING: "maybe" });
    expect(streaming).toBe(true);
    expect(warnings).toEqual([expect.stringMatching(/^environment variable USE_STREAMING is ignored: .*"maybe"/)]);
  });

  it("tells that old feature switches do nothing", () => {
    expect(readEnvironment({ ENABLE_EXPERIMENTAL_DATALAYER_V2: "false" }).warnings).toEqual([]);
    expect(readEnvironment({ ENABLE_EXPERIMENTAL_FLOW_CONTROL_LAYER: "true" }).warnings).toEqual([
      "environment variable ENABLE_EXPERIMENTAL_FLOW_CONTROL_LAYER has no effect: it is a matter of the configuration since v1.5",
    ]);
  });

  it("is described", () => {
    expect(environmentMarkdown()).toContain("| `USE_STREAMING` | v0.3 | `true` |");
  });
});
