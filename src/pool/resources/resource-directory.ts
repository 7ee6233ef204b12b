import type { Clock } from "../../base/clock/clock.ts";
import { FolderWatch } from "../../base/document/folder-watch.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { messageOf, oneLine, SluiceError } from "../../base/inference/errors.ts";
import { type FolderContent, ManifestFolder } from "./manifests.ts";
import { type InferencePool, objectId, type ResourceObject } from "./objects.ts";
import type { ResourceStore } from "./resource-store.ts";

/** The most problems or warnings of one reading that get a line each. */
const MAX_TOLD = 20;

/** Reports for people; each text is one line. */
interface ResourceLog {
  warn(text: string): void;
  info(text: string): void;
}

interface ResourceDirectoryOptions {
  readonly path: string;
  /** Of objects that name none; default `default`. */
  readonly namespace?: string | undefined;
  readonly store: ResourceStore;
  readonly clock: Clock;
  readonly log: ResourceLog;
}

/** API objects from a folder of manifests instead of from Kubernetes, followed while the process runs. */
export class ResourceDirectory {
  readonly #options: ResourceDirectoryOptions;
  readonly #folder: ManifestFolder;
  readonly #watch: FolderWatch;
  /** Lines of the last reading, which are not repeated while they stay the same. */
  #idle: ReadonlySet<string> = new Set();

  constructor(options: ResourceDirectoryOptions) {
    const { path, clock, log, namespace } = options;
    this.#options = options;
    this.#folder = new ManifestFolder(path, namespace);
    this.#watch = new FolderWatch({
      folder: path,
      clock,
      signature: () => this.#folder.signature(),
      changed: () => this.#reload(),
      unwatchable: (text) => log.warn(`resources: ${text}`),
    });
  }

  /**
   * Reads the folder into the store, then follows it. While the process runs, a file that becomes unusable keeps its last
   * usable content, and a folder that is invalid as a whole changes nothing.
   * @throws SluiceError RESOURCES_FILE when any file is unusable, and the errors of `ManifestFolder.read` and
   * `ResourceStore.replace`
   */
  async start(): Promise<void> {
    const seen = await this.#folder.signature();
    const content = await this.#folder.read();
    const [first, ...more] = content.problems;
    if (first !== undefined)
      throw new SluiceError("RESOURCES_FILE", more.length > 0 ? `${first}\n(and ${more.length} more)` : first);
    this.#options.store.replace(content.objects);
    this.#tell(content);
    await this.#watch.start(seen);
  }

  /** Stops following the folder; the objects stay. A reading that is under way may still be applied. */
  close(): void {
    this.#watch.close();
  }

  async #reload(): Promise<void> {
    const { store, log } = this.#options;
    try {
      const content = await this.#folder.read();
      for (const problem of content.problems.slice(0, MAX_TOLD))
        log.warn(`resources: Sluice keeps the last good version of a file: ${oneLine(problem)}`);
      if (content.problems.length > MAX_TOLD)
        log.warn(`resources: ${content.problems.length - MAX_TOLD} more files: Sluice keeps their last good versions`);
      store.replace(content.objects);
      this.#tell(content);
    } catch (error) {
      log.warn(`resources: Sluice keeps the previous objects: ${messageOf(error)}`);
    }
  }

  #tell({ objects, files, warnings }: FolderContent): void {
    const { store, log, path } = this.#options;
    const idle = idleObjects(objects, store);
    const told = [...warnings, ...idle.filter((line) => !this.#idle.has(line))];
    this.#idle = new Set(idle);
    for (const warning of told.slice(0, MAX_TOLD)) log.warn(`resources: ${warning}`);
    if (told.length > MAX_TOLD) log.warn(`resources: ${told.length - MAX_TOLD} more warnings`);
    const found = `resources: ${path}: ${objects.length} objects in ${files} files`;
    const { pool } = store;
    if (pool !== undefined) {
      log.info(`${found}, pool ${pool.meta.namespace}/${pool.meta.name} of ${pool.group}`);
      return;
    }
    const others = objects
      .filter(({ kind }) => kind === "InferencePool")
      .map(({ meta }) => `${meta.namespace}/${meta.name}`);
    const but = others.length === 0 ? "" : ` (the files have ${others.slice(0, MAX_TOLD).join(", ")})`;
    log.warn(
      `${found}, but not the InferencePool of this process${but}; not ready: requests get 503 until the pool exists`,
    );
  }
}

/**
 * The objects of a complete set that have no effect although each alone is valid. Their `poolRef` names a pool that is not in
 * the set, or another InferenceModel has their model name. Objects of other pools of the set are left out. The store itself
 * reports objects that refer to our pool in another group. A cluster never shows a complete set, so only a folder is checked.
 * @param store the store with these objects; without a pool the list is empty, since then every object is idle
 * @returns one line for each
 */
function idleObjects(objects: readonly ResourceObject[], store: ResourceStore): string[] {
  const ours = store.pool;
  if (ours === undefined) return [];
  const pools = new Set(objects.filter(({ kind }) => kind === "InferencePool").map(({ meta }) => objectId(meta)));
  const lines: string[] = [];
  for (const object of objects) {
    if (object.kind === "InferencePool" || object.meta.deleting) continue;
    const why = whyIdle(object, ours, pools, store);
    if (why !== undefined) lines.push(`${object.kind} ${objectId(object.meta)} has no effect: ${why}`);
  }
  return lines;
}

function whyIdle(
  object: Exclude<ResourceObject, InferencePool>,
  ours: InferencePool,
  pools: ReadonlySet<string>,
  store: ResourceStore,
): string | undefined {
  const { poolRef, meta } = object;
  const wanted = `${meta.namespace}/${poolRef.name}`;
  if (!pools.has(wanted))
    return `there is no InferencePool ${wanted}; this process serves ${objectId(ours.meta)}${didYouMean(wanted, pools)}`;
  if (object.kind !== "InferenceModel" || wanted !== objectId(ours.meta) || poolRef.group !== ours.group)
    return undefined;
  const winner = store.model(object.modelName)?.model;
  if (winner === undefined || objectId(winner.meta) === objectId(meta)) return undefined;
  return `${objectId(winner.meta)} has the same modelName and wins, first by metadata.creationTimestamp, then by name`;
}
