import { describe, expect, it } from "vitest";
import { signedUrlExpiry } from "./gcs-uri-multipart.ts";

const BASE = "https://storage.googleapis.com/bucket/file.wav";

describe("signedUrlExpiry", () => {
  const cases: readonly (readonly [query: string, expiry: number | undefined])[] = [
    ["X-Goog-Date=20261121T100000Z&X-Goog-Expires=3600&X-Goog-Signature=ab", Date.UTC(2026, 10, 21, 11) / 1000],
    ["X-Goog-Date=20240229T235959Z&X-Goog-Expires=1", Date.UTC(2024, 2, 1) / 1000],
    ["GoogleAccessId=a&Expires=1790000000&Signature=b", 1790000000],
    ["Expires=1&X-Goog-Date=20261121T100000Z&X-Goog-Expires=0", Date.UTC(2026, 10, 21, 10) / 1000],
    ["X-Goog-Date=20230229T000000Z&X-Goog-Expires=60", undefined],
    ["X-Goog-Date=20261121T100000Z&X-Goog-Expires=soon", undefined],
    ["X-Goog-Date=20261121T100000Z", undefined],
    ["X-Goog-Date=2026-11-21T10:00:00.000Z&X-Goog-Expires=60", undefined],
    ["Expires=tomorrow", undefined],
    ["Expires=99999999999999999999", undefined],
    ["", undefined],
  ];
  it.each(cases)("%s (A-74)", (query, expiry) => {
    expect(signedUrlExpiry(`${BASE}?${query}`)).toBe(expiry);
  });

  it("knows nothing of what is no URL or has no query", () => {
    expect(signedUrlExpiry("gs://bucket/file.wav")).toBeUndefined();
    expect(signedUrlExpiry("not a url ?Expires=1")).toBeUndefined();
  });
});
