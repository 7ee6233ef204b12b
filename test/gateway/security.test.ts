import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { newKey } from "../../src/wires/access/key-text.ts";
import { type ClientAuthority, clientAuthority } from "../support/certificates.ts";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { answerBytes, type RawServer, rawClient, rawServer } from "../support/loopback.ts";
import { startOtlpCollector } from "../support/otlp-collector.ts";
import { poll } from "../support/poll.ts";
import { residentMiB } from "../support/process.ts";
import { fixedLimit } from "../support/slowness.ts";
import { endpointsFile } from "../support/stack.ts";
import { askSession, h2Session, replyOf } from "../support/tls-client.ts";

const CHAT = "/v1/chat/completions";
const ISSUER = "https://login.example";
const POST = { ":method": "POST", ":path": CHAT, "content-type": "application/json" };

/** The password of the store of replicas, and the salt of what they share. */
const PEERS = ["password-of-the-store", "salt-of-the-replicas"] as const;

let folder = "";
let server: RawServer;
let authority: ClientAuthority;
let gateway: TestGateway;
let secure: TestGateway;
let collector: Awaited<ReturnType<typeof startOtlpCollector>>;
let signing: CryptoKey;
const teamA = newKey(undefined);
const teamB = newKey(undefined);
const logFile = () => join(folder, "requests.log");

const entry = ({ id, hash }: typeof teamA, more: string) => `- { id: ${id}, hash: "${hash}", ${more} }\n`;
const ENTRY_A = entry(teamA, "name: team-a, models: [sim]");
const ENTRY_B = entry(teamB, "name: __proto__");
function writeKeys(...entries: readonly string[]): void {
  writeFileSync(join(folder, "keys.yaml"), `keys:\n${entries.join("")}`);
}

async function token(kid = "k", more: object = {}): Promise<string> {
  const claims = { iss: ISSUER, aud: "sluice", sub: "ann", ...more };
  return new SignJWT(claims).setProtectedHeader({ alg: "ES256", kid }).setExpirationTime("1h").sign(signing);
}

async function writeSigningKeys(): Promise<void> {
  const pair = await generateKeyPair("ES256");
  signing = pair.privateKey;
  writeFileSync(
    join(folder, "jwks.json"),
    JSON.stringify({ keys: [{ ...(await exportJWK(pair.publicKey)), kid: "k" }] }),
  );
}

const bearer = ({ key }: { key: string }) => ({ authorization: `Bearer ${key}` });
const USAGE = '"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}';

