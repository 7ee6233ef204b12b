import { createHash } from "node:crypto";
import { request as httpRequest } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS, load } from "../support/client.ts";
import { poll } from "../support/poll.ts";
import { type Stack, startStack } from "../support/stack.ts";

interface SeenRequest {
  readonly id?: string;
  readonly bodySha256: string;
  readonly bodyLength: number;
  readonly aborted: boolean;
  readonly headers: Record<string, string>;
}

describe.each(["standalone", "override-host"] as const)("real Envoy 1.40, %s.yaml", (config) => {
  let stack: Stack;

  beforeAll(async () => {
    stack = await startStack(config, [
      "--max-model-len",
      "4000000",
      "--max-num-seqs",
      "256",
      "--inter-token-latency",
      "2",
      "--prefill-time-per-token",
      "0",
    ]);
    // Envoy tries the picker only once its health check has passed.
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
  });
  afterAll(() => stack?.stop());

  const seen = async (id: string): Promise<SeenRequest[]> => {
    const lists = await Promise.all(
      stack.sims.map((sim) => getJson<{ requests: SeenRequest[] }>(`${sim.url}/admin/requests`)),
    );
    return lists.flatMap((list) => list.requests).filter((request) => request.headers["x-test-id"] === id);
  };

  it("answers a user's first curl, GET /v1/models, and a chat (D-8, D-32)", async () => {
    const models = await ask(`${stack.url}/v1/models`);
    expect(models.status).toBe(200);
    expect(JSON.parse(models.text).data[0].id).toBe("sim");
    const answer = await ask(`${stack.url}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat("hello") });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text).usage.completion_tokens).toBe(5);
    expect(answer.headers["x-went-into-resp-headers"]).toBe("true");
  });

  it("streams token by token: the first arrives before the last is made (D-32)", async () => {
    const arrivals = await new Promise<{ first: string; chunks: number; text: string }>((resolve, reject) => {
      let first = "";
      let chunks = 0;
      let text = "";
      const request = httpRequest(
        `${stack.url}/v1/chat/completions`,
        { method: "POST", headers: JSON_HEADERS, agent: false },
        (response) => {
          response.on("data", (part: Buffer) => {
            chunks++;
            text += part.toString();
            if (chunks === 1) first = text;
          });
          response.on("end", () => resolve({ first, chunks, text }));
          response.on("error", reject);
        },
      );
      request.on("error", reject);
      request.end(chat("stream please", { stream: true, max_tokens: 40 }));
    });
    expect(arrivals.first).not.toContain("[DONE]");
    expect(arrivals.chunks).toBeGreaterThan(3);
    expect(arrivals.text.trimEnd().endsWith("data: [DONE]")).toBe(true);
  });

  it.each([
    ["1 MB", 1_000_000],
    ["8 MB", 8_000_000],
  ])("carries a body of %s unharmed, once (D-42)", async (_, size) => {
    const id = `size-${config}-${size}`;
    const body = Buffer.from(chat("word ".repeat(size / 5)));
    const answer = await ask(`${stack.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, "x-test-id": id },
      body,
    });
    expect(answer.status, answer.text.slice(0, 300)).toBe(200);
    const requests = await seen(id);
    expect(requests).toHaveLength(1);
    expect(requests[0]!.bodyLength).toBe(body.length);
    expect(requests[0]!.bodySha256).toBe(createHash("sha256").update(body).digest("hex"));
  });

  it("frees the slot when the client leaves in mid-stream (D-41)", async () => {
    const id = `abort-${config}`;
    await new Promise<void>((resolve, reject) => {
      const request = httpRequest(
        `${stack.url}/v1/chat/completions`,
        { method: "POST", headers: { ...JSON_HEADERS, "x-test-id": id }, agent: false },
        (response) => {
          response.once("data", () => {
            request.destroy();
            resolve();
          });
          response.on("error", () => {});
        },
      );
      request.on("error", reject);
      request.end(chat("leave early", { stream: true, max_tokens: 100_000 }));
    });
    await poll("the sequence to be aborted", async () => (await seen(id))[0]?.aborted === true);
    await poll("the in-flight count to fall to zero", async () => {
      const list = await getJson<{ endpoints: { inFlight: { requests: number } }[] }>(
        `${stack.epp.adminUrl}/debug/endpoints`,
      );
      return list.endpoints.every((endpoint) => endpoint.inFlight.requests === 0);
    });
  });

  it("carries 200 requests at once and spreads them", async () => {
    const tally = await load({
      url: stack.url,
      connections: 200,
      requests: 200,
      make: (n) => ({
        method: "POST",
        path: "/v1/chat/completions",
        headers: JSON_HEADERS,
        body: chat(`request ${n}`, { max_tokens: 20 }),
      }),
    });
    expect(Object.fromEntries(tally)).toEqual({ 200: 200 });
    const decisions = await getJson<{ endpoint: string }[]>(`${stack.epp.adminUrl}/debug/decisions`);
    expect(new Set(decisions.map((decision) => decision.endpoint)).size).toBe(3);
  });

  it("refuses what it cannot read, and says why", async () => {
    const bad = await ask(`${stack.url}/v1/chat/completions`, { headers: JSON_HEADERS, body: "no healthy upstream" });
    expect([bad.status, bad.text]).toEqual([
      400,
      "inference error: BadRequest - error unmarshaling request bodyMap: invalid character 'o' in literal null (expecting 'u')",
    ]);
    const unknown = await ask(`${stack.url}/v1/unheard`, { headers: JSON_HEADERS, body: "{}" });
    expect([unknown.status, unknown.text]).toEqual([
      400,
      "inference error: BadRequest - no parser registered matching path suffix for: /v1/unheard",
    ]);
  });

  it("never lets a client choose the endpoint (D-33)", async () => {
    const forged = { "x-gateway-destination-endpoint": "127.0.0.1:1" };
    const answer = await ask(`${stack.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, ...forged },
      body: chat("forged"),
    });
    expect(answer.status).toBe(200);
  });
});
