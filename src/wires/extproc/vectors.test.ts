import { describe, expect, it } from "vitest";
import { decodeResponse, encodeRequest, fromStruct, struct } from "../../../test/support/extproc-client.ts";
import { Writer } from "../../base/grpc/protobuf.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { decodeProcessingRequest } from "./decode.ts";
import { encodeHeadersReply } from "./encode.ts";
import type { ProcessingRequest } from "./messages.ts";
import { metadataOf, upstreamAddressOf } from "./metadata.ts";

// Vectors of envoy-data-plane 1.2.3. W-2 and W-4 show what a decoder must accept; our own replies leave `append_action` and
// `details` out (docs/spec/decisions.md#immediate-response).
const W1 =
  "12130a110a0f0a073a6d6574686f641a04504f535442580a560a14656e766f792e6c622e7375627365745f68696e74123e0a3c0a25782d676174657761792d64657374696e6174696f6e2d656e64706f696e742d737562736574121332110a0f1a0d31302e302e302e313a383030305a0408041004";
const W2 =
  "0a3b0a3912350a330a2f0a1e782d676174657761792d64657374696e6174696f6e2d656e64706f696e741a0d31302e302e302e313a383030301802280142430a410a08656e766f792e6c6212352a330a310a1e782d676174657761792d64657374696e6174696f6e2d656e64706f696e74120f1a0d31302e302e302e313a38303030";
const W3 = "1a0c0a0a1a081a060a027b7d1001";
const W4 =
  "3a3b0a0308ad0312260a240a200a0c636f6e74656e742d747970651a106170706c69636174696f6e2f6a736f6e18021a027b7d2a086570705f73686564";
const W5 =
  "1a120a100a0e0a073a7374617475731a0332303042480a460a08656e766f792e6c62123a0a380a25782d676174657761792d64657374696e6174696f6e2d656e64706f696e742d736572766564120f1a0d31302e302e302e313a38303030";
const W6 = "22060a027b7d1001";

function hex(text: string): Buffer {
  return Buffer.from(text, "hex");
}

describe("wire vectors (D-1)", () => {
  it("W-1: request headers, subset hint, body modes", () => {
    const request = decodeProcessingRequest(hex(W1));
    expect(request).toMatchObject({
      kind: "request_headers",
      endOfStream: false,
      protocolConfig: { requestBodyMode: 4, responseBodyMode: 4 },
    });
    expect(request.headers?.get(":method")).toBe("POST");
    expect({ ...metadataOf(request, "envoy.lb.subset_hint") }).toEqual({
      "x-gateway-destination-endpoint-subset": ["10.0.0.1:8000"],
    });
    expect(metadataOf(request, "envoy.lb")).toBeUndefined();
  });

  it("W-5: response headers and the served endpoint", () => {
    const request = decodeProcessingRequest(hex(W5));
    expect(request.kind).toBe("response_headers");
    expect(request.headers?.get(":status")).toBe("200");
    expect(metadataOf(request, "envoy.lb")?.["x-gateway-destination-endpoint-served"]).toBe("10.0.0.1:8000");
  });

  it("W-6: a last body chunk", () => {
    const request = decodeProcessingRequest(hex(W6));
    expect(request).toMatchObject({ kind: "request_body", endOfStream: true, headers: undefined });
    expect(Buffer.from(request.body).toString()).toBe("{}");
  });

  it("W-2, W-3 and W-4 are what the .proto used as oracle says they are", () => {
    const picked = decodeResponse(hex(W2));
    expect(picked.requestHeaders.response.clearRouteCache).toBe(true);
    expect(fromStruct(picked.dynamicMetadata)).toEqual({
      "envoy.lb": { "x-gateway-destination-endpoint": "10.0.0.1:8000" },
    });
    expect(decodeResponse(hex(W3)).requestBody.response.bodyMutation.streamedResponse).toEqual({
      body: Buffer.from("{}"),
      endOfStream: true,
    });
    expect(decodeResponse(hex(W4)).immediateResponse).toMatchObject({ status: { code: 429 }, details: "epp_shed" });
  });

  it("a picking reply is W-2 byte for byte, with the append action for literal proxies and without it (E-03)", () => {
    const reply = {
      set: HeaderList.of([["x-gateway-destination-endpoint", "10.0.0.1:8000"]]),
      clearRouteCache: true,
      dynamicMetadata: { "envoy.lb": { "x-gateway-destination-endpoint": "10.0.0.1:8000" } },
    };
    const writer = new Writer();
    const literal = encodeHeadersReply(writer, "request", { ...reply, literalAppendAction: true });
    expect(Buffer.from(literal.subarray(5)).toString("hex")).toBe(W2);
    const usual = decodeResponse(encodeHeadersReply(writer, "request", reply).subarray(5));
    expect(usual.requestHeaders.response.headerMutation.setHeaders).toEqual([
      { header: { key: "x-gateway-destination-endpoint", rawValue: Buffer.from("10.0.0.1:8000") } },
    ]);
  });
});

