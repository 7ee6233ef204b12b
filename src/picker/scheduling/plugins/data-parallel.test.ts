import { describe, expect, it } from "vitest";
import { load } from "../../../../test/support/config/real.cases.ts";
import { decide, handlerOf } from "../../../../test/support/scheduling/plugins/profiles/handlers.cases.ts";
import type { Rejection } from "../../../base/inference/outcomes.ts";
import { dataParallelProfileHandler } from "./data-parallel.ts";

describe("data-parallel-profile-handler (scheduling 3.7)", () => {
  it("runs the only profile once, and names the port of the sidecar", () => {
    const handler = handlerOf(dataParallelProfileHandler);
    expect(decide(handler, { default: [2, 0] })).toEqual({
      steps: [["default"]],
      primary: "default",
      decision: undefined,
    });
    expect(handler.primaryPort).toBe(8000);
    expect(handlerOf(dataParallelProfileHandler, { primaryPort: 9000 }).primaryPort).toBe(9000);
    expect((decide(handler, { default: undefined }).primary as Rejection).reason).toBe("no_target");
  });

  it("is refused with several profiles, and with a port that is none", () => {
    const text = (port: number, profiles: string) =>
      `apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: data-parallel-profile-handler, parameters: {primaryPort: ${port}}}, {type: queue-scorer}]\nschedulingProfiles: [${profiles}]\n`;
    const one = "{name: a, plugins: [{pluginRef: queue-scorer}]}";
    expect(load(text(8000, one)).handler.name).toBe("data-parallel-profile-handler");
    expect(() => load(text(8000, `${one}, ${one.replace("a,", "b,")}`))).toThrow(
      "data-parallel-profile-handler cannot support multiple scheduling profiles",
    );
    for (const port of [0, 65536, 1.5]) expect(() => load(text(port, one))).toThrow("must be a port, from 1 to 65535");
  });

  it("brings along the header for the sidecar", () => {
    const { hooks } = load(
      "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: data-parallel-profile-handler}]\n",
    );
    expect(hooks.map(({ name }) => name)).toEqual(["data-parallel-header-handler"]);
  });
});
