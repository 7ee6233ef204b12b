import type { Clock } from "../clock/clock.ts";
import type { Random } from "../clock/random.ts";
import { messageOf, SluiceError } from "../inference/errors.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { PluginDefinition, PluginKind, PluginKinds, PluginLifecycle } from "./kinds.ts";
import type { SharedPrefixes } from "./shared-prefixes.ts";
import type { StartTokenizers } from "./tokenizers.ts";

/** A plugin as a configuration describes it. */
export interface PluginDescription<K extends PluginKind = PluginKind> {
  readonly definition: PluginDefinition<K>;
  /** Instance name, unique in the configuration. */
  readonly name: string;
  /** Output of the definition's schema. */
  readonly parameters: unknown;
}

export interface InstanceParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** Plugins that others may refer to by name. */
  readonly configured?: readonly PluginDescription[];
  /**
   * The instances of the configuration before this one. A plugin keeps its instance, with all that it has learnt, when its
   * description and those of its references are unchanged.
   */
  readonly previous?: PluginInstances | undefined;
  /** As `PluginContext.indexBytes`. */
  readonly indexBytes?: number | undefined;
  /** Starts tokenizers in threads; absent where plugins get none. */
  readonly startTokenizers?: StartTokenizers | undefined;
  /** Absent where no replicas share what they know. */
  readonly sharedPrefixes?: SharedPrefixes | undefined;
}

interface Made {
  readonly description: PluginDescription;
  readonly instance: unknown;
  /** Instances that it was given by name. */
  readonly given: readonly unknown[];
}

/** Makes the plugins of one configuration, each once, however many places name it. */
export class PluginInstances {
  readonly #parts: Omit<InstanceParts, "previous">;
  readonly #made = new Map<string, Made>();
  readonly #open: string[] = [];
  #previous: PluginInstances | undefined;

  constructor({ previous, ...parts }: InstanceParts) {
    this.#parts = parts;
    this.#previous = previous;
  }

