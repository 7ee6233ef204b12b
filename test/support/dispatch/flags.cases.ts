import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SluiceError } from "../../../src/base/inference/errors.ts";
import {
  type DispatchCommandLine,
  dispatchOptionsOf,
  parseDispatchFlags,
} from "../../../src/commands/dispatch/dispatch-flags.ts";

export type Env = Readonly<Record<string, string>>;

/** Test files of one worker share it, so it goes with the worker. */
export const folder = mkdtempSync(join(tmpdir(), "sluice-dispatch-flags-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));

export const SORTED = { url: "redis://localhost", queues: [{ queue_name: "q", igw_base_url: "http://gateway" }] };
export const INLINE = ["--transport=redis-sortedset", `--transport-config=${JSON.stringify(SORTED)}`];

/** @returns the path of a file in the folder */
export function file(name: string, content: string | object): string {
  const path = join(folder, name);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

export function command(args: readonly string[], env: Env = {}): Promise<DispatchCommandLine> {
  return dispatchOptionsOf(parseDispatchFlags(args, env), env);
}

export const optionsOf = async (args: readonly string[], env: Env = {}) => (await command(args, env)).options;

/** Code and message of the refusal of a command line. */
export async function failure(args: readonly string[], env: Env = {}): Promise<string> {
  try {
    await command(args, env);
  } catch (error) {
    return `${(error as SluiceError).code}: ${(error as SluiceError).message}`.replaceAll(folder, "FOLDER");
  }
  throw new Error("accepted");
}
