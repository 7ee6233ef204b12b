import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { DEFAULT_CONFIG } from "../config/defaults.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { explainConfig } from "../config/explain.ts";
import { explainText } from "../config/explain-text.ts";
import { type LoadedConfig, loadDetailed } from "../config/load.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

const PAGE = readFileSync(new URL("../../../docs/use/precise-routing.md", import.meta.url), "utf8");

const load = (text: string): LoadedConfig => loadDetailed(parseDocument(text, { file: "c" }), PLUGIN_REGISTRY);

const profilesOf = ({ profiles }: EffectiveConfig): unknown =>
  profiles.map(({ name, plugins }) => [
    name,
    plugins.map(({ definition, parameters, weight }) => [definition.type, parameters, weight]),
  ]);

it("the configuration of the page on precise routing is the built-in profile, whose prefix scorer reads the events", () => {
  const block = /^ {3}```yaml\n(.*?)^ {3}```$/ms.exec(PAGE)![1]!;
  const loaded = load(block.replaceAll(/^ {3}/gm, ""));
  // Other weights cost more than the events bring: prefixes 3 and queues 1 are up to three times as slow as the profile without events.
  expect(profilesOf(loaded.config)).toEqual(profilesOf(load(DEFAULT_CONFIG).config));
  const producers = ["token-producer", "precise-prefix-cache-producer", "inflight-load-producer"];
  expect(explainText(explainConfig(loaded, producers))).toContain(
    "prefix-cache-scorer reads what precise-prefix-cache-producer writes",
  );
});
