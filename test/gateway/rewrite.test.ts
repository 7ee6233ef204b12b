import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, getJson, JSON_HEADERS, load } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { rawClient } from "../support/loopback.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile, type SeenRequest, type Sim, seenBy, startSims } from "../support/stack.ts";

/** Names of adapters: plain, longer than any other, and one that JSON has to escape. */
const [TUNED, LONG, ODD] = ["tuned", `tuned-${"x".repeat(200)}`, 'tuned "q" \\ ü'] as const;

const POOL = `apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: pool}
spec:
  selector: {matchLabels: {app: vllm}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: epp, port: {number: 9002}}
`;
const rule = (model: string, ...targets: readonly string[]): string =>
  `  - matches: [{model: {value: ${JSON.stringify(model)}}}]
    targets:
${targets.map((name) => `    - {modelRewrite: ${JSON.stringify(name)}, weight: 1}\n`).join("")}`;
const RULES = `apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: rules}
spec:
  poolRef: {name: pool}
  rules:
${rule("chat", TUNED)}${rule("a-rather-long-name-for-a-model", TUNED)}${rule("c", LONG)}${rule('odd "name" \\ é', ODD)}${rule("half", TUNED, LONG)}${rule("gone", "nobody-has-it")}`;

let sims: Sim[];
let gateway: TestGateway;
let next = 0;

beforeAll(async () => {
  const adapters = [TUNED, LONG, ODD].map((name) => JSON.stringify({ name, path: "/adapter" }));
  const flags = ["--lora-modules", ...adapters, "--max-loras", "4", "--inter-token-latency", "1ms"];
  // The first answers every request with 503: what arrives was spliced, sent once in vain, and sent again.
  sims = [
    ...(await startSims(1, [...flags, "--error-until", "1000000"])),
    ...(await startSims(1, [...flags, "--served-model-name", "sim", "base-alias"])),
  ];
  const folder = mkdtempSync(join(tmpdir(), "sluice-resources-"));
  writeFileSync(join(folder, "pool.yaml"), POOL);
  writeFileSync(join(folder, "rewrites.yaml"), RULES);
  // So that the servers, not the gateway, refuse a target that nobody has.
  const file = endpointsFile(
    sims.map(({ port }) => port),
    ', models: ["*"]',
  );
  gateway = await startGateway(file, ["--resources", folder]);
});
afterAll(async () => {
  await gateway?.process.stop();
  await Promise.all((sims ?? []).map((sim) => sim.process.stop()));
});

interface Asked {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** What the server that did not refuse saw. */
  readonly seen: SeenRequest & { readonly port: number; readonly model: string | null; readonly declared: number };
  /** How often any server saw it. */
  readonly times: number;
}

/** Sends a completion for `model`; the rest of the body stands before and behind the name. */
async function asked(
  api: "chat/completions" | "completions",
  model: string,
  stream: boolean,
  headers: Record<string, string> = {},
): Promise<Asked> {
  const id = `rewrite-${next++}`;
  // Different each time: a prompt goes where it was answered before, which the server that refuses never did.
  const say = `say ${id}`;
  const input = api === "completions" ? { prompt: say } : { messages: [{ role: "user", content: say }] };
  // A Buffer: node would write headers together with a text, and then as UTF-8 a second time.
  const body = Buffer.from(JSON.stringify({ max_tokens: 6, ignore_eos: true, model, stream, ...input }));
  const sent = { ...JSON_HEADERS, "x-test-id": id, "x-request-id": id, ...headers };
  const answer = await ask(`${gateway.url}/v1/${api}`, { headers: sent, body });
  const all = (await seenBy(sims, id)) as unknown as (Asked["seen"] & { declaredContentLength: number })[];
  const seen = all.find(({ port }) => port === sims[1]!.port)!;
  return { ...answer, seen: { ...seen, declared: seen.declaredContentLength }, times: all.length };
}

/** Every model name that the answer's documents or events hold. */
function namesIn(text: string, stream: boolean): string[] {
  if (!stream) return [(JSON.parse(text) as { model: string }).model];
  const parts = text.split("\n\n");
  expect(parts.slice(-2)).toEqual(["data: [DONE]", ""]);
  return parts.slice(0, -2).map((part) => (JSON.parse(part.replace(/^data: /, "")) as { model: string }).model);
}

const REWRITE = "x-llm-d-model-name-rewrite";
const latin1 = (text: string): string => Buffer.from(text).toString("latin1");