/** What came through a gateway; its own questions have no such header. */
const reached = () => server.requests.filter(({ head }) => /\r\nx-forwarded-for:/i.test(head));

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sluice-security-"));
  authority = await clientAuthority();
  collector = await startOtlpCollector();
  server = await rawServer(({ head, socket }) => {
    const path = head.split(" ")[1]!;
    const json = "content-type: application/json\r\n";
    if (path === "/metrics") socket.write(answerBytes(200, "vllm:num_requests_waiting 0\n"));
    else if (path === "/v1/models") {
      const data = ["sim", "big", "__proto__", "constructor"].map((id) => ({ id, object: "model" }));
      socket.write(answerBytes(200, JSON.stringify({ object: "list", data }), json));
    } else if (/x-answer: redirect/.test(head))
      socket.write(answerBytes(307, "", `location: http://127.0.0.1:${server.port}/sleep\r\n`));
    else if (/x-answer: headers/.test(head))
      socket.write(answerBytes(200, "{}", `${json}x-big: ${"a".repeat(200_000)}\r\n`));
    else if (/x-answer: line/.test(head)) {
      socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
      const piece = Buffer.alloc(1 << 20, "a");
      for (let sent = 0; sent < 64; sent++) socket.write(piece);
      socket.end(`\n\ndata: {${USAGE}}\n\n`);
    } else if (/x-answer: split/.test(head)) socket.write(answerBytes(200, "{}", `${json}x-a: b\rset-cookie: c\r\n`));
    else if (/x-answer: never/.test(head)) {
      // The client decides when it ends.
    } else socket.write(answerBytes(200, `{"choices":[],${USAGE}}`, json));
  });
  writeKeys(ENTRY_A, ENTRY_B);
  await writeSigningKeys();
  for (const [name, text] of [
    ["tls.crt", authority.server.cert],
    ["tls.key", authority.server.key],
  ] as const)
    writeFileSync(join(folder, name), text);
  writeFileSync(
    join(folder, "limits.yaml"),
    'rules: [{ key: "*", inFlight: 200, tokensPerMinute: 100000000 }, { key: __proto__, model: constructor, requestsPerMinute: 2 }]',
  );
  process.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.endpoint;
  process.env["OTEL_TRACES_SAMPLER_ARG"] = "1";
  const endpoints = endpointsFile([server.port]);
  const keys = ["--keys", join(folder, "keys.yaml"), "--limits", join(folder, "limits.yaml")];
  const tokens = ["--jwt-issuer", ISSUER, "--jwt-audience", "sluice", "--jwt-jwks", join(folder, "jwks.json")];
  const logs = ["--request-log", "all", "--request-log-file", logFile(), "--log-level", "debug"];
  const more = ["--decision-header", "--full-records-every", "1"];
  process.env["SLUICE_PEERS_SECRET"] = PEERS[1];
  const peers = ["--peers", `redis://user:${PEERS[0]}@127.0.0.1:1`];
  gateway = await startGateway(endpoints, [...keys, ...tokens, ...logs, ...more, ...peers]);
  delete process.env["SLUICE_PEERS_SECRET"];
  delete process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  delete process.env["OTEL_TRACES_SAMPLER_ARG"];
  const tls = ["--tls-cert", join(folder, "tls.crt"), "--tls-key", join(folder, "tls.key")];
  secure = await startGateway(endpoints, [...keys, ...tls]);
  const secured = h2Session({ port: secure.port, ca: authority.ca });
  await poll("the lists of models", async () => {
    const [plain, onTls] = await Promise.all([
      ask(`${gateway.url}/v1/models`, { headers: bearer(teamB) }),
      askSession(secured, { ":path": "/v1/models", ...bearer(teamB) }),
    ]);
    return plain.text.includes('"big"') && onTls.text.includes('"big"');
  });
  // The store of the peers does not exist: the gateway looks for it for some seconds before it says that it is ready.
  await poll("ready", async () => (await ask(`${gateway.url}/health`)).status === 200);
  secured.destroy();
}, fixedLimit(120_000));
afterAll(async () => {
  await Promise.all([gateway, secure].map((one) => one?.process.stop()));
  await collector?.[Symbol.asyncDispose]();
  await server?.close();
});
beforeEach(() => {
  server.requests.length = 0;
});

const send = (headers: Record<string, string>, more: object = {}, path = CHAT) =>
  ask(`${gateway.url}${path}`, { headers: { ...JSON_HEADERS, ...headers }, body: chat("hello", { ...more }) });
const session = () => h2Session({ port: secure.port, ca: authority.ca });
/** Sends bytes over a connection of their own, and reads what comes until its end. */
async function raw(bytes: string, port = gateway.port): Promise<string> {
  const client = await rawClient(port);
  client.send(bytes);
  await poll("the end of the connection", client.closed);
  client.socket.destroy();
  return client.text();
}

