import { createHash } from "node:crypto";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { registerHooks } from "node:module";
import { dirname, extname, isAbsolute, relative, resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Clock } from "../../../base/clock/clock.ts";
import { didYouMean } from "../../../base/document/nearest.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import * as contract from "../../../base/plugin/index.ts";

/** The endings of files that Node runs unchanged. */
const ENDINGS: readonly string[] = [".ts", ".mts", ".cts", ".js", ".mjs", ".cjs"];
/** The largest module in bytes. */
const MAX_MODULE_BYTES = 16 * 1024 * 1024;

/** The file of a module. */
export interface ModuleFile {
  /** Absolute, with symlinks. */
  readonly path: string;
  /** Absolute, without symlinks. */
  readonly real: string;
  /** The hash of the file's bytes. */
  readonly hash: string;
}

/**
 * Finds the file of a `module` in a configuration. It is inside the configuration's folder, also after symlinks, or at any
 * absolute path. The symlinks of a mounted ConfigMap stay inside their mount.
 * @param folder of the configuration; undefined = it is in none
 * @param source the name of the configuration in messages
 * @returns the file, or the reason why there is none, in words that follow the module's name
 */
export async function locateModule(
  module: string,
  folder: string | undefined,
  source: string,
): Promise<ModuleFile | string> {
  const explicit = isAbsolute(module);
  if (!explicit && folder === undefined)
    return `is a relative path, but ${source} is not in a folder; write an absolute path, or give the configuration as a file`;
  const path = resolve(folder ?? "/", module);
  if (!explicit && isOutside(resolve(folder!), path)) return `leads out of the folder of the configuration; ${REMEDY}`;
  if (!ENDINGS.includes(extname(path))) return `is not a module: its name must end in ${ENDINGS.join(", ")}`;
  try {
    const real = await realpath(path);
    if (!explicit && isOutside(await realpath(folder!), real))
      return `is a link to ${real}, outside the folder of the configuration; ${REMEDY}`;
    const found = await stat(real);
    if (!found.isFile()) return "is not a file; name the file of the module";
    if (found.size > MAX_MODULE_BYTES) return `is larger than ${MAX_MODULE_BYTES} bytes, the limit for a module`;
    const hash = createHash("sha256")
      .update(await readFile(real))
      .digest("hex");
    return { path, real, hash };
  } catch (error) {
    return unreadable(path, module, error);
  }
}

const REMEDY = "put the module into this folder, or write its absolute path";

/** Names such as `..data` begin with two dots but are inside the folder. */
function isOutside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === ".." || way.startsWith(`..${sep}`);
}

async function unreadable(path: string, module: string, error: unknown): Promise<string> {
  const { code } = error as NodeJS.ErrnoException;
  if (code === "EACCES" || code === "EPERM") return "is not readable for this user";
  if (code !== "ENOENT" && code !== "ENOTDIR") return `cannot be read: ${messageOf(error)}`;
  const beside = await readdir(dirname(path)).catch(() => []);
  const folder = module.slice(0, module.lastIndexOf("/") + 1);
  const modules = beside.filter((name) => ENDINGS.includes(extname(name))).map((name) => `${folder}${name}`);
  return `does not exist${didYouMean(module, modules) || `: there is no ${path}`}`;
}

/** The most milliseconds that a module may take to load, with its top-level `await`. */
const LOAD_BUDGET = 10_000;

/** The names that users' modules import, and the file of Sluice behind each: a source file or a built one, like this file. */
const OURS: ReadonlyMap<string, string> = new Map(
  [
    ["sluice/plugin", "../../../base/plugin/index"] as const,
    ["sluice/plugin/testing", "../../testing/index"] as const,
  ].map(([name, file]) => [name, new URL(`${file}${extname(import.meta.url)}`, import.meta.url).href]),
);

let resolving = false;

/**
 * After this call, `sluice/plugin` is the running copy for every importing module, even with another copy installed beside it.
 * So there is one zod, one Rejection, one set of keys. Call it once in every thread that loads modules of users; further calls
 * do nothing.
 */
