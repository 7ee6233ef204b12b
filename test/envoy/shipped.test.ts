import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { BootstrapOptions, Variant } from "../../src/wires/envoy/options.ts";
import { POOL } from "../support/envoy/pool.cases.ts";
import { bootstrap, validate } from "../support/envoy.ts";
import { ROOT, sluice } from "../support/process.ts";

const FOLDER = join(ROOT, "deploy", "envoy");
const SHIPPED = readdirSync(FOLDER)
  .filter((name) => name.endsWith(".yaml"))
  .map((name) => [name, readFileSync(join(FOLDER, name), "utf8")] as const);

describe("the configurations in deploy/envoy", () => {
  it.each(SHIPPED)(
    "%s is what the command in its heading prints, and dials a picker on this machine",
    async (_, text) => {
      const process = sluice(.../^# +sluice (envoy-config .*)$/m.exec(text)![1]!.split(" "));
      expect(await process.ended()).toEqual({ code: 0, signal: null });
      expect(process.stdout).toBe(text);
      expect(text).toContain("Envoy connects to the picker at 127.0.0.1:9002 ");
    },
  );

  it.each(SHIPPED)("%s is accepted by Envoy 1.40 (D-31, V-1)", (_, text) => {
    expect(validate(text)).toBe("");
  });
});

describe("what sluice envoy-config makes of a pool's wishes", () => {
  const pin = `${"A".repeat(43)}=`;
  const wishes: readonly (readonly [string, Variant, Partial<BootstrapOptions>])[] = [
    ["HTTP/2 to the servers of any address", "standalone", { pool: { ...POOL, appProtocol: "kubernetes.io/h2c" } }],
    ["HTTP/2 to known servers", "override-host", { pool: { ...POOL, appProtocol: "kubernetes.io/h2c" } }],
    ["bodies kept by Envoy", "standalone", { requestBodyMode: "buffered" }],
    ["fail-open with duplex bodies", "override-host", { requestBodyMode: "full-duplex" }],
    ["fail-closed with known servers", "override-host", { failureMode: "FailClose" }],
    ["a constant subset beside the header", "subset-hint", { subset: ["10.0.0.1:8000", "[fd00::1]:8000"] }],
    ["a constant subset alone", "subset-hint", { subset: ["10.0.0.1:8000"], subsetHeader: "" }],
    ["a pinned key", "tls", { tls: { pins: [pin], ca: undefined } }],
    ["the picker's Service and no certificate check", "tls", { picker: undefined }],
    ["IPv6 everywhere", "standalone", { listen: { host: "::1", port: 8081 }, picker: { host: "::1", port: 9002 } }],
  ];

  it.each(wishes)("is accepted by Envoy 1.40: %s", (_, variant, wish) => {
    const options = { variant, eppPort: 9002, serverPorts: [8000, 8001], bootstrap: wish };
    expect(validate(bootstrap(options, 8081, 19000))).toBe("");
  });
});
