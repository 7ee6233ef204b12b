import { describe, expect, it } from "vitest";
import { KNOWN_SERVERS, OPTIONS, POOL } from "../../../test/support/envoy/pool.cases.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { GROUP, type InferencePool, type PickerReference } from "../../pool/resources/objects.ts";
import type { BootstrapOptions } from "./options.ts";
import { planBootstrap } from "./plan.ts";

function poolWith(picker: Partial<PickerReference>, group: string = GROUP.stable): InferencePool {
  return { ...POOL, group, picker: { ...POOL.picker!, ...picker } };
}

function refusal(options: BootstrapOptions): string {
  try {
    planBootstrap(options);
  } catch (error) {
    if (error instanceof SluiceError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return "accepted";
}

describe("where the picker is", () => {
  it("dials the Service that the pool names, in the pool's namespace", () => {
    expect(planBootstrap(OPTIONS).picker).toEqual({ host: "llm-epp.prod.svc", port: 9002 });
    const elsewhere = poolWith({ port: 19002 });
    expect(planBootstrap({ ...OPTIONS, pool: elsewhere }).picker.port).toBe(19002);
  });

  it("assumes 9002 for a Service of v1alpha2, and nothing in v1 (api-resources 1.3, 1.5)", () => {
    const old = poolWith({ port: undefined }, GROUP.experimental);
    expect(planBootstrap({ ...OPTIONS, pool: old }).picker.port).toBe(9002);
    expect(refusal({ ...OPTIONS, pool: poolWith({ port: undefined }) })).toBe(
      "ENVOY_PICKER: InferencePool prod/llm: endpointPickerRef has no port: set endpointPickerRef.port.number, or give --picker host:port",
    );
  });

  it("refuses what cannot be dialled, unless it is told where to dial", () => {
    const foreign = poolWith({ kind: "Gadget", group: "example.com" });
    const nobody = { ...POOL, picker: undefined };
    expect(refusal({ ...OPTIONS, pool: foreign })).toMatch(/^ENVOY_PICKER: .*names a Gadget of group "example.com"/);
    expect(refusal({ ...OPTIONS, pool: nobody })).toMatch(/^ENVOY_PICKER: .*it has no endpointPickerRef/);
    const picker = { host: "127.0.0.1", port: 9002 };
    for (const pool of [foreign, nobody]) expect(planBootstrap({ ...OPTIONS, pool, picker }).picker).toEqual(picker);
  });

  it("speaks clear text unless the variant or an option says TLS", () => {
    expect(planBootstrap(OPTIONS).tls).toBeUndefined();
    expect(planBootstrap({ ...OPTIONS, variant: "tls" }).tls).toEqual({ pins: [], ca: undefined });
    const tls = { pins: [], ca: "/certs/ca.pem" };
    expect(planBootstrap({ ...KNOWN_SERVERS, tls }).tls).toEqual(tls);
  });
});

describe("what becomes of failureMode (V-6)", () => {
  const open = poolWith({ failureMode: "FailOpen" });

  it("fails closed unless the pool or an option asks for more", () => {
    expect(planBootstrap(KNOWN_SERVERS).failOpen).toBe(false);
    expect(planBootstrap({ ...KNOWN_SERVERS, pool: open }).failOpen).toBe(true);
    expect(planBootstrap({ ...KNOWN_SERVERS, pool: open, failureMode: "FailClose" }).failOpen).toBe(false);
    expect(planBootstrap({ ...KNOWN_SERVERS, failureMode: "FailOpen" }).failOpen).toBe(true);
    expect(
      planBootstrap({ ...KNOWN_SERVERS, pool: { ...POOL, picker: undefined }, picker: OPTIONS.listen }).failOpen,
    ).toBe(false);
  });

  it("keeps bodies in Envoy where fail-open needs them, and nowhere else", () => {
    expect(planBootstrap({ ...KNOWN_SERVERS, pool: open }).requestBodyMode).toBe("buffered");
    expect(planBootstrap(KNOWN_SERVERS).requestBodyMode).toBe("full-duplex");
    expect(planBootstrap({ ...OPTIONS, pool: open }).requestBodyMode).toBe("full-duplex");
  });

  it("says what it cannot keep: no fail-open without known servers, little of it with duplex bodies", () => {
    expect(planBootstrap({ ...KNOWN_SERVERS, pool: open }).warnings).toEqual([]);
    for (const variant of ["standalone", "tls"] as const) {
      const plan = planBootstrap({ ...OPTIONS, variant, pool: open });
      expect(plan.failOpen).toBe(false);
      expect(plan.warnings).toEqual([
        `pool llm asks for FailOpen, but the variant ${variant} fails closed: without a picker, Envoy knows no server; use override-host`,
      ]);
    }
    const duplex = planBootstrap({ ...KNOWN_SERVERS, pool: open, requestBodyMode: "full-duplex" });
    expect(duplex.warnings.join()).toMatch(/fails open only after the health check reports the picker as down/);
  });
});

describe("how the served endpoint is reported (V-1, V-5)", () => {
  it("uses selected_host_key from 1.38 on, and an attribute before", () => {
    const reports = (["1.36", "1.37", "1.38", "1.40"] as const).map(
      (envoyVersion) => planBootstrap({ ...KNOWN_SERVERS, envoyVersion }).servedReport,
    );
    expect(reports).toEqual(["attribute", "attribute", "selected-host", "selected-host"]);
    expect(planBootstrap(OPTIONS).servedReport).toBe("attribute");
    expect(planBootstrap({ ...OPTIONS, variant: "subset-hint", subsetHeader: "x" }).servedReport).toBe("header");
  });
});

describe("options that contradict each other", () => {
  it.each<readonly [Partial<BootstrapOptions>, RegExp]>([
    [{ variant: "override-host" }, /^ENVOY_ENDPOINTS: .*give --endpoints FILE/],
    [
      { variant: "override-host", endpoints: [{ host: "vllm-0", port: 8000 }] },
      /^ENVOY_ENDPOINTS: the endpoint vllm-0:8000 is a host name/,
    ],
    [{ endpoints: [{ host: "10.0.0.1", port: 1 }] }, /^FLAG_VALUE: --endpoints is for the variant override-host/],
    [{ subset: ["10.0.0.1:1"] }, /^FLAG_VALUE: --subset is for the variant subset-hint, not for standalone/],
    [{ variant: "subset-hint" }, /^FLAG_VALUE: .*needs --subset, --subset-header or both/],
    [{ variant: "subset-hint", subset: ["10.0.0.1:0"] }, /^FLAG_VALUE: --subset holds "10.0.0.1:0"/],
    [{ variant: "subset-hint", subset: ["vllm:80"] }, /^FLAG_VALUE: --subset holds "vllm:80"/],
    [{ variant: "subset-hint", subset: ["[10.0.0.1]:80"] }, /^FLAG_VALUE: --subset holds/],
    [{ variant: "subset-hint", subsetHeader: 'x") os.exit(' }, /^FLAG_VALUE: --subset-header/],
    [{ variant: "tls", tls: { pins: ["abc"], ca: undefined } }, /^FLAG_VALUE: --pin "abc" is not the base64 SHA-256/],
  ])("refuses %j", (change, message) => {
    expect(refusal({ ...OPTIONS, ...change })).toMatch(message);
  });

  it("takes every form of a hint that the picker understands (epp-protocol 6.3)", () => {
    const subset = ["10.0.0.1:8000", "10.0.0.2", "[fd00::1]:8000", "[fd00::1]", "fd00::2"];
    expect(planBootstrap({ ...OPTIONS, variant: "subset-hint", subset }).subset).toEqual(subset);
  });
});
