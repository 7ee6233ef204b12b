import * as grpc from "@grpc/grpc-js";
import { describe, expect, it } from "vitest";
import { createHttp2Server } from "../../../test/support/grpc/node-http2.ts";
import { GrpcClient } from "../../../test/support/grpc-client.ts";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../clock/real.ts";
import {
  EXT_PROC_SERVICE,
  type HealthSource,
  healthHandlers,
  type ProbeState,
  ProcessorHealth,
  probeHealth,
  probeStatus,
  SERVING_STATUS,
  type ServingStatus,
} from "./health.ts";
import { GRPC_STATUS } from "./status.ts";

const CHECK = "/grpc.health.v1.Health/Check";
const LIST = "/grpc.health.v1.Health/List";
const WATCH = "/grpc.health.v1.Health/Watch";

const SERVING = Buffer.of(8, 1);
const NOT_SERVING = Buffer.of(8, 2);
const SERVICE_UNKNOWN = Buffer.of(8, 3);

/** HealthCheckRequest. */
function named(service: string): Buffer {
  const name = Buffer.from(service);
  return name.length === 0 ? name : Buffer.concat([Buffer.of(0x0a, name.length), name]);
}

async function withHealth(source: HealthSource, body: (client: GrpcClient, port: number) => Promise<void>) {
  const server = createHttp2Server({ host: "127.0.0.1", port: 0, handlers: healthHandlers(source) }, realClock);
  const { port } = await server.listen();
  const client = await GrpcClient.connect(port);
  try {
    await body(client, port);
  } finally {
    client.close();
    server.close();
  }
}

const NAMES = ["liveness", "readiness", "", EXT_PROC_SERVICE, "inference-extension", "anything"];
const [S, N, U] = [SERVING_STATUS.serving, SERVING_STATUS.notServing, SERVING_STATUS.serviceUnknown];

describe("the table of probes (E-123, S-98)", () => {
  it.each<[string, Partial<ProbeState>, ServingStatus[]]>([
    ["no election, all well", {}, [S, S, S, S, S, S]],
    ["no election, no pool", { synced: false }, [S, N, N, N, N, N]],
    ["no election, draining", { draining: true }, [S, N, N, N, N, N]],
    ["no election, a plugin not ready", { pluginsReady: false }, [S, N, N, N, S, S]],
    ["no election, a plugin not ready, no pool", { pluginsReady: false, synced: false }, [S, N, N, N, N, N]],
    ["the leader, all well", { leader: true }, [S, S, S, S, U, U]],
    ["the leader, no pool", { synced: false, leader: true }, [S, N, N, N, U, U]],
    ["the leader, draining", { draining: true, leader: true }, [S, N, N, N, U, U]],
    ["the leader, a plugin not ready", { pluginsReady: false, leader: true }, [S, N, N, N, U, U]],
    ["a follower, all well", { leader: false }, [S, N, N, N, U, U]],
    ["a follower, no pool", { synced: false, leader: false }, [S, N, N, N, U, U]],
    ["a follower, draining", { draining: true, leader: false }, [S, N, N, N, U, U]],
    ["a follower, a plugin not ready", { pluginsReady: false, leader: false }, [S, N, N, N, U, U]],
  ])("%s", (_, given, statuses) => {
    const state = { synced: true, draining: false, pluginsReady: true, ...given };
    expect(NAMES.map((service) => probeStatus(service, state))).toEqual(statuses);
  });
});

describe("health for probes (port 9003)", () => {
  it("follows the state, and answers an unknown name with a status and not with an error (E-123)", async () => {
    const well: ProbeState = { synced: true, draining: false, pluginsReady: true };
    let state: ProbeState = { ...well, synced: false };
    await withHealth(
      probeHealth(() => state),
      async (client) => {
        expect((await client.unary(CHECK, named("readiness"))).reply).toEqual(NOT_SERVING);
        state = well;
        expect((await client.unary(CHECK, named("readiness"))).reply).toEqual(SERVING);
        state = { ...well, leader: true };
        const unknown = await client.unary(CHECK, named("inference-extension"));
        expect(unknown).toMatchObject({ reply: SERVICE_UNKNOWN, end: { status: 0 } });
      },
    );
  });

  it.each([
    ["without election", undefined, [EXT_PROC_SERVICE]],
    ["with election", true, [EXT_PROC_SERVICE, "liveness", "readiness"]],
  ])("lists what there is %s, and offers no Watch (E-124)", async (_, leader, names) => {
    await withHealth(
      probeHealth(() => ({ synced: true, draining: false, pluginsReady: true, leader })),
      async (client) => {
        const { reply } = await client.unary(LIST, Buffer.alloc(0));
        const entries = names.map((name) => Buffer.concat([named(name), Buffer.of(0x12, 2), SERVING]));
        expect(reply).toEqual(Buffer.concat(entries.flatMap((entry) => [Buffer.of(0x0a, entry.length), entry])));
        expect((await client.unary(WATCH, named(""))).end.status).toBe(GRPC_STATUS.unimplemented);
      },
    );
  });
});

