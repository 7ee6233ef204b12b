import { describe, expect, it } from "vitest";
import { CONTROL_HEADERS, HeaderList } from "../../base/inference/headers.ts";
import { requestMutation, responseMutation } from "./header-mutation.ts";
import { DEFAULT_WIRE_OPTIONS as OPTIONS } from "./wire-options.ts";

const values = { destination: "10.0.0.1:8000", contentLength: 31, requestId: undefined, added: undefined };
const keysOf = (set: HeaderList) => set.keys;
const pairs = (set: HeaderList) => set.keys.map((key, i) => [key, set.values[i]]);

describe("requestMutation", () => {
  it("sets the destination and the length, and echoes the rest with :path, but nothing that Envoy refuses (E-20, E-21)", () => {
    const headers = HeaderList.of([
      [":method", "POST"],
      [":path", "/v1/completions"],
      ["content-length", "99"],
      ["hi", "mom"],
      ["x-request-id", "r"],
      ["host", "a"],
      ["x-envoy-external-address", "127.0.0.1"],
    ]);
    const { set, remove } = requestMutation(headers, values, OPTIONS);
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
    const { set } = requestMutation(
      HeaderList.of([["x-request-id", ""]]),
      { ...values, contentLength: 0, requestId: "new" },
      OPTIONS,
    );
    expect(pairs(set)).toEqual([
      ["x-gateway-destination-endpoint", "10.0.0.1:8000"],
      ["x-request-id", "new"],
    ]);
  });

  it("never echoes a control header, and removes what a client sent of them, the destination excepted (E-22, E-24, D-26)", () => {
    const { set, remove } = requestMutation(
      HeaderList.of([...CONTROL_HEADERS].map((key) => [key, "forged"] as const)),
      values,
      OPTIONS,
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
      OPTIONS,
    );
    expect(keysOf(set).slice(2)).toEqual(["te"]);
  });

  it("stays within 100 entries (E-26)", () => {
    const many = HeaderList.of(Array.from({ length: 150 }, (_, i) => [`h${i}`, "v"] as const));
    many.add("x-gateway-inference-objective", "batch");
    const { set, remove } = requestMutation(many, values, OPTIONS);
    expect(set.length + remove.length).toBe(100);
    expect(set.keys[0]).toBe("x-gateway-destination-endpoint");
  });
});

describe("what plugins set", () => {
  const added = (...pairs: [string, string][]) => ({ ...values, added: HeaderList.of(pairs) });

  it("stands in front of the echoes, wins over them, and overwrites a repeated header (epp-protocol 3.4)", () => {
    const { set } = requestMutation(
      HeaderList.of([
        ["a", "1"],
        ["b", "1"],
        ["b", "2"],
        ["c", "3"],
      ]),
      added(["a", "plugin"], ["b", "one"], ["new", "header"], ["x-request-id", "p"]),
      OPTIONS,
    );
    expect(pairs(set).slice(2)).toEqual([
      ["a", "plugin"],
      ["b", "one"],
      ["new", "header"],
      ["x-request-id", "p"],
      ["c", "3"],
    ]);
  });

  it("replaces a control header of a client instead of removing it", () => {
    const { set, remove } = requestMutation(
      HeaderList.of([
        ["x-prefiller-host-port", "6.6.6.6:1"],
        ["x-encoder-hosts-ports", "6.6.6.6:1"],
      ]),
      added(["x-prefiller-host-port", "10.0.0.9:8000"]),
      OPTIONS,
    );
    expect(pairs(set).slice(2)).toEqual([["x-prefiller-host-port", "10.0.0.9:8000"]]);
    expect(remove).toEqual(["x-encoder-hosts-ports"]);
  });

  it("is removed only where it was received, is not echoed then, and is nothing that the message needs", () => {
    const kept = ["host", "content-length", "te", "x-request-id", "x-envoy-a", ":path"];
    const received = HeaderList.of([...kept, "x-gone", "x-kept", "x-gone"].map((key) => [key, "v"] as const));
    const removed = [...kept, "x-gone", "x-never-sent", "x-gateway-destination-endpoint"];
    const { set, remove } = requestMutation(received, { ...values, removed }, OPTIONS);
    expect(remove).toEqual(["x-gone"]);
    expect(pairs(set).slice(2)).toEqual([
      ["x-request-id", "v"],
      [":path", "v"],
      ["x-kept", "v"],
    ]);
  });

  it("S-47 is removed also where control headers of clients are left alone (C-13)", () => {
    const received = HeaderList.of([
      ["x-prefiller-host-port", "6.6.6.6:1"],
      ["x-gateway-inference-objective", "batch"],
    ]);
    const options = { ...OPTIONS, removeControlHeaders: false };
    const removed = ["x-prefiller-host-port", "x-encoder-hosts-ports"];
    expect(requestMutation(received, { ...values, removed }, options).remove).toEqual(["x-prefiller-host-port"]);
  });

  it("leaves room for the destination when all that may be is removed (bound)", () => {
    const names = Array.from({ length: 64 }, (_, i) => `h${i}`);
    const received = HeaderList.of([...names, ...CONTROL_HEADERS, ...names].map((key) => [key, "v"] as const));
    const { set, remove } = requestMutation(received, { ...values, removed: names }, OPTIONS);
    expect(remove).toHaveLength(64 + CONTROL_HEADERS.size - 1);
    expect(set.length + remove.length).toBeLessThanOrEqual(100);
    expect(pairs(set)[0]).toEqual(["x-gateway-destination-endpoint", "10.0.0.1:8000"]);
  });

  it("stands in place of a generated request id, once", () => {
    const { set } = requestMutation(
      HeaderList.of([]),
      { ...added(["x-request-id", "p"]), requestId: "generated" },
      OPTIONS,
    );
    expect(pairs(set).slice(2)).toEqual([["x-request-id", "p"]]);
  });

  it("never replaces the destination or the length, breaks no message, and is named once with its last value", () => {
    const { set } = requestMutation(
      HeaderList.of([]),
      added(
        ["x-gateway-destination-endpoint", "6.6.6.6:1"],
        ["content-length", "0"],
        ["transfer-encoding", "chunked"],
        [":method", "GET"],
        ["bad name", "x"],
        ["", "x"],
        ["line", "a\r\nb"],
        ["wide", "\u20ac"],
        [":path", "/v2"],
        ["twice", "1"],
        ["twice", "2"],
      ),
      OPTIONS,
    );
    expect(pairs(set)).toEqual([
      ["x-gateway-destination-endpoint", "10.0.0.1:8000"],
      ["Content-Length", "31"],
      [":path", "/v2"],
      ["twice", "2"],
    ]);
  });

  it("has its place before the echoes where there are over 100 entries (E-26)", () => {
    const many = HeaderList.of(Array.from({ length: 99 }, (_, i) => [`h${i}`, "v"] as const));
    const plugin = Array.from({ length: 50 }, (_, i) => [`p${i}`, "v"] as [string, string]);
    const { set } = requestMutation(many, added(...plugin), OPTIONS);
    expect(set.length).toBe(100);
    expect(set.keys.slice(2, 52)).toEqual(plugin.map(([key]) => key));
    const flood = Array.from({ length: 300 }, (_, i) => [`p${i}`, "v"] as [string, string]);
    expect(requestMutation(many, added(...flood), OPTIONS).set.length).toBe(100);
  });
});

