/**
 * Builds `dist/` for the npm package: Node strips no types below node_modules, and a start from a thousand small files takes two to
 * three times the CPU time of a start from some dozens (docs/adr/0031-a-bundled-package.md). The commands and what applications import are
 * entries of one bundle, so they share one instance of every module.
 */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { type Plugin, RolldownMagicString, rolldown } from "rolldown";
import { buildPage } from "../dashboard/build.ts";

const root = join(import.meta.dirname, "..");
const src = join(root, "src");
const dist = join(root, "dist");

/** The files that package.json or a thread names, below src/ and below dist/. */
const ENTRIES = [
  ...["commands/main", "base/plugin/index", "picker/testing/index", "async/brokers/producer/index"],
  // The program of a thread has no importer.
  ...["picker/tokenizers/worker", "async/batch-api/batch-worker"],
];

/**
 * What stays a dependency: OpenTelemetry, whose API has to be the copy of the application and whose exporter is loaded only with tracing;
 * the clients of Pub/Sub and S3, which users install beside Sluice; uPlot, whose files go into reports as they are.
 */
const EXTERNAL = [/^node:/, /^@opentelemetry\//, /^@google-cloud\//, /^@aws-sdk\//, /^uplot\b/];

/**
 * Modules find files beside themselves, and each other, by `import.meta`. In a bundle that is the place of a chunk. Every chunk with
 * such a module lies one folder below dist/, so the place of the module is found from there.
 */
const places: Plugin = {
  name: "places of modules",
  transform(code, id) {
    if (!id.startsWith(src + sep) || !code.includes("import.meta.")) return undefined;
    const file = JSON.stringify(`../${relative(src, id).split(sep).join("/").replace(/\.ts$/, ".js")}`);
    const text = new RolldownMagicString(code, { filename: id });
    for (const { 0: found, index } of code.matchAll(/\bimport\.meta\.(?:url|dirname)\b/g)) {
      const url = `new URL(${file}, import.meta.url)`;
      const place = found.endsWith("url")
        ? `${url}.href`
        : `process.getBuiltinModule("node:url").fileURLToPath(new URL(".", ${url}))`;
      text.overwrite(index, index + found.length, place);
    }
    return { code: text.toString(), map: text.generateMap({ hires: true, source: id }).toString() };
  },
  generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle))
      if (chunk.type === "chunk" && /\bimport\.meta\b/.test(chunk.code) && chunk.fileName.split("/").length !== 2)
        throw new Error(`${chunk.fileName} uses import.meta and is not one folder below dist/`);
  },
};

/**
 * The parts of undici that Sluice uses. Its entry also loads fetch, WebSocket, caches and mocks: two thirds of its text, which each
 * process would keep in memory. `request` needs the entry's own set-up, so the module that imports it gets the whole.
 */
const WHOLE_UNDICI = join(src, "wires", "access", "access.ts");
const SLIM = "\0undici";
const clientOfUndici: Plugin = {
  name: "the client of undici",
  resolveId: (id, importer) => (id === "undici" && importer !== WHOLE_UNDICI ? SLIM : undefined),
  load(id) {
    if (id !== SLIM) return undefined;
    const part = (file: string): string => JSON.stringify(join(root, "node_modules", "undici", "lib", file));
    return `import api from ${part("api/index.js")};
import Dispatcher from ${part("dispatcher/dispatcher.js")};
export { default as Client } from ${part("dispatcher/client.js")};
export { default as Pool } from ${part("dispatcher/pool.js")};
export { default as buildConnector } from ${part("core/connect.js")};
Object.assign(Dispatcher.prototype, api);`;
  },
};

/**
 * The bytes of undici's WebAssembly modules. An import of the CommonJS module would give its export the shape of a namespace: a getter for
 * each of 110,000 bytes, which took 40 MiB and a tenth of a second of each gateway. `require` hands the bytes over.
 */
const BYTES = "\0bytes ";
const bytesOfUndici: Plugin = {
  name: "bytes of undici",
  resolveId: (id, importer) =>
    /^undici\/lib\/llhttp\/\w+-wasm\.js$/.test(id) && importer?.startsWith(src) === true ? `${BYTES}${id}` : undefined,
  load(id) {
    if (!id.startsWith(BYTES)) return undefined;
    return `export default require(${JSON.stringify(join(root, "node_modules", id.slice(BYTES.length)))});`;
  },
  generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle))
      if (chunk.type === "chunk" && /\b__toESM\(require_llhttp\w*\(\)/.test(chunk.code))
        throw new Error(`${chunk.fileName} makes a getter for each byte of llhttp`);
  },
};

/**
 * Modules of Node.js, without the list of exports that an import makes of each: it reads every export, and the one of `node:http` for
 * WebSockets loads undici, 90 modules that no command needs (docs/adr/0031-a-bundled-package.md).
 */
