import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { ask, JSON_HEADERS } from "../support/client.ts";
import { type BareEpp, ExtProcClient, health, startBareEpp } from "../support/epp-process.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { sluice } from "../support/process.ts";
import { endpointsFile, startSims } from "../support/stack.ts";

const [SERVING, NOT_SERVING] = [1, 2];
const API = "apiVersion: inference.networking.x-k8s.io/v1alpha2\n";
const POOL = `${API}kind: InferencePool
metadata: {name: pool}
spec: {selector: {app: vllm}, targetPortNumber: 8000, extensionRef: {name: epp}}
`;
const model = (target: string) => `${API}kind: InferenceModel
metadata: {name: chat}
spec: {modelName: chat, targetModels: [{name: ${target}}], poolRef: {name: pool}}
`;
const REWRITE = `${API}kind: InferenceModelRewrite
metadata: {name: canary}
spec:
  poolRef: {name: pool, group: inference.networking.x-k8s.io}
  rules: [{matches: [{model: {value: chat}}], targets: [{modelRewrite: from-rule}]}]
`;

const running: { readonly process: { stop(): Promise<void> } }[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map(({ process }) => process.stop()));
});

/** A folder of manifests that the test changes. */
function folder(files: Readonly<Record<string, string>> = {}) {
  const path = mkdtempSync(join(tmpdir(), "sluice-resources-"));
  const write = (name: string, text: string): void => writeFileSync(join(path, name), text);
  for (const [name, text] of Object.entries(files)) write(name, text);
  return { path, write, remove: (name: string): void => rmSync(join(path, name)) };
}

async function start(path: string, ...args: string[]): Promise<BareEpp> {
  const epp = await startBareEpp(endpointsFile([1]), ["--secure-serving=false", "--resources", path, ...args]);
  running.push(epp);
  return epp;
}

/** Status of a refusal with its text, or the body that is to be forwarded. */
async function outcome(epp: BareEpp, name: string, ...headers: [string, string][]): Promise<string> {
  const client = await ExtProcClient.connect(epp.port);
  try {
    const stream = client.open();
    stream.requestHeaders([[":method", "POST"], [":path", "/v1/completions"], ...headers]);
    stream.requestBody(`{"model":"${name}","prompt":"p"}`, true);
    const first = await stream.next();
    if (first?.immediateResponse !== undefined) {
      const { status, body } = first.immediateResponse;
      return `${status.code} ${Buffer.from(body).toString()}`;
    }
    const second = await stream.next();
    return Buffer.from(second?.requestBody.response.bodyMutation.streamedResponse.body ?? "").toString();
  } finally {
    client.close();
  }
}

