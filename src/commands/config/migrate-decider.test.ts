import { describe, expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { explainConfig } from "../../picker/config/explain.ts";
import { type LoadedConfig, loadDetailed } from "../../picker/config/load.ts";
import { migrateText } from "../../picker/config/migrate-text.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";

const load = (text: string): LoadedConfig => loadDetailed(parseDocument(text, { file: "c" }), PLUGIN_REGISTRY);

/** Both stages, with a handler on lines 5 and 6. */
const STAGES = (handler: string, more = "") => `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: pd-profile-handler
${handler === "" ? "" : `  parameters: ${handler}\n`}${more}schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: queue-scorer}]
- name: decode
  plugins: [{pluginRef: queue-scorer}]
`;

/** Type, name and parameters of the decider that the handler names. */
function deciderOf({ config, table }: LoadedConfig): unknown[] {
  const { deciderPluginName } = config.handler.parameters as { readonly deciderPluginName: string };
  const { definition, name, parameters } = table.get(deciderPluginName)!;
  return [definition.type, name, parameters];
}

describe("pd-profile-handler of releases that had no deciders", () => {
  it("is asked for a stage of its own from so many tokens on: a threshold counted characters", () => {
    for (const [threshold, nonCachedTokens] of [
      [1, 1],
      [90, 23],
      [4096, 1024],
    ]) {
      const decider = deciderOf(load(STAGES(`{threshold: ${threshold}, hashBlockSize: 64}`)));
      expect(decider).toMatchObject(["prefix-based-pd-decider", "prefix-based-pd-decider", { nonCachedTokens }]);
    }
    expect(load(STAGES("{threshold: 90, hashBlockSize: 64}")).config.warnings).toEqual([
      "c:6:31: hashBlockSize is deprecated and has no effect: the producer of prefix matches knows its block size; remove it",
      'c:6:16: threshold is deprecated; add the entry {"type":"prefix-based-pd-decider","parameters":{"nonCachedTokens":23}} to plugins and write deciderPluginName: prefix-based-pd-decider instead',
      "c:5:3: plugin type pd-profile-handler is deprecated; write disagg-profile-handler, with the decider in deciders.prefill",
    ]);
  });

  it("has both stages for every request without a threshold, and with one of 0", () => {
    const always = ["always-disagg-pd-decider", "always-disagg-pd-decider", {}];
    expect(deciderOf(load(STAGES("{threshold: 0}")))).toEqual(always);
    expect(deciderOf(load(STAGES("{prefillProfile: prefill}")))).toEqual(always);
    expect(deciderOf(load(STAGES("{threshold: null, deciderPluginName: null}")))).toEqual(always);
    const silent = load(STAGES(""));
    expect(deciderOf(silent)).toEqual(always);
    expect(silent.config.warnings[0]).toBe(
      'c:5:3: pd-profile-handler without a decider is deprecated; add the entry {"type":"always-disagg-pd-decider"} to plugins and write deciderPluginName: always-disagg-pd-decider instead',
    );
  });

  it("takes the decider that the file has, and passes over a threshold beside one", () => {
    const own = load(STAGES("{threshold: 0}", "- {name: yes, type: always-disagg-pd-decider}\n"));
    expect(deciderOf(own)).toEqual(["always-disagg-pd-decider", "yes", {}]);
    expect(own.config.configured.filter(({ definition }) => definition.kind === "decider")).toHaveLength(1);
    const usual = "- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 8}}\n";
    for (const parameters of ["{threshold: 400}", "{threshold: 0.5}", "{hashBlockSize: 5}"])
      expect(deciderOf(load(STAGES(parameters, usual)))).toMatchObject([
        "prefix-based-pd-decider",
        "prefix-based-pd-decider",
        { nonCachedTokens: 8 },
      ]);
    const named = load(
      STAGES("{threshold: 9, deciderPluginName: yes}", "- {name: yes, type: always-disagg-pd-decider}\n"),
    );
    expect(deciderOf(named)).toEqual(["always-disagg-pd-decider", "yes", {}]);
    expect(named.config.warnings[0]).toBe(
      "c:6:16: threshold is deprecated and has no effect: the decider replaces it; remove it",
    );
  });

  it("gives the decider a name that is free", () => {
    const taken = "- {name: always-disagg-pd-decider, type: round-robin-picker}\n";
    expect(deciderOf(load(STAGES("{threshold: 0}", taken)))).toEqual([
      "always-disagg-pd-decider",
      "always-disagg-pd-decider-2",
      {},
    ]);
  });

  it("does not guess at a decider that is named and not there", () => {
    expect(() => load(STAGES("{threshold: 5, deciderPluginName: gone}"))).toThrow(
      "c:6:30: plugins[1].parameters.deciderPluginName: plugin pd-profile-handler has a dependency on the unregistered plugin gone",
    );
  });

  it.each(["-1", "2.5", "often"])("refuses the threshold %s at its place", (threshold) => {
    expect(() => load(STAGES(`{threshold: ${threshold}}`))).toThrow(
      /c:6:16: plugins\[1\]\.parameters\.threshold: must be a whole number of characters, 0 or more, got /,
    );
  });

  it("is rewritten where it stands, and what comes of it is explained", () => {
    const text = STAGES("{decodeProfile: decode, threshold: 90} # short ones stay");
    expect(migrateText(text, PLUGIN_REGISTRY, { file: "c" }).text).toBe(
      STAGES(
        "{decodeProfile: decode, deciderPluginName: prefix-based-pd-decider} # short ones stay",
        "- type: prefix-based-pd-decider\n  parameters:\n    nonCachedTokens: 23\n",
      ),
    );
    expect(migrateText(STAGES(""), PLUGIN_REGISTRY, { file: "c" }).text).toBe(
      STAGES("\n    deciderPluginName: always-disagg-pd-decider", "- type: always-disagg-pd-decider\n").replace(
        "parameters: \n",
        "parameters:\n",
      ),
    );
    const { config, origins } = explainConfig(load(text), []);
    const plugins = config["plugins"] as { readonly type: string }[];
    const at = plugins.findIndex(({ type }) => type === "prefix-based-pd-decider");
    expect(origins).toMatchObject({
      "plugins[1].parameters.deciderPluginName": "migrated from line 6, threshold",
      [`plugins[${at}].type`]: "migrated from line 5",
      [`plugins[${at}].parameters.nonCachedTokens`]: "migrated from line 6, threshold",
    });
  });
});
