import { execFile } from "node:child_process";
import { mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { clientAuthority } from "../support/certificates.ts";
import { type Answer, ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { HoldingServer } from "../support/holding-server.ts";
import { newKeys } from "../support/keys.ts";
import { poll } from "../support/poll.ts";
import { sluice, type TestProcess } from "../support/process.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

const run = promisify(execFile);
const cleanUps: (() => Promise<unknown>)[] = [];
let folder = "";
let sims: Sim[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "sluice-clients-"));
  sims = await startSims(1);
  cleanUps.push(() => sims[0]!.process.stop());
});
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

function put(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
  return path;
}

interface Started {
  readonly process: TestProcess;
  readonly url: string;
  readonly adminUrl: string;
}

/** Writes gateway.yaml with the endpoints of the test. */
const write = (text: string, ports: readonly number[] = [sims[0]!.port]): string =>
  put("gateway.yaml", `endpoints: { file: ${endpointsFile(ports)} }\nadmin: { address: 127.0.0.1:0 }\n${text}`);
const HERE = "listeners: [{ address: 127.0.0.1:0 }]\n";

async function start(path: string, ...args: readonly string[]): Promise<Started> {
  const process = sluice("gateway", "--config", path, ...args);
  cleanUps.push(() => process.stop());
  const url = `http://${await process.listening("gateway")}`;
  return { process, url, adminUrl: `http://${await process.listening("admin")}` };
}

const send = ({ url }: Started, headers: Readonly<Record<string, string>> = {}): Promise<Answer> =>
  ask(`${url}/v1/chat/completions`, {
    headers: { ...JSON_HEADERS, ...headers },
    body: chat("hello", { max_tokens: 2 }),
  });
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

describe("keys of gateway.yaml", () => {
  it("come, change their file and go while a request runs, and a wrong file changes nothing", async () => {
    const [first, second] = [await newKeys("a"), await newKeys("b")];
    put("first.yaml", first.text);
    put("second.yaml", second.text);
    const server = await HoldingServer.start(true);
    cleanUps.push(() => server.stop());
    const gateway = await start(write(HERE, [server.port]));
    const running = send(gateway);
    await gateway.process.until("the request", () => server.waiting === 1);
    write(`${HERE}keys: { file: first.yaml }\n`);
    await poll("the first file", async () => (await ask(`${gateway.url}/v1/models`)).status === 401);
    expect((await ask(`${gateway.url}/v1/models`, { headers: bearer(first.key) })).status).toBe(200);
    write(`${HERE}keys: { file: nowhere.yaml }\n`);
    await gateway.process.until("the error", () => gateway.process.stderr.includes("nowhere.yaml does not exist"));
    expect((await ask(`${gateway.url}/v1/models`, { headers: bearer(first.key) })).status).toBe(200);
    write(`${HERE}keys: { file: second.yaml }\n`);
    const by = async (key: string) => (await ask(`${gateway.url}/v1/models`, { headers: bearer(key) })).status;
    await poll("the second file", async () => (await by(second.key)) === 200);
    expect(await by(first.key)).toBe(401);
    // The new file is followed, too.
    const entries = [first, second].flatMap(({ text }) => (parse(text) as { keys: unknown[] }).keys);
    put("second.yaml", stringify({ keys: entries }));
    await poll("both keys", async () => (await by(first.key)) === 200);
    server.release();
    expect((await running).status).toBe(200);
  });

  it("may not go from a gateway that other machines reach", async () => {
    const { text, key } = await newKeys("a");
    put("keys.yaml", text);
    const open = "listeners: [{ address: 0.0.0.0:0 }]\n";
    const gateway = await start(write(`${open}keys: { file: keys.yaml }\n`));
    const url = gateway.url.replace("0.0.0.0", "127.0.0.1");
    write(`${HERE}retries: { max: 1 }\n`);
    await gateway.process.until("the refusal", () => gateway.process.stderr.includes("is open to other machines"));
    expect((await send({ ...gateway, url })).status).toBe(401);
    expect((await send({ ...gateway, url }, bearer(key))).status).toBe(200);
  });
});

describe("certificates of a change that needs a restart", () => {
  it("are read with the change: a wrong one refuses it, and a right one waits for the restart", async () => {
    const { ca, server } = await clientAuthority();
    put("tls.crt", server.cert);
    put("tls.key", server.key);
    const gateway = await start(write(HERE));
    const said = (text: string) => gateway.process.until(text, () => gateway.process.stderr.includes(text));
    const refused = async () =>
      /^sluice_gateway_file_refused (\d)$/m.exec((await ask(`${gateway.adminUrl}/metrics`)).text);
    const secure = (key: string) =>
      `listeners: [{ address: 127.0.0.1:0 }, { address: 127.0.0.1:0, tls: { certificate: tls.crt, key: ${key} } }]\n`;
    write(`${secure("tls.crt")}retries: { max: 1 }\n`);
    await said("the gateway refuses the changed gateway file");
    expect((await refused())?.[1]).toBe("1");
    write(`${HERE}servers: { tls: { ca: nowhere.crt } }\n`);
    await said("nowhere.crt");
    put("ca.crt", ca);
    write(`${secure("tls.key")}servers: { tls: { ca: ca.crt } }\n`);
    await said("listeners: the change takes effect only at the next start");
    expect((await refused())?.[1]).toBe("0");
    expect((await send(gateway)).status).toBe(200);
  });
});

