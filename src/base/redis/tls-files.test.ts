import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { realClock } from "../clock/real.ts";
import { selfSignedPair } from "../grpc/self-signed.ts";
import { checkTlsFiles, givenTlsFile, type RedisTlsFiles, redisConnection } from "./tls-files.ts";

describe("the files of certificates for a Redis", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "sluice-redis-tls-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };

  it("are read, and the error says which one cannot be used", async () => {
    const { cert, key } = await selfSignedPair(realClock);
    const files = { ca: file("ca.pem", cert), certificate: file("cert.pem", cert), key: file("key.pem", key) };
    expect(redisConnection("rediss://store", files)).toEqual({
      url: "rediss://store",
      tls: { ca: cert, cert, key },
      enableTracing: false,
    });
    expect(redisConnection("rediss://store", {}).tls).toEqual({});
    expect(() => redisConnection("rediss://store", { ...files, ca: join(folder, "none.pem") })).toThrow(
      expect.objectContaining({ code: "TLS_FILE_UNREADABLE" }),
    );
    const other = await selfSignedPair(realClock);
    expect(() => redisConnection("rediss://store", { ...files, key: file("other.pem", other.key) })).toThrow(
      expect.objectContaining({ code: "TLS_PAIR_MISMATCH" }),
    );
  });

  it.each<[string, RedisTlsFiles, boolean, RegExp]>([
    ["an authority without TLS", { ca: "x" }, false, /^peers\.ca \(--peers-ca\) is for TLS only: .*rediss/],
    ["a certificate without a key", { certificate: "x" }, true, /give both .*--peers-cert.*--peers-key.* or neither/],
    ["a key without a certificate", { key: "x" }, true, /give both .*--peers-cert.*--peers-key.* or neither/],
  ])("are refused: %s", (_, files, isTls, message) => {
    expect(() => checkTlsFiles("peers", files, isTls)).toThrow(
      expect.objectContaining({ code: "FLAG_CONFLICT", message: expect.stringMatching(message) }),
    );
  });

  it("are named by key and flag", () => {
    expect(givenTlsFile("limits", {})).toBeUndefined();
    expect(givenTlsFile("limits", { certificate: "x", key: "y" })).toBe("limits.certificate (--limits-cert)");
    expect(() => checkTlsFiles("limits", {}, false)).not.toThrow();
    expect(() => checkTlsFiles("limits", { ca: "x", certificate: "y", key: "z" }, true)).not.toThrow();
  });
});
