import { readdirSync, readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { basename, join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";

/** One mistake to plant. */
const Mutant = z.strictObject({
  /** The mutated file, from the root of the repository. */
  file: z.string(),
  /** What goes wrong with the mistake, in one line. */
  why: z.string(),
  /** Text that stands in the file exactly once. */
  old: z.string().min(1),
  /** What replaces it. Empty deletes it. */
  new: z.string(),
  /** Test files, one of which must fail. Files below `test/` run in the parts lane, the others in the unit lane. */
  tests: z.array(z.string()).min(1),
  /** Why no test can tell the mistake from the original. Such a mutant is listed and not run. */
  equivalent: z.string().optional(),
});
export type Mutant = z.infer<typeof Mutant>;

/** The mutants of one area where a mistake costs safety: one YAML file in this folder. */
export interface MutantModule {
  readonly name: string;
  readonly mutants: readonly Mutant[];
}

/** All modules, by name. @throws ZodError where a file has a wrong shape */
export function mutantModules(folder: string = import.meta.dirname): MutantModule[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".yaml"))
    .sort()
    .map((name) => ({
      name: basename(name, ".yaml"),
      mutants: z.array(Mutant).parse(parse(readFileSync(join(folder, name), "utf8"))),
    }));
}

/**
 * The source with the mistake in it.
 * @throws Error where the text does not stand in the source exactly once, or the result is not TypeScript
 */
export function planted(mutant: Mutant, source: string): string {
  const found = source.split(mutant.old).length - 1;
  if (found !== 1) throw new Error(`${mutant.file} has the text to replace ${found} times instead of once`);
  const result = source.replace(mutant.old, () => mutant.new);
  if (result === source) throw new Error(`${mutant.file}: the replacement changes nothing`);
  if (mutant.file.endsWith(".ts")) stripTypeScriptTypes(result);
  return result;
}
