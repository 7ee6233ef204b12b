import { describe, expect, it } from "vitest";
import { HEAD, load, members, problemsOf } from "../../../test/support/config/fakes.cases.ts";
import { effectiveSummary } from "./effective.ts";

const TWO = `schedulingProfiles:
- name: chat
  plugins: [{pluginRef: queue-scorer, weight: 2}, {pluginRef: round-robin-picker}]
- name: background
  plugins: [{pluginRef: label-selector-filter}, {pluginRef: queue-scorer}]
`;
const PLUGINS = `plugins:
- {name: by-class, type: header-profile-handler, parameters: {defaultProfile: chat}}
- type: queue-scorer
- type: label-selector-filter
- type: round-robin-picker
- type: max-score-picker
`;

describe("several profiles (scheduling 4.3, S-61)", () => {
  it("are all read, each with a picker, in the order of the file", () => {
    const config = load(HEAD + PLUGINS + TWO);
    expect(config.profiles.map(({ name }) => name)).toEqual(["chat", "background"]);
    expect(members(config)).toEqual([
      ["queue-scorer", "queue-scorer", 2],
      ["round-robin-picker", "round-robin-picker", 1],
    ]);
    // The first picker that is configured, not the one of the other profile.
    expect(members(config, 1)).toEqual([
      ["label-selector-filter", "label-selector-filter", 1],
      ["queue-scorer", "queue-scorer", 1],
      ["round-robin-picker", "round-robin-picker", 1],
    ]);
    expect(config.handler).toMatchObject({ name: "by-class", parameters: { defaultProfile: "chat" } });
    expect(config.warnings).toEqual(["c.yaml:8:3: plugin max-score-picker has no effect: no profile uses it"]);
  });

  it("a weight of 0 stays 0: it switches the scorer off", () => {
    const off = load(HEAD + PLUGINS + TWO.replace("weight: 2", "weight: 0"));
    expect(members(off)[0]).toEqual(["queue-scorer", "queue-scorer", 0]);
  });

  it("need a handler that copes with them; one gets the usual one", () => {
    expect(
      problemsOf(`${HEAD}plugins: [{type: queue-scorer}, {type: label-selector-filter}, {type: round-robin-picker}]
${TWO}`),
    ).toEqual([
      expect.stringMatching(
        /^c\.yaml:7:3: schedulingProfiles\[1\]: no profile handler configured, .*, or keep one profile$/,
      ),
    ]);
    const one = load(`${HEAD}plugins: [{type: queue-scorer}]`);
    expect([one.handler.name, one.handler.definition.kind]).toEqual(["single-profile-handler", "profile-handler"]);
    const named = load(`${HEAD}plugins: [{type: queue-scorer}, {type: single-profile-handler, name: mine}]`);
    expect(named.handler.name).toBe("mine");
  });

  it("reports parameters that name a missing profile", () => {
    const handler = "{name: h, type: header-profile-handler, parameters: {defaultProfile: chatt}}";
    expect(load(HEAD + PLUGINS.replace(/- \{name: by-class.*/, `- ${handler}`) + TWO).warnings).toContain(
      "c.yaml:4:56: plugin h names the profile chatt, which does not exist; did you mean `chat`?",
    );
    const stages = "{type: stage-handler, parameters: {profiles: {decode: answering}}}";
    expect(load(HEAD + PLUGINS.replace(/- \{name: by-class.*/, `- ${stages}`) + TWO).warnings).toContain(
      "c.yaml:4:49: plugin stage-handler names the profile answering, which does not exist; the profiles are chat, background",
    );
  });

  it("bring the handler's companions along, unless those are configured", () => {
    const text = HEAD + PLUGINS.replace(/- \{name: by-class.*/, "- type: stage-handler") + TWO;
    expect(load(text).hooks.map(({ name }) => name)).toEqual(["stage-hook"]);
  });

  it("fit one log line", () => {
    const text = `${HEAD}${PLUGINS}- type: agent-identity
- type: revision-screener
- {name: turn-away, type: probabilistic-admitter}
${TWO}`;
    expect(effectiveSummary(load(text))).toEqual({
      source: "c.yaml",
      profiles: [
        { profile: "chat", filters: [], scorers: ["queue-scorer x 2"], picker: "round-robin-picker" },
        {
          profile: "background",
          filters: ["label-selector-filter"],
          scorers: ["queue-scorer x 1"],
          picker: "round-robin-picker",
        },
      ],
      handler: "by-class (header-profile-handler)",
      producers: [],
      saturationDetector: "utilization-detector",
      headerProcessors: ["agent-identity"],
      screeners: ["revision-screener"],
      admitters: ["turn-away (probabilistic-admitter)"],
      metrics: ["metrics-data-source read by core-metrics-extractor"],
    });
  });
});

describe("plugins that work by being configured", () => {
  it("are there in the order of the file, whatever profiles say", () => {
    const config = load(`${HEAD}plugins:
- {name: z, type: probabilistic-admitter}
- {name: a, type: probabilistic-admitter}
- type: revision-screener
- type: agent-identity
- type: queue-scorer
- {name: d, type: prefix-decider}
`);
    const names = (plugins: readonly { readonly name: string }[]) => plugins.map(({ name }) => name);
    expect(names(config.admitters)).toEqual(["z", "a"]);
    expect(names(config.screeners)).toEqual(["revision-screener"]);
    expect(names(config.headerProcessors)).toEqual(["agent-identity"]);
    expect(names(config.configured)).toEqual(["z", "a", "revision-screener", "agent-identity", "queue-scorer", "d"]);
    expect(config.warnings).toEqual([
      "c.yaml:9:3: plugin d has no effect: name it in the parameters of the profile handler",
    ]);
  });

  it("stand in a profile in vain, as in published configurations", () => {
    const kinds = [
      ["inflight-load-producer", "a producer needs no place in a profile"],
      ["revision-screener", "a screener needs no place in a profile"],
      ["probabilistic-admitter", "an admitter needs no place in a profile"],
      ["agent-identity", "it needs no place in a profile"],
      ["single-profile-handler", "a profile handler needs no place in a profile"],
      ["prefix-decider", "name it in the parameters of the profile handler"],
      ["metrics-data-source", "name it in dataLayer.sources"],
      ["core-metrics-extractor", "name it in dataLayer.sources, among the extractors of a source"],
      ["edf-ordering-policy", "name it in flowControl"],
      ["round-robin-fairness-policy", "name it in flowControl"],
      ["static-usage-limit-policy", "name it in flowControl"],
    ] as const;
    const config = load(`${HEAD}plugins:
- type: queue-scorer
${kinds.map(([type]) => `- type: ${type}\n`).join("")}schedulingProfiles:
- name: p
  plugins:
  - pluginRef: queue-scorer
${kinds.map(([type]) => `  - pluginRef: ${type}\n`).join("")}`);
    expect(members(config).map((member) => (member as unknown[])[0])).toEqual(["queue-scorer", "max-score-picker"]);
    const warnings = config.warnings.filter((warning) => warning.includes("schedulingProfiles[p]"));
    expect(warnings).toEqual(
      kinds.map(
        ([type, remedy], at) =>
          `c.yaml:${20 + at}:5: schedulingProfiles[p] lists ${type}, which has no effect here: ${remedy}`,
      ),
    );
  });
});
