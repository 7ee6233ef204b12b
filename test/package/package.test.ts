import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { ROOT, TestProcess } from "../support/process.ts";
import { fixedLimit } from "../support/slowness.ts";
import { writeModel } from "../support/small-tokenizer.ts";
import { seenBy, startSims } from "../support/stack.ts";

/** Where scripts/bootstrap keeps a Node.js of its own. */
const NODE_FOLDER = join(ROOT, "scripts", "node", "node_modules");

/** Runs npm, quietly, with the registry of the machine. */
function npm(args: readonly string[], cwd: string): string {
  return execFileSync("npm", [...args, "--loglevel=error", "--no-audit", "--no-fund"], {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

describe("the packed package, installed elsewhere", () => {
  const home = mkdtempSync(join(tmpdir(), "sluice-package-"));

  /** Fails with what the compiler says. */
  function typeCheck(files: readonly string[]): void {
    const flags = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2024", "--types", "node"];
    const stripped = ["--noUncheckedIndexedAccess", "--erasableSyntaxOnly", "--allowImportingTsExtensions"];
    const types = ["--typeRoots", join(ROOT, "node_modules", "@types"), "--ignoreConfig"];
    const tsc = join(ROOT, "node_modules", ".bin", "tsc");
    const { status, stdout } = spawnSync(tsc, [...flags, ...stripped, ...types, ...files], {
      cwd: home,
      encoding: "utf8",
    });
    expect(stdout).toBe("");
    expect(status).toBe(0);
  }

  /** Below src/. */
  const scripts = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".lua"),
  );
  const checkout = mkdtempSync(join(tmpdir(), "sluice-checkout-"));
  let tarball: string | undefined;

  beforeAll(() => {
    // A checkout in which nothing was built: npm has to see to that.
    const made = new Set(["node_modules", "dist", ".cache", ".git"].map((name) => join(ROOT, name)));
    cpSync(ROOT, checkout, { recursive: true, filter: (path) => !made.has(path) && !path.startsWith(NODE_FOLDER) });
    symlinkSync(join(ROOT, "node_modules"), join(checkout, "node_modules"));
    npm(["pack", "--pack-destination", home], checkout);
    tarball = readdirSync(home).find((name) => name.endsWith(".tgz"));
    writeFileSync(join(home, "package.json"), '{ "name": "elsewhere", "private": true, "type": "module" }');
    npm(["install", `./${tarball}`, "--prefer-offline", "--ignore-scripts"], home);
  });

  it("has what was built of the sources though nobody built it, and nothing else", () => {
    const files = execFileSync("tar", ["-tzf", join(home, tarball!)], { encoding: "utf8" })
      .trim()
      .split("\n");
    for (const wanted of [
      "commands/main.js",
      "chunks/program.js",
      "base/plugin/index.js",
      "base/plugin/index.d.ts",
      "wires/admin/dashboard/index.html",
      "wires/admin/dashboard/docs/operate/page.html",
      "THIRD-PARTY-LICENSES.txt",
    ])
      expect(files).toContain(`package/dist/${wanted}`);
    expect(scripts).not.toEqual([]);
    for (const script of scripts) expect(files).toContain(`package/dist/${script}`);
    const others = files.filter((file) => !file.startsWith("package/dist/"));
    expect(others.sort()).toEqual([
      "package/LICENSE",
      "package/README.md",
      "package/docs/reference/errors.md",
      "package/package.json",
    ]);
    expect(files.filter((file) => /\.(test|cases)\.|(?<!\.d)\.ts$/.test(file))).toEqual([]);
  });

  it("finds every file that its code reads beside itself", () => {
    const chunks = join(home, "node_modules", "sluice", "dist", "chunks");
    const script = `
      import fs, { readdirSync } from "node:fs";
      import { syncBuiltinESMExports } from "node:module";
      const read = fs.readFileSync;
      fs.readFileSync = (path, ...rest) => (process.stderr.write(path + "\\n"), read(path, ...rest));
      syncBuiltinESMExports();
      // The chunk of the command line reads these: it shall do no more than that.
      process.argv = ["node", "sluice", "--version"];
      for (const file of readdirSync(process.env.CHUNKS)) if (file.endsWith(".js")) await import(process.env.CHUNKS + "/" + file);`;
    const args = ["--input-type=module", "-e", script];
    const env = { ...process.env, CHUNKS: chunks };
    const { status, stderr } = spawnSync(process.execPath, args, {
      env,
      encoding: "utf8",
      timeout: fixedLimit(60_000),
    });
    expect(status, stderr).toBe(0);
    for (const file of scripts)
      expect(stderr.split("\n").filter((path) => path.endsWith(`/sluice/dist/${file}`))).not.toEqual([]);
  });

  it("has the licences of all packages whose code it has, and needs none of them", () => {
    const dist = join(home, "node_modules", "sluice", "dist");
    const licences = readFileSync(join(dist, "THIRD-PARTY-LICENSES.txt"), "utf8");
    const packages = licences.split(/\n-{80}\n/).map((notice) => {
      const [, name, text] = /^(\S+) \d+\.\d+\.\d+ \([\w.-]+\)\n\n(.*)/ms.exec(notice) ?? [];
      return [notice, name, text] as const;
    });
    expect(packages.map(([, name]) => name)).toEqual(expect.arrayContaining(["commander", "undici", "yaml", "zod"]));
    for (const [, name, text] of packages)
      expect(text, name).toMatch(/Permission (?:is hereby granted|to use)|Apache License/);
    // zod is beside them for the types of plugins, and uPlot for the reports, which contain its files.
    const beside = packages.filter(([, name]) => existsSync(join(home, "node_modules", name!))).map(([, name]) => name);
    expect(beside).toEqual(["uplot", "zod"]);
  });

  it("says in one line which Node.js it needs where that is too old, and ends with 1", () => {
    const main = join(home, "node_modules", "sluice", "dist", "commands", "main.js");
    // Nothing in it that an old parser does not know, or would have to load first.
    expect(readFileSync(main, "utf8")).not.toMatch(/^import |^export (?!\{\s*\};)|\bawait\b|\?\.|\?\?|`|=>/m);
    const old = "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '24.14.9' } })";
    const pretending: [string, string[]] = [process.execPath, ["--import", `data:text/javascript,${old}`]];
    const installed = ["/usr/bin/node", "/usr/local/bin/node"]
      .filter((path) => /^v(1\d|2[0-3])\./.test(spawnSync(path, ["--version"], { encoding: "utf8" }).stdout ?? ""))
      .map((path): [string, string[]] => [path, []]);
    for (const [program, args] of [pretending, ...installed]) {
      const { status, stdout, stderr } = spawnSync(program, [...args, main, "--version"], { encoding: "utf8" });
      expect(stderr).toMatch(/^sluice needs Node\.js 24\.15 or newer; this is v\S+, \S+\n$/);
      expect([status, stdout]).toEqual([1, ""]);
    }
    const { engines, version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    expect(engines.node).toBe(">=24.15.0");
    expect(spawnSync(process.execPath, [main, "--version"], { encoding: "utf8" }).stdout).toBe(`${version}\n`);
  });

  it("runs the demo from its own files", () => {
    const out = execFileSync(join(home, "node_modules", ".bin", "sluice"), ["demo", "--duration", "8s", "--json"], {
      cwd: home,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: fixedLimit(60_000),
    });
    const { policies } = JSON.parse(out) as { policies: { name: string; requests: number; failed: number }[] };
    expect(policies.map((policy) => policy.name)).toEqual(["round-robin", "sluice"]);
    for (const policy of policies) {
      expect(policy.requests).toBeGreaterThan(20);
      expect(policy.failed).toBe(0);
    }
  });

  it("compares policies, and writes a report that needs no other file", () => {
    const bin = join(home, "node_modules", ".bin", "sluice");
    const settings = [
      "low-prefix-share",
      "--quick",
      "--duration",
      "2s",
      "--policy",
      "round-robin",
      "default",
      "--quiet",
    ];
    const out = execFileSync(bin, ["simulate", ...settings, "--html", "report.html"], {
      cwd: home,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: fixedLimit(60_000),
    });
    expect(out).toContain("At 70 requests/s, one seed\n");
    const report = readFileSync(join(home, "report.html"), "utf8");
    const beside = join(home, "node_modules", "sluice", "dist", "lab", "study", "report");
    expect(report).toContain(readFileSync(join(beside, "report.css"), "utf8"));
    for (const script of ["plot-style.js", "page-script.js"]) {
      const code = readFileSync(join(beside, script), "utf8");
      expect(report).toContain(code.replace(/^export /gm, "").replace(/^import .*;\n/gm, ""));
    }
    expect(report).toContain("uPlot");
    expect(report).toContain(`To reproduce: <code>sluice simulate ${settings.join(" ")} --html report.html</code>`);
    expect(report).not.toMatch(/<(?:link|script)[^>]* (?:href|src)=/);
  });

  it("lets a plugin author import what plugins are made with", () => {
    writeFileSync(
      join(home, "mine.js"),
      `import { defineScorer, z } from "sluice/plugin";
       const mine = defineScorer({ type: "mine", describe: "d", parameters: z.strictObject({}), create: () => ({ score() {} }) });
       process.stdout.write(mine.kind + " " + mine.type);`,
    );
    expect(execFileSync(process.execPath, ["mine.js"], { cwd: home, encoding: "utf8" })).toBe("scorer mine");
  });

  it("tests, checks and runs plugins of the user that lie beside the configuration, out of the tree", async () => {
    const folder = join(home, "pool");
    cpSync(join(ROOT, "examples", "custom-scorer"), folder, { recursive: true });
    const run = (program: string, ...args: readonly string[]): string =>
      execFileSync(program, args, {
        cwd: folder,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
        timeout: fixedLimit(60_000),
      });
    expect(run(process.execPath, "--test")).toMatch(/pass 4$/m);
    const bin = join(home, "node_modules", ".bin", "sluice");
    expect(run(bin, "validate", "config.yaml")).toContain("zone-scorer x 5");
    const sims = await startSims(2);
    const [east, west] = sims.map(({ port }, at) => `{ name: s${at}, address: 127.0.0.1, port: ${port}, labels: `);
    writeFileSync(join(folder, "endpoints.yaml"), `endpoints:\n- ${east}{ zone: east } }\n- ${west}{ zone: west } }\n`);
    const files = ["--endpoints", "endpoints.yaml", "--config-file", "config.yaml"];
    const ports = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    const gateway = new TestProcess(bin, ["gateway", ...files, ...ports], { cwd: folder });
    const url = `http://${await gateway.listening("gateway")}/v1/chat/completions`;
    for (const zone of ["west", "east"]) {
      const headers = { ...JSON_HEADERS, "x-zone": zone, "x-test-id": zone };
      expect((await ask(url, { method: "POST", headers, body: chat("hello") })).status).toBe(200);
      const seen = await seenBy(sims, zone);
      expect(seen.map(({ port }) => port)).toEqual([sims[zone === "east" ? 0 : 1]!.port]);
    }
    await gateway.stop();
    await Promise.all(sims.map((sim) => sim.process.stop()));
  });

  it("tokenizes in threads, whose program and libraries it has", async () => {
    const folder = join(home, "tokens");
    writeModel(join(folder, "m"));
    const local = { autoDiscoveryDir: folder, workersCount: 1, timeout: "60s" };
    const plugins = [{ type: "token-producer", parameters: { modelName: "m", local } }];
    const config = { apiVersion: "llm-d.ai/v1alpha1", kind: "EndpointPickerConfig", plugins };
    writeFileSync(join(folder, "config.yaml"), JSON.stringify(config));
    const sims = await startSims(1);
    writeFileSync(
      join(folder, "endpoints.yaml"),
      `endpoints: [{ name: a, address: 127.0.0.1, port: ${sims[0]!.port} }]\n`,
    );
    const files = ["--endpoints", "endpoints.yaml", "--config-file", "config.yaml"];
    const ports = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    const bin = join(home, "node_modules", ".bin", "sluice");
    const gateway = new TestProcess(bin, ["gateway", ...files, ...ports], { cwd: folder });
    const url = `http://${await gateway.listening("gateway")}/v1/chat/completions`;
    expect((await ask(url, { method: "POST", headers: JSON_HEADERS, body: chat("hello") })).status).toBe(200);
    const { plugins: states } = await getJson<{
      readonly plugins: Readonly<Record<string, { readonly state: { readonly cache: { readonly misses: number } } }>>;
    }>(`http://${await gateway.listening("admin")}/debug/plugins/state`);
    expect(states["token-producer"]!.state).toMatchObject({ replaced: 0, resting: [] });
    expect(states["token-producer"]!.state.cache.misses).toBeGreaterThan(0);
    await gateway.stop();
    await Promise.all(sims.map((sim) => sim.process.stop()));
  });

  it("lets an application ask through a queue: the example, with the dispatcher from the package", async () => {
    const gateway = await GatewayProcess.start();
    const queues = [{ queue_name: "requests", igw_base_url: gateway.url }];
    const config = { transport: "sqlite", "transport-config": { path: "queue.db", queues } };
    writeFileSync(join(home, "dispatch.yaml"), JSON.stringify(config));
    const flags = [
      "--config",
      "dispatch.yaml",
      "--bind-address",
      "127.0.0.1",
      "--health-port",
      "0",
      "--metrics-port",
      "0",
    ];
    const dispatcher = new TestProcess(join(home, "node_modules", ".bin", "sluice"), ["dispatch", ...flags], {
      cwd: home,
    });
    await dispatcher.listening("metrics");
    copyFileSync(join(ROOT, "examples", "async-producer", "main.js"), join(home, "main.js"));
    const application = new TestProcess(process.execPath, ["main.js", "queue.db", "requests"], { cwd: home });
    expect([(await application.ended(30_000)).code, application.stderr]).toEqual([0, ""]);
    for (const city of ["Lisbon", "Nairobi", "Osaka", "Quito"]) expect(application.stdout).toContain(`${city}: {`);
    await dispatcher.stop("SIGTERM");
    await gateway.stop();
  });

  it("tells TypeScript what a producer takes", () => {
    writeFileSync(
      join(home, "typed.ts"),
      `import { createProducer, createRequester, type Producer, type ResultMessage, SluiceError } from "sluice/producer";
       export const producer: Producer = await createProducer({ redis: { url: "redis://h" }, resultQueueName: "r" });
       const requester = await createRequester({ sqlite: { path: "p" }, requestQueueName: "q" });
       export const result: ResultMessage = await requester.request({ a: 1 }, { deadline: 5 });
       // @ts-expect-error: there is no such option
       createProducer({ redis: { url: "redis://h" }, resultQueueName: "r", resultQueuName: "s" });
       // @ts-expect-error: a request has a deadline
       requester.request({ a: 1 }, {}).catch((error) => error instanceof SluiceError);`,
    );
    typeCheck(["typed.ts"]);
  });

  it("tells TypeScript what plugins are: the example and what the documentation shows", () => {
    const folder = join(home, "documented");
    mkdirSync(folder);
    const page = readFileSync(join(ROOT, "docs", "extend", "plugins.md"), "utf8");
    const shown = [...page.matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code!);
    expect(shown.length).toBeGreaterThan(3);
    const names = shown.map((code, at) => {
      const name = /^\/\/ (\S+\.ts)$/m.exec(code)?.[1] ?? `shown-${at}.ts`;
      writeFileSync(join(folder, name), code);
      return join("documented", name);
    });
    const examples = ["zone-scorer.ts", "zone-scorer.test.ts", "long-answers.ts"].map((name) => join("pool", name));
    writeFileSync(
      join(folder, "wrong.ts"),
      `import { defineScorer } from "sluice/plugin";
       import { expectPick } from "sluice/plugin/testing";
       // @ts-expect-error: a scorer scores
       export const wrong = defineScorer({ type: "wrong", describe: "d", create: () => ({ filter() {} }) });
       // @ts-expect-error: an endpoint has a name
       expectPick({ plugins: [], endpoints: [{ waiting: 1 }] });`,
    );
    typeCheck([...names, ...examples, join("documented", "wrong.ts")]);
  });

  it("explains a mistyped command", () => {
    const run = (): string =>
      execFileSync(join(home, "node_modules", ".bin", "sluice"), ["gatewy"], {
        cwd: home,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      });
    expect(run).toThrow(/did you mean gateway\?/);
  });
});
