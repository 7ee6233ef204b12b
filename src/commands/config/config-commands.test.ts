import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { afterEach, describe, expect, it } from "vitest";
import type { Output } from "../common/command.ts";
import { explainConfigCommand, migrateConfigCommand, validateCommand } from "./command.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "sluice-config-"));
const file = (name: string, text: string): string => {
  writeFileSync(join(FOLDER, name), text);
  return join(FOLDER, name);
};
const GOOD = file(
  "good.yaml",
  `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: prefix-cache-scorer
schedulingProfiles:
- name: main
  plugins:
  - {pluginRef: queue-scorer, weight: 1.5}
  - {pluginRef: prefix-cache-scorer}
`,
);
const OLD_TEXT = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: queue-scorer}]
`;
const OLD = file("old.yaml", OLD_TEXT);
const BAD = file("bad.yaml", "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugin: []\n");

type Make = (output: Output, stdin: AsyncIterable<Uint8Array>) => Command;

async function run(make: Make, args: readonly string[], input: readonly Uint8Array[] = []) {
  let [out, err] = ["", ""];
  async function* stdin(): AsyncGenerator<Uint8Array> {
    yield* input;
  }
  const output = {
    out: (text: string) => {
      out += text;
    },
    err: (text: string) => {
      err += text;
    },
  };
  await make(output, stdin()).parseAsync([...args], { from: "user" });
  return { out, err, code: process.exitCode ?? 0 };
}

/** The line below a message: the code and its place in the docs. */
const below = (code: string) => `  ${code}: docs/reference/errors.md#${code.toLowerCase()}\n`;

afterEach(() => {
  process.exitCode = undefined;
});

describe("sluice validate", () => {
  it("says ok, and in a line what the file amounts to (S-60, S-61, S-67)", async () => {
    expect(await run(validateCommand, [GOOD])).toEqual({
      out: `${GOOD}: ok\n  llm-d.ai/v1alpha1; profile main: queue-scorer x 1.5, prefix-cache-scorer x 1, max-score-picker; 2 plugins, 6 more made automatically: max-score-picker, single-profile-handler, approx-prefix-cache-producer, utilization-detector, metrics-data-source, core-metrics-extractor\n`,
      err: "",
      code: 0,
    });
  });

  it("takes several files, prints the faults of each with its code, and ends with 1 if one is refused", async () => {
    const { out, err, code } = await run(validateCommand, [BAD, GOOD, join(FOLDER, "none.yaml")]);
    expect(out).toMatch(/^\S+good\.yaml: ok\n {2}.*\n$/);
    expect(err).toBe(
      `invalid EndpointPickerConfig: ${BAD}:3:1: plugin: unknown key \`plugin\`; did you mean \`plugins\`?
${below("DOCUMENT_INVALID")}${join(FOLDER, "none.yaml")} does not exist
${below("DOCUMENT_MISSING")}`,
    );
    expect(code).toBe(1);
  });

  it("lists all mistakes of a file at once: keys, references, modules that fail", async () => {
    file("thrower.mjs", 'throw new Error("no luck");\n');
    const mistaken = file(
      "mistaken.yaml",
      `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: mine, module: ./thrower.mjs}
- {type: queue-scorer, colour: red}
schedulingProfiles:
- name: p
  plugins: [{pluginRef: mine}, {pluginRef: queue-scorer}, {pluginRef: ghost}]
`,
    );
    const { err, code } = await run(validateCommand, [mistaken]);
    expect(err).toBe(`invalid EndpointPickerConfig, 3 problems:
  ${mistaken}:4:16: plugins[0].module: ./thrower.mjs cannot be loaded: no luck
  ${mistaken}:5:24: plugins[1].colour: unknown key \`colour\`
  ${mistaken}:8:60: schedulingProfiles[0].plugins[2].pluginRef: schedulingProfiles[p] references undefined plugin ghost
${below("DOCUMENT_INVALID")}`);
    expect(code).toBe(1);
  });

  it("lists all plugins that cannot be created", async () => {
    const own = file(
      "failing.ts",
      `import { defineScorer } from ${JSON.stringify(join(import.meta.dirname, "../../base/plugin/index.ts"))};
const failing = (type: string) => defineScorer({ type, describe: "", create: () => { throw new Error(type + " fails"); } });
export const [one, two] = [failing("one"), failing("two")];
`,
    );
    const both = file(
      "both.yaml",
      `apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- {type: one, module: ${own}}\n- {type: two, module: ${own}}\n`,
    );
    const { err } = await run(validateCommand, [both]);
    expect(err.match(/(one|two) fails/g)).toEqual(["one fails", "two fails"]);
  });

  it("warns of what is deprecated, which --strict refuses", async () => {
    const warning = `${OLD}:1:1: apiVersion inference.networking.x-k8s.io/v1alpha1 is deprecated; write llm-d.ai/v1alpha1\n`;
    const lenient = await run(validateCommand, [OLD]);
    expect(lenient.err).toBe(`warning: ${warning}`);
    expect(lenient.out).toContain(
      `${OLD}: ok\n  inference.networking.x-k8s.io/v1alpha1; profile default: queue-scorer x 1`,
    );
    expect(lenient.code).toBe(0);
    expect(await run(validateCommand, ["--strict", OLD])).toEqual({
      out: "",
      err: `error: ${warning}${OLD} is refused: --strict treats warnings as errors\n`,
      code: 1,
    });
  });

  it("reads standard input, up to a limit", async () => {
    const pieces = [Buffer.from(OLD_TEXT.slice(0, 9)), Buffer.from(OLD_TEXT.slice(9))];
    expect((await run(validateCommand, ["-"], pieces)).out).toMatch(/^stdin: ok\n/);
    const large = await run(validateCommand, ["-"], Array(3).fill(Buffer.alloc(512 * 1024, " ")));
    expect([large.err, large.code]).toEqual([
      `stdin is larger than 1048576 bytes, the limit for this kind of file\n${below("DOCUMENT_TOO_BIG")}`,
      1,
    ]);
    process.exitCode = undefined;
    expect((await run(validateCommand, ["-"], [Buffer.from([0xff, 0xfe])])).err).toBe(
      `stdin is not UTF-8 text; save it as UTF-8\n${below("DOCUMENT_ENCODING")}`,
    );
  });

  it("prints the JSON Schema for editors, with each plugin's parameters", async () => {
    const schema = JSON.parse((await run(validateCommand, ["--schema"])).out);
    expect(schema.$schema).toBe("https://json-schema.org/draft/2020-12/schema");
    const { then } = schema.properties.plugins.items.allOf.find(
      (one: { if: { properties: { type: { const: string } } } }) =>
        one.if.properties.type.const === "utilization-detector",
    );
    expect(then.properties.parameters.anyOf[0].properties.metricsStalenessThreshold).toMatchObject({
      type: "string",
      default: "200ms",
    });
  });

  it("ends without an error when the reader closes the pipe early", async () => {
    const child = spawn(process.execPath, [join(import.meta.dirname, "../main.ts"), "validate", "--schema"]);
    child.stdout.destroy();
    let err = "";
    child.stderr.on("data", (part) => {
      err += part;
    });
    const [code] = await once(child, "close");
    expect([code, err]).toEqual([0, ""]);
  });

  it("refuses a command line without a file", async () => {
    await expect(run(validateCommand, [])).rejects.toThrow(
      "give the files to check, - for standard input, or --schema",
    );
  });
});

