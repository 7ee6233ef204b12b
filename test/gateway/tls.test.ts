import { execFile } from "node:child_process";
import { mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { promisify } from "node:util";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import type { TlsPair } from "../../src/base/grpc/tls.ts";
import { type ClientAuthority, clientAuthority } from "../support/certificates.ts";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { type ShownEndpoint, startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";
import { askSession, h2Session } from "../support/tls-client.ts";

const run = promisify(execFile);
const PATH = "/v1/chat/completions";
const POST = { ":method": "POST", ":path": PATH, "content-type": "application/json" };

let authority: ClientAuthority;
let sims: Sim[] = [];
let gateway: TestGateway;
let folder: string;
const servers: Server[] = [];

beforeAll(async () => {
  authority = await clientAuthority();
  folder = mkdtempSync(join(tmpdir(), "sluice-tls-"));
});
afterEach(async () => {
  for (const { process } of [gateway, ...sims]) await process?.stop();
  sims = [];
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

function file(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

/** Puts a file in place as a whole. */
function replace(name: string, content: string): void {
  renameSync(file(`${name}.new`, content), join(folder, name));
}

function pairFlags({ cert, key }: TlsPair): string[] {
  return ["--tls-cert", file("tls.crt", cert), "--tls-key", file("tls.key", key)];
}

async function start(...args: string[]): Promise<void> {
  sims = await startSims(1);
  gateway = await startGateway(endpointsFile([sims[0]!.port]), [...pairFlags(authority.server), ...args]);
}

/** @returns what curl printed, with `HTTP/x STATUS` as its last line */
async function curl(...args: string[]): Promise<string> {
  const limit = String(Math.ceil(fixedLimit(30_000) / 1000));
  const fixed = [
    "-sS",
    "-m",
    limit,
    "-w",
    "\nHTTP/%{http_version} %{http_code}",
    "--cacert",
    file("ca.crt", authority.ca),
  ];
  const { stdout } = await run("curl", [...fixed, ...args]);
  return stdout;
}

const body = ["-H", "content-type: application/json", "-d", chat("hello")];
const url = (): string => `https://localhost:${gateway.port}${PATH}`;

describe("clients over TLS", () => {
  it.each([
    ["--http2", "HTTP/2 200"],
    ["--http1.1", "HTTP/1.1 200"],
  ])("curl %s gets an answer, and a stream", async (version, status) => {
    await start();
    const answer = await curl(version, ...body, url());
    expect(answer).toContain('"object":"chat.completion"');
    expect(answer.split("\n").at(-1)).toBe(status);
    const stream = await curl(version, ...body.slice(0, 2), "-d", chat("hello", { stream: true }), url());
    expect(stream).toContain("data: [DONE]");
    expect(stream.split("\n").at(-1)).toBe(status);
  });

  it("curl without TLS learns what to do", async () => {
    await start();
    const answer = await curl("--http1.1", `http://localhost:${gateway.port}/`);
    expect(answer).toContain("use https://");
    expect(answer).toMatch(/HTTP\/1\.1 400$/);
  });

  it("--client-ca lets curl in with its certificate alone", async () => {
    await start("--client-ca", file("clients.crt", authority.ca));
    const own = [
      "--cert",
      file("client.crt", authority.client.cert),
      "--key",
      file("client.key", authority.client.key),
    ];
    for (const version of ["--http2", "--http1.1"])
      expect(await curl(version, ...own, ...body, url())).toMatch(/ 200$/);
    await expect(curl("--http2", ...body, url())).rejects.toThrow("Command failed");
    await poll("the log", () =>
      gateway.process.stderr.includes("a client of the gateway port was refused: the client sent no certificate"),
    );
  });

  it(
    "a renewed certificate reaches new connections without a failed request; a broken one does not",
    async () => {
      await start();
      const next = await clientAuthority();
      const open = h2Session({ port: gateway.port, ca: authority.ca });
      const outcomes: unknown[] = [];
      let going = true;
      // One client stays on its connection; the other opens a connection for each request, and trusts both authorities.
      const stay = async (): Promise<void> => {
        while (going) outcomes.push((await askSession(open, POST, chat("stay"))).headers[":status"]);
      };
      const renew = async (): Promise<void> => {
        while (going) {
          const session = h2Session({ port: gateway.port, ca: authority.ca }, { ca: [authority.ca, next.ca] });
          outcomes.push((await askSession(session, POST, chat("come"))).headers[":status"]);
          session.close();
        }
      };
      const load = Promise.all([stay(), renew()]);
      replace("tls.crt", "half a certific");
      await poll("the broken one is reported", () =>
        gateway.process.stderr
          .split("\n")
          .some((line) => line.includes("the old certificate stays in use") && line.includes('"error"')),
      );
      expect(await curl("--http2", ...body, url())).toMatch(/HTTP\/2 200$/);
      replace("tls.key", next.server.key);
      replace("tls.crt", next.server.cert);
      const trusting = ["--cacert", file("next.crt", next.ca)];
      await poll("the new one is shown", async () =>
        (await curl("--http2", ...trusting, ...body, url())).endsWith("HTTP/2 200"),
      );
      const seen = outcomes.length;
      await poll("both go on", () => outcomes.length > seen + 10);
      going = false;
      await load;
      expect(open.destroyed).toBe(false);
      open.close();
      expect(outcomes.filter((status) => status !== 200)).toEqual([]);
    },
    fixedLimit(120_000),
  );

  it("at the start a broken certificate is an error with the file", async () => {
    sims = await startSims(1);
    const broken = pairFlags({ cert: "none", key: authority.server.key });
    await expect(startGateway(endpointsFile([sims[0]!.port]), broken)).rejects.toThrow(/TLS_FILE_INVALID|tls\.crt/);
  });
});

/** A model server over TLS. @param clientCa it wants a certificate of this authority */
async function secureServer(
  pair: TlsPair,
  clientCa?: string,
): Promise<{ port: number; names: Set<string>; paths: string[] }> {
  const names = new Set<string>();
  const paths: string[] = [];
  const server = createServer(
    { ...pair, ...(clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true }) },
    (request, response) => {
      const { servername } = request.socket as TLSSocket & { servername?: string | false };
      names.add(String(servername));
      paths.push(request.url ?? "");
      request.resume();
      if (request.url === "/metrics")
        response.end("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n");
      else if (request.url === "/v1/models") response.end('{"object":"list","data":[{"id":"sim","object":"model"}]}');
      else response.end('{"choices":[{"message":{"content":"over TLS"}}]}');
    },
  );
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, names, paths };
}

function listed(entries: readonly (readonly [port: number, more: string])[]): string {
  return file(
    "endpoints.yaml",
    `endpoints:\n${entries.map(([port, more], n) => `- {name: s${n}, address: 127.0.0.1, port: ${port}${more}}`).join("\n")}\n`,
  );
}

const state = async (): Promise<readonly ShownEndpoint[]> =>
  (await getJson<{ endpoints: readonly ShownEndpoint[] }>(`${gateway.adminUrl}/debug/endpoints`)).endpoints;
const post = () => ask(`${gateway.url}${PATH}`, { headers: JSON_HEADERS, body: chat("hello") });

describe("model servers over TLS", () => {
  it("requests, metrics and the list of models use the authority, the name (SNI) and the certificate of the flags", async () => {
    const server = await secureServer(authority.server, authority.ca);
    const mine = [
      "--server-cert",
      file("c.crt", authority.client.cert),
      "--server-key",
      file("c.key", authority.client.key),
    ];
    const trust = ["--server-ca", file("servers.crt", authority.ca), "--server-name", "localhost"];
    gateway = await startGateway(listed([[server.port, ""]]), [...trust, ...mine]);
    await poll("metrics and models are read", () =>
      ["/metrics", "/v1/models"].every((path) => server.paths.includes(path)),
    );
    await poll("it is up", async () => (await state())[0]!.state === "up");
    const answer = await post();
    expect([answer.status, answer.text]).toEqual([200, expect.stringContaining("over TLS")]);
    expect([...server.names]).toEqual(["localhost"]);
    // The servers get other certificates, of another authority: both are followed.
    const next = await clientAuthority();
    replace("servers.crt", next.ca);
    const other = await secureServer(next.server, authority.ca);
    writeFileSync(
      join(folder, "endpoints.yaml"),
      `endpoints:\n- {name: other, address: 127.0.0.1, port: ${other.port}}\n`,
    );
    await poll("the new authority counts", async () => (await post()).status === 200 && other.paths.includes(PATH));
  });

  it.each<[string, (server: ClientAuthority) => string[], RegExp]>([
    ["a self-signed certificate or a foreign authority", () => ["--server-tls"], /TLS: .*(--server-ca|certificate)/],
    [
      "another name",
      () => ["--server-ca", file("a.crt", authority.ca), "--server-name", "other.example"],
      /TLS: .*--server-name/,
    ],
    ["no certificate of ours", () => ["--server-ca", file("a.crt", authority.ca)], /certificate|alert|reset/i],
  ])("%s: the endpoint is down with the cause, another one gets the request", async (what, flags, cause) => {
    const strict = what.startsWith("no certificate") ? authority.ca : undefined;
    const server = await secureServer(authority.server, strict);
    sims = await startSims(1);
    const endpoints = listed([
      [server.port, ""],
      [sims[0]!.port, ", scheme: http"],
    ]);
    gateway = await startGateway(endpoints, flags(authority));
    await poll("it is down", async () => (await state())[0]!.state === "down");
    expect((await state())[0]!.cause).toMatch(cause);
    for (let n = 0; n < 5; n++) expect((await post()).status).toBe(200);
    expect(server.paths).not.toContain(PATH);
  });

  it("alone, such an endpoint leaves 503 with the cause", async () => {
    const server = await secureServer(authority.server);
    gateway = await startGateway(listed([[server.port, ", scheme: https"]]));
    const answer = await post();
    expect([answer.status, answer.headers["x-gateway-error"]]).toEqual([503, "upstream-connect"]);
    expect(answer.text).toContain("--server-ca");
  });

  it("an entry says by itself that it speaks TLS; a wrong scheme is an error with its place", async () => {
    const [secure] = [await secureServer(authority.server)];
    sims = await startSims(1);
    const endpoints = listed([
      [secure.port, ", scheme: https"],
      [sims[0]!.port, ""],
    ]);
    gateway = await startGateway(endpoints, ["--server-ca", file("a.crt", authority.ca), "--max-retries", "0"]).catch(
      (error: unknown) => Promise.reject(error),
    );
    await poll("it is up", async () => (await state()).find(({ id }) => id === "default/s0")!.state === "up");
    await gateway.process.stop();
    await expect(startGateway(listed([[1, ", scheme: ftp"]]))).rejects.toThrow(
      /endpoints\[0\]\.scheme: must be http or https/,
    );
  });
});
