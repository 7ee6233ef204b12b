/**
 * Builds the page. `scripts/build.ts` builds it into the package. In a clone, the first request for the page runs this file as a
 * program: it builds into `.cache/page` when a source has changed since the last build, and prints the folder
 * (docs/adr/0040-the-page.md).
 */
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, relative, sep } from "node:path";

import { buildDocs, docsSources } from "./docs-pages.ts";

const root = join(import.meta.dirname, "..");
const cache = join(root, ".cache", "page");
/** The list of the sources of a build, with their hashes. */
const SOURCES = "sources.json";

/**
 * Builds the page into an empty folder, and the documentation that it links to.
 * @returns the files whose code is in it, packages included
 * @throws Error of Vite for a mistake in the sources
 */
export async function buildPage(outDir: string): Promise<string[]> {
  // Vite takes 0.3 s to load, and a page that is up to date does not need it.
  const [{ build }, { viteConfig }] = await Promise.all([import("vite"), import("./vite.config.ts")]);
  // Vite builds for what this variable says, and a test that starts the build says "test": that page is larger and slower.
  process.env["NODE_ENV"] = "production";
  const result = await build(viteConfig(outDir));
  if (!("output" in result)) throw new Error("Vite made no single build");
  await buildDocs(outDir);
  return result.output.flatMap((chunk) => (chunk.type === "chunk" ? Object.keys(chunk.modules) : []));
}

const hashOf = (file: string): string =>
  createHash("sha256")
    .update(readFileSync(join(root, file)))
    .digest("hex");

/** The files below the root on which a build of these modules depends. */
function sourcesOf(modules: readonly string[]): string[] {
  const own = readdirSync(import.meta.dirname, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith(".test.ts"))
    .map((entry) => join(entry.parentPath, entry.name));
  const shared = modules.filter((file) => file.startsWith(root + sep) && !file.includes("node_modules"));
  return [...new Set([...own, ...shared].map((file) => relative(root, file.split("?")[0]!)))].sort();
}

/** True when a folder holds a build of the present sources. */
function isFresh(folder: string): boolean {
  try {
    const built = JSON.parse(readFileSync(join(folder, SOURCES), "utf8")) as Record<string, string>;
    return Object.entries(built).every(([file, hash]) => existsSync(join(root, file)) && hashOf(file) === hash);
  } catch {
    return false;
  }
}

/** Returns the folder with the page of a clone, built from the present sources. */
async function pageOfClone(): Promise<string> {
  mkdirSync(cache, { recursive: true });
  const newest = readdirSync(cache).filter((name) => name.startsWith("built-"));
  for (const name of newest) if (isFresh(join(cache, name))) return join(cache, name);
  // Another process may build at the same time or serve the old page: each build has a folder of its own.
  const folder = mkdtempSync(join(cache, "building-"));
  const modules = await buildPage(folder);
  const sources = Object.fromEntries(
    [...sourcesOf(modules), ...docsSources(), "scripts/markdown.ts", "package-lock.json"].map((file) => [
      file,
      hashOf(file),
    ]),
  );
  writeFileSync(join(folder, SOURCES), JSON.stringify(sources));
  const built = join(cache, `built-${createHash("sha256").update(JSON.stringify(sources)).digest("hex").slice(0, 16)}`);
  rmSync(built, { recursive: true, force: true });
  renameSync(folder, built);
  for (const name of newest) rmSync(join(cache, name), { recursive: true, force: true });
  return built;
}

if (import.meta.main) process.stdout.write(`${await pageOfClone()}\n`);
