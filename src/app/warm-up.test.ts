import { describe, expect, it } from "vitest";
import { realClock } from "../clock/real.ts";
import { loadConfig } from "../config/load.ts";
import { parseDocument } from "../document/parse.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";
import { warmUp } from "./warm-up.ts";

const HEAD = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n";
const alone = (type: string) => `${HEAD}plugins: [{type: ${type}}]\nparser: {pluginRef: ${type}}\n`;

describe("warming up", () => {
  it.each([
    ["the defaults", HEAD],
    ["gRPC alone", alone("vllmgrpc-parser")],
    ["another API alone", alone("anthropic-parser")],
    ["passing everything through", alone("passthrough-parser")],
    [
      "the plugins of the conformance suite, which route by a header",
      `${HEAD}plugins:
- type: header-based-testing-filter
- type: destination-endpoint-served-verifier
schedulingProfiles:
- {name: conformance, plugins: [{pluginRef: header-based-testing-filter}]}
`,
    ],
  ])("keeps no configuration from starting: %s", async (_, text) => {
    const config = loadConfig(parseDocument(text, { file: "c.yaml" }), PLUGIN_REGISTRY);
    await expect(warmUp(realClock, config)).resolves.toBeUndefined();
  });
});
