import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ExtProcClient, finish, health, route, startBareEpp } from "../support/epp-process.ts";
import { type GrpcCall, GrpcClient } from "../support/grpc-client.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";

const NOT_SERVING = 2;
let sims: Sim[];
let endpoints: string;
beforeAll(async () => {
  sims = await startSims(1);
  endpoints = endpointsFile(sims.map((sim) => sim.port));
});
afterAll(() => Promise.all((sims ?? []).map((sim) => sim.process.stop())));

describe("sluice epp that is told to end (E-128, D-29)", () => {
  it.each(["SIGTERM", "SIGINT"] as const)(
    "%s: says so at once, and serves on while the drain lasts",
    async (signal) => {
      const epp = await startBareEpp(endpoints, ["--secure-serving=false", "--health-checking", "--drain-timeout=1h"]);
      const client = await ExtProcClient.connect(epp.port);
      const running = client.open();
      await route(running);
      epp.process.child.kill(signal);
      await poll("NOT_SERVING", async () => (await health(epp.healthPort, "readiness")).serving === NOT_SERVING);
      expect((await health(epp.port, "")).serving).toBe(NOT_SERVING);
      expect((await health(epp.healthPort, "liveness")).serving).toBe(1);
      // New streams, on old connections and on new ones.
      await finish(await routed(client));
      const late = await ExtProcClient.connect(epp.port);
      await finish(await routed(late));
      await finish(running);
      expect(epp.process.exit).toBeUndefined();
      client.close();
      late.close();
      await epp.process.stop();
    },
  );

  it.each(["SIGTERM", "SIGINT"] as const)("%s: ends with 0 when the drain time is over, not before", async (signal) => {
    const epp = await startBareEpp(endpoints, ["--secure-serving=false", "--drain-timeout=1s"]);
    const from = performance.now();
    epp.process.child.kill(signal);
    expect(await epp.process.ended()).toEqual({ code: 0, signal: null });
    expect(performance.now() - from).toBeGreaterThanOrEqual(1000);
  });

  it("lets a stream that outlasts the drain time finish", async () => {
    const epp = await startBareEpp(endpoints, ["--secure-serving=false", "--drain-timeout=100ms"]);
    const client = await ExtProcClient.connect(epp.port);
    const running = client.open();
    await route(running);
    epp.process.child.kill("SIGTERM");
    await poll("the GOAWAY", () => client.grpc.goaways > 0);
    await finish(running);
    expect(await epp.process.ended()).toEqual({ code: 0, signal: null });
    client.close();
  });

  it("ends each watch of its health, early or begun while it drains, so that it waits for none of them", async () => {
    const epp = await startBareEpp(endpoints, ["--secure-serving=false", "--drain-timeout=1h"]);
    const client = await GrpcClient.connect(epp.port);
    const watch = (): GrpcCall => {
      const call = client.open("/grpc.health.v1.Health/Watch");
      call.send(Buffer.alloc(0));
      return call;
    };
    const early = watch();
    expect((await early.next())?.[1]).toBe(1);
    epp.process.child.kill("SIGTERM");
    expect((await early.next())?.[1]).toBe(NOT_SERVING);
    expect(await early.next()).toBeUndefined();
    const late = watch();
    expect((await late.next())?.[1]).toBe(NOT_SERVING);
    expect(await late.next()).toBeUndefined();
    client.close();
    await epp.process.stop();
  });

  it("does not wait for who watches its health", async () => {
    const epp = await startBareEpp(endpoints, ["--secure-serving=false", "--drain-timeout=100ms"]);
    const client = await GrpcClient.connect(epp.port);
    const call = client.open("/grpc.health.v1.Health/Watch");
    call.send(Buffer.alloc(0));
    expect((await call.next())?.[1]).toBe(1);
    epp.process.child.kill("SIGTERM");
    // Far below the 30 s that what still runs gets after the drain.
    expect(await epp.process.ended(20_000)).toEqual({ code: 0, signal: null });
    client.close();
  });

  it("ends at once with 1 on the second signal", async () => {
    const epp = await startBareEpp(endpoints, ["--secure-serving=false", "--drain-timeout=1h"]);
    epp.process.child.kill("SIGTERM");
    await poll("NOT_SERVING", async () => (await health(epp.healthPort, "")).serving === NOT_SERVING);
    epp.process.child.kill("SIGTERM");
    expect(await epp.process.ended()).toEqual({ code: 1, signal: null });
  });
});

async function routed(client: ExtProcClient) {
  const stream = client.open();
  await route(stream);
  return stream;
}
