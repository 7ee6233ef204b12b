import { describe, expect, it } from "vitest";
import { VARIANTS } from "../../src/wires/envoy/options.ts";
import { ask, chat, JSON_HEADERS } from "../support/client.ts";
import { startStack } from "../support/stack.ts";

/** What clients send that a picker may not set, or that Envoy treats in a way of its own. */
const HEADERS = {
  ...JSON_HEADERS,
  te: "trailers",
  "x-forwarded-proto": "https",
  "x-forwarded-host": "example.com",
  "x-envoy-retry-on": "5xx",
  "x-envoy-max-retries": "1",
  "x-envoy-upstream-rq-timeout-ms": "20000",
  "x-envoy-original-path": "/elsewhere",
  "x-request-id": "0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b",
  "x-of-the-client": "kept",
};

describe("Envoy takes every header that the picker sets: rejected_header_mutations stays 0 (E-21, E-61)", () => {
  it.each(VARIANTS)("%s", async (variant) => {
    const stack = await startStack(variant, { eppArgs: variant === "tls" ? ["--secure-serving=true"] : [] });
    try {
      const url = `${stack.url}/v1/chat/completions`;
      for (const body of [chat("hello"), chat("hello", { stream: true }), "[]"])
        await ask(url, { headers: HEADERS, body });
      await ask(`${stack.url}/v1/models?a=b`, { headers: HEADERS });
      const names = await stack.envoy.stats("ext_proc\\.(rejected_header_mutations|streams_started)$");
      const sum = (end: string) => [...names].filter(([name]) => name.endsWith(end)).reduce((all, [, n]) => all + n, 0);
      expect(sum("streams_started")).toBe(4);
      expect(sum("rejected_header_mutations")).toBe(0);
      expect([...names.keys()].some((name) => name.endsWith("rejected_header_mutations"))).toBe(true);
    } finally {
      await stack.stop();
    }
  });
});
