import { chmodSync, mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { newKey } from "../../src/wires/access/key-text.ts";
import { type Answer, ask, chat, JSON_HEADERS, load } from "../support/client.ts";
import type { TestGateway } from "../support/gateway.ts";
import { startOtlpCollector } from "../support/otlp-collector.ts";
import { poll } from "../support/poll.ts";
import { PROGRAM, sluice, TestProcess } from "../support/process.ts";
import { endpointsFile, portOf } from "../support/stack.ts";

const CHAT = "/v1/chat/completions";
const ISSUER = "https://login.example";

let folder = "";
let keysFile = "";
let server: Server;
/** The headers of each request that came through the gateway. */
let reached: IncomingHttpHeaders[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sluice-keys-"));
  keysFile = join(folder, "keys.yaml");
  server = createServer((request, response) => {
    request.resume();
    if (request.headers["x-forwarded-for"] !== undefined) reached.push(request.headers);
    const json = (value: object): void =>
      void response.setHeader("content-type", "application/json").end(JSON.stringify(value));
    if (request.url === "/metrics")
      response.setHeader("content-type", "text/plain").end("vllm:num_requests_waiting 0\n");
    else if (request.url === "/v1/models")
      json({ object: "list", data: ["sim", "big"].map((id) => ({ id, object: "model" })) });
    else json({ object: "chat.completion", choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});
beforeEach(() => {
  reached = [];
});

/** Runs `sluice keys` to its end; its standard output. */
async function keys(...args: readonly string[]): Promise<string> {
  const process = sluice("keys", ...args, "--file", keysFile);
  const { code } = await process.ended();
  expect([code, process.stderr]).toEqual([0, expect.stringMatching(/^(sluice: .*\n)?$/)]);
  return process.stdout.trim();
}

async function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<TestGateway> {
  const endpoints = endpointsFile([(server.address() as AddressInfo).port]);
  const own = ["--endpoints", endpoints, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
  const process_ = new TestProcess(process.execPath, [PROGRAM, "gateway", ...own, ...args], {
    env: { ...process.env, ...env },
  });
  const address = await process_.listening("gateway");
  const adminUrl = `http://${await process_.listening("admin")}`;
  return { process: process_, url: `http://${address}`, port: portOf(address), adminUrl };
}

function send(url: string, headers: Record<string, string>, more: Record<string, unknown> = {}): Promise<Answer> {
  return ask(`${url}${CHAT}`, { headers: { ...JSON_HEADERS, ...headers }, body: chat("hello", more) });
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** Waits until the gateway answers a key with a status: it has read the file. */
async function becomes(url: string, key: string, status: number): Promise<void> {
  await poll(`${status} for the key`, async () => (await send(url, bearer(key))).status === status);
}

describe("sluice gateway with keys", () => {
  let gateway: TestGateway;
  let key = "";
  let issuerDown = false;
  const issuer = createServer((_, response) => {
    if (issuerDown) response.socket!.destroy();
    else response.end(jwks);
  });
  let jwks = "";
  let token: (claims: object) => Promise<string>;
  const seen: { collector?: Awaited<ReturnType<typeof startOtlpCollector>> } = {};

  beforeAll(async () => {
    key = await keys("add", "--name", "team-a", "--models", "sim", "--priority", "-1");
    const pair = await generateKeyPair("ES256");
    jwks = JSON.stringify({ keys: [{ ...(await exportJWK(pair.publicKey)), kid: "k" }] });
    await new Promise<void>((resolve) => issuer.listen(0, "127.0.0.1", resolve));
    token = (claims) =>
      new SignJWT({ iss: ISSUER, aud: "sluice", sub: "ann", models: ["sim"], ...claims })
        .setProtectedHeader({ alg: "ES256", kid: "k" })
        .setExpirationTime("1h")
        .sign(pair.privateKey);
    seen.collector = await startOtlpCollector();
    const place = `http://127.0.0.1:${(issuer.address() as AddressInfo).port}/jwks`;
    const tokens = [
      "--jwt-issuer",
      ISSUER,
      "--jwt-audience",
      "sluice",
      "--jwt-jwks",
      place,
      "--jwt-claim",
      "models=models",
    ];
    const logs = ["--request-log", "all", "--request-log-file", join(folder, "requests.log"), "--log-level", "debug"];
    const explain = ["--decision-header", "--full-records-every", "1"];
    gateway = await start(["--keys", keysFile, ...tokens, ...logs, ...explain], {
      OTEL_EXPORTER_OTLP_ENDPOINT: seen.collector.endpoint,
      OTEL_TRACES_SAMPLER_ARG: "1",
    });
    // The endpoint has listed its models.
    await poll("the list of models", async () => {
      const list = await ask(`${gateway.url}/v1/models`, { headers: bearer(key) });
      return (JSON.parse(list.text) as { data: unknown[] }).data.length === 1;
    });
  });
  afterAll(async () => {
    await gateway?.process.stop();
    await seen.collector?.[Symbol.asyncDispose]();
    issuer.close();
    issuer.closeAllConnections();
  });

  it("keeps the file for its owner alone, without the key", () => {
    expect(statSync(keysFile).mode & 0o777).toBe(0o600);
    expect(readFileSync(keysFile, "utf8")).not.toContain(key);
  });

  it.each(["authorization", "x-api-key", "api-key"])("takes a key from %s, and passes on none of it", async (name) => {
    const value = name === "authorization" ? `Bearer ${key}` : key;
    expect((await send(gateway.url, { [name]: value, "x-llm-d-inference-objective": "o" })).status).toBe(200);
    expect(reached).toHaveLength(1);
    expect(Object.keys(reached[0]!)).not.toContain(name);
    expect(JSON.stringify(reached[0])).not.toContain(key.slice(-20));
  });

  it("answers 401 in the shape of OpenAI to a request without a key and with a wrong one; none reaches the server", async () => {
    const wrong = `${key.slice(0, -1)}${key.endsWith("A") ? "B" : "A"}`;
    for (const [headers, message] of [
      [{}, /^the request has no key; send a key/],
      [bearer(wrong), /^this gateway does not know the key/],
      [{ "x-api-key": "sk-proj-of-another-house" }, /^this gateway does not know the key/],
    ] as const) {
      const answer = await send(gateway.url, headers);
      expect([answer.status, answer.headers["www-authenticate"]]).toEqual([401, "Bearer"]);
      const { error } = JSON.parse(answer.text);
      expect(error).toMatchObject({ type: "invalid_request_error", code: "invalid_api_key" });
      expect(error.message).toMatch(message);
      expect(answer.text).not.toContain(wrong.slice(-20));
    }
    // The key is asked for before the path: strangers learn nothing.
    expect((await ask(`${gateway.url}/metrics`)).status).toBe(401);
    expect(reached).toEqual([]);
  });

  it("answers the health check of a stranger itself", async () => {
    expect(await ask(`${gateway.url}/health`)).toMatchObject({ status: 200, text: '{"status":"ok"}' });
    expect(reached).toEqual([]);
  });

  it("lists and serves the models of the key alone, whatever header names another", async () => {
    const list = await ask(`${gateway.url}/v1/models`, { headers: bearer(key) });
    expect(JSON.parse(list.text).data.map(({ id }: { id: string }) => id)).toEqual(["sim"]);
    expect((await ask(`${gateway.url}/v1/models/big`, { headers: bearer(key) })).status).toBe(404);
    const attempts = [
      await send(gateway.url, bearer(key), { model: "big" }),
      await send(gateway.url, { ...bearer(key), "x-gateway-model-name-rewrite": "big" }),
      await send(gateway.url, { ...bearer(key), "x-llm-d-model-name-rewrite": "big" }),
    ];
    for (const answer of attempts) {
      expect(answer.status).toBe(404);
      const { error } = JSON.parse(answer.text);
      expect(error.code).toBe("model_not_found");
      expect(error.message).toContain("The models are `sim`.");
    }
    expect(reached).toEqual([]);
  });

  it("tells nobody whether another model exists: the same 404 by each method and path", async () => {
    for (const method of ["GET", "HEAD", "OPTIONS"])
      for (const path of ["/v1/models/NAME", "/v2/models/NAME", "/v2/models/NAME/versions/1/ready"]) {
        const answers = await Promise.all(
          ["big", "not"].map((name) =>
            ask(`${gateway.url}${path.replace("NAME", name)}`, {
              method,
              headers: { ...bearer(key), "x-request-id": "same" },
            }),
          ),
        );
        const [big, unknown] = answers.map(({ status, headers, text }) => ({
          ...{ status, text: text.replaceAll(/`(?:big|not)`/g, "NAME") },
          headers: { ...headers, date: "" },
        }));
        expect([method, path, big?.status]).toEqual([method, path, 404]);
        expect(big).toEqual(unknown);
      }
    expect((await ask(`${gateway.url}/model_info`, { headers: bearer(key) })).status).toBe(404);
    expect(reached).toEqual([]);
    const own = await ask(`${gateway.url}/v1/models/sim`, { method: "HEAD", headers: bearer(key) });
    expect([own.status, own.text]).toEqual([200, ""]);
    expect((await ask(`${gateway.url}/v2/models/sim`, { headers: bearer(key) })).status).toBe(200);
  });

  it("gives a request the priority of its key, and its own flow", async () => {
    const id = { "x-request-id": "prioritised" };
    await send(gateway.url, { ...bearer(key), ...id, "x-gateway-inference-fairness-id": "stolen" });
    const line = await poll("the line of the request", () =>
      readFileSync(join(folder, "requests.log"), "utf8")
        .split("\n")
        .find((text) => text.includes('"prioritised"')),
    );
    expect(JSON.parse(line)).toMatchObject({ key: "team-a", priority: -1, fairnessId: "team-a", model: "sim" });
  });

  it("takes a token, and refuses it with 503 while its issuer cannot be asked, which disturbs no key", async () => {
    issuerDown = true;
    const answer = await send(gateway.url, bearer(await token({})));
    expect(answer.status).toBe(503);
    expect(JSON.parse(answer.text).error.message).toContain("cannot read the keys of this issuer");
    expect((await send(gateway.url, bearer(key))).status).toBe(200);
    issuerDown = false;
    const ann = await token({ jti: "1" });
    await becomes(gateway.url, ann, 200);
    expect(reached.every((headers) => !JSON.stringify(headers).includes(ann.slice(-20)))).toBe(true);
    expect((await send(gateway.url, bearer(ann), { model: "big" })).status).toBe(404);
    const forged = `${ann.slice(0, -4)}AAAA`;
    expect((await send(gateway.url, bearer(forged))).status).toBe(401);
  });

  it("counts who was let in, and why others were not", async () => {
    const page = (await ask(`${gateway.adminUrl}/metrics`)).text;
    // Who has no key has not sent a bad request.
    expect(page).toMatch(/^sluice_exchanges_total\{outcome="unauthorized"\} [1-9]/m);
    expect(page).not.toContain('outcome="bad-request"');
    for (const result of ["key", "token", "key_missing", "key_invalid", "token_unverifiable"])
      expect(page).toMatch(new RegExp(`^sluice_gateway_access_total\\{result="${result}"\\} [1-9]`, "m"));
    expect(page).toMatch(/^sluice_gateway_key_requests_total\{key="team-a"\} [1-9]/m);
    expect(page).toMatch(/^sluice_gateway_key_requests_total\{key="ann"\} [1-9]/m);
  });

  it("writes at most one line in a second about guesses, and counts them all", async () => {
    const before = readFileSync(join(folder, "requests.log"), "utf8").length;
    const guesses = 2000;
    const began = performance.now();
    const guess = (n: number) => newKey(n % 2 === 0 ? undefined : key.split("-")[2]).key;
    const guessing = load({
      ...{ url: gateway.url, connections: 32, requests: guesses },
      make: (n) => ({
        method: "POST",
        path: CHAT,
        headers: { ...JSON_HEADERS, "x-api-key": guess(n) },
        body: chat("x"),
      }),
    });
    // Who has a key is served all the while.
    for (let i = 0; i < 20; i++) expect((await send(gateway.url, bearer(key))).status).toBe(200);
    expect(await guessing).toEqual(new Map([[401, guesses]]));
    expect(reached).toHaveLength(20);
    const seconds = Math.ceil((performance.now() - began) / 1000) + 1;
    const lines = readFileSync(join(folder, "requests.log"), "utf8").slice(before).split("\n");
    expect(lines.filter((text) => text.includes("key_invalid")).length).toBeLessThanOrEqual(seconds);
    const page = (await ask(`${gateway.adminUrl}/metrics`)).text;
    const counted = /sluice_gateway_access_total\{result="key_invalid"\} (\d+)/.exec(page);
    expect(Number(counted?.[1])).toBeGreaterThanOrEqual(guesses);
  });

  it("follows the file: a new key, a rotation with grace, its end, an expiry, a revocation", async () => {
    const second = await keys("add", "--name", "team-b", "--expires", "1h");
    await becomes(gateway.url, second, 200);
    const third = await keys("rotate", "team-b", "--grace", "1h");
    await becomes(gateway.url, third, 200);
    expect((await send(gateway.url, bearer(second))).status).toBe(200);
    // The hour of grace is over.
    const edit = (from: RegExp, to: string) =>
      writeFileSync(keysFile, readFileSync(keysFile, "utf8").replace(from, to));
    edit(/until: .*/, "until: 2020-01-01T00:00:00Z");
    await becomes(gateway.url, second, 401);
    expect((await send(gateway.url, bearer(third))).status).toBe(200);
    edit(/expires: .*/, "expires: 2020-01-01T00:00:00Z # over");
    await becomes(gateway.url, third, 401);
    expect(JSON.parse((await send(gateway.url, bearer(third))).text).error.message).toContain("has expired");
    edit(/expires: .*/, "expires: 2090-01-01T00:00:00Z # kept");
    await becomes(gateway.url, third, 200);
    await keys("revoke", "team-b");
    await becomes(gateway.url, third, 401);
    expect(JSON.parse((await send(gateway.url, bearer(third))).text).error.message).toContain("was revoked");
    // What people wrote into the file stays.
    expect(readFileSync(keysFile, "utf8")).toContain("# kept");
    expect((await send(gateway.url, bearer(key))).status).toBe(200);
  });

  it("keeps its keys while the file is broken, and says where", async () => {
    const good = readFileSync(keysFile, "utf8");
    writeFileSync(keysFile, good.replace("models:", "model:"));
    await gateway.process.until("the error line", () => gateway.process.stderr.includes("keeps the old keys"));
    expect(gateway.process.stderr).toMatch(/keys\.yaml:\d+:\d+: keys\[0\]\.model: unknown key `model`; did you mean/);
    expect((await send(gateway.url, bearer(key))).status).toBe(200);
    writeFileSync(keysFile, good);
    chmodSync(keysFile, 0o644);
    const warned = () => gateway.process.stderr.includes("every user of this machine can read it; run chmod o-rwx");
    await gateway.process.until("the warning about its mode", warned);
    chmodSync(keysFile, 0o600);
  });

  it("tells nobody a key or a token: no log, metric, trace, page, record or answer has one", async () => {
    const ann = await token({ jti: "2" });
    const headers = { "x-sluice-explain": "true" };
    const answers = [
      await send(gateway.url, { ...bearer(key), ...headers, "x-request-id": "leak-1" }),
      await send(gateway.url, { "x-api-key": key, "api-key": key, ...headers }),
      await send(gateway.url, { ...bearer(ann), ...headers }),
      await send(gateway.url, { "x-api-key": key }, { model: "nowhere" }),
      await send(gateway.url, { "x-api-key": `${key}x` }),
      await ask(`${gateway.url}/sleep`, { method: "POST", headers: { "api-key": key }, body: "{}" }),
      await ask(`${gateway.url}${CHAT}`, { headers: bearer(key), body: "no JSON" }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 404, 401, 403, 400]);
    await poll("a span of the request", () => seen.collector!.spans.length > 0);
    const pages = [
      "/metrics",
      "/debug/endpoints",
      "/debug/models",
      "/debug/queues",
      "/debug/plugins/state",
      "/debug/decisions",
    ];
    const texts = await Promise.all(pages.map(async (page) => (await ask(`${gateway.adminUrl}${page}`)).text));
    const record = await ask(`${gateway.adminUrl}/debug/decisions/leak-1`);
    expect(record.text).toContain("leak-1");
    const explain = sluice("explain", "leak-1", "--admin", gateway.adminUrl);
    await explain.ended();
    expect(explain.stdout).toContain("leak-1");
    const all = {
      pages: texts.join("\n") + record.text + explain.stdout + explain.stderr,
      answers: JSON.stringify(answers),
      reached: JSON.stringify(reached),
      spans: JSON.stringify(seen.collector!.spans),
      log: gateway.process.stderr + gateway.process.stdout,
      requests: readFileSync(join(folder, "requests.log"), "utf8"),
    };
    expect(all.requests).toContain("leak-1");
    // A part of the secret at the end of the key: it can have hyphens, as the rest of the key has.
    for (const [where, text] of Object.entries(all))
      for (const secret of [key, key.slice(-32, -16), ann, ann.split(".")[2]!])
        expect([where, text.includes(secret)]).toEqual([where, false]);
  });
});

describe("the door of sluice gateway", () => {
  it.each([
    [["--listen", "0.0.0.0:0"], 1, /0\.0\.0\.0:0 is open to other machines.*--keys FILE.*--open/],
    [["--keys", "/nowhere/keys.yaml"], 1, /\/nowhere\/keys\.yaml does not exist/],
    [["--keys", ""], 2, /--keys is ""/],
    [["--jwt-issuer", "i"], 2, /tokens need --jwt-audience and --jwt-jwks, too/],
    [["--jwt-claim", "name=sub"], 2, /--jwt-claim needs --jwt-issuer/],
    [["--jwt-issuer", "i", "--jwt-audience", "a", "--jwt-jwks", "http://far.example/j"], 2, /--jwt-jwks: .*https/],
  ])("%j is refused at the start", async (args, status, message) => {
    const refused = sluice("gateway", "--endpoints", endpointsFile([1]), "--admin", "127.0.0.1:0", ...args);
    expect((await refused.ended()).code).toBe(status);
    expect(refused.stderr).toMatch(message);
  });

  it("--open lets everybody in from everywhere", async () => {
    const open = await start(["--listen", "0.0.0.0:0", "--open"]);
    expect((await send(`http://127.0.0.1:${open.port}`, bearer("of-the-server"))).status).toBe(200);
    // Without keys, the header of the client is its own business.
    expect(reached[0]!.authorization).toBe("Bearer of-the-server");
    await open.process.stop();
  });
});
