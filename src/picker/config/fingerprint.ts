import { createHash } from "node:crypto";
import { type ConfiguredPlugin, type EffectiveConfig, policiesOf, queueingMeaning } from "./effective.ts";
import { currentType } from "./published.ts";

/** Characters of a fingerprint: 48 bits, enough to distinguish the configurations of a pool. */
const LENGTH = 12;

/**
 * Returns a short name for the effect of a configuration: 12 hexadecimal characters of a SHA-256. Comments, layout, the order
 * of keys, older names, explicit defaults and plugins without effect do not change it. Everything else does, with the modules
 * of the user's plugins; but the function does not read the imports of those modules.
 */
export function configFingerprint(config: EffectiveConfig): string {
  const { configured } = config;
  const described = (plugin: ConfiguredPlugin): unknown => [
    currentType(plugin.definition.type),
    plugin.name,
    plugin.parameters,
    ...(plugin.definition.code === undefined ? [] : [plugin.definition.code]),
  ];
  const used: readonly ConfiguredPlugin[] = [
    config.handler,
    ...config.headerProcessors,
    ...config.screeners,
    ...config.admitters,
    ...config.producers,
    config.detector,
    ...policiesOf(config),
    ...(config.discovery === undefined ? [] : [config.discovery]),
    ...config.parsers,
    ...config.hooks,
    ...config.profiles.flatMap(({ plugins }) => plugins),
    ...config.dataSources.flatMap(({ source, extractors }) => [source, ...extractors]),
  ];
  // The loop extends the list that it reads: a plugin in it may refer to further ones.
  const referred: ConfiguredPlugin[] = [];
  const all = [...used];
  for (const { definition, parameters } of all)
    for (const { name } of definition.references?.(parameters) ?? []) {
      const other = configured.find((plugin) => plugin.name === name);
      if (other === undefined || referred.includes(other)) continue;
      referred.push(other);
      all.push(other);
    }
  const meaning = [
    config.profiles.map(({ name, plugins }) => [
      name,
      plugins.map((plugin) => [described(plugin), plugin.definition.kind === "scorer" ? plugin.weight : 0]),
    ]),
    described(config.handler),
    [config.headerProcessors, config.screeners, config.admitters, config.producers, config.parsers, config.hooks].map(
      (plugins) => plugins.map(described),
    ),
    described(config.detector),
    config.discovery === undefined ? null : described(config.discovery),
    config.dataSources.map(({ source, extractors }) => [described(source), extractors.map(described)]),
    referred.map(described),
    // For a file that says nothing of flow control the list is as long as before there was any: fingerprints in records stay
    // valid.
    ...queueingMeaning(config, described),
  ];
  return createHash("sha256").update(canonical(meaning)).digest("hex").slice(0, LENGTH);
}

/** Returns JSON with keys in order. Values that JSON lacks are spelt out, so that no two values give the same text. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (value instanceof Map || value instanceof Set) return `${value.constructor.name}${canonical([...value])}`;
  if (value instanceof RegExp) return String(value);
  if (typeof value !== "object" || value === null)
    return typeof value === "string" ? JSON.stringify(value) : String(value);
  const entries = Object.entries(value).filter(([, part]) => part !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, part]) => `${JSON.stringify(key)}:${canonical(part)}`).join()}}`;
}
