import { chmodSync, mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { clientAuthority } from "../support/certificates.ts";
import { ask, getJson } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import type { ShownEndpoint } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { sluice, type TestProcess } from "../support/process.ts";
import { type RedisOptions, startRedis } from "../support/redis.ts";
import { startSims } from "../support/stack.ts";

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

interface Found {
  readonly check: string;
  readonly level: string;
  readonly says: string;
}

async function doctor(...args: readonly string[]): Promise<{ code: number | null; findings: Found[]; text: string }> {
  const process = sluice("doctor", "--json", ...args);
  const { code } = await process.ended(60_000);
  expect(process.stderr).toBe("");
  const { exitStatus, findings } = JSON.parse(process.stdout) as { exitStatus: number; findings: Found[] };
  expect(exitStatus).toBe(code);
  return { code, findings, text: process.stdout };
}

const of = (findings: readonly Found[], check: string): string[] =>
  findings.filter((finding) => finding.check === check).map(({ level, says }) => `${level}: ${says}`);

/** A gateway.yaml for these servers, and a gateway that uses it once it knows the models and the state of each. */
async function start(
  ports: readonly number[],
  more = "",
): Promise<{ file: string; admin: string; process: TestProcess }> {
  const file = join(mkdtempSync(join(tmpdir(), "sluice-doctor-")), "gateway.yaml");
  const list = ports.map((port, i) => `  - { name: s${i}, address: 127.0.0.1, port: ${port} }\n`).join("");
  const text = `listeners: [{ address: 127.0.0.1:0 }]\nadmin: { address: 127.0.0.1:0 }\nendpoints:\n  list:\n${list}${more}`;
  writeFileSync(file, text);
  const process = sluice("gateway", "--config", file);
  cleanUps.push(() => process.stop());
  const admin = `http://${await process.listening("admin")}`;
  await settled(admin, ({ models }) => models !== null);
  return { file, admin, process };
}

type Shown = ShownEndpoint & { readonly models: object | null };

function settled(admin: string, is: (endpoint: Shown) => boolean): Promise<unknown> {
  return poll("the endpoints", async () =>
    (await getJson<{ endpoints: Shown[] }>(`${admin}/debug/endpoints`)).endpoints.every(is),
  );
}

/** What a server with a version answers, with metrics if they are given. */
function answering(version: string, metrics?: string): RequestListener {
  const pages: Readonly<Record<string, string | undefined>> = {
    "/v1/models": '{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm"}]}',
    "/version": JSON.stringify({ version }),
    "/metrics": metrics,
  };
  return ({ url }, response) => {
    const page = pages[url ?? ""];
    response.writeHead(page === undefined ? 404 : 200, { "content-type": "text/plain" });
    response.end(page ?? "");
  };
}

async function fakeServer(version: string, metrics?: string): Promise<number> {
  return listening(createServer(answering(version, metrics)));
}

async function listening(server: ReturnType<typeof createServer | typeof createTlsServer>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanUps.push(async () => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const metricsOf = async (admin: string): Promise<string> => (await ask(`${admin}/metrics`)).text;
const shared = (page: string): string => /^sluice_limits_shared.*$/m.exec(page)?.[0] ?? "";
const METRICS = "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n";

describe("sluice doctor", () => {
  it("finds nothing wrong with a healthy installation, then a server that was killed", async () => {
    const sims = await startSims(2);
    for (const { process } of sims) cleanUps.push(() => process.stop());
    const { file, admin } = await start(sims.map(({ port }) => port));
    await settled(admin, ({ state }) => state === "up");
    const healthy = await doctor("--admin", admin, "--config", file);
    expect(healthy.code).toBe(0);
    for (const check of ["admin", "version", "ready", "endpoints", "models", "servers", "clocks", "config"])
      expect(of(healthy.findings, check), check).toEqual([expect.stringMatching(/^ok: /)]);
    await sims[1]!.process.stop();
    await settled(admin, ({ id, state }) => id !== "default/s1" || state === "down");
    const { code, findings } = await doctor("--admin", admin, "--config", file);
    expect(code).toBe(1);
    expect(of(findings, "endpoints")).toEqual([expect.stringMatching(/^fail: default\/s1 .* is down for .*refused/i)]);
    expect(of(findings, "models")).toEqual([expect.stringMatching(/^warn: only one server serves sim/)]);
  });

  it("tells of servers without metrics and of two versions of one model", async () => {
    const ports = [await fakeServer("0.11.0", METRICS), await fakeServer("0.12.0")];
    const { admin } = await start(ports);
    await settled(admin, ({ id, state }) => state === (id === "default/s1" ? "blind" : "up"));
    const { code, findings } = await doctor("--admin", admin);
    expect(code).toBe(0);
    expect(of(findings, "endpoints")).toEqual([expect.stringMatching(/^warn: default\/s1 .* is blind .*404/)]);
    expect(of(findings, "metrics").join()).toMatch(/default\/s1 does not show .*queue-scorer/);
    expect(of(findings, "versions")).toEqual([
      "warn: the servers of m differ: vllm 0.11.0 on default/s0; vllm 0.12.0 on default/s1",
    ]);
  });

  it("tells of a broken file on disk, of keys that others can change, and shows no secret", async () => {
    const [sim] = await startSims(1);
    cleanUps.push(() => sim!.process.stop());
    const redis = await freePort();
    const { file, admin } = await start([sim!.port]);
    const keys = join(file, "..", "keys.yaml");
    writeFileSync(keys, "keys: []\n");
    chmodSync(keys, 0o666);
    const url = `redis://user:hunter2@127.0.0.1:${redis}`;
    const other = join(file, "..", "other.yaml");
    writeFileSync(other, `keys: { file: keys.yaml }\nlimits: { redis: "${url}" }\n`);
    const first = await doctor("--admin", admin, "--config", other, "--timeout", "300ms");
    expect(first.code).toBe(1);
    expect(of(first.findings, "keys")[0]).toMatch(/^fail: .*mode 666/);
    expect(of(first.findings, "redis")).toEqual([
      expect.stringMatching(`^warn: Redis 127.0.0.1:${redis} cannot be used from this machine`),
    ]);
    expect(first.text).not.toContain("hunter2");
    writeFileSync(`${file}.new`, "retris: { max: 1 }\n");
    renameSync(`${file}.new`, file);
    await poll("the refusal", async () =>
      (await ask(`${admin}/metrics`)).text.includes("sluice_gateway_file_refused 1"),
    );
    const { code, findings } = await doctor("--admin", admin, "--config", file);
    expect(code).toBe(1);
    expect(of(findings, "config")).toEqual([
      expect.stringMatching(/^fail: .*unknown key `retris`; did you mean `retries`/),
      expect.stringMatching(/^fail: the gateway refused the changed gateway file/),
    ]);
  });

  it("asks servers over TLS with the authority, the name and the certificate of the gateway", async () => {
    const { ca, client, server } = await clientAuthority();
    const names = new Set<unknown>();
    const answer = answering("0.11.0", METRICS);
    const tls = createTlsServer({ ...server, ca, requestCert: true }, (request, response) => {
      const socket = request.socket as TLSSocket;
      names.add(socket.servername);
      answer(request, response);
    });
    const port = await listening(tls);
    const folder = mkdtempSync(join(tmpdir(), "sluice-doctor-tls-"));
    const pem = { "ca.crt": ca, "tls.crt": client.cert, "tls.key": client.key };
    for (const [name, text] of Object.entries(pem)) writeFileSync(join(folder, name), text);
    const own = `ca: ${folder}/ca.crt, serverName: localhost`;
    const pair = `certificate: ${folder}/tls.crt, key: ${folder}/tls.key`;
    const { file, admin } = await start([port], `servers: { tls: { ${own}, ${pair} } }\n`);
    const asked = async (settings?: string): Promise<string[]> => {
      const other = join(folder, "other.yaml");
      writeFileSync(other, `servers: { tls: { ${settings} } }\n`);
      const { findings } = await doctor("--admin", admin, "--config", settings === undefined ? file : other);
      return of(findings, "servers");
    };
    expect(await asked()).toEqual(["ok: 1 server answers this machine over TLS"]);
    expect([...names]).toEqual(["localhost"]);
    const refused = (what: string) => [
      expect.stringMatching(`^warn: TLS fails with 127\\.0\\.0\\.1:${port} .*${what}`),
    ];
    expect(await asked(`${own}`)).toEqual(refused("it may want a certificate"));
    expect(await asked(`serverName: localhost, ${pair}`)).toEqual(refused("--server-ca"));
    expect(await asked(`ca: ${folder}/ca.crt, serverName: other.example, ${pair}`)).toEqual(refused("--server-name"));
    const unread = await asked(`ca: ${folder}/absent.crt`);
    expect(unread).toEqual([expect.stringMatching(/^warn: servers were not checked: .*absent\.crt/)]);
    const { findings } = await doctor("--admin", admin);
    expect(of(findings, "servers")).toEqual([
      expect.stringMatching(/^warn: servers were not checked: the servers speak TLS/),
    ]);
  });

  it("tells of limits that cannot be used, and of a Redis that may forget their counts", async () => {
    const redis = async (options: RedisOptions = {}): Promise<string> => {
      const server = await startRedis(options);
      cleanUps.push(() => server.stop());
      return server.url;
    };
    const [sim] = await startSims(1);
    cleanUps.push(() => sim!.process.stop());
    const folder = mkdtempSync(join(tmpdir(), "sluice-doctor-limits-"));
    const rules = join(folder, "limits.yaml");
    const rule = 'rules: [{ key: "*", requestsPerMinute: 600 }]\n';
    writeFileSync(rules, `redis: ${await redis()}\n${rule}`);
    const { file, admin } = await start([sim!.port], `limits: { file: ${rules} }\n`);
    await poll("the connection to Redis", async () => / 1$/m.test(shared(await metricsOf(admin))));
    const healthy = await doctor("--admin", admin, "--config", file);
    expect(of(healthy.findings, "limits")).toEqual([
      expect.stringMatching(/^ok: 1 rule in .*, shared through Redis 127/),
    ]);
    expect(of(healthy.findings, "redis")).toEqual([
      expect.stringMatching(/^ok: (Redis|Valkey) \d+\.\S+ at 127.* runs the script .*; it evicts nothing$/),
    ]);
    const forgetful = await redis({ args: ["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"] });
    const locked = await redis({ args: ["--rename-command", "EVAL", "", "--rename-command", "SCRIPT", ""] });
    const other = join(folder, "other.yaml");
    const said = async (text: string, check: string): Promise<string[]> => {
      writeFileSync(other, text);
      return of((await doctor("--admin", admin, "--config", other, "--timeout", "2s")).findings, check);
    };
    expect(await said(`limits: { redis: "${forgetful}" }\n`, "redis")).toEqual([
      expect.stringMatching(/^warn: .* policy allkeys-lru: above 64 MiB, Redis drops counts/),
    ]);
    expect(await said(`limits: { redis: "${locked}" }\n`, "redis")).toEqual([
      expect.stringMatching(/^warn: .* cannot be used .*(SCRIPT|unknown command)/i),
    ]);
    writeFileSync(rules, "rules: [{ key: a, requestPerMinute: 1 }]\n");
    expect(await said(`limits: { file: limits.yaml }\n`, "limits")).toEqual([
      expect.stringMatching(/^fail: .*limits\.yaml cannot be used: .*did you mean `requestsPerMinute`/),
    ]);
  });

  it("fails where no gateway runs", async () => {
    const { code, findings } = await doctor("--admin", `127.0.0.1:${await freePort()}`);
    expect([code, of(findings, "admin")]).toEqual([1, [expect.stringMatching(/^fail: no process listens/)]]);
  });
});
