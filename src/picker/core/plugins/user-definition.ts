import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { FairnessPolicy } from "../../../base/plugin/flow-kinds.ts";
import type { PluginDefinition, PluginKind } from "../../../base/plugin/kinds.ts";
import { importFailure } from "./plugin-import.ts";

interface Methods {
  readonly needed: readonly string[];
  readonly optional?: readonly string[];
}

/** The methods that a decision or an exchange calls: they must exist, and the caller uses their result at once. */
const METHODS: Readonly<Partial<Record<PluginKind, Methods>>> = {
  filter: { needed: ["filter"] },
  scorer: { needed: ["score"] },
  picker: { needed: ["pick"] },
  producer: {
    needed: ["produce"],
    optional: ["routed", "refused", "follow", "endpointAdded", "endpointRemoved", "debugState"],
  },
  "profile-handler": { needed: ["pick", "processResults"] },
  decider: { needed: ["decide"] },
  screener: { needed: ["screen"] },
  admitter: { needed: ["admit"] },
  "request-header-processor": { needed: ["process"] },
  "saturation-detector": { needed: ["saturation"], optional: ["expected"] },
  "ordering-policy": { needed: ["rank"] },
  "fairness-policy": { needed: ["choice"] },
  "usage-limit-policy": { needed: ["limit"] },
  "request-hook": { needed: [], optional: ["preRequest", "responseReceived", "responseComplete"] },
};

/** The methods of what `choice` of a fairness policy returns. */
const CHOICE: Methods = { needed: ["joined", "left", "next", "served"], optional: ["holds", "dispatched", "ended"] };

/**
 * Returns a definition of the user whose `create` is watched. An error of `create` becomes an error that names plugin and
 * module; so does an instance with missing or wrong methods. Without this check, a missing method would fail in every decision
 * instead of at the start. An error of an asynchronous method would end the process.
 * @param module the name in the configuration
 * @param path of the module, absolute and without symlinks
 * @param code the hash of the module's code
 */
export function watched(definition: PluginDefinition, module: string, path: string, code: string): PluginDefinition {
  const known = WATCHED.get(definition);
  if (known !== undefined) return known;
  const wrapped: PluginDefinition = {
    ...definition,
    code,
    ...told(definition, module, path),
    create(parameters, context) {
      const refuse = (problem: string, cause?: unknown): SluiceError =>
        new SluiceError(
          "PLUGIN_CREATE",
          `plugin ${context.name} (type: ${definition.type}, of ${module}): ${problem}`,
          {
            cause,
          },
        );
      let instance: ReturnType<PluginDefinition["create"]>;
      try {
        instance = definition.create(parameters, context);
      } catch (cause) {
        throw refuse(
          `create failed: ${cause instanceof SluiceError ? messageOf(cause) : importFailure(path, cause)}`,
          cause,
        );
      }
      let problem: string | undefined;
      try {
        problem = mistakeIn(definition.kind, instance);
      } catch (cause) {
        problem = `the object from create cannot be read: ${importFailure(path, cause)}`;
      }
      if (problem !== undefined) throw refuse(problem);
      return instance;
    },
  };
  WATCHED.set(definition, wrapped);
  return wrapped;
}

/** The functions of a definition that report on its parameters, and the required type of their result. */
const TELLS = {
  references: (value: unknown) => Array.isArray(value) || "a list of references",
  companions: (value: unknown) => Array.isArray(value) || "a list of plugins",
  headers: (value: unknown) => areTexts(value) || "a list of names",
  notes: (value: unknown) => areTexts(value) || "a list of sentences",
  alsoFilter: (value: unknown) => typeof value === "object" || value === undefined || "a filter or undefined",
} as const;

function areTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every((text) => typeof text === "string");
}

/** These functions run while a configuration is read. Their errors must name the plugin and be errors of the configuration. */
function told(definition: PluginDefinition, module: string, path: string): Partial<PluginDefinition> {
  const whose = (name: string): string => `the plugin type ${definition.type} of ${module}: its ${name}`;
  const guarded = (Object.keys(TELLS) as (keyof typeof TELLS)[]).flatMap((name) => {
    const tell = definition[name] as ((parameters: unknown) => unknown) | undefined;
    if (tell === undefined) return [];
    const watching = (parameters: unknown): unknown => {
      let value: unknown;
      try {
        value = tell(parameters);
      } catch (cause) {
        throw new SluiceError("PLUGIN_CREATE", `${whose(name)} failed: ${importFailure(path, cause)}`, { cause });
      }
      const expected = TELLS[name](value);
      if (expected !== true) throw new SluiceError("PLUGIN_CREATE", `${whose(name)} must return ${expected}`);
      return value;
    };
    return [[name, watching] as const];
  });
  return Object.fromEntries(guarded);
}

/** Two modules may export the same plugin; then it counts as one. */
const WATCHED = new WeakMap<PluginDefinition, PluginDefinition>();

function mistakeIn(kind: PluginKind, instance: unknown): string | undefined {
  if (typeof instance !== "object" || instance === null)
    return `create returned ${instance === null || instance === undefined ? String(instance) : `a ${typeof instance}`}; it must return the plugin, an object`;
  if (instance instanceof Promise) {
    instance.catch(() => undefined);
    return "create is asynchronous; it must return the plugin itself";
  }
  const plugin = instance as Readonly<Record<string, unknown>>;
  const mistake = mistakeInMethods(plugin, METHODS[kind], "create", kind);
  if (mistake !== undefined) return mistake;
  if (kind === "fairness-policy" && plugin["oneQueue"] !== true) {
    // Made for this check alone: each band makes its own.
    const choice: unknown = (plugin as unknown as FairnessPolicy).choice();
    if (typeof choice !== "object" || choice === null)
      return "its method choice must return an object, the choice of a band";
    return mistakeInMethods(choice as Readonly<Record<string, unknown>>, CHOICE, "choice", kind);
  }
  if (!["function", "undefined"].includes(typeof plugin["close"]))
    return "the object from create has a close that is not a function; Sluice calls close when the plugin is no longer needed";
  const { ready } = plugin;
  if (ready !== undefined && (typeof ready !== "function" || isAsync(ready)))
    return "the object from create has a ready that is not a synchronous function; ready must return whether the plugin is ready";
  const { prepareBudget: budget } = plugin;
  if (kind === "producer" && budget !== undefined && !(typeof budget === "number" && budget > 0))
    return "the object from create has a prepareBudget that is not a number above 0: the milliseconds that prepare may take";
  const { maxNumOfEndpoints: most } = plugin;
  if (kind === "picker" && !(Number.isInteger(most) && (most as number) >= 1))
    return "the object from create has no maxNumOfEndpoints: the number of endpoints for the proxy, 1 or more";
  return undefined;
}

/** @param from the function that made the object */
function mistakeInMethods(
  object: Readonly<Record<string, unknown>>,
  { needed, optional = [] }: Methods = { needed: [] },
  from: string,
  kind: PluginKind,
): string | undefined {
  for (const name of [...needed, ...optional]) {
    const method = object[name];
    if (method === undefined && optional.includes(name)) continue;
    if (typeof method !== "function") return `the object from ${from} has no method ${name}, which a ${kind} needs`;
    if (isAsync(method)) return `its method ${name} is asynchronous, but a decision does not wait; ${WAITING}`;
  }
  return undefined;
}

const WAITING = "wait in `prepare` of a producer instead";

function isAsync(method: object): boolean {
  return Object.prototype.toString.call(method) === "[object AsyncFunction]";
}