describe("sluice explain-config", () => {
  it("spells the configuration out and says where each value comes from", async () => {
    expect((await run(explainConfigCommand, [GOOD])).out).toBe(`# The effective configuration of ${GOOD}.
# Scorers by weight: queue-scorer 1.5 (60%), prefix-cache-scorer 1 (40%).
# Producers in the order in which they run: approx-prefix-cache-producer.
# prefix-cache-scorer reads what approx-prefix-cache-producer writes.
# Made automatically: max-score-picker, single-profile-handler, approx-prefix-cache-producer, utilization-detector, metrics-data-source, core-metrics-extractor.
# Flow control: off, but on with fair shares of tokens while InferenceModels of a v1alpha2 pool exist. The feature gate flowControl overrides this.
# Parsers: the default parsers.
apiVersion: llm-d.ai/v1alpha1 # line 1
kind: EndpointPickerConfig # line 2
plugins:
  - name: queue-scorer # default: the type
    type: queue-scorer # line 4
  - name: prefix-cache-scorer # default: the type
    type: prefix-cache-scorer # line 5
    parameters:
      matchLengthWeight: 0 # default
      matchLengthScaleTokens: 8192 # default
      prefixMatchInfoProducerName: "" # default
  - name: max-score-picker # default: the type
    type: max-score-picker # made automatically: the profile has no picker
    parameters:
      maxNumOfEndpoints: 1 # default
  - name: single-profile-handler # default: the type
    type: single-profile-handler # made automatically: one profile needs no other handler
  - name: approx-prefix-cache-producer # default: the type
    type: approx-prefix-cache-producer # made automatically: prefix-cache-scorer reads prefix-matched-blocks
    parameters:
      autoTune: true # default
      blockSizeTokens: 16 # default
      maxPrefixBlocksToMatch: 2048 # default
      maxPrefixTokensToMatch: 131072 # default
      lruCapacityPerServer: 31250 # default
      learnFromAnswers: true # default
  - name: utilization-detector # default: the type
    type: utilization-detector # made automatically: there is always a saturation detector
    parameters:
      queueDepthThreshold: 5 # default
      kvCacheUtilThreshold: 0.8 # default
      metricsStalenessThreshold: 200ms # default
      headroom: 0 # default
  - name: metrics-data-source # default: the type
    type: metrics-data-source # made automatically: metrics are collected unless dataLayer.injectDefaults is false
    parameters:
      scheme: http # default
      path: /metrics # default
      insecureSkipVerify: true # default
      caCertPath: "" # default
      clientCertPath: "" # default
      clientKeyPath: "" # default
  - name: core-metrics-extractor # default: the type
    type: core-metrics-extractor # made automatically: metrics are collected unless dataLayer.injectDefaults is false
    parameters:
      engineLabelKey: llm-d.ai/engine-type # default
      defaultEngine: vllm # default
      engineConfigs: [] # default
schedulingProfiles:
  - name: main # line 7
    plugins:
      - pluginRef: queue-scorer # line 9
        weight: 1.5 # line 9
      - pluginRef: prefix-cache-scorer # line 10
        weight: 1 # default
      - pluginRef: max-score-picker # default picker
flowControl:
  saturationDetector:
    pluginRef: utilization-detector # default
dataLayer:
  sources:
    - pluginRef: metrics-data-source # default
      extractors:
        - pluginRef: core-metrics-extractor # default
`);
  });

  it("is JSON on request", async () => {
    const explained = JSON.parse((await run(explainConfigCommand, ["--json", GOOD])).out);
    expect(explained).toMatchObject({
      source: GOOD,
      config: { schedulingProfiles: [{ name: "main" }] },
      producers: ["approx-prefix-cache-producer"],
      weights: [
        { profile: "main", name: "queue-scorer", weight: 1.5, share: 0.6 },
        { profile: "main", name: "prefix-cache-scorer", weight: 1, share: 0.4 },
      ],
      reads: [{ plugin: "prefix-cache-scorer", producers: ["approx-prefix-cache-producer"] }],
      warnings: [],
    });
    expect(explained.origins["schedulingProfiles[0].plugins[0].weight"]).toBe("line 9");
    expect(explained.automatic[2]).toEqual({
      name: "approx-prefix-cache-producer",
      type: "approx-prefix-cache-producer",
      because: "prefix-cache-scorer reads prefix-matched-blocks",
    });
  });

  it("says where a file without a profile takes it from", async () => {
    const bare = file("bare.yaml", "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n");
    const { out } = await run(explainConfigCommand, [bare]);
    expect(out).toContain("type: queue-scorer # made automatically: the file has no scheduling section\n");
    expect(out).toContain("weight: 3 # default profile\n");
  });

  it("tells of several profiles, what each reads, and the file that defines a type", async () => {
    file(
      "mine.ts",
      `import { defineScorer } from ${JSON.stringify(join(import.meta.dirname, "../../base/plugin/index.ts"))};
export default defineScorer({ type: "mine", describe: "Likes all.", create: () => ({ score() {} }) });
`,
    );
    const text = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: mine, module: ./mine.ts}
- {name: index, type: approx-prefix-cache-producer}
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: index}}
- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 64}}
- {type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: mine}]}
- {name: decode, plugins: [{pluginRef: mine}, {pluginRef: prefix-cache-scorer, weight: 3}]}
dataLayer: {injectDefaults: false}
`;
    const staged = file("staged.yaml", text);
    const { out } = await run(explainConfigCommand, [staged]);
    expect(out.split("\n").slice(0, 9)).toEqual([
      `# The effective configuration of ${staged}.`,
      "# Scorers of prefill by weight: mine 1 (100%).",
      "# Scorers of decode by weight: mine 1 (25%), prefix-cache-scorer 3 (75%).",
      "# Producers in the order in which they run: index.",
      "# prefix-cache-scorer reads what index writes.",
      "# prefix-based-pd-decider reads what index writes.",
      "# Made automatically: max-score-picker, disagg-headers-handler, utilization-detector.",
      "# Flow control: off, but on with fair shares of tokens while InferenceModels of a v1alpha2 pool exist. The feature gate flowControl overrides this.",
      "# Parsers: the default parsers.",
    ]);
    expect(out).toContain("    type: mine # line 4\n    module: ./mine.ts # line 4\n");
    expect(out).toContain("dataLayer:\n  injectDefaults: false # line 12\n");
    expect((await run(validateCommand, [staged])).out).toContain(
      "; profile prefill: mine x 1, max-score-picker; profile decode: mine x 1, prefix-cache-scorer x 3, max-score-picker; handler disagg-profile-handler; 5 plugins, ",
    );
    // It has the newest form, and its modules are known to migrate-config, too.
    expect((await run(migrateConfigCommand, [staged])).out).toBe(text);
    const old = file("old-staged.yaml", text.replace("llm-d.ai", "inference.networking.x-k8s.io"));
    expect((await run(migrateConfigCommand, [old])).out).toBe(text);
  });

  it("tells what is wrong instead", async () => {
    await expect(run(explainConfigCommand, [BAD])).rejects.toThrow("unknown key `plugin`");
  });
});

describe("sluice migrate-config", () => {
  it("prints the newest form, and what is in it already as it is", async () => {
    const { out, err } = await run(migrateConfigCommand, [OLD]);
    expect(out).toBe(OLD_TEXT.replace("inference.networking.x-k8s.io", "llm-d.ai"));
    expect(err).toBe("");
    expect((await run(migrateConfigCommand, ["-"], [Buffer.from(out)])).out).toBe(out);
  });

  it("leaves alone what doesn't load", async () => {
    await expect(run(migrateConfigCommand, [BAD])).rejects.toThrow("did you mean `plugins`?");
  });
});
