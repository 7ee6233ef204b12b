import { createHash } from "node:crypto";
import { request as httpRequest } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Variant } from "../../src/wires/envoy/options.ts";
import { ask, chat, getJson, JSON_HEADERS, load } from "../support/client.ts";
import { poll } from "../support/poll.ts";
import { type Stack, type StackOptions, seenBy, startStack } from "../support/stack.ts";

function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

const DUPLEX = { requestBodyMode: "full-duplex" } as const;

/** The shipped configurations, and the one whose pool asks for FailOpen with bodies that stream. */
const CONFIGURATIONS: readonly (readonly [string, Variant, StackOptions])[] = [
  ["standalone", "standalone", {}],
  ["override-host", "override-host", {}],
  ["override-host, full duplex", "override-host", { bootstrap: DUPLEX }],
  ["subset-hint", "subset-hint", {}],
  ["tls", "tls", { eppArgs: ["--secure-serving=true"] }],
];

describe.each(CONFIGURATIONS)("real Envoy 1.40, %s", (config, variant, options) => {
  let stack: Stack;

  beforeAll(async () => {
    stack = await startStack(variant, {
      ...options,
      eppArgs: [...(options.eppArgs ?? []), "--decision-header"],
      simArgs: [
        ...["--max-model-len", "4000000", "--max-num-seqs", "256"],
        ...["--inter-token-latency", "2", "--prefill-time-per-token", "0"],
      ],
    });
    // Envoy tries the picker only once its health check has passed.
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
  });
  afterAll(() => stack?.stop());

  it("answers a user's first curl, GET /v1/models, and a chat (D-8, D-32)", async () => {
    const models = await ask(`${stack.url}/v1/models`);
    expect(models.status).toBe(200);
    expect(JSON.parse(models.text).data[0].id).toBe("sim");
    const answer = await ask(`${stack.url}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat("hello") });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text).usage.completion_tokens).toBe(5);
    expect(answer.headers["x-went-into-resp-headers"]).toBe("true");
    // What a user can tell an operator of a slow answer.
    const id = String(answer.headers["x-request-id"]);
    expect(await getJson(`${stack.epp.adminUrl}/debug/decisions/${id}`)).toMatchObject({ requestId: id, model: "sim" });
  });

  it("tells a client that asks for it why its request went where it went, and the server nothing of that", async () => {
    const headers = { ...JSON_HEADERS, "x-sluice-explain": "1", "x-test-id": "why" };
    const answer = await ask(`${stack.url}/v1/chat/completions`, { headers, body: chat("why") });
    expect(answer.headers["x-sluice-decision-reason"]).toMatch(
      /^Request \S+ went to default\/server-\d \(127\.0\.0\.1:\d+\): /,
    );
    const number = String(answer.headers["x-sluice-decision"]);
    expect(await getJson(`${stack.epp.adminUrl}/debug/decisions/${number}?full=1`)).toMatchObject({
      ...{ requestId: answer.headers["x-request-id"], full: { endpoints: { length: 3 } } },
    });
    const [seen] = await seenBy(stack.sims, "why");
    expect(seen!.headers["x-sluice-explain"]).toBeUndefined();
  });

  it("streams token by token: the first arrives before the last is made (D-32)", async () => {
    const stream = (): Promise<{ first: string; chunks: number; text: string }> =>
      new Promise((resolve, reject) => {
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
    // A machine that stands still for half a second finds all parts there at once; what is buffered never comes in parts.
    await poll("a stream that comes in parts", async () => {
      const { first, chunks, text } = await stream();
      expect(text.trimEnd().endsWith("data: [DONE]")).toBe(true);
      return !first.includes("[DONE]") && chunks > 3;
    });
  });

  it("carries a prompt of 8 MB unharmed, once (D-42)", async () => {
    const id = `size-${config}`;
    const body = Buffer.from(chat("word ".repeat(1_600_000)));
    const answer = await ask(`${stack.url}/v1/chat/completions`, {
      headers: { ...JSON_HEADERS, "x-test-id": id },
      body,
    });
    expect(answer.status, answer.text.slice(0, 300)).toBe(200);
    expect(await seenBy(stack.sims, id)).toMatchObject([{ bodyLength: body.length, bodySha256: sha256(body) }]);
  });

  it.each([0, 1, 62_000, 62_001, 65_536, 1 << 20, 1_200_000, 20 << 20])(
    "carries %i bytes that mean nothing to the picker unharmed, once (D-42)",
    async (size) => {
      const id = `bytes-${config}-${size}`;
      const body = Buffer.alloc(size);
      for (let i = 0; i < size; i++) body[i] = i * 31 + (i >> 8);
      // The simulator reads it, sees that not valid JSON and says so.
      const answer = await ask(`${stack.url}/tokenize`, { method: "POST", headers: { "x-test-id": id }, body });
      expect(answer.status, answer.text.slice(0, 300)).toBe(400);
      expect(await seenBy(stack.sims, id)).toMatchObject([{ bodyLength: size, bodySha256: sha256(body) }]);
    },
  );

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
    await poll("the sequence to be aborted", async () => (await seenBy(stack.sims, id))[0]?.aborted === true);
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
  });

  it("hands on what only the model server understands, and its answer (D-18)", async () => {
    const unknown = await ask(`${stack.url}/v1/unheard`, { headers: JSON_HEADERS, body: "{}" });
    expect([unknown.status, JSON.parse(unknown.text).error.message]).toEqual([404, "There is nothing at /v1/unheard"]);
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
