import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { fixedLimit } from "../../../test/support/slowness.ts";

/** Runs in Node as it is: the test runner has its own way to import. */
const RUNNER = `
const [root, ...paths] = process.argv.slice(1);
const { loadDispatchPlugins } = await import(root + "start.ts");
const { VirtualClock } = await import(root + "../../base/clock/virtual.ts");
const names = (definitions) => definitions.map(({ type }) => type);
const said = await loadDispatchPlugins(paths, new VirtualClock()).then(
  ({ gates, sources }) => ({ gates: names(gates), sources: names(sources) }),
  ({ code, message }) => ({ code, message }),
);
process.stdout.write(JSON.stringify(said));
`;

/** What comes of modules with these texts, the last of which is called `last.ts`. */
function loaded(...texts: readonly string[]): { readonly folder: string; readonly said: unknown } {
  const folder = mkdtempSync(join(tmpdir(), "sluice-gates-"));
  const paths = texts.map((text, i) => {
    const path = join(folder, i === texts.length - 1 ? "last.ts" : `m${i}.ts`);
    writeFileSync(path, text);
    return path;
  });
  const root = pathToFileURL(`${import.meta.dirname}/`).href;
  const args = ["--input-type=module", "-e", RUNNER, root, ...paths];
  return {
    folder,
    said: JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8", timeout: fixedLimit(20_000) })),
  };
}

describe("gates and metric sources of the user", () => {
  it("come from modules that lie anywhere, each once however it is exported", () => {
    const gate = 'import { defineGate, z } from "sluice/plugin"; type Verdict = "continue";\n';
    const { said } = loaded(
      `${gate}export const mine = defineGate({ type: "mine", describe: "d", parameters: z.object({}), create: () => ({}) } as never);
       export default mine;`,
      `import { defineMetricSource, z } from "sluice/plugin";
       export const factor = null;
       export const source = defineMetricSource({ type: "theirs", describe: "d", parameters: z.object({}), create: () => ({}) } as never);`,
    );
    expect(said).toEqual({ gates: ["mine"], sources: ["theirs"] });
  });

  it("say where and why their module cannot be loaded", () => {
    const { folder, said } = loaded('import { z } from "sluice/plugin";\nenum Verdict { Continue }');
    expect(said).toEqual({
      code: "PLUGIN_LOAD",
      message: `plugin ${folder}/last.ts cannot be loaded: line 2: TypeScript enum is not supported in strip-only mode; Node.js only strips types: use no enums, namespaces or parameter properties`,
    });
  });

  it("are missed where a module has none", () => {
    const { folder, said } = loaded("export const factor = 2;");
    expect(said).toEqual({
      code: "PLUGIN_LOAD",
      message: `plugin ${folder}/last.ts must export a result of defineGate or defineMetricSource`,
    });
  });
});