describe("limits of gateway.yaml", () => {
  it("change at once, and a rule that stays keeps its count", async () => {
    const gateway = await start(write(HERE));
    expect((await send(gateway)).headers["x-ratelimit-limit-requests"]).toBeUndefined();
    write(`${HERE}limits: { rules: [{ requestsPerMinute: 4 }] }\n`);
    const limits = () => getJson<{ rules: { rule: string }[] }>(`${gateway.adminUrl}/debug/limits`);
    await poll("the rule", async () => (await limits()).rules.length === 1);
    expect((await send(gateway)).status).toBe(200);
    expect((await send(gateway)).status).toBe(200);
    write(`${HERE}limits: { rules: [{ requestsPerMinute: 2 }, { model: sim, inFlight: 50 }] }\n`);
    await poll("both rules", async () => (await limits()).rules.length === 2);
    expect((await send(gateway)).status).toBe(429);
    put("limits.yaml", "rules: [{ model: sim, inFlight: 51 }]\n");
    write(`${HERE}limits: { file: limits.yaml }\n`);
    await poll("the file", async () => (await limits()).rules.length === 1);
    expect((await send(gateway)).status).toBe(200);
    put("limits.yaml", "rules: []\n");
    await poll("the changed file", async () => (await limits()).rules.length === 0);
    // A file of before counts no more.
    write(`${HERE}limits: { rules: [{ model: m, inFlight: 1 }] }\n`);
    await poll("rules in place", async () => (await limits()).rules[0]?.rule === "model=m");
    put("limits.yaml", "rules: [{ model: n, inFlight: 1 }]\n");
    write(`${HERE}limits: { rules: [{ model: m, inFlight: 1 }], redis: "redis://127.0.0.1:1" }\n`);
    await gateway.process.until("the warning", () =>
      gateway.process.stderr.includes("limits.redis: the change takes effect only at the next start"),
    );
    expect((await limits()).rules.map(({ rule }) => rule)).toEqual(["model=m"]);
  });
});

describe("connections of gateway.yaml", () => {
  it("are plain and TLS at a time, with paths from the folder of the file", async () => {
    const { ca, server } = await clientAuthority();
    put("tls.crt", server.cert);
    put("tls.key", server.key);
    const trust = put("ca.crt", ca);
    const tls =
      "listeners: [{ address: 127.0.0.1:0 }, { address: 127.0.0.1:0, tls: { certificate: tls.crt, key: tls.key } }]\n";
    const gateway = await start(write(tls));
    const addresses = [...gateway.process.stdout.matchAll(/name=gateway address=(\S+)/g)].map(([, at]) => at!);
    expect(addresses.length).toBe(2);
    expect((await ask(`http://${addresses[0]}/v1/models`)).status).toBe(200);
    const written = ["-w", "\n%{http_version} %{http_code}", "--cacert", trust];
    const { stdout } = await run("curl", ["-sS", ...written, `https://${addresses[1]}/v1/models`]);
    expect(stdout.split("\n").at(-1)).toBe("2 200");
  });

  it("let pages of other origins in and out while the gateway runs", async () => {
    const gateway = await start(write(`${HERE}cors: { origins: [https://a.example] }\n`));
    const allowed = async (origin: string) =>
      (await ask(`${gateway.url}/v1/models`, { headers: { origin } })).headers["access-control-allow-origin"];
    expect([await allowed("https://a.example"), await allowed("https://b.example")]).toEqual([
      "https://a.example",
      undefined,
    ]);
    write(`${HERE}cors: { origins: [https://b.example] }\n`);
    await poll("the other origin", async () => (await allowed("https://b.example")) === "https://b.example");
    expect(await allowed("https://a.example")).toBeUndefined();
    write(HERE);
    await poll("no origin", async () => (await allowed("https://b.example")) === undefined);
  });

  it("are those of the flags where flags give them, with a line for each idle key", async () => {
    const { text, key } = await newKeys("a");
    const keys = put("keys.yaml", text);
    const path = write(`${HERE}keys: { file: nowhere.yaml }\ncors: { origins: ["*"] }\ndrain: { timeout: 1h }\n`);
    const flags = ["--keys", keys, "--cors-origin", "https://a.example", "--drain-timeout", "0s"];
    const gateway = await start(path, ...flags, "--listen", "127.0.0.1:0");
    for (const line of ["listeners: --listen", "keys.file: --keys", "cors: --cors-origin", "drain.timeout: --drain"])
      expect(gateway.process.stderr).toContain(`: ${line}`);
    expect((await send(gateway)).status).toBe(401);
    expect((await send(gateway, bearer(key))).status).toBe(200);
  });
});
