import { mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { ask, getJson, JSON_HEADERS } from "../support/client.ts";
import { DnsServer } from "../support/dns-server.ts";
import type { ShownEndpoint } from "../support/gateway.ts";
import { HoldingServer } from "../support/holding-server.ts";
import { poll } from "../support/poll.ts";
import { sluice, type TestProcess } from "../support/process.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function sims(count: number, args: readonly string[] = []): Promise<Sim[]> {
  const started = await startSims(count, args);
  cleanUps.push(() => Promise.all(started.map(({ process }) => process.stop())));
  return started;
}

/** A gateway.yaml that tests write in one step. */
class File {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-gateway-"));
  readonly path = join(this.folder, "gateway.yaml");

  write(text: string): void {
    writeFileSync(`${this.path}.new`, text);
    renameSync(`${this.path}.new`, this.path);
  }
}

const HEAD = "listeners: [{ address: 127.0.0.1:0 }]\nadmin: { address: 127.0.0.1:0 }\n";
const list = (servers: readonly { readonly port: number }[]): string =>
  `endpoints:\n  list:\n${servers.map(({ port }, i) => `  - { name: s${i}, address: 127.0.0.1, port: ${port} }\n`).join("")}`;

interface Started {
  readonly process: TestProcess;
  readonly url: string;
  readonly adminUrl: string;
}

async function start(file: File, ...args: readonly string[]): Promise<Started> {
  const process = sluice("gateway", "--config", file.path, ...args);
  cleanUps.push(() => process.stop());
  const url = `http://${await process.listening("gateway")}`;
  return { process, url, adminUrl: `http://${await process.listening("admin")}` };
}

let next = 0;
async function complete(url: string, more: object = {}): Promise<{ status: number; id: string; text: string }> {
  const id = `file-${next++}`;
  const body = JSON.stringify({ model: "sim", prompt: `say ${id}`, max_tokens: 4, ...more });
  const { status, text } = await ask(`${url}/v1/completions`, { headers: { ...JSON_HEADERS, "x-test-id": id }, body });
  return { status, id, text };
}
const names = async ({ adminUrl }: Started): Promise<string[]> =>
  (await getJson<{ endpoints: ShownEndpoint[] }>(`${adminUrl}/debug/endpoints`)).endpoints.map(({ id }) => id).sort();
const metric = async ({ adminUrl }: Started, line: string): Promise<boolean> =>
  (await ask(`${adminUrl}/metrics`)).text.includes(`\n${line}\n`);

