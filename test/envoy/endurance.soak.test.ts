import { describe, it } from "vitest";
import { VARIANTS } from "../../src/wires/envoy/options.ts";
import { endure } from "./endurance.cases.ts";

/** For each configuration. */
const REQUESTS = 100_000;

describe("the shipped configurations for long", () => {
  it.each(VARIANTS)(
    `%s: of ${REQUESTS} requests only those fail that a killed picker explains`,
    (variant) => endure(variant, REQUESTS),
    REQUESTS * 30,
  );
});