describe("reading rules", () => {
  function headers(...entries: object[]): HeaderList {
    return decodeProcessingRequest(encodeRequest({ requestHeaders: { headers: { headers: entries } } })).headers!;
  }

  it("takes raw_value unless it is empty, else value (E-02)", () => {
    const list = headers(
      { key: "a", value: "text" },
      { key: "b", rawValue: Buffer.from("raw") },
      { key: "c", value: "text", rawValue: Buffer.from("raw") },
      { key: "d", value: "text", rawValue: Buffer.alloc(0) },
      { key: "e" },
    );
    expect(list.values).toEqual(["text", "raw", "raw", "text", ""]);
  });

  it("reads value in front of raw_value and behind it alike", () => {
    const raw = "1a0178";
    const text = "120179";
    for (const order of [raw + text, text + raw]) {
      const value = `0a0161${order}`;
      const message = `12${"0d"}0a0b0a09${value}`;
      expect(decodeProcessingRequest(hex(message)).headers?.get("a")).toBe("x");
    }
  });

  it("lower-cases keys, keeps every byte of values and the order of repeated headers", () => {
    const list = headers(
      { key: "X-Request-ID", rawValue: Buffer.of(0, 0x7f, 0x80, 0xff) },
      { key: "accept", value: "1" },
      { key: "accept", value: "2" },
    );
    expect(list.keys).toEqual(["x-request-id", "accept", "accept"]);
    expect(list.values).toEqual(["\u0000\u007f\u0080\u00ff", "1", "2"]);
  });

  it("finds the served endpoint in Envoy's attributes (envoy-data-plane 2.4)", () => {
    const of = (attributes: Record<string, unknown>) =>
      upstreamAddressOf(decodeProcessingRequest(encodeRequest({ attributes })));
    const name = "envoy.filters.http.ext_proc";
    expect(of({ [name]: struct({ "upstream.address": "10.0.0.7:8000", other: 1 }) })).toBe("10.0.0.7:8000");
    expect(of({ "another.filter": struct({ "upstream.address": "10.0.0.7:8000" }) })).toBeUndefined();
    expect(of({ [name]: struct({ "upstream.address": "" }) })).toBeUndefined();
    expect(of({ [name]: struct({ "upstream.address": 5 }) })).toBeUndefined();
    expect(of({})).toBeUndefined();
  });

  it("lets the last entry of a repeated namespace win", () => {
    const once = (value: string) =>
      encodeRequest({ metadataContext: { filterMetadata: { "envoy.lb": struct({ key: value }) } } });
    const request = decodeProcessingRequest(Buffer.concat([once("first"), once("second")]));
    expect({ ...metadataOf(request, "envoy.lb") }).toEqual({ key: "second" });
  });

  it("treats a request without a member as one to ignore, not as an error (D-2)", () => {
    expect(decodeProcessingRequest(Buffer.alloc(0)).kind).toBe("none");
    expect(decodeProcessingRequest(encodeRequest({ observabilityMode: true }))).toMatchObject({
      kind: "none",
      observabilityMode: true,
    });
  });

  it("refuses metadata nested beyond any use instead of running out of stack", () => {
    const nested = (levels: number): ProcessingRequest => {
      const writer = new Writer();
      writer.begin();
      const close = (...tags: number[]): void => {
        for (const tag of tags) writer.close(tag, 0);
      };
      // Each level is a Value holding a ListValue (6) holding one value (1).
      for (let level = 0; level < levels; level++) close(0x0a, 0x32);
      close(0x12, 0x0a, 0x12);
      const key = writer.length;
      writer.utf8("envoy.lb");
      writer.close(0x0a, key);
      close(0x0a, 0x42);
      return decodeProcessingRequest(writer.finish());
    };
    expect(metadataOf(nested(20), "envoy.lb")).toBeDefined();
    const request = nested(20_000);
    expect(() => metadataOf(request, "envoy.lb")).toThrow(expect.objectContaining({ code: "PROTOBUF_MALFORMED" }));
  });

  it("takes no key of a struct for more than a key", () => {
    const request = decodeProcessingRequest(
      encodeRequest({ metadataContext: { filterMetadata: { "envoy.lb": struct({ toString: "x" }) } } }),
    );
    const metadata = metadataOf(request, "envoy.lb")!;
    expect(Object.entries(metadata)).toEqual([["toString", "x"]]);
    expect("constructor" in metadata).toBe(false);
  });
});
