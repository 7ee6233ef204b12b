import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { ask, JSON_HEADERS } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import { sluice, type TestProcess } from "../support/process.ts";
import { startSims } from "../support/stack.ts";

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function run(
  ...args: readonly string[]
): Promise<{ readonly code: number | null; readonly process: TestProcess }> {
  const process = sluice(...args);
  const { code } = await process.ended(60_000);
  return { code, process };
}

describe("sluice init", () => {
  it("asks servers, writes a file that validates and starts a gateway, and says what it found", async () => {
    const [one, two] = [await startSims(1), await startSims(1, ["--lora-modules", '{"name":"sql","path":"/sql"}'])];
    for (const { process } of [...one, ...two]) cleanUps.push(() => process.stop());
    const out = join(mkdtempSync(join(tmpdir(), "sluice-init-")), "gateway.yaml");
    const here = ["--out", out, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    const { code, process } = await run("init", one[0]!.url, `127.0.0.1:${two[0]!.port}`, ...here);
    expect([code, process.stderr]).toEqual([0, ""]);
    for (const text of ["vllm (sluice sim)", "models    sim", "adapters  sql", `sluice validate ${out}`, "curl "])
      expect(process.stdout).toContain(text);
    expect(readFileSync(out, "utf8")).toContain("# yaml-language-server: $schema=gateway.schema.json");
    expect((await run("validate", "--strict", out)).code).toBe(0);
    const gateway = sluice("gateway", "--config", out);
    cleanUps.push(() => gateway.stop());
    const url = `http://${await gateway.listening("gateway")}`;
    const body = JSON.stringify({ model: "sql", prompt: "hello", max_tokens: 2 });
    expect((await ask(`${url}/v1/completions`, { headers: JSON_HEADERS, body })).status).toBe(200);
  });

  it("replaces no file without --force", async () => {
    const [sim] = await startSims(1);
    cleanUps.push(() => sim!.process.stop());
    const out = join(mkdtempSync(join(tmpdir(), "sluice-init-")), "gateway.yaml");
    writeFileSync(out, "mine\n");
    const refused = await run("init", sim!.url, "--out", out);
    expect([refused.code, readFileSync(out, "utf8")]).toEqual([1, "mine\n"]);
    expect(refused.process.stderr).toContain("FILE_EXISTS");
    expect((await run("init", sim!.url, "--out", out, "--force")).code).toBe(0);
    expect(readFileSync(out, "utf8")).toContain("name: vllm-0");
  });

  it("writes a server that is down, too, and its exit status says so", async () => {
    const [sim] = await startSims(1);
    cleanUps.push(() => sim!.process.stop());
    const out = join(mkdtempSync(join(tmpdir(), "sluice-init-")), "gateway.yaml");
    const port = await freePort();
    const { code, process } = await run("init", sim!.url, "--from", `127.0.0.1:${port}-${port}`, "--out", out);
    expect(code).toBe(1);
    expect(process.stderr).toContain("1 of 2 servers did not answer");
    expect(process.stdout).toContain("does not answer: ");
    expect(readFileSync(out, "utf8")).toMatch(
      /# did not answer .*\n {2}- \{ name: server-0, address: 127\.0\.0\.1, port: \d+ \}/,
    );
    expect((await run("validate", out)).code).toBe(0);
  });
});
