import { SluiceError } from "../../../base/inference/errors.ts";
import { type Dialect, MappedDialect } from "./dialect.ts";
import { ENGINES, type EngineMapping, VLLM } from "./engines.ts";

/** Label of an endpoint that names its kind of model server. */
export const ENGINE_LABEL = "llm-d.ai/engine-type";
/** Counts where the label above, or the configured one in its place, is absent. */
const LEGACY_ENGINE_LABEL = "inference.networking.k8s.io/engine-type";

/** How the engine of an endpoint is found. An absent setting is as in the reference. */
export interface EngineChoice {
  /** Label that names the engine of an endpoint; default `llm-d.ai/engine-type`, "" = all have the default engine. */
  readonly engineLabelKey?: string;
  /** Engine of endpoints without that label, or with the name of an unknown engine; default `vllm`. */
  readonly defaultEngine?: string;
}

/** Finds the dialect of an endpoint's metrics page (scheduling 1.5). */
export class Dialects {
  readonly #mappings: ReadonlyMap<string, EngineMapping>;
  readonly #made = new Map<string, Dialect>();
  readonly #label: string;
  readonly #default: Dialect;

  /**
   * @param engines mappings besides the built-in ones, or in place of those with the same name
   * @throws SluiceError METRIC_SPECIFICATION; ENGINE_UNKNOWN for the default engine
   */
  constructor(engines: readonly EngineMapping[] = [], choice: EngineChoice = {}) {
    this.#mappings = new Map([...ENGINES, ...engines].map((mapping) => [mapping.name, mapping]));
    for (const { name } of engines) this.#named(name);
    this.#label = choice.engineLabelKey ?? ENGINE_LABEL;
    const name = choice.defaultEngine ?? VLLM.name;
    const fallback = this.#named(name);
    if (fallback === undefined)
      throw new SluiceError(
        "ENGINE_UNKNOWN",
        `the default engine ${JSON.stringify(name)} is not known; there are ${[...this.#mappings.keys()].join(", ")}`,
      );
    this.#default = fallback;
  }

  /** The dialect of an endpoint with these labels; the default engine's for an unknown engine and for none. */
  of(labels: Readonly<Record<string, string>>): Dialect {
    if (this.#label === "") return this.#default;
    const name = labels[this.#label] ?? labels[LEGACY_ENGINE_LABEL];
    return (name === undefined ? undefined : this.#named(name)) ?? this.#default;
  }

  /** Made when it is first needed: each holds a table of 64 KiB. */
  #named(name: string): Dialect | undefined {
    let dialect = this.#made.get(name);
    const mapping = this.#mappings.get(name);
    if (dialect === undefined && mapping !== undefined) {
      dialect = new MappedDialect(mapping);
      this.#made.set(name, dialect);
    }
    return dialect;
  }
}
