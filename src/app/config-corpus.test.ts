import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../clock/random.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { explainConfig } from "../config/explain.ts";
import { explainText } from "../config/explain-text.ts";
import { type LoadedConfig, loadDetailed } from "../config/load.ts";
import { currentType } from "../config/migrate.ts";
import { meaningOf, migrateText } from "../config/migrate-text.ts";
import { parseDocument } from "../document/parse.ts";
import { SluiceError } from "../inference/errors.ts";
import { buildProfile } from "../scheduling/build.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";

// Files as each release of the reference had them (scheduling 4.6, appendix C), in our words, and our own examples. What a file
// must do stands in its first comment.

const ROOT = join(import.meta.dirname, "..", "..");
const CORPUS = join(ROOT, "test", "corpus", "config");
const FILES = readdirSync(CORPUS).map((name) => ({ name, text: readFileSync(join(CORPUS, name), "utf8") }));
const EXAMPLES = ["config.yaml", "legacy-v0.3.yaml"].map((name) => ({
  name: `examples/${name}`,
  text: readFileSync(join(ROOT, "examples", name), "utf8"),
}));

const load = (text: string): LoadedConfig => loadDetailed(parseDocument(text, { file: "c" }), PLUGIN_REGISTRY);

function refusal(text: string): string | undefined {
  try {
    load(text);
    return undefined;
  } catch (error) {
    if (error instanceof SluiceError) return error.message;
    throw error;
  }
}

const expectationOf = (text: string) => /Expect: (.*)/.exec(text)?.[1] ?? "loads.";
const loading = [...FILES, ...EXAMPLES].filter(({ text }) => refusal(text) === undefined);

/** What runs with a configuration. */
function profileOf({ config }: LoadedConfig) {
  const plugins = [...config.profile.plugins, ...config.producers];
  const name = config.profile.name;
  return buildProfile({
    name,
    plugins,
    registry: PLUGIN_REGISTRY,
    clock: new VirtualClock(),
    random: new SeededRandom(1),
  });
}

function running(loaded: LoadedConfig): unknown {
  const { config } = loaded;
  const profile = profileOf(loaded);
  const parameters = new Map(
    [...config.profile.plugins, ...config.producers].map((plugin) => [plugin.name, plugin.parameters]),
  );
  const shown = ({ name, type }: { readonly name: string; readonly type: string }) => [
    name,
    currentType(type),
    parameters.get(name) ?? PLUGIN_REGISTRY.get(type)!.parameters.parse({}),
  ];
  return {
    name: profile.name,
    filters: profile.filters.map(shown),
    scorers: profile.scorers.map((scorer) => [...shown(scorer), scorer.weight]),
    picker: shown(profile.picker),
    producers: profile.producers.map(shown),
    detector: [config.detector.name, config.detector.definition.type, config.detector.parameters],
    discovery: config.discovery?.parameters,
    parsers: config.parsers.map(({ name, definition }) => [name, definition.type]),
    hooks: config.hooks.map(({ name, definition }) => [name, definition.type]),
  };
}

describe("configurations of every release (S-60, S-66, appendix C)", () => {
  it("are there", () => expect(FILES.length).toBeGreaterThan(20));

  it.each([...FILES, ...EXAMPLES].map((file) => [file.name, file.text] as const))("%s", (_name, text) => {
    const wanted = expectationOf(text);
    const problem = refusal(text);
    if (wanted === "loads.") expect(problem).toBeUndefined();
    else if (wanted === "not yet.") {
      // Until it is built: no other reason may be told.
      const [first = "", ...rest] = problem?.split("\n") ?? [];
      const problems = rest.length > 0 ? rest : problem === undefined ? [] : [first];
      for (const one of problems) expect(one).toMatch(/c:\d+:\d+: [\w.[\]]+: .*is not supported yet/);
    } else expect(problem).toBe(`invalid EndpointPickerConfig: c:${wanted.replace(/^refused /, "")}`);
  });
});

