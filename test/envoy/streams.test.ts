import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS, load } from "../support/client.ts";
import { poll } from "../support/poll.ts";
import { type Stack, startStack } from "../support/stack.ts";

const STREAMS = 100;
const WORKERS = 4;

/** Lets the servers make what they still have to make without a pause. */
async function hurry({ sims }: Stack): Promise<void> {
  const body = JSON.stringify({ "inter-token-latency": 0 });
  for (const { url } of sims)
    expect((await ask(`${url}/admin/config`, { headers: JSON_HEADERS, body })).status).toBe(200);
}

describe("real Envoy 1.40 with four workers", () => {
  let stack: Stack;

  beforeAll(async () => {
    stack = await startStack("standalone", {
      concurrency: WORKERS,
      // Nothing ends before the test lets it: on any machine there is time to see all of them.
      simArgs: ["--max-num-seqs", "64", "--inter-token-latency", "500", "--prefill-time-per-token", "0"],
    });
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
  });
  afterAll(() => stack?.stop());

  it("carries 100 streams at once over one connection per worker, and none starves (D-43)", async () => {
    const bad: string[] = [];
    const traffic = load({
      url: stack.url,
      connections: STREAMS,
      requests: STREAMS,
      make: (n) => ({
        method: "POST",
        path: "/v1/chat/completions",
        headers: JSON_HEADERS,
        body: chat(`stream ${n}`, { stream: true, max_tokens: 200 }),
      }),
      onBad: (status, text) => bad.push(`${status} ${text}`),
    });
    await poll("all of them to run at the same time", async () => {
      const { endpoints } = await getJson<{ endpoints: { inFlight: { requests: number } }[] }>(
        `${stack.epp.adminUrl}/debug/endpoints`,
      );
      return endpoints.reduce((sum, { inFlight }) => sum + inFlight.requests, 0) === STREAMS;
    });
    await hurry(stack);
    expect(Object.fromEntries(await traffic), bad.slice(0, 3).join("\n")).toEqual({ 200: STREAMS });
    // The health check's is not among them.
    expect(await stack.envoy.stat("cluster.epp.upstream_cx_total")).toBe(WORKERS);
    expect(await stack.envoy.stat("cluster.epp.upstream_cx_destroy")).toBe(0);
  });
});

describe("real Envoy 1.40: what the picker refuses reaches the client as it was said (D-44)", () => {
  let stack: Stack;

  beforeAll(async () => {
    stack = await startStack("standalone", {
      eppArgs: ["--objective", "batch=-1"],
      // As above.
      simArgs: ["--max-num-seqs", "1", "--inter-token-latency", "2000", "--prefill-time-per-token", "0"],
    });
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
  });
  afterAll(() => stack?.stop());

  it("429 to what is sheddable while every server has a queue, with the reason in its header", async () => {
    const full = Array.from({ length: 36 }, (_, n) =>
      ask(`${stack.url}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat(`fill ${n}`, { max_tokens: 20 }) }),
    );
    const headers = { ...JSON_HEADERS, "x-llm-d-inference-objective": "batch", "x-test-id": "shed" };
    await poll("the picker to see a queue at every server", async () => {
      const { endpoints } = await getJson<{ endpoints: { metrics: { waiting: number | null } }[] }>(
        `${stack.epp.adminUrl}/debug/endpoints`,
      );
      return endpoints.every(({ metrics }) => (metrics.waiting ?? 0) >= 6);
    });
    const answer = await ask(`${stack.url}/v1/chat/completions`, { headers, body: chat("shed") });
    expect(answer.status).toBe(429);
    expect(answer.text).toMatch(/^inference error: ResourceExhausted - /);
    expect(answer.headers).toHaveProperty("x-llm-d-request-dropped-reason");
    expect(answer.headers["content-length"]).toBe(String(Buffer.byteLength(answer.text)));
    expect(await stack.envoy.stat("http.inference.ext_proc.immediate_responses_sent")).toBe(1);
    expect(await stack.envoy.stat("http.inference.ext_proc.streams_failed")).toBe(0);
    // The others were not disturbed.
    await hurry(stack);
    expect(new Set((await Promise.all(full)).map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("413 while the upload still runs, for a body over the picker's limit", async () => {
    const answer = await ask(`${stack.url}/v1/chat/completions`, {
      headers: JSON_HEADERS,
      body: chat("x".repeat(33 << 20)),
    });
    expect(answer.status, answer.text).toBe(413);
  });
});
