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

/** A file of the documentation. Nothing else below the folder has such a name. */
const DOCS = /^\/docs\/(?:[\w-]+\/)?[\w-]+\.(?:html|css)$/;

/**
 * Adds the page at `/` and its files. Reads them at the first request, and in a clone builds them first (docs/adr/0040-the-page.md).
 * @param pages the built page; rejects when it cannot be built
 */
export function pageRoutes(app: Hono, pages: () => Promise<Page> = pageFiles): void {
  app.get("/", (context) => answer(context, "index.html", pages));
  app.get("/icon.svg", (context) => answer(context, "icon.svg", pages));
  app.get("/assets/:name", (context) => answer(context, `assets/${context.req.param("name")}`, pages));
  app.get("/docs/*", (context) => docs(context, pages));
}

/** The documentation is read seldom, so it is not kept in memory. Rejects when it cannot be built or read: that is no missing page. */
async function docs(context: Context, pages: () => Promise<Page>): Promise<Response> {
  const { path } = context.req;
  const missing = () => context.text("the documentation has no such page; /docs/index.html lists all pages\n", 404);
  if (!DOCS.test(path)) return missing();
  const { folder } = await pages();
  let text: string;
  try {
    text = await readFile(join(folder, path), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return missing();
    throw error;
  }
  return context.body(text, 200, { ...HEADERS, "content-type": TYPES[extname(path)]!, "cache-control": "no-cache" });
}

async function answer(context: Context, name: string, pages: () => Promise<Page>): Promise<Response> {
  let file: PageFile | undefined;
  try {
    file = (await pages()).files.get(name);
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

/** The built page with the documentation. */
export interface Page {
  readonly folder: string;
  /** By their path below the folder. */
  readonly files: ReadonlyMap<string, PageFile>;
}

let loaded: Promise<Page> | undefined;

/** The built page. A failed attempt is not kept: the next request tries again. */
function pageFiles(): Promise<Page> {
  loaded ??= load();
  const loading = loaded;
  loading.catch(() => {
    if (loaded === loading) loaded = undefined;
  });
  return loading;
}

async function load(): Promise<Page> {
  const folder = await folderOfPage();
  const files = new Map<string, PageFile>();
  for (const entry of await readdir(folder, { recursive: true })) {
    const type = TYPES[extname(entry)];
    if (type === undefined || entry.startsWith("docs")) continue;
    const plain = new Uint8Array(await readFile(join(folder, entry)));
    files.set(entry.split(sep).join("/"), { type, plain, zipped: new Uint8Array(await promisify(gzip)(plain)) });
  }
  return { folder, files };
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