describe("administration reaches no model server", () => {
  const paths = ["/metrics", "/sleep", "/v1/load_lora_adapter"];
  const targets = paths.flatMap((path) => [
    ...[path, `${path}/`, `${path}//`, `/${path}`, `//gw${path}`, `/.${path}`, `/v1/models/..${path}`],
    ...[`/v1/models/%2e%2e${path}`, `/v1/models/.%2E${path}`, `/v1/models%2f..${path}`, `/v1/models/%252e%252e${path}`],
    ...[`/%2f${path}`, `/%2F..${path}`, `/v1/models/%5c..%5c..${path}`, `/v1\\..${path}`, `\\${path}`],
    ...[`/v1/models/%c0%ae%c0%ae${path}`, `/%c0%af${path.slice(1)}`, `/%e0%80%af${path.slice(1)}`],
    ...[`${path};x`, `${path};/v1/completions`, `${path}%3b/v1/completions`, `/;x${path}`, `${path}%00`, `${path}%20`],
    ...[`${path}?/v1/completions`, `${path}%3f/v1/completions`, `${path}#/v1/completions`, `${path}%23/v1/completions`],
    ...[`${path}/v1/completions`, `${path}/v1/chat/completions/`, `/v1/completions/..${path}`, path.toUpperCase()],
    ...[
      `${path.slice(0, 2)}%${path.charCodeAt(2).toString(16)}${path.slice(3)}`,
      `http://gw${path}`,
      `HTTP://GW${path}`,
    ],
    ...[`http://gw${path}/v1/completions`, `http://other${path}`, `http:${path}`, `https://gw${path}`, `*${path}`],
  ]);
  const all = [...targets, "/metrics-/v1/messages", "*", "/", `/${"a/".repeat(4000)}`, "/v1/models/a|b/../../sleep"];
  const methods = ["GET", "POST", "OPTIONS", "HEAD", "PUT", "DELETE", "PATCH"];

  it("over HTTP/1.1, whatever the form of the target and the method", { timeout: fixedLimit(120_000) }, async () => {
    const key = `authorization: Bearer ${teamB.key}\r\nx-original-url: /v1/models\r\nx-http-method-override: GET\r\n`;
    for (const target of all) {
      const answers = methods.map((method) =>
        raw(
          `${method} ${target} HTTP/1.1\r\nhost: gw\r\nconnection: close\r\n${key}${method === "POST" ? "content-length: 2\r\n\r\n{}" : "\r\n"}`,
        ),
      );
      for (const answer of await Promise.all(answers))
        expect([target, answer]).toEqual([target, expect.stringMatching(/^HTTP\/1\.1 4\d\d /)]);
    }
    expect(reached().map(({ head }) => head)).toEqual([]);
  });

  it("over HTTP/2", { timeout: fixedLimit(120_000) }, async () => {
    for (const path of all) {
      const one = session();
      const replies = methods.map((method) =>
        askSession(
          one,
          { ...POST, ...bearer(teamB), ":path": path, ":method": method },
          method === "POST" ? "{}" : undefined,
        ),
      );
      for (const { headers } of await Promise.all(replies))
        expect([path, Number(headers[":status"] ?? 400)]).toEqual([
          path,
          expect.toSatisfy((n: number) => n >= 400 && n < 500),
        ]);
      one.destroy();
    }
    expect(reached().map(({ head }) => head)).toEqual([]);
    const one = session();
    expect((await askSession(one, { ...POST, ...bearer(teamB) }, chat("x"))).headers[":status"]).toBe(200);
    one.destroy();
    expect(reached()).toHaveLength(1);
  });

  it("is not behind a request that was refused, on the same connection", async () => {
    const hidden = `POST /sleep HTTP/1.1\r\nhost: gw\r\nauthorization: Bearer ${teamB.key}\r\ncontent-length: 0\r\n\r\n`;
    for (const first of [
      `POST ${CHAT} HTTP/1.1\r\nhost: gw\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`,
      `POST /metrics HTTP/1.1\r\nhost: gw\r\nauthorization: Bearer ${teamB.key}\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`,
      `GET /health HTTP/1.1\r\nhost: gw\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`,
    ])
      expect(
        await raw(`${first}${hidden.replace("content-length: 0", "content-length: 0\r\nconnection: close")}`),
      ).toMatch(/^HTTP\/1\.1 (401|403|200) /);
    expect(reached().map(({ head }) => head)).toEqual([]);
  });
});

