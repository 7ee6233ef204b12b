import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chat } from "../support/client.ts";
import { POOL } from "../support/envoy/pool.cases.ts";
import { type RunningEnvoy, startEnvoy } from "../support/envoy.ts";
import { askH2, H2ModelServer } from "../support/h2-model-server.ts";
import { poll } from "../support/poll.ts";
import { type Epp, endpointsFile, startEpp } from "../support/stack.ts";

const SIZES = [10_240, 102_400, 1 << 20, 4 << 20];
const TIMES = 5;

/** What docs/use/envoy.md warns of: duplex request bodies, a retry policy and trailers of the client do not go together. */
describe("real Envoy 1.40, override-host with duplex request bodies (D-38, V-2, pitfall 33)", () => {
  let server: H2ModelServer;
  let epp: Epp;
  let envoy: RunningEnvoy;

  beforeAll(async () => {
    server = await H2ModelServer.open();
    epp = await startEpp(endpointsFile([server.port]));
    envoy = await startEnvoy({
      variant: "override-host",
      eppPort: epp.port,
      serverPorts: [server.port],
      bootstrap: { pool: { ...POOL, appProtocol: "kubernetes.io/h2c" }, requestBodyMode: "full-duplex" },
    });
    await poll("the first answer", async () => (await send(10)).status === 200);
  });
  afterAll(async () => {
    server?.stop();
    await Promise.all([envoy?.process.stop(), epp?.process.stop()]);
  });

  const send = (size: number, trailers?: Record<string, string>) =>
    askH2(envoy.port, "/v1/chat/completions", Buffer.from(chat("x".repeat(size))), {
      headers: { "content-type": "application/json" },
      ...(trailers === undefined ? {} : { trailers }),
    });

  it.each(SIZES)("%i bytes without trailers arrive once", async (size) => {
    for (let i = 0; i < TIMES; i++) {
      expect((await send(size)).status).toBe(200);
      expect(server.requests.at(-1)!.bodyLength).toBe(chat("x".repeat(size)).length);
    }
  });

  it.each(SIZES)("%i bytes with trailers: how often they arrive is written down", async (size) => {
    const times: number[] = [];
    for (let i = 0; i < TIMES; i++) {
      await send(size, { "x-digest": "abc" });
      times.push(server.requests.at(-1)!.bodyLength / chat("x".repeat(size)).length);
    }
    process.stdout.write(`Envoy 1.40, ${size} bytes and client trailers: the body arrived ${times.join(", ")} times\n`);
    expect(times.every((count) => count === 1 || count === 2)).toBe(true);
  });
});
