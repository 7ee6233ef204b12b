import { realpath } from "node:fs/promises";
import { registerHooks } from "node:module";
import { extname } from "node:path";
import { pathToFileURL } from "node:url";
import type { Clock } from "../../../base/clock/clock.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import { importFailure } from "./import-failure.ts";

/** Milliseconds that a module may take to load, what it awaits at its top included. */
const LOAD_BUDGET = 10_000;

/** What users' modules import, and which file of ours that is: a source file or a built one, as this one is. */
const OURS: ReadonlyMap<string, string> = new Map(
  [
    ["sluice/plugin", "../../../base/plugin/index"] as const,
    ["sluice/plugin/testing", "../../testing/index"] as const,
  ].map(([name, file]) => [name, new URL(`${file}${extname(import.meta.url)}`, import.meta.url).href]),
);

let resolving = false;

/**
 * From here on `sluice/plugin` means the copy that runs, wherever the importing module lies and whatever is installed
 * beside it: one zod, one Rejection, one set of keys. To be called once in every thread that loads modules of users;
 * further calls do nothing.
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

/** What a module exports, by name. */
export type ModuleExports = Readonly<Record<string, unknown>>;

/**
 * Imports a module of the user. It runs with the rights of this process.
 * @param path absolute
 * @throws SluiceError PLUGIN_LOAD; the message is the cause alone, in one line
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
  throw new SluiceError(
    "PLUGIN_LOAD",
    `is still not loaded after ${seconds} s: what it awaits at its top does not end`,
  );
}