describe("a key stays secret", () => {
  it("wherever a client puts it, refused or served", async () => {
    const { key } = teamA;
    const jwt = await token("k", { jti: "secret-claim" });
    const one = session();
    const answers = [
      await send({ authorization: `Token ${key}`, "x-request-id": "s-1" }),
      await send({ authorization: `Bearer Bearer ${key}` }),
      await send({ authorization: `Basic ${key}` }),
      await send({ "x-api-key": key, authorization: `Token ${key}`, cookie: `k=${key}`, "x-goog-api-key": key }),
      await send({ "x-api-key": key, "x-request-id": key, "x-gateway-inference-fairness-id": key }),
      await send({ ...bearer(teamA), baggage: `key=${key}`, tracestate: `a=${key}`, traceparent: key }),
      await send(bearer(teamA), {}, `${CHAT}?api_key=${key}`),
      await send({}, {}, `${CHAT}?key=${key}`),
      await send(bearer(teamA), {}, `/${key}${CHAT}`),
      await send({ authorization: `Bearer ${jwt}x` }),
      await send({ authorization: `Bearer ${jwt.split(".").slice(0, 2).join(".")}.AAAA` }),
      await send({ authorization: `Bearer ${jwt}`, "x-api-key": jwt }),
      await send({ authorization: `Bearer ${"e".repeat(17_000)}`, "x-api-key": jwt }),
      await send({ ...bearer(teamA), "x-answer": "redirect" }),
      await send({ ...bearer(teamA), "x-answer": "headers" }),
      await ask(`${gateway.url}${CHAT}`, { headers: bearer(teamA), body: "{" }),
    ];
    const texts = [
      await raw(`POST ${CHAT} HTTP/1.1\r\nhost: gw\r\nauthorization: Bearer ${key}\r\nbad\r\n\r\n`),
      await raw(`POST /${key} HTTP/1.1\r\nhost: gw\r\nauthorization: Bearer ${key}\r\na_b: c\r\n\r\n`),
      await raw(`POST ${CHAT} HTTP/9\r\nhost: gw\r\nauthorization: Bearer ${key}\r\n\r\n`),
      (await askSession(one, { ...POST, "x-api-key": key, a_b: key }, "{}").catch(() => ({ text: "" }))).text,
    ];
    one.destroy();
    expect(answers.map(({ status }) => status)).toEqual([
      ...[401, 401, 401, 200, 200, 200, 401, 401, 401, 401, 401, 200, 200, 307, 502, 400],
    ]);
    await poll("the spans", () => collector.spans.length > 3);
    const pages = [
      "/metrics",
      "/debug/endpoints",
      "/debug/decisions",
      "/debug/limits",
      "/debug/queues",
      "/debug/models",
      "/debug/peers",
    ];
    const all = {
      pages: (await Promise.all(pages.map((page) => ask(`${gateway.adminUrl}${page}`)))).map(({ text }) => text).join(),
      // The client's own id comes back to it, and to nobody else.
      answers: JSON.stringify(answers.filter(({ headers }) => headers["x-request-id"] !== key)) + texts.join(),
      reached: reached()
        .map(({ head, body }) => head + body)
        .join(),
      spans: JSON.stringify(collector.spans),
      log: gateway.process.stderr + gateway.process.stdout,
      requests: readFileSync(logFile(), "utf8"),
    };
    expect(all.requests).toContain("s-1");
    expect(all.pages).toContain("ECONNREFUSED");
    expect(all.reached).toContain(CHAT);
    for (const [where, text] of Object.entries(all))
      for (const secret of [key, key.slice(-12), jwt, jwt.split(".")[2]!.slice(0, 20), "secret-claim", ...PEERS])
        expect([where, secret, text.includes(secret)]).toEqual([where, secret, false]);
  });

  it("and the key of one connection does not count on the next request of it", async () => {
    const client = await rawClient(gateway.port);
    const request = (more: string) => `GET /v1/models HTTP/1.1\r\nhost: gw\r\n${more}\r\n`;
    client.send(request(`x-api-key: ${teamA.key}\r\n`) + request("") + request("connection: close\r\n"));
    await poll("three answers", client.closed);
    expect(client.text().match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 401", "HTTP/1.1 401"]);
    const one = session();
    const list = { ":path": "/v1/models" };
    const asked = [bearer(teamA), {}].map((headers) => askSession(one, { ...list, ...headers }));
    expect((await Promise.all(asked)).map(({ headers }) => headers[":status"])).toEqual([200, 401]);
    one.destroy();
  });
});

describe("a key or token that is withdrawn", () => {
  it("counts no more on connections that are open, of either version of HTTP", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const statusOf = (key: string) =>
      new Promise<number>((resolve, reject) =>
        get(`${gateway.url}/v1/models`, { agent, headers: { "x-api-key": key } }, (answer) => {
          answer.resume().on("end", () => resolve(answer.statusCode!));
        }).on("error", reject),
      );
    const one = session();
    const onH2 = async () =>
      (await askSession(one, { ":path": "/v1/models", "x-api-key": teamA.key })).headers[":status"];
    expect([await statusOf(teamA.key), await onH2()]).toEqual([200, 200]);
    writeKeys(entry(teamA, "name: team-a, models: [sim], revoked: 2026-01-01T00:00:00Z"), ENTRY_B);
    await poll("401 over HTTP/1.1", async () => (await statusOf(teamA.key)) === 401);
    await poll("401 over HTTP/2", async () => (await onH2()) === 401);
    expect(Object.values(agent.freeSockets).flat()).toHaveLength(1);
    expect(one.destroyed).toBe(false);
    expect(await statusOf(teamB.key)).toBe(200);
    writeKeys(ENTRY_A, ENTRY_B);
    await poll("200 again", async () => (await statusOf(teamA.key)) === 200);
    agent.destroy();
    one.destroy();
  });

  it("a token whose key left the file of its issuer counts no more, though it was checked before", async () => {
    const old = await token();
    const status = async (text: string) => (await send({ authorization: `Bearer ${text}` })).status;
    expect([await status(old), await status(old)]).toEqual([200, 200]);
    await writeSigningKeys();
    const next = await token();
    await poll("the new key", async () => (await status(next)) === 200);
    expect(await status(old)).toBe(401);
  });
});

