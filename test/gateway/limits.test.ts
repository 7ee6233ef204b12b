import { mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, getJson, JSON_HEADERS } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-limits-"));
let sims: Sim[] = [];
let endpoints = "";
let redis: RunningRedis | undefined;
const gateways: TestGateway[] = [];

beforeAll(async () => {
  sims = await startSims(1, ["--model", "sim"]);
  endpoints = endpointsFile(sims.map(({ port }) => port));
});
afterAll(async () => {
  await Promise.all([...gateways, ...sims].map((one) => one.process.stop()));
  await redis?.stop();
});

function limits(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
  return file;
}

async function start(...args: readonly string[]): Promise<TestGateway> {
  const gateway = await startGateway(endpoints, args);
  gateways.push(gateway);
  return gateway;
}

const send = ({ url }: TestGateway, more: object = {}, text = "hello") =>
  ask(`${url}/v1/chat/completions`, { headers: JSON_HEADERS, body: chat(text, { max_tokens: 3, ...more }) });

interface Shown {
  readonly rules: readonly { readonly counters: readonly { readonly inFlight: { readonly here: number } }[] }[];
}

describe("sluice gateway with limits", () => {
  it("answers, streams too, have the headers; then 429 as OpenAI's clients read it; a saved file counts", async () => {
    const file = limits("one.yaml", 'rules: [{key: "*", requestsPerMinute: 2, tokensPerMinute: 1000, inFlight: 9}]');
    const gateway = await start("--limits", file);
    const first = await send(gateway);
    expect([first.status, first.headers["x-ratelimit-limit-requests"]]).toEqual([200, "2"]);
    expect(first.headers["x-ratelimit-remaining-requests"]).toBe("1");
    const stream = await send(gateway, { stream: true });
    expect([stream.status, stream.headers["x-ratelimit-remaining-requests"]]).toEqual([200, "0"]);
    expect(stream.headers["x-ratelimit-reset-requests"]).toMatch(/^(1m0s|5\ds)$/);
    const refused = await send(gateway);
    expect(refused.status).toBe(429);
    expect(JSON.parse(refused.text)).toMatchObject({ error: { type: "requests", code: "rate_limit_exceeded" } });
    const seconds = Number(refused.headers["retry-after"]);
    expect(seconds).toBeGreaterThan(0);
    expect(Math.ceil(Number(refused.headers["retry-after-ms"]) / 1000)).toBe(seconds);
    limits("one.yaml", 'rules: [{key: "*", requestsPerMinute: 1000, tokensPerMinute: 1000, inFlight: 9}]');
    await poll("the changed file", async () => (await send(gateway)).status === 200);
    const big = await send(gateway, {}, "x ".repeat(4000));
    expect([big.status, JSON.parse(big.text).error.code]).toEqual([400, "request_over_token_limit"]);
    const shown = await getJson<Shown>(`${gateway.adminUrl}/debug/limits`);
    expect(shown.rules[0]!.counters[0]!.inFlight.here).toBe(0);
  });

  it("a gateway refuses to start with a broken file or a Redis without limits", async () => {
    await expect(start("--limits", limits("bad.yaml", "rules: [{keys: a, inFlight: 1}]"))).rejects.toThrow(
      /unknown key `keys`; did you mean `key`\?/,
    );
    await expect(start("--limits-redis", "redis://localhost")).rejects.toThrow("--limits-redis needs --limits FILE");
  });

  it.each(["--limits-redis", "--peers"])(
    "two gateways share 30 requests in a minute through Redis: %s",
    async (flag) => {
      redis ??= await startRedis();
      const file = limits("two.yaml", 'rules: [{key: "*", requestsPerMinute: 30}]');
      const both = [await start("--limits", file, flag, redis.url), await start("--limits", file, flag, redis.url)];
      const begun = performance.now();
      let admitted = 0;
      for (let i = 0; i < 120; i++) if ((await send(both[i % 2]!)).status === 200) admitted++;
      // The limit, what has drained, and a few of the rounds under way.
      const most = 30 + ((performance.now() - begun) / 60_000) * 30;
      expect(admitted).toBeGreaterThanOrEqual(30);
      expect(admitted).toBeLessThanOrEqual(most + 30);
      await poll("both to know that the limit is reached", async () => {
        const [a, b] = await Promise.all(both.map((gateway) => send(gateway)));
        return a!.status === 429 && b!.status === 429;
      });
    },
  );
});
