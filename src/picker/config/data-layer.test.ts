import { describe, expect, it } from "vitest";
import { HEAD, load, problemsOf } from "../../../test/support/config/fakes.cases.ts";

const sources = (text: string): unknown[] =>
  load(HEAD + text).dataSources.map(({ source, extractors }) => [
    source.name,
    source.parameters,
    extractors.map(({ name, parameters }) => [name, parameters]),
  ]);
const USUAL = [["metrics-data-source", { path: "/metrics" }, [["core-metrics-extractor", { defaultEngine: "vllm" }]]]];
const TWO = `plugins:
- {name: stats, type: metrics-data-source, parameters: {path: /stats}}
- {name: ours, type: core-metrics-extractor, parameters: {defaultEngine: ours}}
`;

describe("where metrics come from (scheduling 4.2, 4.3)", () => {
  it("is the usual source unless one of its type is listed", () => {
    for (const text of ["", "dataLayer:\n", "dataLayer: {injectDefaults: true, sources: []}\n"])
      expect(sources(text)).toEqual(USUAL);
    const listed = `${TWO}dataLayer: {sources: [{pluginRef: stats, extractors: [{pluginRef: ours}]}]}\n`;
    expect(sources(listed)).toEqual([["stats", { path: "/stats" }, [["ours", { defaultEngine: "ours" }]]]]);
    expect(load(HEAD + listed).warnings).toEqual([]);
    // In v1.3 and v1.4 under its old name.
    expect(sources(listed.replace("dataLayer", "data"))).toEqual(sources(listed));
  });

  it("is the configured plugin of that name although no list names it", () => {
    const text = "plugins: [{type: metrics-data-source, parameters: {path: /m}}, {type: core-metrics-extractor}]\n";
    expect(sources(text)).toEqual([["metrics-data-source", { path: "/m" }, USUAL[0]![2]]]);
    expect(load(HEAD + text).warnings).toEqual([]);
    // Under another name it has to be listed, and a plugin of that name must be a source.
    expect(sources(TWO)).toEqual(USUAL);
    expect(load(HEAD + TWO).warnings).toEqual([
      "c.yaml:4:3: plugin stats has no effect: name it in dataLayer.sources",
      "c.yaml:5:3: plugin ours has no effect: name it in dataLayer.sources, among the extractors of a source",
    ]);
    expect(sources("plugins: [{type: queue-scorer, name: metrics-data-source}]\n")).toEqual(USUAL);
  });

  it("S-65: is absent with injectDefaults: false and no source, with a warning", () => {
    expect(sources("dataLayer: {injectDefaults: false}\n")).toEqual([]);
    expect(load(`${HEAD}dataLayer:\n  injectDefaults: false\n`).warnings).toEqual([
      "c.yaml:4:3: without a source, Sluice reads no metrics: all endpoints look alike, and utilization-detector counts all of them as saturated; list sources, or remove `injectDefaults`",
    ]);
    const listed = `${TWO}dataLayer: {injectDefaults: false, sources: [{pluginRef: stats, extractors: [{pluginRef: ours}]}]}`;
    expect(sources(listed)).toHaveLength(1);
    expect(load(HEAD + listed).warnings).toEqual([]);
  });

  it("warns of a source that no extractor reads", () => {
    const text = `${TWO}dataLayer: {sources: [{pluginRef: stats}]}\n`;
    expect(sources(text)).toEqual([["stats", { path: "/stats" }, []]]);
    expect(load(HEAD + text).warnings[0]).toBe(
      "c.yaml:6:23: no extractor reads the metrics of stats; give it extractors: [{pluginRef: core-metrics-extractor}]",
    );
  });

  it("may be several, each once and each read once", () => {
    const text = `${TWO}- {name: more, type: metrics-data-source}
- {name: other, type: core-metrics-extractor}
dataLayer:
  sources:
  - {pluginRef: stats, extractors: [{pluginRef: ours}]}
  - {pluginRef: more, extractors: [{pluginRef: other}]}
`;
    expect(sources(text)).toEqual([
      ["stats", { path: "/stats" }, [["ours", { defaultEngine: "ours" }]]],
      ["more", { path: "/metrics" }, [["other", { defaultEngine: "vllm" }]]],
    ]);
    const twice = `${text.replace("ours}]}", "ours}, {pluginRef: other}]}")}  - {pluginRef: stats}\n`;
    expect(problemsOf(HEAD + twice)).toEqual([
      "c.yaml:10:57: dataLayer.sources[0].extractors[1].pluginRef: stats already has an extractor of type core-metrics-extractor; keep one of the two",
      "c.yaml:12:6: dataLayer.sources[2].pluginRef: dataLayer.sources lists stats twice; keep one entry, with the extractors of both",
    ]);
  });

  it("has a bound", () => {
    const text = `dataLayer:\n  sources: [${"{pluginRef: x}, ".repeat(17)}]\n`;
    expect(problemsOf(HEAD + text)).toEqual(["c.yaml:4:3: dataLayer.sources: at most 16 sources can be listed"]);
  });
});
