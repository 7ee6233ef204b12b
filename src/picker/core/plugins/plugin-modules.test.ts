import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { fixedLimit } from "../../../../test/support/slowness.ts";
import { MAX_MODULES } from "./plugin-modules.ts";

/** A step of a case: what is written, then a configuration that is read. */
interface Step {
  readonly files?: Readonly<Record<string, string>>;
  /** Lines below `plugins:`; the first of them is line 2. */
  readonly plugins: readonly string[];
  /** The configuration lies in no folder, but has this name. */
  readonly nowhere?: string;
  /** Time passes while a module loads. */
  readonly hangs?: true;
}

interface Outcome {
  /** Types that are not built in. */
  readonly types?: readonly string[];
  readonly warnings?: readonly string[];
  readonly code?: string;
  readonly message?: string;
}

/** Runs in Node as it is: the test runner has its own way to import. One process for all cases. */
const RUNNER = `
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
const { root, cases } = JSON.parse(readFileSync(0, "utf8"));
const { PluginModules } = await import(root + "plugin-modules.ts");
const { PLUGIN_REGISTRY } = await import(root + "plugins.ts");
const { parseDocument } = await import(root + "../../../base/document/parse.ts");
const { VirtualClock } = await import(root + "../../../base/clock/virtual.ts");
globalThis.contract = await import(root + "../../../base/plugin/index.ts");
const results = {};
for (const [name, { folder, steps }] of Object.entries(cases)) {
  const clock = new VirtualClock();
  const modules = new PluginModules(clock);
  results[name] = [];
  for (const { files = {}, plugins, nowhere, hangs } of steps) {
    for (const [file, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), text);
    }
    const document = parseDocument(["plugins:", ...plugins].join("\\n"), { file: nowhere ?? "c.yaml" });
    const loading = modules.load(document, nowhere === undefined ? folder : undefined);
    if (hangs) {
      while (globalThis.hangs !== true) await new Promise((resolve) => setImmediate(resolve));
      clock.advance(10_000);
    }
    results[name].push(await loading.then(
      ({ registry, warnings }) => ({ types: registry.types().filter((type) => PLUGIN_REGISTRY.get(type) === undefined), warnings }),
      ({ code, message }) => ({ code, message }),
    ));
  }
}
process.stdout.write(JSON.stringify(results));
`;

const IMPORT = 'import { defineFilter, defineScorer, z } from "sluice/plugin";\n';
const scorer = (type: string): string =>
  `defineScorer({ type: "${type}", describe: "d", create: () => ({ score() {} }) })`;
const mine = `${IMPORT}export default ${scorer("mine")};`;
const named = (module: string, type = "mine"): string => `- { type: ${type}, module: ${module} }`;

const cases: Record<string, { readonly folder: string; readonly steps: readonly Step[] }> = {};
let outcomes: Record<string, readonly Outcome[]>;

/** Registers a case, and says what it comes to. */
function outcomeOf(name: string, ...steps: readonly Step[]): () => readonly Outcome[] {
  cases[name] = { folder: mkdtempSync(join(tmpdir(), "sluice-modules-")), steps };
  return () => outcomes[name]!;
}

/** One configuration with one module at line 2, column 11, and the message that ends the reading of it. */
function refusal(name: string, text: string): () => string {
  const outcome = outcomeOf(name, { files: { "m.ts": text }, plugins: [named("./m.ts")] });
  return () => {
    const { code, message = "" } = outcome()[0]!;
    expect(code).toBe("PLUGIN_LOAD");
    const head = "invalid EndpointPickerConfig: c.yaml:2:17: plugins[0].module: ./m.ts ";
    expect(message.slice(0, head.length)).toBe(head);
    return message.slice(head.length);
  };
}

beforeAll(() => {
  const root = pathToFileURL(`${import.meta.dirname}/`).href;
  const out = execFileSync(process.execPath, ["--input-type=module", "-e", RUNNER], {
    input: JSON.stringify({ root, cases }),
    encoding: "utf8",
    timeout: fixedLimit(60_000),
  });
  outcomes = JSON.parse(out) as typeof outcomes;
});