describe("texts of clients and servers", () => {
  it.each(["__proto__", "constructor", "toString", "hasOwnProperty"])(
    "the name %s is a name like others",
    async (name) => {
      const body = `{"__proto__":{"model":"sim","stream":true},"constructor":{"prototype":{"x":1}},"model":${JSON.stringify(name)},"messages":[{"role":"user","content":"x","__proto__":{"a":1}}]}`;
      const headers = { ...JSON_HEADERS, ...bearer(teamB), "x-request-id": name, "x-sluice-explain": "1" };
      const answer = await ask(`${gateway.url}${CHAT}`, { headers, body });
      const known = name === "__proto__" || name === "constructor";
      expect([name, answer.status]).toEqual([name, known ? 200 : 404]);
      if (!known) expect(JSON.parse(answer.text).error.message).toContain(name);
      expect(reached().map((request) => request.body.toString())).toEqual(known ? [body] : []);
      const record = await ask(`${gateway.adminUrl}/debug/decisions/${name}`);
      expect(record.status).toBe(200);
      expect(JSON.stringify(JSON.parse(record.text))).toContain(name);
      expect((await ask(`${gateway.adminUrl}/metrics`)).status).toBe(200);
      expect((await ask(`${gateway.adminUrl}/debug/limits`)).status).toBe(200);
      if (name === "constructor") {
        await ask(`${gateway.url}${CHAT}`, { headers, body });
        expect((await ask(`${gateway.url}${CHAT}`, { headers, body })).status).toBe(429);
      }
    },
  );

  it("of two members with one name the last counts, as for the server, also for the models of a key", async () => {
    const twice = (first: string, second: string) =>
      ask(`${gateway.url}${CHAT}`, {
        headers: { ...JSON_HEADERS, ...bearer(teamA) },
        body: `{"model":"${first}","messages":[{"role":"user","content":"x"}],"mod\\u0065l":"${second}"}`,
      });
    expect((await twice("sim", "big")).status).toBe(404);
    expect(reached()).toHaveLength(0);
    expect((await twice("big", "sim")).status).toBe(200);
    expect(JSON.parse(reached()[0]!.body.toString()).model).toBe("sim");
  });

  it.each(["SIM", " sim", "sim ", "sim\u0000", "ｓｉｍ", "big", ""])(
    "the model %j is not one of the key",
    async (model) => {
      expect((await send(bearer(teamA), { model })).status).toBe(404);
      expect(reached()).toHaveLength(0);
    },
  );

  it.each([
    ["letters of Latin-1", "a\u00e9\u00ff"],
    ["markup", "{}\"'<script>"],
    ["escapes", "%0d%0aset-cookie: a=b"],
    ["5,000 letters", "x".repeat(5000)],
  ])("an id of %s comes back as it is or not at all, and adds no header", async (_, id) => {
    for (const more of [`x-api-key: ${teamA.key}\r\n`, ""]) {
      const answer = await raw(
        `POST ${CHAT} HTTP/1.1\r\nhost: gw\r\nconnection: close\r\nx-request-id: ${id}\r\n${more}content-length: 1\r\n\r\n{`,
      );
      const head = answer.split("\r\n\r\n")[0]!;
      expect(head).toMatch(/^HTTP\/1\.1 40[01] /);
      expect(head).toContain(`x-request-id: ${id}`);
      expect(head).not.toMatch(/^set-cookie/im);
    }
  });

  it("a model named in a refusal adds no header, and a server splits no answer", async () => {
    const model = "a\r\nset-cookie: b\r\n\r\n<html>\u2028";
    const refused = await send(bearer(teamB), { model });
    expect(refused.status).toBe(404);
    expect(refused.headers["set-cookie"]).toBeUndefined();
    expect(JSON.parse(refused.text).error.message).not.toMatch(/[\r\n]/);
    const split = await send({ ...bearer(teamB), "x-answer": "split" });
    expect(split.status).toBe(502);
    expect(split.headers["set-cookie"]).toBeUndefined();
  });

  it("a redirect of a server goes to the client: the gateway follows none", async () => {
    const answer = await send({ ...bearer(teamB), "x-answer": "redirect" });
    expect([answer.status, answer.headers.location]).toEqual([307, `http://127.0.0.1:${server.port}/sleep`]);
    expect(server.requests.some(({ head }) => head.includes("/sleep"))).toBe(false);
  });
});

