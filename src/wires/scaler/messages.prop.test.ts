import fc from "fast-check";
import protobuf from "protobufjs";
import { describe, expect, it } from "vitest";
import { decodeScaler, encodeScaler } from "../../../test/support/scaler-client.ts";
import { decodeMetricsRequest, decodeRef, figureResponse, isActiveResponse } from "./messages.ts";

const text = fc.string({ unit: "grapheme", maxLength: 30 });
/** protobufjs keeps maps in objects, and one of their keys is special. */
const key = text.filter((name) => name !== "__proto__");
const ref = fc.record({ name: text, namespace: text, scalerMetadata: fc.dictionary(key, text, { maxKeys: 8 }) });

const seen = ({ name, namespace, scalerMetadata }: { name: string; namespace: string; scalerMetadata: object }) => ({
  ...{ name, namespace, metadata: new Map(Object.entries(scalerMetadata)) },
});

describe("the messages of the external scaler", () => {
  it("are read as protobufjs writes them, with fields of later releases between", () => {
    const later = (bytes: Uint8Array): Buffer => {
      const writer = protobuf.Writer.create()
        .uint32((15 << 3) | 2)
        .string("later");
      writer.uint32((16 << 3) | 0).int64(-1);
      return Buffer.concat([writer.finish(), bytes, writer.finish()]);
    };
    fc.assert(
      fc.property(ref, text, (wanted, metricName) => {
        const bytes = encodeScaler("ScaledObjectRef", wanted);
        expect(decodeRef(bytes)).toEqual(seen(wanted));
        expect(decodeRef(later(bytes))).toEqual(seen(wanted));
        const asked = encodeScaler("GetMetricsRequest", { scaledObjectRef: wanted, metricName });
        expect(decodeMetricsRequest(asked)).toEqual({ ref: seen(wanted), metricName });
        expect(decodeMetricsRequest(later(asked))).toEqual({ ref: seen(wanted), metricName });
      }),
    );
  });

  it("merge a field that comes twice, and the last entry of a key counts, as in protobufjs", () => {
    fc.assert(
      fc.property(ref, ref, (first, second) => {
        const both = Buffer.concat([first, second].map((one) => encodeScaler("ScaledObjectRef", one)));
        expect(decodeRef(both)).toEqual(seen(decodeScaler("ScaledObjectRef", both)));
        const halves = [first, second].map((scaledObjectRef) => encodeScaler("GetMetricsRequest", { scaledObjectRef }));
        expect(decodeMetricsRequest(Buffer.concat(halves)).ref.metadata).toEqual(
          seen(decodeScaler("ScaledObjectRef", both)).metadata,
        );
      }),
    );
  });

  it("mean empty texts where they are empty, and an entry may lack its key or its value", () => {
    expect(decodeRef(Buffer.alloc(0))).toEqual({ name: "", namespace: "", metadata: new Map() });
    const entries = Buffer.from("1a031201761a030a016b1a00", "hex");
    expect(decodeRef(entries).metadata).toEqual(
      new Map([
        ["", ""],
        ["k", ""],
      ]),
    );
  });

  it("end with an error where they are cut off, and never with another one", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        for (const decode of [decodeRef, decodeMetricsRequest]) {
          try {
            decode(bytes);
          } catch (error) {
            expect(error).toMatchObject({ code: "PROTOBUF_MALFORMED" });
          }
        }
      }),
    );
    expect(() => decodeRef(Buffer.from("0a05", "hex"))).toThrow(/runs past the end/);
  });

  it("are written so that protobufjs reads them, with a whole number for older releases of KEDA", () => {
    const figure = fc.oneof(fc.nat(), fc.double({ min: 0, max: 2 ** 53, noNaN: true }), fc.maxSafeNat());
    fc.assert(
      fc.property(text, figure, (metricName, value) => {
        const bytes = figureResponse(metricName, value);
        expect(decodeScaler("GetMetricsResponse", bytes)).toEqual({
          metricValues: [{ metricName, metricValue: Math.ceil(value), metricValueFloat: value }],
        });
        expect(decodeScaler("GetMetricSpecResponse", bytes)).toEqual({
          metricSpecs: [{ metricName, targetSize: Math.ceil(value), targetSizeFloat: value }],
        });
      }),
    );
    for (const result of [false, true])
      expect(decodeScaler("IsActiveResponse", isActiveResponse(result))).toEqual({ result });
  });
});
