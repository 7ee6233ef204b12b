import { createSecureContext, getCiphers } from "node:tls";
import { describe, expect, it } from "vitest";
import type { SluiceError } from "../../base/inference/errors.ts";
import { parseGoFlags } from "../common/go-flags.ts";
import { TLS_FLAGS, tlsOf } from "./tls-flags.ts";

const tls = (...args: string[]) => tlsOf(parseGoFlags(args, TLS_FLAGS, {}));
const DEFAULT = {
  secureServing: true,
  certPath: undefined,
  certReload: false,
  minVersion: "TLSv1.2",
  ciphers: undefined,
  extProcClientCaFile: undefined,
  scalerCertDir: undefined,
  metricsCertDir: undefined,
  clientCaFile: undefined,
};
const MODERN = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

describe("the flags of TLS (E-120)", () => {
  it.each([
    [[], {}],
    [["-secureServing=false"], { secureServing: false }],
    [["-certPath", "/c", "--enable-cert-reload"], { certPath: "/c", certReload: true }],
    [["--tls-min-version=VersionTLS13"], { minVersion: "TLSv1.3" }],
    [["--tls-min-version", "VersionTLS12"], {}],
    [["--tls-min-version=VersionTLS10"], {}],
    [
      ["--tls-cipher-suites", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"],
      { ciphers: `ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305:${MODERN}` },
    ],
    [["--tls-cipher-suites=TLS_AES_128_GCM_SHA256"], { ciphers: MODERN }],
    [["--metrics-cert-dir=/m"], { metricsCertDir: "/m" }],
    [
      ["--scaler-cert-dir=/s", "--secure-serving=false", "--tls-min-version=VersionTLS13"],
      { secureServing: false, minVersion: "TLSv1.3", scalerCertDir: "/s" },
    ],
    [["--client-ca=/proxies.pem"], { extProcClientCaFile: "/proxies.pem" }],
    [
      ["--metrics-cert-dir=/m", "--metrics-client-ca-file", "/ca.pem"],
      { metricsCertDir: "/m", clientCaFile: "/ca.pem" },
    ],
  ])("%j", (args, changed) => {
    expect(tls(...args)).toEqual({ tls: { ...DEFAULT, ...changed }, warnings: [] });
  });

  it("know OpenSSL's name of every suite that Go offers and this runtime has", () => {
    const strong = [
      "AES_128_GCM_SHA256",
      "AES_256_GCM_SHA384",
      "CHACHA20_POLY1305_SHA256",
      "AES_128_CBC_SHA",
      "AES_256_CBC_SHA",
    ];
    const names = ["RSA", "ECDSA"].flatMap((key) => strong.map((rest) => `TLS_ECDHE_${key}_WITH_${rest}`));
    const { ciphers } = tls(`--tls-cipher-suites=${names.join(",")}`).tls;
    const suites = ciphers!.split(":");
    expect(suites).toHaveLength(names.length + 3);
    for (const suite of suites) expect(getCiphers()).toContain(suite.toLowerCase());
    expect(() => createSecureContext({ ciphers: ciphers! })).not.toThrow();
  });

  it.each([
    [["--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"], "FLAG_VALUE", /"TLS_RSA_WITH_RC4_128_SHA" is not available/],
    [
      ["--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265"],
      "FLAG_VALUE",
      /is not a cipher suite of Go; did you mean `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`/,
    ],
    [["--tls-cipher-suites=constructor"], "FLAG_VALUE", /"constructor" is not a cipher suite/],
    [
      ["--tls-min-version=TLS13"],
      "FLAG_VALUE",
      /the flag takes one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13/,
    ],
    [["--metrics-client-ca-file=/ca"], "FLAG_CONFLICT", /requires --metrics-cert-dir/],
    [
      ["--client-ca=/ca", "--secure-serving=false"],
      "FLAG_CONFLICT",
      /--client-ca cannot be used with --secure-serving/,
    ],
  ])("refuse %j", (args, code, message) => {
    let refused: unknown;
    try {
      tls(...args);
    } catch (error) {
      refused = error;
    }
    expect((refused as SluiceError).code).toBe(code);
    expect((refused as SluiceError).message).toMatch(message);
  });

  it.each([
    [["--cert-path=/c", "--secure-serving=false"], ["--cert-path has no effect with --secure-serving=false"]],
    [["--enable-cert-reload"], ["--enable-cert-reload has no effect without --cert-path and TLS on the ext_proc port"]],
    [
      ["--secure-serving=false", "--tls-min-version=VersionTLS13"],
      ["--tls-min-version has no effect: no port speaks TLS"],
    ],
    [["--secure-serving=false", "--tls-min-version=VersionTLS13", "--metrics-cert-dir=/m"], []],
  ])("say of %j what has no effect", (args, warnings) => {
    expect(tls(...args).warnings).toEqual(warnings);
  });
});
