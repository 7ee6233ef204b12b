import { describe, expect, it } from "vitest";
import { OUTCOMES } from "./outcomes.ts";

describe("the outcomes of the inference path", () => {
  it("have the codes and statuses of the reference and the 401, 403 and 404 of the gateway, one status to a code (epp-protocol 9.1)", () => {
    const statuses = Object.values(OUTCOMES).map(({ code, status }) => [code, status] as const);
    expect(Object.fromEntries(statuses)).toEqual({
      BadRequest: 400,
      Forbidden: 403,
      BadConfiguration: 404,
      NotFound: 404,
      RequestTimeout: 408,
      PreconditionFailed: 412,
      RateLimited: 429,
      PayloadTooLarge: 413,
      ResourceExhausted: 429,
      Internal: 500,
      NotImplemented: 501,
      BadGateway: 502,
      ServiceUnavailable: 503,
      Unauthorized: 401,
      GatewayTimeout: 504,
    });
    const distinct = new Set(statuses.map((pair) => pair.join(" ")));
    expect(distinct.size).toBe(15);
  });
});
