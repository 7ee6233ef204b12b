import { describe, expect, it } from "vitest";
import type { Logger } from "../../base/telemetry/logger.ts";
import { Readiness } from "./readiness.ts";

const READY = {
  ...{ started: true, draining: false, synced: true, leader: undefined as boolean | undefined },
  ...{ plugin: undefined as string | undefined, protocol: undefined as string | undefined },
  peers: undefined as { unready(): string | undefined } | undefined,
};

function readinessOf(facts: Partial<typeof READY>, log: Partial<Logger> = {}): Readiness {
  const { started, draining, synced, leader, plugin, protocol, peers } = { ...READY, ...facts };
  const core = { unready: plugin, parserAgainst: (name: string) => (name === "http" ? "grpc-parser" : undefined) };
  const pool = { synced: () => synced, leader: () => leader, appProtocol: () => protocol };
  const logger = { info() {}, error() {}, ...log } as Logger;
  return new Readiness(core as never, pool as never, { started, draining }, logger, peers);
}

const caughtUp = (because: string | undefined) => ({ unready: () => because });

describe("readiness", () => {
  it.each([
    [{}, undefined],
    [{ leader: true }, undefined],
    [{ protocol: "kubernetes.io/h2c" }, undefined],
    [{ draining: true, plugin: "a producer has no index" }, "the process is about to end"],
    [{ synced: false }, "no InferencePool is known"],
    [{ started: false }, "no InferencePool is known"],
    [{ protocol: "http" }, "the parser grpc-parser cannot be used with the pool's appProtocol http"],
    [{ plugin: "a producer has no index", leader: false }, "a producer has no index"],
    [{ leader: false }, "another replica leads"],
    [{ leader: false, peers: caughtUp(undefined) }, undefined],
    [{ peers: caughtUp("the replica is still reading") }, "the replica is still reading"],
  ])("of %j: %s", (facts, because) => {
    expect(readinessOf(facts).unready()).toBe(because);
  });

  it("logs a reason once", () => {
    const lines: string[] = [];
    const readiness = readinessOf({ protocol: "http" }, { error: (_: object, text: string) => lines.push(text) });
    readiness.state();
    readiness.unready();
    expect(lines).toEqual(["not ready: the parser grpc-parser cannot be used with the pool's appProtocol http"]);
  });
});
