import type { Clock } from "../clock/clock.ts";
import type { Random } from "../clock/random.ts";
import { SluiceError } from "../inference/errors.ts";
import type { ColumnKey } from "../plugin/keys.ts";
import type { Filter, Picker, PluginDefinition, Producer, Scorer } from "../plugin/kinds.ts";
import type { PluginRegistry } from "../plugin/registry.ts";
import { maxScorePicker } from "./plugins/pickers/max-score-picker.ts";
import type { Profile, ProfileMember, ProfileProducer, WeightedScorer } from "./profile.ts";

/** One plugin of a profile as the configuration describes it. */
export interface PluginDescription {
  readonly definition: PluginDefinition;
  /** Instance name, unique in the profile. */
  readonly name: string;
  /** What the definition's schema has returned. */
  readonly parameters: unknown;
  /** Of a scorer: finite, from 0 up; default 1. */
  readonly weight?: number | undefined;
}

export interface BuildOptions {
  /** Name of the profile; default `default`. */
  readonly name?: string;
  /** What the profile names, and every configured producer, in configuration order. */
  readonly plugins: readonly PluginDescription[];
  /** Where producers that nobody named come from. */
  readonly registry: PluginRegistry;
  readonly clock: Clock;
  readonly random: Random;
}

/** Parameters by which a plugin chooses among instances of a producer (scheduling 3.4). */
const PRODUCER_NAME_PARAMETERS = ["prefixMatchInfoProducerName", "inFlightLoadProducerName"] as const;

/**
 * Makes the instances of a profile. A column that a plugin requires and nobody writes gets its default producer, until
 * nothing is missing (scheduling 3.4); a profile without a picker gets `max-score-picker`. Profile handlers are accepted
 * and do nothing: there is one profile.
 * @throws SluiceError PLUGIN_NAME_TAKEN, PICKER_TAKEN, WEIGHT_INVALID, PLUGIN_NOT_IN_PROFILE, PRODUCER_MISSING,
 *   PRODUCER_UNKNOWN, COLUMN_TAKEN, PRODUCER_CYCLE
 */
export function buildProfile(options: BuildOptions): Profile {
  const plugins = withDefaultProducers(options.plugins, options.registry);
  checkNames(plugins);
  const filters: ProfileMember<Filter>[] = [];
  const scorers: WeightedScorer[] = [];
  let picker: ProfileMember<Picker> | undefined;
  const { clock, random } = options;
  const make = (plugin: PluginDescription): unknown =>
    plugin.definition.create(plugin.parameters, { name: plugin.name, clock, random });
  const producers = inOrder(plugins.filter(({ definition }) => definition.kind === "producer")).map(
    (description): ProfileProducer => ({
      name: description.name,
      type: description.definition.type,
      plugin: make(description) as Producer,
      produces: description.definition.produces,
    }),
  );
  for (const description of plugins) {
    const { definition, name } = description;
    const { kind, type } = definition;
    if (kind === "filter") filters.push({ name, type, plugin: make(description) as Filter });
    else if (kind === "scorer")
      scorers.push({ name, type, plugin: make(description) as Scorer, weight: weightOf(description) });
    else if (kind === "picker") {
      if (picker !== undefined)
        throw new SluiceError(
          "PICKER_TAKEN",
          `already have a registered picker plugin: ${picker.name}; remove it or ${name} from the profile`,
        );
      picker = { name, type, plugin: make(description) as Picker };
    } else if (kind !== "producer" && kind !== "profile-handler")
      throw new SluiceError("PLUGIN_NOT_IN_PROFILE", `plugin ${name} is a ${kind} and cannot be part of a profile`);
  }
  picker ??= {
    name: maxScorePicker.type,
    type: maxScorePicker.type,
    plugin: make(described(maxScorePicker)) as Picker,
  };
  return { name: options.name ?? "default", filters, scorers, picker, producers };
}

/** A plugin with its type as name and all parameters at their defaults. */
export function described(definition: PluginDefinition, weight?: number): PluginDescription {
  return { definition, name: definition.type, parameters: definition.parameters.parse({}), weight };
}

function weightOf({ name, weight = 1 }: PluginDescription): number {
  if (Number.isFinite(weight) && weight >= 0) return weight;
  throw new SluiceError("WEIGHT_INVALID", `the weight of plugin ${name} must be a number from 0 up, not ${weight}`);
}

function withDefaultProducers(given: readonly PluginDescription[], registry: PluginRegistry): PluginDescription[] {
  const plugins = [...given];
  // The list grows while it is read: what was added may require more.
  for (const plugin of plugins) {
    for (const key of plugin.definition.requires) {
      if (writerOf(key, plugins) !== undefined) continue;
      const producer = registry.defaultProducer(key);
      if (producer === undefined)
        throw new SluiceError("PRODUCER_MISSING", `no producer for key ${key.name} required by plugin ${plugin.name}`);
      plugins.push(described(producer));
    }
  }
  return plugins;
}

function writerOf(key: ColumnKey, plugins: readonly PluginDescription[]): PluginDescription | undefined {
  return plugins.find(({ definition }) => definition.kind === "producer" && definition.produces.includes(key));
}

function checkNames(plugins: readonly PluginDescription[]): void {
  const producers = new Set<string>();
  const names = new Set<string>();
  const writers = new Map<ColumnKey, string>();
  for (const { definition, name } of plugins) {
    if (names.has(name)) throw new SluiceError("PLUGIN_NAME_TAKEN", `duplicate plugin name ${name}`);
    names.add(name);
    if (definition.kind !== "producer") continue;
    producers.add(name);
    for (const key of definition.produces) {
      const other = writers.get(key);
      if (other !== undefined)
        throw new SluiceError(
          "COLUMN_TAKEN",
          `the producers ${other} and ${name} both write ${key.name}; several instances are not supported yet`,
        );
      writers.set(key, name);
    }
  }
  for (const { name, parameters } of plugins) {
    for (const parameter of PRODUCER_NAME_PARAMETERS) {
      const wanted = (parameters as Partial<Record<string, unknown>> | undefined)?.[parameter];
      if (typeof wanted === "string" && wanted !== "" && !producers.has(wanted))
        throw new SluiceError(
          "PRODUCER_UNKNOWN",
          `plugin ${name} has a dependency on the unregistered plugin ${wanted} (${parameter}); the producers are ${[...producers].join(", ")}`,
        );
    }
  }
}

/** Producers behind those whose columns they read; otherwise in the order given. */
function inOrder(producers: readonly PluginDescription[]): PluginDescription[] {
  const done: PluginDescription[] = [];
  const open = new Set<PluginDescription>();
  const visit = (producer: PluginDescription): void => {
    if (done.includes(producer)) return;
    if (open.has(producer)) {
      const path = [...open].slice([...open].indexOf(producer));
      const names = [...path, producer].map(({ name }) => name).join(" -> ");
      throw new SluiceError("PRODUCER_CYCLE", `dependency cycle among producers: ${names}`);
    }
    open.add(producer);
    for (const key of [...producer.definition.requires, ...(producer.definition.optional ?? [])]) {
      const writer = writerOf(key, producers);
      if (writer !== undefined) visit(writer);
    }
    open.delete(producer);
    done.push(producer);
  };
  for (const producer of producers) visit(producer);
  return done;
}