describe("sluice epp --resources", () => {
  it("resolves models, answers 404 for others, and follows the folder (E-87, E-103, E-104, E-111)", async () => {
    const manifests = folder({ "pool.yaml": POOL, "models.yaml": model("v1") });
    const epp = await start(manifests.path);
    const forwarded = (name: string) => `{"model":"${name}","prompt":"p"}`;
    expect(await outcome(epp, "chat")).toBe(forwarded("v1"));
    expect(await outcome(epp, "gpt")).toBe(
      "404 inference error: BadConfiguration - error finding a model object in InferenceModel for input gpt",
    );
    manifests.write("models.yaml", model("v2"));
    await poll("the new target", async () => (await outcome(epp, "chat")) === forwarded("v2"));
    manifests.write("rewrites.yaml", REWRITE);
    await poll("the rule", async () => (await outcome(epp, "chat")) === forwarded("from-rule"));
    expect(await outcome(epp, "chat", ["x-gateway-model-name-rewrite", "from-header"])).toBe(forwarded("from-rule"));
    manifests.write("models.yaml", "kind: [");
    await poll("the warning", () => /models\.yaml:1:7: /.test(epp.process.stderr));
    manifests.remove("rewrites.yaml");
    await poll("the last good model", async () => (await outcome(epp, "chat")) === forwarded("v2"));
  });

  it("is ready only while it has its pool; liveness does not depend on it (E-130, D-30)", async () => {
    const manifests = folder();
    const epp = await start(manifests.path);
    const serving = async () => (await health(epp.healthPort, "inference-extension")).serving;
    const ready = async () => (await ask(`${epp.adminUrl}/ready`)).status;
    expect([await serving(), await ready()]).toEqual([NOT_SERVING, 503]);
    expect((await health(epp.healthPort, "liveness")).serving).toBe(SERVING);
    expect(await outcome(epp, "m")).toMatch(/^503 /);
    for (const round of [1, 2]) {
      manifests.write("pool.yaml", POOL);
      await poll(`the pool, round ${round}`, async () => (await serving()) === SERVING);
      expect([await ready(), await outcome(epp, "m")]).toEqual([200, '{"model":"m","prompt":"p"}']);
      manifests.remove("pool.yaml");
      await poll(`its removal, round ${round}`, async () => (await serving()) === NOT_SERVING);
      expect(await outcome(epp, "m")).toMatch(/^503 /);
    }
    expect(epp.process.stderr).toContain("but not the InferencePool of this process; not ready");
  });

  it("takes the pool that --pool-name names, and enforces matching when told to", async () => {
    const manifests = folder({ "a.yaml": POOL.replace("name: pool", "name: other"), "b.yaml": POOL });
    const epp = await start(manifests.path, "--pool-name=pool", "--model-matching=enforce");
    expect(await outcome(epp, "gpt")).toMatch(/^404 /);
  });

  it.each([
    [
      "several pools",
      { "a.yaml": POOL, "b.yaml": POOL.replace("name: pool", "name: other") },
      [],
      1,
      /default\/other, default\/pool; choose one with --pool-name/,
    ],
    [
      "a broken manifest",
      { "a.yaml": POOL, "b.yaml": model("v1").replace("modelName", "modelNam") },
      [],
      1,
      /b\.yaml:4:8: spec\.modelNam: .*did you mean `modelName`/,
    ],
    [
      "one object in two files",
      { "a.yaml": POOL, "b.yaml": POOL },
      [],
      1,
      /InferencePool default\/pool .* is in .*a\.yaml and in .*b\.yaml/,
    ],
    [
      "an unknown mode",
      { "a.yaml": POOL },
      ["--model-matching=strict"],
      2,
      /--model-matching is "strict"; it takes auto, enforce, off/,
    ],
  ] as const)("refuses to start with %s", async (_, files, args, code, text) => {
    const process = sluice(
      ...["epp", "--endpoints", endpointsFile([1]), "--bind-address", "127.0.0.1"],
      ...["--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"],
      ...["--resources", folder(files).path, ...args],
    );
    running.push({ process });
    expect((await process.ended()).code).toBe(code);
    expect(process.stderr).toMatch(text);
    expect(process.stderr).not.toMatch(/\n\s+at /);
  });
});

describe("sluice gateway --resources", () => {
  it("sends the target on and gives the client its own name back; unknown names are answered 404", async () => {
    const manifests = folder({ "pool.yaml": POOL, "models.yaml": model("sim") });
    const sims = await startSims(1);
    running.push(...sims);
    const gateway: TestGateway = await startGateway(endpointsFile([sims[0]!.port]), ["--resources", manifests.path]);
    running.push(gateway);
    const post = (name: string) =>
      ask(`${gateway.url}/v1/completions`, {
        method: "POST",
        headers: JSON_HEADERS,
        body: JSON.stringify({ model: name, prompt: "p", max_tokens: 2 }),
      });
    const known = await post("chat");
    expect([known.status, (JSON.parse(known.text) as { model: string }).model]).toEqual([200, "chat"]);
    expect((await post("gpt")).status).toBe(404);
  });
});
