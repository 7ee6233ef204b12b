import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import {
  decodeResponse,
  encodeRequest,
  fromStruct,
  headerMap,
  type Plain,
} from "../../../test/support/extproc-client.ts";
import { FakeGrpcStream } from "../../../test/support/fake-grpc-stream.ts";
import {
  formatRecording,
  type Line,
  loadRecording,
  parseRecording,
  type Recording,
  recordingNames,
  replyKind,
  requestBytes,
} from "../../../test/support/recording.ts";
import { recordingHandler } from "../../../test/support/recording-handler.ts";
import { chatBody, destinationOf, headersOf, keysOf, SessionHarness } from "../../../test/support/session-harness.ts";
import { Notices } from "./notices.ts";
import { processHandler } from "./session.ts";
import { DEFAULT_WIRE_OPTIONS } from "./wire-options.ts";

/** Plays what the proxy sent to a session whose pool is the recording's. */
function play({ about, lines }: Recording): SessionHarness {
  const endpoints = about.pool.map((hostPort) => {
    const at = hostPort.lastIndexOf(":");
    return { address: hostPort.slice(0, at).replace(/^\[|\]$/g, ""), port: Number(hostPort.slice(at + 1)) };
  });
  const h = new SessionHarness(new TestCore({ endpoints }), {
    wire: about.wire ?? {},
    filter: { rewrites: about.rewrites ?? false },
  });
  for (const line of lines) {
    const bytes = requestBytes(line);
    if (bytes !== undefined) h.receive(bytes);
    else if ("event" in line) line.event === "reset" ? h.reset() : h.halfClose();
  }
  return h;
}

/** Kinds in order; as many messages as a body was cut into count as one. */
function kindsOf(kinds: readonly (string | undefined)[]): string[] {
  const found = kinds.filter((kind) => kind !== undefined);
  return found.filter((kind, i) => kind !== found[i - 1]);
}

const sha256 = (pieces: readonly Uint8Array[]) => createHash("sha256").update(Buffer.concat(pieces)).digest("hex");
const routing = (h: SessionHarness): Plain =>
  h.replies.find(
    ({ dynamicMetadata, requestHeaders, requestBody }) => dynamicMetadata && (requestHeaders ?? requestBody),
  );

/** What every recording must satisfy, whatever happens in it. */
function expectLegal(recording: Recording, h: SessionHarness): void {
  const { about, lines } = recording;
  expect(h.wrongs).toEqual([]);
  const expected = kindsOf(lines.map(replyKind));
  expect(kindsOf(h.replies.map((reply) => Object.keys(reply)[0]))).toEqual(expected);
  expect(h.filter.immediate?.status.code).toBe(about.refused);
  const reply = routing(h);
  if (reply !== undefined) expect(about.pool).toContain(destinationOf(reply));
  if (about.refused === undefined)
    for (const direction of ["request", "response"] as const) {
      const { sent, back, fullDuplex, headersSent } = h.filter[direction];
      if (!headersSent || expected.length === 0) continue;
      if (about.rewrites !== true && fullDuplex) expect(sha256(back)).toBe(sha256(sent));
      expect(h.filter.outstanding(direction)).toBe(false);
    }
  // The transport reports the end of every stream.
  h.session.closed();
  expect(h.core.total("sluice_exchanges_total", { outcome: about.outcome })).toBe(1);
  expect(h.core.total("sluice_exchanges_total")).toBe(1);
  expect([h.core.inFlight, h.core.budget.used]).toEqual([0, 0]);
}

describe("a recorded stream", () => {
  it.each(recordingNames())(
    "%s is answered legally, in the order recorded, and gives back every byte (E-40, E-49)",
    (name) => {
      const recording = loadRecording(name);
      expectLegal(recording, play(recording));
    },
  );
});

