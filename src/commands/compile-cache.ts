import { statSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { join } from "node:path";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The folder in which Node.js keeps what it compiled, unless NODE_COMPILE_CACHE names another: `sluice` in the cache folder of
 * the user. The files hold code that later starts run, so the folder of the user must belong to the user of the process:
 * with `sudo`, HOME may be that of another user. The shared temporary folder is Node's own choice, and is not safe for this.
 * @param uid the user of the process; undefined where the system has none
 * @param owner the user to whom a folder belongs; undefined when there is no such folder
 * @returns undefined when there is no such place
 */
export function cacheFolder(
  env: Environment,
  uid: number | undefined,
  owner: (folder: string) => number | undefined,
): string | undefined {
  if (uid === undefined) return undefined;
  const { XDG_CACHE_HOME: caches = "", HOME: home = "" } = env;
  const isOwn = (folder: string): boolean => folder.startsWith("/") && owner(folder) === uid;
  if (isOwn(caches)) return join(caches, "sluice");
  return isOwn(home) ? join(home, ".cache", "sluice") : undefined;
}

/**
 * Lets Node.js keep what it compiles from now on: a start then takes less CPU time. The files have the names of the modules, so
 * a new release overwrites those of the old one. A folder that cannot be written means that nothing is kept.
 */
export function keepCompiled(env: Environment): void {
  // Node.js itself obeys these, and has begun already.
  if (env["NODE_COMPILE_CACHE"] !== undefined || env["NODE_DISABLE_COMPILE_CACHE"] !== undefined) return;
  const folder = cacheFolder(env, process.getuid?.(), ownerOf);
  if (folder !== undefined) enableCompileCache(folder);
}

function ownerOf(folder: string): number | undefined {
  try {
    return statSync(folder).uid;
  } catch {
    return undefined;
  }
}
