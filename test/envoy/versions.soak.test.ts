import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { OLDER_ENVOYS } from "../../scripts/test-parts.ts";
import type { Variant } from "../../src/wires/envoy/options.ts";
import { ask, chat, JSON_HEADERS, load } from "../support/client.ts";
import { bootstrap, validate } from "../support/envoy.ts";
import { poll } from "../support/poll.ts";
import { type Stack, type StackOptions, startStack } from "../support/stack.ts";

const DUPLEX = { requestBodyMode: "full-duplex" } as const;
const CONFIGURATIONS: readonly (readonly [string, Variant, StackOptions])[] = [
  ["standalone", "standalone", {}],
  ["override-host", "override-host", {}],
  ["override-host, full duplex", "override-host", { bootstrap: DUPLEX }],
  ["subset-hint", "subset-hint", {}],
  ["tls", "tls", { eppArgs: ["--secure-serving=true"] }],
];

const RESETS = 6_000;

describe.each(OLDER_ENVOYS)("real Envoy %s", (release) => {
  it("rejects the one field it does not know, which the configuration for it leaves out (V-1, V-5)", () => {
    const options = { variant: "override-host", eppPort: 9002, serverPorts: [8000], release } as const;
    expect(validate(bootstrap(options, 8081, 19000), release)).toBe("");
    const newest = bootstrap({ ...options, bootstrap: { envoyVersion: "1.40" } }, 8081, 19000);
    expect(validate(newest, release)).toMatch(release.startsWith("1.36") ? /selected_host_key/ : /^$/);
  });

  describe.each(CONFIGURATIONS)("%s", (_, variant, options) => {
    let stack: Stack;
    beforeAll(async () => {
      stack = await startStack(variant, {
        ...options,
        release,
        simArgs: ["--max-num-seqs", "256", "--inter-token-latency", "1", "--time-to-first-token", "0"],
      });
      await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
    });
    afterAll(() => stack?.stop());

    it("validates, and carries a chat and a stream (D-31, D-32, V-1)", async () => {
      const serverPorts = stack.sims.map(({ port }) => port);
      const text = bootstrap({ variant, eppPort: stack.epp.port, serverPorts, release, ...options }, 8081, 19000);
      expect(validate(text, release)).toBe("");

      const url = `${stack.url}/v1/chat/completions`;
      const answer = await ask(url, { headers: JSON_HEADERS, body: chat("hello") });
      expect([answer.status, JSON.parse(answer.text).usage.completion_tokens]).toEqual([200, 5]);
      const stream = await ask(url, { headers: JSON_HEADERS, body: chat("hello", { stream: true, max_tokens: 50 }) });
      expect(stream.text.trimEnd().split("\n\n").length).toBeGreaterThan(50);
      expect(stream.text.trimEnd().endsWith("data: [DONE]")).toBe(true);
      const big = await ask(url, { headers: JSON_HEADERS, body: chat("word ".repeat(800)) });
      expect(big.status).toBe(200);
    });

    it(`ends ${RESETS} exchanges with a reset and loses none (D-81, D-82, V-15)`, async () => {
      const bad: string[] = [];
      const tally = await load({
        url: stack.url,
        connections: 50,
        requests: RESETS,
        make: (n) =>
          n % 10 === 0
            ? {
                method: "POST",
                path: "/v1/chat/completions",
                headers: JSON_HEADERS,
                body: chat(`request ${n}`, { max_tokens: 1 }),
              }
            : { method: "GET", path: "/v1/models" },
        onBad: (status, text) => bad.push(`${status} ${text}`),
      });
      expect(Object.fromEntries(tally), bad.slice(0, 3).join("\n")).toEqual({ 200: RESETS });
      expect(await stack.envoy.stat("cluster.epp.upstream_cx_destroy_remote")).toBe(0);
      expect(await stack.envoy.stat("http.inference.ext_proc.streams_failed")).toBe(0);
    });
  });
});
