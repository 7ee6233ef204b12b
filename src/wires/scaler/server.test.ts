import { describe, expect, it } from "vitest";
import { GrpcClient } from "../../../test/support/grpc-client.ts";
import { poll } from "../../../test/support/poll.ts";
import { encodeScaler } from "../../../test/support/scaler-client.ts";
import { realClock } from "../../base/clock/real.ts";
import { GRPC_STATUS } from "../../base/grpc/status.ts";
import { Backlog } from "../../picker/flowcontrol/backlog.ts";
import { type ScalerServer, startScaler } from "./server.ts";

const IS_ACTIVE = "/externalscaler.ExternalScaler/IsActive";
const asked = (metadata: Record<string, string>): Buffer =>
  encodeScaler("ScaledObjectRef", { name: "servers", namespace: "llm", scalerMetadata: metadata });

async function withScaler(
  leads: () => boolean,
  body: (client: GrpcClient, scaler: ScalerServer) => Promise<void>,
): Promise<void> {
  const errors: unknown[] = [];
  const scaler = await startScaler({
    ...{ host: "127.0.0.1", port: 0, clock: realClock, leads, onError: (error) => errors.push(error) },
    source: { backlog: new Backlog(realClock), inFlight: 0 },
  });
  const client = await GrpcClient.connect(scaler.port);
  try {
    await body(client, scaler);
    expect(errors).toEqual([]);
  } finally {
    client.close();
    scaler.close();
  }
}

describe("the server of the external scaler", () => {
  it("sends its clients to the leader once this replica does not lead", async () => {
    let leading = true;
    await withScaler(
      () => leading,
      async (client, { port }) => {
        expect((await client.unary(IS_ACTIVE, asked({ target: "1" }))).end.status).toBe(GRPC_STATUS.ok);
        leading = false;
        await poll("a GOAWAY", () => client.goaways > 0, 10_000);
        // Who comes again before the Service has noticed is sent away again.
        const again = await GrpcClient.connect(port);
        await poll("another GOAWAY", () => again.goaways > 0, 10_000);
        again.close();
      },
    );
  });

  it("keeps its clients while this replica leads, and sends them away when it drains", async () => {
    await withScaler(
      () => true,
      async (client, scaler) => {
        const watch = client.open("/externalscaler.ExternalScaler/StreamIsActive");
        watch.send(asked({ target: "1" }));
        expect(await watch.next()).toEqual(Buffer.of(8, 0));
        expect(client.goaways).toBe(0);
        scaler.drain();
        expect((await watch.end).status).toBe(GRPC_STATUS.unavailable);
        await poll("a GOAWAY", () => client.goaways > 0, 10_000);
        await expect(GrpcClient.connect(scaler.port)).rejects.toThrow(/ECONNREFUSED/);
      },
    );
  });

  it("refuses a request of more than 64 KiB, and methods that it does not have (bound)", async () => {
    await withScaler(
      () => true,
      async (client) => {
        const large = asked({ target: "1", x: "x".repeat(65_536) });
        expect((await client.unary(IS_ACTIVE, large)).end.status).toBe(GRPC_STATUS.resourceExhausted);
        // KEDA asks for this one, too, and goes on without it.
        const { end } = await client.unary("/externalscaler.ExternalScaler/StreamMetricSpec", asked({ target: "1" }));
        expect(end.status).toBe(GRPC_STATUS.unimplemented);
      },
    );
  });
});