describe("sluice gateway --config", () => {
  it("starts with the file alone, and a flag wins over its key with a line that says so", async () => {
    const servers = await sims(1);
    const file = new File();
    file.write(`${HEAD}${list(servers)}log: { level: error }\npaths: { allow: [/sleep] }\n`);
    const gateway = await start(file, "--log-level", "info");
    expect((await complete(gateway.url)).status).toBe(200);
    expect((await ask(`${gateway.url}/sleep`, { body: "{}" })).status).not.toBe(403);
    expect((await ask(`${gateway.url}/wake_up`, { body: "{}" })).status).toBe(403);
    expect(gateway.process.stderr).toContain(
      `${file.path}:6:8: log.level: --log-level on the command line wins over this key`,
    );
  });

  it("loses none of 200 requests in flight while endpoints, picker, retries and objectives change", async () => {
    const servers = await Promise.all([true, true, false].map((holds) => HoldingServer.start(holds)));
    cleanUps.push(() => Promise.all(servers.map((server) => server.stop())));
    const [first, second, third] = servers as [HoldingServer, HoldingServer, HoldingServer];
    const file = new File();
    file.write(`${HEAD}${list([first, second])}`);
    const gateway = await start(file);
    const inFlight = Array.from({ length: 200 }, () => complete(gateway.url));
    await gateway.process.until("200 requests in flight", () => first.waiting + second.waiting === 200);
    const settings = "picker: { profile: sticky-until-saturated }\nretries: { max: 3 }\nobjectives: { batch: -1 }\n";
    file.write(`${HEAD}${list([third])}${settings}`);
    await gateway.process.until("the change", () =>
      gateway.process.stderr.includes("the gateway uses the changed gateway file"),
    );
    const later = await Promise.all(Array.from({ length: 50 }, () => complete(gateway.url)));
    expect([first.waiting + second.waiting, third.seen]).toEqual([200, 50]);
    first.release();
    second.release();
    const all = await Promise.all([...inFlight, ...later]);
    expect([all.length, new Set(all.map(({ status }) => status))]).toEqual([250, new Set([200])]);
    expect([first.seen + second.seen, third.seen]).toEqual([200, 50]);
    expect(await metric(gateway, 'sluice_gateway_file_reloads_total{result="applied"} 1')).toBe(true);
  });

  it("keeps the last good content over a broken change, and names line, column and nearest key", async () => {
    const servers = await sims(1);
    const file = new File();
    const good = `${HEAD}${list(servers)}`;
    file.write(good);
    const gateway = await start(file);
    file.write(`${good}retris: { max: 3 }\nlog: { level: loud }\n`);
    await gateway.process.until("the error", () => gateway.process.stderr.includes("refuses the changed gateway file"));
    expect(gateway.process.stderr).toContain(
      `${file.path}:6:1: retris: unknown key \`retris\`; did you mean \`retries\`?`,
    );
    expect(gateway.process.stderr).toContain(`${file.path}:7:8: log.level: expected one of`);
    expect((await complete(gateway.url)).status).toBe(200);
    expect(await metric(gateway, "sluice_gateway_file_refused 1")).toBe(true);
    // Valid by its keys, and yet not possible: nothing of it takes effect.
    file.write(`${HEAD}endpoints: { file: nowhere.yaml }\npaths: { allow: [/sleep] }\n`);
    await gateway.process.until("the second error", () =>
      gateway.process.stderr.includes("nowhere.yaml does not exist"),
    );
    expect((await ask(`${gateway.url}/sleep`, { body: "{}" })).status).toBe(403);
    expect((await complete(gateway.url)).status).toBe(200);
    file.write(`${good}paths: { allow: [/sleep] }\n`);
    await poll("the good change", async () => (await ask(`${gateway.url}/sleep`, { body: "{}" })).status !== 403);
    expect(await metric(gateway, "sluice_gateway_file_refused 0")).toBe(true);
  });

  it("names the keys that need a restart, and applies the others", async () => {
    const servers = await sims(1);
    const file = new File();
    file.write(`${HEAD}${list(servers)}`);
    const gateway = await start(file);
    file.write(
      `listeners: [{ address: 127.0.0.1:1 }]\nadmin: { address: 127.0.0.1:0 }\n${list(servers)}log: { requests: { which: all } }\n`,
    );
    await gateway.process.until("the warning", () =>
      gateway.process.stderr.includes(
        `${file.path}:1:1: listeners: the change takes effect only at the next start: restart the gateway`,
      ),
    );
    expect(await metric(gateway, "sluice_gateway_file_restart_keys 1")).toBe(true);
    expect((await complete(gateway.url)).status).toBe(200);
    await poll("the line of the request", () => gateway.process.stdout.includes('"path":"/v1/completions"'));
  });

  it("changes the log level, and follows another configuration of the picker", async () => {
    const servers = await sims(1);
    const file = new File();
    const picker = (name: string): string =>
      `apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{ type: queue-scorer, name: ${name} }, { type: max-score-picker }]\n` +
      `schedulingProfiles: [{ name: default, plugins: [{ pluginRef: ${name} }, { pluginRef: max-score-picker }] }]\n`;
    writeFileSync(join(file.folder, "picker.yaml"), picker("first"));
    file.write(`${HEAD}${list(servers)}`);
    const gateway = await start(file);
    file.write(`${HEAD}${list(servers)}picker: { configFile: picker.yaml }\nlog: { level: debug }\n`);
    const plugins = async (): Promise<string> => (await ask(`${gateway.adminUrl}/debug/plugins/state`)).text;
    await poll("the plugin of the file", async () => (await plugins()).includes('"first"'));
    writeFileSync(join(file.folder, "picker.yaml"), picker("second"));
    await poll("the plugin of the changed file", async () => (await plugins()).includes('"second"'));
    const inline = picker("third").replaceAll(/^/gm, "    ");
    file.write(`${HEAD}${list(servers)}picker:\n  config:\n${inline}\n`);
    await poll("the inline plugin", async () => (await plugins()).includes('"third"'));
    // The file of before counts no more.
    expect(await metric(gateway, "sluice_config_refused 0")).toBe(true);
    file.write(`${HEAD}${list(servers)}picker:\n  config:\n${inline.replace("queue-scorer", "queue-scorr")}\n`);
    await gateway.process.until("the error of the inline plugin", () => gateway.process.stderr.includes("queue-scorr"));
    expect(gateway.process.stderr).toMatch(new RegExp(`${file.path}:10:\\d+: .*queue-scorr`));
    expect((await complete(gateway.url)).status).toBe(200);
  });

  it("goes from a followed endpoints file to DNS and to a host list, each without a gap", async () => {
    const servers = await sims(2);
    const dns = await DnsServer.start();
    cleanUps.push(() => dns.stop());
    dns.set("SRV", "_vllm._tcp.test", { records: [{ target: "gpu.test", port: servers[1]!.port }] });
    dns.set("A", "gpu.test", { records: ["127.0.0.1"] });
    const file = new File();
    file.write(`${HEAD}endpoints: { file: ${endpointsFile([servers[0]!.port])} }\n`);
    const gateway = await start(file);
    expect(await names(gateway)).toEqual(["default/server-1"]);
    const byDns = (name: string): string =>
      `${HEAD}endpoints: { dns: { names: [{ srv: ${name} }], servers: ["${dns.address}"], interval: 1s } }\n`;
    file.write(byDns("_typo._tcp.test"));
    await gateway.process.until("the refusal", () =>
      gateway.process.stderr.includes("DNS has no endpoints for _typo._tcp.test"),
    );
    expect(await names(gateway)).toEqual(["default/server-1"]);
    file.write(byDns("_vllm._tcp.test"));
    await poll("DNS", async () => (await names(gateway))[0] === `default/127.0.0.1:${servers[1]!.port}`);
    expect((await complete(gateway.url)).status).toBe(200);
    dns.set("A", "gpu.test", { records: ["127.0.0.1", "127.0.0.2"] });
    await poll("the second address", async () => (await names(gateway)).length === 2);
    file.write(`${HEAD}endpoints: { slurm: { hosts: "local[h-h]", port: 1 } }\n`);
    await gateway.process.until("the wrong host list", () =>
      gateway.process.stderr.includes("is not a number or a range"),
    );
    file.write(`${HEAD}endpoints: { slurm: { hosts: "127.0.0.[1-1]", port: ${servers[0]!.port} } }\n`);
    await poll("the host", async () => (await names(gateway)).join() === `default/127.0.0.1:${servers[0]!.port}`);
    expect((await complete(gateway.url)).status).toBe(200);
  });

  it("reports all that is wrong at the start, and nothing listens", async () => {
    const file = new File();
    file.write("listeners: [{ adress: 127.0.0.1:0 }]\nendpoints: { file: a.yaml, dns: { names: [] } }\n");
    const process = sluice("gateway", "--config", file.path);
    expect((await process.ended()).code).not.toBe(0);
    for (const text of [":1:15: listeners[0].adress: unknown key `adress`; did you mean `address`?", ":2:"])
      expect(process.stderr).toContain(`${file.path}${text}`);
    expect(process.stdout).toBe("");
  });
});
