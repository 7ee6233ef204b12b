import type { Dirent } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";

/** The most entries of folders that one search reads, and how deep it goes. */
const MAX_ENTRIES = 50_000;
const MAX_DEPTH = 8;
/** Milliseconds between two searches for models that were not found. */
const SEARCH_AGAIN = 30_000;

/** Finds the `tokenizer.json` of models, by a map and in folders (the local tokenizers of the reference's KV-cache library). */
export class ModelPaths {
  readonly #map: ReadonlyMap<string, string>;
  readonly #directories: readonly string[];
  readonly #fileName: string;
  readonly #clock: Clock;
  #found: Promise<ReadonlyMap<string, string>> | undefined;
  #searchedAt = 0;

  constructor(
    parts: {
      readonly modelTokenizerMap: ReadonlyMap<string, string>;
      readonly directories: readonly string[];
      readonly fileName: string;
    },
    clock: Clock,
  ) {
    this.#map = parts.modelTokenizerMap;
    this.#directories = parts.directories;
    this.#fileName = parts.fileName;
    this.#clock = clock;
  }

  /** @returns undefined when there is none. Searches the folders again after half a minute: volumes may be mounted late. */
  async of(model: string): Promise<string | undefined> {
    const given = this.#map.get(model);
    if (given !== undefined) {
      const isFolder = (await stat(given).catch(() => undefined))?.isDirectory() ?? false;
      return isFolder ? join(given, this.#fileName) : given;
    }
    const known = (await this.#search()).get(model);
    if (known !== undefined || this.#clock.now() - this.#searchedAt < SEARCH_AGAIN) return known;
    this.#found = undefined;
    return (await this.#search()).get(model);
  }

  #search(): Promise<ReadonlyMap<string, string>> {
    if (this.#found === undefined) {
      this.#searchedAt = this.#clock.now();
      this.#found = tokenizersIn(this.#directories, this.#fileName);
    }
    return this.#found;
  }
}

/** @returns paths by model. Folders that cannot be read hold none. */
async function tokenizersIn(directories: readonly string[], fileName: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  let entries = 0;
  const walk = async (root: string, folder: string, depth: number): Promise<void> => {
    const listed: Dirent[] = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of listed.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (++entries > MAX_ENTRIES) return;
      if (entry.isDirectory()) {
        if (depth < MAX_DEPTH) await walk(root, join(folder, entry.name), depth + 1);
      } else if (entry.name === fileName) {
        const model = modelOf(relative(root, folder));
        if (!found.has(model)) found.set(model, join(folder, fileName));
      }
    }
  };
  for (const root of directories) await walk(root, root, 0);
  return found;
}

/**
 * Returns the name of the model in a folder: `org/name` for a folder below `models--org--name`, as in a cache of Hugging Face, else
 * the path of the folder.
 */
export function modelOf(folder: string): string {
  const parts = folder.split(sep);
  const cached = parts.find((part) => part.startsWith("models--"));
  return cached === undefined ? parts.join("/") : cached.slice("models--".length).split("--").join("/");
}
