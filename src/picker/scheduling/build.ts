import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { PRODUCER_NAME, writerFor } from "../../base/plugin/bindings.ts";
import { type PluginDescription, PluginInstances } from "../../base/plugin/instances.ts";
import {
  type AttributeKey,
  type ColumnKey,
  type DataKey,
  PREFIX_BLOCK_TOKENS,
  PREFIX_CACHED_BLOCKS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
  PREFIX_UNCONFIRMED_BLOCKS,
  UNCACHED_TOKENS,
} from "../../base/plugin/keys.ts";
import type { PluginDefinition, PluginKind, PluginKinds } from "../../base/plugin/kinds.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { maxScorePicker } from "./plugins/pickers.ts";
import { singleProfileHandler } from "./plugins/profile-handlers.ts";
import { inOrder, withDefaultProducers } from "./producers.ts";
import {
  type CachedAt,
  type DataScope,
  joinedScope,
  NO_WRITER,
  type Profile,
  type ProfileMember,
  type SchedulingPlan,
  type WeightedScorer,
  type WrittenAt,
} from "./profile.ts";

/** A filter, scorer or picker of a profile. */
export interface MemberDescription extends PluginDescription {
  /** Of a scorer: finite, from 0 up; default 1. */
  readonly weight?: number | undefined;
}

/** A profile of the configuration. */
export interface ProfileDescription {
  readonly name: string;
  /** Filters, scorers and at most one picker, in order. A profile without a picker gets `max-score-picker`. */
  readonly plugins: readonly MemberDescription[];
}

export interface PlanOptions {
  readonly profiles: readonly ProfileDescription[];
  /** Undefined, or a single-profile-handler: then the only profile runs. */
  readonly handler?: PluginDescription<"profile-handler"> | undefined;
  readonly screeners?: readonly PluginDescription<"screener">[];
  readonly admitters?: readonly PluginDescription<"admitter">[];
  /** Every configured producer, in configuration order. */
  readonly producers?: readonly PluginDescription<"producer">[];
  /** Plugins that others name, such as deciders. */
  readonly referable?: readonly PluginDescription[];
  /** The source of producers that the configuration does not name. */
  readonly registry: PluginRegistry;
  readonly instances: PluginInstances;
  readonly configHash?: string;
}

/**
 * Creates the instances of a configuration. Adds the default producer for each required key that no producer writes, until no
 * key is missing (scheduling 3.4).
 * @throws SluiceError PROFILES_MISSING, PLUGIN_NAME_TAKEN, PICKER_TAKEN, WEIGHT_INVALID, PLUGIN_NOT_IN_PROFILE,
 *   PRODUCER_MISSING, PLUGIN_UNKNOWN, PLUGIN_CYCLE, HANDLER_MISSING, BINDING_AMBIGUOUS
 */
export function buildPlan(options: PlanOptions): SchedulingPlan {
  return new Building(options).run();
}

export interface SinglePlanOptions {
  /** Name of the profile; default `default`. */
  readonly name?: string;
  /** The plugins of the profile, and every producer, screener, admitter and decider, in configuration order. */
  readonly plugins: readonly MemberDescription[];
  readonly registry: PluginRegistry;
  readonly clock: Clock;
  readonly random: Random;
}

/** Builds a plan of one profile from a single list, with its own instances; throws as `buildPlan` does. */
export function planOfOne({ name = "default", plugins, registry, clock, random }: SinglePlanOptions): SchedulingPlan {
  const ofKind = <K extends PluginKind>(kind: K): PluginDescription<K>[] =>
    plugins.filter(({ definition }) => definition.kind === kind) as unknown as PluginDescription<K>[];
  const apart: readonly PluginKind[] = ["producer", "screener", "admitter", "decider", "profile-handler"];
  return buildPlan({
    profiles: [{ name, plugins: plugins.filter(({ definition }) => !apart.includes(definition.kind)) }],
    handler: ofKind("profile-handler")[0],
    screeners: ofKind("screener"),
    admitters: ofKind("admitter"),
    producers: ofKind("producer"),
    referable: plugins,
    registry,
    instances: new PluginInstances({ clock, random, log: silentLogger, configured: plugins }),
  });
}

/**
 * Describes a plugin whose name is its type. `parameters` are as in a configuration; missing ones get their defaults.
 * @throws ZodError for parameters that the plugin does not take
 */
export function described<K extends PluginKind>(
  definition: PluginDefinition<K>,
  weight?: number,
  parameters: Readonly<Record<string, unknown>> = {},
): PluginDescription<K> & { readonly weight: number | undefined } {
  return { definition, name: definition.type, parameters: definition.parameters.parse(parameters), weight };
}

/** The state of one call of `buildPlan`. */
class Building {
  readonly #options: PlanOptions;
  readonly #producers: readonly PluginDescription<"producer">[];
  readonly #columns: string[] = [];
  readonly #attributes: string[] = [];
  /** The places of the keys of each producer. */
  readonly #written = new Map<PluginDescription, Map<DataKey, WrittenAt>>();

