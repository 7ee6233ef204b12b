import type { Document, Path } from "../document/document.ts";
import { formatPosition } from "../document/document.ts";
import { didYouMean } from "../document/nearest.ts";
import { invalid, type Violation, validate } from "../document/validate.ts";
import { SluiceError } from "../inference/errors.ts";
import type { PluginDefinition, PluginKind } from "../plugin/kinds.ts";
import type { PluginRegistry } from "../plugin/registry.ts";
import { advise } from "./advice.ts";
import { companionsOf } from "./companions.ts";
import { builtInDocument } from "./defaults.ts";
import type { ConfiguredPlugin, EffectiveConfig } from "./effective.ts";
import { API_VERSIONS, type Envelope, envelopeSchema } from "./envelope.ts";
import { checkGates } from "./gates.ts";
import { DETECTOR, type MigrationPlan, migratePlugins, planMigration } from "./migrate.ts";
import { defaultPlugin, type PluginTable, readPlugins } from "./plugins.ts";
import { checkProducers } from "./producers.ts";
import { isMember, profileOfAll, readProfile } from "./profile.ts";
import { isExperimental } from "./published.ts";

const WHAT = "EndpointPickerConfig";

export interface LoadOptions {
  /** Alpha plugins are refused (scheduling 3.1). */
  readonly refuseExperimental?: boolean;
}

/** A configuration, and what of it stood where: for those who explain or rewrite the file. */
export interface LoadedConfig {
  readonly config: EffectiveConfig;
  readonly document: Document;
  readonly envelope: Envelope;
  /** What of the file would be written otherwise today. */
  readonly plan: MigrationPlan;
  /** The plugins of the file. */
  readonly table: PluginTable;
}

/**
 * Makes an EndpointPickerConfig complete, or says everything that is wrong with it (scheduling 4.3, 4.4).
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

/** As `loadConfig`, with what is known of the file. */
export function loadDetailed(
  document: Document | undefined,
  registry: PluginRegistry,
  options: LoadOptions = {},
): LoadedConfig {
  return new Loading(document ?? builtInDocument("default")!, registry, options).run();
}

/** One pass over one document: later steps see what earlier ones found, violations gather until the end. */
class Loading {
  readonly #document: Document;
  readonly #registry: PluginRegistry;
  readonly #violations: Violation[] = [];
  readonly #warnings: string[] = [];
  readonly #options: LoadOptions;

  constructor(document: Document, registry: PluginRegistry, options: LoadOptions) {
    this.#document = document;
    this.#registry = registry;
    this.#options = options;
  }

