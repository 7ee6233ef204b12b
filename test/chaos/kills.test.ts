import { describe, it } from "vitest";
import type { StoreKind } from "../support/dispatch-store.ts";
import { survivesKills } from "./kills.cases.ts";

describe("a dispatcher that is killed at random points, 30 times in all", () => {
  it.each<StoreKind>(["Redis", "SQLite"])("leaves each message one result on %s (A-43)", (kind) =>
    survivesKills(kind, 15),
  );
});