  constructor(options: PlanOptions) {
    this.#options = options;
    const { profiles, screeners = [], admitters = [], producers = [], registry } = options;
    const handler = options.handler === undefined ? [] : [options.handler, ...this.#referredBy(options.handler)];
    const members = profiles.flatMap(({ plugins }) => plugins);
    const readers = [...members, ...screeners, ...admitters, ...handler];
    this.#producers = inOrder(withDefaultProducers(readers, producers, registry));
    for (const producer of this.#producers) this.#reserve(producer);
  }

  run(): SchedulingPlan {
    const { profiles, handler, screeners = [], admitters = [], configHash = "" } = this.#options;
    if (profiles.length === 0) throw new SluiceError("PROFILES_MISSING", "a configuration needs a profile");
    this.#checkNames();
    const producers = this.#producers.map((producer) => this.#member(producer));
    const handling = this.#handler();
    const { figures, prefix, tokens } = this.#figures();
    const members = profiles.flatMap(({ plugins }) => plugins);
    const all = [...members, ...screeners, ...admitters, ...(handler === undefined ? [] : [handler])];
    const headers = all.flatMap(({ definition, parameters }) => definition.headers?.(parameters) ?? []);
    return {
      configHash,
      screeners: screeners.map((screener) => this.#member(screener)),
      producers,
      admitters: admitters.map((admitter) => this.#member(admitter)),
      profiles: profiles.map((profile) => this.#profile(profile)),
      handler: handling,
      columns: this.#columns,
      attributes: this.#attributes,
      figures,
      keepsTokens: producers.find(({ name }) => name === tokens?.name)?.plugin.estimatesOutput === true,
      prefixProducer: producers.find(({ name }) => name === prefix?.name),
      headers: [...new Set(headers.map((name) => name.toLowerCase()))],
    };
  }

  #profile({ name, plugins }: ProfileDescription): Profile {
    const filters: Profile["filters"][number][] = [];
    const scorers: WeightedScorer[] = [];
    let picker: Profile["picker"] | undefined;
    for (const description of plugins) {
      if (isOfKind("filter", description)) filters.push(this.#member(description));
      else if (isOfKind("scorer", description)) {
        const filter = description.definition.alsoFilter?.(description.parameters);
        if (filter !== undefined) filters.push(this.#member({ ...description, definition: filter }));
        scorers.push({ ...this.#member(description), weight: weightOf(description) });
      } else if (isOfKind("picker", description)) {
        if (picker !== undefined)
          throw new SluiceError(
            "PICKER_TAKEN",
            `already have a registered picker plugin: ${picker.name}; remove ${picker.name} or ${description.name} from the profile`,
          );
        picker = this.#member(description);
      } else
        throw new SluiceError(
          "PLUGIN_NOT_IN_PROFILE",
          `plugin ${description.name} is a ${description.definition.kind} and cannot be part of a profile`,
        );
    }
    return { name, filters, scorers, picker: picker ?? this.#member(described(maxScorePicker)) };
  }

  #handler(): SchedulingPlan["handler"] {
    const { handler, profiles } = this.#options;
    if (handler === undefined || handler.definition.type === singleProfileHandler.type) {
      if (profiles.length > 1)
        throw new SluiceError("HANDLER_MISSING", "no profile handler configured, but several profiles need one");
      return undefined;
    }
    const scopes = [handler, ...this.#referredBy(handler)].map((plugin) => ({ plugin, scope: this.#scope(plugin) }));
    for (const { plugin, scope } of scopes)
      for (const [key, place] of scope.columns) {
        const other = scopes.find((one) => (one.scope.columns.get(key) ?? place) !== place);
        if (other !== undefined)
          throw new SluiceError(
            "BINDING_AMBIGUOUS",
            `${plugin.name} and ${other.plugin.name} both work for ${handler.name} and read ${key.name} from different producers; name the same producer in both`,
          );
      }
    return { ...this.#member(handler), scope: joinedScope(scopes.map(({ scope }) => scope)) };
  }

  /** Returns the plugins that a plugin refers to, directly or through others. */
  #referredBy(plugin: PluginDescription): PluginDescription[] {
    const found: PluginDescription[] = [];
    const visit = ({ definition, parameters }: PluginDescription): void => {
      for (const { name, kind } of definition.references?.(parameters) ?? []) {
        const other = this.#options.referable?.find((one) => one.name === name && one.definition.kind === kind);
        if (other === undefined || found.includes(other)) continue;
        found.push(other);
        visit(other);
      }
    };
    visit(plugin);
    return found;
  }

  #member<K extends PluginKind>(description: PluginDescription<K>): ProfileMember<PluginKinds[K]> {
    const { name, definition } = description;
    const plugin = this.#options.instances.make(description);
    return { name, type: definition.type, plugin, scope: this.#scope(description) };
  }

  #reserve(producer: PluginDescription): void {
    const written = new Map<DataKey, WrittenAt>();
    for (const key of producer.definition.produces) {
      const names = key.of === "endpoint" ? this.#columns : this.#attributes;
      written.set(key, { of: key.of, place: names.push(`${producer.name}/${key.name}`) - 1 });
    }
    this.#written.set(producer, written);
  }

  #scope(reader: PluginDescription): DataScope {
    this.#checkChoice(reader);
    const writes = this.#written.get(reader) ?? new Map<DataKey, WrittenAt>();
    const columns = new Map<ColumnKey, number>();
    const attributes = new Map<AttributeKey, number>();
    const { requires, optional = [] } = reader.definition;
    for (const key of [...requires, ...optional, ...writes.keys()]) {
      const place = (writes.get(key) ?? this.#writtenFor(key, reader))?.place ?? NO_WRITER;
      if (key.of === "endpoint") columns.set(key, place);
      else attributes.set(key, place);
    }
    return { columns, attributes, writes };
  }

  #checkChoice({ name, parameters }: PluginDescription): void {
    if (typeof parameters !== "object" || parameters === null) return;
    for (const [parameter, wanted] of Object.entries(parameters))
      if (PRODUCER_NAME.test(parameter) && wanted !== "" && wanted !== undefined)
        if (!this.#producers.some((producer) => producer.name === wanted))
          throw new SluiceError(
            "PLUGIN_UNKNOWN",
            `plugin ${name} has a dependency on the unregistered plugin ${wanted} (${parameter}); the producers are ${this.#producers.map((producer) => producer.name).join(", ")}`,
          );
  }

  #writtenFor(key: DataKey, reader: PluginDescription): WrittenAt | undefined {
    const writer = writerFor(key, reader, this.#producers);
    return writer === undefined ? undefined : this.#written.get(writer)?.get(key);
  }

  /** Returns the places of the default producers' columns, which the scheduler itself reads. */
  #figures() {
    const reader: PluginDescription = { ...described(maxScorePicker), name: "" };
    const placeOf = (key: ColumnKey): number => this.#writtenFor(key, reader)?.place ?? NO_WRITER;
    const figures = {
      matchedBlocks: placeOf(PREFIX_MATCHED_BLOCKS),
      totalBlocks: placeOf(PREFIX_TOTAL_BLOCKS),
      blockTokens: placeOf(PREFIX_BLOCK_TOKENS),
      uncachedTokens: placeOf(UNCACHED_TOKENS),
      predicted: this.#cachedAt(PREFIX_MATCHED_BLOCKS, false),
      events: this.#cachedAt(PREFIX_CACHED_BLOCKS, true),
      unconfirmed: this.#cachedAt(PREFIX_UNCONFIRMED_BLOCKS, true).blocks,
    };
    const writerOf = (key: ColumnKey) => writerFor(key, reader, this.#producers);
    return { figures, prefix: writerOf(PREFIX_MATCHED_BLOCKS), tokens: writerOf(UNCACHED_TOKENS) };
  }

  /** @param hears whether the producer is one that engines tell what they hold */
  #cachedAt(key: ColumnKey, hears: boolean): CachedAt {
    const isIt = ({ produces }: PluginDefinition): boolean =>
      [key, PREFIX_BLOCK_TOKENS].every((one) => produces.includes(one)) &&
      produces.includes(PREFIX_CACHED_BLOCKS) === hears;
    const producer = this.#producers.find(({ definition }) => isIt(definition));
    const written = producer && this.#written.get(producer);
    return {
      blocks: written?.get(key)?.place ?? NO_WRITER,
      blockTokens: written?.get(PREFIX_BLOCK_TOKENS)?.place ?? NO_WRITER,
    };
  }

  #checkNames(): void {
    const { profiles, screeners = [], admitters = [] } = this.#options;
    const seen = new Set<string>();
    const check = (name: string): void => {
      if (seen.has(name)) throw new SluiceError("PLUGIN_NAME_TAKEN", `duplicate plugin name ${name}`);
      seen.add(name);
    };
    for (const { name } of [...this.#producers, ...screeners, ...admitters]) check(name);
    for (const { plugins } of profiles) {
      const inProfile = new Set<string>();
      for (const { name } of plugins) {
        if (inProfile.has(name) || seen.has(name))
          throw new SluiceError("PLUGIN_NAME_TAKEN", `duplicate plugin name ${name}`);
        inProfile.add(name);
      }
    }
  }
}

function isOfKind<K extends PluginKind>(
  kind: K,
  plugin: MemberDescription,
): plugin is MemberDescription & PluginDescription<K> {
  return plugin.definition.kind === kind;
}

function weightOf({ name, weight = 1 }: MemberDescription): number {
  if (Number.isFinite(weight) && weight >= 0) return weight;
  throw new SluiceError("WEIGHT_INVALID", `the weight of plugin ${name} must be a number of 0 or more, not ${weight}`);
}