const builtins: Plugin = {
  name: "modules of Node.js",
  renderChunk(code, { imports }) {
    const text = new RolldownMagicString(code);
    const taken = new Set<string>();
    for (const { 0: found, 1: names = "", 2: module = "", index } of code.matchAll(IMPORT_OF_NODE)) {
      taken.add(module);
      const target = names.replace("* as ", "").replaceAll(" as ", ": ");
      text.overwrite(
        index,
        index + found.length,
        `const ${target} = globalThis.process.getBuiltinModule("${module}");`,
      );
    }
    const missed = imports.filter((module) => module.startsWith("node:") && !taken.has(module));
    if (missed.length > 0) throw new Error(`imports that the build does not understand: ${missed.join(", ")}`);
    return taken.size === 0 ? undefined : { code: text.toString(), map: text.generateMap({ hires: true }).toString() };
  },
};
/** As the bundler writes them: a list of names, or one name for the module. */
const IMPORT_OF_NODE = /^import (\{(?:(?!\bdefault\b)[^}"])*\}|\w+\$?\w*|\* as \w+\$?\w*) from "(node:[\w/]+)";$/gm;

rmSync(dist, { recursive: true, force: true });
const tsc = join(root, "node_modules", ".bin", "tsc");
execFileSync(tsc, ["-p", "tsconfig.build.json", "--emitDeclarationOnly"], { cwd: root, stdio: "inherit" });

const bundle = await rolldown({
  input: Object.fromEntries(ENTRIES.map((entry) => [entry, join(src, `${entry}.ts`)])),
  cwd: root,
  platform: "node",
  external: EXTERNAL,
  plugins: [clientOfUndici, bytesOfUndici, places, builtins],
  onLog(level, log, print) {
    // Whatever the bundler is not sure of is a mistake here.
    if (level === "warn") throw new Error(log.message);
    print(level, log);
  },
});
const { output } = await bundle.write({
  dir: dist,
  format: "esm",
  // With the places in the sources and without their text, which the repository has.
  sourcemap: true,
  sourcemapExcludeSources: true,
  // V8 keeps the text of each file that runs.
  comments: { legal: true, annotation: false, jsdoc: false },
  entryFileNames: "[name].js",
  // Without a hash, a new release overwrites the files of the old one in the compile cache.
  chunkFileNames: "chunks/[name].js",
});
await bundle.close();

// V8 keeps the text of each file that runs, and a single character beyond Latin-1 doubles it. Such characters are in strings, so an
// escape means the same. The places in a source map stay right but for columns of the same line.
for (const chunk of output) {
  if (chunk.type !== "chunk" || !/[^\0-\xff]/.test(chunk.code)) continue;
  if (/String\.raw`[^`]*[^\0-\xff]/.test(chunk.code))
    throw new Error(`String.raw in ${chunk.fileName} would show escapes`);
  const text = chunk.code.replace(/[^\0-\xff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  writeFileSync(join(dist, chunk.fileName), text);
}

// Whatever the sources read beside themselves at run time lies at the same place in dist/.
const assets = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((name) =>
  /\.(html|css|js|lua)$/.test(name),
);
for (const asset of assets) {
  mkdirSync(join(dist, dirname(asset)), { recursive: true });
  copyFileSync(join(src, asset), join(dist, asset));
}

const pageModules = await buildPage(join(dist, "wires", "admin", "dashboard"));

/** The folders of the packages of which something is in the bundle or in the page, by name. */
const packages = new Map<string, string>();
const bundled = output.flatMap((chunk) => (chunk.type === "chunk" ? Object.keys(chunk.modules) : []));
for (const module of [...bundled, ...pageModules]) {
  const [, folder, name] = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(module.split(sep).join("/")) ?? [];
  if (folder !== undefined && name !== undefined) packages.set(name, folder);
}

/** Whose MIT licence it is, of packages that have no file with it. */
const MIT_HOLDERS: Readonly<Record<string, string>> = { "@redis/client": "Copyright (c) 2022-2023, Redis, inc." };
const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files
(the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge,
publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so,
subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR
ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH
THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;

/** The notice of a package that its licence asks for. @throws Error when its licence has no text */
function notice(name: string, folder: string): string {
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    readonly version: string;
    readonly license: string;
  };
  const file = readdirSync(folder).find((found) => /^licen[cs]e/i.test(found));
  const holder = MIT_HOLDERS[name];
  if (file === undefined && license === "MIT" && holder !== undefined)
    return `${name} ${version} (MIT)\n\nMIT License\n\n${holder}\n\n${MIT}\n`;
  if (file === undefined) throw new Error(`${name} ${version} (${license}) has no file with its licence`);
  return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
}
const notices = [...packages].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, folder]) => notice(name, folder));
writeFileSync(
  join(dist, "THIRD-PARTY-LICENSES.txt"),
  `The files in this folder contain code of these packages.\n\n${notices.join(`\n${"-".repeat(80)}\n\n`)}`,
);
for (const entry of ENTRIES)
  for (const end of [".js", ".d.ts"])
    if (!existsSync(join(dist, `${entry}${end}`))) throw new Error(`dist/${entry}${end} was not built`);

const chunks = output.filter(({ type }) => type === "chunk").length;
console.log(
  `dist: ${chunks} files of code, ${assets.length} files that they read, notices of ${packages.size} packages`,
);
