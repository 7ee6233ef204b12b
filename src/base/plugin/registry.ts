import { SluiceError } from "../inference/errors.ts";
import type { DataKey } from "./keys.ts";
import type { PluginDefinition } from "./kinds.ts";

/** The plugin types a process knows. */
export class PluginRegistry {
  readonly #types = new Map<string, PluginDefinition>();

  /** @throws SluiceError PLUGIN_TYPE_TAKEN when two definitions claim one type name */
  constructor(definitions: Iterable<PluginDefinition>) {
    for (const definition of definitions) {
      if (this.#types.has(definition.type))
        throw new SluiceError("PLUGIN_TYPE_TAKEN", `two plugins claim the type ${definition.type}`);
      this.#types.set(definition.type, definition);
    }
  }

  get(type: string): PluginDefinition | undefined {
    return this.#types.get(type);
  }

  /** All type names, sorted. */
  types(): string[] {
    return [...this.#types.keys()].sort();
  }

  /**
   * The producer type that is made with its defaults when no configured producer writes `key`. Some types cannot do without
   * parameters.
   */
  defaultProducer(key: DataKey): PluginDefinition<"producer"> | undefined {
    for (const definition of this.#types.values())
      if (definition.kind !== "producer" || definition.onlyByName === true) continue;
      else if (definition.produces.includes(key) && doesWithout(definition))
        return definition as PluginDefinition<"producer">;
    return undefined;
  }
}

/** Whether a plugin can be made without parameters. A user's schema may hold code that fails: then the plugin cannot. */
function doesWithout({ parameters }: PluginDefinition): boolean {
  try {
    return parameters.safeParse({}).success;
  } catch {
    return false;
  }
}