describe("the plugins of a module", () => {
  const all = outcomeOf("all", {
    files: {
      "scorers/m.ts": `${IMPORT}import { twice } from "./help.ts";
        export const parameters = z.object({ factor: z.number().default(twice(1)) });
        export const one = ${scorer("one")};
        export default ${scorer("two")};`,
      "scorers/help.ts": "export const twice = (x: number): number => 2 * x;",
      "plain.mjs": `${IMPORT}export const three = ${scorer("three")};`,
      "compiled.cjs": `const { defineScorer } = require("sluice/plugin"); exports.__esModule = true; exports.default = ${scorer("four")};`,
      "whole.cjs": `const { defineScorer } = require("sluice/plugin"); module.exports = ${scorer("five")};`,
    },
    plugins: [
      named("scorers/m.ts", "one"),
      named("./plain.mjs", "three"),
      named("./compiled.cjs", "four"),
      named("./whole.cjs", "five"),
    ],
  });
  it("are known beside the built-in ones: named and default exports, TypeScript, JavaScript and CommonJS", () => {
    expect(all()).toEqual([{ types: ["five", "four", "one", "three", "two"], warnings: [] }]);
  });

  const none = outcomeOf(
    "none",
    { plugins: ["- type: queue-scorer"] },
    { plugins: ["- 7", "- { module: 7 }", '- { type: mine, module: "" }'] },
  );
  it("are not looked for where no module is named; what is not a text is left to the schema", () => {
    expect(none()).toEqual([
      { types: [], warnings: [] },
      { types: [], warnings: [] },
    ]);
  });

  const once = outcomeOf("once", {
    files: {
      "m.ts": `globalThis.runs = (globalThis.runs ?? 0) + 1;
        import { defineScorer } from "sluice/plugin";
        export const a = ${scorer("mine")};
        export const b = defineScorer({ type: \`runs-\${globalThis.runs}\`, describe: "d", create: () => ({ score() {} }) });`,
      "again.ts": 'export * from "./m.ts";',
    },
    plugins: [named("./m.ts"), named("m.ts"), named("./x/../m.ts"), named("./again.ts")],
  });
  it("come from one run of it, however many entries name it, and are one plugin where another module exports them, too", () => {
    expect(once()).toEqual([{ types: ["mine", "runs-1"], warnings: [] }]);
  });

  const copy = outcomeOf("copy", {
    files: {
      "node_modules/sluice/package.json":
        '{ "type": "module", "exports": { "./plugin": "./wrong.js", "./plugin/testing": "./wrong.js" } }',
      "node_modules/sluice/wrong.js": 'throw new Error("the wrong copy");',
      "m.ts": `import { expectPick } from "sluice/plugin/testing";
        import * as own from "sluice/plugin";
        const { defineScorer } = own;
        const isOurs = own === globalThis.contract && typeof expectPick === "function";
        export default ${scorer("mine")};
        export const other = defineScorer({ type: \`ours-\${isOurs}\`, describe: "d", create: () => ({ score() {} }) });`,
    },
    plugins: [named("./m.ts")],
  });
  it("are made with what runs here, whatever copy of the package is installed beside the module", () => {
    expect(copy()).toEqual([{ types: ["mine", "ours-true"], warnings: [] }]);
  });

  const absolute = join(mkdtempSync(join(tmpdir(), "sluice-modules-")), "m.ts");
  writeFileSync(absolute, mine);
  const explicit = outcomeOf("explicit", { plugins: [named(absolute)], nowhere: "--config-text" });
  it("may come from anywhere by an absolute path", () => {
    expect(explicit()).toEqual([{ types: ["mine"], warnings: [] }]);
  });

  const changed = outcomeOf(
    "changed",
    { files: { "m.ts": mine }, plugins: [named("./m.ts")] },
    { files: { "m.ts": mine.replace("mine", "other") }, plugins: ["", named("./m.ts")] },
  );
  it("stay as they were when the file changes, which is told", () => {
    const warning = "c.yaml:3:17: ./m.ts has changed since it was loaded; restart to run the new code";
    expect(changed()).toEqual([
      { types: ["mine"], warnings: [] },
      { types: ["mine"], warnings: [warning] },
    ]);
  });

  const swapped = outcomeOf(
    "swapped",
    { plugins: [named("./m.ts")] },
    { files: { "..second/m.ts": `${mine}\n` }, plugins: [named("./..second/m.ts")] },
  );
  const { folder } = cases["swapped"]!;
  mkdirSync(join(folder, "..first"));
  writeFileSync(join(folder, "..first", "m.ts"), mine);
  symlinkSync("..first", join(folder, "..data"));
  symlinkSync(join("..data", "m.ts"), join(folder, "m.ts"));
  it("may lie in a mounted ConfigMap, whose links and folders begin with two dots", () => {
    expect(swapped()).toEqual([
      { types: ["mine"], warnings: [] },
      { types: ["mine"], warnings: [] },
    ]);
  });
});