describe("each data plane of envoy-data-plane 3 (D-75)", () => {
  const plane = (name: string) => play(loadRecording(`plane-${name}`));
  const request = (h: SessionHarness) => (routing(h).requestHeaders ?? routing(h).requestBody).response.headerMutation;
  const METADATA = (h: SessionHarness) => fromStruct(routing(h).dynamicMetadata);

  it("llm-d standalone: full duplex without protocol_config, the pick in the header", () => {
    const h = plane("llm-d-standalone");
    expect(headersOf(request(h))["x-gateway-destination-endpoint"]).toMatch(/^10\.0\.0\.[123]:8000$/);
  });

  it("Istio: the pick is in metadata, under `envoy.lb`, and no other namespace is used (D-77)", () => {
    const h = plane("istio");
    expect(Object.keys(METADATA(h))).toEqual(["envoy.lb"]);
    expect(h.core.total("llm_d_epp_request_total")).toBe(1);
  });

  it("Envoy AI Gateway: no metadata is needed, and its BUFFERED variant gets body and length (D-78)", () => {
    expect(headersOf(request(plane("ai-gateway")))["x-gateway-destination-endpoint"]).toMatch(/:8000$/);
    const h = plane("ai-gateway-buffered");
    const { body } = routing(h).requestBody.response.bodyMutation;
    expect(headersOf(request(h))["Content-Length"]).toBe(String(body.length));
    expect(Buffer.from(body).toString()).toBe(chatBody());
  });

  it("Envoy Gateway: modes that differ by direction are spoken each in its dialect", () => {
    const h = plane("envoy-gateway");
    expect(Buffer.from(routing(h).requestBody.response.bodyMutation.body).toString()).toBe(chatBody());
    expect(h.replies.filter(({ responseBody }) => responseBody)).toEqual(
      Array(2).fill({ responseBody: { response: {} } }),
    );
  });

  it("kgateway: a pick that a client forged is overwritten, once, and not removed", () => {
    const mutation = request(plane("kgateway"));
    expect(keysOf(mutation).filter((key) => key === "x-gateway-destination-endpoint")).toHaveLength(1);
    expect(headersOf(mutation)["x-gateway-destination-endpoint"]).not.toContain("6.6.6.6");
    expect(mutation.removeHeaders ?? []).not.toContain("x-gateway-destination-endpoint");
  });

  it("agentgateway: exactly one address, no early close, pseudo headers last in `value`, the extra end mirrored (D-76, D-4)", () => {
    const h = plane("agentgateway");
    expect(destinationOf(routing(h))).toMatch(/^10\.0\.0\.[123]:8000$/);
    expect(h.stream.status).toBeUndefined();
    expect(headersOf(request(h))[":path"]).toBe("/v1/chat/completions");
    expect(headersOf(request(h))["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(h.core.total("llm_d_epp_request_total", { model_name: "llama" })).toBe(1);
  });

  it("GKE: the hint restricts, who served is accounted, no message is above 64 KiB (D-79)", () => {
    const h = plane("gke");
    expect(["10.0.0.2:8000", "10.0.0.3:8000"]).toContain(destinationOf(routing(h)));
    for (const message of h.stream.messages()) expect(message.length).toBeLessThan(65_536);
    expect(h.replies.filter(({ requestBody }) => requestBody).length).toBeGreaterThan(2);
  });

  it("NGINX Gateway Fabric: no response phase, and no error (D-21)", () => {
    const h = plane("nginx");
    expect([h.stream.status, h.core.inFlight]).toEqual([0, 0]);
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(0);
  });
});

describe("the recorder", () => {
  it("writes down a stream so that playing it back is the same exchange", () => {
    const core = new TestCore();
    const recorded: (readonly Line[])[] = [];
    const stream = new FakeGrpcStream();
    const events = recordingHandler(
      processHandler({
        wire: DEFAULT_WIRE_OPTIONS,
        clock: core.clock,
        notices: new Notices(() => {}),
        openExchange: (wire) => core.openExchange(wire),
        onError: (error) => core.errors.push(error),
      }),
      (lines) => recorded.push(lines),
    )(stream);
    const body = chatBody("x".repeat(100_000));
    const headers = headerMap([[":path", "/v1/chat/completions"]]);
    events.message(encodeRequest({ requestHeaders: { headers } }));
    events.message(encodeRequest({ requestBody: { body: Buffer.from(body), endOfStream: true } }));
    events.message(encodeRequest({ responseHeaders: { headers: headerMap([[":status", "204"]]), endOfStream: true } }));
    events.halfClosed();
    events.closed("cancelled");
    expect(recorded).toHaveLength(1);
    const about = { about: "a test", pool: ["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"], outcome: "complete" };
    const recording = parseRecording(formatRecording({ about, lines: recorded[0]! }));
    expect(recording.lines.map((line) => replyKind(line) ?? ("event" in line ? line.event : "message"))).toEqual([
      "message",
      "message",
      "requestHeaders",
      "requestBody",
      "requestBody",
      "message",
      "responseHeaders",
      "half-close",
      "reset",
    ]);
    const h = play(recording);
    expectLegal(recording, h);
    expect(h.stream.messages().map(decodeResponse).length).toBe(stream.messages().length);
    expect(stream.breaches).toEqual([]);
  });

  it("has a player that notices a message that was lost", () => {
    const recording = loadRecording("http1-chat");
    const lines = recording.lines.filter((_, i) => i !== 3);
    expect(() => expectLegal(recording, play({ ...recording, lines }))).toThrow();
  });
});