  /**
   * The instance of a plugin, which the first call makes.
   * @throws SluiceError PLUGIN_NAME_TAKEN; PLUGIN_UNKNOWN, PLUGIN_CYCLE for references; and any error of the plugin's `create`
   */
  make<K extends PluginKind>(description: PluginDescription<K>): PluginKinds[K] {
    const { definition, name } = description;
    // One name may mean two instances: a detector, and the filter that the detector is in a profile.
    const key = `${definition.kind} ${name}`;
    const made = this.#made.get(key);
    if (made !== undefined && made.description.definition.type !== definition.type)
      throw new SluiceError(
        "PLUGIN_NAME_TAKEN",
        `two plugins are called ${name}: a ${made.description.definition.type} and a ${definition.type}`,
      );
    if (made !== undefined) return made.instance as PluginKinds[K];
    if (this.#open.includes(key)) {
      const names = [...this.#open.slice(this.#open.indexOf(key)), key].join(" -> ");
      throw new SluiceError("PLUGIN_CYCLE", `dependency cycle: ${names}`);
    }
    this.#open.push(key);
    try {
      const given = (definition.references?.(description.parameters) ?? []).map((reference) =>
        this.#referenced(name, reference.name, reference.kind),
      );
      const instance = this.#reused(key, description, given) ?? this.#create(description);
      this.#made.set(key, { description, instance, given });
      return instance as PluginKinds[K];
    } finally {
      this.#open.pop();
    }
  }

  /** Every instance made so far, by name and type. */
  *list(): IterableIterator<{ readonly name: string; readonly type: string; readonly instance: unknown }> {
    for (const { description, instance } of this.#made.values())
      yield { name: description.name, type: description.definition.type, instance };
  }

  /**
   * An instance that is not ready yet, and why. The reason is "" when the instance itself says so without one, and the error
   * when its check failed; undefined = all are ready.
   */
  unready(): { readonly name: string; readonly failure: string } | undefined {
    for (const { description, instance } of this.#made.values()) {
      const failure = failureToBeReady(instance as PluginLifecycle);
      if (failure !== undefined) return { name: description.name, failure };
    }
    return undefined;
  }

  /**
   * Releases the generation before, and closes those of its instances that this one does not keep. Call it when all instances
   * are made and in force. A plugin that is kept may hold its old context, and that context must not keep the old instances
   * alive.
   */
  settle(): void {
    const previous = this.#previous;
    this.#previous = undefined;
    if (previous !== undefined) previous.#end(this);
  }

  /** Closes the instances, except those of the generation before. That generation stays in force until this one is settled. */
  close(): void {
    const previous = this.#previous;
    this.#previous = undefined;
    this.#end(previous);
  }

  /**
   * Closes each instance once, and before it the instances that refer to it. @param spared the generation whose instances stay
   */
  #end(spared: PluginInstances | undefined): void {
    const done = new Set(spared === undefined ? [] : [...spared.#made.values()].map(({ instance }) => instance));
    const made = [...this.#made.values()].reverse();
    this.#made.clear();
    for (const { description, instance } of made) {
      if (done.has(instance)) continue;
      done.add(instance);
      this.#closeOne(description.name, instance as PluginLifecycle);
    }
  }

  #closeOne(name: string, instance: PluginLifecycle): void {
    const failed = (error: unknown): void =>
      this.#parts.log.child({ plugin: name }).error({ err: error }, `plugin ${name} failed to close`);
    try {
      const answer: unknown = instance.close?.();
      // Authors may write `async`, and an unhandled rejection ends the process.
      if (answer instanceof Promise) answer.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  #create<K extends PluginKind>({ definition, name, parameters }: PluginDescription<K>): PluginKinds[K] {
    const { clock, random, log, indexBytes, startTokenizers, sharedPrefixes } = this.#parts;
    return definition.create(parameters, {
      name,
      clock,
      random,
      log: log.child({ plugin: name }),
      plugin: (wanted, kind) => this.#referenced(name, wanted, kind),
      indexBytes,
      startTokenizers,
      sharedPrefixes,
    });
  }

  #referenced<K extends PluginKind>(by: string, name: string, kind: K): PluginKinds[K] {
    const found = this.#parts.configured?.find((plugin) => plugin.name === name && plugin.definition.kind === kind);
    if (found === undefined)
      throw new SluiceError(
        "PLUGIN_UNKNOWN",
        `plugin ${by} has a dependency on the unregistered plugin ${name}, which must be a ${kind}`,
      );
    return this.make(found as PluginDescription<K>);
  }

  #reused(key: string, { definition, parameters }: PluginDescription, given: readonly unknown[]): unknown {
    const old = this.#previous === undefined ? undefined : this.#previous.#made.get(key);
    if (old === undefined || old.description.definition !== definition) return undefined;
    if (given.length !== old.given.length || given.some((instance, at) => instance !== old.given[at])) return undefined;
    return sameParameters(old.description.parameters, parameters) ? old.instance : undefined;
  }
}

/** Why an instance is not ready yet; "" = it gives no reason, undefined = it is ready. */
function failureToBeReady(instance: PluginLifecycle): string | undefined {
  try {
    return (instance.ready?.() ?? true) ? undefined : "";
  } catch (error) {
    return messageOf(error);
  }
}

/** Parameters nested deeper count as different. */
const MAX_DEPTH = 64;

/**
 * Whether two sets of parameters are equal, so that plugins made of them do the same. Schemas may make any value of a file.
 * Plain data, dates, regular expressions, maps and sets are compared by content; all other values, such as functions, by
 * identity. Values that cannot be compared count as different. The plugin is then made again and loses only what it has learnt.
 */
export function sameParameters(a: unknown, b: unknown, depth = 0): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || depth > MAX_DEPTH) return false;
  const kind = Object.getPrototypeOf(a);
  if (kind !== Object.getPrototypeOf(b)) return false;
  if (a instanceof RegExp) return String(a) === String(b);
  if (a instanceof Date) return Object.is(a.getTime(), (b as Date).getTime());
  if (a instanceof Map || a instanceof Set) return sameParameters([...a], [...(b as typeof a)], depth + 1);
  if (kind !== Object.prototype && kind !== Array.prototype && kind !== null) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length || (a as unknown[]).length !== (b as unknown[]).length) return false;
  return keys.every(
    (key) =>
      Object.hasOwn(b, key) &&
      sameParameters((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key], depth + 1),
  );
}
