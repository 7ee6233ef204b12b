import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../base/clock/random.ts";
import { type Decoded, decodeBody } from "./answer-body.ts";

const LIMIT = 1024 * 1024;

function decode(body: Uint8Array, coding: string, limit = LIMIT): Promise<Decoded> {
  return new Promise((resolve) => decodeBody(body, coding, limit, resolve));
}

/** Bytes that hardly compress. */
function noise(length: number): Buffer {
  const random = new SeededRandom(length);
  return Buffer.from(Array.from({ length }, () => random.below(256)));
}

const brotli = (body: Uint8Array): Buffer =>
  brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });

describe("decoding an answer's body", () => {
  const compressors: [string, (body: Uint8Array) => Buffer][] = [
    ["gzip", gzipSync],
    ["x-gzip", gzipSync],
    ["deflate", deflateSync],
    ["deflate", deflateRawSync],
    ["br", brotli],
  ];

  it.each(compressors)("%s, on the spot and in a worker thread", async (coding, compress) => {
    for (const length of [1, 1000, 100_000]) {
      const body = noise(length);
      const decoded = await decode(compress(body), coding);
      expect(decoded.kind === "content" && body.equals(decoded.body)).toBe(true);
    }
  });

  it.each(compressors)("%s: nothing but an error of what is longer than allowed", async (coding, compress) => {
    for (const body of [Buffer.alloc(LIMIT + 1), noise(LIMIT + 1)])
      expect(await decode(compress(body), coding)).toEqual({
        kind: "broken",
        message: "the body is longer than 1048576 bytes",
        tooLong: true,
      });
    expect((await decode(compress(Buffer.alloc(LIMIT)), coding)).kind).toBe("content");
  });

  it("a bomb of 20 MiB of zeros in 20 KiB is caught in a worker thread", async () => {
    const bomb = gzipSync(Buffer.alloc(20 * 1024 * 1024));
    expect(bomb.length).toBeGreaterThan(16 * 1024);
    expect(await decode(bomb, "gzip")).toMatchObject({ kind: "broken", tooLong: true });
  });

  it.each(["gzip", "br", "deflate"])("%s that is none or breaks off", async (coding) => {
    const whole =
      coding === "gzip" ? gzipSync(noise(500)) : coding === "br" ? brotli(noise(500)) : deflateSync(noise(500));
    for (const body of [Buffer.from('{"plain":"json"}'), whole.subarray(0, 300)])
      expect(await decode(body, coding)).toMatchObject({
        kind: "broken",
        message: expect.stringContaining(`the body is not valid ${coding}: `),
        tooLong: false,
      });
  });

  it.each(["", "identity", "zstd", "gzip, gzip", "constructor"])("%j stays as it is", async (coding) => {
    const body = Buffer.from("text");
    expect(await decode(body, coding)).toEqual({ kind: "content", body });
  });

  it("an empty body is empty in every coding", async () => {
    for (const coding of ["gzip", "deflate", "br"])
      expect(await decode(Buffer.alloc(0), coding)).toEqual({ kind: "content", body: Buffer.alloc(0) });
  });
});