describe("the options of a mutation", () => {
  const sent = HeaderList.of([
    ["hi", "mom"],
    ["x-gateway-inference-objective", "batch"],
    ["x-target", "6.6.6.6:1"],
    ["x-gateway-destination-endpoint", "6.6.6.6:1"],
  ]);

  it("name changed headers only, where unchanged ones are not echoed (C-14)", () => {
    const options = { ...OPTIONS, echoUnchangedHeaders: false };
    const { set, remove } = requestMutation(sent, values, options);
    expect(keysOf(set)).toEqual(["x-gateway-destination-endpoint", "Content-Length"]);
    expect(remove).toEqual(["x-gateway-inference-objective"]);
    expect(keysOf(responseMutation(HeaderList.of([["hi", "x"]]), undefined, false, options).set)).toEqual([
      "x-went-into-resp-headers",
    ]);
  });

  it("leave control headers where they were (C-13)", () => {
    const { set, remove } = requestMutation(sent, values, { ...OPTIONS, removeControlHeaders: false });
    expect(remove).toEqual([]);
    expect(keysOf(set)).not.toContain("x-gateway-inference-objective");
  });

  it("name another key for the destination: its own is overwritten once, the usual one is removed (E-22, E-46)", () => {
    const { set, remove } = requestMutation(sent, values, { ...OPTIONS, destinationKey: "X-Target" });
    expect(pairs(set)).toEqual([
      ["X-Target", "10.0.0.1:8000"],
      ["Content-Length", "31"],
      ["hi", "mom"],
    ]);
    expect(remove).toEqual(["x-gateway-inference-objective", "x-gateway-destination-endpoint"]);
  });

  it("ask for the append action in either direction (E-03, D-5)", () => {
    const options = { ...OPTIONS, literalAppendAction: true };
    expect(requestMutation(sent, values, options).literalAppendAction).toBe(true);
    expect(responseMutation(sent, undefined, false, options).literalAppendAction).toBe(true);
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
      undefined,
      false,
      OPTIONS,
    );
    expect(pairs(set)).toEqual([
      ["x-went-into-resp-headers", "true"],
      ["content-type", "text/event-stream"],
    ]);
    expect(remove).toEqual([]);
  });

  it("lets plugins win over the echo, but not over the marker; a status may be set", () => {
    const { set } = responseMutation(
      HeaderList.of([
        [":status", "200"],
        ["server", "vllm"],
        ["a", "1"],
      ]),
      HeaderList.of([
        ["a", "plugin"],
        ["x-went-into-resp-headers", "false"],
        [":status", "201"],
        [":path", "/"],
      ]),
      false,
      OPTIONS,
    );
    expect(pairs(set)).toEqual([
      ["x-went-into-resp-headers", "true"],
      ["a", "plugin"],
      [":status", "201"],
      ["server", "vllm"],
    ]);
  });

  it("withdraws a length that will not hold", () => {
    const headers = HeaderList.of([["content-length", "12"]]);
    expect(responseMutation(headers, undefined, true, OPTIONS).remove).toEqual(["content-length"]);
    expect(responseMutation(headers, undefined, false, OPTIONS).remove).toEqual([]);
  });
});
