import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { feedSettings, preciseParameters } from "./precise-parameters.ts";

const schema = z.strictObject(preciseParameters);
const withSelector = (podLabelSelector: string) =>
  schema.safeParse({ kvEventsConfig: { podDiscoveryConfig: { podLabelSelector, podNamespace: "llm" } } });

describe("podLabelSelector (scheduling 3.14)", () => {
  it.each([
    ["", true],
    ["app=vllm, tier!=iron", true],
    ["app in (sglang, vllm),!gone", true],
    ["app==sglang", false],
  ])("%j selects an endpoint of its namespace: %s", (selector, expected) => {
    const { selects } = feedSettings(withSelector(selector).data!).perEndpoint!;
    const inNamespace = (namespace: string) =>
      ({ labels: { app: "vllm", tier: "gold" }, namespace }) satisfies Partial<Endpoint> as unknown as Endpoint;
    expect(selects(inNamespace("llm"))).toBe(expected);
    expect(selects(inNamespace("other"))).toBe(false);
  });

  it("is refused with the requirement that is wrong", () => {
    expect(withSelector("app=vllm,a b").error!.issues[0]).toMatchObject({
      path: ["kvEventsConfig", "podDiscoveryConfig", "podLabelSelector"],
      message: expect.stringContaining('"a b" is none of key=value'),
    });
  });
});
