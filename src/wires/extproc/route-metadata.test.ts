import { describe, expect, it } from "vitest";
import { Writer } from "../../base/grpc/protobuf.ts";
import type { Routed } from "../../picker/exchange/wire.ts";
import type { EncodedStruct, Struct } from "./messages.ts";
import { writeStruct } from "./metadata.ts";
import { RouteMetadata } from "./route-metadata.ts";
import { DEFAULT_WIRE_OPTIONS } from "./wire-options.ts";

const PLAIN = { offered: 1, scores: undefined, metadata: undefined, endpoints: [] } as unknown as Routed;

function encoded(struct: Struct | EncodedStruct): Buffer {
  const writer = new Writer();
  writer.begin();
  writeStruct(writer, struct);
  return writer.finish();
}

describe("the metadata of a route", () => {
  it("are encoded once for each destination, as any other struct is", () => {
    const metadata = new RouteMetadata(DEFAULT_WIRE_OPTIONS);
    const first = metadata.of(PLAIN, "10.0.0.1:8000");
    expect(metadata.of(PLAIN, "10.0.0.1:8000")).toBe(first);
    expect(metadata.of(PLAIN, "10.0.0.2:8000")).not.toBe(first);
    for (const destination of ["10.0.0.1:8000", "10.0.0.2:8000"])
      expect(encoded(metadata.of(PLAIN, destination))).toEqual(
        encoded({ "envoy.lb": { "x-gateway-destination-endpoint": destination } }),
      );
  });

  it.each([
    { more: { offered: 2 } },
    { more: { scores: "e1=1" } },
    { more: { metadata: { "envoy.lb": { other: 1 } } } },
  ])("with $more are made for each request", ({ more }) => {
    const metadata = new RouteMetadata(DEFAULT_WIRE_OPTIONS);
    const routed = { ...PLAIN, ...more } as Routed;
    metadata.of(PLAIN, "10.0.0.1:8000");
    expect(metadata.of(routed, "10.0.0.1:8000")).not.toBe(metadata.of(routed, "10.0.0.1:8000"));
  });

  it("are kept for a bounded number of destinations", () => {
    const metadata = new RouteMetadata(DEFAULT_WIRE_OPTIONS);
    const first = metadata.of(PLAIN, "endpoint-0:8000");
    for (let i = 1; i < 4096; i++) metadata.of(PLAIN, `endpoint-${i}:8000`);
    expect(metadata.of(PLAIN, "endpoint-0:8000")).toBe(first);
    metadata.of(PLAIN, "endpoint-4096:8000");
    expect(metadata.of(PLAIN, "endpoint-0:8000")).not.toBe(first);
  });
});
