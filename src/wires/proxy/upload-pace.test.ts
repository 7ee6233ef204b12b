import { expect, it } from "vitest";
import { UploadPace } from "./upload-pace.ts";

it("waits for the next byte, and no longer than the rate allows", () => {
  const pace = new UploadPace(60, 1000, 0);
  expect(pace.due(0, 0)).toBe(60);
  expect(pace.due(100, 5)).toBe(125);
  expect(pace.due(100, 500)).toBe(160);
});

it("does not count the time for which the proxy held the upload", () => {
  const pace = new UploadPace(60, 1000, 0);
  pace.hold(50);
  pace.resume(1050);
  expect(pace.due(1050, 0)).toBe(1110);
  expect(pace.due(1110, 0)).toBe(1120);
});
