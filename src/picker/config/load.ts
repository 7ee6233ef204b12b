import { type Document, formatPosition, type Path } from "../../base/document/document.ts";
import { nearest } from "../../base/document/nearest.ts";
import { invalid, type Violation } from "../../base/document/validate.ts";
import type { Parity } from "../../base/inference/parity.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import { checkCollected, readDataSources, readDiscovery } from "./data-layer.ts";
import { builtInDocument } from "./defaults.ts";
import { type ConfiguredPlugin, type EffectiveConfig, type EffectiveProfile, policiesOf } from "./effective.ts";
import { API_VERSIONS, type Envelope, envelopeSchema, isCurrent } from "./envelope.ts";
import { isPolicy, readDetector, readFlowControl, readModelFlowControl } from "./flow-control.ts";
import { checkGates } from "./gates.ts";
import { type MigrationPlan, migratePlugins, planMigration } from "./migrate.ts";
import { advise, defaultOf, isOfKind, type PluginTable, REMEDIES, readPlugins, referencedPlugin } from "./plugins.ts";
import {
  type Binding,
  bindProducers,
  type Companion,
  checkCompanions,
  checkShared,
  companionsOf,
  passedOver,
} from "./producers.ts";
import { checkNeededProfile, isMember, profileOfAll, readHandler, readProfile, warnOfProfiles } from "./profiles.ts";
import { isExperimental, whyNoEffect } from "./published.ts";
import { checkReferences, referredBy } from "./references.ts";
import { checkAndRepair, type Repaired, type Substitutes } from "./repair.ts";

const WHAT = "EndpointPickerConfig";

export interface LoadOptions {
  /** Alpha plugins are refused (scheduling 3.1). */
  readonly refuseExperimental?: boolean;
  /** The release whose defaults and keys count in `flowControl`; default: that of the specification (scheduling 6.10). */
  readonly parity?: Parity | undefined;
  /** Violations that are known before the check: modules of entries of `plugins` that cannot be loaded. */
  readonly mistakes?: readonly Violation[];
}

/** A configuration with the places of its parts, for callers that explain or rewrite the file. */
export interface LoadedConfig {
  readonly config: EffectiveConfig;
  readonly document: Document;
  readonly envelope: Envelope;
  /** The outdated parts of the file. */
  readonly plan: MigrationPlan;
  /** The plugins of the file. */
  readonly table: PluginTable;
  /** The plugins that members of profiles and the handler add. */
  readonly companions: readonly Companion[];
  /** The producer that each plugin reads from, by key. */
  readonly bindings: readonly Binding[];
}

/**
 * Completes an EndpointPickerConfig, or reports all of its errors (scheduling 4.3, 4.4).
 * @param document the file, or undefined for the built-in configuration
 * @param registry the plugin types that exist
 * @throws SluiceError DOCUMENT_INVALID, every violation as `file:line:column: path: problem`
 */
export function loadConfig(
  document: Document | undefined,
  registry: PluginRegistry,
  options: LoadOptions = {},
): EffectiveConfig {
  return loadDetailed(document, registry, options).config;
}

/** As `loadConfig`, with the details of the file. */
export function loadDetailed(
  document: Document | undefined,
  registry: PluginRegistry,
  options: LoadOptions = {},
): LoadedConfig {
  return new Loading(document ?? builtInDocument("default")!, registry, options).run();
}

/** Entries whose types are accepted without effect, by instance name. */
type Idle = ReturnType<typeof readPlugins>["idle"];

/** One pass over one document. Later steps use the results of earlier ones; violations gather until the end. */
class Loading {
  readonly #document: Document;
  readonly #registry: PluginRegistry;
  /** Paths are those of the document after the schema; `run` finds their places in the file. */
  readonly #violations: Violation[] = [];
  readonly #warnings: string[] = [];
  readonly #options: LoadOptions;

