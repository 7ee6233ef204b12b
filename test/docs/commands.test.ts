import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { envoy, redisServer } from "../../scripts/test-parts.ts";
import { parseReadyLine } from "../../src/base/process/lifecycle.ts";
import { PROGRAM, ROOT, TestProcess } from "../support/process.ts";
import { type CommandBlock, commandBlocks, type PageCommand, shapeOf } from "./page.ts";

// Every command block of the READMEs and docs/ is run here as it is written, the blocks of a page one after the other, in a copy
// of the repository. A block that a test cannot run says why, in a comment above it.

const PAGES = [
  "README.md",
  "examples/custom-scorer/README.md",
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md") && !/^(adr|reference|spec)\//.test(name))
    .map((name) => `docs/${name}`)
    .sort(),
].map((page) => ({ page, blocks: commandBlocks(page) }));

/** What a page starts and leaves running. */
const SERVER =
  /^(\.\/)?sluice (gateway|epp|dispatch|sim|batch-server)\b(?!.*--(?:help|print-paths))|^envoy -c |^redis-server /;
/** A file that the page shows: its reader has it. */
const SHOWN_FILE = /^cat (\S+)$/;
/** What a test may not do to the machine or the network, or cannot find there. */
const FOREIGN = /^(kubectl|helm|docker|git|go|npm)\b/;

/** What the commands of a page read and never change: a copy of it for each page takes longer than the commands. */
const LINKED = ["node_modules", "src", "test", "bench", "dashboard", "scripts"];

/** Milliseconds on an idle machine. */
const COMMAND_LIMIT = 120_000;

describe.each(PAGES.filter(({ blocks }) => blocks.some(({ notRun }) => notRun === undefined)))(
  "the commands of $page",
  ({ blocks }) => {
    let folder: string;
    let env: NodeJS.ProcessEnv;
    const servers: { readonly text: string; readonly process: TestProcess }[] = [];

    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), "sluice-docs-"));
      const left = new Set(["dist", ".cache", ".git", ".ci", ...LINKED].map((name) => join(ROOT, name)));
      cpSync(ROOT, folder, { recursive: true, filter: (path) => !left.has(path) && !path.includes("/node_modules/") });
      for (const name of LINKED) symlinkSync(join(ROOT, name), join(folder, name));
      const bin = join(folder, ".bin");
      mkdirSync(bin);
      const program = (name: string, command: string): void => {
        writeFileSync(join(bin, name), `#!/bin/sh\nexec ${command} "$@"\n`);
        chmodSync(join(bin, name), 0o755);
      };
      program("sluice", `${process.execPath} ${PROGRAM}`);
      program("envoy", `${envoy()} --use-dynamic-base-id -l warning`);
      program("redis-server", redisServer());
      // A refusal is a failure, too.
      program("curl", "/usr/bin/env -S PATH=/usr/local/bin:/usr/bin:/bin curl -sS --fail-with-body");
      env = { ...process.env, PATH: [bin, dirname(process.execPath), process.env["PATH"]].join(delimiter) };
    });
    afterAll(async () => {
      for (const { process } of servers.reverse()) await process.stop("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    });

    const start = (text: string): TestProcess =>
      // `exec`, so that what is ended is the program and not its shell.
      new TestProcess("sh", ["-c", SERVER.test(text) ? `exec ${text}` : text], { cwd: folder, env });

    async function run({ text, shown }: PageCommand): Promise<void> {
      const file = SHOWN_FILE.exec(text)?.[1];
      if (file !== undefined) writeFileSync(join(folder, file), `${shown.join("\n")}\n`);
      const started = start(text);
      const said = (): string => `${started.stdout}\n${started.stderr}`;
      const missing = (): string[] =>
        shown.filter((line) => !/^\s*\.\.\.\s*$/.test(line) && !shapeOf(line).test(said()));
      if (SERVER.test(text)) {
        servers.push({ text, process: started });
        // Envoy says nothing, and has its admin port where the shipped files put it.
        const ready = async (): Promise<boolean> =>
          text.startsWith("envoy")
            ? (await (await fetch("http://127.0.0.1:19000/ready")).text()).startsWith("LIVE")
            : text.startsWith("redis-server")
              ? said().includes("Ready to accept connections")
              : said()
                  .split("\n")
                  .some((line) => parseReadyLine(line) !== undefined);
        await started.until(
          `${text} to be ready`,
          async () => (await ready()) && missing().length === 0,
          COMMAND_LIMIT,
        );
        return;
      }
      expect((await started.ended(COMMAND_LIMIT)).code, said()).toBe(0);
      expect(missing(), `what the page shows and the command did not say:\n${said()}`).toEqual([]);
    }

    it.each(blocks.filter(({ notRun }) => notRun === undefined).map((block) => [block.line, block] as const))(
      "line %i",
      async (_line, { given, ended, commands }: CommandBlock) => {
        for (const { text, process } of servers)
          if (ended.some((begin) => text.startsWith(begin))) await process.stop("SIGTERM");
        for (const text of given) await run({ text, line: 0, shown: [] });
        for (const command of commands) await run(command);
      },
    );
  },
);

describe("the blocks that no test runs", () => {
  const unrun = PAGES.flatMap(({ page, blocks }) =>
    blocks
      .filter(({ notRun }) => notRun !== undefined)
      .map(({ line, notRun }) => ({ place: `${page}:${line}`, notRun })),
  );

  it("each say why", () => {
    for (const { place, notRun } of unrun) {
      process.stdout.write(`not run: ${place}: ${notRun}\n`);
      expect(notRun!.length, place).toBeGreaterThan(10);
    }
  });

  it("are all of those that need what a test does not have", () => {
    const foreign = PAGES.flatMap(({ page, blocks }) =>
      blocks
        .filter(({ notRun, commands }) => notRun === undefined && commands.some(({ text }) => FOREIGN.test(text)))
        .map(({ line }) => `${page}:${line}`),
    );
    expect(foreign).toEqual([]);
  });
});
