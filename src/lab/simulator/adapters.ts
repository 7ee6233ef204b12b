import { ApiError } from "./api-error.ts";
import type { LoraModule } from "./lora-module.ts";

/** Adapters a server can know at the same time. */
export const MAX_ADAPTERS = 1024;

/** An adapter that was loaded. */
export interface Adapter extends LoraModule {
  /** Differs for each load, so that prefixes cached under an earlier load of the same name are not found. */
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

  /** Throws ApiError 400 when the name is taken or 1,024 adapters are loaded. */
  load(module: LoraModule): void {
    if (this.#byName.has(module.name)) {
      throw new ApiError(400, `The LoRA adapter \`${module.name}\` is already loaded`, "lora_name");
    }
    if (this.#byName.size >= MAX_ADAPTERS) {
      throw new ApiError(400, `${MAX_ADAPTERS} LoRA adapters are loaded; unload one first`, "lora_name");
    }
    this.#byName.set(module.name, { ...module, generation: this.#generation++ });
  }

  /** Throws ApiError 404 when it isn't loaded. Sequences that use it go on. */
  unload(name: string): void {
    if (!this.#byName.delete(name)) {
      throw new ApiError(404, `The LoRA adapter \`${name}\` cannot be found`, "lora_name");
    }
  }
}