  constructor(document: Document, registry: PluginRegistry, options: LoadOptions) {
    this.#document = document;
    this.#registry = registry;
    this.#options = options;
  }

  run(): LoadedConfig {
    const mistakes = [...(this.#options.mistakes ?? [])];
    const repaired = checkAndRepair(
      this.#document.value,
      envelopeSchema(this.#registry),
      // Without its module, the type of an entry is also unknown.
      mistakes.map(({ path, problem }) => ({ path: path.slice(0, 2), problem })),
      SUBSTITUTES,
      mistakes,
    );
    if (repaired === undefined) throw invalid(this.#document, mistakes, WHAT);
    const envelope = repaired.output;
    if (!isCurrent(envelope.apiVersion))
      this.#warn(["apiVersion"], `apiVersion ${envelope.apiVersion} is deprecated; write ${API_VERSIONS[0]}`);
    const warn = (path: Path, text: string): void => this.#warn(path, text);
    const plan = planMigration(envelope, this.#registry);
    const gates = checkGates(envelope.featureGates ?? [], this.#violations, warn);
    const entries = migratePlugins(envelope, plan, this.#registry, this.#violations, warn);
    const { table, idle } = readPlugins(entries, this.#registry, this.#violations);
    const referred = checkReferences(table, this.#registry, this.#violations);
    advise(entries, table, warn);
    for (const [name, { type, path }] of idle) warn(path, `plugin ${name} has no effect: ${whyNoEffect(type)}`);
    if (this.#options.refuseExperimental) this.#checkExperimental(table, idle);
    const profiles = this.#profiles(envelope, table, idle);
    const handler = readHandler(profiles.length, table, this.#registry, this.#violations);
    const names = profiles.map(({ name }) => name);
    checkNeededProfile(handler, names, table, this.#violations);
    warnOfProfiles(names, table, warn);
    const detector = readDetector(envelope, plan, table, this.#registry, this.#violations, warn);
    const queueing = {
      ...{ gate: gates.get("flowControl"), parity: this.#options.parity ?? "" },
      ...{ table, registry: this.#registry, into: this.#violations, warn },
    };
    const flowControl = readFlowControl(envelope, queueing);
    const modelFlowControl = readModelFlowControl(queueing);
    const discovery = readDiscovery(envelope, table, this.#violations, warn);
    const dataSources = readDataSources(envelope, table, this.#registry, this.#violations, warn);
    const parsers = this.#parsers(envelope, table);
    const members = profiles.flatMap(({ plugins }) => plugins);
    checkCollected(members, dataSources, table, this.#violations, warn);
    const companions = companionsOf([...members, handler], table);
    checkCompanions(companions, table, this.#violations);
    const along = companions.map(({ plugin }) => plugin);
    const configured = [...table.values()];
    const refusers = [...configured.filter(isScreener), ...configured.filter(isAdmitter)];
    const handling = [handler, ...referredBy(handler, table)];
    const readers = distinct([...members, ...refusers, ...handling]);
    const bindings = bindProducers(readers, table, along, this.#registry, this.#violations);
    checkShared(handling, bindings, table, this.#violations);
    const own = this.#violations.filter((violation) => !isConsequence(violation, envelope, repaired));
    mistakes.push(...own.map(({ path, problem }) => ({ path: repaired.original(path), problem })));
    if (mistakes.length > 0) throw invalid(this.#document, mistakes, WHAT);
    const measured = dataSources.flatMap(({ source, extractors }) => [source, ...extractors]);
    const policies = policiesOf({ flowControl });
    const used = [...members, detector, discovery, ...measured, ...parsers, ...policies].map((plugin) => plugin?.name);
    const withModels = new Set(policiesOf({ flowControl: modelFlowControl }).map(({ name }) => name));
    this.#warnOfUnused(table, new Set([...used, ...referred]), flowControl !== undefined, withModels);
    this.#warnOfPassedOver(table, bindings);
    const config: EffectiveConfig = {
      source: this.#document.file,
      document: this.#document,
      parity: this.#options.parity ?? "",
      registry: this.#registry,
      profiles,
      handler,
      headerProcessors: configured.filter(isHeaderProcessor),
      screeners: configured.filter(isScreener),
      admitters: configured.filter(isAdmitter),
      producers: [...configured, ...along].filter(isProducer),
      detector,
      flowControl,
      modelFlowControl,
      discovery,
      parsers,
      hooks: [...configured, ...along].filter(isHook),
      configured,
      dataSources,
      warnings: this.#warnings,
    };
    return { config, document: this.#document, envelope, plan, table, companions, bindings };
  }

  #checkExperimental(table: PluginTable, idle: Idle): void {
    const types = [
      ...[...table.values()].map(({ name, definition, path }) => ({ name, type: definition.type, path })),
      ...[...idle].map(([name, { type, path }]) => ({ name, type, path })),
    ];
    for (const { name, type, path } of types)
      if (isExperimental(type))
        this.#refuse([...path, "type"], `plugin ${name} is experimental; requires --allow-experimental-plugins`);
  }

  #profiles(envelope: Envelope, table: PluginTable, idle: Idle): readonly EffectiveProfile[] {
    const entries = envelope.schedulingProfiles ?? [];
    const seen = new Set<string>();
    entries.forEach(({ name }, at) => {
      if (seen.has(name))
        this.#refuse(["schedulingProfiles", at, "name"], `schedulingProfiles has duplicate name ${name}`);
      seen.add(name);
    });
    const warn = (path: Path, text: string): void => this.#warn(path, text);
    if (entries.length > 0)
      return entries.map((entry, at) => {
        const path = ["schedulingProfiles", at];
        const plugins = readProfile(entry, path, table, idle, this.#violations, warn);
        return this.#complete({ name: entry.name, plugins }, path, table);
      });
    // A file without scheduling plugins gets the same profiles as no file.
    if (![...table.values()].some(({ definition }) => isMember(definition.kind)))
      return loadConfig(undefined, this.#registry).profiles;
    return [this.#complete({ name: "default", plugins: profileOfAll(table, this.#violations) }, ["plugins"], table)];
  }

  /** Adds a picker to a profile (scheduling 4.3). @param at the place to report for a profile without a scorer */
  #complete({ name, plugins: given }: EffectiveProfile, at: Path, table: PluginTable): EffectiveProfile {
    const plugins = [...given];
    if (!plugins.some(isPicker)) {
      const picker = [...table.values()].find(isPicker) ?? defaultOf(DEFAULT_PICKER, "picker", this.#registry);
      plugins.push({ ...picker, weight: 1 });
    }
    const picker = plugins.find(isPicker)!;
    if (picker.definition.type === DEFAULT_PICKER && !plugins.some(({ definition }) => definition.kind === "scorer"))
      this.#warn(
        at,
        `without a scorer, ${picker.name} picks at random; add scorers, such as queue-scorer and prefix-cache-scorer`,
      );
    return { name, plugins };
  }

  /**
   * Returns the parsers. The present form lists several, the older one names only one (scheduling 4.2); the present one wins.
   */
  #parsers(envelope: Envelope, table: PluginTable): ConfiguredPlugin<"parser">[] {
    const listed = envelope.requestHandler?.parsers ?? [];
    const old = envelope.parser;
    if (old)
      this.#warn(
        ["parser"],
        listed.length > 0
          ? "parser has no effect: requestHandler.parsers overrides it"
          : "parser is deprecated; move it to requestHandler.parsers",
      );
    const parsers: ConfiguredPlugin<"parser">[] = [];
    const take = (ref: string, path: Path, what: string): void => {
      const named =
        table.get(ref) ?? this.#parserOfType(ref) ?? referencedPlugin(ref, path, what, table, this.#violations);
      if (named === undefined) return;
      if (!isParser(named))
        this.#refuse(path, `the plugin ${ref} is not a parser plugin but a ${named.definition.kind}`);
      else if (parsers.some(({ name }) => name === ref))
        this.#refuse(path, `requestHandler.parsers lists ${ref} twice; keep one`);
      else parsers.push(named);
    };
    listed.forEach(({ pluginRef }, at) => {
      take(pluginRef, ["requestHandler", "parsers", at, "pluginRef"], "requestHandler.parsers");
    });
    if (old && listed.length === 0) take(old.pluginRef, ["parser", "pluginRef"], "parser");
    return parsers;
  }

  /** A parser without parameters needs no entry in `plugins`. */
  #parserOfType(type: string): ConfiguredPlugin<"parser"> | undefined {
    const definition = this.#registry.get(type);
    if (definition?.kind !== "parser" || !definition.parameters.safeParse({}).success) return undefined;
    return defaultOf(type, "parser", this.#registry);
  }

  #refuse(path: Path, problem: string): void {
    this.#violations.push({ path, problem });
  }

  #warn(path: Path, text: string): void {
    this.#warnings.push(`${formatPosition(this.#document.positionOf(path))}: ${text}`);
  }

  /** @param withModels the policies that take effect with InferenceModels */
  #warnOfUnused(
    table: PluginTable,
    used: ReadonlySet<string | undefined>,
    queues: boolean,
    withModels: ReadonlySet<string>,
  ): void {
    for (const { name, definition, path } of table.values()) {
      if (isPolicy(definition.kind) && withModels.has(name)) {
        this.#warn(path, `plugin ${name} has an effect only with InferenceModels: ${NO_GATE}`);
        continue;
      }
      const remedy = isPolicy(definition.kind) && !queues ? NO_QUEUES : REMEDIES[definition.kind];
      if (remedy !== undefined && !used.has(name)) this.#warn(path, `plugin ${name} has no effect: ${remedy}`);
    }
  }

  #warnOfPassedOver(table: PluginTable, bindings: readonly Binding[]): void {
    for (const { name, instead } of passedOver(bindings, table)) {
      const { reader, producer, key } = instead;
      this.#warn(
        table.get(name)!.path,
        `no plugin reads the producer ${name}: ${reader.name} reads ${key.name} from ${producer.name}; choose with the parameter of ${reader.name} that ends in ProducerName`,
      );
    }
  }
}

/** Substitutes for missing values, so that the rest of a file can be checked. */
const SUBSTITUTES: Substitutes = {
  apiVersion: () => API_VERSIONS[0],
  kind: () => WHAT,
  name: (n) => `(nameless ${n + 1})`,
};

/** Whether a violation exists only because another wrong part of the file was removed before the check. */
function isConsequence({ path }: Violation, envelope: Envelope, { isCut, lost }: Repaired<Envelope>): boolean {
  if (isCut(path)) return true;
  let value: unknown = envelope;
  for (const key of path) value = (value as Record<string | number, unknown> | null | undefined)?.[key];
  return typeof value === "string" && (lost.has(value) || nearest(value, lost) !== undefined);
}

const DEFAULT_PICKER = "max-score-picker";

/** The reasons why policies of flow control have no effect, or only at times. */
const NO_GATE = "the file does not set the feature gate flowControl";
const NO_QUEUES = "without the feature gate flowControl, this file configures no queue";

const isPicker = isOfKind("picker");
const isProducer = isOfKind("producer");
const isParser = isOfKind("parser");
const isHook = isOfKind("request-hook");
const isScreener = isOfKind("screener");
const isAdmitter = isOfKind("admitter");
const isHeaderProcessor = isOfKind("request-header-processor");

/** Returns each plugin once: several profiles may name it. */
function distinct(plugins: readonly ConfiguredPlugin[]): readonly ConfiguredPlugin[] {
  return [...new Map(plugins.map((plugin) => [`${plugin.definition.kind} ${plugin.name}`, plugin])).values()];
}
