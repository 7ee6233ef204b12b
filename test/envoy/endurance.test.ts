import { describe, it } from "vitest";
import { endure } from "./endurance.cases.ts";

describe("the shipped configurations, the short form of endurance.soak.test.ts", () => {
  it.each(["standalone", "override-host"] as const)(
    "%s: of some thousand requests only those fail that a killed picker explains",
    (variant) => endure(variant, 3000),
  );
});
