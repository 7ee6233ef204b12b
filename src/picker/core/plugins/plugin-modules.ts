import type { Clock } from "../../../base/clock/clock.ts";
import { type Document, formatPosition, type Path } from "../../../base/document/document.ts";
import { invalid, type Violation } from "../../../base/document/validate.ts";
import { messageOf, oneLine, SluiceError } from "../../../base/inference/errors.ts";
import type { PluginDefinition } from "../../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../../base/plugin/registry.ts";
import { currentType, whyNoEffect, whyNotYet } from "../../config/published.ts";
import { definitionsIn, typeNotFound } from "./plugin-exports.ts";
import { importModule, locateModule, type ModuleFile } from "./plugin-import.ts";
import { PLUGIN_REGISTRY, PLUGINS } from "./plugins.ts";
import { watched } from "./user-definition.ts";

/** The most modules of one process: an imported module stays in memory, even without a configuration that names it. */
export const MAX_MODULES = 64;

/** The plugin types that a configuration may name. */
export interface KnownPlugins {
  /** The built-in types, and those of the modules that the configuration names. */
  readonly registry: PluginRegistry;
  /** Warnings about modules that load. */
  readonly warnings: readonly string[];
}

/** The plugin types of the modules that load, and the violations of the others. */
export interface InspectedPlugins extends KnownPlugins {
  readonly mistakes: readonly Violation[];
}

/** The result of the first import of a module. */
interface Module {
  readonly definitions: readonly PluginDefinition[];
  /** The reason why the module gives no plugins, in words that follow its name. */
  readonly problem: string | undefined;
  /** The hash of the file's bytes. */
  readonly hash: string;
}

/** An entry of `plugins` that names a module. */
interface Entry {
  readonly path: Path;
  /** The module's name in the file. */
  readonly module: string;
  /** Undefined = the type is wrong, and the schema will report it. */
  readonly type: string | undefined;
}

/** The modules with plugins that configurations of this process have named. */
export class PluginModules {
  readonly #clock: Clock;
  /** By absolute path, with symlinks: a mounted ConfigMap swaps them, and the module is still the same. */
  readonly #modules = new Map<string, Module>();
  /** Reads run one after the other: two at a time could import one module twice. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Imports the modules that a configuration names (`plugins[].module`). The process imports each module once.
   * @param document before any check against a schema
   * @param folder the start of relative paths, which they must not leave; undefined = the document is in none
   * @throws SluiceError PLUGIN_LOAD, every problem as `file:line:column: path: problem`
   */
  async load(document: Document | undefined, folder: string | undefined): Promise<KnownPlugins> {
    const { mistakes, ...known } = await this.inspect(document, folder);
    if (document === undefined || mistakes.length === 0) return known;
    const { message } = invalid(document, mistakes, "EndpointPickerConfig");
    throw new SluiceError("PLUGIN_LOAD", message);
  }

  /** As `load`, but returns the violations: for callers that search for further ones. */
  inspect(document: Document | undefined, folder: string | undefined): Promise<InspectedPlugins> {
    const loading = this.#last.then(() => this.#inspect(document, folder));
    this.#last = loading.catch(() => undefined);
    return loading;
  }

