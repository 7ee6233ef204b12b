import { describe, it } from "vitest";
import { survivesGateway, survivesRedis } from "./outages.cases.ts";

const LONG = 1_200_000;

describe("a dispatcher whose neighbours die for long", () => {
  it(
    "has one result for each message when Redis is killed for up to 60 s (A-46)",
    () => survivesRedis([8000, 20_000, 60_000]),
    LONG,
  );

  it("has one result for each message when Redis is killed 30 times", () => survivesRedis(Array(30).fill(300)), LONG);

  it.each(["Redis", "SQLite"] as const)(
    "has a 200 for each message when the gateway refuses connections for 10 s, on %s",
    (kind) => survivesGateway(kind, 10_000),
    LONG,
  );
});
