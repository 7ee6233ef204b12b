import { createPrivateKey, X509Certificate } from "node:crypto";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { loadX509 } from "../../../test/support/x509.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { selfSignedPair } from "./self-signed.ts";
import type { TlsPair } from "./tls.ts";

const NOW = Date.UTC(2026, 1, 3, 4, 5, 6);
const TEN_YEARS_MS = 3650 * 24 * 3600 * 1000;

let pair: TlsPair;

beforeAll(async () => {
  pair = await selfSignedPair(new VirtualClock(NOW));
});

describe("the self-signed certificate", () => {
  it("is valid for ten years from the clock's now and names the organisation", () => {
    const certificate = new X509Certificate(pair.cert);
    expect(certificate.subject).toBe("O=Inference Ext");
    expect(certificate.issuer).toBe("O=Inference Ext");
    expect(certificate.validFromDate.getTime()).toBe(NOW);
    expect(certificate.validToDate.getTime()).toBe(NOW + TEN_YEARS_MS);
    expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1"]);
    expect(certificate.ca).toBe(false);
    expect(certificate.publicKey.asymmetricKeyDetails).toMatchObject({ namedCurve: "prime256v1" });
    expect(certificate.verify(certificate.publicKey)).toBe(true);
    expect(certificate.checkPrivateKey(createPrivateKey(pair.key))).toBe(true);
  });

  it("has the encoding that a library gives to the same certificate", async () => {
    const x509 = await loadX509();
    const ours = new x509.X509Certificate(pair.cert);
    const { usages } = ours.getExtension<InstanceType<typeof x509.KeyUsagesExtension>>("2.5.29.15")!;
    expect(usages).toBe(x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment);
    expect(await ours.verify()).toBe(true);
    const extensions = [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
    ];
    const bytes = (each: { readonly rawData: ArrayBuffer }): string => Buffer.from(each.rawData).toString("hex");
    expect(ours.extensions.map(bytes)).toEqual(extensions.map(bytes));
    expect(ours.toString("pem").trim()).toBe(pair.cert.trim());
  });

  it("writes every time so that it is read again, also years from 2050 on", async () => {
    const seconds = fc.integer({ min: Date.UTC(2000, 0) / 1000, max: Date.UTC(2099, 0) / 1000 });
    await fc.assert(
      fc.asyncProperty(seconds, async (second) => {
        const certificate = new X509Certificate((await selfSignedPair(new VirtualClock(second * 1000))).cert);
        expect(certificate.validFromDate.getTime()).toBe(second * 1000);
        expect(certificate.validToDate.getTime()).toBe(second * 1000 + TEN_YEARS_MS);
        expect(certificate.serialNumber).toMatch(/^[4-7][0-9A-F]{31}$/);
      }),
      { numRuns: 50 },
    );
  });

  it("has another key and serial number each time", async () => {
    const other = await selfSignedPair(new VirtualClock(NOW));
    expect(new X509Certificate(other.cert).serialNumber).not.toBe(new X509Certificate(pair.cert).serialNumber);
    expect(other.key).not.toBe(pair.key);
  });
});