describe("a module's path", () => {
  const outside = outcomeOf("outside", {
    plugins: [named("../m.ts"), named("./a/../../m.ts"), named("./link.ts"), named("./linked/m.ts")],
  });
  const { folder } = cases["outside"]!;
  const elsewhere = mkdtempSync(join(tmpdir(), "sluice-elsewhere-"));
  writeFileSync(join(elsewhere, "m.ts"), "globalThis.ran = true;");
  symlinkSync(join(elsewhere, "m.ts"), join(folder, "link.ts"));
  symlinkSync(elsewhere, join(folder, "linked"));
  it("stays in the folder of the configuration, symlinks included", () => {
    const remedy = "put the module into this folder, or write its absolute path";
    expect(outside()[0]).toEqual({
      code: "PLUGIN_LOAD",
      message: [
        "invalid EndpointPickerConfig, 4 problems:",
        `c.yaml:2:17: plugins[0].module: ../m.ts leads out of the folder of the configuration; ${remedy}`,
        `c.yaml:3:17: plugins[1].module: ./a/../../m.ts leads out of the folder of the configuration; ${remedy}`,
        `c.yaml:4:17: plugins[2].module: ./link.ts is a link to ${elsewhere}/m.ts, outside the folder of the configuration; ${remedy}`,
        `c.yaml:5:17: plugins[3].module: ./linked/m.ts is a link to ${elsewhere}/m.ts, outside the folder of the configuration; ${remedy}`,
      ].join("\n  "),
    });
  });

  const nowhere = outcomeOf("nowhere", { plugins: [named("./m.ts")], nowhere: "--config-text" });
  it("must be absolute where the configuration lies in no folder", () => {
    expect(nowhere()[0]?.message).toBe(
      "invalid EndpointPickerConfig: --config-text:2:17: plugins[0].module: ./m.ts is a relative path, but --config-text is not in a folder; write an absolute path, or give the configuration as a file",
    );
  });

  const wrong = outcomeOf("wrong", {
    files: { "zone-scorer.ts": mine, "folder.ts/m.ts": mine, "m.json": "{}" },
    plugins: [named("./zone-scorrer.ts"), named("./q/m.ts"), named("./folder.ts"), named("./m.json")],
  });
  it("names a file that is a module", () => {
    const { folder: there } = cases["wrong"]!;
    const lines = wrong()[0]!.message!.split("\n").slice(1);
    expect(lines.map((line) => line.slice(line.indexOf("module: ") + 8))).toEqual([
      "./zone-scorrer.ts does not exist; did you mean `./zone-scorer.ts`?",
      `./q/m.ts does not exist: there is no ${there}/q/m.ts`,
      "./folder.ts is not a file; name the file of the module",
      "./m.json is not a module: its name must end in .ts, .mts, .cts, .js, .mjs, .cjs",
    ]);
  });
});

