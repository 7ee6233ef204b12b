import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { PoolView } from "../../src/pool/endpoints/view.ts";
import { ask, getJson, JSON_HEADERS } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import { poll } from "../support/poll.ts";
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

const here = (out: string): string[] => ["--out", out, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

const ENGINES = ["vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "triton"];

/** Triton with another backend than TensorRT-LLM: its own metrics, and the OpenAI API of a simulator. @returns its origin */
async function tritonBefore(port: number): Promise<string> {
  const pages: Readonly<Record<string, string>> = {
    "/metrics":
      'nv_inference_pending_request_count{model="sim",version="1"} 0\nnv_inference_exec_count{model="sim"} 7\n',
    "/v2": '{"name":"triton","version":"2.60.0","extensions":[]}',
  };
  const server = createServer((request, response) => {
    const page = pages[request.url ?? ""];
    if (page !== undefined) {
      response.end(page);
      return;
    }
    const { method, url, headers } = request;
    const onward = httpRequest({ port, host: "127.0.0.1", method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    request.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanUps.push(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("sluice init", () => {
  it("asks servers, writes a file that validates and starts a gateway, and says what it found", async () => {
    const [one, two] = [await startSims(1), await startSims(1, ["--lora-modules", '{"name":"sql","path":"/sql"}'])];
    for (const { process } of [...one, ...two]) cleanUps.push(() => process.stop());
    const out = join(mkdtempSync(join(tmpdir(), "sluice-init-")), "gateway.yaml");
    const { code, process } = await run("init", one[0]!.url, `127.0.0.1:${two[0]!.port}`, ...here(out));
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

  it.each(ENGINES)("knows %s by its pages, and the gateway reads the load of what is written", async (engine) => {
    const [sim] = await startSims(1, engine === "triton" ? [] : ["--engine", engine, "--block-size", "32"]);
    cleanUps.push(() => sim!.process.stop());
    const origin = engine === "triton" ? await tritonBefore(sim!.port) : sim!.url;
    const out = join(mkdtempSync(join(tmpdir(), "sluice-init-")), "gateway.yaml");
    const { code, process } = await run("init", origin, ...here(out));
    expect([code, process.stderr]).toEqual([0, ""]);
    expect(process.stdout).toMatch(new RegExp(`^${engine}-0 {2}\\S+ {2}${engine}\\b`));
    const text = readFileSync(out, "utf8");
    if (engine === "vllm") expect(text).not.toContain("labels");
    else expect(text).toContain(`labels: { llm-d.ai/engine-type: ${engine} }`);
    expect((await run("validate", "--strict", out)).code).toBe(0);
    const gateway = sluice("gateway", "--config", out);
    cleanUps.push(() => gateway.stop());
    const url = `http://${await gateway.listening("gateway")}`;
    const body = JSON.stringify({ model: "sim", prompt: "hello", max_tokens: 2 });
    expect((await ask(`${url}/v1/completions`, { headers: JSON_HEADERS, body })).status).toBe(200);
    const admin = `http://${await gateway.listening("admin")}`;
    const values = engine === "triton" ? ["waiting"] : ["waiting", "running", "kvUsage", "blockSize"];
    await poll("the load of the server", async () => {
      const { endpoints } = await getJson<PoolView>(`${admin}/debug/endpoints`);
      const [{ state, metrics }] = endpoints as [PoolView["endpoints"][number]];
      return state === "up" && values.every((name) => metrics[name as "waiting"] !== null);
    });
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
