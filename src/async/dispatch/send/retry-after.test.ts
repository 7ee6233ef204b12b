import { describe, expect, it } from "vitest";
import { retryAfterMs } from "./retry-after.ts";

const WALL = Date.UTC(1994, 10, 6, 8, 49, 37);
const YEAR = 365 * 24 * 3_600_000;

describe("Retry-After", () => {
  it.each([
    ["0", 0],
    ["1", 1000],
    ["007", 7000],
    ["3600", 3_600_000],
    ["9".repeat(400), YEAR],
  ])("%s seconds", (value, ms) => {
    expect(retryAfterMs(value, undefined, WALL)).toBe(ms);
  });

  it.each([
    ["as servers write it", "Sun, 06 Nov 1994 08:50:07 GMT"],
    ["with dashes", "Sunday, 06-Nov-94 08:50:07 GMT"],
    ["as C writes it", "Sun Nov  6 08:50:07 1994"],
  ])("a date %s, in whatever time zone this machine is", (_name, value) => {
    const zone = process.env["TZ"];
    try {
      for (process.env["TZ"] of ["UTC", "Asia/Tokyo", "America/New_York"])
        expect(retryAfterMs(value, undefined, WALL)).toBe(30_000);
    } finally {
      if (zone === undefined) delete process.env["TZ"];
      else process.env["TZ"] = zone;
    }
  });

  it("a date that has passed asks for nothing, one far away for a year", () => {
    expect(retryAfterMs("Sun, 06 Nov 1994 08:49:36 GMT", undefined, WALL)).toBe(0);
    expect(retryAfterMs("Sun, 06 Nov 2094 08:49:36 GMT", undefined, WALL)).toBe(YEAR);
  });

  it("a date counts from the server's own, whatever our clock says", () => {
    const date = "Sun, 06 Nov 1994 08:49:37 GMT";
    expect(retryAfterMs("Sun, 06 Nov 1994 08:49:47 GMT", date, WALL + 3_600_000)).toBe(10_000);
    expect(retryAfterMs("Sun, 06 Nov 1994 08:49:47 GMT", "yesterday", WALL)).toBe(10_000);
    expect(retryAfterMs("5", date, WALL + 3_600_000)).toBe(5000);
  });

  it.each([
    undefined,
    "",
    "-1",
    "1.5",
    "1e3",
    "5 s",
    "soon",
    "2026-01-01",
    "Sun, 06 Nov 1994 08:49:37",
    "Sun, 06 Nov 1994 08:49:37 PST",
    "Sun, 06 Nov 1994 25:99:37 GMT",
    "Nov 6 1994",
  ])("%s is none", (value) => {
    expect(retryAfterMs(value, undefined, WALL)).toBeUndefined();
  });
});