describe("a module that cannot be loaded", () => {
  const table: Readonly<Record<string, readonly [text: string, problem: string]>> = {
    syntax: ["const a = 1;\nconst x = = 3;", "line 2: Expression expected"],
    "an enum": [
      `${IMPORT}enum Zone { A }`,
      "line 2: TypeScript enum is not supported in strip-only mode; Node.js only strips types: use no enums, namespaces or parameter properties",
    ],
    "an error": [
      `${IMPORT}const u: any = undefined;\n  u.x();`,
      "line 3: Cannot read properties of undefined (reading 'x')",
    ],
    "an error in what it calls": [
      `${IMPORT}\nz.enum(undefined as never);`,
      "line 3: Cannot convert undefined or null to object",
    ],
    "something thrown": ['export {}; throw "plain\\ntext";', "plain text"],
    "a mistyped name": [
      'import { defineScorrer } from "sluice/plugin";\ndefineScorrer({});',
      "line 1: The requested module 'sluice/plugin' does not provide an export named 'defineScorrer'; did you mean `defineScorer`?",
    ],
    "no create": [
      `${IMPORT}\nexport default defineScorer({ type: "idle-scorer", describe: "" } as never);`,
      "line 3: the plugin idle-scorer has no create, the function that returns its methods",
    ],
    "a type": [
      'import { ScoreContext } from "sluice/plugin";\nexport const f = (c: ScoreContext) => c;',
      "line 1: The requested module 'sluice/plugin' does not provide an export named 'ScoreContext'; if it is a type, import it with `import type`",
    ],
  };
  for (const [name, [text, problem]] of Object.entries(table)) {
    const message = refusal(name, text);
    it(`says where and why: ${name}`, () => {
      expect(message()).toBe(`cannot be loaded: ${problem}`);
    });
  }

  const missing = outcomeOf("missing", {
    files: {
      "a.ts": 'import "no-such-package";',
      "b.ts": '\nimport "./zones";',
      "c.ts": `${IMPORT}import "./broken.ts";`,
      "d.ts": 'import "sluice/plugins";',
      "broken.ts": "export const a = 1;\n\nlet a = = 2;",
    },
    plugins: [named("./a.ts"), named("./b.ts"), named("./c.ts"), named("./d.ts")],
  });
  it("says what it is missing, and in which file the mistake is", () => {
    const { folder } = cases["missing"]!;
    expect(missing()[0]!.message!.split("\n").slice(1)).toEqual([
      `  c.yaml:2:17: plugins[0].module: ./a.ts cannot be loaded: Cannot find package 'no-such-package' imported from ${folder}/a.ts; install the package beside the module, or do without it`,
      `  c.yaml:3:17: plugins[1].module: ./b.ts cannot be loaded: Cannot find module '${folder}/zones' imported from ${folder}/b.ts; an import names the file with its ending, such as ./zones.ts`,
      `  c.yaml:4:17: plugins[2].module: ./c.ts cannot be loaded: ${folder}/broken.ts, line 3: Expression expected`,
      `  c.yaml:5:17: plugins[3].module: ./d.ts cannot be loaded: Cannot find package 'sluice' imported from ${folder}/d.ts; import sluice/plugin, or in tests sluice/plugin/testing`,
    ]);
  });

  const hanging = outcomeOf("hanging", {
    files: { "m.ts": "globalThis.hangs = true; await new Promise(() => {}); export {};" },
    plugins: [named("./m.ts")],
    hangs: true,
  });
  it("is given up after 10 s", () => {
    expect(hanging()[0]!.message).toMatch(/is still not loaded after 10 s: its top-level await does not end$/);
  });

  const corrected = outcomeOf(
    "corrected",
    { files: { "m.ts": "let a = = 1;", "n.ts": "export {}; throw new Error('no')" }, plugins: [named("./m.ts")] },
    { files: { "m.ts": mine }, plugins: [named("./m.ts")] },
    { plugins: [named("./n.ts")] },
    { files: { "n.ts": mine }, plugins: [named("./n.ts")] },
  );
  it("is tried again, and where Node keeps the failure the remedy is told", () => {
    const [first, second, third, last] = corrected();
    expect(first!.code).toBe("PLUGIN_LOAD");
    expect(second).toEqual({ types: ["mine"], warnings: [] });
    expect(third!.message).toMatch(/line 1: no$/);
    expect(last!.message).toMatch(
      /line 1: no; after a correction, restart the process: a process loads each module once$/,
    );
  });
});

