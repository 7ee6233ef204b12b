import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { Help } from "commander";
import { describe, expect, it } from "vitest";
import { fixedLimit } from "../../test/support/slowness.ts";
import { COMMANDS, commandIn, nameOf } from "./catalogue.ts";

const MAIN = join(import.meta.dirname, "main.ts");

describe("the list of commands", () => {
  it.each(COMMANDS.map((row) => [nameOf(row), row] as const))("says of %s what the command says", async (name, row) => {
    const loaded = await row.load();
    expect(loaded.name()).toBe(name);
    expect(row.about).toBe(loaded.description());
    expect(row.term).toBe(new Help().subcommandTerm(loaded));
  });

  it.each([
    [["epp", "--endpoints", "gateway"], "epp"],
    [["help", "queue"], "queue"],
    [["--help", "sim"], "sim"],
    [["help"], undefined],
    [["--version"], undefined],
    [["gatway", "epp"], undefined],
    [[], undefined],
  ])("finds the command of %j", (args, name) => {
    const row = commandIn(args);
    expect(row && nameOf(row)).toBe(name);
  });

  it.each([["--version"], ["-V"], ["--help"]])("loads no command and little else for %s", (flag) => {
    const hook = `
      import { registerHooks } from "node:module";
      const loaded = [];
      registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) });
      process.on("exit", () => process.stderr.write(loaded.join("\\n")));`;
    const args = ["--import", `data:text/javascript,${encodeURIComponent(hook)}`, MAIN, flag];
    const run = spawnSync(process.execPath, args, { encoding: "utf8", timeout: fixedLimit(20_000) });
    expect(run.status).toBe(0);
    const files = run.stderr.split("\n").filter((url) => url.startsWith("file:"));
    expect(files.filter((url) => /\/commands\/.*\/(command|queue-commands)\.ts$/.test(url))).toEqual([
      ...(flag === "--help" ? [expect.stringContaining("/commands/common/command.ts")] : []),
    ]);
    expect(files.filter((url) => /\/node_modules\/(?!commander\/)/.test(url))).toEqual([]);
    expect(files.length).toBeLessThan(flag === "--help" ? 20 : 5);
  });
});
