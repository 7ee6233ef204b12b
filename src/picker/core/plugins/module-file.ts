import { createHash } from "node:crypto";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { dirname, extname, isAbsolute, relative, resolve, sep } from "node:path";
import { didYouMean } from "../../../base/document/nearest.ts";
import { messageOf } from "../../../base/inference/errors.ts";

/** What Node runs as it is. */
const ENDINGS: readonly string[] = [".ts", ".mts", ".cts", ".js", ".mjs", ".cjs"];
/** The largest module, bytes. */
const MAX_MODULE_BYTES = 16 * 1024 * 1024;

/** The file of a module. */
export interface ModuleFile {
  /** Absolute, symlinks left as they are. */
  readonly path: string;
  /** Absolute, without symlinks. */
  readonly real: string;
  /** Of its bytes. */
  readonly hash: string;
}

/**
 * Finds the file that a configuration means by `module`: inside the configuration's folder, symlinks included, or
 * wherever an absolute path says (design rule 12). The symlinks of a mounted ConfigMap stay inside their mount.
 * @param folder of the configuration; undefined = it lies in none
 * @param source what messages call the configuration
 * @returns the file, or why there is none, in words that follow the module's name
 */
export async function locateModule(
  module: string,
  folder: string | undefined,
  source: string,
): Promise<ModuleFile | string> {
  const explicit = isAbsolute(module);
  if (!explicit && folder === undefined)
    return `is a relative path, but ${source} lies in no folder; write an absolute path, or give the configuration as a file`;
  const path = resolve(folder ?? "/", module);
  if (!explicit && isOutside(resolve(folder!), path)) return `leads out of the folder of the configuration; ${REMEDY}`;
  if (!ENDINGS.includes(extname(path))) return `is no module: the name of one ends in ${ENDINGS.join(", ")}`;
  try {
    const real = await realpath(path);
    if (!explicit && isOutside(await realpath(folder!), real))
      return `is a link to ${real}, out of the folder of the configuration; ${REMEDY}`;
    const found = await stat(real);
    if (!found.isFile()) return "is no file; name the file of the module";
    if (found.size > MAX_MODULE_BYTES) return `is larger than the ${MAX_MODULE_BYTES} bytes accepted for a module`;
    const hash = createHash("sha256")
      .update(await readFile(real))
      .digest("hex");
    return { path, real, hash };
  } catch (error) {
    return unreadable(path, module, error);
  }
}

const REMEDY = "relative paths stay inside it: put the module there, or write its absolute path";

/** Names such as `..data` begin with two dots and lie inside all the same. */
function isOutside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === ".." || way.startsWith(`..${sep}`);
}

async function unreadable(path: string, module: string, error: unknown): Promise<string> {
  const { code } = error as NodeJS.ErrnoException;
  if (code === "EACCES" || code === "EPERM") return "may not be read by this user";
  if (code !== "ENOENT" && code !== "ENOTDIR") return `cannot be read: ${messageOf(error)}`;
  const beside = await readdir(dirname(path)).catch(() => []);
  const folder = module.slice(0, module.lastIndexOf("/") + 1);
  const modules = beside.filter((name) => ENDINGS.includes(extname(name))).map((name) => `${folder}${name}`);
  return `does not exist${didYouMean(module, modules) || `: there is no ${path}`}`;
}
