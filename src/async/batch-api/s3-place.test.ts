import { describe, expect, it } from "vitest";
import { loadS3 } from "./s3-objects.ts";
import { isServer, s3Settings } from "./s3-place.ts";

describe("the place of a bucket", () => {
  it("is a bucket with a prefix, and has the region of AWS's tools", () => {
    expect(s3Settings("s3://files", undefined, {})).toEqual({
      ...{ bucket: "files", prefix: "", endpoint: undefined, region: undefined },
    });
    const env = { AWS_REGION: "eu-west-1", AWS_DEFAULT_REGION: "us-west-2" };
    expect(s3Settings("s3://my.files/a/b-1/", undefined, env)).toMatchObject({ prefix: "a/b-1/", region: "eu-west-1" });
    expect(s3Settings("s3://files/", "http://a", {})).toMatchObject({ prefix: "", region: "us-east-1" });
    expect(s3Settings("s3://files", "http://a", { AWS_DEFAULT_REGION: "x" })).toMatchObject({ region: "x" });
  });

  it.each(["files", "s3://", "s3://Files", "s3://a", "s3:///a", "s3://files//a", "s3://files/a b", "https://files"])(
    "is not %s",
    (text) => expect(s3Settings(text, undefined, {})).toBeUndefined(),
  );

  it("may have a server of its own", () => {
    expect(["http://127.0.0.1:9000", "https://s3.example"].map(isServer)).toEqual([true, true]);
    expect(["", "127.0.0.1:9000", "ftp://a", "http://u:p@a", "http://a?b"].map(isServer)).not.toContain(true);
  });
});

describe("the client of S3", () => {
  it("is named when it is not installed", async () => {
    const missing = loadS3(() => Promise.reject(new Error("Cannot find package '@aws-sdk/client-s3'")));
    await expect(missing).rejects.toMatchObject({
      code: "S3_CLIENT_MISSING",
      message: expect.stringContaining("npm install @aws-sdk/client-s3"),
    });
  });
});