  run(): LoadedConfig {
    const envelope = validate(this.#document, envelopeSchema(this.#registry), { what: WHAT });
    if (envelope.apiVersion !== API_VERSIONS[0])
      this.#warn(["apiVersion"], `apiVersion ${envelope.apiVersion} is deprecated; write ${API_VERSIONS[0]}`);
    const warn = (path: Path, text: string): void => this.#warn(path, text);
    const plan = planMigration(envelope, this.#registry);
    checkGates(envelope.featureGates ?? [], this.#violations, warn);
    const entries = migratePlugins(envelope, plan, this.#registry, this.#violations, warn);
    const table = readPlugins(entries, this.#registry, this.#violations);
    advise(entries, table, warn);
    if (this.#options.refuseExperimental) this.#checkExperimental(table);
    const profile = this.#profile(envelope, table);
    const detector = this.#detector(envelope, plan, table);
    this.#checkFlowControl(envelope);
    const discovery = this.#discovery(envelope, table);
    const parsers = this.#parsers(envelope, table);
    const companions = companionsOf(profile.plugins, table, this.#violations);
    checkProducers(profile.plugins, table, companions, this.#registry, this.#violations);
    if (this.#violations.length > 0) throw invalid(this.#document, this.#violations, WHAT);
    const used = [...profile.plugins, detector, discovery, ...parsers];
    this.#warnOfUnused(table, new Set(used.map((plugin) => plugin?.name)));
    const config: EffectiveConfig = {
      source: this.#document.file,
      profile,
      producers: [...table.values(), ...companions].filter(isProducer),
      detector,
      discovery,
      parsers,
      hooks: [...table.values(), ...companions].filter(isHook),
      warnings: this.#warnings,
    };
    return { config, document: this.#document, envelope, plan, table };
  }

  #checkExperimental(table: PluginTable): void {
    for (const { name, definition, path } of table.values())
      if (isExperimental(definition.type))
        this.#refuse([...path, "type"], `plugin ${name} is experimental; requires --allow-experimental-plugins`);
  }

  /** Without flow control only its detector counts; what stands beside it is checked all the same. */
  #checkFlowControl({ flowControl }: Envelope): void {
    const keys = Object.entries(flowControl ?? {}).filter(([, value]) => value !== undefined && value !== null);
    const [ignored] = keys.find(([key]) => key !== "saturationDetector") ?? [];
    if (ignored !== undefined)
      this.#warn(
        ["flowControl", ignored],
        "without the feature gate flowControl nothing of this section counts but saturationDetector",
      );
    const priorities = new Set<number>();
    flowControl?.priorityBands?.forEach(({ priority }, at) => {
      if (priorities.has(priority))
        this.#refuse(["flowControl", "priorityBands", at, "priority"], `duplicate priority level ${priority}`);
      priorities.add(priority);
    });
  }

  #profile(envelope: Envelope, table: PluginTable): EffectiveConfig["profile"] {
    const entries = envelope.schedulingProfiles ?? [];
    this.#checkProfiles(entries, table);
    const entry = entries[0];
    const configured = [...table.values()];
    // A file that says nothing about scheduling gets what it would get without a file.
    if (entry === undefined && !configured.some(({ definition }) => isMember(definition.kind)))
      return loadConfig(undefined, this.#registry).profile;
    const plugins =
      entry === undefined
        ? profileOfAll(table, this.#violations)
        : readProfile(entry, ["schedulingProfiles", 0], table, this.#violations, (at, text) => this.#warn(at, text));
    if (!plugins.some(({ definition }) => definition.kind === "picker"))
      plugins.push({ ...(configured.find(isPicker) ?? this.#default(DEFAULT_PICKER, "picker")), weight: 1 });
    const picker = plugins.find(isPicker);
    if (picker?.definition.type === DEFAULT_PICKER && !plugins.some(({ definition }) => definition.kind === "scorer"))
      this.#warn(
        entry === undefined ? ["plugins"] : ["schedulingProfiles", 0],
        `without a scorer ${picker.name} picks by chance; add scorers, such as queue-scorer and prefix-cache-scorer`,
      );
    return { name: entry?.name ?? "default", plugins };
  }

  #checkProfiles(entries: readonly { readonly name: string }[], table: PluginTable): void {
    const seen = new Set<string>();
    entries.forEach(({ name }, at) => {
      if (seen.has(name))
        this.#refuse(["schedulingProfiles", at, "name"], `schedulingProfiles has duplicate name ${name}`);
      seen.add(name);
    });
    const handlers = [...table.values()].filter(({ definition }) => definition.kind === "profile-handler");
    const [first, second] = handlers;
    if (second !== undefined)
      this.#refuse(second.path, `multiple profile handlers found: ${first?.name} and ${second.name}; keep one`);
    if (entries.length < 2) return;
    const gist =
      first === undefined
        ? "no profile handler configured, which several scheduling profiles need"
        : "SingleProfileHandler cannot support multiple scheduling profiles";
    this.#refuse(["schedulingProfiles", 1], `${gist}; only one profile is supported yet, so keep one`);
  }

  #detector(envelope: Envelope, plan: MigrationPlan, table: PluginTable): ConfiguredPlugin<"saturation-detector"> {
    const old = plan.detector === undefined ? envelope.saturationDetector : { pluginRef: plan.detector.name };
    const current = envelope.flowControl?.saturationDetector;
    if (old && plan.detector === undefined)
      this.#warn(
        ["saturationDetector"],
        current
          ? "saturationDetector has no effect: flowControl.saturationDetector wins"
          : "saturationDetector is deprecated here; move it to flowControl.saturationDetector",
      );
    const ref = (current ?? old)?.pluginRef ?? undefined;
    const path = current ? ["flowControl", "saturationDetector", "pluginRef"] : ["saturationDetector", "pluginRef"];
    const named = ref === undefined ? table.get(DETECTOR) : this.#referenced(ref, path, "saturationDetector", table);
    if (named !== undefined && isDetector(named)) return named;
    if (named !== undefined && ref !== undefined)
      this.#refuse(path, `plugin ${ref} is not a SaturationDetector but a ${named.definition.kind}`);
    return this.#default(DETECTOR, "saturation-detector");
  }

  #discovery(envelope: Envelope, table: PluginTable): ConfiguredPlugin<"discovery"> | undefined {
    const { data, dataLayer } = envelope;
    if (data && dataLayer) this.#refuse(["data"], "data is the old name of dataLayer, which is given, too; merge them");
    else if (data) this.#warn(["data"], "data is deprecated; it is called dataLayer now");
    const ref = (dataLayer ?? data)?.discovery?.pluginRef;
    if (ref === undefined) return undefined;
    const path = [dataLayer ? "dataLayer" : "data", "discovery", "pluginRef"];
    const named = this.#referenced(ref, path, "dataLayer.discovery", table);
    if (named === undefined || isDiscovery(named)) return named;
    this.#refuse(path, `plugin ${ref} is not a discovery but a ${named.definition.kind}`);
    return undefined;
  }

  /** The current shape lists several parsers, the older one names the only one (scheduling 4.2); the current one wins. */
  #parsers(envelope: Envelope, table: PluginTable): ConfiguredPlugin<"parser">[] {
    const listed = envelope.requestHandler?.parsers ?? [];
    const old = envelope.parser;
    if (old)
      this.#warn(
        ["parser"],
        listed.length > 0
          ? "parser has no effect: requestHandler.parsers wins"
          : "parser is deprecated; move it to requestHandler.parsers",
      );
    const parsers: ConfiguredPlugin<"parser">[] = [];
    const take = (ref: string, path: Path, what: string): void => {
      const named = this.#referenced(ref, path, what, table);
      if (named === undefined) return;
      if (!isParser(named))
        this.#refuse(path, `the plugin ${ref} is not a parser plugin but a ${named.definition.kind}`);
      else if (parsers.includes(named)) this.#refuse(path, `requestHandler.parsers lists ${ref} twice; keep one`);
      else parsers.push(named);
    };
    listed.forEach(({ pluginRef }, at) => {
      take(pluginRef, ["requestHandler", "parsers", at, "pluginRef"], "requestHandler.parsers");
    });
    if (old && listed.length === 0) take(old.pluginRef, ["parser", "pluginRef"], "parser");
    return parsers;
  }

  #referenced(ref: string, path: Path, what: string, table: PluginTable): TableEntry | undefined {
    const plugin = table.get(ref);
    if (plugin === undefined)
      this.#refuse(path, `${what} references undefined plugin ${ref}${didYouMean(ref, table.keys())}`);
    return plugin;
  }

  /** @throws SluiceError PLUGIN_TYPE_MISSING when the process was put together without a type the defaults need */
  #default<K extends PluginKind>(type: string, kind: K): ConfiguredPlugin<K> {
    const definition = this.#registry.get(type);
    if (definition?.kind !== kind)
      throw new SluiceError("PLUGIN_TYPE_MISSING", `no ${kind} of type ${type} is registered, which the defaults need`);
    return defaultPlugin(definition as PluginDefinition<K>);
  }

  #refuse(path: Path, problem: string): void {
    this.#violations.push({ path, problem });
  }

  #warn(path: Path, text: string): void {
    this.#warnings.push(`${formatPosition(this.#document.positionOf(path))}: ${text}`);
  }

  #warnOfUnused(table: PluginTable, used: ReadonlySet<string | undefined>): void {
    for (const { name, definition, path } of table.values()) {
      const remedy = REMEDIES[definition.kind];
      if (remedy !== undefined && !used.has(name)) this.#warn(path, `plugin ${name} has no effect: ${remedy}`);
    }
  }
}

type TableEntry = PluginTable extends Map<string, infer E> ? E : never;

const DEFAULT_PICKER = "max-score-picker";

/** Why a configured plugin may be without effect, by kind; the other kinds work by being configured. */
const REMEDIES: Readonly<Partial<Record<PluginKind, string>>> = {
  filter: "no profile refers to it",
  scorer: "no profile refers to it",
  picker: "the profile has another picker",
  "saturation-detector": "name it in flowControl.saturationDetector.pluginRef",
  discovery: "name it in dataLayer.discovery.pluginRef",
  parser: "name it in requestHandler.parsers",
};

const isPicker = isOfKind("picker");
const isProducer = isOfKind("producer");
const isDetector = isOfKind("saturation-detector");
const isDiscovery = isOfKind("discovery");
const isParser = isOfKind("parser");
const isHook = isOfKind("request-hook");

function isOfKind<K extends PluginKind>(kind: K) {
  return <P extends ConfiguredPlugin>(plugin: P): plugin is P & ConfiguredPlugin<K> => plugin.definition.kind === kind;
}
