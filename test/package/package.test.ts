import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { GatewayProcess } from "../support/gateway-process.ts";
import { ROOT, TestProcess } from "../support/process.ts";

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

  beforeAll(() => {
    npm(["pack", "--pack-destination", home], ROOT);
    const tarball = readdirSync(home).find((name) => name.endsWith(".tgz"));
    writeFileSync(join(home, "package.json"), '{ "name": "elsewhere", "private": true, "type": "module" }');
    npm(["install", `./${tarball}`, "--prefer-offline", "--ignore-scripts"], home);
  });

  it("runs the demo from its own files", () => {
    const out = execFileSync(join(home, "node_modules", ".bin", "sluice"), ["demo", "--duration", "8s", "--json"], {
      cwd: home,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 60_000,
    });
    const { policies } = JSON.parse(out) as { policies: { name: string; requests: number; failed: number }[] };
    expect(policies.map((policy) => policy.name)).toEqual(["round-robin", "sluice"]);
    for (const policy of policies) {
      expect(policy.requests).toBeGreaterThan(20);
      expect(policy.failed).toBe(0);
    }
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
    const flags = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2024", "--types", "node"];
    const types = ["--typeRoots", join(ROOT, "node_modules", "@types"), "--ignoreConfig"];
    execFileSync(join(ROOT, "node_modules", ".bin", "tsc"), [...flags, ...types, "typed.ts"], {
      cwd: home,
      stdio: "pipe",
    });
  });

  it("explains a mistyped command", () => {
    const run = (): string =>
      execFileSync(join(home, "node_modules", ".bin", "sluice"), ["gatewy"], {
        cwd: home,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      });
    expect(run).toThrow(/Did you mean gateway\?/);
  });
});
