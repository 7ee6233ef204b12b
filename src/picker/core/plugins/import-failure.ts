import { fileURLToPath } from "node:url";
import { didYouMean } from "../../../base/document/nearest.ts";
import { messageOf } from "../../../base/inference/errors.ts";
import * as contract from "../../../base/plugin/index.ts";

/**
 * Why a module could not be imported, in one line for its author: where, what, and the remedy where one is known.
 * @param path of the module, absolute and without symlinks
 * @param error what `import` threw: anything, if the module did
 */
export function importFailure(path: string, error: unknown): string {
  const text = messageOf(error).trim();
  return `${placeOf(path, error)}${text}${remedyOf(error, text)}`;
}

/** A syntax error's stack begins with the place; of anything else the first frame in a file of the author's counts. */
function placeOf(path: string, error: unknown): string {
  const stack = error instanceof Error ? (error.stack ?? "") : "";
  const [, head, headLine] = /^(?:file:\/\/)?(\/.*):(\d+)\n/.exec(stack) ?? [];
  if (head !== undefined) return place(path, head, headLine!);
  for (const [, url, line] of stack.matchAll(/^ {4}at .*?(file:\/\/\S+?):(\d+):\d+\)?$/gm)) {
    const file = fileOf(url!);
    if (file !== undefined && !file.startsWith(OURS) && !file.includes("/node_modules/"))
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

/** Where our own frames are: an error thrown by what a module calls is the module's. */
const OURS = fileURLToPath(new URL("../../..", import.meta.url));

function remedyOf(error: unknown, text: string): string {
  const code = (error as { readonly code?: unknown } | null | undefined)?.code;
  if (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX")
    return "; types are only taken out of TypeScript here, so do without enums, namespaces and parameter properties";
  if (code === "ERR_MODULE_NOT_FOUND") {
    if (text.startsWith("Cannot find package 'sluice'"))
      return "; what can be imported of it is sluice/plugin, and sluice/plugin/testing in tests";
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