describe("what is too large", () => {
  it("is refused, and costs little memory", { timeout: fixedLimit(120_000) }, async () => {
    const before = await residentMiB(gateway.process.pid);
    const deep = (n: number, open: string, close: string) =>
      `{"model":"sim","messages":[{"role":"user","content":"x"}],"x":${open.repeat(n)}0${close.repeat(n)}}`;
    const bodies: [string, string, number][] = [
      ["lists in lists", deep(2_000_000, "[", "]"), 400],
      ["objects in objects", deep(500_000, '{"a":', "}"), 400],
      ["many members", `{${Array.from({ length: 300_000 }, (_, n) => `"k${n}":0,`).join("")}"model":"none"}`, 400],
      ["a long model", chat("x", { model: "m".repeat(1_000_000) }), 404],
      ["an open list without end", `{"model":"sim","messages":${"[".repeat(1_000_000)}`, 400],
    ];
    for (const [name, body, expected] of bodies) {
      const answer = await ask(`${gateway.url}${CHAT}`, { headers: { ...JSON_HEADERS, ...bearer(teamB) }, body });
      // A deep body is the server's to refuse where the gateway need not look inside.
      expect([name, answer.status]).toEqual([name, name.includes(" in ") ? expect.any(Number) : expected]);
      expect([name, answer.text.length]).toEqual([name, expect.toSatisfy((n: number) => n < 4096)]);
      expect(answer.status).toBeLessThan(500);
    }
    for (const headers of [
      { authorization: `Bearer eyJ${"a".repeat(16_384)}.e.s` },
      { authorization: `Bearer ${"k".repeat(50_000)}` },
    ])
      expect((await send(headers)).status).toBe(401);
    expect((await send({ ...bearer(teamB), "x-answer": "headers" })).status).toBe(502);
    const line = await send({ ...bearer(teamB), "x-answer": "line" }, { stream: true });
    expect([line.status, line.text.length]).toEqual([200, expect.toSatisfy((n: number) => n > 64 << 20)]);
    expect((await residentMiB(gateway.process.pid)) - before).toBeLessThan(400);
    expect((await send(bearer(teamB))).status).toBe(200);
    expect(gateway.process.exit).toBeUndefined();
  });
});