describe.each(["chat/completions", "completions"] as const)("E-69 E-109: a model name rewritten on /v1/%s", (api) => {
  describe.each([
    ["JSON", false],
    ["SSE", true],
  ] as const)("%s", (_format, stream) => {
    it.each([
      ["by a rule, to a longer name", "chat", TUNED, {}],
      ["by a rule, to a shorter name", "a-rather-long-name-for-a-model", TUNED, {}],
      ["by a rule, to a much longer one", "c", LONG, {}],
      ["by a rule, both names escaped in JSON", 'odd "name" \\ é', ODD, {}],
      ["by the header", "whatever", TUNED, { [REWRITE]: TUNED }],
      ["by the header's alias, escaped in JSON", "whatever é", ODD, { "x-gateway-model-name-rewrite": latin1(ODD) }],
    ])("%s: the server gets the target, the client its own name", async (_name, model, target, headers) => {
      const { status, headers: got, text, seen, times } = await asked(api, model, stream, headers);
      expect(status).toBe(200);
      const names = namesIn(text, stream);
      expect(new Set(names)).toEqual(new Set([model]));
      // Role chunk (chats only), six tokens, the end.
      expect(names).toHaveLength(stream ? (api === "completions" ? 7 : 8) : 1);
      expect(text).not.toContain(JSON.stringify(target));
      expect(seen).toMatchObject({ model: target, status: 200, repeatedDocument: false, lengthMismatch: false });
      expect(seen.declared).toBe(seen.bodyLength);
      expect(Object.keys(seen.headers).filter((key) => key.includes("rewrite"))).toEqual([]);
      expect(seen.headers["transfer-encoding"]).toBeUndefined();
      // A length that no longer holds is not announced.
      expect(got["content-length"]).toBeUndefined();
      expect(got["transfer-encoding"]).toBe("chunked");
      expect(times).toBeLessThanOrEqual(2);
    });

    it("not at all: names and length are left alone", async () => {
      const { status, headers, text, seen } = await asked(api, "sim", stream);
      expect(status).toBe(200);
      expect(new Set(namesIn(text, stream))).toEqual(new Set(["sim"]));
      expect(seen.model).toBe("sim");
      if (!stream) expect(headers["content-length"]).toBe(String(Buffer.byteLength(text)));
    });
  });
});

describe("what a rewrite leaves as it is", () => {
  it("the body: sent again to the next server after a 503, it is the same, byte for byte", async () => {
    const twice = await poll("a request that met the busy server first", async () => {
      const { text, times } = await asked("completions", "c", false);
      expect(namesIn(text, false)).toEqual(["c"]);
      return times === 2 ? `rewrite-${next - 1}` : undefined;
    });
    const [one, other] = await seenBy(sims, twice);
    expect([one!.status, other!.status].sort()).toEqual([200, 503]);
    expect(one!.bodySha256).toBe(other!.bodySha256);
    expect(one!.bodyLength).toBe(other!.bodyLength);
  });

  it("weights share the targets out, and no client can tell", async () => {
    const targets = new Set<string | null>();
    for (let n = 0; n < 40 && targets.size < 2; n++) {
      const { text, seen } = await asked("completions", "half", n % 2 === 0);
      targets.add(seen.model);
      expect(text).not.toMatch(/tuned/);
    }
    expect(targets).toEqual(new Set([TUNED, LONG]));
  });

  it("the refusal of the target is relayed with its status and a body that is whole", async () => {
    const { status, text, seen } = await asked("completions", "gone", false);
    expect(status).toBe(404);
    expect(JSON.parse(text).error).toMatchObject({ type: "NotFoundError", code: 404 });
    expect(seen.model).toBe("nobody-has-it");
  });

  it("the record of the decision and the metrics name both", async () => {
    const id = `rewrite-${next}`;
    await asked("chat/completions", "chat", false);
    const record = await getJson<{ model: string; targetModel: string }>(`${gateway.adminUrl}/debug/decisions/${id}`);
    expect(record).toMatchObject({ model: "chat", targetModel: TUNED });
    const page = (await ask(`${gateway.adminUrl}/metrics`)).text;
    expect(page).toMatch(/\{[^}]*model_name="chat"[^}]*target_model_name="tuned"[^}]*\} [1-9]/);
  });

  it("the connection: one after another over the same, restored or not, each framed right", async () => {
    const models = ["chat", "sim", "c", "half", "sim", "chat"];
    const bad: string[] = [];
    const tally = await load({
      url: gateway.url,
      connections: 1,
      requests: 60,
      make: (n) => ({
        method: "POST",
        path: "/v1/completions",
        headers: JSON_HEADERS,
        body: JSON.stringify({
          model: models[n % models.length],
          prompt: `p ${n}`,
          max_tokens: 3,
          stream: n % 3 === 0,
        }),
      }),
      onBad: (status, text) => bad.push(`${status} ${text}`),
    });
    expect(bad).toEqual([]);
    expect(Object.fromEntries(tally)).toEqual({ 200: 60 });
  });

  it.each([false, true])("an HTTP/1.0 client gets it whole, ended by the connection (stream: %s)", async (stream) => {
    const client = await rawClient(gateway.port);
    const body = JSON.stringify({ model: "chat", prompt: "p", max_tokens: 3, ignore_eos: true, stream });
    client.send(
      `POST /v1/completions HTTP/1.0\r\nhost: gw\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await poll("the end", client.closed);
    const [head, text] = client.text().split("\r\n\r\n") as [string, string];
    expect(head).not.toMatch(/content-length|transfer-encoding/i);
    expect(new Set(namesIn(text, stream))).toEqual(new Set(["chat"]));
    expect(client.wasReset()).toBe(false);
  });
});
