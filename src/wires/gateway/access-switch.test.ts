import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../../base/clock/real.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import { KeysEdit } from "../access/keys-edit.ts";
import { KeysSettings } from "../access/keys-settings.ts";
import { AccessSwitch, checkEntry } from "./access-switch.ts";

const at = { host: "0.0.0.0", port: 8443 };
const pair = { certificate: "a", key: "b" };
const none = KeysSettings.parse({});

describe("the entry of a gateway", () => {
  it.each([
    ["client certificates", [{ ...at, tls: { ...pair, clientCa: "c" } }], none],
    ["keys", [{ ...at, tls: pair }], KeysSettings.parse({ file: "k" })],
    ["tokens", [at], KeysSettings.parse({ jwt: [{ issuer: "i", audience: "a", jwks: "j" }] })],
    ["an open door", [at], KeysSettings.parse({ open: true })],
    ["loopback", [{ host: "127.0.0.1", port: 1 }], undefined],
  ])("may have %s", (_name, listeners, keys) => {
    expect(() => checkEntry(listeners, keys)).not.toThrow();
  });

  it.each([
    ["TLS without client certificates", [{ ...at, tls: pair }], none],
    ["one guarded address of two", [{ ...at, tls: { ...pair, clientCa: "c" } }, at], none],
    ["no settings", [at], undefined],
  ])("is refused with %s alone", (_name, listeners, keys) => {
    expect(() => checkEntry(listeners, keys)).toThrow("is open to other machines");
  });
});

describe("keys of background requests", () => {
  it("make the room for these, also when they come while the gateway runs", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-access-"));
    const file = join(folder, "keys.yaml");
    const put = (text: string): void => {
      writeFileSync(`${file}.new`, text, { mode: 0o600 });
      renameSync(`${file}.new`, file);
    };
    const baselines: number[] = [];
    const core = {
      ...{ clock: realClock, metrics: createMetrics(new MetricsRegistry()) },
      makeSpareRoom: (baseline: number) => baselines.push(baseline),
      keysChanged() {},
    } as unknown as InferenceCore;
    const door = new AccessSwitch(core, 0.3, silentLogger);
    try {
      const first = new KeysEdit("", file).add({ name: "a" }, 0);
      put(first.text);
      (await door.open(KeysSettings.parse({ file }))).use();
      expect(baselines).toEqual([]);
      put(new KeysEdit(first.text, file).add({ name: "b", background: true }, 0).text);
      await poll("the room", () => baselines.length > 0);
      expect(baselines).toEqual([0.3]);
    } finally {
      door.close();
      rmSync(folder, { recursive: true });
    }
  });
});