describe("who takes much", () => {
  it("takes no limit of others by a false address, and dodges none", async () => {
    const file = join(folder, "address.yaml");
    writeFileSync(file, 'rules: [{ key: "*", requestsPerMinute: 2 }]');
    const open = await startGateway(endpointsFile([server.port]), ["--limits", file]);
    const from = (headers: Record<string, string>) =>
      ask(`${open.url}${CHAT}`, { headers: { ...JSON_HEADERS, ...headers }, body: chat("x") });
    const statuses = [];
    for (const [n, name] of ["x-forwarded-for", "x-real-ip", "forwarded", "x-client-ip", "true-client-ip"].entries())
      statuses.push((await from({ [name]: name === "forwarded" ? `for=10.0.0.${n}` : `10.0.0.${n}` })).status);
    expect(statuses).toEqual([200, 200, 429, 429, 429]);
    expect(/\r\nx-forwarded-for: (.*)/i.exec(reached()[0]!.head)![1]).toBe("10.0.0.0, 127.0.0.1");
    await open.process.stop();
  });

  it("1,000 streams on one connection are 100 at a time, and others are served", async () => {
    const one = session();
    const streams = Array.from({ length: 1000 }, () => {
      const stream = one.request({ ...POST, ":authority": "gw", ...bearer(teamB), "x-answer": "never" });
      stream.on("error", () => {});
      stream.end(chat("x"));
      return replyOf(stream);
    });
    await poll("a hundred requests", () => reached().length >= 100);
    const other = session();
    const answer = await askSession(other, { ...POST, ...bearer(teamA) }, chat("x"));
    expect(answer.headers[":status"]).toBe(200);
    expect(reached()).toHaveLength(101);
    one.destroy();
    await Promise.all(streams);
    other.destroy();
  });

  it("1,000 idle and 200 stalled connections keep nobody out", { timeout: fixedLimit(120_000) }, async () => {
    const held = await Promise.all(
      Array.from({ length: 1200 }, (_, n) => rawClient(gateway.port).then((client) => ({ client, n }))),
    );
    for (const { client, n } of held.slice(1000))
      client.send(
        n % 2 === 0
          ? `POST ${CHAT} HTTP/1.1\r\nhost: g`
          : `POST ${CHAT} HTTP/1.1\r\nhost: gw\r\nx-api-key: ${teamB.key}\r\ncontent-length: 1000\r\n\r\n{"a`,
      );
    for (let n = 0; n < 20; n++) expect((await send(bearer(teamA))).status).toBe(200);
    for (const { client } of held) client.socket.destroy();
  });
});