  async #inspect(document: Document | undefined, folder: string | undefined): Promise<InspectedPlugins> {
    const entries = document === undefined ? [] : entriesOf(document.value);
    if (document === undefined || entries.length === 0)
      return { registry: PLUGIN_REGISTRY, warnings: [], mistakes: [] };
    const violations: Violation[] = [];
    const warnings: string[] = [];
    /** The module of each type. */
    const types = new Map<string, { readonly definition: PluginDefinition; readonly module: string }>();
    const files = new Map<string, ModuleFile | string>();
    const seen = new Set<string>();
    for (const { path, module, type } of entries) {
      const at = [...path, "module"];
      const refuse = (problem: string): void =>
        void violations.push({ path: at, problem: `${oneLine(module)} ${problem}` });
      const file = files.get(module) ?? (await locateModule(module, folder, document.file));
      files.set(module, file);
      if (typeof file === "string") {
        refuse(file);
        continue;
      }
      const loaded = await this.#module(file, module);
      if (!seen.has(file.path)) {
        seen.add(file.path);
        if (loaded.problem === undefined)
          for (const problem of claim(types, loaded.definitions, module)) refuse(problem);
        else refuse(loaded.problem);
        if (loaded.changed) warnings.push(`${formatPosition(document.positionOf(at))}: ${module} ${CHANGED}`);
      }
      if (
        loaded.problem === undefined &&
        type !== undefined &&
        !loaded.definitions.some((found) => found.type === type)
      )
        violations.push({ path: [...path, "type"], problem: `${module} ${typeNotFound(type, loaded.definitions)}` });
    }
    const own = [...types.values()].map(({ definition }) => definition);
    return { registry: new PluginRegistry([...PLUGINS, ...own]), warnings, mistakes: violations };
  }

  async #module(file: ModuleFile, name: string): Promise<Module & { readonly changed: boolean }> {
    const known = this.#modules.get(file.path);
    if (known !== undefined && known.problem === undefined) return { ...known, changed: known.hash !== file.hash };
    if (known === undefined && this.#modules.size >= MAX_MODULES)
      return { ...TOO_MANY, hash: file.hash, changed: false };
    const module = { ...(await this.#import(file, name, known !== undefined)), hash: file.hash };
    this.#modules.set(file.path, module);
    return { ...module, changed: false };
  }

  async #import({ path, real, hash }: ModuleFile, name: string, again: boolean): Promise<Omit<Module, "hash">> {
    // A module that ran, even with an error, does not run again.
    const hint = again ? "; after a correction, restart the process: a process loads each module once" : "";
    try {
      const found = definitionsIn(await importModule(path, this.#clock));
      if (found.problem !== undefined) return { definitions: [], problem: `${found.problem}${hint}` };
      return {
        definitions: found.definitions.map((definition) => watched(definition, name, real, hash)),
        problem: undefined,
      };
    } catch (error) {
      return { definitions: [], problem: `cannot be loaded: ${messageOf(error)}${hint}` };
    }
  }
}

const TOO_MANY = {
  definitions: [],
  problem: `is above the limit of ${MAX_MODULES} modules in one process, modules of earlier configurations included; put several plugins into one module, or restart`,
};
const CHANGED = "has changed since it was loaded; restart to run the new code";

/** Returns the entries with a module. Nothing has checked the document yet, so each value may have any type. */
function entriesOf(value: unknown): readonly Entry[] {
  const plugins = (value as { readonly plugins?: unknown } | null | undefined)?.plugins;
  if (!Array.isArray(plugins)) return [];
  const entries: Entry[] = [];
  for (const [at, entry] of plugins.entries()) {
    const { module, type } = (entry ?? {}) as { readonly module?: unknown; readonly type?: unknown };
    if (typeof module !== "string" || module === "") continue;
    entries.push({ path: ["plugins", at], module, type: typeof type === "string" && type !== "" ? type : undefined });
  }
  return entries;
}

/** Whether a type is a published name that does not exist here yet, or is accepted without effect. */
function isReserved(type: string): boolean {
  return whyNotYet(type) !== undefined || whyNoEffect(type) !== undefined;
}

/**
 * Adds a module's plugins to the known types.
 * @returns the problems that prevent this, in words that follow the module's name
 */
function claim(
  types: Map<string, { readonly definition: PluginDefinition; readonly module: string }>,
  definitions: readonly PluginDefinition[],
  module: string,
): readonly string[] {
  const problems: string[] = [];
  for (const definition of definitions) {
    const { type } = definition;
    const other = types.get(type);
    if (other?.definition === definition) continue;
    if (PLUGIN_REGISTRY.get(currentType(type)) !== undefined)
      problems.push(`defines the type ${type}, which is built in; rename it, for example to my-${type}`);
    else if (isReserved(type))
      problems.push(
        `defines the type ${type}, which means something else to other Endpoint Pickers; rename it, for example to my-${type}`,
      );
    else if (other !== undefined)
      problems.push(
        other.module === module
          ? `defines the type ${type} twice; give each plugin a different type`
          : `and ${other.module} both define the type ${type}; give each plugin a different type`,
      );
    else types.set(type, { definition, module });
  }
  return problems;
}