describe("health beside ext_proc (port 9002)", () => {
  it("is SERVING from the start for the empty name and the service, NOT_FOUND for others", async () => {
    await withHealth(new ProcessorHealth(), async (client) => {
      expect((await client.unary(CHECK, named(""))).reply).toEqual(SERVING);
      expect((await client.unary(CHECK, named(EXT_PROC_SERVICE))).reply).toEqual(SERVING);
      for (const service of ["liveness", "readiness", "x"]) {
        expect((await client.unary(CHECK, named(service))).end.status, service).toBe(GRPC_STATUS.notFound);
      }
    });
  });

  it("tells watchers every change, once, until they leave (D-29)", async () => {
    let serving = true;
    let watchers = 0;
    const listeners = new Set<() => void>();
    const changing: HealthSource = {
      status: (service) => (service === "x" ? undefined : serving ? SERVING_STATUS.serving : SERVING_STATUS.notServing),
      list: () => [],
      onChange(listener) {
        watchers++;
        listeners.add(listener);
        return () => {
          watchers--;
          listeners.delete(listener);
        };
      },
    };
    const say = (value: boolean): void => {
      serving = value;
      for (const listener of listeners) listener();
    };
    await withHealth(changing, async (client) => {
      const known = client.open(WATCH);
      known.send(named(EXT_PROC_SERVICE));
      const unknown = client.open(WATCH);
      unknown.send(named("x"));
      expect(await known.next()).toEqual(SERVING);
      expect(await unknown.next()).toEqual(SERVICE_UNKNOWN);
      say(false);
      say(false);
      expect(await known.next()).toEqual(NOT_SERVING);
      say(true);
      expect(await known.next()).toEqual(SERVING);
      expect(watchers).toBe(2);
      known.reset(8);
      unknown.reset(0);
      await poll("the watchers to be gone", () => watchers === 0);
      say(false);
      expect((await client.unary(CHECK, named(""))).reply).toEqual(NOT_SERVING);
    });
  });

  it("is NOT_SERVING once the drain begins, and lets go of whoever watches: an open Watch would hold up the end", async () => {
    const health = new ProcessorHealth();
    await withHealth(health, async (client) => {
      const known = client.open(WATCH);
      known.send(named(""));
      const unknown = client.open(WATCH);
      unknown.send(named("x"));
      expect([await known.next(), await unknown.next()]).toEqual([SERVING, SERVICE_UNKNOWN]);
      health.drain();
      health.drain();
      expect(await known.next()).toEqual(NOT_SERVING);
      expect([await known.next(), await unknown.next()]).toEqual([undefined, undefined]);
      for (const call of [known, unknown]) expect((await call.end).status).toBe(GRPC_STATUS.unavailable);
      // Who asks later is told the same, and is let go as well.
      const late = client.open(WATCH);
      late.send(named(""));
      expect(await late.next()).toEqual(NOT_SERVING);
      expect((await late.end).status).toBe(GRPC_STATUS.unavailable);
      expect((await client.unary(CHECK, named(EXT_PROC_SERVICE))).reply).toEqual(NOT_SERVING);
    });
  });

  it("answers a malformed and a missing request with INTERNAL", async () => {
    await withHealth(new ProcessorHealth(), async (client) => {
      expect((await client.unary(CHECK, Buffer.of(0x0a, 50))).end).toMatchObject({ status: GRPC_STATUS.internal });
      const call = client.open(CHECK);
      call.halfClose();
      expect(await call.end).toMatchObject({ status: GRPC_STATUS.internal });
    });
  });

  it("is understood by the common gRPC client", async () => {
    await withHealth(new ProcessorHealth(), async (_client, port) => {
      const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
      const check = (service: string): Promise<Buffer> =>
        new Promise((resolve, reject) => {
          client.makeUnaryRequest(
            CHECK,
            named,
            (bytes: Buffer) => bytes,
            service,
            (error: grpc.ServiceError | null, reply: Buffer | undefined) => (error ? reject(error) : resolve(reply!)),
          );
        });
      try {
        expect(await check(EXT_PROC_SERVICE)).toEqual(SERVING);
        await expect(check("x")).rejects.toMatchObject({ code: grpc.status.NOT_FOUND, details: "unknown service" });
      } finally {
        client.close();
      }
    });
  });
});
