import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { type BatchHome, folderHome } from "../batch-api/batch-home.ts";
import type { Authenticate } from "../proxy/options.ts";
import { batchSettings } from "./batch-settings.ts";
import { GatewayBatches } from "./gateway-batches.ts";

let folder: string;
let batches: GatewayBatches;

function open(home: BatchHome = folderHome(folder)): GatewayBatches {
  return new GatewayBatches({
    ...{ home, settings: batchSettings.parse({}), logging: { level: "error", encoder: undefined } },
    ...{ allowance: () => ({ requests: 0, size: 1 }), clock: new VirtualClock(), log: silentLogger },
  });
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-gateway-batches-"));
  batches = open();
});
afterEach(async () => {
  await batches.close();
  rmSync(folder, { recursive: true });
});

const KNOWN: Caller = {
  ...{ id: "1", name: "alice", models: undefined, objective: undefined, priority: undefined },
  ...{ fairnessId: undefined, choosesFlow: false },
};
const inner: Authenticate = () => KNOWN;

function ask(authenticate: Authenticate, scheme: string, authorization = "Bearer guess") {
  const headers = HeaderList.of([
    [":scheme", scheme],
    ["authorization", authorization],
    ["x-sluice-batch", "batch_1"],
  ]);
  return authenticate({ method: "POST", path: "/v1/chat/completions", headers });
}

describe("who may use the port of the batches", () => {
  it("is nobody but the gateway, where all clients must come by TLS", () => {
    const guarded = batches.authenticate(undefined, true);
    expect(ask(guarded, "http")).toMatchObject({ reason: "key_missing" });
    expect(ask(guarded, "http", "")).toMatchObject({ reason: "key_missing" });
    expect(ask(guarded, "https")).toBeUndefined();
    expect(ask(batches.authenticate(inner, true), "https")).toBe(KNOWN);
    expect(ask(batches.authenticate(inner, true), "http")).toMatchObject({ reason: "key_missing" });
  });

  it("is who may use the other ports, where one of them is plain", () => {
    expect(ask(batches.authenticate(inner, false), "http")).toBe(KNOWN);
    expect(ask(batches.authenticate(undefined, false), "http")).toBeUndefined();
  });

  it("keeps the folder to itself until it is closed", async () => {
    expect(() => folderHome(folder)).toThrow(expect.objectContaining({ code: "BATCH_SERVED" }));
    await batches.close();
    batches = open();
  });

  it("leaves uploads to the thread of the batches while there is one", async () => {
    await batches.close();
    const uploads: unknown[] = [];
    batches = open({ ...folderHome(folder), uploadBy: (upload) => uploads.push(typeof upload) });
    await batches.start("http://127.0.0.1:1");
    expect(uploads).toEqual(["function"]);
    await batches.drain();
    expect(uploads).toEqual(["function", "undefined"]);
  });

  it("answers files and batches alone", async () => {
    expect([batches.claims("/v1/batches"), batches.claims("/v1/models")]).toEqual([true, false]);
    const response = await batches.answer(new Request("http://gateway/v1/batches"), KNOWN);
    expect(await response.json()).toMatchObject({ object: "list", data: [] });
    expect(await batches.shown.feed()).toMatchObject({ open: 0, gate: { state: "unknown" } });
  });
});
