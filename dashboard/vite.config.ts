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

/**
 * Leaves out what producers work with: a replay takes their results from the record and never runs them. Their parameters and keys
 * stay. Classes become empty ones, functions have no effect, and constants of one line remain.
 */
const noProducers: Plugin = {
  name: "no producers",
  enforce: "pre",
  transform(code, id) {
    const isLeftOut =
      /\/src\/picker\/(?:kv-events\/|prefix\/|scheduling\/tokens\/(?:render|media-parts|estimate|learnable-text|token-buffer)\.ts|scheduling\/plugins\/burst\/placement\.ts|scheduling\/plugins\/media\/media-hash\.ts|scheduling\/plugins\/prefix\/precise-cache\.ts)/;
    if (!isLeftOut.test(id)) return undefined;
    const kept = [...code.matchAll(/^(?:export )?const \w+ = [^;\n]*;$/gm)].map(([line]) => line);
    const classes = [...code.matchAll(/^export (?:abstract )?class (\w+)/gm)].map(
      ([, name]) => `export class ${name} { close() {} }`,
    );
    const functions = [...code.matchAll(/^export (?:async )?function (\w+)/gm)].map(
      ([, name]) => `export const ${name} = () => undefined;`,
    );
    return { code: [...kept, ...classes, ...functions].join("\n"), map: null };
  },
};

/** The settings of the build: one script for the page, one that "what if" loads, one style sheet, no inline code. */
export function viteConfig(outDir: string): InlineConfig {
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
        // It evaluates CEL, whose library is larger than the scheduler, and a replay runs no request hook.
        {
          find: /^.*\/request-attribute-reporter\.ts$/,
          replacement: join(import.meta.dirname, "src", "what-if", "left-out", "request-attribute-reporter.ts"),
        },
      ],
    },
    plugins: [noJsonSchema, noProducers],
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: {
      ...{ outDir, emptyOutDir: true, target: "es2023", assetsInlineLimit: 0 },
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
    },
  };
}
