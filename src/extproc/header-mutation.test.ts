import { describe, expect, it } from "vitest";
import { CONTROL_HEADERS, HeaderList } from "../inference/headers.ts";
import { requestMutation, responseMutation } from "./header-mutation.ts";

const values = { destination: "10.0.0.1:8000", contentLength: 31, requestId: undefined };
const keysOf = (set: HeaderList) => set.keys;
const pairs = (set: HeaderList) => set.keys.map((key, i) => [key, set.values[i]]);

describe("requestMutation", () => {
  it("sets the destination and the length, and echoes the rest with :path (E-20, E-21)", () => {
    const { set, remove } = requestMutation(
      HeaderList.of([
        [":method", "POST"],
        [":path", "/v1/completions"],
        ["content-length", "99"],
        ["hi", "mom"],
        ["x-request-id", "r"],
      ]),
      values,
    );
    expect(pairs(set)).toEqual([
      ["x-gateway-destination-endpoint", "10.0.0.1:8000"],
      ["Content-Length", "31"],
      [":path", "/v1/completions"],
      ["hi", "mom"],
      ["x-request-id", "r"],
    ]);
    expect(remove).toEqual([]);
  });

  it("writes no length for no body, and the id it generated once (E-11, E-27)", () => {
    const { set } = requestMutation(HeaderList.of([["x-request-id", ""]]), {
      ...values,
      contentLength: 0,
      requestId: "new",
    });
    expect(pairs(set)).toEqual([
      ["x-gateway-destination-endpoint", "10.0.0.1:8000"],
      ["x-request-id", "new"],
    ]);
  });

  it("never echoes a control header, and removes what a client sent of them, the destination excepted (E-22, E-24, D-26)", () => {
    const { set, remove } = requestMutation(
      HeaderList.of([...CONTROL_HEADERS].map((key) => [key, "forged"] as const)),
      values,
    );
    expect(keysOf(set)).toEqual(["x-gateway-destination-endpoint", "Content-Length"]);
    expect(set.values[0]).toBe("10.0.0.1:8000");
    expect(new Set(remove)).toEqual(
      new Set([...CONTROL_HEADERS].filter((key) => key !== "x-gateway-destination-endpoint")),
    );
  });

  it("echoes no repeated and no hop-by-hop header, but te: trailers (E-25)", () => {
    const { set } = requestMutation(
      HeaderList.of([
        ["a", "1"],
        ["a", "2"],
        ["connection", "close"],
        ["transfer-encoding", "chunked"],
        ["te", "trailers"],
        ["upgrade", "x"],
      ]),
      values,
    );
    expect(keysOf(set).slice(2)).toEqual(["te"]);
  });

  it("stays within 100 entries (E-26)", () => {
    const many = HeaderList.of(Array.from({ length: 150 }, (_, i) => [`h${i}`, "v"] as const));
    many.add("x-gateway-inference-objective", "batch");
    const { set, remove } = requestMutation(many, values);
    expect(set.length + remove.length).toBe(100);
    expect(set.keys[0]).toBe("x-gateway-destination-endpoint");
  });
});

describe("responseMutation", () => {
  it("puts the marker first and echoes what may be (E-60, E-61)", () => {
    const { set, remove } = responseMutation(
      HeaderList.of([
        [":status", "200"],
        ["content-type", "text/event-stream"],
        ["set-cookie", "a"],
        ["set-cookie", "b"],
        ["transfer-encoding", "chunked"],
      ]),
    );
    expect(pairs(set)).toEqual([
      ["x-went-into-resp-headers", "true"],
      ["content-type", "text/event-stream"],
    ]);
    expect(remove).toEqual([]);
  });
});
