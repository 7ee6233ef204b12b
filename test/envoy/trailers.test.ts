import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RequestBodyMode, Variant } from "../../src/wires/envoy/options.ts";
import { chat, getJson } from "../support/client.ts";
import { POOL } from "../support/envoy/pool.cases.ts";
import { type RunningEnvoy, startEnvoy } from "../support/envoy.ts";
import { askH2, H2ModelServer } from "../support/h2-model-server.ts";
import { poll } from "../support/poll.ts";
import { type Epp, endpointsFile, startEpp } from "../support/stack.ts";

const CONFIGURATIONS: readonly (readonly [Variant, RequestBodyMode])[] = [
  ["standalone", "full-duplex"],
  ["standalone", "buffered"],
  ["subset-hint", "full-duplex"],
  ["override-host", "buffered"],
];

const PATH = "/v1/chat/completions";
const JSON_BODY = { "content-type": "application/json" };

describe.each(CONFIGURATIONS)(
  "real Envoy 1.40, %s, %s, to a server of appProtocol kubernetes.io/h2c",
  (variant, mode) => {
    let server: H2ModelServer;
    let epp: Epp;
    let envoy: RunningEnvoy;

    beforeAll(async () => {
      server = await H2ModelServer.open();
      epp = await startEpp(endpointsFile([server.port]));
      envoy = await startEnvoy({
        variant,
        eppPort: epp.port,
        serverPorts: [server.port],
        bootstrap: { pool: { ...POOL, appProtocol: "kubernetes.io/h2c" }, requestBodyMode: mode },
      });
      await envoy.findsPickers();
      await poll(
        "the first answer",
        async () => (await askH2(envoy.port, PATH, body(1), { headers: JSON_BODY })).status === 200,
      );
    });
    afterAll(async () => {
      server?.stop();
      await Promise.all([envoy?.process.stop(), epp?.process.stop()]);
    });

    const body = (kilobytes: number): Buffer => Buffer.from(chat("x".repeat(kilobytes * 1024)));
    const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
    const allReleased = () =>
      poll("the in-flight count to fall to zero", async () => {
        const { endpoints } = await getJson<{ endpoints: { inFlight: { requests: number } }[] }>(
          `${epp.adminUrl}/debug/endpoints`,
        );
        return endpoints.every(({ inFlight }) => inFlight.requests === 0);
      });

    it.each([1, 200, 2_000])(
      "carries trailers of the answer to the client, behind %i kB of it (V-17, D-17)",
      async (size) => {
        const sent = body(size);
        server.trailers = { "x-checked": "yes", "grpc-status": "0" };
        const answer = await askH2(envoy.port, PATH, sent, { headers: JSON_BODY });
        expect(answer.status).toBe(200);
        expect(answer.trailers).toMatchObject({ "x-checked": "yes", "grpc-status": "0" });
        expect(sha256(answer.body)).toBe(sha256(sent));
        await allReleased();
      },
    );

    it.each([1, 200, 2_000])(
      "carries trailers of the client to the server, behind %i kB, which arrive once (D-7)",
      async (size) => {
        const sent = body(size);
        server.trailers = undefined;
        const answer = await askH2(envoy.port, PATH, sent, { headers: JSON_BODY, trailers: { "x-digest": "abc" } });
        expect(answer.status, answer.body.toString().slice(0, 300)).toBe(200);
        expect(answer.trailers).toEqual({});
        const seen = server.requests.at(-1)!;
        expect(seen.trailers).toMatchObject({ "x-digest": "abc" });
        expect([seen.bodyLength, seen.bodySha256]).toEqual([sent.length, sha256(sent)]);
        await allReleased();
      },
    );

    it("carries both in one exchange", async () => {
      server.trailers = { "x-checked": "yes" };
      const answer = await askH2(envoy.port, PATH, body(1), { headers: JSON_BODY, trailers: { "x-digest": "abc" } });
      expect([answer.status, answer.trailers["x-checked"], server.requests.at(-1)!.trailers["x-digest"]]).toEqual([
        ...[200, "yes", "abc"],
      ]);
      await allReleased();
      expect(await envoy.stat("http.inference.ext_proc.streams_failed")).toBe(0);
      expect(await envoy.stat("http.inference.ext_proc.spurious_msgs_received")).toBe(0);
    });
  },
);
