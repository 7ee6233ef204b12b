import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { type ShownEndpoint, startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { type Role, startEngine, startSidecar } from "../support/prefill-decode.ts";

// docs/use/disaggregated.md, with its configuration, before two engines and a sidecar that follows llm-d's protocol.

const PAGE = join(import.meta.dirname, "..", "..", "docs", "use", "disaggregated.md");

let roles: Role[] = [];
let gateway: TestGateway | undefined;
let [prefill, decode, sidecar]: [Role, Role, Role] = [] as never;

beforeAll(async () => {
  prefill = await startEngine("prefill-engine");
  decode = await startEngine("decode-engine");
  sidecar = await startSidecar(decode.port, () => [`127.0.0.1:${prefill.port}`]);
  roles = [prefill, decode, sidecar];
  const folder = mkdtempSync(join(tmpdir(), "sluice-disaggregated-"));
  const entry = (name: string, port: number, role: string) =>
    `- {name: ${name}, address: 127.0.0.1, port: ${port}, labels: {llm-d.ai/role: ${role}}}`;
  const endpoints = `endpoints:\n${entry("p", prefill.port, "prefill")}\n${entry("d", sidecar.port, "decode")}\n`;
  writeFileSync(join(folder, "endpoints.yaml"), endpoints);
  // The first configuration of the page.
  const [, config = ""] = /```yaml\n(apiVersion: [\s\S]*?)```/.exec(readFileSync(PAGE, "utf8")) ?? [];
  expect(config).toContain("disagg-profile-handler");
  writeFileSync(join(folder, "config.yaml"), config);
  gateway = await startGateway(join(folder, "endpoints.yaml"), ["--config-file", join(folder, "config.yaml")]);
});

beforeEach(() => {
  for (const role of roles) role.forget();
});

afterAll(async () => {
  await gateway?.process.stop();
  for (const role of roles) role.close();
});

/** A long prompt that begins as no other one does. */
const long = (about: string) => `a question about ${about} and everything else `.repeat(200);

const send = (content: string, more: object = {}, headers: Record<string, string> = {}) =>
  ask(`${gateway!.url}/v1/chat/completions`, {
    method: "POST",
    headers: { ...JSON_HEADERS, ...headers },
    body: chat(content, { max_tokens: 50, ...more }),
  });

describe("prefill and decode behind llm-d's sidecar (scheduling 3.7.1)", () => {
  it("computes a long prompt on the prefill endpoint, and answers from the decode endpoint", async () => {
    const { status, text } = await send(long("birds"));
    expect([status, JSON.parse(text).choices[0].message.content]).toEqual([200, "from decode-engine"]);
    expect(sidecar.legs[0]!.headers["x-prefiller-host-port"]).toBe(`127.0.0.1:${prefill.port}`);
    // The first leg makes one token and says where the KV cache is; the second one is the client's request with that place.
    expect(prefill.legs).toHaveLength(1);
    expect(prefill.legs[0]!.body).toMatchObject({ stream: false, max_tokens: 1 });
    expect(decode.legs[0]!.body).toMatchObject({
      ...{ max_tokens: 50, messages: [{ role: "user", content: long("birds") }] },
      kv_transfer_params: { do_remote_prefill: true, remote_engine_id: "prefill-engine" },
    });
  });

  it("sends a short prompt to the decode endpoint alone, and passes streams through", async () => {
    const { status, text } = await send("hi", { stream: true });
    expect([status, text.endsWith("data: [DONE]\n\n")]).toEqual([200, true]);
    expect(sidecar.legs[0]!.headers["x-prefiller-host-port"]).toBeUndefined();
    expect([prefill.legs.length, decode.legs.length]).toEqual([0, 1]);
  });

  it("does not prefill elsewhere what the decode endpoint has in its cache", async () => {
    await send(long("trees"));
    await send(long("trees"));
    expect([prefill.legs.length, decode.legs.length]).toEqual([1, 2]);
  });

  it("lets no client choose the prefill endpoint, and none but decode endpoints answer", async () => {
    const forged = { "x-prefiller-host-port": "127.0.0.1:9" };
    for (let i = 0; i < 5; i++) expect((await send(`hello ${i}`, {}, forged)).status).toBe(200);
    expect(sidecar.legs).toHaveLength(5);
    for (const { headers } of sidecar.legs) expect(headers["x-prefiller-host-port"]).toBeUndefined();
    expect(prefill.legs).toHaveLength(0);
  });

  it("computes on the decode endpoint when the prefill endpoint is down", async () => {
    prefill.close();
    await poll("the prefill endpoint to be down", async () => {
      const { endpoints } = await getJson<{ endpoints: ShownEndpoint[] }>(`${gateway!.adminUrl}/debug/endpoints`);
      return endpoints.some(({ id, state }) => id.endsWith("/p") && state === "down");
    });
    const { status, text } = await send(long("stars"));
    expect([status, JSON.parse(text).choices[0].message.content]).toEqual([200, "from decode-engine"]);
    expect(sidecar.legs[0]!.headers["x-prefiller-host-port"]).toBeUndefined();
  });
});
