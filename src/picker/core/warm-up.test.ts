import { describe, expect, it } from "vitest";
import { realClock } from "../../base/clock/real.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { defineProducer, defineRequestHook } from "../../base/plugin/define.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { loadConfig } from "../config/load.ts";
import { PLUGIN_REGISTRY, PLUGINS } from "./plugins/plugins.ts";
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

  it("waits for nothing that a producer would ask others", async () => {
    let asked = 0;
    let produced = 0;
    const asking = defineProducer({
      type: "asking-producer",
      describe: "Asks.",
      create: () => ({
        prepare: async () => asked++,
        produce: () => {
          produced++;
        },
      }),
    });
    const registry = new PluginRegistry([...PLUGINS, asking]);
    const text = `${HEAD}plugins: [{type: asking-producer}]\n`;
    await warmUp(realClock, loadConfig(parseDocument(text, { file: "c.yaml" }), registry), { ours: registry });
    expect(asked).toBe(0);
    expect(produced).toBeGreaterThan(0);
  });

  it("shows no plugin of the user a request, and makes none: who counts or reports them must not see what never was", async () => {
    const seen: string[] = [];
    const counting = defineRequestHook({
      type: "counting-hook",
      describe: "Counts.",
      create: () => {
        seen.push("made");
        return { responseComplete: () => void seen.push("called") };
      },
    });
    const registry = new PluginRegistry([...PLUGINS, counting]);
    const text = `${HEAD}plugins: [{type: counting-hook}]\n`;
    await warmUp(realClock, loadConfig(parseDocument(text, { file: "c.yaml" }), registry));
    expect(seen).toEqual([]);
  });
});
