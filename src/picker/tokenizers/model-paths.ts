import type { Dirent, Stats } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";

/** The most entries of folders that one search reads, and how deep it goes. */
const MAX_ENTRIES = 50_000;
const MAX_DEPTH = 8;
/** Milliseconds between two searches for a model that was not found. */
const SEARCH_AGAIN = 30_000;

/** What the searches ask of the file system. */
export const REAL_FILES = {
  stat: (path: string): Promise<Stats> => stat(path),
  list: (path: string): Promise<Dirent[]> => readdir(path, { withFileTypes: true }),
};

/** Finds the `tokenizer.json` of models, by a map and in folders (the local tokenizers of the reference's KV-cache library). */
export class ModelPaths {
  readonly #map: ReadonlyMap<string, string>;
  readonly #folders: Lookup;
  readonly #mapped = new Map<string, Lookup>();

  constructor(
    parts: {
      readonly modelTokenizerMap: ReadonlyMap<string, string>;
      readonly directories: readonly string[];
      readonly fileName: string;
    },
    clock: Clock,
    files: typeof REAL_FILES = REAL_FILES,
  ) {
    const { modelTokenizerMap, directories, fileName } = parts;
    this.#map = modelTokenizerMap;
    this.#folders = new Lookup(clock, () => tokenizersIn(files, directories, fileName));
    for (const [model, given] of modelTokenizerMap)
      this.#mapped.set(model, new Lookup(clock, () => tokenizerAt(files, model, given, fileName)));
  }

  /** What a search has found already; undefined = nothing so far. */
  known(model: string): string | undefined {
    return this.#lookupOf(model).known(model);
  }

  /**
   * @param signal ends the wait for a volume that is slow or hangs
   * @returns undefined when there is none. Searches again after half a minute: volumes may be mounted late.
   * @throws the signal's reason
   */
  async of(model: string, signal?: AbortSignal): Promise<string | undefined> {
    return (await this.#lookupOf(model).of(model, signal)) ?? this.#map.get(model);
  }

  #lookupOf(model: string): Lookup {
    return this.#mapped.get(model) ?? this.#folders;
  }
}

/** A search whose result is kept. One search runs at a time, whoever waits for it, and what was found before stays in use. */
class Lookup {
  readonly #clock: Clock;
  readonly #search: () => Promise<ReadonlyMap<string, string>>;
  readonly #waiting = new Set<() => void>();
  #found: ReadonlyMap<string, string> | undefined;
  #underWay = false;
  #searchedAt = 0;

  /** @param search never rejects */
  constructor(clock: Clock, search: () => Promise<ReadonlyMap<string, string>>) {
    this.#clock = clock;
    this.#search = search;
  }

  known(model: string): string | undefined {
    return this.#found?.get(model);
  }

  async of(model: string, signal: AbortSignal | undefined): Promise<string | undefined> {
    const known = this.known(model);
    if (known !== undefined) return known;
    if (!this.#underWay) {
      if (this.#found !== undefined && this.#clock.now() - this.#searchedAt < SEARCH_AGAIN) return undefined;
      this.#begin();
    }
    await this.#end(signal);
    return this.known(model);
  }

  #begin(): void {
    this.#underWay = true;
    this.#searchedAt = this.#clock.now();
    void this.#search().then((found) => {
      this.#found = found;
      this.#underWay = false;
      for (const go of this.#waiting) go();
      this.#waiting.clear();
    });
  }

  /** Waits for the search. One that was given up leaves nothing behind. */
  #end(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const go = (): void => {
        signal?.removeEventListener("abort", abandon);
        resolve();
      };
      const abandon = (): void => {
        this.#waiting.delete(go);
        reject(signal!.reason);
      };
      if (signal?.aborted === true) return reject(signal.reason);
      this.#waiting.add(go);
      signal?.addEventListener("abort", abandon, { once: true });
    });
  }
}

/** @returns the file of a path of the map, which may be a folder; nothing while it is not there. */
async function tokenizerAt(
  files: typeof REAL_FILES,
  model: string,
  given: string,
  fileName: string,
): Promise<ReadonlyMap<string, string>> {
  const found = await files.stat(given).catch(() => undefined);
  if (found === undefined) return new Map();
  return new Map([[model, found.isDirectory() ? join(given, fileName) : given]]);
}

/** @returns paths by model. Folders that cannot be read hold none. */
async function tokenizersIn(
  files: typeof REAL_FILES,
  directories: readonly string[],
  fileName: string,
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  let entries = 0;
  const walk = async (root: string, folder: string, depth: number): Promise<void> => {
    const listed: Dirent[] = await files.list(folder).catch(() => []);
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
