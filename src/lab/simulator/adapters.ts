import { SluiceError } from "../../base/inference/errors.ts";
import { SimApiError } from "./api-error.ts";

/** The most adapters of a server at a time. */
export const MAX_ADAPTERS = 1024;

/** A loaded adapter. */
interface Adapter extends LoraModule {
  /** Differs for each load, so prefixes cached under an earlier load of the same name are not found. */
  readonly generation: number;
}

/** The LoRA adapters a server knows, loaded at start or by request. */
export class Adapters {
  readonly #byName = new Map<string, Adapter>();
  #generation = 0;

  constructor(modules: readonly LoraModule[]) {
    for (const module of modules) this.load(module);
  }

  get(name: string): Adapter | undefined {
    return this.#byName.get(name);
  }

  /** In the order they were loaded. */
  list(): Adapter[] {
    return [...this.#byName.values()];
  }

  /** Throws SimApiError 400 when the name is taken or 1,024 adapters are loaded. */
  load(module: LoraModule): void {
    if (this.#byName.has(module.name)) {
      throw new SimApiError(400, `The LoRA adapter \`${module.name}\` is already loaded`, "lora_name");
    }
    if (this.#byName.size >= MAX_ADAPTERS) {
      throw new SimApiError(400, `${MAX_ADAPTERS} LoRA adapters are loaded; unload one first`, "lora_name");
    }
    this.#byName.set(module.name, { ...module, generation: this.#generation++ });
  }

  /** Throws SimApiError 404 when it isn't loaded. Sequences that use it go on. */
  unload(name: string): void {
    if (!this.#byName.delete(name)) {
      throw new SimApiError(404, `The LoRA adapter \`${name}\` cannot be found`, "lora_name");
    }
  }
}

/** An adapter as in `--lora-modules` or in a load request. */
export interface LoraModule {
  readonly name: string;
  readonly path: string;
}

/** Whether a name can be listed in `vllm:lora_requests_info`, which separates names by commas. */
export function isAdapterName(name: string): boolean {
  return name.length > 0 && name.length <= 256 && !name.includes(",");
}

/**
 * Reads one value of `--lora-modules`: `{"name": "a", "path": "/x"}` or `a=/x`.
 * @throws SluiceError SIM_OPTION when it is neither
 */
export function parseLoraModule(value: string): LoraModule {
  if (value.trimStart().startsWith("{")) {
    try {
      const { name, path } = JSON.parse(value) as Record<string, unknown>;
      if (typeof name === "string" && isAdapterName(name) && typeof path === "string") return { name, path };
    } catch {
      // Not JSON: the message below states the legal forms.
    }
  } else {
    const at = value.indexOf("=");
    if (at > 0 && isAdapterName(value.slice(0, at))) return { name: value.slice(0, at), path: value.slice(at + 1) };
  }
  throw new SluiceError(
    "SIM_OPTION",
    `lora-modules: expected {"name": ..., "path": ...} or name=path, got ${JSON.stringify(value.slice(0, 200))}`,
  );
}