describe("what a module exports", () => {
  const write = "write for example `export default defineScorer({ ... })`";
  const table: Readonly<Record<string, readonly [text: string, problem: string]>> = {
    nothing: ["const a: number = 1;\nexport {};", `exports nothing; ${write}`],
    "no plugin": ["export const factor = 2;", `exports no plugin: factor is a number, not a plugin; ${write}`],
    "a plain object": [
      `export default { type: "mine", score() {} };`,
      "has a default export that is an object that no define function made (it has type, score): pass the object to defineScorer or another define function",
    ],
    "a function": [
      `${IMPORT}export const a = ${scorer("mine")};\nexport default () => a;`,
      "has a default export that is a function, not a plugin: export the result of defineScorer or another define function",
    ],
    "a gate": [
      'import { CONTINUE, defineGate, z } from "sluice/plugin";\nexport const open = defineGate({ type: "open", describe: "d", parameters: z.object({}), create: () => ({ verdict: () => CONTINUE }) } as never);',
      `exports no plugin: open is a gate, for the configuration of sluice dispatch only; ${write}`,
    ],
    "no type": [
      `${IMPORT}export default defineFilter({ describe: "d", create: () => ({ filter() {} }) } as never);`,
      'exports default, a filter that has no type; give defineFilter a type, such as `type: "my-filter"`',
    ],
    "a type that is no name": [
      `${IMPORT}export default ${scorer("My Scorer")};`,
      'exports default, a scorer that has the type "My Scorer"; write lower-case words joined by hyphens, at most 100 characters',
    ],
    "parameters without a schema": [
      `${IMPORT}export default defineScorer({ type: "mine", describe: "d", parameters: { a: z.number() }, create: () => ({ score() {} }) } as never);`,
      "exports default, a scorer that has parameters that are not a schema; use the `z` that sluice/plugin exports, as in `parameters: z.object({ ... })`",
    ],
    "no description": [
      `${IMPORT}export default defineScorer({ type: "mine", create: () => ({ score() {} }) } as never);`,
      "exports default, a scorer that has no describe; say in one sentence what it does",
    ],
    "a key that is none": [
      `${IMPORT}export default defineScorer({ type: "mine", describe: "d", requires: ["load"], create: () => ({ score() {} }) } as never);`,
      "exports default, a scorer that lists something in requires that is not a key; use the keys that sluice/plugin exports, columnKey or attributeKey",
    ],
    "two keys of one name": [
      `import { columnKey, defineProducer } from "sluice/plugin";\nexport default defineProducer({ type: "mine", describe: "d", produces: [columnKey("load"), columnKey("load")], create: () => ({ produce() {} }) });`,
      "exports default, a producer that lists two keys called load in produces; give each a different name",
    ],
    "a definition made by hand": [
      `${IMPORT}export default { kind: "scorer", type: "mine", describe: "d", parameters: z.object({}), create: () => ({ score() {} }) };`,
      "exports default, a scorer that has no list produces; pass the definition to defineScorer",
    ],
    "a built-in type": [
      `${IMPORT}export const a = ${scorer("mine")}; export const b = ${scorer("queue-scorer")};`,
      "defines the type queue-scorer, which is built in; rename it, for example to my-queue-scorer",
    ],
    "an older name of a built-in type": [
      `${IMPORT}export const a = ${scorer("mine")}; export const b = ${scorer("by-label-selector")};`,
      "defines the type by-label-selector, which is built in; rename it, for example to my-by-label-selector",
    ],
    "a published type that is not built in": [
      `${IMPORT}export const a = ${scorer("mine")}; export default ${scorer("predicted-latency-scorer")};`,
      "defines the type predicted-latency-scorer, which means something else to other Endpoint Pickers; rename it, for example to my-predicted-latency-scorer",
    ],
    "one type twice": [
      `${IMPORT}export const a = ${scorer("mine")}; export const b = ${scorer("mine")};`,
      "defines the type mine twice; give each plugin a different type",
    ],
  };
  for (const [name, [text, problem]] of Object.entries(table)) {
    const message = refusal(name, text);
    it(`is refused with the remedy: ${name}`, () => {
      expect(message()).toBe(problem);
    });
  }

  const others = outcomeOf("others", {
    files: { "m.ts": mine, "n.ts": mine },
    plugins: [named("./m.ts", "mime"), named("./n.ts")],
  });
  it("has the type that its entry names, and no other module's", () => {
    expect(others()[0]!.message!.split("\n").slice(1)).toEqual([
      "  c.yaml:2:5: plugins[0].type: ./m.ts exports mine, but no plugin of type mime; did you mean `mine`?",
      "  c.yaml:3:17: plugins[1].module: ./n.ts and ./m.ts both define the type mine; give each plugin a different type",
    ]);
  });

  const modules = (from: number, count: number): readonly string[] =>
    Array.from({ length: count }, (_, i) => named(`./m${from + i}.ts`, `t${from + i}`));
  const files = Object.fromEntries(
    Array.from({ length: MAX_MODULES + 1 }, (_, i) => [`m${i}.ts`, `${IMPORT}export default ${scorer(`t${i}`)};`]),
  );
  const many = outcomeOf(
    "many",
    { files, plugins: modules(0, MAX_MODULES) },
    { plugins: modules(1, MAX_MODULES) },
    { plugins: modules(1, MAX_MODULES - 1) },
  );
  it(`comes from at most ${MAX_MODULES} modules in the life of a process`, () => {
    const [full, over, again] = many();
    expect(full!.types).toHaveLength(MAX_MODULES);
    expect(over!.message).toMatch(
      /^invalid EndpointPickerConfig: c.yaml:65:16: plugins\[63\].module: .\/m64.ts is above the limit of 64 modules in one process,/,
    );
    expect(again!.types).toHaveLength(MAX_MODULES - 1);
  });
});
