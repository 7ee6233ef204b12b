import type { Dialect } from "./dialect.ts";
import { ENGINES, type EngineMapping, VLLM } from "./engines.ts";
import { MappedDialect } from "./mapped-dialect.ts";

/** Labels of an endpoint that name its kind of model server; the second counts where the first is absent. */
const ENGINE_LABEL = "llm-d.ai/engine-type";
const LEGACY_ENGINE_LABEL = "inference.networking.k8s.io/engine-type";

/** Which dialect the metrics page of an endpoint is written in (scheduling 1.5). */
export class Dialects {
  readonly #mappings: ReadonlyMap<string, EngineMapping>;
  readonly #made = new Map<string, Dialect>();
  readonly #default: Dialect;

  /**
   * @param engines mappings besides the built-in ones, or in place of those with the same name
   * @throws SluiceError METRIC_SPECIFICATION
   */
  constructor(engines: readonly EngineMapping[] = []) {
    this.#mappings = new Map([...ENGINES, ...engines].map((mapping) => [mapping.name, mapping]));
    for (const { name } of engines) this.#named(name);
    this.#default = this.#named(VLLM.name)!;
  }

  /** The dialect of an endpoint with these labels; vLLM's for an unknown engine and for none. */
  of(labels: Readonly<Record<string, string>>): Dialect {
    const name = labels[ENGINE_LABEL] ?? labels[LEGACY_ENGINE_LABEL];
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
