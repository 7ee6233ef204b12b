import { describe, it } from "vitest";
import { survivesGateway, survivesRedis } from "./outages.cases.ts";

describe("a dispatcher whose neighbours die", () => {
  it("has one result for each message when Redis is killed and comes back (A-46)", () => survivesRedis([1000, 2000]));

  it("has a 200 for each message when the gateway refuses connections for seconds", () =>
    survivesGateway("Redis", 2000));
});
