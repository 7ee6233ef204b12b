import { describe, expect, it } from "vitest";
import { encodeRequest, struct } from "../../../test/support/extproc-client.ts";
import { decodeProcessingRequest } from "./decode.ts";
import { parseSubsetHint, SubsetHints } from "./subset-hint.ts";
import { DEFAULT_WIRE_OPTIONS } from "./wire-options.ts";

const at = (address: string, port?: number) => ({ address, port });

describe("parseSubsetHint", () => {
  it.each([
    ["a list (P1.0)", ["10.0.0.1:8000", "10.0.0.2:8000"], [at("10.0.0.1", 8000), at("10.0.0.2", 8000)]],
    ["one string (E-53)", "10.0.0.1:8000, 10.0.0.2:8000", [at("10.0.0.1", 8000), at("10.0.0.2", 8000)]],
    ["a member with commas (E-53)", ["10.0.0.1:1,10.0.0.2"], [at("10.0.0.1", 1), at("10.0.0.2")]],
    ["IPv6 (E-56)", ["[fd00::1]:8000", "fd00::2", "[fd00::3]"], [at("fd00::1", 8000), at("fd00::2"), at("fd00::3")]],
    ["repeated members once", ["10.0.0.1:1", " 10.0.0.1:1 "], [at("10.0.0.1", 1)]],
    ["an empty list (E-12)", [], []],
    ["members that are no strings (E-55)", [1, null, { a: 1 }, "10.0.0.1"], [at("10.0.0.1")]],
    ["another kind", 7, []],
    ["null", null, []],
    ["bad ports", ["10.0.0.1:0", "10.0.0.1:x", "10.0.0.1:70000"], []],
  ])("reads %s", (_, value, expected) => {
    expect(parseSubsetHint(value)).toEqual(expected);
  });

  it("reads at most 8,192 members", () => {
    const many = Array.from({ length: 20_000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
    expect(parseSubsetHint(many)).toHaveLength(8192);
  });

  it("reads over ports where the pool is matched by address alone (E-54, C-4)", () => {
    expect(parseSubsetHint(["10.0.0.1:8000", "[fd00::1]:1", "10.0.0.2", "10.0.0.3:x"], true)).toEqual([
      at("10.0.0.1"),
      at("fd00::1"),
      at("10.0.0.2"),
    ]);
  });
});

describe("the hints of a stream", () => {
  /** A message of the request body, with a hint or none. */
  const message = (subset?: readonly string[]) => {
    const metadata = { "envoy.lb.subset_hint": struct({ "x-gateway-destination-endpoint-subset": subset ?? [] }) };
    const more = subset === undefined ? {} : { metadataContext: { filterMetadata: metadata } };
    return decodeProcessingRequest(encodeRequest({ requestBody: { body: Buffer.from("x") }, ...more }));
  };

  it("are read once while a proxy repeats them, and anew when they change", () => {
    const hints = new SubsetHints(DEFAULT_WIRE_OPTIONS);
    const first = hints.of(message(["10.0.0.1:8000"]));
    expect(first).toEqual([at("10.0.0.1", 8000)]);
    expect(hints.of(message(["10.0.0.1:8000"]))).toBe(first);
    expect(hints.of(message())).toBeUndefined();
    expect(hints.of(message(["10.0.0.1:8000"]))).toBe(first);
    expect(hints.of(message(["10.0.0.2:8000"]))).toEqual([at("10.0.0.2", 8000)]);
    expect(hints.of(message([]))).toEqual([]);
  });

  it("outlive the buffer that a message came in", () => {
    const hints = new SubsetHints(DEFAULT_WIRE_OPTIONS);
    const received = message(["10.0.0.1:8000"]);
    const first = hints.of(received);
    received.message.fill(0);
    expect(hints.of(message(["10.0.0.1:8000"]))).toBe(first);
  });
});
