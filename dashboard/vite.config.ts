import { join } from "node:path";
import type { InlineConfig, Plugin } from "vite";

/**
 * Leaves out how zod writes JSON schemas: each schema refers to it, and the page reads schemas only. Each export becomes a function
 * without effect.
 */
const noJsonSchema: Plugin = {
  name: "no JSON schemas",
  transform(code, id) {
    if (!/\/zod\/v4\/core\/(?:json-schema-processors|to-json-schema)\.js$/.test(id)) return undefined;
    const names = [...code.matchAll(/^export (?:const|function) (\w+)/gm)].map(([, name]) => name);
    return { code: names.map((name) => `export const ${name} = () => undefined;`).join("\n"), map: null };
  },
};

/** The settings of the build: one script for the page, one that "what if" loads, one style sheet, no inline code. */
export function viteConfig(outDir: string): InlineConfig {
  const stub = (name: string): string => join(import.meta.dirname, "src", "what-if", "left-out", name);
  return {
    root: import.meta.dirname,
    configFile: false,
    logLevel: "warn",
    // Relative addresses: the page also works below a path of a proxy.
    base: "./",
    // Beside the other caches of a clone, and nothing in the sources.
    cacheDir: join(import.meta.dirname, "..", ".cache", "vite"),
    resolve: {
      alias: [
        // Only a request hook evaluates CEL, and hooks do not run in a replay.
        { find: "@marcbachmann/cel-js", replacement: stub("cel.ts") },
      ],
    },
    plugins: [noJsonSchema],
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: {
      ...{ outDir, emptyOutDir: true, target: "es2023", assetsInlineLimit: 0 },
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
    },
  };
}
