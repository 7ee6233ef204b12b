import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, keptBy } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { decodeFilter, encodeFilter, prefillFilter } from "./role-filters.ts";

const ROLES = ["encode", "prefill", "decode", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"];
const labelled = [...ROLES, "Decode", "", "worker"].map((role) => ({ "llm-d.ai/role": role }));
const ENDPOINTS = [...labelled, {}, { role: "decode" }].map((labels, slot) => endpointOf(slot, { labels }));

/** The roles that a filter keeps; `none` for endpoints without the label. */
function kept(filter: typeof decodeFilter): string[] {
  return keptBy(filter, columnsOf(ENDPOINTS)).map((slot) => ENDPOINTS[slot]!.labels["llm-d.ai/role"] ?? "none");
}

describe("role filters (3.7.1, 3.15)", () => {
  it("decode-filter keeps decoders, and those that say nothing", () => {
    expect(kept(decodeFilter)).toEqual(["decode", "prefill-decode", "both", "encode-prefill-decode", "none", "none"]);
  });

  it("prefill-filter keeps those that say so", () => {
    expect(kept(prefillFilter)).toEqual([
      "prefill",
      "encode-prefill",
      "prefill-decode",
      "both",
      "encode-prefill-decode",
    ]);
  });

  it("encode-filter keeps those that say so", () => {
    expect(kept(encodeFilter)).toEqual(["encode", "encode-prefill", "encode-prefill-decode"]);
  });

  it("take no parameters", () => {
    for (const { parameters } of [decodeFilter, prefillFilter, encodeFilter])
      expect(parameters.safeParse({ label: "role" }).success).toBe(false);
  });
});
