import { join, sep } from "node:path";
import { RolldownMagicString } from "rolldown";
import { type ESTree, Visitor } from "rolldown/utils";
import type { InlineConfig, Plugin } from "vite";

const SRC = join(import.meta.dirname, "..", "src") + sep;

/**
 * Leaves out how zod writes JSON schemas: each schema refers to it, and the page reads schemas only. Each export becomes a function
 * without effect.
 */
const noJsonSchema: Plugin = {
  name: "no JSON schemas",
  transform(code, id) {
    if (!/\/zod\/v4\/core\/(?:json-schema-processors|to-json-schema)\.js$/.test(id)) return undefined;
    const names: (string | undefined)[] = [];
    new Visitor({
      ExportNamedDeclaration({ declaration, specifiers }) {
        if (declaration?.type === "FunctionDeclaration") names.push(declaration.id?.name);
        if (declaration?.type === "VariableDeclaration")
          for (const { id: variable } of declaration.declarations)
            if (variable.type === "Identifier") names.push(variable.name);
        for (const { exported } of specifiers) if (exported.type === "Identifier") names.push(exported.name);
      },
    }).visit(this.parse(code));
    return { code: names.map((name) => `export const ${name} = () => undefined;`).join("\n"), map: null };
  },
};

/** The functions that define plugins which a replay never runs: the record has what they gave the decision. */
const NOT_RUN: ReadonlySet<string> = new Set(["defineProducer", "defineRequestHeaderProcessor", "defineRequestHook"]);
/** Those of them whose parameters say nothing about what other plugins read or write: the process has checked them. */
const NOT_READ: ReadonlySet<string> = new Set(["defineRequestHeaderProcessor", "defineRequestHook"]);

/**
 * Leaves out what a replay does not need of the plugins: `create` of those that it never runs, the parameters of those that
 * give other plugins nothing, and the descriptions of plugins and parameters, which only the docs show. Types, other parameters
 * and keys stay. The bundler then drops each class and file that nothing else refers to.
 */
const replayedPart: Plugin = {
  name: "the replayed part of plugins",
  transform(code, id) {
    if (!id.startsWith(SRC) || !id.endsWith(".ts")) return undefined;
    const text = new RolldownMagicString(code, { filename: id });
    new Visitor({
      "CallExpression:exit"({ callee, arguments: [first], end }) {
        if (callee.type === "Identifier" && /^define[A-Z]/.test(callee.name) && first?.type === "ObjectExpression")
          for (const property of first.properties) {
            if (property.type !== "Property") continue;
            const name = nameOf(property.key);
            if (name === "describe") text.overwrite(property.start, property.end, 'describe: ""');
            if (name === "create" && NOT_RUN.has(callee.name))
              text.overwrite(property.start, property.end, "create: () => ({})");
            if (name === "parameters" && NOT_READ.has(callee.name))
              text.overwrite(property.start, property.end, "parameters: z.unknown()");
          }
        if (callee.type === "MemberExpression" && nameOf(callee.property) === "describe" && first?.type === "Literal")
          text.remove(callee.object.end, end);
      },
    }).visit(this.parse(code));
    return { code: text.toString(), map: null };
  },
};

function nameOf(node: ESTree.Expression | ESTree.PrivateIdentifier | ESTree.PropertyKey): string | undefined {
  return node.type === "Identifier" ? node.name : undefined;
}

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
    plugins: [noJsonSchema, replayedPart],
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: {
      ...{ outDir, emptyOutDir: true, target: "es2023", assetsInlineLimit: 0 },
      // The package does not say so itself. Nothing of it is left: it evaluates CEL, in the parameters of a request hook.
      rolldownOptions: { treeshake: { moduleSideEffects: [{ test: /\/cel-js\//, sideEffects: false }] } },
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
    },
  };
}
