import { describe, expect, it } from "vitest";
import { checkPlace, type GivenPlace, isRedisUrl } from "./place-check.ts";

const SHARED = { redis: "redis://store:6379", files: "s3://bucket", spool: "/spool" };

describe("the place of batches", () => {
  it.each<GivenPlace>([
    {},
    { folder: "./batches" },
    { folder: "./batches", files: "s3://bucket/prefix" },
    { folder: "./batches", files: "s3://bucket", s3Endpoint: "http://s3" },
    SHARED,
    { ...SHARED, files: "/shared/files", name: "pool-a" },
    { ...SHARED, redis: "rediss://user:secret@store:6379/2?master_name=m&addr=b:26379", ca: "ca.pem" },
  ])("may be %j", (given) => expect(() => checkPlace(given)).not.toThrow());

  it.each<[GivenPlace, string, RegExp]>([
    [{ ...SHARED, folder: "./batches" }, "FLAG_CONFLICT", /one of them/],
    [{ ...SHARED, files: undefined }, "FLAG_MISSING", /--batch-files/],
    [{ ...SHARED, spool: undefined }, "FLAG_MISSING", /--batch-spool/],
    [{ ...SHARED, files: "gs://bucket" }, "FLAG_VALUE", /batch-files/],
    [{ ...SHARED, name: "a{b}" }, "FLAG_VALUE", /--batch-name/],
    [{ ...SHARED, ca: "ca.pem" }, "FLAG_CONFLICT", /rediss/],
    [{ ...SHARED, redis: "rediss://store", certificate: "c.pem" }, "FLAG_CONFLICT", /give both .* and .*, or neither/],
    [{ ...SHARED, redis: "redis://store/x" }, "REDIS_URL_INVALID", /database/],
    [{ ...SHARED, redis: "redis://store?pool_size=4" }, "REDIS_URL_INVALID", /pool_size/],
    [{ folder: "./batches", name: "a" }, "FLAG_CONFLICT", /--batch-name/],
    [{ folder: "./batches", spool: "/spool" }, "FLAG_CONFLICT", /--batch-spool/],
    [{ folder: "./batches", key: "k" }, "FLAG_CONFLICT", /--batch-key/],
    [{ folder: "./batches", files: "/shared" }, "FLAG_VALUE", /s3:/],
    [{ folder: "./batches", s3Endpoint: "http://s3" }, "FLAG_CONFLICT", /--batch-s3-endpoint/],
    [{ ...SHARED, files: "/shared", s3Endpoint: "http://s3" }, "FLAG_CONFLICT", /--batch-s3-endpoint/],
  ])("is refused as %j", (given, code, message) =>
    expect(() => checkPlace(given)).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) })),
  );

  it("is a store or a folder", () => {
    expect(["redis://a", "REDISS://a"].map(isRedisUrl)).toEqual([true, true]);
    expect(["redis", "./redis://a", "http://a"].map(isRedisUrl)).toEqual([false, false, false]);
  });
});
