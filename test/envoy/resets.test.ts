import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat, JSON_HEADERS, load } from "../support/client.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";
import { type Stack, startStack } from "../support/stack.ts";

/** 20,000 in the ordinary lane, five times that in the soak lane. */
const STREAMS = process.env["SLUICE_LANE"] === "soak" ? 100_000 : 20_000;

describe("real Envoy 1.40 ends every stream with a reset", () => {
  let stack: Stack;

  beforeAll(async () => {
    stack = await startStack("standalone", {
      simArgs: ["--max-num-seqs", "256", "--inter-token-latency", "0", "--time-to-first-token", "0"],
    });
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
  });
  afterAll(() => stack?.stop());

  it(
    `carries ${STREAMS} of them over few connections, and drops none (E-09, D-81)`,
    async () => {
      const bad: string[] = [];
      // Every twentieth is a whole inference; the others are as small as an exchange can be.
      const tally = await load({
        url: stack.url,
        connections: 50,
        requests: STREAMS,
        make: (n) =>
          n % 20 === 0
            ? {
                method: "POST",
                path: "/v1/chat/completions",
                headers: JSON_HEADERS,
                body: chat(`request ${n}`, { max_tokens: 1 }),
              }
            : { method: "GET", path: "/v1/models" },
        onBad: (status, text) => bad.push(`${status} ${text}`),
      });
      expect(bad.slice(0, 5)).toEqual([]);
      expect(Object.fromEntries(tally)).toEqual({ 200: STREAMS });
      // One connection for each of Envoy's two workers, and one for its health check.
      expect(await stack.envoy.stat("cluster.epp.upstream_cx_total")).toBeLessThanOrEqual(3);
      expect(await stack.envoy.stat("cluster.epp.upstream_cx_destroy_remote")).toBe(0);
      expect(await stack.envoy.stat("http.inference.ext_proc.streams_failed")).toBe(0);
      // The client has its answer before the picker has read the reset.
      await poll("the last resets", async () => {
        const metrics = (await ask(`${stack.epp.adminUrl}/metrics`)).text;
        return Number(/^sluice_extproc_resets_total (\d+)$/m.exec(metrics)?.[1]) >= STREAMS;
      });
    },
    fixedLimit(STREAMS * 6),
  );
});
