import { join } from "node:path";
import type { UserConfig } from "vite";

/** The settings of the build: one script for the page, one that "what if" loads, one style sheet, no inline code. */
export function viteConfig(outDir: string): UserConfig {
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
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: {
      ...{ outDir, emptyOutDir: true, target: "es2023", assetsInlineLimit: 0 },
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
    },
  };
}
