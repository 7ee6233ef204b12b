import { describe, it } from "vitest";
import type { StoreKind } from "../support/dispatch-store.ts";
import { survivesKills } from "./kills.cases.ts";

const HOUR = 3_600_000;

describe("a dispatcher that is killed at random points, 1,000 times", () => {
  it.each<StoreKind>(["Redis", "SQLite"])(
    "leaves each message one result on %s (A-102, P-8)",
    (kind) => survivesKills(kind, 1000),
    HOUR,
  );
});
