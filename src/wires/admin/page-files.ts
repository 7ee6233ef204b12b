import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { extname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Context, Hono } from "hono";
import { messageOf } from "../../base/inference/errors.ts";

/** The built page, in the package. */
const BUILT = new URL("./dashboard/", import.meta.url);
/** The program that builds the page, in a clone. */
const BUILD = new URL("../../../dashboard/build.ts", import.meta.url);

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** The page runs its own files and asks its own server; nothing else. */
const HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

interface PageFile {
  readonly type: string;
  readonly plain: Uint8Array<ArrayBuffer>;
  readonly zipped: Uint8Array<ArrayBuffer>;
}

/** Adds the page at `/` and its files. Reads them at the first request, and in a clone builds them first (docs/adr/0040-the-page.md). */
export function pageRoutes(app: Hono): void {
  app.get("/", (context) => answer(context, "index.html"));
  app.get("/icon.svg", (context) => answer(context, "icon.svg"));
  app.get("/assets/:name", (context) => answer(context, `assets/${context.req.param("name")}`));
}

async function answer(context: Context, name: string): Promise<Response> {
  let file: PageFile | undefined;
  try {
    file = (await pageFiles()).get(name);
  } catch (error) {
    return context.text(`the page is not available: ${messageOf(error)}\n`, 503);
  }
  if (file === undefined) return context.text(`the page has no file ${name}\n`, 404);
  const zipped = /\bgzip\b/.test(context.req.header("accept-encoding") ?? "");
  return context.body(zipped ? file.zipped : file.plain, 200, {
    ...HEADERS,
    "content-type": file.type,
    // The names of assets contain a hash of the contents.
    "cache-control": name.startsWith("assets/") ? "public, max-age=31536000, immutable" : "no-cache",
    vary: "accept-encoding",
    ...(zipped ? { "content-encoding": "gzip" } : {}),
  });
}

let loaded: Promise<ReadonlyMap<string, PageFile>> | undefined;

/** The files by path. A failed attempt is not kept: the next request tries again. */
function pageFiles(): Promise<ReadonlyMap<string, PageFile>> {
  loaded ??= load();
  const loading = loaded;
  loading.catch(() => {
    if (loaded === loading) loaded = undefined;
  });
  return loading;
}

async function load(): Promise<ReadonlyMap<string, PageFile>> {
  const folder = await folderOfPage();
  const files = new Map<string, PageFile>();
  for (const entry of await readdir(folder, { recursive: true })) {
    const type = TYPES[extname(entry)];
    if (type === undefined) continue;
    const plain = new Uint8Array(await readFile(join(folder, entry)));
    files.set(entry.split(sep).join("/"), { type, plain, zipped: new Uint8Array(await promisify(gzip)(plain)) });
  }
  return files;
}

/** A process of its own builds, so that this one goes on routing. @throws Error when the page cannot be built */
async function folderOfPage(): Promise<string> {
  const built = fileURLToPath(BUILT);
  if (existsSync(join(built, "index.html"))) return built;
  const program = fileURLToPath(BUILD);
  if (!existsSync(program)) throw new Error(`${built} is missing: install sluice again`);
  const { stdout } = await promisify(execFile)(process.execPath, [program]);
  return stdout.trim();
}
