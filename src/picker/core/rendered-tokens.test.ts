import { afterEach, describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { poll } from "../../../test/support/poll.ts";
import { RenderServer } from "../../../test/support/render-server.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { Decision, Routed } from "../exchange/wire.ts";

const servers: RenderServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

/** A pool whose prefixes are those of a render server's tokens. */
async function setUp() {
  const server = await RenderServer.start();
  servers.push(server);
  const core = new TestCore({
    endpoints: 4,
    config: `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: token-producer
  parameters: {modelName: base, vllm: {url: "${server.url}"}}
- type: prefix-cache-scorer
- type: token-load-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins: [{pluginRef: prefix-cache-scorer}, {pluginRef: token-load-scorer, weight: 0}, {pluginRef: max-score-picker}]
`,
  });
  return { server, core };
}

function send(core: TestCore, prompt: string) {
  const exchange = core.openExchange(NO_WIRE);
  exchange.requestHeaders(HeaderList.of([[":path", "/v1/completions"]]), false);
  const decision = exchange.requestBody(Buffer.from(JSON.stringify({ model: "m", prompt })), true) as Promise<Decision>;
  return { exchange, decision };
}

/** Where a prompt goes, and how much of it the scorer believes to be there. */
async function place(core: TestCore, prompt: string): Promise<{ name: string; matched: number }> {
  const { endpoints, record } = (await send(core, prompt).decision) as Routed;
  return { name: endpoints[0]!.name, matched: record!.top[0]!.scores[0]! };
}

const words = (count: number, from = 0): string[] => Array.from({ length: count }, (_, i) => `word${from + i}`);

describe("prompts that a render server makes tokens of", () => {
  it("S-50: match by their tokens, whatever the white space between them", async () => {
    const { core, server } = await setUp();
    const first = await place(core, words(200).join(" "));
    expect(first.matched).toBe(0);
    expect(await place(core, words(200).join(" "))).toEqual({ name: first.name, matched: 1 });
    expect(await place(core, words(200).join(" \n\t "))).toEqual({ name: first.name, matched: 1 });
    // Two blocks of 64 tokens of four.
    expect(await place(core, [...words(130), ...words(100, 500)].join(" "))).toEqual({
      name: first.name,
      matched: 0.5,
    });
    expect(JSON.parse(server.questions[0]!.text)).toMatchObject({ model: "base" });
    expect(server.questions).toHaveLength(4);
    expect(core.errors).toEqual([]);
  });

  it("count in the load of their endpoints as tokens", async () => {
    const { core } = await setUp();
    const prompt = words(200).map((word) => word.padEnd(100, "x"));
    const { endpoints } = (await send(core, prompt.join(" ")).decision) as Routed;
    // Four blocks of 64, of which the last one is counted whole.
    expect(endpoints[0]!.inFlight.tokens).toBeLessThanOrEqual(256);
    expect(endpoints[0]!.inFlight.tokens).toBeGreaterThanOrEqual(200);
  });

  it("S-43: that it cannot make tokens of are served all the same, with no prefix of before, and reported", async () => {
    const { core, server } = await setUp();
    const prompt = words(200).join(" ");
    await place(core, prompt);
    server.reply = { status: 500, body: prompt };
    expect((await place(core, prompt)).matched).toBe(0);
    await server.close();
    expect((await send(core, "another").decision) as Routed).toMatchObject({ kind: "routed" });
    expect(core.errors).toMatchObject([{ code: "RENDER_STATUS" }, { code: "RENDER_FAILED" }]);
    expect(String(core.errors)).not.toContain("word1");
  });

  it("S-43: that it is too slow with are served after 5 seconds, and it is left alone", async () => {
    const { core, server } = await setUp();
    server.reply = "hang";
    const { decision } = send(core, "a b c");
    await poll("a question", () => server.questions.length === 1);
    await core.clock.advanceAsync(5000);
    expect(await decision).toMatchObject({ kind: "routed" });
    expect(core.errors).toMatchObject([{ code: "RENDER_TIMEOUT" }]);
    await poll("the server to notice", () => server.abandoned === 1);
    expect(core.clock.pending).toBe(0);
  });

  it("and whose client goes away meanwhile are given up there, too", async () => {
    const { core, server } = await setUp();
    server.reply = "hang";
    const { exchange, decision } = send(core, "a b c");
    await poll("a question", () => server.questions.length === 1);
    exchange.end("client-gone");
    await poll("the server to notice", () => server.abandoned === 1);
    await decision;
    expect([core.inFlight, core.budget.used, core.clock.pending]).toEqual([0, 0, 0]);
    expect(core.errors).toEqual([]);
  });
});
