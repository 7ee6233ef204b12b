import { readdirSync } from "node:fs";
import { sep } from "node:path";

const SKIPPED = new Set(["node_modules", "dist", ".cache", ".git", ".ci"]);

/** The files below a folder whose name ends in one of `endings`, sorted, with forward slashes; no build output. */
export function filesBelow(root: string, endings: readonly string[]): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(root, { withFileTypes: true })) {
    if (SKIPPED.has(entry.name)) continue;
    if (entry.isDirectory())
      found.push(...filesBelow(`${root}${sep}${entry.name}`, endings).map((name) => `${entry.name}/${name}`));
    else if (endings.some((ending) => entry.name.endsWith(ending))) found.push(entry.name);
  }
  return found.sort();
}