describe("the newest form of each", () => {
  it.each(loading.map((file) => [file.name, file.text] as const))("%s", (_name, text) => {
    const { text: newest, notes } = migrateText(text, PLUGIN_REGISTRY, { file: "c" });
    const after = load(newest);
    expect(running(after)).toEqual(running(load(text)));
    expect(meaningOf(after)).toBe(meaningOf(load(text)));
    // Nothing of it is deprecated any more but a filter that no other can replace, and nothing is left to do.
    expect(
      after.config.warnings.filter(
        (warning) => !/by-label is/.test(warning) && /deprecated|no effect: (there|metrics)|wins/.test(warning),
      ),
    ).toEqual([]);
    expect(after.envelope.apiVersion).toBe("llm-d.ai/v1alpha1");
    expect(migrateText(newest, PLUGIN_REGISTRY, { file: "c" }).text).toBe(newest);
    if (notes.length > 0 || text.startsWith("{")) return;
    const dropped = ["# not needed"];
    for (const [comment] of text.matchAll(/(?<=^|\s)#.*$/gm))
      if (!dropped.includes(comment)) expect(newest).toContain(comment);
  });

  it("keeps order, comments and style", () => {
    const text = readFileSync(join(CORPUS, "v1.5-parser.yaml"), "utf8");
    expect(
      migrateText(text, PLUGIN_REGISTRY, { file: "c" }).text,
    ).toBe(`# v1.5: one parser, a detector by reference, floating weights. Expect: loads.
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: openai-parser
- type: queue-scorer
- type: active-request-scorer
- name: roomy
  type: utilization-detector
  parameters: {queueDepthThreshold: 12, kvCacheUtilThreshold: 0.9}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 1.25}
  - {pluginRef: active-request-scorer, weight: 0.75}
# The one API we serve.
requestHandler:
  parsers:
  - pluginRef: openai-parser
flowControl:
  saturationDetector:
    pluginRef: roomy # for bursts
`);
  });

  it("is JSON where JSON was given", () => {
    const { text } = migrateText(readFileSync(join(CORPUS, "v1.5-config.json"), "utf8"), PLUGIN_REGISTRY, {
      file: "c",
    });
    expect(JSON.parse(text)).toEqual({
      apiVersion: "llm-d.ai/v1alpha1",
      kind: "EndpointPickerConfig",
      plugins: [
        { type: "queue-scorer" },
        { type: "prefix-cache-scorer" },
        { type: "passthrough-parser" },
        { type: "approx-prefix-cache-producer", parameters: { blockSizeTokens: 256 } },
      ],
      requestHandler: { parsers: [{ pluginRef: "passthrough-parser" }] },
    });
  });

  it("says that comments went with the aliases", () => {
    const text = readFileSync(join(CORPUS, "v1.5-anchors.yaml"), "utf8");
    expect(migrateText(text, PLUGIN_REGISTRY, { file: "c" }).notes).toEqual([
      "c: aliases were written out, and comments left away with them",
    ]);
  });
});

describe("the explanation of each", () => {
  it.each(loading.map((file) => [file.name, file.text] as const))("%s", (_name, text) => {
    const loaded = load(text);
    const producers = profileOf(loaded).producers.map(({ name, type }) => ({
      name,
      definition: loaded.table.get(name)?.definition ?? PLUGIN_REGISTRY.get(type)!,
    }));
    const explained = explainConfig(loaded, producers);
    const spelt = explainText(explained);
    // It is a configuration that means the same, with nothing left to add.
    const again = load(spelt);
    expect(running(again)).toEqual(running(loaded));
    const twice = explainConfig(again, producers);
    expect(twice.config).toEqual(explained.config);
    expect(twice.automatic).toEqual([]);
    expect(Object.values(twice.origins).filter((origin) => !origin.startsWith("line "))).toEqual([]);
    // Each value says where it comes from.
    const values = spelt.split("\n").filter((line) => /^[^#]*: [^#]/.test(line));
    expect(values.length).toBeGreaterThan(10);
    for (const line of values) expect(line).toMatch(/ # (line \d+|default|migrated|made automatically)/);
  });

  it("is right about lines: each value told to come from a line stands on it", () => {
    const text = readFileSync(join(CORPUS, "v1.0-prefix.yaml"), "utf8");
    const lines = text.split("\n");
    const { config, origins } = explainConfig(load(text), []);
    let seen = 0;
    for (const [path, origin] of Object.entries(origins)) {
      const line = /^line (\d+)$/.exec(origin);
      if (line === null) continue;
      let value: unknown = config;
      for (const step of path.match(/\w+/g)!) value = (value as Record<string, unknown>)[step];
      expect(lines[Number(line[1]) - 1]).toContain(String(value));
      seen++;
    }
    expect(seen).toBeGreaterThan(8);
  });
});