export function resolveOurs(): void {
  if (resolving) return;
  resolving = true;
  registerHooks({
    resolve(specifier, context, next) {
      const url = OURS.get(specifier);
      return url === undefined ? next(specifier, context) : { url, shortCircuit: true };
    },
  });
}

/** The exports of a module, by name. */
export type ModuleExports = Readonly<Record<string, unknown>>;

/**
 * Imports a module of the user. The module runs with the rights of this process.
 * @param path absolute
 * @throws SluiceError PLUGIN_LOAD; the message is only the cause, in one line
 */
export async function importModule(path: string, clock: Clock): Promise<ModuleExports> {
  resolveOurs();
  const late = Promise.withResolvers<undefined>();
  const timer = clock.after(LOAD_BUDGET, () => late.resolve(undefined));
  let module: ModuleExports | undefined;
  try {
    module = await Promise.race([import(pathToFileURL(path).href) as Promise<ModuleExports>, late.promise]);
  } catch (cause) {
    const real = await realpath(path).catch(() => path);
    throw new SluiceError("PLUGIN_LOAD", importFailure(real, cause), { cause });
  } finally {
    timer.cancel();
  }
  if (module !== undefined) return module;
  const seconds = LOAD_BUDGET / 1000;
  throw new SluiceError("PLUGIN_LOAD", `is still not loaded after ${seconds} s: its top-level await does not end`);
}

/**
 * Returns the reason why the import of a module failed, in one line for its author: place, problem, and a remedy where one is
 * known.
 * @param path of the module, absolute and without symlinks
 * @param error thrown by `import`: any value, if the module threw it
 */
export function importFailure(path: string, error: unknown): string {
  const text = messageOf(error).trim();
  return `${placeOf(path, error)}${text}${remedyOf(error, text)}`;
}

/** The stack of a syntax error begins with the place. For other errors the first frame in a file of the author counts. */
function placeOf(path: string, error: unknown): string {
  const stack = error instanceof Error ? (error.stack ?? "") : "";
  const [, head, headLine] = /^(?:file:\/\/)?(\/.*):(\d+)\n/.exec(stack) ?? [];
  if (head !== undefined) return place(path, head, headLine!);
  for (const [, url, line] of stack.matchAll(/^ {4}at .*?(file:\/\/\S+?):(\d+):\d+\)?$/gm)) {
    const file = fileOf(url!);
    if (file !== undefined && !file.startsWith(SOURCES) && !file.includes("/node_modules/"))
      return place(path, file, line!);
  }
  return "";
}

function place(path: string, file: string, line: string): string {
  return file === path ? `line ${line}: ` : `${file}, line ${line}: `;
}

function fileOf(url: string): string | undefined {
  try {
    return fileURLToPath(url);
  } catch {
    return undefined;
  }
}

/** The folder of Sluice's own stack frames: the module causes an error that Sluice throws when the module calls it. */
const SOURCES = fileURLToPath(new URL("../../..", import.meta.url));

function remedyOf(error: unknown, text: string): string {
  const code = (error as { readonly code?: unknown } | null | undefined)?.code;
  if (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX")
    return "; Node.js only strips types: use no enums, namespaces or parameter properties";
  if (code === "ERR_MODULE_NOT_FOUND") {
    if (text.startsWith("Cannot find package 'sluice'"))
      return "; import sluice/plugin, or in tests sluice/plugin/testing";
    if (text.startsWith("Cannot find package")) return "; install the package beside the module, or do without it";
    const [, missing] = /^Cannot find module '([^']+)'/.exec(text) ?? [];
    return missing !== undefined && !/\.\w+$/.test(missing)
      ? "; an import names the file with its ending, such as ./zones.ts"
      : "";
  }
  const [, name] = /^The requested module 'sluice\/plugin' does not provide an export named '(.*)'$/.exec(text) ?? [];
  if (name === undefined) return "";
  return didYouMean(name, Object.keys(contract)) || "; if it is a type, import it with `import type`";
}
